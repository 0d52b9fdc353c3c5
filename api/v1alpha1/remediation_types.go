package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RemediationFinalizer keeps a BareMetalRemediation until its power hold and its taint are removed.
const RemediationFinalizer = "baremetalremediation.infrastructure.cluster.x-k8s.io"

// RemediationPhase summarises the progress of a remediation. BareMetalRemediationStatus.Phase describes the phases.
// +kubebuilder:validation:Enum=Idle;PoweringOff;PoweringOn;Waiting;Recovered;HandedOver
type RemediationPhase string

// The phases of a remediation. BareMetalRemediationStatus.Phase describes them.
const (
	RemediationIdle        RemediationPhase = "Idle"
	RemediationPoweringOff RemediationPhase = "PoweringOff"
	RemediationPoweringOn  RemediationPhase = "PoweringOn"
	RemediationWaiting     RemediationPhase = "Waiting"
	RemediationRecovered   RemediationPhase = "Recovered"
	RemediationHandedOver  RemediationPhase = "HandedOver"
)

// Reasons of the condition Ready of a BareMetalRemediation. It is True when the Node is healthy again.
const (
	// ReasonMachineNotFound means that the remediation has no owner of kind Machine, or that the Machine does not exist. The remediation does nothing.
	ReasonMachineNotFound = "MachineNotFound"
	// ReasonMachineDeleting means that the Machine is being deleted, which ends the remediation.
	ReasonMachineDeleting = "MachineDeleting"
	// ReasonHostNotReady means that the state of the host prevents the remediation. The message has the state.
	ReasonHostNotReady = "HostNotReady"
	// ReasonNodeHealthy means that the machine is not marked as unhealthy, and that its Node is Ready or cannot be read. The remediation does nothing
	// meanwhile.
	ReasonNodeHealthy = "NodeHealthy"
	// ReasonNetworkPluginMissing means that the Node was never Ready, because its cluster has no network plugin yet. The remediation does nothing: a power
	// cycle does not help.
	ReasonNetworkPluginMissing = "NetworkPluginMissing"
	// ReasonPoweringOff means that the server is being powered off.
	ReasonPoweringOff = "PoweringOff"
	// ReasonPoweringOn means that the server was observed to be off and is being powered on.
	ReasonPoweringOn = "PoweringOn"
	// ReasonWaitingForNode means that the server is on and its Node is not healthy yet.
	ReasonWaitingForNode = "WaitingForNode"
	// ReasonRecovered means that the Node is healthy again.
	ReasonRecovered = "Recovered"
	// ReasonHandedOver means that the provider asked the Machine's owner to replace it.
	ReasonHandedOver = "HandedOver"
	// ReasonTaintLeft means that the remediation has ended, but the provider cannot remove its taint from the Node yet.
	ReasonTaintLeft = "TaintLeft"
	// ReasonRemediationFailed is the reason of a quarantine: the server was power-cycled, and its Node did not recover.
	ReasonRemediationFailed = "RemediationFailed"
)

