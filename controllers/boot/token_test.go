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
)

func tokenBoot(change func(*v1alpha1.BareMetalBoot)) *v1alpha1.BareMetalBoot {
	boot := &v1alpha1.BareMetalBoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", UID: "boot-uid"},
		Spec:       v1alpha1.BareMetalBootSpec{Number: 7, Attempt: 1, ClaimID: "claim", MachineName: "m", StartTime: metav1.NewTime(time.Unix(1000, 0))},
	}
	if change != nil {
		change(boot)
	}
	return boot
}

// TestToken: a token is valid for its own purpose, host, claim and boot, and for nothing else.
func TestToken(t *testing.T) {
	g := NewWithT(t)
	k := tokenKeys{current: []byte("a key")}
	boot := tokenBoot(nil)
	seed, report := k.token(forSeed, boot), k.token(forReport, boot)
	g.Expect(seed).To(MatchRegexp("^[A-Za-z0-9_-]{43}$"), "256 bits, in letters that need no escape in a URL")
	g.Expect(k.opens(seed, forSeed, boot)).To(BeTrue())
	g.Expect(k.opens(report, forReport, boot)).To(BeTrue())
	g.Expect(k.opens(report, forSeed, boot)).To(BeFalse())
	g.Expect(k.opens(seed, forReport, boot)).To(BeFalse())
	for _, wrong := range []string{"", seed[:42], seed + "A", strings.ToLower(seed), seed + "=", " " + seed} {
		g.Expect(k.opens(wrong, forSeed, boot)).To(BeFalse(), "%q", wrong)
	}
	for name, change := range map[string]func(*v1alpha1.BareMetalBoot){
		"another name":                         func(o *v1alpha1.BareMetalBoot) { o.Name = "h2" },
		"another namespace":                    func(o *v1alpha1.BareMetalBoot) { o.Namespace = "dc2" },
		"another claim":                        func(o *v1alpha1.BareMetalBoot) { o.Spec.ClaimID = "claim2" },
		"the next boot":                        func(o *v1alpha1.BareMetalBoot) { o.Spec.Number, o.Spec.Attempt = 8, 2 },
		"a boot before":                        func(o *v1alpha1.BareMetalBoot) { o.Spec.Number = 6 },
		"a host that had no boot yet":          func(o *v1alpha1.BareMetalBoot) { o.Spec = v1alpha1.BareMetalBootSpec{} },
		"a record without a claim":             func(o *v1alpha1.BareMetalBoot) { o.Spec.ClaimID = "" },
		"the same number after a restore":      func(o *v1alpha1.BareMetalBoot) { o.Spec.StartTime = metav1.NewTime(time.Unix(1001, 0)) },
		"a claim and a number that read alike": func(o *v1alpha1.BareMetalBoot) { o.Spec.ClaimID, o.Spec.Number = "clai", 7 },
	} {
		other := tokenBoot(change)
		g.Expect(k.opens(seed, forSeed, other)).To(BeFalse(), name)
		g.Expect(k.opens(k.token(forSeed, other), forSeed, boot)).To(BeFalse(), name)
	}
	precise := tokenBoot(func(o *v1alpha1.BareMetalBoot) { o.Spec.StartTime = metav1.NewTime(time.Unix(1000, 5)) })
	g.Expect(k.token(forSeed, precise)).To(Equal(seed), "the API server keeps whole seconds")
	void := tokenBoot(func(o *v1alpha1.BareMetalBoot) { o.Spec.VoidedTime = new(metav1.Now()) })
	g.Expect(k.opens(seed, forSeed, void)).To(BeFalse(), "the claim ended")
	g.Expect(k.opens(report, forReport, void)).To(BeFalse(), "the claim ended")
	moved := tokenBoot(func(o *v1alpha1.BareMetalBoot) { o.UID = "other" })
	g.Expect(k.opens(report, forReport, moved)).To(BeTrue(), "a move changes the UID, and is no other boot")
	for _, nothing := range []*v1alpha1.BareMetalBoot{{}, tokenBoot(func(o *v1alpha1.BareMetalBoot) { o.Spec.Number = 0 }), tokenBoot(func(o *v1alpha1.BareMetalBoot) { o.Spec.ClaimID = "" })} {
		g.Expect(k.opens(k.token(forSeed, nothing), forSeed, nothing)).To(BeFalse(), "there is no boot")
	}
}

