package v1alpha1

// ReadyCondition summarises the other conditions of an object and is True when none of them prevents its use. Cluster API mirrors the condition of a
// machine and of a cluster as InfrastructureReady.
const ReadyCondition = "Ready"

// Conditions of a BareMetalHost.
const (
	// BMCReadyCondition is True when the BMC answered the last request.
	BMCReadyCondition = "BMCReady"
	// VerifiedCondition is True when the inventory of the server was read, its BMC supports what a network boot needs, and no conflict keeps the host from
	// using its MAC address, its BMC or its hardware identity.
	VerifiedCondition = "Verified"
	// AvailableCondition is True when a machine can claim the host.
	AvailableCondition = "Available"
	// BootedCondition is True when the host runs its machine. It is absent while no machine has the host.
	BootedCondition = "Booted"
	// InspectionConsistentCondition is True when what the agent found does not contradict what the BMC reports and the spec says, and False when it does, or when
	// the inspection failed. It is absent for a host without an inspection by the agent. Ready does not depend on it.
	InspectionConsistentCondition = "InspectionConsistent"
	// PreflightPassedCondition is False when something should be corrected at the server or its BMC before it gets work, such as network boot that is disabled for
	// spec.bootMACAddresses, or a clock that is wrong. It is absent before the first inventory. Ready does not depend on it.
	PreflightPassedCondition = "PreflightPassed"
	// HardwareHealthyCondition is False when the BMC reports that the server, or one of its parts, is not healthy. It is
	// Unknown when the BMC reports no health, and absent before the first inventory. Ready does not depend on it: a machine cannot claim a host with critical
	// health, and a claimed host stays Ready.
	HardwareHealthyCondition = "HardwareHealthy"
	// BootProgressCondition describes the last stage of a boot, what the boot waits for and until when, and the likeliest cause of a delay. It is True
	// when the boot has completed, and absent before the first boot for the machine that has the host.
	BootProgressCondition = "BootProgress"
)

// Conditions of a BareMetalMachine.
const (
	// HostClaimedCondition is True when the machine has a host.
	HostClaimedCondition = "HostClaimed"
	// HostBootedCondition is True when the machine's host runs the machine.
	HostBootedCondition = "HostBooted"
	// NodeMatchedCondition is True when the Node of the machine was found in its cluster, and False when the host runs a Node that is not the machine's.
	// It is absent until one of these is known. Ready does not depend on it. A BareMetalHost has the condition while a machine has the host.
	NodeMatchedCondition = "NodeMatched"
	// DeletingCondition describes what the deletion of the machine waits for.
	DeletingCondition = "Deleting"
)

// ControlPlaneEndpointSetCondition is True when the cluster's control plane endpoint is known.
const ControlPlaneEndpointSetCondition = "ControlPlaneEndpointSet"

// Reasons of BMCReady.
const (
	// ReasonBMCReachable means that the BMC answered the last request.
	ReasonBMCReachable = "Reachable"
	// ReasonBMCNotContacted means that the provider has not contacted the BMC yet.
	ReasonBMCNotContacted = "NotContacted"
	// ReasonCredentialsMissing means that the credentials Secret, the CA Secret or a key in one of them does not exist.
	ReasonCredentialsMissing = "CredentialsMissing"
	// ReasonCredentialsNotLabeled means that a Secret in spec.bmc does not have the label BMCSecretLabel. The provider does not read it.
	ReasonCredentialsNotLabeled = "CredentialsNotLabeled"
	// ReasonCredentialsNotForBMC means that the credentials Secret has the annotation BMCHostsAnnotation, and the host's BMC is not in its list.
	ReasonCredentialsNotForBMC = "CredentialsNotForBMC"
	// ReasonCredentialsRefused means that the BMC refused the username or the password.
	ReasonCredentialsRefused = "CredentialsRefused"
	// ReasonBMCUnreachable means that the BMC does not answer.
	ReasonBMCUnreachable = "Unreachable"
	// ReasonCertificateInvalid means that the verification of the BMC's certificate failed.
	ReasonCertificateInvalid = "CertificateInvalid"
	// ReasonSystemNotFound means that the BMC does not manage the system in spec.bmc.address, or that it manages several and the address names no system.
	ReasonSystemNotFound = "SystemNotFound"
	// ReasonBMCUnsupported means that the BMC does not support the request.
	ReasonBMCUnsupported = "Unsupported"
	// ReasonBMCError means that the BMC returned an error.
	ReasonBMCError = "BMCError"
)

