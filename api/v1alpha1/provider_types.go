package v1alpha1

// PowerOffProviderAnnotation on a host allows the provider to power off the server that the provider itself runs on. Its value is who wants it and why.
// It applies until a user removes it.
const PowerOffProviderAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/power-off-provider"

// RunsProviderCondition is True for a host whose server runs the provider: the process that leads and runs the controllers. The provider does not
// power off that server. All other hosts do not have the condition, and Ready does not depend on it.
const RunsProviderCondition = "RunsProvider"

// Reasons of RunsProvider. Booted and Available have them too while the provider does not power off the server because of it.
const (
	// ReasonRunsProvider means that the provider runs on this server and does not power it off.
	ReasonRunsProvider = "RunsProvider"
	// ReasonPowerOffAllowed means that the provider runs on this server and may power it off, because a user allowed it.
	ReasonPowerOffAllowed = "PowerOffAllowed"
)
