package wire

// KeptDisk is a disk that the provider never writes to and never erases, by one name.
// +kubebuilder:validation:ExactlyOneOf=serialNumber;wwn;label
type KeptDisk struct {
	// serialNumber is the serial number of the disk, without regard to case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('[^ ]')",message="must not be blank: it would name no disk"
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name of the disk, without regard to case. A prefix (naa., eui., wwn-, 0x) is ignored.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="!self.lowerAscii().matches('^ *(wwn-)?(naa[.])?(eui[.])?(0x)? *$')",message="must not be blank: it would name no disk"
	WWN string `json:"wwn,omitempty"`
	// label is the label of a partition or file system on the disk, with upper and lower case. Labels are read of partitions of a GPT, and of the file systems ext, XFS,
	// Btrfs, FAT, ISO 9660 and swap that are directly on the disk or on a partition. If no disk has the label, disks with LVM, md, LUKS, ZFS, bcache, NTFS or exFAT are
	// not written to and not erased. Prefer a serial number or WWN: a label is gone when somebody formats the disk, and a tenant can write one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('[^ ]')",message="must not be blank: it would name no disk"
	Label string `json:"label,omitempty"`
}

// DiskIdentity identifies a disk across boots.
// +kubebuilder:validation:MinProperties=1
type DiskIdentity struct {
	// serialNumber is the serial number of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name of the disk, in lower case without a prefix.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	WWN string `json:"wwn,omitempty"`
	// byPath is the name of the disk in /dev/disk/by-path.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ByPath string `json:"byPath,omitempty"`
	// sizeBytes is the size of the disk in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SizeBytes int64 `json:"sizeBytes,omitempty"`
}

// InspectedDisk is a disk.
type InspectedDisk struct {
	// name is the kernel's name. It may change from boot to boot.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// byPath is the name in /dev/disk/by-path.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ByPath string `json:"byPath,omitempty"`
	// hctl is the SCSI address host:channel:target:lun.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	HCTL string `json:"hctl,omitempty"`
	// vendor is the vendor.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Vendor string `json:"vendor,omitempty"`
	// model is the model.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name, in lower case without a prefix.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	WWN string `json:"wwn,omitempty"`
	// firmwareVersion is the version of the disk's firmware.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FirmwareVersion string `json:"firmwareVersion,omitempty"`
	// sizeBytes is the size, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// logicalSectorBytes is the size of a logical sector, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	LogicalSectorBytes int32 `json:"logicalSectorBytes,omitempty"`
	// physicalSectorBytes is the size of a physical sector, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	PhysicalSectorBytes int32 `json:"physicalSectorBytes,omitempty"`
	// rotational is true for a hard disk.
	// +optional
	Rotational bool `json:"rotational,omitempty"`
	// transport is how the disk is connected: NVMe, NVMeOverFabrics, SATA, SAS, SCSI, FibreChannel, ISCSI, Virtio, USB, MMC or Other. It is absent if it is unknown.
	// +optional
	Transport DiskTransport `json:"transport,omitempty"`
	// removable is true for a disk whose medium can be removed.
	// +optional
	Removable bool `json:"removable,omitempty"`
	// readOnly is true for a disk that cannot be written.
	// +optional
	ReadOnly bool `json:"readOnly,omitempty"`
	// health is OK, Warning or Critical.
	// +optional
	Health Health `json:"health,omitempty"`
	// eraseMethods are the commands that erase the disk and that it offers, such as NVMeSanitizeCrypto or ATAErase. Overwrite, by writing, is one of them. They are absent if
	// the disk did not answer.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MaxLength=256
	EraseMethods []string `json:"eraseMethods,omitempty"`
	// eraseClass is the strongest cleaning policy that these commands meet on this disk: Clear or Purge. It is absent if that is unknown.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self in ['Clear', 'Purge']",message="eraseClass is Clear or Purge"
	EraseClass ErasePolicy `json:"eraseClass,omitempty"`
	// signatures are what the disk carries: gpt, mbr, lvm2, md, ext4 and so on.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MaxLength=256
	Signatures []string `json:"signatures,omitempty"`
	// holders are what has the disk open, such as md127.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=512
	// +kubebuilder:validation:items:MaxLength=256
	Holders []string `json:"holders,omitempty"`
	// protected says why no plan writes to the disk. It is absent for a disk that may be written.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Protected string `json:"protected,omitempty"`
}