// RemediationStrategy is how an unhealthy machine is remediated.
type RemediationStrategy struct {
	// retries is the maximum number of power cycles, including the first, before the Machine's owner is asked to replace the machine. 0 asks without a power cycle.
	// Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries *int32 `json:"retries,omitempty"`

	// timeoutSeconds is the time, in seconds, from the start of a power cycle within which the Node must become healthy. It starts again after a
	// pause. Defaults to 1200.
	// +optional
	// +kubebuilder:default=1200
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// BareMetalRemediationSpec is how an unhealthy machine is remediated, and the record of the remediation. The record is in the spec because a status is
// lost in `clusterctl move`: without it a server could be power-cycled too often.
type BareMetalRemediationSpec struct {
	RemediationStrategy `json:",inline"`

	// powerCycle is the record of the last power cycle. The provider writes it.
	// +optional
	PowerCycle *PowerCycle `json:"powerCycle,omitempty"`

	// taintedNode is the name of the Node that the remediation puts the out-of-service taint on. The provider writes it before it adds the taint,
	// and removes it when the taint is removed.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TaintedNode string `json:"taintedNode,omitempty"`

	// handOver records that the remediation has given up and asked the Machine's owner to replace the machine. The provider writes it.
	// +optional
	HandOver *HandOver `json:"handOver,omitempty"`
}

// PowerCycle is the record of one power cycle of the server.
type PowerCycle struct {
	// attempt counts the power cycles, from 1. It is absent if none was started, because something prevented it, such as maintenance of the host. When that has
	// ended, the Node has timeoutSeconds to become healthy before the first power cycle.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`
	// host is the name of the BareMetalHost of the server. The provider writes the record before it adds the power hold to the host.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
	// startTime is the time when the power cycle started.
	// +required
	StartTime metav1.Time `json:"startTime,omitzero"`
	// offTime is the time when the server was confirmed to be off, or, if attempt is absent, the time when the remediation resumed. After that the provider only
	// powers the server on.
	// +optional
	OffTime *metav1.Time `json:"offTime,omitempty"`
	// recoveredTime is the time when the Node was healthy again. It ends the power cycle: a later failure starts a new one.
	// +optional
	RecoveredTime *metav1.Time `json:"recoveredTime,omitempty"`
}

// HandOver is the reason why a machine must be replaced.
type HandOver struct {
	// time is when that was decided.
	// +required
	Time metav1.Time `json:"time,omitzero"`
	// message is why the machine must be replaced, and what was tried.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// quarantine is the reason written to the host's spec.quarantine. It is empty if the server is not the cause: the host is not quarantined then.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Quarantine string `json:"quarantine,omitempty"`
	// quarantinedTime is the time when the host was quarantined, or was found to be. The provider does not quarantine it again after a user has ended that.
	// +optional
	QuarantinedTime *metav1.Time `json:"quarantinedTime,omitempty"`
}

// BareMetalRemediationStatus is the observed state of a remediation. The provider writes it.
type BareMetalRemediationStatus struct {
	// conditions are the conditions of the remediation: Ready and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// phase summarises the progress of the remediation.
	//
	// - Idle: nothing is done, or not yet. The condition Ready has the reason.
	// - PoweringOff: the server is being powered off.
	// - PoweringOn: the server was observed to be off and is being powered on.
	// - Waiting: the server is on, and its Node is not healthy yet.
	// - Recovered: the Node is healthy again.
	// - HandedOver: the provider asked the Machine's owner to replace it.
	// +optional
	Phase RemediationPhase `json:"phase,omitempty"`

	// attempt is the number of the last power cycle, from 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Attempt int32 `json:"attempt,omitempty"`

	// startTime is the time when the last power cycle started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
}

// BareMetalRemediation remediates a machine that a MachineHealthCheck marked as unhealthy. It power-cycles the machine's server. If that does not help,
// it asks the machine's owner to replace it. Cluster API creates it from a BareMetalRemediationTemplate, with the name of the Machine.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalremediations,scope=Namespaced,categories=cluster-api,shortName=bmr
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="Phase of the remediation"
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`,description="Number of the last power cycle"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="What the remediation waits for, or how it ended"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What the remediation waits for, or how it ended"
type BareMetalRemediation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is how the machine is remediated, and the record of the remediation. The record is in the spec because a status is lost in `clusterctl move`.
	// +optional
	Spec BareMetalRemediationSpec `json:"spec,omitzero"`
	// status is the observed state of the remediation.
	// +optional
	Status BareMetalRemediationStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the remediation.
func (r *BareMetalRemediation) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions sets the conditions of the remediation.
func (r *BareMetalRemediation) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// BareMetalRemediationList is a list of BareMetalRemediations.
//
// +kubebuilder:object:root=true
type BareMetalRemediationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalRemediation `json:"items"`
}

// BareMetalRemediationTemplateSpec holds the template.
type BareMetalRemediationTemplateSpec struct {
	// template is the template that Cluster API creates BareMetalRemediations from.
	// +required
	Template BareMetalRemediationTemplateResource `json:"template,omitzero"`
}

// BareMetalRemediationTemplateResource is the template of a BareMetalRemediation.
type BareMetalRemediationTemplateResource struct {
	// metadata holds the labels and annotations of the BareMetalRemediations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec of the BareMetalRemediations.
	// +required
	Spec RemediationStrategy `json:"spec,omitzero"`
}

// BareMetalRemediationTemplate is the template that Cluster API creates BareMetalRemediations from. A MachineHealthCheck refers to it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=baremetalremediationtemplates,scope=Namespaced,categories=cluster-api,shortName=bmrt
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalRemediationTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec holds the template.
	// +required
	Spec BareMetalRemediationTemplateSpec `json:"spec,omitzero"`
}

// BareMetalRemediationTemplateList is a list of BareMetalRemediationTemplates.
//
// +kubebuilder:object:root=true
type BareMetalRemediationTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalRemediationTemplate `json:"items"`
}
