package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// ProfilePermission permits a change that can make a server or its data unusable.
// +kubebuilder:validation:Enum=SecureBoot;KeptDisks
type ProfilePermission string

const (
	// PermitSecureBoot permits that Secure Boot is disabled.
	PermitSecureBoot ProfilePermission = "SecureBoot"
	// PermitKeptDisks permits that Secure Boot changes on a host with spec.storage.keep: disks that are sealed to the TPM cannot be opened any more.
	PermitKeptDisks ProfilePermission = "KeptDisks"
)

// ProfileEnforcement says what becomes of a host that cannot get the settings.
// +kubebuilder:validation:Enum=Preferred;Required
type ProfileEnforcement string

const (
	// EnforcePreferred offers a host with its old settings if a wish is refused.
	EnforcePreferred ProfileEnforcement = "Preferred"
	// EnforceRequired offers no host that does not have the settings.
	EnforceRequired ProfileEnforcement = "Required"
)

// RolloutState says whether a profile is rolled out.
// +kubebuilder:validation:Enum=Paused;Active
type RolloutState string

const (
	// RolloutPaused shows the plans and changes no server.
	RolloutPaused RolloutState = "Paused"
	// RolloutActive changes servers.
	RolloutActive RolloutState = "Active"
)

// RolloutScope says which hosts a profile changes.
// +kubebuilder:validation:Enum=ReleasedHosts;AvailableHosts;HostsInMaintenance
type RolloutScope string

const (
	// ScopeReleasedHosts changes a host after it was registered, and after each release, before it is offered.
	ScopeReleasedHosts RolloutScope = "ReleasedHosts"
	// ScopeAvailableHosts is ScopeReleasedHosts, and changes hosts that are Available.
	ScopeAvailableHosts RolloutScope = "AvailableHosts"
	// ScopeHostsInMaintenance is ScopeAvailableHosts, and changes claimed hosts in a maintenance with drainedBy.
	ScopeHostsInMaintenance RolloutScope = "HostsInMaintenance"
)

// BareMetalProfileSpec is what firmware settings servers are to have, and how they get them.
// +kubebuilder:validation:XValidation:rule="has(self.biosSettings) || has(self.secureBoot)",message="must have biosSettings or secureBoot: a profile without a wish changes nothing"
// +kubebuilder:validation:XValidation:rule="!has(self.allow) || !('SecureBoot' in self.allow) || has(self.secureBoot) && self.secureBoot == 'Disabled'",message="allow must not have SecureBoot unless secureBoot is Disabled: it permits nothing else"
// +kubebuilder:validation:XValidation:rule="!has(self.allow) || !('KeptDisks' in self.allow) || has(self.secureBoot)",message="allow must not have KeptDisks without secureBoot: it permits nothing else"
type BareMetalProfileSpec struct {
	// hosts selects the hosts, in the namespace of the profile.
	// +required
	Hosts ProfileHosts `json:"hosts,omitzero"`

	// biosSettings are the wished values of BIOS attributes, by the names in the attribute registry of the BMC (DSP0268). `bmcctl profile` writes those of a good
	// server, and `bmcctl plan` shows what they would change. Attributes of Secure Boot, of the boot mode and of the boot order are refused here. What is not
	// named is left as it is, and so is what was named when a setting is removed from the profile.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=512
	BIOSSettings []BIOSSetting `json:"biosSettings,omitempty"`

	// secureBoot is Enabled or Disabled. Enabled needs firmware with the keys that the provider's shim is signed with: the provider enrols and resets no keys. Enabled
	// is refused on a host whose bootMode is not UEFISecureBoot, and Disabled on one whose bootMode is. If it is not set, Secure Boot is not changed.
	// +optional
	SecureBoot wire.SecureBoot `json:"secureBoot,omitempty"`

	// allow permits what can make a server or its data unusable. Defaults to nothing.
	//
	// - SecureBoot permits that Secure Boot is disabled.
	// - KeptDisks permits that Secure Boot changes on a host with spec.storage.keep.
	//   A disk that is sealed to the TPM cannot be opened after that.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=2
	Allow []ProfilePermission `json:"allow,omitempty"`

	// enforcement is Preferred or Required. A host that cannot get the settings, because a wish is refused, is offered to machines with Preferred, and is not offered
	// with Required, once the rollout is Active. A host that is Available already stays so. Defaults to Preferred.
	// +optional
	// +kubebuilder:default=Preferred
	Enforcement ProfileEnforcement `json:"enforcement,omitempty"`

	// rollout says when and how many servers are changed. A new profile is paused.
	// +optional
	// +kubebuilder:default={}
	Rollout ProfileRollout `json:"rollout,omitzero"`
}

// ProfileHosts selects hosts. A host must match all of its fields.
// +kubebuilder:validation:MinProperties=1
type ProfileHosts struct {
	// selector selects hosts by their labels.
	// +optional
	Selector *HostSelector `json:"selector,omitempty"`
	// manufacturers are the manufacturers of the servers, as the BMC reports them (status.hardware.manufacturer of a host).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Manufacturers []string `json:"manufacturers,omitempty"`
	// models are the models of the servers, as the BMC reports them (status.hardware.model of a host).
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	Models []string `json:"models,omitempty"`
}

