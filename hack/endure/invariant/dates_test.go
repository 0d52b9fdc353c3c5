package invariant

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// TestDates: a version was written between the last reading without it and the first reading with it.
func TestDates(t *testing.T) {
	g := NewWithT(t)
	start := time.Now().Add(-time.Minute)
	second := func(n int) time.Time { return start.Add(time.Duration(n) * time.Second) }
	var d dates
	g.Expect(d.of("100").from).To(BeZero(), "nobody looked")
	d.add(reading{second(0), second(1), "100", "90", 2})
	g.Expect(d.complete()).To(BeZero(), "the watch brought nothing")
	d.add(reading{second(2), second(3), "200", "150", 2})
	d.add(reading{second(4), second(5), "300", "150", 1})

	g.Expect(d.of("95").to).To(Equal(second(1)))
	g.Expect(d.of("150")).To(Equal(span{second(0), second(3)}))
	g.Expect(d.of("200")).To(Equal(span{second(0), second(3)}))
	g.Expect(d.of("250")).To(Equal(span{second(2), second(5)}))
	g.Expect(d.of("301").from).To(Equal(second(4)))
	g.Expect(d.of("301").to).To(BeTemporally("~", time.Now(), time.Second))
	g.Expect(d.of("").to).NotTo(BeZero())

	d.delivered("90", 2)
	g.Expect(d.complete()).To(Equal(second(0)))
	d.delivered("149", 2)
	g.Expect(d.complete()).To(Equal(second(0)))
	d.delivered("150", 2)
	g.Expect(d.complete()).To(Equal(second(2)), "one was deleted since")
	d.delivered("250", 1)
	g.Expect(d.complete()).To(Equal(second(4)), "nothing of this kind was written since")
	d.add(reading{second(6), second(7), "400", "350", 2})
	g.Expect(d.complete()).To(Equal(second(4)))
	d.delivered("401", 3)
	g.Expect(d.complete()).To(Equal(second(6)), "one came after the look")
	d.add(reading{second(8), second(9), "500", "401", 3})
	g.Expect(d.complete()).To(Equal(second(8)), "nothing was written meanwhile")
}

// TestLateWatch: a command that was in order stays in order, however late the watch is. It is judged when all earlier writes are known. A record that was
// written after the command does not excuse it.
func TestLateWatch(t *testing.T) {
	for name, test := range map[string]struct {
		written span // in seconds, relative to the command
		broken  []string
	}{
		"before":          {span{time.Unix(-2, 0), time.Unix(-1, 0)}, []string{}},
		"about that time": {span{time.Unix(-1, 0), time.Unix(1, 0)}, []string{}},
		"after":           {span{time.Unix(1, 0), time.Unix(2, 0)}, []string{promise.Command}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newChecker()
			d := &dates{seen: "1"}
			c.watched = []*dates{d}
			at := time.Now()
			relative := func(s time.Time) time.Time { return at.Add(time.Duration(s.Unix()) * time.Second) }
			c.observeMachine(machineName, newMachine(), span{at.Add(-time.Minute), at.Add(-time.Minute)})
			c.observeBoot(hostName, newBoot(), span{at.Add(-time.Minute), at.Add(-time.Minute)}, true)
			c.Command(hostName, "ForceOff", at)
			d.add(reading{at.Add(time.Second), at.Add(time.Second), "2", "2", 1})
			c.Judge(at.Add(time.Minute))
			g.Expect(c.Pending()).To(Equal(1), "the watch is behind")
			c.observeHost(hostName, newHost(claimed, counts), span{relative(test.written.from), relative(test.written.to)}, true)
			d.delivered("2", 1)
			c.Judge(at.Add(time.Minute))
			g.Expect(c.Pending()).To(BeZero())
			g.Expect(rules(c)).To(Equal(test.broken))
		})
	}
}

// TestLateRelease: a release that is known late is judged by the state of the server at the release, and not by what the next machine changed.
func TestLateRelease(t *testing.T) {
	for name, test := range map[string]struct {
		server   server
		cameOn   time.Duration // after the release
		inserted time.Duration
		broken   []string
	}{
		"off":                  {server{}, -time.Hour, -time.Hour, []string{}},
		"was on":               {server{on: true}, -time.Hour, -time.Hour, []string{promise.Clean}},
		"switched on since":    {server{on: true}, time.Second, -time.Hour, []string{}},
		"was in the drive":     {server{image: "http://x"}, -time.Hour, -time.Hour, []string{promise.Clean}},
		"put into it since":    {server{image: "http://x"}, -time.Hour, time.Second, []string{}},
		"on, and in the drive": {server{on: true, image: "http://x"}, -time.Hour, -time.Hour, []string{promise.Clean, promise.Clean}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newChecker()
			c.Know(hostName, test.server)
			released := time.Now().Add(-time.Minute)
			c.cameOn[hostName] = released.Add(test.cameOn)
			c.notes[hostName] = []note{{released.Add(test.inserted), bmcNote + "Media=http://x"}}
			c.observeHost(hostName, newHost(claimed, cleaning), span{released.Add(-time.Minute), released.Add(-time.Minute)}, true)
			c.observeHost(hostName, newHost(), span{released, released}, true)
			judgeNow(c)
			NewWithT(t).Expect(rules(c)).To(Equal(test.broken))
		})
	}
}
