package v1alpha1

// ReadyCondition is True when all the other conditions of the object are well. Every kind has it; on a machine and on a
// cluster it is what Cluster API mirrors as InfrastructureReady.
const ReadyCondition = "Ready"

// Conditions of a BareMetalHost.
const (
	// BMCReadyCondition is True when the BMC answered the last request.
	BMCReadyCondition = "BMCReady"
	// VerifiedCondition is True when the server's inventory was read, its BMC can do what a network boot needs, and its MAC address
	// and its BMC belong to no other host.
	VerifiedCondition = "Verified"
	// AvailableCondition is True when a machine can claim the host.
	AvailableCondition = "Available"
	// BootedCondition is True when the host runs the machine that has it. It is absent while no machine has the host.
	BootedCondition = "Booted"
	// BootProgressCondition says what was last seen of a boot, what is awaited until when, and the likeliest cause if it does not come.
	// It is True when the boot is complete, and absent before a boot began for the machine that has the host.
	BootProgressCondition = "BootProgress"
)

// Conditions of a BareMetalMachine.
const (
	// HostClaimedCondition is True when the machine has a host.
	HostClaimedCondition = "HostClaimed"
	// HostBootedCondition is True when the machine's host runs it.
	HostBootedCondition = "HostBooted"
	// NodeMatchedCondition is True when the Node of the machine was found in its cluster, and False when the host runs a Node that is not the machine's.
	// It is absent before. Ready does not depend on it. A BareMetalHost has it too while a machine has the host.
	NodeMatchedCondition = "NodeMatched"
	// DeletingCondition says what the deletion of the machine waits for.
	DeletingCondition = "Deleting"
)

// ControlPlaneEndpointSetCondition is True when the cluster's control plane endpoint is known.
const ControlPlaneEndpointSetCondition = "ControlPlaneEndpointSet"

// Reasons of BMCReady.
const (
	// ReasonBMCReachable means that the BMC answered the last request.
	ReasonBMCReachable = "Reachable"
	// ReasonBMCUnknown means that the BMC has not been asked yet.
	ReasonBMCUnknown = "NotAsked"
	// ReasonCredentialsMissing means that the credentials or CA Secret, or a key in it, is not there.
	ReasonCredentialsMissing = "CredentialsMissing"
	// ReasonCredentialsNotLabeled means that a Secret of spec.bmc has no label that says that it is for BMCs. It is not read.
	ReasonCredentialsNotLabeled = "CredentialsNotLabeled"
	// ReasonCredentialsNotForBMC means that the credentials Secret names the BMCs that it is for, and the host's is none of them.
	ReasonCredentialsNotForBMC = "CredentialsNotForBMC"
	// ReasonCredentialsRefused means that the BMC refused the username or the password.
	ReasonCredentialsRefused = "CredentialsRefused"
	// ReasonBMCUnreachable means that the BMC does not answer.
	ReasonBMCUnreachable = "Unreachable"
	// ReasonCertificateInvalid means that the BMC's certificate does not verify.
	ReasonCertificateInvalid = "CertificateInvalid"
	// ReasonSystemNotFound means that the BMC does not manage the system named, or manages several and none is named.
	ReasonSystemNotFound = "SystemNotFound"
	// ReasonBMCUnsupported means that the BMC cannot do what was asked.
	ReasonBMCUnsupported = "Unsupported"
	// ReasonBMCError means that the BMC answered with an error.
	ReasonBMCError = "BMCError"
)

// Reasons of Verified and Available.
const (
	// ReasonVerified means that the host is what its spec says.
	ReasonVerified = "Verified"
	// ReasonCapabilityMissing means that the BMC does not offer what a network boot needs.
	ReasonCapabilityMissing = "CapabilityMissing"
	// ReasonInspecting means that the inventory is being read.
	ReasonInspecting = "Inspecting"
	// ReasonMACConflict means that the boot MAC address is that of another host, which keeps it.
	ReasonMACConflict = "MACConflict"
	// ReasonBMCConflict means that the BMC is that of another host, which keeps it. This host's BMC is not asked. It is a reason of BMCReady too.
	ReasonBMCConflict = "BMCConflict"
	// ReasonHardwareConflict means that the BMC of another host, which keeps them, reported the same system UUID and serial number.
	ReasonHardwareConflict = "HardwareConflict"
	// ReasonServerReplaced means that the BMC reports another system UUID or serial number than the inventory has.
	ReasonServerReplaced = "ServerReplaced"
	// ReasonNotPermitted means that the configuration of the provider does not permit the host's namespace its boot MAC address or its BMC.
	ReasonNotPermitted = "NotPermitted"
	// ReasonAvailable means that a machine can claim the host.
	ReasonAvailable = "Available"
	// ReasonClaimed means that a machine has the host.
	ReasonClaimed = "Claimed"
	// ReasonNotVerified means that the host is not verified.
	ReasonNotVerified = "NotVerified"
	// ReasonPoweredOn means that the server runs and nobody said that it may be powered off.
	ReasonPoweredOn = "PoweredOn"
	// ReasonPowerChanging means that the server's power is being brought to what the spec says, or that the server is powering on or off.
	ReasonPowerChanging = "PowerChanging"
	// ReasonMaintenance means that a person works on the host.
	ReasonMaintenance = "Maintenance"
	// ReasonQuarantined means that something went wrong with the host.
	ReasonQuarantined = "Quarantined"
	// ReasonExternallyProvisioned means that something else runs the host.
	ReasonExternallyProvisioned = "ExternallyProvisioned"
	// ReasonDeleting means that the object is being deleted.
	ReasonDeleting = "Deleting"
)

