package why

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// machineReasons are the reasons of a BareMetalMachine, with their condition. It has the reasons of its host too.
var machineReasons = []Row{
	{
		Reason: v1alpha1.ReasonHostClaimed, State: Done, Lead: "`HostClaimed`",
		Means: "The machine has a host",
	},
	{
		Reason: v1alpha1.ReasonWaitingForCluster, State: Waits, Lead: "`HostClaimed`", Usual: time.Minute, Next: describeInfraCluster,
		Means: "The BareMetalCluster is not provisioned",
		Do:    "If it stays, read its conditions",
		Cause: "the BareMetalCluster has no endpoint",
	},
	{
		Reason: v1alpha1.ReasonWaitingForBootstrapData, State: Waits, Lead: "`HostClaimed`", Usual: 5 * time.Minute, Next: describeMachine,
		Means: "The bootstrap data does not exist yet",
		Do:    "If it stays, read the bootstrap object",
		Cause: "the control plane is not initialized yet, or the bootstrap provider reports an error",
	},
	{
		Reason: v1alpha1.ReasonNoHostFits, State: Fault, Lead: "`HostClaimed`", Next: listHosts,
		Means: "No free host fits. The message counts what excludes how many hosts",
		Do:    "[Compare the hosts with what the machine demands](../troubleshooting.md#no-host-fits), then register, free or change one",
		Cause: "all servers that fit are in use",
	},
	{
		Reason: v1alpha1.ReasonWaitingForFormerHost, State: Waits, Lead: "`HostClaimed`", Usual: 15 * time.Minute, Next: listHosts,
		Means: "With `reuseHost`: the named host is being released",
		Do:    "Wait, or put that host into maintenance",
		Cause: "the other machine is still being drained or released",
	},
	{
		Reason: v1alpha1.ReasonBootUnknown, State: Fault, Lead: "`HostClaimed`", Next: describeObject,
		Means: "A server booted for this machine, but `spec.consumerRef` of the host is empty",
		Do:    "Do what the message asks",
		Cause: "a person removed spec.consumerRef of the host",
	},
	{
		Reason: v1alpha1.ReasonHostLost, State: Fault, Lead: "`HostClaimed`", Next: deleteMachine,
		Means: "The machine ran on a host that does not exist any more",
		Do:    "Restore the host, or delete the Machine",
		Cause: "the BareMetalHost was deleted while it was detached",
	},
	{
		Reason: v1alpha1.ReasonDeleting, State: Waits, Lead: "`HostClaimed`", Usual: 15 * time.Minute, Next: describeMachine,
		Means: "The Machine or its Cluster is being deleted",
		Cause: "the Node is being drained",
	},
	{
		Reason: v1alpha1.ReasonWaitingForHost, State: Waits, Lead: "`HostBooted`", Usual: time.Minute, Next: describeObject,
		Means: "The machine has no host",
		Do:    "Read `HostClaimed`",
		Cause: "the condition HostClaimed has the cause",
	},
	{
		Reason: v1alpha1.ReasonWaitingForRelease, State: Waits, Lead: "`Deleting`", Usual: 15 * time.Minute, Next: describeObject,
		Means: "The host is not released yet. The message says what it waits for",
		Do:    "[Find what the deletion waits for](../concepts/host-lifecycle.md#when-a-deletion-waits)",
		Cause: "the server is not confirmed to be off, or its disks are being erased",
	},
}

// clusterReasons are the reasons of a BareMetalCluster, with their condition.
var clusterReasons = []Row{
	{
		Reason: v1alpha1.ReasonEndpointSet, State: Done, Lead: "`ControlPlaneEndpointSet`, `Ready`",
		Means: "The endpoint is known",
	},
	{
		Reason: v1alpha1.ReasonEndpointMissing, State: Fault, Lead: "`ControlPlaneEndpointSet`, `Ready`", Next: editInfraCluster,
		Means: "No endpoint is set, so no machine gets a host",
		Do:    "Set `spec.controlPlaneEndpoint`",
		Cause: "the template of the cluster has no address for its API server",
	},
	{
		Reason: v1alpha1.ReasonEndpointInvalid, State: Fault, Lead: "`ControlPlaneEndpointSet`, `Ready`", Next: describeCluster,
		Means: "The Cluster's endpoint is neither a hostname nor an IP address",
		Do:    "Correct it there",
		Cause: "the address has a typing error",
	},
	{
		Reason: v1alpha1.ReasonEndpointMismatch, State: Fault, Lead: "`ControlPlaneEndpointSet`, `Ready`", Next: describeCluster,
		Means: "The Cluster and the BareMetalCluster have different endpoints",
		Do:    "Restore the Cluster's endpoint, or create a new Cluster",
		Cause: "the endpoint was changed in one of the two objects",
	},
	{
		Reason: v1alpha1.ReasonFailureDomainsFound, State: Done, Lead: "`FailureDomainsReady`",
		Means: "All failure domains have hosts",
	},
	{
		Reason: v1alpha1.ReasonNoFailureDomains, State: Done, Lead: "`FailureDomainsReady`",
		Means: "Neither the hosts nor the spec have a failure domain",
	},
	{
		Reason: v1alpha1.ReasonFailureDomainWithoutHosts, State: Fault, Lead: "`FailureDomainsReady`", Next: listHosts,
		Means: "A failure domain of the spec has no host. The cluster stays Ready",
		Do:    "Correct the name, or register hosts",
		Cause: "the name has a typing error",
	},
	{
		Reason: v1alpha1.ReasonTooManyFailureDomains, State: Fault, Lead: "`FailureDomainsReady`", Next: editInfraCluster,
		Means: "Cluster API accepts 100. The message names the rest",
		Do:    "Name the important ones in the spec",
		Cause: "each server has a failure domain of its own",
	},
	{
		Reason: v1alpha1.ReasonKubeconfigRefused, State: Fault, Lead: "`KubeconfigAccepted`", Next: describeObject,
		Means: "The Secret `CLUSTER-kubeconfig` refers to a file, a program, a proxy or another identity; or its server has an address that is not permitted, or sends more than a cluster with these Machines does. The provider does not connect to the cluster",
		Do:    "The message names the field, [the address](boot-configuration.md#artifacts-bmcs-clusters-and-clusternetworks) or the bound. After a bound was exceeded the provider connects again after ten minutes, or when the Secret changes",
		Cause: "a person replaced the kubeconfig",
	},
}

