package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
)

// RemediationFinalizer keeps a BareMetalRemediation until its power hold and its taint are taken back.
const RemediationFinalizer = "baremetalremediation.infrastructure.cluster.x-k8s.io"

// RemediationPhase says how far a remediation is.
// +kubebuilder:validation:Enum=Idle;PoweringOff;PoweringOn;Waiting;Recovered;HandedOver
type RemediationPhase string

// The phases of a remediation.
const (
	// RemediationIdle means that nothing is done, or not yet; the condition Ready says why.
	RemediationIdle RemediationPhase = "Idle"
	// RemediationPoweringOff means that the server is being powered off.
	RemediationPoweringOff RemediationPhase = "PoweringOff"
	// RemediationPoweringOn means that the server was seen off and is being powered on.
	RemediationPoweringOn RemediationPhase = "PoweringOn"
	// RemediationWaiting means that the server is on and its Node is awaited.
	RemediationWaiting RemediationPhase = "Waiting"
	// RemediationRecovered means that the Node is healthy again.
	RemediationRecovered RemediationPhase = "Recovered"
	// RemediationHandedOver means that the Machine's owner was told to replace it.
	RemediationHandedOver RemediationPhase = "HandedOver"
)

// Reasons of the condition Ready of a BareMetalRemediation, which is True when the Node is healthy again.
const (
	// ReasonMachineNotFound means that the remediation has no owner that is a Machine, or it is not there: nothing is done.
	ReasonMachineNotFound = "MachineNotFound"
	// ReasonMachineDeleting means that the Machine is being deleted, which ends the remediation.
	ReasonMachineDeleting = "MachineDeleting"
	// ReasonHostNotReady means that something else is done with the host, or must not be done; the message says what.
	ReasonHostNotReady = "HostNotReady"
	// ReasonNodeHealthy means that the machine is not found unhealthy, and its Node is Ready or cannot be looked at: nothing is done while that is so.
	ReasonNodeHealthy = "NodeHealthy"
	// ReasonPoweringOff means that the server is being switched off.
	ReasonPoweringOff = "PoweringOff"
	// ReasonPoweringOn means that the server was seen off and is being switched on.
	ReasonPoweringOn = "PoweringOn"
	// ReasonWaitingForNode means that the server is on and its Node is not healthy yet.
	ReasonWaitingForNode = "WaitingForNode"
	// ReasonRecovered means that the Node is healthy again.
	ReasonRecovered = "Recovered"
	// ReasonHandedOver means that the Machine's owner was told to replace it.
	ReasonHandedOver = "HandedOver"
	// ReasonTaintLeft means that the remediation ends and its taint cannot be taken off the Node yet.
	ReasonTaintLeft = "TaintLeft"
	// ReasonRemediationFailed is the reason of a quarantine: the server was power-cycled, and its Node did not come back.
	ReasonRemediationFailed = "RemediationFailed"
)

// RemediationStrategy says how an unhealthy machine is helped.
type RemediationStrategy struct {
	// retries is how many times the server is power-cycled before the machine is handed over to be replaced. 0 hands it over at once.
	// Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	Retries *int32 `json:"retries,omitempty"`

	// timeoutSeconds is how long, in seconds, the server may take from the beginning of a power cycle until its Node is healthy. Defaults to 1200.
	// +optional
	// +kubebuilder:default=1200
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// BareMetalRemediationSpec says how an unhealthy machine is helped, and records what was done. The record stands in the spec because it must
// survive where a status does not: it keeps a server from being power-cycled more often than it should.
type BareMetalRemediationSpec struct {
	RemediationStrategy `json:",inline"`

	// powerCycle records the last power cycle. The provider writes it.
	// +optional
	PowerCycle *PowerCycle `json:"powerCycle,omitempty"`

	// taintedNode names the Node that the remediation put the out-of-service taint on. The provider writes it before it does so, and removes it
	// when the taint is gone.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	TaintedNode string `json:"taintedNode,omitempty"`

	// handOver records that the machine is to be replaced, and why. The provider writes it, and it ends the remediation.
	// +optional
	HandOver *HandOver `json:"handOver,omitempty"`
}

// PowerCycle is one power cycle of the server.
type PowerCycle struct {
	// attempt counts the power cycles of the remediation, from 1. 0 stands for none: the host is left alone for something else, such as its
	// maintenance, and from offAt, when that ended, its server has the time of a power cycle to come back by itself.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Attempt int32 `json:"attempt,omitempty"`
	// host names the BareMetalHost whose server it is. The record is written before the host gets its power hold.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Host string `json:"host,omitempty"`
	// startedAt is when it began.
	// +required
	StartedAt metav1.Time `json:"startedAt,omitzero"`
	// offAt is when the server was confirmed to be off in it. From then on it is only switched on.
	// +optional
	OffAt *metav1.Time `json:"offAt,omitempty"`
	// recoveredAt is when the Node was healthy again. It ends the power cycle: what goes wrong later is a new story.
	// +optional
	RecoveredAt *metav1.Time `json:"recoveredAt,omitempty"`
}

// HandOver says why a machine is to be replaced.
type HandOver struct {
	// at is when that was decided.
	// +required
	At metav1.Time `json:"at,omitzero"`
	// message says why, and what was tried.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// quarantine is the reason for which the host is put into quarantine. Without one it is not: its server is well.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Quarantine string `json:"quarantine,omitempty"`
	// quarantinedAt is when the host was put into quarantine, or found there. It is a matter of people from then on: a quarantine that a person
	// ends does not come back.
	// +optional
	QuarantinedAt *metav1.Time `json:"quarantinedAt,omitempty"`
}

// BareMetalRemediationStatus is what is known of a remediation.
type BareMetalRemediationStatus struct {
	// phase says how far the remediation is.
	// +optional
	Phase RemediationPhase `json:"phase,omitempty"`

	// attempt counts the power cycles, from 1.
	// +optional
	Attempt int32 `json:"attempt,omitempty"`

	// startedAt is when the last power cycle began.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`

	// conditions say what is well and what is wrong: Ready and Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BareMetalRemediation helps a machine that a MachineHealthCheck found unhealthy: it power-cycles its server, and where that does not
// help has the machine replaced. Cluster API makes it from a BareMetalRemediationTemplate, with the name of the Machine.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalremediations,scope=Namespaced,categories=cluster-api,shortName=bmr
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`,description="How far the remediation is"
// +kubebuilder:printcolumn:name="Attempt",type=integer,JSONPath=`.status.attempt`,description="Power cycles so far"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,description="What is awaited, or how it ended"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,description="What is awaited, or how it ended"
type BareMetalRemediation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says how the machine is helped.
	// +optional
	Spec BareMetalRemediationSpec `json:"spec,omitzero"`
	// status is what is known of the remediation.
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
	// template is what BareMetalRemediations are made from.
	// +required
	Template BareMetalRemediationTemplateResource `json:"template,omitzero"`
}

// BareMetalRemediationTemplateResource is what BareMetalRemediations are made from.
type BareMetalRemediationTemplateResource struct {
	// metadata is the metadata that the remediations get.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec that the remediations get.
	// +required
	Spec RemediationStrategy `json:"spec,omitzero"`
}

// BareMetalRemediationTemplate is what Cluster API makes BareMetalRemediations from. A MachineHealthCheck names it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=baremetalremediationtemplates,scope=Namespaced,categories=cluster-api,shortName=bmrt
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalRemediationTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
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