// Reasons of Booted, BootProgress and HostBooted.
const (
	// ReasonBooted means that the host reported in.
	ReasonBooted = "Booted"
	// ReasonPaused means that the object or its Cluster is paused.
	ReasonPaused = "Paused"
	// ReasonConsumerNotFound means that the machine named by consumerRef is not there.
	ReasonConsumerNotFound = "ConsumerNotFound"
	// ReasonClusterNotFound means that the Cluster of the machine is not there.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonConsumerConflict means that the machine has another host too.
	ReasonConsumerConflict = "ConsumerConflict"
	// ReasonBootUnknown means that the BareMetalBoot of the host is missing, or is not that of the claim: what the server was given is not known.
	ReasonBootUnknown = "BootUnknown"
	// ReasonWaitingForBootstrapData means that the bootstrap provider has not written the bootstrap data yet.
	ReasonWaitingForBootstrapData = "WaitingForBootstrapData"
	// ReasonWaitingForBootSlot means that as many hosts of the failure domain boot already as may at once: the message has the place in the line.
	ReasonWaitingForBootSlot = "WaitingForBootSlot"
	// ReasonWaitingForBMC means that the BMC does not answer; BMCReady says why.
	ReasonWaitingForBMC = "WaitingForBMC"
	// ReasonPreparing means that the attempt is being prepared: power off, boot override, power on.
	ReasonPreparing = "Preparing"
	// ReasonWaitingForDHCP means that the server was powered on and has not asked for a boot file.
	ReasonWaitingForDHCP = "WaitingForDHCP"
	// ReasonWaitingForLoader means that the server was told its boot file and has not fetched it.
	ReasonWaitingForLoader = "WaitingForLoader"
	// ReasonWaitingForNetworkSlot means that as many servers of the network boot already as may at once: the server asks for its script again and again.
	ReasonWaitingForNetworkSlot = "WaitingForNetworkSlot"
	// ReasonWaitingForScript means that the boot loader has not fetched the script.
	ReasonWaitingForScript = "WaitingForScript"
	// ReasonWaitingForKernel means that the boot loader has not fetched the kernel.
	ReasonWaitingForKernel = "WaitingForKernel"
	// ReasonWaitingForSeed means that the operating system has not fetched its bootstrap data.
	ReasonWaitingForSeed = "WaitingForSeed"
	// ReasonWaitingForReport means that the operating system has not reported in.
	ReasonWaitingForReport = "WaitingForReport"
	// ReasonWaitingForMachine means that the host reported in and the machine has not taken note of it.
	ReasonWaitingForMachine = "WaitingForMachine"
	// ReasonChecksumMismatch means that a kernel or initrd is not the file that its checksum names.
	ReasonChecksumMismatch = "ChecksumMismatch"
	// ReasonArtifactUnavailable means that a kernel or initrd cannot be fetched.
	ReasonArtifactUnavailable = "ArtifactUnavailable"
	// ReasonCommandLineTooLong means that the kernel would cut off the command line.
	ReasonCommandLineTooLong = "CommandLineTooLong"
	// ReasonBootSourceInvalid means that no boot script can be made of the machine's spec.boot for its host.
	ReasonBootSourceInvalid = "BootSourceInvalid"
	// ReasonBootstrapDataInvalid means that the bootstrap Secret has a format, or holds data, that no host can be given.
	ReasonBootstrapDataInvalid = "BootstrapDataInvalid"
	// ReasonBootstrapDataUnavailable means that the bootstrap Secret is gone, has no value, or may not be read.
	ReasonBootstrapDataUnavailable = "BootstrapDataUnavailable"
	// ReasonNoAddress means that DHCP has no address for the server.
	ReasonNoAddress = "NoAddress"
	// ReasonSecondRequester means that two clients asked for the script or the bootstrap data of one attempt.
	ReasonSecondRequester = "SecondRequester"
	// ReasonBootTimedOut means that the last attempt came to its deadline.
	ReasonBootTimedOut = "BootTimedOut"
	// ReasonStateLost means that a machine that ran from memory was powered off or restarted.
	ReasonStateLost = "StateLost"
	// ReasonBootstrapFailed means that the operating system is up and told that its bootstrap data could not be carried out.
	ReasonBootstrapFailed = "BootstrapFailed"
	// ReasonRestarted means that firmware asked for a network boot although the machine runs from memory, while its Node is not known to
	// be lost.
	ReasonRestarted = "Restarted"
	// ReasonReleasing means that the host is being powered off and cleaned.
	ReasonReleasing = "Releasing"
)

