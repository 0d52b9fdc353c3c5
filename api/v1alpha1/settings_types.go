package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// SettingsOutcome is how a run ended.
// +kubebuilder:validation:Enum=Applied;Refused;Withdrawn;Failed
type SettingsOutcome string

const (
	// SettingsApplied means that the server was restarted and has the settings.
	SettingsApplied SettingsOutcome = "Applied"
	// SettingsRefused means that the BMC refused the settings before the server was restarted. Nothing was changed.
	SettingsRefused SettingsOutcome = "Refused"
	// SettingsWithdrawn means that the run ended before the server was restarted, for a reason that is neither the settings nor the BMC. Nothing was changed, and another
	// run begins when that is possible.
	SettingsWithdrawn SettingsOutcome = "Withdrawn"
	// SettingsFailed means that the server was restarted and does not have the settings, or that it is unknown what it has.
	SettingsFailed SettingsOutcome = "Failed"
)

// SettingsProfile identifies the profile of a run.
type SettingsProfile struct {
	// name is the name of the BareMetalProfile.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// uid is metadata.uid of the profile.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	UID string `json:"uid,omitempty"`
	// generation is the generation of the profile that the run applies.
	// +required
	// +kubebuilder:validation:Minimum=1
	Generation int64 `json:"generation,omitempty"`
	// hash is a SHA-256 hash of biosSettings, secureBoot and allow of the profile, in hexadecimal. A run that ended is not repeated, and counts as a failure, for a profile
	// with the same name and the same hash, also if that was paused or created again.
	// +required
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
}

// SameWish is true for profiles with the same name that wish the same.
func (p *SettingsProfile) SameWish(other SettingsProfile) bool {
	return p.Name == other.Name && p.Hash == other.Hash
}

// SettingChange is the change of a BIOS attribute in a run.
type SettingChange struct {
	// name is the name of the attribute.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
	// before is the value before the run, as a text. It is absent if that was empty or is not shown.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Before string `json:"before,omitempty"`
	// value is the wished value, as a text. It is absent for the empty text.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Value string `json:"value,omitempty"`
}

// BareMetalSettingsSpec is the record of the last run that changed the firmware settings of a host. The provider writes it and users read it. It is in the spec
// because a status is lost in `clusterctl move`, and without it a server could be restarted twice.
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.number) || has(self.number) && self.number >= oldSelf.number",message="number must not decrease: it counts the runs of the host"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.number) || !has(oldSelf.stagingTime) || has(self.number) && self.number != oldSelf.number || has(self.profile) == has(oldSelf.profile) && (!has(self.profile) || self.profile == oldSelf.profile) && has(self.changes) == has(oldSelf.changes) && (!has(self.changes) || self.changes == oldSelf.changes) && has(self.secureBoot) == has(oldSelf.secureBoot) && (!has(self.secureBoot) || self.secureBoot == oldSelf.secureBoot)",message="profile, changes and secureBoot must not change after stagingTime is set: only a new run, with a higher number, may have other values"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.number) || has(self.number) && self.number != oldSelf.number || (!has(oldSelf.stagingTime) || has(self.stagingTime) && self.stagingTime == oldSelf.stagingTime) && (!has(oldSelf.stagedTime) || has(self.stagedTime) && self.stagedTime == oldSelf.stagedTime) && (!has(oldSelf.outcome) || has(self.outcome) && self.outcome == oldSelf.outcome) && (!has(oldSelf.endTime) || has(self.endTime) && self.endTime == oldSelf.endTime)",message="stagingTime, stagedTime, outcome and endTime are immutable once they are set: only a new run, with a higher number, may have other values"
type BareMetalSettingsSpec struct {
	// number is the number of the run. The runs of a host count from 1, and the number never decreases. A run is in progress only after
	// spec.providerState.settingsRuns of the host has reached its number.
	// +optional
	// +kubebuilder:validation:Minimum=1
	Number int32 `json:"number,omitempty"`
	// profile is the profile that the run applies.
	// +optional
	Profile *SettingsProfile `json:"profile,omitempty"`
	// changes are the BIOS attributes that the run changes. A change of the profile does not change a run in progress.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=512
	Changes []SettingChange `json:"changes,omitempty"`
	// secureBoot is the state of Secure Boot that the run sets. It is absent if the run does not change it.
	// +optional
	SecureBoot wire.SecureBoot `json:"secureBoot,omitempty"`
	// requestedBy is spec.maintenance.drainedBy of the host when the run started on the server of a machine. It is absent for a run on a free host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	RequestedBy string `json:"requestedBy,omitempty"`
	// startTime is the time when the run started.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// deadlineTime is the time at which the run fails if it has not ended.
	// +optional
	DeadlineTime *metav1.Time `json:"deadlineTime,omitempty"`
	// stagingTime is the time from which the BMC may have values of this run. It is written before the first request.
	// +optional
	StagingTime *metav1.Time `json:"stagingTime,omitempty"`
	// stagedTime is the time when the BMC reported all changes as pending.
	// +optional
	StagedTime *metav1.Time `json:"stagedTime,omitempty"`
	// task is the path of the task of the BMC that applies the changes. It is absent if the BMC names none.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Task string `json:"task,omitempty"`
	// powerOffTime is the time from which the server of a machine may be off because of this run. It is written before the server is first asked to shut down. From then
	// on the server ends powered on, also after the maintenance. It is absent for a run on a free host.
	// +optional
	PowerOffTime *metav1.Time `json:"powerOffTime,omitempty"`
	// poweredOffTime is the time when the server of a machine was confirmed off, to restart it with the settings. It is written before the server is powered on. It
	// is absent for a run on a free host.
	// +optional
	PoweredOffTime *metav1.Time `json:"poweredOffTime,omitempty"`
	// bootNumber is the number of the boot of the host that restarted the server.
	// +optional
	// +kubebuilder:validation:Minimum=1
	BootNumber int32 `json:"bootNumber,omitempty"`
	// outcome is how the run ended: Applied, Refused, Withdrawn or Failed. It is absent before that.
	// +optional
	Outcome SettingsOutcome `json:"outcome,omitempty"`
	// message says why the outcome is not Applied.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Message string `json:"message,omitempty"`
	// endTime is the time when the run ended. After it the provider does nothing for the run.
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// offeredBoots is spec.providerState.boots of the host when it was offered to machines although its settings differ from those of the profile. While the host has
	// not been booted since, a profile with the scope ReleasedHosts does not change it.
	// +optional
	// +kubebuilder:validation:Minimum=0
	OfferedBoots *int32 `json:"offeredBoots,omitempty"`
}

