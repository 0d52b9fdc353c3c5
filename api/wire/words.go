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
