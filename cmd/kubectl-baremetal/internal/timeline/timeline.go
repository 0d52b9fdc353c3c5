// Package timeline puts in one order what happened to a server, from everything that remembers it: Kubernetes events, the boot and its stages, the inspection, erasures,
// the settings run, and the times in the host. Kubernetes deletes events after an hour by default; the other sources stay.
package timeline

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// Source says what remembers an entry.
type Source string

// The sources.
const (
	SourceEvent      Source = "event"
	SourceBoot       Source = "boot"
	SourceInspection Source = "inspection"
	SourceErasure    Source = "erasure"
	SourceCondition  Source = "condition"
	SourceHost       Source = "host"
	// SourceSettings is the record of the last settings run.
	SourceSettings Source = "settings"
	// SourceBMC are the logs of the BMC: the events and the newest warnings and critical entries in the status of the host. Times of entries are those of the BMC's clock.
	SourceBMC Source = "bmc"
)

// Sources are all sources.
func Sources() []string {
	return []string{string(SourceBMC), string(SourceBoot), string(SourceCondition), string(SourceErasure), string(SourceEvent), string(SourceHost), string(SourceInspection), string(SourceSettings)}
}

// Entry is something that happened to a server.
type Entry struct {
	// Time is when it happened, by the clock of the management cluster; for an entry of a log of a BMC by its clock.
	Time   time.Time `json:"time"`
	Source Source    `json:"source"`
	// What is one word, such as the reason of an event or the stage of a boot.
	What string `json:"what"`
	// Object is KIND/NAME if it is not the host.
	Object string `json:"object,omitempty"`
	// By is who observed it or asked for it, as far as it is known.
	By      string `json:"by,omitempty"`
	Message string `json:"message,omitempty"`
	// Warning is true for what an event calls a warning, for a failure, and for a condition that is not as wanted.
	Warning bool `json:"warning,omitempty"`
	// Count is how often an event was repeated; 0 or 1 for once.
	Count int32 `json:"count,omitempty"`
}

// Objects are what remembers the past of a server. Those that do not exist, or were not read, are nil or empty.
type Objects struct {
	Host       *v1alpha1.BareMetalHost
	Boot       *v1alpha1.BareMetalBoot
	Inspection *v1alpha1.BareMetalInspection
	Settings   *v1alpha1.BareMetalSettings
	Erasures   []v1alpha1.BareMetalErasure
	Requests   []v1alpha1.BareMetalErasureRequest
	Events     []corev1.Event
	// Unread are the objects and kinds that could not be read.
	Unread []why.Unread
}

// Entries returns what happened, the newest last. Nothing is twice: a stage of a boot, the start or the end of a settings run, or an entry of a log that an event reports is left
// to the event.
func Entries(o *Objects) []Entry {
	events := eventEntries(o)
	entries := slices.Concat(
		events, withoutEvents(bootEntries(o.Boot), events), hostEntries(o.Host), bmcEntries(o.Host, events), inspectionEntries(o.Inspection), erasureEntries(o),
		settingsEntries(o.Settings, events),
	)
	entries = slices.DeleteFunc(entries, func(e Entry) bool { return e.Time.IsZero() })
	slices.SortStableFunc(entries, func(a, b Entry) int {
		byStage := cmp.Compare(lifecycle.StageRank(v1alpha1.BootStage(a.What)), lifecycle.StageRank(v1alpha1.BootStage(b.What))) // stages of one second
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Source, b.Source), byStage, cmp.Compare(a.What, b.What))
	})
	return entries
}

// Select returns the entries since a time, of these sources. No source means all.
func Select(entries []Entry, since time.Time, sources []string) []Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool {
		return e.Time.Before(since) || len(sources) > 0 && !slices.Contains(sources, string(e.Source))
	})
}

// sameMoment is how far an event may be from the stage that it reports.
const sameMoment = 5 * time.Second

// withoutEvents returns the entries of a boot that no event reports. Stages that are failures have events with the prefix Boot, and that of the data is BootstrapDataServed.
func withoutEvents(boot, events []Entry) []Entry {
	return slices.DeleteFunc(boot, func(b Entry) bool {
		return slices.ContainsFunc(events, func(e Entry) bool {
			reports := e.What == "Boot"+b.What || e.What == "BootstrapDataServed" && b.What == string(v1alpha1.StageData)
			return reports && e.Time.Sub(b.Time).Abs() <= sameMoment
		})
	})
}

// ClockWarning is what the provider says about the clock of the BMC; empty if it found no difference that matters.
func ClockWarning(h *v1alpha1.BareMetalHost) string {
	if h == nil || h.Status.BMC == nil {
		return ""
	}
	for _, warning := range h.Status.BMC.Warnings {
		if strings.Contains(warning, "clock") {
			return warning
		}
	}
	return ""
}
