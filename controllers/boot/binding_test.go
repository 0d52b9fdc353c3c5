package boot_test

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// TestLastRequester: the server ends the attempt when it asks for its script after a stranger got the script and the seed.
func TestLastRequester(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(stranger)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, stranger)
	g.Expect(err).NotTo(HaveOccurred(), "over plain HTTP nothing shows the difference")
	answer, err := w.Lookup(ctx, booting)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(answer.ScriptFor).To(Equal(stranger))
	_, err = w.script(honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.Failure.Reason).To(Equal(v1alpha1.ReasonSecondRequester))
	g.Expect(w.boot().Spec.Failure.Message).To(ContainSubstring("192.0.2.9 asked for the boot script that was given to 192.0.2.66"))
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, stranger)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
}

// race lets six addresses ask at once, and returns those that got the data.
func race(ask func(from netip.Addr) error) (winners []netip.Addr) {
	var mu sync.Mutex
	var racers sync.WaitGroup
	start := make(chan struct{})
	for i := range 6 {
		from := netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)})
		racers.Go(func() {
			<-start
			if ask(from) == nil {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, from)
			}
		})
	}
	close(start)
	racers.Wait()
	return winners
}

// TestRace: if many clients ask at once, one gets the script, whatever conflicts there are, and the attempt ends. The same holds for the seed.
func TestRace(t *testing.T) {
	conflicts := func() fault {
		if rand.IntN(4) == 0 {
			return conflict
		}
		return noFault
	}
	for range 5 {
		t.Run("script", func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			w.fault = conflicts
			winners := race(func(from netip.Addr) error {
				got, err := w.script(from)
				if (err == nil) != (got != "") {
					t.Errorf("%v with %q", err, got)
				}
				return err
			})
			g.Expect(winners).To(HaveLen(1))
			g.Expect(w.boot().Spec.ScriptAddress).To(Equal(winners[0].String()))
			g.Expect(w.boot().Spec.Failure).NotTo(BeNil())
		})
		t.Run("seed", func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			token, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
			w.fault = conflicts
			winners := race(func(from netip.Addr) error {
				data, err := w.BootstrapData(ctx, "dc/h", token, seed.UserData, from)
				if (err == nil) != (data.UserData != nil) {
					t.Errorf("%v with %q", err, data.UserData)
				}
				return err
			})
			g.Expect(winners).To(HaveLen(1))
			g.Expect(w.boot().Spec.DataAddress).To(Equal(winners[0].String()))
			g.Expect(w.boot().Spec.Failure).NotTo(BeNil())
		})
	}
}

// TestBinding: clients ask in any order, and writes have any fault. Script and seed go to one address each, which is written to the boot before a byte is
// served. Nothing is served after a failure or a report. A client that was bound by a write whose answer was lost gets the data when it
// asks again.
func TestBinding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		var tokens known
		got := map[string]netip.Addr{}
		for range rapid.IntRange(1, 12).Draw(t, "requests") {
			from := rapid.SampledFrom([]netip.Addr{honest, honest, honest, stranger}).Draw(t, "from")
			what := rapid.SampledFrom([]string{"script", "seed", "seed", "report"}).Draw(t, "what")
			befalls := fault(rapid.IntRange(0, 3).Draw(t, "fault"))
			faults := rapid.IntRange(1, 2).Draw(t, "faults")
			w.fault = func() fault {
				if faults--; faults >= 0 {
					return befalls
				}
				return noFault
			}
			before := &w.boot().Spec
			err := w.ask(what, &tokens, from)
			after := &w.boot().Spec
			switch {
			case err == nil && what != "report":
				checkBinding(t, what, from, before, after, got)
			case errors.Is(err, errAway) && befalls == lost && inFlight(after):
				w.fault = func() fault { return noFault }
				if err := w.ask(what, &tokens, from); err != nil {
					t.Fatalf("%s for %s, whose answer was lost: %v", what, from, err)
				}
			}
		}
	})
}

func inFlight(a *v1alpha1.BareMetalBootSpec) bool { return a.Failure == nil && a.ReportedTime == nil }

// checkBinding checks what was served to an address. got has the addresses that got it before.
func checkBinding(t *rapid.T, what string, from netip.Addr, before, after *v1alpha1.BareMetalBootSpec, got map[string]netip.Addr) {
	bound := map[string]string{"script": after.ScriptAddress, "seed": after.DataAddress}[what]
	if first, ok := got[what]; !inFlight(before) || bound != from.String() || ok && first != from {
		t.Fatalf("%s went to %s; bound to %s, before to %s; in flight: %v", what, from, bound, first, inFlight(before))
	}
	got[what] = from
}

// known is what a client learned from its answers.
type known struct{ seed, report string }

// ask sends a request with what the client knows, and guesses the rest.
func (w *world) ask(what string, tokens *known, from netip.Addr) error {
	switch what {
	case "script":
		got, err := w.script(from)
		if err == nil {
			tokens.seed = got
		}
		return err
	case "seed":
		data, err := w.BootstrapData(ctx, "dc/h", tokens.seed, seed.UserData, from)
		if err == nil {
			tokens.report = reportToken(data)
		}
		return err
	default:
		return w.Report(ctx, "dc/h", tokens.report, pxe.Up, from)
	}
}