// TestKeys: a key is replaced in two steps with the previous one, and an empty key is no key.
func TestKeys(t *testing.T) {
	g := NewWithT(t)
	boot := tokenBoot(nil)
	old := tokenKeys{current: []byte("old")}.token(forSeed, boot)
	g.Expect(tokenKeys{current: []byte("new"), previous: []byte("old")}.opens(old, forSeed, boot)).To(BeTrue())
	g.Expect(tokenKeys{current: []byte("new")}.opens(old, forSeed, boot)).To(BeFalse())
	g.Expect(tokenKeys{current: []byte("new"), previous: []byte("old")}.token(forSeed, boot)).NotTo(Equal(old))
	g.Expect(tokenKeys{current: []byte("new")}.opens(hmacOf(nil, "seed"), forSeed, boot)).To(BeFalse())
	everybodys, _ := makeToken(nil, forSeed, boot, boot.Spec.Number)
	g.Expect(tokenKeys{current: []byte("new"), previous: []byte{}}.opens(everybodys, forSeed, boot)).To(BeFalse())
	g.Expect(tokenKeys{}.opens(everybodys, forSeed, boot)).To(BeFalse())
}

// TestSeal: two lists of fields never have the same token, wherever their texts could be split.
func TestSeal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		fields := rapid.SliceOfN(rapid.StringMatching(`[ab \x00]{0,3}`), 0, 4)
		one, other := fields.Draw(t, "one"), fields.Draw(t, "other")
		if (hmacOf([]byte("key"), one...) == hmacOf([]byte("key"), other...)) != slices.Equal(one, other) {
			t.Fatalf("%q and %q", one, other)
		}
	})
}

// TestTokenOfEarlierBoot: the report's token of the boot that made the disk bootable is valid once the agent of a later boot has found that disk complete. No other token
// of an earlier boot is.
func TestTokenOfEarlierBoot(t *testing.T) {
	now := new(metav1.Now())
	for name, test := range map[string]struct {
		change func(*v1alpha1.BareMetalBootSpec)
		valid  bool
	}{
		"found complete":    {func(o *v1alpha1.BareMetalBootSpec) { o.CommittedNumber, o.AgentDoneTime = 7, now }, true},
		"not looked yet":    {func(o *v1alpha1.BareMetalBootSpec) { o.CommittedNumber = 7 }, false},
		"another was found": {func(o *v1alpha1.BareMetalBootSpec) { o.CommittedNumber, o.AgentDoneTime = 6, now }, false},
		"written again": {func(o *v1alpha1.BareMetalBootSpec) {
			o.CommittedNumber, o.CommitAllowedTime, o.AgentDoneTime = 7, now, now
		}, false},
		"none was to be found":  {func(o *v1alpha1.BareMetalBootSpec) { o.AgentDoneTime = now }, false},
		"of an ended claim":     {func(o *v1alpha1.BareMetalBootSpec) { o.CommittedNumber, o.AgentDoneTime, o.VoidedTime = 7, now, now }, false},
		"of a claim that began": {func(o *v1alpha1.BareMetalBootSpec) { o.CommittedNumber, o.AgentDoneTime, o.ClaimID = 7, now, "claim2" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			k := tokenKeys{current: []byte("a key")}
			earlier, later := tokenBoot(nil), tokenBoot(func(o *v1alpha1.BareMetalBoot) { o.Spec.Number = 9; test.change(&o.Spec) })
			g.Expect(k.opens(k.token(forReport, earlier), forReport, later)).To(Equal(test.valid))
			for _, p := range []purpose{forSeed, forAgent} {
				g.Expect(k.opens(k.token(p, earlier), p, later)).To(BeFalse(), string(p))
				g.Expect(k.opens(k.token(p, earlier), forReport, later)).To(BeFalse(), string(p))
			}
			g.Expect(k.opens(k.token(forReport, later), forReport, later)).To(Equal(later.Spec.VoidedTime == nil))
		})
	}
}
