package wire

// DiskTransport is how a disk is connected. It is absent if it is unknown.
// +kubebuilder:validation:Enum=NVMe;NVMeOverFabrics;SATA;SAS;SCSI;FibreChannel;ISCSI;Virtio;USB;MMC;Other
type DiskTransport string

const (
	TransportNVMe DiskTransport = "NVMe"
	// TransportNVMeOverFabrics is NVMe over a network, such as TCP or RDMA.
	TransportNVMeOverFabrics DiskTransport = "NVMeOverFabrics"
	TransportSATA            DiskTransport = "SATA"
	TransportSAS             DiskTransport = "SAS"
	TransportSCSI            DiskTransport = "SCSI"
	TransportFibreChannel    DiskTransport = "FibreChannel"
	TransportISCSI           DiskTransport = "ISCSI"
	TransportVirtio          DiskTransport = "Virtio"
	TransportUSB             DiskTransport = "USB"
	TransportMMC             DiskTransport = "MMC"
	TransportOther           DiskTransport = "Other"
)

// Health is the health of a server or of a part, as Redfish reports it (Health of DSP0268, Status). It is absent if it is unknown.
// +kubebuilder:validation:Enum=OK;Warning;Critical
type Health string

const (
	HealthOK       Health = "OK"
	HealthWarning  Health = "Warning"
	HealthCritical Health = "Critical"
)

// FirmwareMode is how the firmware started a server.
// +kubebuilder:validation:Enum=UEFI;BIOS
type FirmwareMode string

const (
	FirmwareUEFI FirmwareMode = "UEFI"
	FirmwareBIOS FirmwareMode = "BIOS"
)

// SecureBoot is whether the firmware runs only signed programs. It is absent for a BIOS, and if it is unknown.
// +kubebuilder:validation:Enum=Enabled;Disabled
type SecureBoot string

const (
	SecureBootEnabled  SecureBoot = "Enabled"
	SecureBootDisabled SecureBoot = "Disabled"
)

// AgentStep is what an agent does.
// +kubebuilder:validation:Enum=Reading;Selecting;Wiping;Writing;Data;Verifying;Committing;BootEntry;Erasing
type AgentStep string

const (
	StepReading    AgentStep = "Reading"    // reads the hardware
	StepSelecting  AgentStep = "Selecting"  // selects the disk
	StepWiping     AgentStep = "Wiping"     // removes signatures and partition tables
	StepWriting    AgentStep = "Writing"    // writes the image
	StepData       AgentStep = "Data"       // writes the bootstrap data
	StepVerifying  AgentStep = "Verifying"  // reads the disk back
	StepCommitting AgentStep = "Committing" // makes the disk bootable
	StepBootEntry  AgentStep = "BootEntry"  // writes the UEFI boot entry
	StepErasing    AgentStep = "Erasing"    // erases disks
)

// AgentSteps are all steps, in their order. A boot server refuses any other one.
var AgentSteps = []AgentStep{StepReading, StepSelecting, StepWiping, StepWriting, StepData, StepVerifying, StepCommitting, StepBootEntry, StepErasing}

// DataSource is how an operating system on a disk finds its bootstrap data.
// +kubebuilder:validation:Enum=NoCloud;ConfigDrive;None
type DataSource string

const (
	// DataSourceNoCloud is a partition with the label CIDATA, which cloud-init's data source NoCloud reads.
	DataSourceNoCloud DataSource = "NoCloud"
	// DataSourceConfigDrive is a partition with the label CONFIG-2, which cloud-init's data source ConfigDrive and images of Ignition for OpenStack read.
	DataSourceConfigDrive DataSource = "ConfigDrive"
	// DataSourceNone writes no bootstrap data.
	DataSourceNone DataSource = "None"
)
