package why

import (
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// consistentReasons are the reasons of InspectionConsistent.
var consistentReasons = []Row{
	{
		Reason: v1alpha1.ReasonInspectionConsistent, State: Done,
		Means: "The agent found what the BMC reports and the spec says",
	},
	{
		Reason: v1alpha1.ReasonInspectionContradicts, State: Fault, Next: describeObject,
		Means: "The agent found something else. The message lists it",
		Do:    "Check the cabling and `spec.bmc.address`: the BMC may be that of another server",
		Cause: "the BMC addresses or the cables of two servers are swapped",
	},
}

// preflightReasons are the reasons of PreflightPassed.
var preflightReasons = []Row{
	{
		Reason: v1alpha1.ReasonPreflightPassed, State: Done,
		Means: "Nothing was found",
	},
	{
		Reason: v1alpha1.ReasonPreflightWarnings, State: Fault, Next: describeObject,
		Means: "The message lists what was found, with the remedy: TLS, virtual media that `spec.bootMethods` names and the BMC lacks, open sessions of an iDRAC and the clock by the last inventory, and the interface of `spec.bootMACAddresses`",
		Do:    "Correct it. `bmcctl probe` shows at once what is left",
		Cause: "the server is not set up yet",
	},
}

// healthReasons are the reasons of HardwareHealthy.
var healthReasons = []Row{
	{
		Reason: v1alpha1.ReasonHardwareOK, State: Done,
		Means: "The BMC reports no component that is not healthy",
	},
	{
		Reason: v1alpha1.ReasonHardwareWarning, State: Fault, Next: events,
		Means: "A component has a warning. The message names it",
		Do:    "Plan its replacement",
		Cause: "a part ages, or a threshold was crossed",
	},
	{
		Reason: v1alpha1.ReasonHardwareCritical, State: Fault, Next: events,
		Means: "A component has failed, or is about to fail. Machines do not claim a free host whose server is critical as a whole",
		Do:    "[Replace it](../guides/replace-and-decommission.md)",
		Cause: "a part has failed",
	},
	{
		Reason: v1alpha1.ReasonHealthUnknown, State: Done,
		Means: "The BMC reports no health",
	},
}

// nodeReasons are the reasons of NodeMatched, with its status.
var nodeReasons = []Row{
	{
		Reason: v1alpha1.ReasonNodeMatched, State: Done, Lead: "True",
		Means: "The Node was found",
	},
	{
		Reason: v1alpha1.ReasonKubeletVersionDiffers, State: Fault, Lead: "True", Next: describeMachine,
		Means: "Machine only: the kubelet has another version than the Machine",
		Do:    "Check which image `spec.boot` or `spec.image` names",
		Cause: "the image has another version than the Machine",
	},
	{
		Reason: v1alpha1.ReasonNodeProviderIDDiffers, State: Fault, Lead: "False", Next: describeMachine,
		Means: "The Node on the server has another provider ID, so Cluster API does not find it",
		Do:    "Correct the [bootstrap configuration](../guides/bootstrap-providers.md), replace the Machine",
		Cause: "the bootstrap data does not pass the provider ID to the kubelet",
	},
	{
		Reason: v1alpha1.ReasonNodeSystemUUIDDiffers, State: Fault, Lead: "False", Next: editHost,
		Means: "A Node with the machine's provider ID runs on another server",
		Do:    "Check that Node, and `spec.bmc.address`",
		Cause: "spec.bmc.address is the BMC of another server",
	},
}

// providerReasons are the reasons of RunsProvider.
var providerReasons = []Row{
	{
		Reason: v1alpha1.ReasonRunsProvider, State: Done,
		Means: "The provider runs here, so the server is not powered off",
		Do:    "[Move the Pod](../guides/maintain-servers.md#the-providers-own-server)",
	},
	{
		Reason: v1alpha1.ReasonPowerOffAllowed, State: Done,
		Means: "An annotation permits the power-off",
	},
}

// quarantineReasons are the reasons of spec.quarantine.
var quarantineReasons = []Row{
	{
		Reason: v1alpha1.ReasonCleaningByHand, State: Fault, Next: endQuarantine,
		Means: "`spec.cleaningPolicy` is `Manual`",
		Do:    "Wipe the disks",
		Cause: "the policy of the host asks for a person",
	},
	{
		Reason: v1alpha1.ReasonDisksNotErased, State: Fault, Next: endQuarantine,
		Means: "The agent could not [erase the disks](../concepts/host-lifecycle.md#disks), or it is unknown which. The message names them",
		Do:    "Wipe the disks",
		Cause: "a disk is broken, or was removed",
	},
	{
		Reason: v1alpha1.ReasonCleaningFailed, State: Fault, Next: endQuarantine,
		Means: "Virtual media could not be ejected",
		Do:    "Eject them in the BMC",
		Cause: "the BMC keeps a medium that a person inserted",
	},
	{
		Reason: v1alpha1.ReasonReleasedUnfenced, State: Fault, Next: powerStatus,
		Means: "The host was released, and its server may still run",
		Do:    "**Make sure that the server is off**",
		Cause: "the BMC was dead when the machine was deleted",
	},
	{
		Reason: v1alpha1.ReasonRemediationFailed, State: Fault, Next: events,
		Means: "Power cycles did not restore the Node",
		Do:    "Repair the server",
		Cause: "a part of the server is broken",
	},
}
