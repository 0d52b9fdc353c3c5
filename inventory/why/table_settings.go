package why

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// settingsReasons are the reasons of SettingsConform, of Available while the firmware settings keep a host from being offered, and of its quarantine.
var settingsReasons = []Row{
	{
		Reason: v1alpha1.ReasonSettingsConform, State: Done,
		Means: "The server has the settings of its BareMetalProfile, and nothing is pending",
	},
	{
		Reason: v1alpha1.ReasonSettingsDiffer, State: Waits, Next: describeSettings,
		Means: "The server has other settings. The message lists some, and says if the last run is not repeated; the BareMetalSettings of the host has up to 20",
		Do:    "Nothing, or see `spec.rollout` of the profile",
		Cause: "the rollout of the profile is paused, or does not change this host now",
	},
	{
		Reason: v1alpha1.ReasonSettingsUnread, State: Waits, Usual: 5 * time.Minute, Next: describeObject,
		Means: "The settings were not read yet",
		Do:    "Wait",
		Cause: "the BMC is busy or does not answer",
	},
	{
		Reason: v1alpha1.ReasonSettingsUnreadable, State: Fault, Next: events,
		Means: "The BMC offers no BIOS attributes, or they cannot be read. A host is not offered then if its profile is `Required`",
		Do:    "Update the firmware of the BMC, or correct `spec.hosts` of the profile",
		Cause: "the firmware of the BMC is old, or its license does not include BIOS attributes",
	},
	{
		Reason: v1alpha1.ReasonSettingsRefused, State: Fault, Next: describeSettings,
		Means: "A wish of the profile cannot be fulfilled on the server, or the BMC refused it. Nothing was changed",
		Do:    "Correct the profile. The message names the wish and the remedy",
		Cause: "a name or a value of the profile has a typing error, or another setting is in the way",
	},
	{
		Reason: v1alpha1.ReasonSettingsForeign, State: Fault, Next: describeSettings,
		Means: "Values are pending at the BMC, and no run is in progress. The next restart would apply them",
		Do:    "Remove them in the setup of the firmware, then [query the BMC](annotations.md)",
		Cause: "a person or another tool has changed settings, and the server was not restarted since",
	},
	{
		Reason: v1alpha1.ReasonSettingsProfilesConflict, State: Fault, Next: listProfiles,
		Means: "Several profiles select the host, so none is applied",
		Do:    "Correct `spec.hosts` of one",
		Cause: "the selectors of two profiles overlap",
	},
	{
		Reason: v1alpha1.ReasonSettingsPending, State: Waits, Usual: 15 * time.Minute, Next: describeObject,
		Means: "The firmware settings are read or changed before a machine can claim the host",
		Do:    "The message says what it waits for",
		Cause: "the server is on, a power hold keeps it off, or a Cluster of the namespace is paused",
	},
	{
		Reason: v1alpha1.ReasonSettingsQueued, State: Waits, Next: listProfiles,
		Means: "The rollout of the BareMetalProfile does not change this host yet",
		Do:    "Wait, or read the status of the profile",
		Cause: "other hosts are changed first, or the rollout has stopped",
	},
	{
		Reason: v1alpha1.ReasonSettingsNotApplied, State: Fault, Next: describeSettings,
		Means: "The server does not have the settings after its restart. The host is in quarantine, or waits for other settings in the profile",
		Do:    "Read `spec.message` of the BareMetalSettings. Correct the profile or the firmware, then remove `spec.quarantine`",
		Cause: "the firmware did not take a value, or the server does not boot with it",
	},
	{
		Reason: v1alpha1.ReasonSettingsUnknown, State: Fault, Next: describeObject,
		Means: "A run is in progress, and its record is lost. If a machine has the server, its host says so in `Booted`, which stays True",
		Do:    "Restore the BareMetalSettings, or check the server and set the annotation [`settings-ended`](annotations.md)",
		Cause: "the BareMetalSettings was deleted, or a backup was restored without it",
	},
}

// profileReasons are the reasons of Ready of a BareMetalProfile.
var profileReasons = []Row{
	{
		Reason: v1alpha1.ReasonProfileRolledOut, State: Done,
		Means: "All hosts that the profile selects have the settings",
	},
	{
		Reason: v1alpha1.ReasonProfilePaused, State: Waits, Next: listSettings,
		Means: "Hosts differ, and the profile changes none",
		Do:    "Read the condition `SettingsConform` of the hosts, then set `spec.rollout.state: Active`",
		Cause: "a new profile is paused until a person has read what it would change",
	},
	{
		Reason: v1alpha1.ReasonProfileRollingOut, State: Waits, Next: listSettings,
		Means: "Hosts differ, and are changed as `spec.rollout` says",
		Do:    "Wait",
		Cause: "hosts are changed one after another, and those that a machine has after their release",
	},
	{
		Reason: v1alpha1.ReasonProfileStopped, State: Fault, Next: listSettings,
		Means: "Hosts did not have the settings after their restart (`spec.rollout.maxFailures`)",
		Do:    "Read their BareMetalSettings, then change the settings, or raise `maxFailures`",
		Cause: "the firmware of these servers does not take a value of the profile",
	},
	{
		Reason: v1alpha1.ReasonProfileNoHosts, State: Fault, Next: listHosts,
		Means: "The profile selects no host",
		Do:    "Correct `spec.hosts`",
		Cause: "a label, a manufacturer or a model of the profile has a typing error",
	},
}
