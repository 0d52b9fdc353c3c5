package timeline

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// reasonRunStarted is the reason of the event of a settings run that starts. That of its end is settingsPrefix with the outcome.
const (
	reasonRunStarted = "SettingsRunStarted"
	settingsPrefix   = "Settings"
)

// settingsEntries are the times of the last settings run, and when the settings were read with another result than before. An event that has the number of the run replaces its start
// or its end.
func settingsEntries(s *v1alpha1.BareMetalSettings, events []Entry) []Entry {
	if s == nil {
		return nil
	}
	var entries []Entry
	if s.Spec.Number > 0 {
		entries = runEntries(&s.Spec, events)
	}
	if read := s.Status.ReadTime; read != nil && s.Status.Profile != nil {
		differ := int32(0)
		if s.Status.DifferenceCount != nil {
			differ = *s.Status.DifferenceCount
		}
		entries = append(entries, at(read, SourceSettings, "Read", fmt.Sprintf("compared with BareMetalProfile %s: %d differences", s.Status.Profile.Name, differ)))
	}
	return entries
}

// runEntries are the times of a settings run.
func runEntries(run *v1alpha1.BareMetalSettingsSpec, events []Entry) []Entry {
	number := fmt.Sprintf("run %d", run.Number)
	reported := func(reason string) bool {
		return slices.ContainsFunc(events, func(e Entry) bool {
			return e.What == reason && (strings.HasPrefix(e.Message, fmt.Sprintf("Run %d:", run.Number)) || strings.HasPrefix(e.Message, fmt.Sprintf("Run %d of ", run.Number)))
		})
	}
	var entries []Entry
	if !reported(reasonRunStarted) {
		start := at(run.StartTime, SourceSettings, "Started", number+wishesOf(run))
		start.By = run.RequestedBy
		entries = append(entries, start)
	}
	entries = append(entries, at(run.StagingTime, SourceSettings, "Staging", number+": the BMC gets the settings"),
		at(run.StagedTime, SourceSettings, "Staged", number+": the settings are pending at the BMC, for the next restart"),
		at(run.PoweredOffTime, SourceSettings, "PoweredOff", number+": the server was off, and is powered on with the settings"))
	if run.Outcome == "" || reported(settingsPrefix+string(run.Outcome)) {
		return entries
	}
	end := Entry{Source: SourceSettings, What: string(run.Outcome), Message: strings.TrimSuffix(number+": "+run.Message, ": "), Warning: run.Outcome != v1alpha1.SettingsApplied}
	if end.Time = lastTime(entries); run.EndTime != nil { // the outcome is recorded before the end, and has no time
		end.Time = run.EndTime.Time
	}
	return append(entries, end)
}

// wishesOf says which profile a run applies, and what it changes.
func wishesOf(run *v1alpha1.BareMetalSettingsSpec) string {
	var text string
	if run.Profile != nil {
		text = " of BareMetalProfile " + run.Profile.Name
	}
	text += fmt.Sprintf(": %d attributes", len(run.Changes))
	if run.SecureBoot != "" {
		text += ", Secure Boot " + string(run.SecureBoot)
	}
	return text
}

func lastTime(entries []Entry) time.Time {
	var last time.Time
	for i := range entries {
		if entries[i].Time.After(last) {
			last = entries[i].Time
		}
	}
	return last
}
