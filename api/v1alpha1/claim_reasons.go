package v1alpha1

// Reasons of HostClaimed, in addition to those in conditions.go. For a machine without a host the reason is what it waits for, and HostBooted has
// the reason WaitingForHost. After a failed boot, HostClaimed is True and the failure is the reason of HostBooted.
const (
	// ReasonWaitingForFormerHost means that the machine has reuseHost, and a host of its owner is being released. The message names the host.
	ReasonWaitingForFormerHost = "WaitingForFormerHost"
)

// Reasons of Ready of a BareMetalMachineTemplate.
const (
	// ReasonHostsMatch means that some hosts match the template.
	ReasonHostsMatch = "HostsMatch"
	// ReasonNoHostMatches means that no host matches the template. The message has the number of hosts that each requirement excludes.
	ReasonNoHostMatches = "NoHostMatches"
)
