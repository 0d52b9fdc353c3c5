package settings_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/settings"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/slots"
)

// fleet is a Rollout of one profile with its hosts, whose names begin with their failure domain, the hosts that are being changed, and those that were woken.
type fleet struct {
	*settings.Rollout[string]

	now    time.Time
	limits settings.RolloutLimits
	open   map[string]bool
	woken  []string
}

func newFleet(limits settings.RolloutLimits, open ...string) *fleet {
	f := &fleet{now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), open: map[string]bool{}}
	f.Rollout = settings.NewRollout(slots.Options[string]{QueueTTL: time.Hour, Compare: strings.Compare, Wake: func(host string) { f.woken = append(f.woken, host) }})
	for _, host := range open {
		f.begin(host)
	}
	f.setLimits(limits)
	return f
}

func (f *fleet) setLimits(limits settings.RolloutLimits) {
	f.limits = limits
	f.SetLimits("default/p", limits)
}

func hostOf(host string) settings.RolloutHost[string] {
	domain, _, found := strings.Cut(host, "-")
	if !found {
		domain = ""
	}
	return settings.RolloutHost[string]{Profile: "default/p", Domain: domain, Key: host}
}

// begin is the count of a host's run.
func (f *fleet) begin(host string) {
	f.open[host] = true
	f.Hold(hostOf(host), f.now.Add(24*time.Hour), f.now)
}

func (f *fleet) end(host string) {
	delete(f.open, host)
	f.Release(host, f.now)
}

// ask returns where a host is queued; empty if it may be changed.
func (f *fleet) ask(host string) string {
	position, ok := f.Acquire(hostOf(host), f.now, f.now.Add(time.Hour), f.now)
	switch {
	case ok:
		return ""
	case position.InDomain:
		return fmt.Sprintf("domain: %d after %d", position.Number, position.Holding)
	default:
		return fmt.Sprintf("profile: %d after %d", position.Number, position.Holding)
	}
}

// TestRollout: as many hosts are changed at once as the limits permit, in all and in each failure domain.
func TestRollout(t *testing.T) {
	for name, test := range map[string]struct {
		limits settings.RolloutLimits
		open   []string
		asks   []string
		want   []string
	}{
		"no limits, as before the profile was seen": {asks: []string{"a-1", "b-1"}, want: []string{"", "profile: 1 after 1"}},
		"in all":                 {settings.RolloutLimits{Hosts: 2}, nil, []string{"a-1", "a-2", "a-3"}, []string{"", "", "profile: 1 after 2"}},
		"in a domain":            {settings.RolloutLimits{Hosts: 3, PerDomain: 1}, nil, []string{"a-1", "a-2", "b-1"}, []string{"", "domain: 1 after 1", ""}},
		"both":                   {settings.RolloutLimits{Hosts: 2, PerDomain: 1}, nil, []string{"a-1", "b-1", "c-1", "c-2"}, []string{"", "", "profile: 1 after 2", "domain: 1 after 1"}},
		"without a domain":       {settings.RolloutLimits{Hosts: 2, PerDomain: 1}, nil, []string{"x", "y", "z"}, []string{"", "", "profile: 1 after 2"}},
		"is being changed":       {settings.RolloutLimits{Hosts: 2, PerDomain: 1}, []string{"a-1"}, []string{"a-2", "b-1"}, []string{"domain: 1 after 1", ""}},
		"more than the limit":    {settings.RolloutLimits{Hosts: 2, PerDomain: 1}, []string{"a-1", "a-2", "b-1"}, []string{"a-3", "c-1"}, []string{"domain: 1 after 2", "profile: 1 after 3"}},
		"asks again":             {settings.RolloutLimits{Hosts: 2, PerDomain: 1}, nil, []string{"a-1", "a-1", "a-2", "a-1"}, []string{"", "", "domain: 1 after 1", ""}},
		"queued in its own turn": {settings.RolloutLimits{Hosts: 1, PerDomain: 1}, []string{"b-1"}, []string{"a-1", "a-2", "a-1"}, []string{"profile: 1 after 1", "domain: 1 after 1", "profile: 1 after 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, got := newFleet(test.limits, test.open...), []string{}
			for _, host := range test.asks {
				got = append(got, f.ask(host))
			}
			NewWithT(t).Expect(got).To(Equal(test.want))
		})
	}
}