// Reasons of Verified and Available.
const (
	// ReasonVerified means that the server matches the spec of the host.
	ReasonVerified = "Verified"
	// ReasonCapabilityMissing means that the BMC does not support what a network boot needs.
	ReasonCapabilityMissing = "CapabilityMissing"
	// ReasonInspecting means that the provider is reading the inventory.
	ReasonInspecting = "Inspecting"
	// ReasonMACConflict means that another host has the same boot MAC address and keeps it.
	ReasonMACConflict = "MACConflict"
	// ReasonBMCConflict means that another host has the same BMC and keeps it. The provider sends no requests to the BMC for this host. It is also a
	// reason of BMCReady.
	ReasonBMCConflict = "BMCConflict"
	// ReasonHardwareConflict means that the BMC of another host reported the same system UUID and serial number, and the other host keeps them.
	ReasonHardwareConflict = "HardwareConflict"
	// ReasonServerReplaced means that the BMC reports a system UUID or serial number other than those in the inventory.
	ReasonServerReplaced = "ServerReplaced"
	// ReasonNotPermitted means that the configuration of the provider does not permit the boot MAC address or the BMC in the host's namespace.
	ReasonNotPermitted = "NotPermitted"
	// ReasonAvailable means that a machine can claim the host.
	ReasonAvailable = "Available"
	// ReasonClaimed means that a machine has the host.
	ReasonClaimed = "Claimed"
	// ReasonNotVerified means that the host is not verified.
	ReasonNotVerified = "NotVerified"
	// ReasonPoweredOn means that the server is running and spec.power does not allow the provider to power it off.
	ReasonPoweredOn = "PoweredOn"
	// ReasonPowerChanging means that the provider is changing the power state to spec.power, or that the server is powering on or off.
	ReasonPowerChanging = "PowerChanging"
	// ReasonMaintenance means that the host is in maintenance.
	ReasonMaintenance = "Maintenance"
	// ReasonQuarantined means that something went wrong with the server.
	ReasonQuarantined = "Quarantined"
	// ReasonExternallyProvisioned means that something other than this provider runs the server.
	ReasonExternallyProvisioned = "ExternallyProvisioned"
	// ReasonDeleting means that the object is being deleted.
	ReasonDeleting = "Deleting"
)

