package health

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// entries are critical entries with IDs from last down to first, a minute apart.
func entries(last, first int) []Entry {
	var all []Entry
	for id := last; id >= first; id-- {
		all = append(all, Entry{ID: strconv.Itoa(id), Time: noon.Add(time.Duration(id) * time.Minute), Severity: wire.HealthCritical, Message: fmt.Sprintf("entry %d", id)})
	}
	return all
}

func sel(entries []Entry) []Log { return []Log{{Name: "SEL", Count: len(entries), Entries: entries}} }

func idsOf(entries []v1alpha1.LogEntry) []string {
	ids := []string{}
	for _, e := range entries {
		ids = append(ids, e.ID)
	}
	return ids
}

// TestLogs: entries after the newest known one are new, also after the log was cleared, began again or has more new entries than a reading.
func TestLogs(t *testing.T) {
	shifted := entries(3, 1) // the same IDs, and another time
	for i := range shifted {
		shifted[i].Time = shifted[i].Time.Add(24 * time.Hour)
	}
	hashes := []Entry{{ID: "b", Time: noon.Add(time.Hour), Severity: wire.HealthWarning}, {ID: "a", Time: noon, Severity: wire.HealthWarning}}
	quiet := append([]Entry{{ID: "4", Time: noon.Add(time.Hour), Severity: wire.HealthOK, Message: "login"}, {ID: "5", Severity: "Nonsense"}}, entries(3, 1)...)
	for name, c := range map[string]struct {
		before, now []Entry
		want        []string
		cleared     bool
	}{
		"nothing new":                       {entries(3, 1), entries(3, 1), []string{}, false},
		"one is new":                        {entries(3, 1), entries(4, 1), []string{"4"}, false},
		"oldest first":                      {entries(3, 1), entries(5, 2), []string{"4", "5"}, false},
		"more than a reading has":           {entries(3, 1), entries(70, 63), []string{"63", "64", "65", "66", "67", "68", "69", "70"}, false},
		"cleared":                           {entries(9, 5), nil, []string{}, true},
		"cleared, and there are new ones":   {entries(9, 5), entries(2, 1), []string{"1", "2"}, true},
		"began again with the same IDs":     {entries(3, 1), shifted, []string{"1", "2", "3"}, true},
		"empty before":                      {nil, entries(1, 1), []string{"1"}, false},
		"IDs that are no numbers":           {hashes[1:], hashes, []string{"b"}, false},
		"IDs that are no numbers, one gone": {hashes[1:], hashes[:1], []string{"b"}, false},
		"logins and nonsense":               {entries(3, 1), quiet, []string{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var logs Logs
			first := logs.Note(sel(c.before), noon)
			g.Expect(first.Entries).To(BeEmpty(), "the first reading shows what is in the log")
			news := logs.Note(sel(c.now), noon.Add(time.Hour))
			g.Expect(idsOf(news.Entries)).To(Equal(c.want))
			wasCleared := len(news.Cleared) > 0
			g.Expect(wasCleared).To(Equal(c.cleared))
			again := logs.Note(sel(c.now), noon.Add(2*time.Hour))
			g.Expect(again.Entries).To(BeEmpty())
			g.Expect(again.Cleared).To(BeEmpty())
		})
	}
}

// TestLogLimit: ten entries a minute become events, the newest ones, and the others are counted once.
func TestLogLimit(t *testing.T) {
	g := NewWithT(t)
	var logs Logs
	logs.Note(sel(entries(1, 1)), noon)
	news := logs.Note(sel(entries(31, 1)), noon.Add(time.Minute))
	g.Expect(idsOf(news.Entries)).To(Equal([]string{"22", "23", "24", "25", "26", "27", "28", "29", "30", "31"}))
	g.Expect(news.Omitted).To(Equal(20))
	g.Expect(news.Severe).To(HaveKeyWithValue(wire.HealthCritical, 30))
	news = logs.Note(sel(entries(33, 1)), noon.Add(time.Minute+10*time.Second))
	g.Expect(news.Entries).To(BeEmpty())
	news = logs.Note(sel(entries(34, 1)), noon.Add(3*time.Minute))
	g.Expect(idsOf(news.Entries)).To(Equal([]string{"34"}))
	g.Expect(news.Omitted).To(Equal(2))
}

