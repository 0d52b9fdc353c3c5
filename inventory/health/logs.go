package health

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

const (
	// maxKept is the maximum length of HealthStatus.Log.
	maxKept = 8
	// maxLogs is the maximum number of logs of a server.
	maxLogs = 4
	// maxEvents is the maximum number of entries of a server in eventWindow that become events.
	maxEvents   = 10
	eventWindow = time.Minute
	// fullPercent is how full a log is when it is reported: a BMC writes nothing into a full one.
	fullPercent = 90
)

// Entry is an entry of a log. Its texts are bounded.
type Entry struct {
	ID       string
	Time     time.Time // zero if the BMC does not say it
	Severity wire.Health
	Message  string
}

// Log is the newest entries of a log.
type Log struct {
	// Name identifies the log.
	Name string
	// Max is how many entries it can have before it takes no more; 0 if that is unknown, or if it overwrites the oldest.
	Max int
	// Count is how many entries it has.
	Count int
	// Entries are the newest entries, newest first.
	Entries []Entry
}

// Source is a log that was read before.
type Source struct {
	Name string
	Max  int
	// Newest is the ID of its newest entry.
	Newest string
}

// mark is the newest entry of a log that was seen.
type mark struct {
	Source

	at    time.Time // of the newest entry
	empty bool      // the log had no entry
	full  bool
}

// Logs is what is remembered of the logs of one server.
type Logs struct {
	readAt   time.Time
	marks    []mark
	kept     []v1alpha1.LogEntry // newest first
	restored bool                // kept is from a status
	find     bool                // the next reading searches for the logs
	// events are the times of the last entries that became events, and omitted counts the entries that did not since then.
	events  []time.Time
	omitted int
}

// News is what is new in the logs.
type News struct {
	// Entries are the new warnings and critical entries that become events, oldest first.
	Entries []v1alpha1.LogEntry
	// Omitted counts the entries that do not become events, because there are too many.
	Omitted int
	// Severe counts the new entries by severity, with those that are omitted.
	Severe map[wire.Health]int
	// Cleared are the logs that were cleared, or that began again.
	Cleared []string
	// Full are the logs that have become nearly full.
	Full []Source
}

// Sources returns the logs that were read before. It is empty if the next reading shall find them.
func (l *Logs) Sources() []Source {
	if l.find {
		return nil
	}
	sources := make([]Source, 0, len(l.marks))
	for _, m := range l.marks {
		sources = append(sources, m.Source)
	}
	return sources
}

// FindAgain makes the next reading search for the logs: firmware of another version has others. It keeps what is known of them.
func (l *Logs) FindAgain() { l.find = true }

func (l *Logs) restore(kept []v1alpha1.LogEntry) { l.kept, l.restored = kept, len(kept) > 0 }

// Note records a reading of the logs; without a log, that none could be read. The first reading of a log shows what is in it, and nothing of it is new.
func (l *Logs) Note(logs []Log, now time.Time) News {
	news := News{Severe: map[wire.Health]int{}}
	if l.readAt = now; len(logs) == 0 {
		return news
	}
	var (
		marks []mark
		fresh []v1alpha1.LogEntry
		floor time.Time
	)
	if l.restored {
		floor = timeOf(l.kept[0])
	}
	for _, log := range logs[:min(len(logs), maxLogs)] {
		before := l.markOf(log.Name)
		found := log.Entries
		if before != nil {
			var cleared bool
			if found, cleared = newer(*before, log); cleared {
				news.Cleared = append(news.Cleared, log.Name)
			}
		}
		severe := severeOf(log.Name, found)
		l.keep(severe, floor)
		if before != nil {
			fresh = append(fresh, severe...)
		}
		marks = append(marks, next(before, log))
		if last := marks[len(marks)-1]; last.full && (before == nil || !before.full) {
			news.Full = append(news.Full, last.Source)
		}
	}
	for _, m := range l.marks { // a log that could not be read this time
		if !l.find && len(marks) < maxLogs && !slices.ContainsFunc(marks, func(other mark) bool { return other.Name == m.Name }) {
			marks = append(marks, m)
		}
	}
	l.marks, l.restored, l.find = marks, false, false
	for _, e := range fresh {
		news.Severe[e.Severity]++
	}
	news.Entries, news.Omitted = l.limit(fresh, now)
	return news
}

func (l *Logs) markOf(name string) *mark {
	for i := range l.marks {
		if l.marks[i].Name == name {
			return &l.marks[i]
		}
	}
	return nil
}

// next returns the mark after a reading. A log without an entry keeps no ID: whatever comes next is new.
func next(before *mark, log Log) mark {
	m := mark{Source: Source{Name: log.Name, Max: log.Max}, empty: len(log.Entries) == 0}
	if before != nil {
		m.Max = cmp.Or(log.Max, before.Max)
	}
	if !m.empty {
		m.Newest, m.at = log.Entries[0].ID, log.Entries[0].Time
	}
	m.full = m.Max > 0 && log.Count*100 > m.Max*fullPercent
	return m
}

