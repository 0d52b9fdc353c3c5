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
		Means: "The message lists what was found, with the remedy: TLS, virtual media that `spec.bootMethods` names and the BMC lacks, open sessions of an iDRAC and the clock by the last inventory, Secure Boot that `spec.bootMode` declares and the firmware has disabled, and the interface of `spec.bootMACAddresses`",
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
		Reason: v1alpha1.ReasonDiskUnhealthy, State: Fault, Next: events,
		Means: "A disk has failed, or is about to fail. The message names its slot and serial number",
		Do:    "[Replace it](../guides/replace-and-decommission.md). The agent erases a disk that still answers at the release",
		Cause: "a disk wears out, or its backplane has a fault",
	},
	{
		Reason: v1alpha1.ReasonVolumeUnhealthy, State: Fault, Next: events,
		Means: "A volume of a RAID controller is degraded or has failed",
		Do:    "Replace its disk, and watch the rebuild in the BMC",
		Cause: "a disk of the volume has failed",
	},
	{
		Reason: v1alpha1.ReasonMemoryUnhealthy, State: Fault, Next: events,
		Means: "A memory module has errors. The message names its slot and serial number",
		Do:    "Move it to another slot to see whether the slot or the module is at fault, then [replace it](../guides/replace-and-decommission.md)",
		Cause: "correctable errors of the module exceeded a limit",
	},
	{
		Reason: v1alpha1.ReasonCPUUnhealthy, State: Fault, Next: events,
		Means: "A processor has a fault",
		Do:    "[Replace the server](../guides/replace-and-decommission.md) or the processor",
		Cause: "the processor reported machine check errors",
	},
	{
		Reason: v1alpha1.ReasonPowerSupplyUnhealthy, State: Fault, Next: events,
		Means: "A power supply has failed, or has no input",
		Do:    "Check its cable and the fuse of its feed, then replace it",
		Cause: "the feed of the power supply is off",
	},
	{
		Reason: v1alpha1.ReasonFanUnhealthy, State: Fault, Next: events,
		Means: "A fan has failed, or is too slow",
		Do:    "Replace it, and check the air flow",
		Cause: "the fan wears out",
	},
	{
		Reason: v1alpha1.ReasonTemperatureUnhealthy, State: Fault, Next: events,
		Means: "A temperature crossed a threshold",
		Do:    "Check the air inlet, the fans and the load",
		Cause: "the air at the inlet is too warm",
	},
	{
		Reason: v1alpha1.ReasonVoltageUnhealthy, State: Fault, Next: events,
		Means: "A voltage, a current or the power crossed a threshold",
		Do:    "Check the power supplies and their feed. The log of the BMC names the rail",
		Cause: "a power supply or the board has a fault",
	},
	{
		Reason: v1alpha1.ReasonNICUnhealthy, State: Fault, Next: events,
		Means: "A network interface that is enabled and has a link has a fault",
		Do:    "Check the cable, the transceiver and the switch port",
		Cause: "the transceiver or the cable has a fault",
	},
	{
		Reason: v1alpha1.ReasonDeviceUnhealthy, State: Fault, Next: events,
		Means: "A GPU or another device has a fault",
		Do:    "[Replace it](../guides/replace-and-decommission.md)",
		Cause: "the device has failed",
	},
	{
		Reason: v1alpha1.ReasonBMCUnhealthy, State: Fault, Next: events,
		Means: "The BMC itself has a fault, such as a failed self-test",
		Do:    "Restart the BMC. If it stays, update its firmware",
		Cause: "the BMC needs a restart",
	},
	{
		Reason: v1alpha1.ReasonChassisUnhealthy, State: Fault, Next: events,
		Means: "The chassis has a fault, and no part explains it",
		Do:    "Read the log of the BMC",
		Cause: "the case is open, or a part that the BMC does not list has a fault",
	},
	{
		Reason: v1alpha1.ReasonServerUnhealthy, State: Fault, Next: events,
		Means: "The server as a whole has a fault, and no part explains it. Machines do not claim a free host whose server is critical as a whole",
		Do:    "Read the log of the BMC",
		Cause: "a part that the BMC does not list has a fault",
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
		Reason: v1alpha1.ReasonCleaningByHand, State: Fault, Next: describeObject,
		Means: "`spec.cleaningPolicy` is `Manual`",
		Do:    "Wipe the disks",
		Cause: "the policy of the host asks for a person",
	},
	{
		Reason: v1alpha1.ReasonDisksNotErased, State: Fault, Next: events,
		Means: "The agent could not [erase the disks](../concepts/host-lifecycle.md#disks), or it is unknown which. The message names them",
		Do:    "Wipe the disks",
		Cause: "a disk is broken, or was removed",
	},
	{
		Reason: v1alpha1.ReasonCleaningFailed, State: Fault, Next: events,
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
