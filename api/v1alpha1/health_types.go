package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// PartClass is the class of a part of a server whose health is reported.
// +kubebuilder:validation:Enum=Disk;Volume;Memory;CPU;PowerSupply;Fan;Temperature;Voltage;NIC;Device;BMC;Chassis;Server
type PartClass string

// The classes, in the order in which the condition HardwareHealthy prefers them for its reason.
const (
	PartDisk        PartClass = "Disk"
	PartVolume      PartClass = "Volume"
	PartMemory      PartClass = "Memory"
	PartCPU         PartClass = "CPU"
	PartPowerSupply PartClass = "PowerSupply"
	PartFan         PartClass = "Fan"
	PartTemperature PartClass = "Temperature"
	PartVoltage     PartClass = "Voltage"
	PartNIC         PartClass = "NIC"
	PartDevice      PartClass = "Device"
	PartBMC         PartClass = "BMC"
	PartChassis     PartClass = "Chassis"
	PartServer      PartClass = "Server"
)

// HealthStatus is what the BMC reports about the health of the server over time. It is a report: it changes neither who has the host nor what is done with it.
type HealthStatus struct {
	// parts are the parts that are not healthy, the critical ones first. Of more than 16 the others are omitted.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Parts []UnhealthyPart `json:"parts,omitempty"`
	// omittedParts is how many further parts are not healthy.
	// +optional
	// +kubebuilder:validation:Minimum=1
	OmittedParts int32 `json:"omittedParts,omitempty"`
	// flapping is true while the parts change so often that changes are not reported: the worst state is shown until it stays the same for ten minutes and four readings.
	// +optional
	Flapping bool `json:"flapping,omitempty"`
	// log are the newest warnings and critical entries of the logs of the BMC, the last one that arrived first, of each log at least one. Other entries are not kept.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	Log []LogEntry `json:"log,omitempty"`
}

// UnhealthyPart is a part of a server that is not healthy.
type UnhealthyPart struct {
	// class is the class of the part. Server and Chassis are named only if no other part explains their health.
	// +required
	Class PartClass `json:"class,omitempty"`
	// name is the name of the part in the BMC, such as a slot or a sensor.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name,omitempty"`
	// model is the model or the part number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`
	// serialNumber is the serial number of the part.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	SerialNumber string `json:"serialNumber,omitempty"`
	// health is Warning or Critical.
	// +required
	Health wire.Health `json:"health,omitempty"`
}

// LogEntry is an entry of a log of a BMC.
type LogEntry struct {
	// time is when the entry was written, by the clock of the BMC. It is absent if the BMC does not say it.
	// +optional
	Time *metav1.Time `json:"time,omitempty"`
	// log is the log: the path of its entries, or SEL.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Log string `json:"log,omitempty"`
	// id is the ID of the entry in its log.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id,omitempty"`
	// severity is Warning or Critical.
	// +required
	Severity wire.Health `json:"severity,omitempty"`
	// message is the text of the entry.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}
