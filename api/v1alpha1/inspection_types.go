package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// InspectionPolicy says which facts of a server the provider reads, and from where.
// +kubebuilder:validation:Enum=BMC;Agent;Both
type InspectionPolicy string

const (
	// InspectionBMC reads what the BMC reports.
	InspectionBMC InspectionPolicy = "BMC"
	// InspectionAgent boots the agent on the server before the server is first offered to machines. Requirements of machines count only what the agent found.
	InspectionAgent InspectionPolicy = "Agent"
	// InspectionBoth is InspectionAgent, and takes from the BMC what the agent did not find.
	InspectionBoth InspectionPolicy = "Both"
)

// InspectAnnotation on a host requests a new inspection by the agent, for a host whose spec.inspection is Agent or Both. It takes effect when no machine has the
// host and its server is off. Its value may be who requested it, and why. The provider removes it when the inspection starts.
const InspectAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/inspect"

// Reasons of InspectionConsistent, and of Available while a host is not inspected.
const (
	// ReasonInspectionConsistent means that what the agent found contradicts nothing.
	ReasonInspectionConsistent = "Consistent"
	// ReasonInspectionContradicts means that what the agent found contradicts what the BMC reports, or the spec of the host.
	ReasonInspectionContradicts = "Contradicts"
	// ReasonInspectionPending means that the host has to be inspected by the agent before machines can claim it, and that this cannot start yet.
	ReasonInspectionPending = "InspectionPending"
	// ReasonInspectionFailed means that the agent could not inspect the server.
	ReasonInspectionFailed = "InspectionFailed"
)

// InspectionSummary is a part of what the agent found on a server: the part with which the requirements of machines are compared. The BareMetalInspection of
// the host has the rest.
type InspectionSummary struct {
	// receivedTime is the time when the boot server received the report.
	// +optional
	ReceivedTime metav1.Time `json:"receivedTime,omitzero"`
	// reportUID is metadata.uid of the BareMetalInspection that this summary was made from.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ReportUID string `json:"reportUID,omitempty"`
	// reportGeneration is the generation of that BareMetalInspection.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ReportGeneration int64 `json:"reportGeneration,omitempty"`
	// cpu is the number of logical processors.
	// +optional
	// +kubebuilder:validation:Minimum=1
	CPU int32 `json:"cpu,omitempty"`
	// memoryBytes is the size of the memory, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// disks are the disks on which a plan may write, as groups of equal ones. Removable and read-only disks are not counted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Disks []DiskGroup `json:"disks,omitempty"`
	// nics are the network interfaces, as groups of equal ones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	NICs []NICGroup `json:"nics,omitempty"`
	// gpus are the GPUs, as groups of equal ones.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	GPUs []GPUGroup `json:"gpus,omitempty"`
	// notPurgeable are disks that offer no erase method of the class Purge, at most 8. Disks whose methods are unknown are not among them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	NotPurgeable []NotPurgeableDisk `json:"notPurgeable,omitempty"`
	// notPurgeableCount is how many such disks the server has.
	// +optional
	// +kubebuilder:validation:Minimum=1
	NotPurgeableCount int32 `json:"notPurgeableCount,omitempty"`
	// switches are the names of the switches that the server is connected to, as LLDP reports them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:items:MaxLength=64
	Switches []string `json:"switches,omitempty"`
}

// NotPurgeableDisk identifies a disk that cannot be purged, by what is known of it.
type NotPurgeableDisk struct {
	// serialNumber is the serial number of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name of the disk, in lower case without a prefix.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	WWN string `json:"wwn,omitempty"`
	// name is the kernel's name of the disk. It is absent for a disk with a serial number or a WWN.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	Name string `json:"name,omitempty"`
}

// DiskGroup is a number of equal disks.
type DiskGroup struct {
	// count is the number of disks.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`
	// sizeBytes is the size of each disk, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SizeBytes int64 `json:"sizeBytes,omitempty"`
	// rotational is true for hard disks.
	// +optional
	Rotational bool `json:"rotational,omitempty"`
}

// NICGroup is a number of equal network interfaces.
type NICGroup struct {
	// count is the number of interfaces.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`
	// speedMbps is the speed of the link, in Mbit/s. It is absent for a link that is down.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SpeedMbps int32 `json:"speedMbps,omitempty"`
}

// GPUGroup is a number of equal GPUs.
type GPUGroup struct {
	// count is the number of GPUs.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Count int32 `json:"count,omitempty"`
	// vendor and device are the PCI IDs of the GPU, in hexadecimal, such as 10de and 20b5.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	Vendor string `json:"vendor,omitempty"`
	// device is the PCI device ID.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16
	Device string `json:"device,omitempty"`
}

// BareMetalInspectionSpec is what the agent found on a server. It has at most 32 KiB. All of it is as the agent reported it: absent fields are unknown.
type BareMetalInspectionSpec struct {
	wire.Inspection `json:",inline"`

	// bootNumber is the number of the boot in which the agent found this.
	// +optional
	// +kubebuilder:validation:Minimum=1
	BootNumber int32 `json:"bootNumber,omitempty"`
	// receivedTime is the time when the boot server received the report.
	// +optional
	ReceivedTime metav1.Time `json:"receivedTime,omitzero"`
}

// BareMetalInspection is what the agent found on the server of the BareMetalHost with the same name. The boot server writes it. It is an object of its own, with
// the data in its spec: no controller keeps it in memory, and `clusterctl move` preserves it. Delete it to have a free host inspected again.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=baremetalinspections,scope=Namespaced,categories=cluster-api,shortName=bmin
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.system.model`,description="Model of the server"
// +kubebuilder:printcolumn:name="Serial",type=string,JSONPath=`.spec.system.serialNumber`,description="Serial number of the server"
// +kubebuilder:printcolumn:name="CPU",type=integer,JSONPath=`.spec.cpu.threads`,description="Number of logical processors"
// +kubebuilder:printcolumn:name="Firmware",type=string,JSONPath=`.spec.firmwareMode`,description="How the server booted: UEFI or BIOS"
// +kubebuilder:printcolumn:name="Boot",type=integer,JSONPath=`.spec.bootNumber`,description="Number of the boot of the inspection"
// +kubebuilder:printcolumn:name="Inspected",type=date,JSONPath=`.spec.receivedTime`,description="Time since the inspection"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalInspection struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the agent found.
	// +required
	Spec BareMetalInspectionSpec `json:"spec,omitzero"`
}

// BareMetalInspectionList is a list of BareMetalInspections.
//
// +kubebuilder:object:root=true
type BareMetalInspectionList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalInspection `json:"items"`
}
