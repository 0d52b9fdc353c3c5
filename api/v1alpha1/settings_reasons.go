package v1alpha1

// SettingsEndedAnnotation on a host whose record of a settings run is lost says that the run has ended, and what the server has was checked. Its value is who checked it,
// and how. The provider removes it, and offers the host again.
const SettingsEndedAnnotation = "baremetalhost.infrastructure.cluster.x-k8s.io/settings-ended"

// SettingsConformCondition of a BareMetalHost is True if the server has the firmware settings of the BareMetalProfile that selects it, and False if it has not. It is Unknown
// before they were read, and absent without a profile. Ready does not depend on it.
const SettingsConformCondition = "SettingsConform"

// Reasons of SettingsConform, of Available while a host is not offered because of its settings, and of its quarantine.
const (
	// ReasonSettingsConform means that the server has the settings of its profile, and that nothing is pending.
	ReasonSettingsConform = "Conform"
	// ReasonSettingsDiffer means that the server does not have the settings of its profile.
	ReasonSettingsDiffer = "Differ"
	// ReasonSettingsUnread means that the settings were not read yet.
	ReasonSettingsUnread = "NotRead"
	// ReasonSettingsUnreadable means that the BMC offers no BIOS attributes, or that they cannot be read.
	ReasonSettingsUnreadable = "SettingsUnreadable"
	// ReasonSettingsRefused means that a wish of the profile cannot be fulfilled on the server, or that the BMC refused it. Nothing was changed.
	ReasonSettingsRefused = "SettingsRefused"
	// ReasonSettingsForeign means that values are pending at the BMC that the profile does not wish. The next restart of the server would apply them.
	ReasonSettingsForeign = "SettingsPendingFromElsewhere"
	// ReasonSettingsProfilesConflict means that several profiles select the host.
	ReasonSettingsProfilesConflict = "ProfilesConflict"
	// ReasonSettingsPending means that the settings of the server will be read or changed before machines can claim the host.
	ReasonSettingsPending = "SettingsPending"
	// ReasonSettingsQueued means that the change waits because of the rollout of the profile.
	ReasonSettingsQueued = "WaitingForRollout"
	// ReasonConfiguring means that a run changes the settings of the server.
	ReasonConfiguring = "Configuring"
	// ReasonSettingsNotApplied means that the server does not have the settings after it was restarted, or that it is unknown which it has.
	ReasonSettingsNotApplied = "SettingsNotApplied"
	// ReasonSettingsUnknown means that a run is in progress and its record is lost: it is unknown what is pending at the BMC.
	ReasonSettingsUnknown = "SettingsUnknown"
)

// Reasons of Ready of a BareMetalProfile.
const (
	// ReasonProfileRolledOut means that all hosts that the profile selects have the settings.
	ReasonProfileRolledOut = "RolledOut"
	// ReasonProfilePaused means that the profile changes no host until spec.rollout.state is Active.
	ReasonProfilePaused = "RolloutPaused"
	// ReasonProfileRollingOut means that hosts differ, and are changed as spec.rollout says.
	ReasonProfileRollingOut = "RollingOut"
	// ReasonProfileStopped means that the rollout stopped because hosts did not get the settings.
	ReasonProfileStopped = "RolloutStopped"
	// ReasonProfileNoHosts means that the profile selects no host.
	ReasonProfileNoHosts = "NoHosts"
)