// Reasons of Booted, BootProgress and HostBooted.
const (
	// ReasonBooted means that the operating system of the host reported that it is running.
	ReasonBooted = "Booted"
	// ReasonPaused means that the object or its Cluster is paused.
	ReasonPaused = "Paused"
	// ReasonConsumerNotFound means that the machine in consumerRef does not exist.
	ReasonConsumerNotFound = "ConsumerNotFound"
	// ReasonClusterNotFound means that the Cluster of the machine does not exist.
	ReasonClusterNotFound = "ClusterNotFound"
	// ReasonConsumerConflict means that the machine also has another host.
	ReasonConsumerConflict = "ConsumerConflict"
	// ReasonBootUnknown means that the BareMetalBoot of the host is missing or belongs to another claim. So it is unknown what the server was given.
	ReasonBootUnknown = "BootUnknown"
	// ReasonWaitingForBootstrapData means that the bootstrap provider has not written the bootstrap data yet.
	ReasonWaitingForBootstrapData = "WaitingForBootstrapData"
	// ReasonWaitingForImage means that the boot server downloads, checks or converts the machine's image.
	ReasonWaitingForImage = "WaitingForImage"
	// ReasonWaitingForAgent means that the agent has started to boot and has not requested its plan.
	ReasonWaitingForAgent = "WaitingForAgent"
	// ReasonAgentRuns means that the agent carries out its plan. The message has its progress.
	ReasonAgentRuns = "AgentRuns"
	// ReasonWaitingForBootSlot means that the maximum number of hosts of the failure domain are booting. The message has the position in the queue.
	ReasonWaitingForBootSlot = "WaitingForBootSlot"
	// ReasonWaitingForBMC means that the BMC does not answer. The condition BMCReady has the reason.
	ReasonWaitingForBMC = "WaitingForBMC"
	// ReasonPreparing means that the provider prepares the attempt: power off, boot override, power on.
	ReasonPreparing = "Preparing"
	// ReasonWaitingForMedia means that the server was powered on to boot from a boot medium, and that nothing has requested the medium.
	ReasonWaitingForMedia = "WaitingForMedia"
	// ReasonWaitingForMediaBoot means that the BMC or the firmware requested the boot medium, and that the server has not booted from it.
	ReasonWaitingForMediaBoot = "WaitingForMediaBoot"
	// ReasonWaitingForDHCP means that the server was powered on and has not requested a boot file.
	ReasonWaitingForDHCP = "WaitingForDHCP"
	// ReasonWaitingForLoader means that the server was given the name of its boot file and has not fetched it.
	ReasonWaitingForLoader = "WaitingForLoader"
	// ReasonWaitingForNetworkSlot means that the maximum number of servers of the network are booting. The server requests its script again and again.
	ReasonWaitingForNetworkSlot = "WaitingForNetworkSlot"
	// ReasonWaitingForScript means that the boot loader has not fetched the script.
	ReasonWaitingForScript = "WaitingForScript"
	// ReasonWaitingForKernel means that the boot loader has not fetched the kernel.
	ReasonWaitingForKernel = "WaitingForKernel"
	// ReasonWaitingForData means that the operating system has not fetched its bootstrap data.
	ReasonWaitingForData = "WaitingForData"
	// ReasonWaitingForReport means that the operating system has not reported that it is running.
	ReasonWaitingForReport = "WaitingForReport"
	// ReasonWaitingForMachine means that the host has reported, and the machine controller has not processed the report.
	ReasonWaitingForMachine = "WaitingForMachine"
	// ReasonChecksumMismatch means that a kernel or initrd does not match its checksum.
	ReasonChecksumMismatch = "ChecksumMismatch"
	// ReasonArtifactUnavailable means that a kernel or initrd cannot be downloaded.
	ReasonArtifactUnavailable = "ArtifactUnavailable"
	// ReasonCommandLineTooLong means that the kernel would truncate its command line.
	ReasonCommandLineTooLong = "CommandLineTooLong"
	// ReasonBootSourceInvalid means that no boot script can be generated from the machine's spec.boot for its host.
	ReasonBootSourceInvalid = "BootSourceInvalid"
	// ReasonBootstrapDataInvalid means that the bootstrap Secret has a format or data that the provider cannot serve.
	ReasonBootstrapDataInvalid = "BootstrapDataInvalid"
	// ReasonBootstrapDataUnavailable means that the bootstrap Secret does not exist, has no value, or cannot be read.
	ReasonBootstrapDataUnavailable = "BootstrapDataUnavailable"
	// ReasonNoAddress means that DHCP has no address for the server.
	ReasonNoAddress = "NoAddress"
	// ReasonOtherDHCPServer means that a server that should boot from the network took the answer of another DHCP server, in a network where the boot server gives the addresses.
	ReasonOtherDHCPServer = "OtherDHCPServer"
	// ReasonSecondRequester means that two clients requested the script or the bootstrap data of one attempt.
	ReasonSecondRequester = "SecondRequester"
	// ReasonMediaRefused means that the BMC or the firmware requested the boot medium, and that the boot server refused the request.
	ReasonMediaRefused = "MediaRefused"
	// ReasonAgentKeyMissing means that the agent of a boot from a medium uses plain HTTP, so it has no key by which it is known.
	ReasonAgentKeyMissing = "AgentKeyMissing"
	// ReasonBootTimedOut means that the last attempt exceeded its deadline.
	ReasonBootTimedOut = "BootTimedOut"
	// ReasonStateLost means that a machine that ran from memory was powered off or restarted.
	ReasonStateLost = "StateLost"
	// ReasonBootstrapFailed means that the operating system is running and reported that it could not apply its bootstrap data.
	ReasonBootstrapFailed = "BootstrapFailed"
	// ReasonRestarted means that firmware requested a network boot although the machine runs from memory, and its Node is not known to be lost.
	ReasonRestarted = "Restarted"
	// ReasonPoweredOff means that the server of a machine on disk is off although the provider did not power it off: the BMC reports it, and the machine's
	// Node is not Ready, or cannot be read.
	ReasonPoweredOff = "PoweredOff"
	// ReasonPowerDisputed means that the BMC reports that the server is off, although the machine's Node is Ready.
	ReasonPowerDisputed = "PowerDisputed"
	// ReasonPowerUnconfirmed means that the BMC has reported for five minutes that the server is off, and that no Node of the machine was observed that could confirm it.
	ReasonPowerUnconfirmed = "PowerUnconfirmed"
	// ReasonPreflightPassed and ReasonPreflightWarnings are the reasons of PreflightPassed.
	ReasonPreflightPassed   = "PreflightPassed"
	ReasonPreflightWarnings = "PreflightWarnings"
	// ReasonReleasing means that the host is being powered off and cleaned.
	ReasonReleasing = "Releasing"
)

