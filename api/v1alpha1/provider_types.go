package v1alpha1

// PowerOffProviderAnnotation on a host lets the provider power the server off that it runs on itself. Its value says who wants that, and why. It holds
// until somebody removes it.
const PowerOffProviderAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/power-off-provider"

// RunsProviderCondition is True for a host on whose server the provider runs: the process with the controllers that lead. The provider does not power that
// server off. The condition is absent on all other hosts, and Ready does not depend on it.
const RunsProviderCondition = "RunsProvider"

// Reasons of RunsProvider, and of Booted and Available where the server is not powered off because of it.
const (
	// ReasonRunsProvider means that the provider runs on this server, and does not power it off.
	ReasonRunsProvider = "RunsProvider"
	// ReasonPowerOffAllowed means that the provider runs on this server, and powers it off all the same where that is to be done: a person wants it.
	ReasonPowerOffAllowed = "PowerOffAllowed"
)