// TestRolloutLimitLowered: a host that had a slot and has not begun waits after the limit was lowered, and nobody waits after it was removed.
func TestRolloutLimitLowered(t *testing.T) {
	g := NewWithT(t)
	f := newFleet(settings.RolloutLimits{Hosts: 1, PerDomain: 2}, "b-1")
	g.Expect([]string{f.ask("a-1"), f.ask("a-2")}).To(Equal([]string{"profile: 1 after 1", "profile: 2 after 1"}))
	f.setLimits(settings.RolloutLimits{Hosts: 4, PerDomain: 1})
	g.Expect([]string{f.ask("a-1"), f.ask("a-2")}).To(ConsistOf("", "domain: 1 after 1"))
	f.setLimits(settings.RolloutLimits{Hosts: 4})
	g.Expect([]string{f.ask("a-1"), f.ask("a-2")}).To(Equal([]string{"", ""}))
	f.setLimits(settings.RolloutLimits{Hosts: 2})
	g.Expect([]string{f.ask("a-1"), f.ask("a-2")}).To(Equal([]string{"profile: 1 after 2", ""}), "b-1 is being changed")
	f.setLimits(settings.RolloutLimits{Hosts: 1})
	g.Expect([]string{f.ask("a-2"), f.ask("a-1")}).To(Equal([]string{"profile: 2 after 1", "profile: 1 after 1"}))
	f.end("b-1")
	g.Expect([]string{f.ask("a-2"), f.ask("a-1")}).To(Equal([]string{"profile: 2 after 0", ""}))
}

// TestRolloutLeave: a host that leaves keeps no other from a slot, neither in all nor in its failure domain. One that is being changed does not leave.
func TestRolloutLeave(t *testing.T) {
	g := NewWithT(t)
	f := newFleet(settings.RolloutLimits{Hosts: 2, PerDomain: 1}, "b-1")
	g.Expect([]string{f.ask("a-1"), f.ask("a-2"), f.ask("c-1")}).To(Equal([]string{"", "domain: 1 after 1", "profile: 1 after 2"}))
	f.Leave("a-1", f.now)
	g.Expect(f.woken).To(ConsistOf("a-2", "c-1"))
	g.Expect([]string{f.ask("c-1"), f.ask("a-2")}).To(Equal([]string{"", "profile: 1 after 2"}))
	f.Leave("a-2", f.now) // from the queue, with its slot of the failure domain
	g.Expect(f.ask("a-3")).To(Equal("profile: 1 after 2"))
	f.Leave("b-1", f.now)
	g.Expect([]string{f.ask("a-3"), f.ask("b-2")}).To(Equal([]string{"profile: 1 after 2", "domain: 1 after 1"}))
}

var fleetHosts = []string{"a-1", "a-2", "a-3", "b-1", "b-2", "c-1", "x", "y"}

// TestPropertyRollout: whatever the order of the events, no host begins beyond a limit. And each host gets a slot in the end, when only those ask that were woken.
func TestPropertyRollout(t *testing.T) {
	limits := rapid.Custom(func(t *rapid.T) settings.RolloutLimits {
		return settings.RolloutLimits{Hosts: rapid.IntRange(1, 4).Draw(t, "hosts"), PerDomain: rapid.IntRange(0, 2).Draw(t, "per domain")}
	})
	rapid.Check(t, func(t *rapid.T) {
		f := newFleet(limits.Draw(t, "limits"))
		for range rapid.IntRange(0, 60).Draw(t, "events") {
			host := rapid.SampledFrom(fleetHosts).Draw(t, "host")
			switch rapid.SampledFrom([]string{"ask", "ask", "ask", "ask only", "ask only", "end", "leave", "limits", "restart"}).Draw(t, "event") {
			case "ask":
				f.askAndBegin(t, host)
			case "ask only": // a host that may be changed begins when it asks again
				if !f.open[host] {
					f.ask(host)
				}
			case "end":
				f.end(host)
			case "leave":
				f.Leave(host, f.now)
			case "limits":
				f.setLimits(limits.Draw(t, "limits"))
			case "restart":
				f = newFleet(f.limits, slices.Collect(maps.Keys(f.open))...)
			}
		}
		f.finish(t)
	})
}

