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