// remediationReasons are the reasons of Ready of a BareMetalRemediation, with their phase.
var remediationReasons = []Row{
	{
		Reason: v1alpha1.ReasonNetworkPluginMissing, State: Fault, Lead: "`Idle`", Next: describeObject,
		Means: "The Node was never Ready, because its cluster has no network plugin (CNI). No other Node is Ready either. The server is not power-cycled",
		Do:    "Install a CNI plugin",
		Cause: "the cluster is new, and its network plugin was not installed",
	},
	{
		Reason: v1alpha1.ReasonHostNotReady, State: Waits, Lead: "`Idle`", Next: describeObject,
		Means: "The state of the host, or another power hold, prevents the remediation",
		Do:    "Read the message",
		Cause: "the host boots, is paused, or has a power hold",
	},
	{
		Reason: v1alpha1.ReasonMaintenance, State: Waits, Lead: "`Idle`", Next: describeHost,
		Means: "The host is in maintenance",
		Do:    "Run `kubectl baremetal maintenance end` after the work",
		Cause: "a person works on the server",
	},
	{
		Reason: v1alpha1.ReasonWaitingForHost, State: Waits, Lead: "`Idle`", Usual: 5 * time.Minute, Next: describeMachine,
		Means: "The machine has no host yet",
		Do:    "Read `HostClaimed` of the machine",
		Cause: "no host fits the machine",
	},
	{
		Reason: v1alpha1.ReasonHostLost, State: Fault, Lead: "`Idle`", Next: deleteMachine,
		Means: "No host has the machine",
		Do:    "Restore the host, or delete the Machine",
		Cause: "the BareMetalHost was deleted while it was detached",
	},
	{
		Reason: v1alpha1.ReasonNodeHealthy, State: Done, Lead: "`Idle`",
		Means: "The Machine is not unhealthy, and its Node is Ready or cannot be read",
	},
	{
		Reason: v1alpha1.ReasonMachineNotFound, State: Fault, Lead: "`Idle`", Next: describeObject,
		Means: "The Machine, BareMetalMachine or Cluster does not exist",
		Do:    "Delete the remediation",
		Cause: "the Machine was deleted",
	},
	{
		Reason: v1alpha1.ReasonMachineDeleting, State: Waits, Lead: "`Idle`", Usual: 15 * time.Minute, Next: describeMachine,
		Means: "The Machine is being deleted",
		Cause: "the Node is being drained",
	},
	{
		Reason: v1alpha1.ReasonPoweringOff, State: Waits, Lead: "`PoweringOff`", Usual: 5 * time.Minute, Next: powerStatus,
		Means: "The server is being powered off, or its Pods and volumes move",
		Do:    "Wait",
		Cause: "the BMC does not carry out the power-off, or a volume is not detached",
	},
	{
		Reason: v1alpha1.ReasonPoweringOn, State: Waits, Lead: "`PoweringOn`", Usual: 5 * time.Minute, Next: powerStatus,
		Means: "The server is being powered on",
		Do:    "Wait",
		Cause: "the BMC does not carry out the power-on",
	},
	{
		Reason: v1alpha1.ReasonWaitingForNode, State: Waits, Lead: "`Waiting`", Usual: 10 * time.Minute, Next: describeMachine,
		Means: "The server is on, and its Node is not healthy yet",
		Do:    "Wait",
		Cause: "the self-test of the server takes long, or the kubelet does not start",
	},
	{
		Reason: v1alpha1.ReasonTaintLeft, State: Fault, Lead: "`Waiting`", Next: describeMachine,
		Means: "The taint must be removed, but the workload cluster does not answer",
		Do:    "Restore that cluster, or delete the Machine",
		Cause: "the API server of the workload cluster is down",
	},
	{
		Reason: v1alpha1.ReasonRecovered, State: Done, Lead: "`Recovered`",
		Means: "The Node is healthy again",
	},
	{
		Reason: v1alpha1.ReasonHandedOver, State: Fault, Lead: "`HandedOver`", Next: deleteMachine,
		Means: "The owner of the Machine was asked to replace it",
		Do:    "Delete a Machine that has no owner",
		Cause: "power cycles did not restore the Node",
	},
}
