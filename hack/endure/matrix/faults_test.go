package matrix

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/apifault"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// fault is a fault: a row of the matrix.
type fault struct {
	name string
	// na says why the fault makes no sense in a step, and is empty where it does.
	na func(s step) string
	// inject starts the fault while the host is at the step, and appends its end to l.stops.
	inject func(l *life, s step)
	// shape is true for a fault that the server has from the beginning, and vendor its vendor, for the quirks of the driver; empty for none.
	shape  bool
	vendor string
	// during demands what must be visible while the fault lasts and the host continues.
	during func(l *life, s step)
	// stays is true for a fault that lasts until the host came to its end.
	stays bool
	// want demands the end. Without it the host ends as without the fault.
	want func(l *life, s step)
	// inMemory makes the machine one that runs from memory.
	inMemory bool
	// settle is the PowerSettle of the provider, if the usual one is too short for the fault.
	settle time.Duration
	// alone is true for a fault of the whole API server, which has its own test.
	alone bool
}

// moment is how long a fault lasts at least that the host may not notice.
const moment = 3 * time.Second

// until waits for something that need not come, so long at most.
func (l *life) until(most time.Duration, ok func() bool) {
	deadline := time.After(most)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline:
			return
		case <-tick.C:
		}
	}
}

// meanwhile does something again and again until the fault ends.
func (l *life) meanwhile(every time.Duration, do func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for ctx.Err() == nil {
			do()
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	}()
	l.stops = append(l.stops, func() { cancel(); <-done })
}

// told waits until a condition is False for a reason, with a message that has a part.
func (l *life) told(kind, reason, part string) {
	l.Helper()
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetReason(h, kind)).To(Equal(reason))
		g.Expect(conditions.GetMessage(h, kind)).To(ContainSubstring(part))
	})
}

// apiFaults are those of the API server.
var apiFaults = []fault{
	{name: "API server slow", stays: true, inject: func(l *life, _ step) { l.api.Slow(200 * time.Millisecond) }},
	{name: "API server throttles", stays: true, inject: func(l *life, _ step) { l.api.Throttle(3) }},
	{
		name: "API server away", inject: func(l *life, _ step) { l.api.Away(true) },
		during: func(l *life, s step) {
			away := moment
			if full && s.is(override, seeded, running, releasing, writing) {
				away = time.Minute
			}
			l.until(away, func() bool { return false })
			l.Expect(l.api.Disturbed()[apifault.Away]).To(BeNumerically(">", 0))
		},
	},
	{
		name: "conflict on every write", inject: func(l *life, _ step) { l.api.Conflict(1) },
		during: func(l *life, _ step) {
			l.until(moment, func() bool { return l.api.Disturbed()[apifault.Conflict] > 10 })
			l.api.Conflict(2)
			l.until(moment, func() bool { return l.api.Disturbed()[apifault.Conflict] > 20 })
		},
	},
	{name: "watches dropped", stays: true, inject: func(l *life, _ step) { l.meanwhile(300*time.Millisecond, l.api.CutWatches) }},
	{name: "cache behind", stays: true, inject: func(l *life, _ step) {
		behind := false
		l.meanwhile(400*time.Millisecond, func() {
			behind = !behind
			l.api.HoldWatches(behind)
		})
	}},
	{name: "etcd restarted", alone: true},
	{name: "provider restarted", inject: func(l *life, _ step) {
		l.provider.Halt()
		l.halts++
		l.start()
	}},
}

func unclaimed(s step) string {
	if !slices.Contains(claimed, s.name) {
		return "no machine has the host"
	}
	return ""
}

func notBooting(s step) string {
	if !slices.Contains(booting, s.name) {
		return "it does not boot"
	}
	return ""
}

