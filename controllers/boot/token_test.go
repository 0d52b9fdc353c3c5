package boot

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

func tokenHost(change func(*v1alpha1.BareMetalHost, *v1alpha1.BareMetalMachine)) (*v1alpha1.BareMetalHost, *controllers.Consumer) {
	host := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", UID: "host-uid"},
		Spec: v1alpha1.BareMetalHostSpec{
			ConsumerRef: &v1alpha1.ConsumerReference{Name: "m"},
			Boot:        &v1alpha1.BootAttempt{Attempt: 1, StartedAt: metav1.NewTime(time.Unix(1000, 0))},
		},
	}
	machine := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "machine-uid"}}
	if change != nil {
		change(host, machine)
	}
	return host, &controllers.Consumer{BareMetalMachine: machine}
}

// TestToken: a token opens its own purpose, host, machine and attempt, and nothing else.
func TestToken(t *testing.T) {
	g := NewWithT(t)
	b := New(&Booter{Key: []byte("a key")})
	host, consumer := tokenHost(nil)
	seed, report := b.token(forSeed, host, consumer), b.token(forReport, host, consumer)
	g.Expect(seed).To(MatchRegexp("^[A-Za-z0-9_-]{43}$"), "256 bits, in letters that need no escape in a URL")
	g.Expect(b.opens(seed, forSeed, host, consumer)).To(BeTrue())
	g.Expect(b.opens(report, forReport, host, consumer)).To(BeTrue())
	g.Expect(b.opens(report, forSeed, host, consumer)).To(BeFalse())
	g.Expect(b.opens(seed, forReport, host, consumer)).To(BeFalse())
	for _, wrong := range []string{"", seed[:42], seed + "A", strings.ToLower(seed), seed + "=", " " + seed} {
		g.Expect(b.opens(wrong, forSeed, host, consumer)).To(BeFalse(), "%q", wrong)
	}
	for name, change := range map[string]func(*v1alpha1.BareMetalHost, *v1alpha1.BareMetalMachine){
		"another host":                     func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalMachine) { h.UID = "other" },
		"another name":                     func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalMachine) { h.Name = "h2" },
		"another namespace":                func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalMachine) { h.Namespace = "dc2" },
		"another machine":                  func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalMachine) { h.Spec.ConsumerRef.Name = "m2" },
		"another machine of the same name": func(_ *v1alpha1.BareMetalHost, m *v1alpha1.BareMetalMachine) { m.UID = "other" },
		"the next attempt":                 func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalMachine) { h.Spec.Boot.Attempt = 2 },
		"a later attempt of that number": func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalMachine) {
			h.Spec.Boot.StartedAt = metav1.NewTime(time.Unix(1001, 0))
		},
		"no attempt": func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalMachine) { h.Spec.Boot = nil },
		"no claim":   func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalMachine) { h.Spec.ConsumerRef = nil },
	} {
		other, its := tokenHost(change)
		g.Expect(b.opens(seed, forSeed, other, its)).To(BeFalse(), name)
		g.Expect(b.opens(b.token(forSeed, other, its), forSeed, host, consumer)).To(BeFalse(), name)
	}
	g.Expect(b.opens(seed, forSeed, host, &controllers.Consumer{})).To(BeFalse(), "the machine is gone")
	nobody := &v1alpha1.BareMetalHost{}
	g.Expect(b.opens(b.token(forSeed, nobody, nil), forSeed, nobody, nil)).To(BeFalse(), "what stands in for a host that is not there has no token")
}

// TestKeys: a key is changed by way of the previous one, and no key is one that everybody has.
func TestKeys(t *testing.T) {
	g := NewWithT(t)
	host, consumer := tokenHost(nil)
	old := New(&Booter{Key: []byte("old")}).token(forSeed, host, consumer)
	g.Expect(New(&Booter{Key: []byte("new"), PreviousKey: []byte("old")}).opens(old, forSeed, host, consumer)).To(BeTrue())
	g.Expect(New(&Booter{Key: []byte("new")}).opens(old, forSeed, host, consumer)).To(BeFalse())
	g.Expect(New(&Booter{Key: []byte("new"), PreviousKey: []byte("old")}).token(forSeed, host, consumer)).NotTo(Equal(old))
	g.Expect(New(&Booter{Key: []byte("new")}).opens(seal(nil, "seed"), forSeed, host, consumer)).To(BeFalse())
	everybodys, _ := makeToken(nil, forSeed, host, consumer)
	g.Expect(New(&Booter{Key: []byte("new"), PreviousKey: []byte{}}).opens(everybodys, forSeed, host, consumer)).To(BeFalse())
	g.Expect(New(&Booter{}).opens(everybodys, forSeed, host, consumer)).To(BeFalse())
}

// TestSeal: two lists of fields never have the same token, however their texts could be cut.
func TestSeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOfN(rapid.StringMatching(`[ab \x00]{0,3}`), 0, 4)
		one, other := fields.Draw(t, "one"), fields.Draw(t, "other")
		if (seal([]byte("key"), one...) == seal([]byte("key"), other...)) != slices.Equal(one, other) {
			t.Fatalf("%q and %q", one, other)
		}
	})
}