// BIOSSetting is the wished value of a BIOS attribute.
type BIOSSetting struct {
	// name is the name of the attribute, as the BMC writes it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
	// value is the wished value: a text or an integer. 8 and "8" are the same. Write true, false, on, off, yes, no and integers of more than
	// 32 bits in quotes, because YAML reads them as other types.
	// +required
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="type(self) != int || int(self) >= -2147483648 && int(self) <= 2147483647",message="value must have at most 32 bits as an integer: write a larger one in quotes"
	Value *intstr.IntOrString `json:"value,omitempty"`
}

// ProfileRollout says when and how many servers a profile changes.
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || self.scope != 'ReleasedHosts'",message="minAvailable must not be set with the scope ReleasedHosts: no Available host is changed"
type ProfileRollout struct {
	// state is Paused or Active. While it is Paused, the plan of each host is shown and nothing is changed. Defaults to Paused.
	// +optional
	// +kubebuilder:default=Paused
	State RolloutState `json:"state,omitempty"`
	// scope says which hosts are changed. Defaults to ReleasedHosts.
	//
	// - ReleasedHosts: a host after its registration and after each release,
	//   before it is offered to machines.
	// - AvailableHosts: these, and hosts that are Available.
	// - HostsInMaintenance: these, and claimed hosts in a maintenance whose
	//   drainedBy says who drained the Node. The server is shut down and powered
	//   on once. It must run a machine that is installed on a disk. Secure Boot is
	//   not changed there.
	// +optional
	// +kubebuilder:default=ReleasedHosts
	Scope RolloutScope `json:"scope,omitempty"`
	// maxUnavailable is how many hosts of this profile are changed at once. Defaults to 1. Other profiles have limits of their own.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxUnavailable int32 `json:"maxUnavailable,omitempty"`
	// maxUnavailablePerFailureDomain is how many hosts of this profile in each failure domain (spec.failureDomain of a host), such as a rack, are changed at once. Defaults
	// to no limit but maxUnavailable. Hosts without a failure domain have only that limit. Two profiles with hosts in one failure domain may restart hosts of both at once.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxUnavailablePerFailureDomain int32 `json:"maxUnavailablePerFailureDomain,omitempty"`
	// maxFailures is the number of failed hosts after which no further host is changed. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxFailures int32 `json:"maxFailures,omitempty"`
	// minAvailable is the number of Available hosts, of those that hosts selects, below which no Available host is changed. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	MinAvailable *int32 `json:"minAvailable,omitempty"`
}

// BareMetalProfileStatus is how far a profile is rolled out. The provider writes it.
type BareMetalProfileStatus struct {
	// conditions are the current conditions.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// matchingHosts is the number of hosts that the profile selects.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MatchingHosts *int32 `json:"matchingHosts,omitempty"`
	// conformingHosts is the number of those that have the settings.
	// +optional
	// +kubebuilder:validation:Minimum=0
	ConformingHosts *int32 `json:"conformingHosts,omitempty"`
	// failedHosts is the number of those that did not have the settings after they were restarted for the same biosSettings, secureBoot and allow.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FailedHosts *int32 `json:"failedHosts,omitempty"`
	// observedGeneration is the generation of the profile that this status describes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// BareMetalProfile is what firmware settings servers are to have: BIOS attributes and Secure Boot. Its deletion changes no server: what was set stays set.
//
// `bmcctl plan` shows what a profile would change on a server. The provider applies profiles only with its flag --profiles.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalprofiles,scope=Namespaced,categories=cluster-api,shortName=bmpr
// +kubebuilder:printcolumn:name="Rollout",type=string,JSONPath=`.spec.rollout.state`,description="Whether servers are changed"
// +kubebuilder:printcolumn:name="Scope",type=string,JSONPath=`.spec.rollout.scope`,description="Which hosts are changed"
// +kubebuilder:printcolumn:name="Hosts",type=integer,JSONPath=`.status.matchingHosts`,description="Number of hosts that the profile selects"
// +kubebuilder:printcolumn:name="Conforming",type=integer,JSONPath=`.status.conformingHosts`,description="Number of those that have the settings"
// +kubebuilder:printcolumn:name="Failed",type=integer,JSONPath=`.status.failedHosts`,description="Number of those that did not get the settings"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalProfile struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what settings which servers are to have.
	// +required
	Spec BareMetalProfileSpec `json:"spec,omitzero"`
	// status is how far the profile is rolled out.
	// +optional
	Status BareMetalProfileStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the profile.
func (p *BareMetalProfile) GetConditions() []metav1.Condition { return p.Status.Conditions }

// SetConditions sets the conditions of the profile.
func (p *BareMetalProfile) SetConditions(conditions []metav1.Condition) {
	p.Status.Conditions = conditions
}

// BareMetalProfileList is a list of BareMetalProfiles.
//
// +kubebuilder:object:root=true
type BareMetalProfileList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalProfile `json:"items"`
}