// Reasons of HardwareHealthy. If it is False, the reason is the class of the worst part, and the message names the parts.
const (
	// ReasonHardwareOK means that the BMC reports no component that is not healthy.
	ReasonHardwareOK = "HardwareOK"
	// ReasonDiskUnhealthy means that a disk is not healthy.
	ReasonDiskUnhealthy = "DiskUnhealthy"
	// ReasonVolumeUnhealthy means that a volume of a RAID controller is not healthy.
	ReasonVolumeUnhealthy = "VolumeUnhealthy"
	// ReasonMemoryUnhealthy means that a memory module is not healthy.
	ReasonMemoryUnhealthy = "MemoryUnhealthy"
	// ReasonCPUUnhealthy means that a processor is not healthy.
	ReasonCPUUnhealthy = "CPUUnhealthy"
	// ReasonPowerSupplyUnhealthy means that a power supply is not healthy.
	ReasonPowerSupplyUnhealthy = "PowerSupplyUnhealthy"
	// ReasonFanUnhealthy means that a fan is not healthy.
	ReasonFanUnhealthy = "FanUnhealthy"
	// ReasonTemperatureUnhealthy means that a temperature crossed a threshold.
	ReasonTemperatureUnhealthy = "TemperatureUnhealthy"
	// ReasonVoltageUnhealthy means that a voltage, a current or a power crossed a threshold.
	ReasonVoltageUnhealthy = "VoltageUnhealthy"
	// ReasonNICUnhealthy means that a network interface is not healthy.
	ReasonNICUnhealthy = "NICUnhealthy"
	// ReasonDeviceUnhealthy means that a GPU or another device is not healthy.
	ReasonDeviceUnhealthy = "DeviceUnhealthy"
	// ReasonBMCUnhealthy means that the BMC itself is not healthy.
	ReasonBMCUnhealthy = "BMCUnhealthy"
	// ReasonChassisUnhealthy means that the chassis is not healthy, and no part explains it.
	ReasonChassisUnhealthy = "ChassisUnhealthy"
	// ReasonServerUnhealthy means that the server as a whole is not healthy, and no part explains it.
	ReasonServerUnhealthy = "ServerUnhealthy"
	// ReasonHealthUnknown means that the BMC reports no health.
	ReasonHealthUnknown = "HealthUnknown"
)

