package health

import (
	"fmt"
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

// TestKept: the newest eight severe entries stay, and a new process keeps the same ones.
func TestKept(t *testing.T) {
	g := NewWithT(t)
	var tracker Tracker
	tracker.Logs.Note(sel(entries(20, 1)), noon)
	status := tracker.Status()
	g.Expect(idsOf(status.Log)).To(Equal([]string{"20", "19", "18", "17", "16", "15", "14", "13"}))
	var next Tracker
	next.Restore(status, Inventory{}, noon)
	next.Logs.Note(append(sel(entries(20, 1)), Log{Name: "other", Entries: entries(5, 1)}), noon)
	g.Expect(next.Status().Log).To(Equal(status.Log), "a restart writes nothing")
	next = Tracker{}
	next.Restore(status, Inventory{}, noon)
	next.Logs.Note(sel(entries(21, 1)), noon)
	g.Expect(idsOf(next.Status().Log)[:2]).To(Equal([]string{"21", "20"}), "written meanwhile")
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

// TestSources: a log that cannot be read for once keeps its mark, and a search forgets logs that are gone.
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
	g.Expect(logs.Sources()).To(HaveLen(1))
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
		}
		if len(tracker.Logs.kept) > maxKept || len(tracker.Logs.marks) > maxLogs {
			t.Errorf("%d entries and %d marks are kept", len(tracker.Logs.kept), len(tracker.Logs.marks))
		}
	})
}