// SettingDifference is an attribute whose value is not the wished one.
type SettingDifference struct {
	// name is the name of the attribute.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`
	// observed is the value that the BMC reports, as a text. It is absent if that is empty or is not shown.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Observed string `json:"observed,omitempty"`
	// wished is the value of the profile, as a text. It is absent for the empty text, and for a pending value that no profile names.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Wished string `json:"wished,omitempty"`
	// pending is the value that is staged for the next restart, as a text. It is absent if no value is staged.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Pending string `json:"pending,omitempty"`
}

// BareMetalSettingsStatus is what was read of the firmware settings of a host. The provider writes it, and restores all of it when it is lost. A host has hundreds of
// BIOS attributes: the status has those that differ, and hashes of the others.
type BareMetalSettingsStatus struct {
	// conditions are the current conditions.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// readTime is the time when the settings were read last and one of the other fields changed.
	// +optional
	ReadTime *metav1.Time `json:"readTime,omitempty"`
	// profile is the profile that the settings were compared with. It is absent if no profile selects the host.
	// +optional
	Profile *SettingsProfile `json:"profile,omitempty"`
	// registry is the name of the attribute registry. It is absent if the BMC does not have one.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Registry string `json:"registry,omitempty"`
	// differences are the attributes that are not as wished, and those with a pending value, at most 20.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	Differences []SettingDifference `json:"differences,omitempty"`
	// differenceCount is how many there are.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DifferenceCount *int32 `json:"differenceCount,omitempty"`
	// namedHash is a SHA-256 hash of the values that the profile names, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	NamedHash string `json:"namedHash,omitempty"`
	// otherHash is a SHA-256 hash of the values that the profile does not name, in hexadecimal.
	// +optional
	// +kubebuilder:validation:MinLength=64
	// +kubebuilder:validation:MaxLength=64
	OtherHash string `json:"otherHash,omitempty"`
	// secureBoot is the state of Secure Boot for the next boot. It is absent if the BMC does not report it.
	// +optional
	SecureBoot wire.SecureBoot `json:"secureBoot,omitempty"`
}

// BareMetalSettings is the firmware settings of the BareMetalHost with the same name: the record of the last run that changed them, and what was read of them. The
// provider creates and writes it. Do not delete it while a run is in progress: without its record the host is not offered. After
// that, a deletion lets the last run be repeated.
//
// Only a provider with the flag --profiles creates such objects.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=baremetalsettings,scope=Namespaced,categories=cluster-api,shortName=bmst
// +kubebuilder:printcolumn:name="Profile",type=string,JSONPath=`.status.profile.name`,description="Profile that the settings are compared with"
// +kubebuilder:printcolumn:name="Run",type=integer,JSONPath=`.spec.number`,description="Number of the last run"
// +kubebuilder:printcolumn:name="Outcome",type=string,JSONPath=`.spec.outcome`,description="How the last run ended"
// +kubebuilder:printcolumn:name="Differences",type=integer,JSONPath=`.status.differenceCount`,description="Number of settings that are not as wished"
// +kubebuilder:printcolumn:name="Read",type=date,JSONPath=`.status.readTime`,description="Time since the settings were read"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type BareMetalSettings struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the record of the last run. It is absent before the first one.
	// +optional
	Spec BareMetalSettingsSpec `json:"spec,omitzero"`
	// status is what was read of the settings.
	// +optional
	Status BareMetalSettingsStatus `json:"status,omitzero"`
}

// GetConditions returns the conditions of the settings.
func (s *BareMetalSettings) GetConditions() []metav1.Condition { return s.Status.Conditions }

// SetConditions sets the conditions of the settings.
func (s *BareMetalSettings) SetConditions(conditions []metav1.Condition) {
	s.Status.Conditions = conditions
}

// BareMetalSettingsList is a list of BareMetalSettings.
//
// +kubebuilder:object:root=true
type BareMetalSettingsList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []BareMetalSettings `json:"items"`
}
