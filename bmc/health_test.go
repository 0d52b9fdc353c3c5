package bmc_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// TestNewest: the newest entries of several logs are chosen by time. Within a log the order stays, although an entry has no time or the clock of the BMC went back.
func TestNewest(t *testing.T) {
	g := NewWithT(t)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	log := func(minutes ...int) bmc.Log {
		var l bmc.Log
		for _, m := range minutes {
			entry := bmc.LogEntry{}
			if m > 0 {
				entry.Time = noon.Add(time.Duration(m) * time.Minute)
			}
			l.Entries = append(l.Entries, entry)
		}
		return l
	}
	for _, c := range []struct {
		logs  []bmc.Log
		limit int
		want  []int // entries of each log
	}{
		{nil, 3, []int{}},
		{[]bmc.Log{log(3, 2, 1)}, 2, []int{2}},
		{[]bmc.Log{log(9, 8, 1), log(7, 6, 5)}, 4, []int{2, 2}},
		{[]bmc.Log{log(0, 8, 1), log(7, 6, 5)}, 3, []int{2, 1}},
		{[]bmc.Log{log(2, 9, 1), log(8, 7)}, 3, []int{2, 1}},
		{[]bmc.Log{log(0, 0), log(8, 7)}, 3, []int{1, 2}},
		{[]bmc.Log{log(2, 1), log()}, 9, []int{2, 0}},
	} {
		got := []int{}
		for i, l := range bmc.Newest(c.logs, c.limit) {
			got = append(got, len(l.Entries))
			g.Expect(l.Entries).To(Equal(c.logs[i].Entries[:len(l.Entries)]))
		}
		g.Expect(got).To(Equal(c.want))
	}
}
