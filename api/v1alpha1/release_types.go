package v1alpha1

// The annotations with which a user ends what would otherwise wait indefinitely. Their value is who wants it and why; conditions, events and
// the quarantine quote it.
const (
	// DetachedAnnotation detaches a host: its BMC gets no requests, and the boot server serves it nothing. Its object can be deleted and recreated without
	// an effect on the server, even while a machine has it.
	DetachedAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/detached"
	// ReleaseUnfencedAnnotation force-releases a host whose machine is being deleted or is gone, without power-off and cleaning. The host goes into
	// quarantine: the server may still run the machine. The provider removes the annotation from any other host that a machine has.
	ReleaseUnfencedAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/release-unfenced"
)

// Reasons of the conditions and quarantines of a host that is detached or released.
const (
	// ReasonDetached means that a user detached the host.
	ReasonDetached = "Detached"
	// ReasonCleaning means that the provider is removing what the machine left behind.
	ReasonCleaning = "Cleaning"
	// ReasonCleaningFailed means that the provider could not remove what the machine left behind.
	ReasonCleaningFailed = "CleaningFailed"
	// ReasonCleaningByHand means that the host's cleaningPolicy is Manual: a person must clean the server.
	ReasonCleaningByHand = "CleaningByHand"
	// ReasonDisksNotErased means that the agent could not erase what the machine left on the disks.
	ReasonDisksNotErased = "DisksNotErased"
	// ReasonCleaningPolicyNotPossible means that the host is to be purged after each machine, and that it has a disk that cannot be purged.
	ReasonCleaningPolicyNotPossible = "CleaningPolicyNotPossible"
	// ReasonErasureNotRecorded means that the disks were erased and that the BareMetalErasure could not be written yet. The host stays until it is.
	ReasonErasureNotRecorded = "ErasureNotRecorded"
	// ReasonErasurePending means that the disks will be erased for a BareMetalErasureRequest, before machines can claim the host.
	ReasonErasurePending = "ErasurePending"
	// ReasonErasureRefused means that something forbids the erasure that a BareMetalErasureRequest requests.
	ReasonErasureRefused = "ErasureRefused"
	// ReasonErasing means that the agent erases the disks for a BareMetalErasureRequest.
	ReasonErasing = "Erasing"
	// ReasonConsumerMissing means that the host has no consumerRef, but a machine has the provider ID of the host.
	ReasonConsumerMissing = "ConsumerMissing"
	// ReasonReleasedUnfenced means that the host was released although its server was not confirmed to be off.
	ReasonReleasedUnfenced = "ReleasedUnfenced"
)
