package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// Image is an operating system image that is written to a disk.
// +kubebuilder:validation:XValidation:rule="!has(self.pullSecret) || self.url.startsWith('oci://')",message="pullSecret is for an oci:// URL: remove it, or put the image into a registry"
type Image struct {
	// url is where the provider downloads the image from: an http:// or https:// URL of a file, or an image in an OCI registry such as
	// oci://registry.example.com/images/debian:13. The file is a whole disk with a partition table, as raw or qcow2 (version 2 or 3, without a backing file),
	// and may be compressed with gzip, bzip2, xz or zstd. The provider detects the format by the content, and refuses loopback and link-local addresses.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^oci://[^/?#@ ]+/[^ ?#@]+(@sha256:[0-9a-f]{64})?$') || isURL(self) && url(self).getHostname() != '' && self.matches('^https?://[^/?#@ ]+([/?#][^ ]*)?$')",message="must be an http://, https:// or oci:// URL with a host and without credentials"
	URL string `json:"url,omitempty"`

	// checksum is the SHA-256 or SHA-512 checksum of the file as it is published, in hexadecimal: sha256:... or sha512:... For an OCI image it is that of the
	// layer with the file.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=135
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$')",message="must be sha256: with 64 or sha512: with 128 hexadecimal digits in lower case, as sha256sum and sha512sum print them"
	Checksum string `json:"checksum,omitempty"`

	// pullSecret is the name of a Secret of the type kubernetes.io/dockerconfigjson in the machine's namespace, with the credentials of the registry. Only an
	// oci:// URL may have one. Defaults to none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	PullSecret string `json:"pullSecret,omitempty"`

	// format is Raw for a raw disk that begins like an archive, or like a disk image that the provider cannot read: without it such a file is refused, unless another
	// machine declared it for the same file. The file may be compressed. Defaults to the format of the content.
	// +optional
	Format ImageFormat `json:"format,omitempty"`

	// rootDevice selects the disk. The fields of spec.storage.rootDevice of the host take precedence. No match, or more than one, is an error. Without any field, the
	// disk is the smallest one that has at least 4 GiB.
	// +optional
	RootDevice *RootDeviceHints `json:"rootDevice,omitempty"`

	// dataSource is how the operating system finds its bootstrap data on the disk: NoCloud, ConfigDrive or None. Defaults to NoCloud.
	//
	// - NoCloud: a partition with the label CIDATA, for cloud-init.
	// - ConfigDrive: a partition with the label CONFIG-2, for cloud-init, and for
	//   Ignition images that were built for OpenStack.
	// - None: the disk gets no bootstrap data, and the operating system cannot report.
	// +optional
	// +kubebuilder:default=NoCloud
	DataSource wire.DataSource `json:"dataSource,omitempty"`

	// reportBootstrap makes the operating system report whether it applied its bootstrap data. Success means that
	// /run/cluster-api/bootstrap-success.complete exists, which the bootstrap providers of Cluster API create. The image needs curl, wget or python3. Defaults to false.
	// +optional
	ReportBootstrap bool `json:"reportBootstrap,omitempty"`
}

// ImageFormat is the format of an image, if it is not detected.
// +kubebuilder:validation:Enum=Raw
type ImageFormat string

// ImageRaw is the format of a raw disk.
const ImageRaw ImageFormat = "Raw"

// RootDeviceHints select a disk: all fields that are set must match.
// +kubebuilder:validation:MinProperties=1
type RootDeviceHints struct {
	// serialNumber is the serial number of the disk, without regard to case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name of the disk, without regard to case. A prefix (naa., eui., 0x) is ignored.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	WWN string `json:"wwn,omitempty"`
	// model is a part of the model of the disk, without regard to case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// vendor is a part of the vendor of the disk, without regard to case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Vendor string `json:"vendor,omitempty"`
	// minSize is the minimum size of the disk, such as 400Gi or 480G.
	// +optional
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : quantity(self).isGreaterThan(quantity('0'))",message="must be greater than 0: remove it if any size is sufficient"
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// rotational is true for a hard disk and false for a solid-state drive.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
	// hctl is the SCSI address of the disk, as host:channel:target:lun.
	// +optional
	// +kubebuilder:validation:MinLength=7
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+:[0-9]+:[0-9]+:[0-9]+$')",message="must be host:channel:target:lun, like 0:0:1:0"
	HCTL string `json:"hctl,omitempty"`
	// byPath is the name of the disk in /dev/disk/by-path, such as pci-0000:00:1f.2-ata-1. It names a slot of the server, so servers of one model have the same.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ByPath string `json:"byPath,omitempty"`
	// name is the kernel's name of the disk, such as nvme0n1. It may change from boot to boot: prefer another field.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+$')",message="must be the name of a disk without /dev/, like sda or nvme0n1"
	Name string `json:"name,omitempty"`
}

// HostStorage describes how the provider may use the disks of a host.
type HostStorage struct {
	// rootDevice selects the disk that images are written to. Each of its fields takes precedence over the same field of the machine's spec.image.rootDevice.
	// +optional
	RootDevice *RootDeviceHints `json:"rootDevice,omitempty"`
	// keep are disks that the provider never writes to and never erases: data disks that outlive a machine. A disk that might be one of them, because its
	// serial number, its WWN or its labels cannot be read, is not written to and not erased either.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Keep []wire.KeptDisk `json:"keep,omitempty"`
}

// WrittenDisk is a disk that the provider wrote, and where the bootstrap data is on it.
type WrittenDisk struct {
	// disk identifies the disk.
	// +required
	Disk wire.DiskIdentity `json:"disk,omitzero"`
	// number is the number of the boot that wrote the disk.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// partitionGUID is the unique GUID by which the next attempt knows that this boot wrote the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=36
	PartitionGUID string `json:"partitionGUID,omitempty"`
	// dataOffset and dataLength are the partition with the bootstrap data, in bytes. Both are 0 without one.
	// +optional
	// +kubebuilder:validation:Minimum=1
	DataOffset int64 `json:"dataOffset,omitempty"`
	// dataLength is the length of the partition with the bootstrap data, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	DataLength int64 `json:"dataLength,omitempty"`
}