// Reasons of NodeMatched.
const (
	// ReasonNodeMatched means that the Node of the machine was found.
	ReasonNodeMatched = "NodeMatched"
	// ReasonNodeProviderIDDiffers means that the host's server runs a Node with the provider ID of something else: Cluster API does not find it.
	ReasonNodeProviderIDDiffers = "NodeProviderIDDiffers"
	// ReasonNodeSystemUUIDDiffers means that a Node has the machine's provider ID and runs on another server.
	ReasonNodeSystemUUIDDiffers = "NodeSystemUUIDDiffers"
	// ReasonKubeletVersionDiffers means that the Node was found, and its kubelet has another version than the Machine asks for.
	ReasonKubeletVersionDiffers = "KubeletVersionDiffers"
)

// Reasons of HostClaimed and Deleting, and of ControlPlaneEndpointSet.
const (
	// ReasonHostClaimed means that the machine has a host.
	ReasonHostClaimed = "HostClaimed"
	// ReasonWaitingForCluster means that the cluster's infrastructure is not provisioned yet.
	ReasonWaitingForCluster = "WaitingForClusterInfrastructure"
	// ReasonNoHostFits means that no free host fits the machine; the message counts what excluded how many.
	ReasonNoHostFits = "NoHostFits"
	// ReasonHostLost means that the machine was provisioned and no host names it as its consumer.
	ReasonHostLost = "HostLost"
	// ReasonWaitingForHost means that the machine has no host yet.
	ReasonWaitingForHost = "WaitingForHost"
	// ReasonWaitingForRelease means that the host is not released yet.
	ReasonWaitingForRelease = "WaitingForRelease"
	// ReasonEndpointSet means that the control plane endpoint is known.
	ReasonEndpointSet = "EndpointSet"
	// ReasonEndpointMissing means that neither the BareMetalCluster nor the Cluster has a control plane endpoint.
	ReasonEndpointMissing = "EndpointMissing"
)

// Reasons of events on a host that are those of no condition.
const (
	// ReasonAddressConflict means that somebody else uses the address that DHCP gave the server.
	ReasonAddressConflict = "AddressConflict"
	// ReasonReservationUnused means that none of the host's bootAddresses is in the network that it asked for an address in.
	ReasonReservationUnused = "ReservationUnused"
)

// MoveLabel on a CRD or an object makes `clusterctl move` take it along.
const MoveLabel = "clusterctl.cluster.x-k8s.io/move"

// BMCSecretLabel on a Secret says that its keys username, password and ca.crt are for BMCs. The provider reads no other Secret for a host: it
// sends the credentials to the address in spec.bmc, and a user who may write hosts may not be allowed to read Secrets. The value of the label has no meaning.
const BMCSecretLabel = "baremetalhost.infrastructure.cluster.x-k8s.io/bmc-secret"

// BMCHostsAnnotation on a credentials Secret lists the BMCs that its credentials may be sent to: the host names or IP addresses of spec.bmc.address, separated
// by commas. Without it they may be sent to any.
const BMCHostsAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/bmc-hosts"

// ConfirmServerAnnotation on a host confirms that its server was replaced. Its value stands for the system UUID and the serial number of the new server: the
// message of the condition Verified has it.
const ConfirmServerAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/confirm-server"

// SharedHardwareAnnotation on a host says that its board has the system UUID and the serial number of another host's board, and is another one all the same. Its
// value may say who found that out.
const SharedHardwareAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/shares-hardware-id"

// DeleteForMoveAnnotation marks an object that `clusterctl move` deletes after it was copied: it lives on elsewhere.
const DeleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"

// RetryBMCAnnotation on a host makes the provider ask its BMC now, also while it leaves it alone after a refused login or another
// fault. Its value may say who wants it; the provider removes it when the BMC is asked.
const RetryBMCAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/retry-bmc"

// BlockMoveAnnotation keeps `clusterctl move` waiting while a boot is under way.
const BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"