// TestKept: the newest eight severe entries stay, of each log at least one, and a new process keeps the same ones.
func TestKept(t *testing.T) {
	g := NewWithT(t)
	var tracker Tracker
	tracker.Logs.Note(sel(entries(20, 1)), noon.Add(time.Hour))
	g.Expect(idsOf(tracker.Status().Log)).To(Equal([]string{"20", "19", "18", "17", "16", "15", "14", "13"}))
	two := append(sel(entries(20, 1)), Log{Name: "other", Entries: entries(5, 1)})
	tracker.Logs.Note(two, noon.Add(2*time.Hour))
	status := tracker.Status()
	g.Expect(idsOf(status.Log)).To(Equal([]string{"20", "19", "18", "17", "16", "15", "14", "5"}))
	var next Tracker
	next.Restore(status, Inventory{}, noon.Add(3*time.Hour))
	g.Expect(next.Logs.Note(two, noon.Add(3*time.Hour)).Entries).To(BeEmpty())
	g.Expect(next.Status().Log).To(Equal(status.Log), "a restart writes nothing")
	tracker.Logs.Note(sel(entries(40, 1)), noon.Add(4*time.Hour))
	g.Expect(idsOf(tracker.Status().Log)).To(Equal([]string{"40", "39", "38", "37", "36", "35", "34", "5"}), "its log could not be read")
	tracker.Logs.FindAgain()
	tracker.Logs.Note(sel(entries(40, 1)), noon.Add(5*time.Hour))
	tracker.Logs.FindAgain()
	tracker.Logs.Note(sel(entries(41, 1)), noon.Add(6*time.Hour))
	g.Expect(idsOf(tracker.Status().Log)).To(Equal([]string{"41", "40", "39", "38", "37", "36", "35", "34"}), "its log is gone")
}

// TestRestartOfLogs: an entry that was written while no process ran is an event, also of a log of which nothing was kept. Nothing that was reported is reported again.
func TestRestartOfLogs(t *testing.T) {
	quiet := func(last, first int) []Entry {
		all := entries(last, first)
		for i := range all {
			all[i].Severity = wire.HealthOK
		}
		return all
	}
	precise := entries(4, 1)
	for i := range precise {
		precise[i].Time = precise[i].Time.Add(123 * time.Millisecond)
	}
	for name, c := range map[string]struct {
		now  []Log
		want []string
	}{
		"nothing":                         {sel(entries(3, 1)), []string{}},
		"logins":                          {sel(append(quiet(9, 4), entries(3, 1)...)), []string{}},
		"one entry":                       {sel(entries(4, 1)), []string{"4"}},
		"the times have milliseconds":     {sel(precise), []string{"4"}},
		"one entry of a log without":      {append(sel(entries(3, 1)), Log{Name: "other", Entries: append(entries(8, 8), quiet(7, 1)...)}), []string{"8"}},
		"more than a reading has":         {sel(entries(70, 67)), []string{"67", "68", "69", "70"}},
		"cleared before":                  {sel(nil), []string{}},
		"cleared before, then a login":    {sel(quiet(1, 1)), []string{}},
		"began again":                     {sel([]Entry{{ID: "2", Time: noon.Add(time.Hour), Severity: wire.HealthWarning}}), []string{"2"}},
		"it is as full as it was":         {[]Log{{Name: "SEL", Max: 3, Count: 3, Entries: entries(3, 1)}}, []string{}},
		"another is as full as it was":    {append(sel(entries(3, 1)), Log{Name: "other", Max: 3, Count: 3, Entries: quiet(3, 1)}), []string{}},
		"the log cannot be read for once": {nil, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var before, tracker Tracker
			before.Logs.Note(sel(entries(3, 1)), noon.Add(time.Hour))
			tracker.Restore(before.Status(), Inventory{}, noon.Add(2*time.Hour))
			g.Expect(tracker.Logs.Sources()).To(BeEmpty(), "the logs are searched for")
			news := tracker.Logs.Note(c.now, noon.Add(2*time.Hour))
			g.Expect(idsOf(news.Entries)).To(Equal(c.want))
			g.Expect(news.Cleared).To(BeEmpty())
			g.Expect(news.Full).To(BeEmpty())
			g.Expect(tracker.Status().Log).To(HaveLen(min(3+len(c.want), maxKept)))
		})
	}
}

