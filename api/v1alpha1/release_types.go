package v1alpha1

// The annotations with which a person ends what would wait for ever. Their value says who wants it, and why: it is found again in conditions,
// events and in the quarantine.
const (
	// DetachedAnnotation on a host makes the provider take its hands off it: the BMC gets no request, and the boot server gives it nothing. Its
	// object may be deleted, and made anew, without a touch of the server, also while a machine has it.
	DetachedAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/detached"
	// ReleaseUnfencedAnnotation on a host whose machine is being deleted, or is gone, lets the host go without a power-off and a cleaning,
	// into quarantine: the server may still run the machine. On any other host that a machine has it is taken away.
	ReleaseUnfencedAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/release-unfenced"
)

// Reasons of the conditions and quarantines of a host that is let go.
const (
	// ReasonDetached means that a person told the provider to take its hands off the host.
	ReasonDetached = "Detached"
	// ReasonCleaning means that what the machine left behind is being removed.
	ReasonCleaning = "Cleaning"
	// ReasonCleaningFailed means that what the machine left behind could not be removed.
	ReasonCleaningFailed = "CleaningFailed"
	// ReasonCleaningByHand means that the host's cleaningPolicy leaves the cleaning to a person.
	ReasonCleaningByHand = "CleaningByHand"
	// ReasonConsumerMissing means that nobody has the host, and a machine has its provider ID.
	ReasonConsumerMissing = "ConsumerMissing"
	// ReasonReleasedUnfenced means that the host was let go although it was not confirmed that its server is off.
	ReasonReleasedUnfenced = "ReleasedUnfenced"
)

// CleaningPolicy says what is done before a server is offered again after a machine had it.
// +kubebuilder:validation:Enum=None;Manual
type CleaningPolicy string

// The cleaning policies.
const (
	// CleaningNone wipes no disk: what a machine wrote to the server's disks stays there. The server is offered again when it was confirmed to
	// be off, and its BMC has no boot override and no virtual media. That suffices for a machine that ran from memory. The next machine boots
	// from the network, so only spec.power: On, or a person, boots what is on the disks.
	CleaningNone CleaningPolicy = "None"
	// CleaningManual wipes no disk either, and puts the host into quarantine, which a person removes when the disks were wiped.
	CleaningManual CleaningPolicy = "Manual"
)