// Reasons of NodeMatched.
const (
	// ReasonNodeMatched means that the Node of the machine was found.
	ReasonNodeMatched = "NodeMatched"
	// ReasonNodeProviderIDDiffers means that the Node on the host's server has the provider ID of something else, so Cluster API does not find it.
	ReasonNodeProviderIDDiffers = "NodeProviderIDDiffers"
	// ReasonNodeSystemUUIDDiffers means that a Node has the machine's provider ID but runs on another server.
	ReasonNodeSystemUUIDDiffers = "NodeSystemUUIDDiffers"
	// ReasonKubeletVersionDiffers means that the Node was found, but the version of its kubelet is not that of the Machine.
	ReasonKubeletVersionDiffers = "KubeletVersionDiffers"
)

// Reasons of HostClaimed and Deleting, and of ControlPlaneEndpointSet.
const (
	// ReasonHostClaimed means that the machine has a host.
	ReasonHostClaimed = "HostClaimed"
	// ReasonWaitingForCluster means that the cluster's infrastructure is not provisioned yet.
	ReasonWaitingForCluster = "WaitingForClusterInfrastructure"
	// ReasonNoHostFits means that no available host fits the machine. The message has the number of hosts that each requirement excludes.
	ReasonNoHostFits = "NoHostFits"
	// ReasonHostLost means that the machine was provisioned, but no host has it as its consumer.
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

// Reasons of events on a host that are not reasons of a condition.
const (
	// ReasonAddressConflict means that something else uses the address that DHCP gave the server.
	ReasonAddressConflict = "AddressConflict"
	// ReasonReservationUnused means that no entry of the host's bootAddresses is in the network in which the server requested an address.
	ReasonReservationUnused = "ReservationUnused"
)

// MoveLabel on a CRD or an object makes `clusterctl move` move the object.
const MoveLabel = "clusterctl.cluster.x-k8s.io/move"

// BMCSecretLabel on a Secret marks its keys username, password and ca.crt as data for BMCs. The provider reads no other Secret for a host, because it
// sends the credentials to the address in spec.bmc, and a user who may write hosts may not be allowed to read Secrets. The value of the label has no
// meaning.
const BMCSecretLabel = "baremetalhost.infrastructure.cluster.x-k8s.io/bmc-secret"

// BMCHostsAnnotation on a credentials Secret lists the BMCs that its credentials may be sent to, as hostnames or IP addresses of
// spec.bmc.address, separated by commas. Without it they may be sent to any BMC.
const BMCHostsAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/bmc-hosts"

// ConfirmServerAnnotation on a host confirms that its server was replaced. Its value is the hash of the new server's system UUID and serial number,
// which the message of the condition Verified contains.
const ConfirmServerAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/confirm-server"

// SharedHardwareAnnotation on a host declares that its board is a different one, although it has the system UUID and serial number of another host's
// board. Its value may be who verified that.
const SharedHardwareAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/shares-hardware-id"

// HostRequestedByAnnotation on a host is who asked for its registration, or the last change of it, and why. kubectl baremetal register sets it. Nothing depends on it.
const HostRequestedByAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/requested-by"

// DeleteForMoveAnnotation marks an object that `clusterctl move` deletes after it has copied it. The object still exists in the target cluster.
const DeleteForMoveAnnotation = "clusterctl.cluster.x-k8s.io/delete-for-move"

// RetryBMCAnnotation on a host makes the provider contact its BMC immediately, even during the backoff after a refused login or another
// error, and record the newest entries of its logs as events of the host. Its value may be who requested it. The provider removes the annotation when it contacts the BMC.
const RetryBMCAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/retry-bmc"

// BlockMoveAnnotation makes `clusterctl move` wait while a boot is in progress.
const BlockMoveAnnotation = "clusterctl.cluster.x-k8s.io/block-move"