// TestWrongClock: entries are new and kept in the order of their arrival, whatever their times are.
func TestWrongClock(t *testing.T) {
	year := func(id string, year int) Entry {
		e := Entry{ID: id, Severity: wire.HealthCritical}
		if year > 0 {
			e.Time = time.Date(year, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		return e
	}
	for name, c := range map[string]struct{ before, now []Entry }{
		"an entry of 2099":                             {[]Entry{year("1", 2099)}, []Entry{year("2", 2026), year("1", 2099)}},
		"the clock went back":                          {[]Entry{year("1", 2026)}, []Entry{year("2", 1970), year("1", 2026)}},
		"an entry without a time":                      {[]Entry{year("1", 2026)}, []Entry{year("2", 0), year("1", 2026)}},
		"an entry of 2099, IDs that are no numbers":    {[]Entry{year("b", 2099), year("a", 2025)}, []Entry{year("b", 2099), year("c", 2026), year("a", 2025)}},
		"the clock went back, IDs that are no numbers": {[]Entry{year("a", 2026)}, []Entry{year("a", 2026), year("b", 1970)}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var tracker Tracker
			tracker.Logs.Note(sel(c.before), noon)
			news := tracker.Logs.Note(sel(c.now), noon.Add(time.Hour))
			g.Expect(news.Entries).To(HaveLen(1))
			g.Expect(news.Cleared).To(BeEmpty())
			g.Expect(tracker.Status().Log[0]).To(Equal(news.Entries[0]))
			g.Expect(tracker.Logs.Note(sel(c.now), noon.Add(2*time.Hour)).Entries).To(BeEmpty())
			var next Tracker
			next.Restore(tracker.Status(), Inventory{}, noon.Add(3*time.Hour))
			g.Expect(next.Logs.Note(sel(c.now), noon.Add(3*time.Hour)).Entries).To(BeEmpty())
			later := append([]Entry{year("9", 2026)}, c.now...)
			g.Expect(idsOf(next.Logs.Note(sel(later), noon.Add(4*time.Hour)).Entries)).To(Equal([]string{"9"}))
			g.Expect(next.Status().Log[0].ID).To(Equal("9"))
		})
	}
	g := NewWithT(t)
	var before, next Tracker
	before.Logs.Note(sel([]Entry{year("b", 2099)}), noon)
	next.Restore(before.Status(), Inventory{}, noon)
	g.Expect(idsOf(next.Logs.Note(sel([]Entry{year("c", 2025)}), noon).Entries)).To(Equal([]string{"c"}), "the entry of 2099 is gone")
}

// TestMerge: the entries of several logs are ordered by their times, and those of a log by their place in it.
func TestMerge(t *testing.T) {
	g := NewWithT(t)
	entry := func(id string, minute int) v1alpha1.LogEntry {
		return entryOf("SEL", Entry{ID: id, Time: noon.Add(time.Duration(minute) * time.Minute)})
	}
	a := []v1alpha1.LogEntry{entry("a4", 50), entry("a3", 9000), entry("a2", 20), {ID: "a1"}}
	b := []v1alpha1.LogEntry{entry("b3", 5), entry("b2", 30), entry("b1", 10)}
	g.Expect(idsOf(merge([][]v1alpha1.LogEntry{a, b}, noon.Add(time.Hour)))).To(Equal([]string{"a4", "b3", "b2", "a3", "a2", "b1", "a1"}))
}

// TestFull: a log that takes no more is reported once, and again after it was cleared.
func TestFull(t *testing.T) {
	g := NewWithT(t)
	var logs Logs
	full := func(count int) []Log { return []Log{{Name: "SEL", Max: 100, Count: count, Entries: entries(1, 1)}} }
	g.Expect(logs.Note(full(90), noon).Full).To(BeEmpty())
	g.Expect(logs.Note(full(91), noon).Full).To(HaveLen(1))
	g.Expect(logs.Note(full(100), noon).Full).To(BeEmpty())
	g.Expect(logs.Note(full(1), noon).Full).To(BeEmpty())
	g.Expect(logs.Note(full(95), noon).Full).To(HaveLen(1))
}

// TestSources: a log that cannot be read for once keeps its mark, also in a search, and two searches forget logs that are gone.
func TestSources(t *testing.T) {
	g := NewWithT(t)
	var logs Logs
	two := append(sel(entries(3, 1)), Log{Name: "other", Entries: entries(5, 1)})
	g.Expect(logs.Sources()).To(BeEmpty())
	logs.Note(two, noon)
	g.Expect(logs.Sources()).To(Equal([]Source{{Name: "SEL", Newest: "3"}, {Name: "other", Newest: "5"}}))
	logs.Note(two[:1], noon)
	g.Expect(logs.Sources()).To(HaveLen(2))
	logs.Note(nil, noon)
	g.Expect(logs.Sources()).To(HaveLen(2))
	logs.FindAgain()
	g.Expect(logs.Sources()).To(BeEmpty())
	logs.Note(two[:1], noon)
	g.Expect(logs.Sources()).To(HaveLen(2), "one search may fail to read it")
	written := append(sel(entries(3, 1)), Log{Name: "other", Entries: entries(6, 1)})
	g.Expect(idsOf(logs.Note(written, noon).Entries)).To(Equal([]string{"6"}), "what was written meanwhile is new")
	for _, left := range []int{2, 1} {
		logs.FindAgain()
		logs.Note(two[:1], noon)
		g.Expect(logs.Sources()).To(HaveLen(left))
	}
}

// FuzzLogs: whatever a BMC lists, a log is remembered within its limits, and a reading twice has nothing new the second time.
func FuzzLogs(f *testing.F) {
	f.Add("1", "2", int64(5), int64(6), "3", int64(7), true)
	f.Add("99999999999999999999", "", int64(-1), int64(1<<40), "x", int64(0), false)
	f.Fuzz(func(t *testing.T, a, b string, at, bt int64, c string, ct int64, severe bool) {
		severity := wire.HealthOK
		if severe {
			severity = wire.HealthCritical
		}
		entry := func(id string, seconds int64) Entry {
			return Entry{ID: id, Time: time.Unix(seconds%(1<<33), 0), Severity: severity}
		}
		var tracker Tracker
		now := noon
		for _, list := range [][]Entry{{entry(a, at)}, {entry(b, bt), entry(a, at)}, {entry(c, ct), entry(b, bt)}, {}, {entry(c, ct)}} {
			now = now.Add(time.Hour)
			news := tracker.Logs.Note(sel(list), now)
			if len(news.Entries) > maxEvents || len(news.Entries) > len(list) {
				t.Errorf("%d events of %d entries", len(news.Entries), len(list))
			}
			now = now.Add(time.Hour)
			if again := tracker.Logs.Note(sel(list), now); len(again.Entries) > 0 {
				t.Errorf("%v is new twice", again.Entries)
			}
			var next Tracker
			next.Restore(tracker.Status(), Inventory{}, now)
			if again := next.Logs.Note(sel(list), now); len(again.Entries)+len(again.Cleared)+len(again.Full) > 0 || !slices.Equal(idsOf(next.Logs.kept), idsOf(tracker.Logs.kept)) {
				t.Errorf("a restart repeats %+v, and keeps %v instead of %v", again, next.Logs.kept, tracker.Logs.kept)
			}
		}
		if len(tracker.Logs.kept) > maxKept || len(tracker.Logs.marks) > maxLogs {
			t.Errorf("%d entries and %d marks are kept", len(tracker.Logs.kept), len(tracker.Logs.marks))
		}
	})
}
