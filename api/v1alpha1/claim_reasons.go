package v1alpha1

// Reasons of HostClaimed besides those in conditions.go. What a machine without a host waits for is told by the reason of HostClaimed, and its
// HostBooted says WaitingForHost: no boot failed. A boot that failed has HostClaimed True, and the failure as the reason of HostBooted.
const (
	// ReasonWaitingForFormerHost means that the machine asks for a host of its owner again (reuseHost), and one is being released; the
	// message names it.
	ReasonWaitingForFormerHost = "WaitingForFormerHost"
)

// Reasons of Ready of a BareMetalMachineTemplate.
const (
	// ReasonHostsMatch means that there are hosts that machines of the template can have.
	ReasonHostsMatch = "HostsMatch"
	// ReasonNoHostMatches means that there is no host that machines of the template can have; the message counts what excluded how many.
	ReasonNoHostMatches = "NoHostMatches"
)