// askAndBegin begins the run of a host that may be changed, and checks the limits.
func (f *fleet) askAndBegin(t *rapid.T, host string) {
	if f.open[host] || f.ask(host) != "" {
		return
	}
	all, domain := 0, 0
	for other := range f.open {
		all++
		if hostOf(other).Domain == hostOf(host).Domain {
			domain++
		}
	}
	if all >= f.limits.Hosts {
		t.Fatalf("%s begins while %d hosts are changed, with the limit %d", host, all, f.limits.Hosts)
	}
	if hostOf(host).Domain != "" && f.limits.PerDomain > 0 && domain >= f.limits.PerDomain {
		t.Fatalf("%s begins while %d hosts of its failure domain are changed, with the limit %d", host, domain, f.limits.PerDomain)
	}
	f.begin(host)
}

// finish lets each host ask once, and then only those that are woken.
func (f *fleet) finish(t *rapid.T) {
	done := map[string]bool{}
	ask := func(hosts []string) {
		for _, host := range hosts {
			f.askAndBegin(t, host)
		}
	}
	ask(fleetHosts)
	for len(f.open) > 0 {
		host := slices.Min(slices.Collect(maps.Keys(f.open)))
		done[host] = true
		f.end(host)
		for len(f.woken) > 0 {
			woken := f.woken
			f.woken = nil
			ask(slices.DeleteFunc(woken, func(host string) bool { return done[host] }))
		}
	}
	for _, host := range fleetHosts {
		if !done[host] {
			t.Fatalf("%s gets no slot", host)
		}
	}
}

// crowd counts who is changed at once, in all and in each failure domain.
type crowd struct {
	mu        sync.Mutex
	now, most map[string]int
}

func (c *crowd) count(by int, groups ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, group := range groups {
		c.now[group] += by
		c.most[group] = max(c.most[group], c.now[group])
	}
}

// TestConcurrently: of many concurrent hosts no more are changed at once than the limits permit, and each gets a slot in the end, also while limits are set.
func TestConcurrently(t *testing.T) {
	const all, domains = 40, 4
	limits := settings.RolloutLimits{Hosts: 3, PerDomain: 1}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	changed := &crowd{now: map[string]int{}, most: map[string]int{}}
	var woken [all]chan struct{}
	for i := range woken {
		woken[i] = make(chan struct{}, 1)
	}
	r := settings.NewRollout(slots.Options[int]{QueueTTL: time.Hour, Wake: func(i int) {
		select {
		case woken[i%all] <- struct{}{}: // the hosts of the other profile wait for nothing
		default: // it asks again already
		}
	}})
	r.SetLimits("p", limits)
	acquire := func(host settings.RolloutHost[int]) {
		for {
			if _, ok := r.Acquire(host, now, now.Add(time.Hour), now); ok {
				return
			}
			<-woken[host.Key]
		}
	}
	var wg sync.WaitGroup
	for i := range all {
		wg.Go(func() {
			host := settings.RolloutHost[int]{Profile: "p", Domain: strconv.Itoa(i % domains), Key: i}
			r.Release(i, now) // as a host that was gone before
			acquire(host)
			r.Leave(i, now) // as a host that could not begin
			acquire(host)
			r.Hold(host, now.Add(time.Hour), now)
			changed.count(1, "in all", host.Domain)
			changed.count(-1, "in all", host.Domain)
			r.Release(i, now)
		})
		wg.Go(func() { // a profile whose limits change
			r.SetLimits("p", limits)
			r.SetLimits("q", settings.RolloutLimits{Hosts: i, PerDomain: i % 3})
			r.Acquire(settings.RolloutHost[int]{Profile: "q", Domain: "0", Key: all + i}, now, now, now)
			r.Holding("q", now)
		})
	}
	wg.Wait()
	g := NewWithT(t)
	g.Expect(changed.most).To(HaveKeyWithValue("in all", BeNumerically("<=", limits.Hosts)))
	for domain := range domains {
		g.Expect(changed.most).To(HaveKeyWithValue(strconv.Itoa(domain), 1))
	}
	g.Expect(r.Holding("p", now)).To(BeEmpty())
}
