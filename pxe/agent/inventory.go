package agent

import "github.com/capbm-io/cluster-api-provider-baremetal/api/wire"

// Inventory is what an agent found on a server. It has at most MaxInventory bytes as JSON: the agent leaves out what is least useful, and says so in
// Problems. Empty fields are unknown.
type Inventory struct {
	// Release is the release of the agent.
	Release  string `json:"release,omitempty"`
	System   System `json:"system"`
	CPU      CPU    `json:"cpu"`
	Memory   Memory `json:"memory"`
	Disks    []Disk `json:"disks,omitempty"`
	NICs     []NIC  `json:"nics,omitempty"`
	Devices  []PCI  `json:"devices,omitempty"`
	BMC      *BMC   `json:"bmc,omitempty"`
	TPM      *TPM   `json:"tpm,omitempty"`
	Firmware Boot   `json:"firmware"`
	// Problems say what could not be read, or was left out.
	Problems []string `json:"problems,omitempty"`
}

// System is from SMBIOS types 0, 1 and 2.
type System struct {
	Manufacturer    string `json:"manufacturer,omitempty"`
	Product         string `json:"product,omitempty"`
	SerialNumber    string `json:"serialNumber,omitempty"`
	UUID            string `json:"uuid,omitempty"`
	BoardSerial     string `json:"boardSerial,omitempty"`
	FirmwareVendor  string `json:"firmwareVendor,omitempty"`
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	FirmwareDate    string `json:"firmwareDate,omitempty"`
}

// Boot is how the server booted.
type Boot struct {
	Mode Firmware `json:"mode,omitempty"`
	// SecureBoot is empty for BIOS, and if it is unknown.
	SecureBoot SecureBoot `json:"secureBoot,omitempty"`
}

// CPU describes the processors.
type CPU struct {
	Architecture string `json:"architecture,omitempty"`
	Model        string `json:"model,omitempty"`
	Sockets      int    `json:"sockets,omitempty"`
	Cores        int    `json:"cores,omitempty"`
	Threads      int    `json:"threads,omitempty"`
	NUMANodes    int    `json:"numaNodes,omitempty"`
	// Features are those of the kernel's list that operators select by: virtualisation, vector and encryption instructions.
	Features []string `json:"features,omitempty"`
}

// Memory is the memory. Bytes is what the modules have, or otherwise what the kernel uses.
type Memory struct {
	Bytes int64  `json:"bytes,omitempty"`
	DIMMs []DIMM `json:"dimms,omitempty"`
}

// DIMM is a memory module (SMBIOS type 17).
type DIMM struct {
	Slot         string `json:"slot,omitempty"`
	Bytes        int64  `json:"bytes,omitempty"`
	Type         string `json:"type,omitempty"`
	SpeedMTs     int    `json:"speedMTs,omitempty"`
	Manufacturer string `json:"manufacturer,omitempty"`
	PartNumber   string `json:"partNumber,omitempty"`
	SerialNumber string `json:"serialNumber,omitempty"`
}

// Disk is a disk.
type Disk struct {
	Name         string `json:"name"`
	ByPath       string `json:"byPath,omitempty"`
	HCTL         string `json:"hctl,omitempty"`
	Vendor       string `json:"vendor,omitempty"`
	Model        string `json:"model,omitempty"`
	SerialNumber string `json:"serialNumber,omitempty"`
	// WWN is in lower case without a prefix.
	WWN       string `json:"wwn,omitempty"`
	Firmware  string `json:"firmware,omitempty"`
	SizeBytes int64  `json:"sizeBytes,omitempty"`
	// LogicalSector and PhysicalSector are in bytes.
	LogicalSector  int  `json:"logicalSector,omitempty"`
	PhysicalSector int  `json:"physicalSector,omitempty"`
	Rotational     bool `json:"rotational,omitempty"`
	// Transport is empty if it is unknown.
	Transport wire.DiskTransport `json:"transport,omitempty"`
	Removable bool               `json:"removable,omitempty"`
	ReadOnly  bool               `json:"readOnly,omitempty"`
	// Health is OK, Warning or Critical: of NVMe from the log page SMART / Health, otherwise unknown.
	Health string `json:"health,omitempty"`
	// Erase are the commands that erase the disk and that it offers, such as NVMeSanitizeCrypto, ATAErase, SCSISanitizeBlock. Overwrite, by writing, is one of them. They
	// are absent if the disk did not answer.
	Erase []string `json:"erase,omitempty"`
	// EraseClass is the strongest policy that these commands meet on this disk, Clear or Purge. It is empty if it is unknown.
	EraseClass wire.ErasePolicy `json:"eraseClass,omitempty"`
	// Signatures are what the disk carries: gpt, mbr, lvm2, md, ext4, and so on.
	Signatures []string `json:"signatures,omitempty"`
	// Holders are what holds the disk, such as md127.
	Holders []string `json:"holders,omitempty"`
	// Protected says why no plan touches the disk; empty for a disk that may be written to.
	Protected string `json:"protected,omitempty"`
}

// NIC is a network interface.
type NIC struct {
	Name string `json:"name"`
	// MAC is the permanent address, in lower case with colons.
	MAC       string    `json:"mac"`
	PCI       string    `json:"pci,omitempty"`
	Vendor    string    `json:"vendor,omitempty"`
	Device    string    `json:"device,omitempty"`
	Driver    string    `json:"driver,omitempty"`
	Firmware  string    `json:"firmware,omitempty"`
	SpeedMbps int       `json:"speedMbps,omitempty"`
	LinkUp    bool      `json:"linkUp,omitempty"`
	NUMANode  *int      `json:"numaNode,omitempty"`
	LLDP      *Neighbor `json:"lldp,omitempty"`
}

// Neighbor is the switch port at the other end of a cable, as LLDP reports it (IEEE 802.1AB).
type Neighbor struct {
	ChassisID         string `json:"chassisID,omitempty"`
	SystemName        string `json:"systemName,omitempty"`
	SystemDescription string `json:"systemDescription,omitempty"`
	PortID            string `json:"portID,omitempty"`
	PortDescription   string `json:"portDescription,omitempty"`
	ManagementAddress string `json:"managementAddress,omitempty"`
	VLAN              int    `json:"vlan,omitempty"`
}

// PCI is a PCI device that is neither a disk controller, a bridge nor a network interface: GPUs and other accelerators.
type PCI struct {
	Address string `json:"address"`
	// Class is GPU, Accelerator or the class code in hexadecimal.
	Class string `json:"class,omitempty"`
	// Vendor and Device are the IDs in hexadecimal, such as 10de and 20b5.
	Vendor string `json:"vendor,omitempty"`
	Device string `json:"device,omitempty"`
}

// BMC is what the server knows of its BMC, from the IPMI driver.
type BMC struct {
	Address  string `json:"address,omitempty"`
	Address6 string `json:"address6,omitempty"`
	MAC      string `json:"mac,omitempty"`
	Firmware string `json:"firmware,omitempty"`
}

// TPM is the trusted platform module.
type TPM struct {
	// Version is 1.2 or 2.0.
	Version string `json:"version,omitempty"`
}
