package health

import (
	"cmp"
	"fmt"
	"hash/fnv"
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
	// maxMissed is how many searches in a row do not find a log that is gone. One search may fail to read a log.
	maxMissed = 2
	// maxSeen is the maximum number of entries that are remembered of a log whose IDs are no numbers: twice those of a reading, because one may lack some.
	maxSeen = 128
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
	// missed counts the searches that did not find the log.
	missed int
	// seen are hashes of the entries of a log whose IDs are no numbers: only the times order these, and a clock may be wrong.
	seen []uint32
}

// Logs is what is remembered of the logs of one server.
type Logs struct {
	readAt   time.Time
	marks    []mark
	kept     []v1alpha1.LogEntry // newest first, by their arrival
	restored bool                // kept and marks are from a status
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

// restore takes over what a status shows. The newest entry of each log is its mark, which the process before kept.
func (l *Logs) restore(kept []v1alpha1.LogEntry) {
	l.kept, l.restored, l.find = kept, len(kept) > 0, true
	for _, e := range kept {
		if l.markOf(e.Log) == nil {
			l.marks = append(l.marks, mark{Source: Source{Name: e.Log, Newest: e.ID}, at: timeOf(e), full: true})
		}
	}
}

// Note records a reading of the logs; without a log, that none could be read. The first reading of a log shows what is in it, and nothing of it is new. Whether a log was cleared or
// became full before the first reading of a process is not known, and the process before has reported it.
func (l *Logs) Note(logs []Log, now time.Time) News {
	news := News{Severe: map[wire.Health]int{}}
	if l.readAt = now; len(logs) == 0 {
		return news
	}
	var (
		marks        []mark
		fresh, shown [][]v1alpha1.LogEntry // the new entries of each log, and those of its first reading
	)
	for _, log := range logs[:min(len(logs), maxLogs)] {
		before := l.before(log.Name)
		found := log.Entries
		if before != nil {
			var cleared bool
			if found, cleared = newer(*before, log, now); cleared && !l.restored {
				news.Cleared = append(news.Cleared, log.Name)
			}
		}
		if severe := slices.DeleteFunc(severeOf(log.Name, found), l.isKept); before != nil {
			fresh = append(fresh, severe)
		} else {
			shown = append(shown, severe)
		}
		marks = append(marks, next(before, log))
		if last := marks[len(marks)-1]; last.full && (before == nil || !before.full) {
			news.Full = append(news.Full, last.Source)
		}
	}
	marks = append(marks, l.unread(marks)...)
	l.marks, l.restored, l.find = marks, false, false
	arrived := merge(fresh, now)
	l.keep(arrived, merge(shown, now))
	for _, e := range arrived {
		news.Severe[e.Severity]++
	}
	news.Entries, news.Omitted = l.limit(arrived, now)
	return news
}

// unread returns the marks of the logs that could not be read this time, given those of the others. A log that is gone is one of them until two searches did not find it.
func (l *Logs) unread(read []mark) []mark {
	var marks []mark
	for _, m := range l.marks {
		if l.find {
			m.missed++
		}
		isRead := slices.ContainsFunc(read, func(other mark) bool { return other.Name == m.Name })
		if m.missed < maxMissed && len(read)+len(marks) < maxLogs && !isRead {
			marks = append(marks, m)
		}
	}
	return marks
}

func (l *Logs) markOf(name string) *mark {
	for i := range l.marks {
		if l.marks[i].Name == name {
			return &l.marks[i]
		}
	}
	return nil
}

// before returns the mark of a log; nil before its first reading. The process before kept the newest severe entry of each log, so that one of which it kept no entry had no severe one.
func (l *Logs) before(name string) *mark {
	if m := l.markOf(name); m != nil || !l.restored {
		return m
	}
	return &mark{Source: Source{Name: name}, empty: true, full: true}
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
	if slices.ContainsFunc(log.Entries, func(e Entry) bool { _, err := numberOf(e.ID); return err != nil }) {
		for _, e := range log.Entries {
			m.seen = append(m.seen, hashOf(e))
		}
		if before != nil {
			m.seen = append(m.seen, before.seen...)
		}
		m.seen = m.seen[:min(len(m.seen), maxSeen)]
	}
	m.full = m.Max > 0 && log.Count*100 > m.Max*fullPercent
	return m
}

// newer returns the entries that came after a mark, and whether the log was cleared or began again since then. It finds the entry of the mark by its ID and its time, because a log
// that began again has the same IDs. If that entry is gone the IDs decide, if they are numbers. If they are not numbers, entries that were not seen are new, and after a restart those with a
// later time.
func newer(m mark, log Log, now time.Time) (entries []Entry, cleared bool) {
	if len(log.Entries) == 0 {
		return nil, !m.empty
	}
	if m.empty {
		return log.Entries, false
	}
	at := slices.IndexFunc(log.Entries, func(e Entry) bool { return e.ID == m.Newest })
	isSame := at >= 0 && second(log.Entries[at].Time).Equal(second(m.at))
	last, err := numberOf(m.Newest)
	is, nextErr := numberOf(log.Entries[0].ID)
	switch {
	case len(m.seen) > 0:
		unseen := slices.DeleteFunc(slices.Clone(log.Entries), func(e Entry) bool { return slices.Contains(m.seen, hashOf(e)) })
		return unseen, at >= 0 && !isSame
	case isSame:
		return log.Entries[:at], false
	case at >= 0, err == nil && nextErr == nil && is < last:
		return log.Entries, true
	case err == nil && nextErr == nil, m.at.After(now): // more entries came than a reading has, or a wrong clock says nothing about them
		return log.Entries, false
	default:
		return slices.DeleteFunc(slices.Clone(log.Entries), func(e Entry) bool { return !e.Time.After(m.at) }), false
	}
}

func numberOf(id string) (uint64, error) { return strconv.ParseUint(id, 10, 64) }

// second is a time as a status has it.
func second(at time.Time) time.Time { return at.Truncate(time.Second) }

// hashOf identifies an entry of a log.
func hashOf(e Entry) uint32 {
	sum := fnv.New32a()
	_, _ = fmt.Fprintf(sum, "%s %d", e.ID, second(e.Time).Unix()) // never fails
	return sum.Sum32()
}

// severeOf returns the warnings and critical entries, newest first, each once: pages of a log may overlap.
func severeOf(log string, entries []Entry) []v1alpha1.LogEntry {
	var severe []v1alpha1.LogEntry
	for _, e := range entries {
		if IsSevere(e.Severity) && !contains(severe, entryOf(log, e)) {
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

// isKept is true for an entry that is kept.
func (l *Logs) isKept(e v1alpha1.LogEntry) bool { return contains(l.kept, e) }

// contains compares entries by log, ID and time.
func contains(entries []v1alpha1.LogEntry, e v1alpha1.LogEntry) bool {
	return slices.ContainsFunc(entries, func(k v1alpha1.LogEntry) bool { return k.Log == e.Log && k.ID == e.ID && timeOf(k).Equal(timeOf(e)) })
}

// keep adds entries to those that are kept: new ones before them, whatever the clock of the BMC says, and those of the first reading of a log after them. The newest entry of each log
// stays, because the next process knows by it what is new.
func (l *Logs) keep(fresh, shown []v1alpha1.LogEntry) {
	kept := slices.Concat(fresh, l.kept, shown)
	for i := len(kept) - 1; i >= 0 && len(kept) > maxKept; i-- {
		hasNewer := slices.ContainsFunc(kept[:i], func(k v1alpha1.LogEntry) bool { return k.Log == kept[i].Log })
		if hasNewer || l.markOf(kept[i].Log) == nil {
			kept = slices.Delete(kept, i, i+1)
		}
	}
	l.kept = kept
}

// merge merges the entries of logs by their times, newest first. Within a log the order stays: an entry without a time, or with one that is in the future or before that of an older
// entry, counts as the one before it.
func merge(logs [][]v1alpha1.LogEntry, now time.Time) []v1alpha1.LogEntry {
	type dated struct {
		entry v1alpha1.LogEntry
		at    time.Time
	}
	var all []dated // oldest first
	for _, log := range slices.Backward(logs) {
		at := time.Time{}
		for _, e := range slices.Backward(log) {
			if t := timeOf(e); t.After(at) && !t.After(now) {
				at = t
			}
			all = append(all, dated{e, at})
		}
	}
	slices.SortStableFunc(all, func(a, b dated) int { return a.at.Compare(b.at) })
	var merged []v1alpha1.LogEntry
	for _, d := range slices.Backward(all) {
		merged = append(merged, d.entry)
	}
	return merged
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