// newer returns the entries that came after a mark, and whether the log was cleared or began again since then. It finds the entry of the mark by its ID and its time, because a log
// that began again has the same IDs. If that entry is gone the IDs decide, if they are numbers, and otherwise the times.
func newer(m mark, log Log) (entries []Entry, cleared bool) {
	if len(log.Entries) == 0 {
		return nil, !m.empty
	}
	if m.empty {
		return log.Entries, false
	}
	at := slices.IndexFunc(log.Entries, func(e Entry) bool { return e.ID == m.Newest })
	if at >= 0 && log.Entries[at].Time.Equal(m.at) {
		return log.Entries[:at], false
	}
	last, err := strconv.ParseUint(m.Newest, 10, 64)
	is, nextErr := strconv.ParseUint(log.Entries[0].ID, 10, 64)
	switch {
	case at >= 0, err == nil && nextErr == nil && is < last:
		return log.Entries, true
	case err == nil && nextErr == nil:
		return log.Entries, false // more entries came than a reading has
	default:
		return slices.DeleteFunc(slices.Clone(log.Entries), func(e Entry) bool { return !e.Time.After(m.at) }), false
	}
}

// severeOf returns the warnings and critical entries, newest first.
func severeOf(log string, entries []Entry) []v1alpha1.LogEntry {
	var severe []v1alpha1.LogEntry
	for _, e := range entries {
		if IsSevere(e.Severity) {
			severe = append(severe, entryOf(log, e))
		}
	}
	return severe
}

// IsSevere is true for warnings and critical entries.
func IsSevere(severity wire.Health) bool {
	return severity == wire.HealthWarning || severity == wire.HealthCritical
}

// Entries returns the entries of logs, whatever their severity.
func Entries(logs []Log) []v1alpha1.LogEntry {
	var all []v1alpha1.LogEntry
	for _, log := range logs {
		for _, e := range log.Entries {
			all = append(all, entryOf(log.Name, e))
		}
	}
	return all
}

func entryOf(log string, e Entry) v1alpha1.LogEntry {
	entry := v1alpha1.LogEntry{Log: log, ID: e.ID, Severity: e.Severity, Message: e.Message}
	if !e.Time.IsZero() {
		at := metav1.NewTime(e.Time)
		entry.Time = new(at.Rfc3339Copy())
	}
	return entry
}

// Text returns an entry in one line. The event of an entry has this text, and the time line of kubectl baremetal gives it to an entry of the status: so it shows an entry once.
func Text(e v1alpha1.LogEntry) string {
	message := cmp.Or(e.Message, "the entry has no text")
	if e.Severity != "" {
		message = string(e.Severity) + ": " + message
	}
	return fmt.Sprintf("%s (entry %s of the log %s)", message, e.ID, e.Log)
}

// keep adds entries to those that are kept. What the first reading of a process shows was mostly kept by the process before: it adds only entries after floor, which is zero in
// later readings.
func (l *Logs) keep(severe []v1alpha1.LogEntry, floor time.Time) {
	kept := slices.Clone(l.kept)
	for _, e := range severe[:min(len(severe), maxKept)] {
		known := slices.ContainsFunc(kept, func(k v1alpha1.LogEntry) bool { return k.Log == e.Log && k.ID == e.ID && timeOf(k).Equal(timeOf(e)) })
		if !known && (floor.IsZero() || timeOf(e).After(floor)) {
			kept = append(kept, e)
		}
	}
	slices.SortStableFunc(kept, func(a, b v1alpha1.LogEntry) int { return timeOf(b).Compare(timeOf(a)) })
	l.kept = kept[:min(len(kept), maxKept)]
}

func timeOf(e v1alpha1.LogEntry) time.Time {
	if e.Time == nil {
		return time.Time{}
	}
	return e.Time.Time
}

// limit returns the entries that become events, oldest first, and how many do not. Of too many the newest become events.
func (l *Logs) limit(fresh []v1alpha1.LogEntry, now time.Time) (entries []v1alpha1.LogEntry, omitted int) {
	events := slices.DeleteFunc(slices.Clone(l.events), func(at time.Time) bool { return now.Sub(at) >= eventWindow })
	free := min(maxEvents-len(events), len(fresh))
	l.omitted += len(fresh) - free
	entries = slices.Clone(fresh[:free])
	slices.Reverse(entries)
	for range entries {
		events = append(events, now)
	}
	l.events = events
	if len(entries) > 0 {
		omitted, l.omitted = l.omitted, 0
	}
	return entries, omitted
}