// lifeFaults are those of servers, of their network and of clocks.
var lifeFaults = []fault{
	{
		name: "power lost in mid-boot",
		// Stages are written within 2 s, a tenth of PowerSettle in a rack. They show that the power-on which is then repeated had an effect.
		settle: 4 * time.Second,
		na: func(s step) string {
			if s.is(dhcp, script, kernel, seeded) || s.is(withAgent...) {
				return ""
			}
			return "no boot is under way that the server's power is needed for"
		},
		inject: func(l *life, _ step) {
			l.extraOns++
			l.server.SetPower(false)
		},
	},
	{name: "power lost in mid-run", na: notRunning, inject: losePower, during: returnPower},
	{name: "power lost in mid-run, machine in memory", na: notRunning, inMemory: true, inject: losePower, during: func(l *life, s step) {
		l.until(moment, func() bool { return l.host().Status.Power == v1alpha1.PowerOff })
		l.clock.Pass(time.Minute)
		l.wait(phase(v1alpha1.PhaseStateLost))
		returnPower(l, s)
	}, want: func(l *life, _ step) {
		l.wait(phase(v1alpha1.PhaseStateLost))
		l.told(v1alpha1.BootedCondition, v1alpha1.ReasonStateLost, "delete the Machine")
	}},
	// DHCP is ours here: only the address that the server leased is served, and the stranger ends no boot.
	{name: "another server boots with the MAC", stays: true, inject: func(l *life, _ step) {
		l.Expect(l.strangerAsks()).To(Succeed())
		l.meanwhile(100*time.Millisecond, func() { _ = l.strangerAsks() })
	}},
	{name: "clock an hour ahead", inject: func(l *life, _ step) { l.clock.Jump(time.Hour) }, want: func(l *life, s step) {
		switch {
		case s.is(seeded):
			l.wait(phase(v1alpha1.PhaseBootFailed))
			l.told(v1alpha1.BootedCondition, v1alpha1.ReasonBootTimedOut, "delete the Machine")
		default:
			l.reach(s.end)
		}
	}},
	{name: "clock an hour back", inject: func(l *life, _ step) { l.clock.Jump(-time.Hour) }},
	{name: "BMC credentials rotated", inject: func(l *life, _ step) {
		l.server.SetPassword("rotated")
		l.Expect(l.server.Misbehave(bmctest.Unauthorized401, 1)).To(Succeed()) // and the session has ended
	}, during: func(l *life, _ step) {
		l.refused()
		controllerstest.Modify(l.T, env, l.server.Secret.DeepCopy(), func(s *corev1.Secret) { s.Data["password"] = []byte("rotated") })
	}},
	duplicate("duplicate MAC address", v1alpha1.ReasonMACConflict, func(l *life, d *v1alpha1.BareMetalHost) { d.Spec.BootMACAddresses = []string{l.server.MAC} }),
	duplicate("duplicate BMC address", v1alpha1.ReasonBMCConflict, func(l *life, d *v1alpha1.BareMetalHost) { d.Spec.BMC = l.server.Host.Spec.BMC }),
	{name: "duplicate UUID", stays: true, inject: func(l *life, _ step) { l.double(nil) }},
}

// duplicate is another host with something of the first, which keeps it. A host that is registered by the step is registered before the other one: the host that was created
// first keeps what both have.
func duplicate(name, reason string, change func(l *life, d *v1alpha1.BareMetalHost)) fault {
	double := func(l *life) { l.double(func(d *v1alpha1.BareMetalHost) { change(l, d) }) }
	return fault{name: name, inject: func(l *life, s step) {
		if !s.is(registering) {
			double(l)
		}
	}, during: func(l *life, s step) {
		if s.is(registering) {
			double(l)
		}
		l.undouble(reason)
	}}
}

func notRunning(s step) string {
	if !s.is(running, maintenance) {
		return "no machine runs that has power"
	}
	return ""
}

func losePower(l *life, _ step) {
	l.extraOns++
	l.server.SetPower(false)
}

func returnPower(l *life, _ step) {
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOff)) })
	l.server.SetPower(true)
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOn)) })
}

// strangerAsks asks for the host's boot script from an address that is not one of the host's.
func (l *life) strangerAsks() error {
	boot, err := url.Parse(l.site.BootURL())
	if err != nil {
		return err
	}
	mac, err := net.ParseMAC(l.server.MAC)
	if err != nil {
		return err
	}
	own := netip.MustParseAddr(boot.Hostname()).As4()
	own[3] = 252
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: own[:]}}
	stranger := &http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}, Timeout: stepTimeout}
	request, err := http.NewRequestWithContext(l.Context(), http.MethodGet, l.site.BootURL()+pxe.ScriptPath(mac), nil)
	if err != nil {
		return err
	}
	answer, err := stranger.Do(request)
	if err != nil {
		return err
	}
	return answer.Body.Close()
}

// double registers another server with its host, which change makes one that has something in common with the first. Without change it is its UUID.
func (l *life) double(change func(*v1alpha1.BareMetalHost)) {
	l.Helper()
	l.doubled = l.site.Server(l.T, "z-double", rig.ServerOptions{Emulated: func(o *bmctest.Options) {
		if change == nil {
			o.UUID = l.server.UUID
		}
	}})
	if change != nil {
		change(l.doubled.Host)
	}
	if l.doubled.Host.Spec.BMC.CredentialsSecretName == l.server.Secret.Name {
		env.Create(l.T, l.doubled.Host)
		return
	}
	l.doubled.Register(l.T)
}

// undouble removes the other host, which is refused and names the first one. The first one is as it was.
func (l *life) undouble(reason string) {
	l.Helper()
	l.Eventually(func(g Gomega) {
		h := l.doubled.Host.DeepCopy()
		g.Expect(env.Client.Get(l.Context(), client.ObjectKeyFromObject(h), h)).To(Succeed())
		g.Expect(conditions.GetReason(h, v1alpha1.VerifiedCondition)).To(Equal(reason))
		g.Expect(conditions.GetMessage(h, v1alpha1.VerifiedCondition)).To(ContainSubstring("that of host %s", l.server.Host.Name))
		g.Expect(h.Status.Phase).NotTo(Equal(v1alpha1.PhaseAvailable))
	}, stepTimeout, 200*time.Millisecond).Should(Succeed())
	h := l.server.Host.DeepCopy()
	l.Expect(env.Client.Get(l.Context(), client.ObjectKeyFromObject(h), h)).To(Succeed())
	l.Expect(conditions.GetReason(h, v1alpha1.VerifiedCondition)).NotTo(Equal(reason))
	l.explained()
	l.Expect(env.Client.Delete(l.Context(), l.doubled.Host.DeepCopy())).To(Succeed())
	env.Gone(l.T, l.doubled.Host.DeepCopy())
}
