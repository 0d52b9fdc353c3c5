package plan

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

var anna = Requester{User: "anna@example.com", Reason: "new DIMM", Now: metav1.NewTime(time.Date(2026, 11, 29, 10, 30, 0, 0, time.UTC))}

func free() *v1alpha1.BareMetalHost {
	return &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "server-1"}, Status: v1alpha1.BareMetalHostStatus{Phase: v1alpha1.PhaseAvailable, Power: v1alpha1.PowerOff},
	}
}

func running() *v1alpha1.BareMetalHost {
	h := free()
	h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
	h.Status.Phase, h.Status.Power = v1alpha1.PhaseProvisioned, v1alpha1.PowerOn
	return h
}

func with(h *v1alpha1.BareMetalHost, change func(*v1alpha1.BareMetalHost)) *v1alpha1.BareMetalHost {
	change(h)
	return h
}

func annotated(h *v1alpha1.BareMetalHost, pairs ...string) *v1alpha1.BareMetalHost {
	for i := 0; i < len(pairs); i += 2 {
		setAnnotation(pairs[i], pairs[i+1])(h)
	}
	return h
}

const (
	annaKey   = "anna-example.com-f7d54c22"
	annaHold  = v1alpha1.PowerHoldPrefix + annaKey
	annaForce = v1alpha1.ForcePowerHoldPrefix + annaKey
	annaText  = "anna@example.com: new DIMM"
)

func maintained(h *v1alpha1.BareMetalHost) {
	h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "bob: fan"}
}

// TestPlans: what a command writes, what it does nothing about, and what it refuses.
func TestPlans(t *testing.T) {
	quarantined := func(h *v1alpha1.BareMetalHost) {
		h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: v1alpha1.ReasonDisksNotErased, Message: "two disks"}
	}
	for name, test := range map[string]struct {
		plan    Func
		host    *v1alpha1.BareMetalHost
		refused string // a part of the error; empty if it is not refused
		already string // a part of why nothing is to be done
		consent Consent
		changed func(Gomega, *v1alpha1.BareMetalHost)
	}{
		"on: a free server": {plan: PowerOn, host: free(), changed: func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.Power).To(Equal(v1alpha1.PowerOn)) }},
		"on: a machine that a person switched off": {
			plan: PowerOn, host: with(running(), func(h *v1alpha1.BareMetalHost) { h.Status.Power = v1alpha1.PowerOff }),
			changed: func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(h.Annotations).To(HaveKeyWithValue(v1alpha1.PowerOnPrefix+annaKey, annaText))
			},
		},
		"on: it is, and the user has requested a power cycle": {
			plan: PowerOn, host: annotated(running(), v1alpha1.PowerCyclePrefix+annaKey, "x", v1alpha1.PowerCyclePrefix+"bob", "x"),
			changed: func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(h.Annotations).To(Equal(map[string]string{v1alpha1.PowerCyclePrefix + "bob": "x"}))
			},
		},
		"on: the power cycle has begun": {
			plan: PowerOn, changed: func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Annotations).To(BeEmpty()) },
			host: with(annotated(running(), v1alpha1.PowerCyclePrefix+annaKey, "x"), func(h *v1alpha1.BareMetalHost) {
				h.Spec.ProviderState.PowerHoldStartTime = &anna.Now // it is written before the first command
			}),
		},
		"on: an erasure":  {plan: PowerOn, host: with(free(), func(h *v1alpha1.BareMetalHost) { h.Status.Phase = v1alpha1.PhaseCleaning }), refused: "is Cleaning, and the provider controls its power"},
		"off: an erasure": {plan: PowerOff(false, false), host: with(free(), func(h *v1alpha1.BareMetalHost) { h.Status.Phase = v1alpha1.PhaseCleaning }), refused: "is Cleaning"},
		"on: it is":       {plan: PowerOn, host: running(), already: "is on"},
		"on: after the hold of the user": {
			plan: PowerOn, host: annotated(running(), annaHold, "x", annaForce, "x"),
			changed: func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Annotations).To(BeEmpty()) },
		},
		"on: another hold remains": {
			plan: PowerOn, host: annotated(running(), annaHold, "x", v1alpha1.PowerHoldPrefix+"bob", "bob: a disk"),
			changed: func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(h.Annotations).To(Equal(map[string]string{v1alpha1.PowerHoldPrefix + "bob": "bob: a disk"}))
			},
		},
		"on: the hold of another": {plan: PowerOn, host: annotated(running(), v1alpha1.PowerHoldPrefix+"bob", "bob: a disk"), refused: "power holds of others keep server-1 off: bob (bob: a disk)"},
		"on: the hold of a remediation": {plan: PowerOn, refused: "BareMetalRemediation/m (fencing)", host: with(running(), func(h *v1alpha1.BareMetalHost) {
			h.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "BareMetalRemediation/m", Reason: "fencing"}}
		})},
		"off: a machine": {plan: PowerOff(false, false), host: running(), consent: ConsentName, changed: func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(h.Annotations).To(Equal(map[string]string{annaHold: annaText}))
		}},
		"off: by force": {plan: PowerOff(true, false), host: running(), consent: ConsentName, changed: func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(h.Annotations).To(Equal(map[string]string{annaForce: annaText}))
		}},
		"off: it is": {plan: PowerOff(false, false), already: "is off by your power hold", host: with(annotated(running(), annaHold, "x"), func(h *v1alpha1.BareMetalHost) {
			h.Spec.ProviderState.PowerHoldOffTime = &anna.Now
		})},
		"off: a free server":          {plan: PowerOff(false, false), host: free(), changed: func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.Power).To(Equal(v1alpha1.PowerOff)) }},
		"off: a free server by force": {plan: PowerOff(true, false), host: free(), refused: "--force is for the server of a machine"},
		"off: a boot":                 {plan: PowerOff(false, false), refused: "is Booting", host: with(running(), func(h *v1alpha1.BareMetalHost) { h.Status.Phase = v1alpha1.PhaseBooting })},
		"off: maintenance":            {plan: PowerOff(false, false), refused: "in maintenance (bob: fan)", host: with(running(), maintained)},
		"off: detached":               {plan: PowerOff(false, false), refused: "is detached", host: annotated(running(), v1alpha1.DetachedAnnotation, "")},
		"off: paused":                 {plan: PowerOff(false, false), refused: "is paused", host: annotated(running(), clusterv1.PausedAnnotation, "")},
		"cycle": {plan: PowerCycle, host: running(), consent: ConsentName, changed: func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(h.Annotations).To(Equal(map[string]string{v1alpha1.PowerCyclePrefix + annaKey: annaText}))
		}},
		"cycle: a free server":  {plan: PowerCycle, host: free(), refused: "has no machine"},
		"cycle: a hold":         {plan: PowerCycle, host: annotated(running(), annaHold, "x"), refused: "power holds keep server-1 off"},
		"maintenance":           {plan: MaintenanceStart, host: running(), changed: func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.Maintenance.Reason).To(Equal(annaText)) }},
		"maintenance of others": {plan: MaintenanceStart, host: with(free(), maintained), refused: "in maintenance already (bob: fan)"},
		"maintenance ends":      {plan: MaintenanceEnd, host: with(free(), maintained), changed: func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.Maintenance).To(BeNil()) }},
		"no maintenance ends":   {plan: MaintenanceEnd, host: free(), already: "is not in maintenance"},
		"quarantine": {plan: QuarantineStart, host: free(), changed: func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(*h.Spec.Quarantine).To(Equal(v1alpha1.Quarantine{Reason: ReasonByUser, Message: annaText, StartTime: &anna.Now}))
		}},
		"quarantine twice":   {plan: QuarantineStart, host: with(free(), quarantined), refused: "in quarantine already (DisksNotErased: two disks)"},
		"quarantine ends":    {plan: QuarantineEnd, host: with(free(), quarantined), changed: func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Spec.Quarantine).To(BeNil()) }},
		"no quarantine ends": {plan: QuarantineEnd, host: free(), already: "is not in quarantine"},
		"inspect by the BMC": {plan: Inspect(false), host: with(free(), maintained), changed: func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(h.Annotations).To(Equal(map[string]string{v1alpha1.RetryBMCAnnotation: annaText}))
		}},
		"inspect by the agent": {
			plan: Inspect(false), host: with(free(), func(h *v1alpha1.BareMetalHost) { h.Spec.Inspection = v1alpha1.InspectionBoth }),
			changed: func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(h.Annotations).To(Equal(map[string]string{v1alpha1.InspectAnnotation: annaText}))
			},
		},
		"inspect, detached": {plan: Inspect(true), host: with(annotated(free(), v1alpha1.DetachedAnnotation, ""), maintained), refused: "is detached"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			before := test.host.DeepCopy()
			p, err := test.plan(test.host, anna)
			g.Expect(test.host).To(Equal(before), "a plan changes nothing")
			if test.refused != "" {
				g.Expect(err).To(MatchError(ContainSubstring(test.refused)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			if test.already != "" {
				g.Expect(p.Does).To(BeEmpty())
				g.Expect(p.Already).To(ContainSubstring(test.already))
				return
			}
			g.Expect(p.Does).NotTo(BeEmpty())
			g.Expect(p.Event).NotTo(BeEmpty())
			g.Expect(p.Consent).To(Equal(test.consent))
			p.Change(test.host)
			test.changed(g, test.host)
		})
	}
}

// TestReached: a request counts as carried out when the provider says so, not when it was written.
func TestReached(t *testing.T) {
	g := NewWithT(t)
	h := running()
	off, err := PowerOff(false, false)(h, anna)
	g.Expect(err).NotTo(HaveOccurred())
	off.Change(h)
	g.Expect(off.Reached(h)).To(BeFalse())
	h.Status.Power = v1alpha1.PowerOff // one reading
	g.Expect(off.Reached(h)).To(BeFalse())
	h.Spec.ProviderState.PowerHoldStartTime, h.Spec.ProviderState.PowerHoldOffTime = &anna.Now, &anna.Now
	g.Expect(off.Reached(h)).To(BeTrue())

	m := with(free(), maintained)
	m.Status.Phase = v1alpha1.PhaseMaintenance
	end, err := MaintenanceEnd(m, anna)
	g.Expect(err).NotTo(HaveOccurred())
	end.Change(m)
	g.Expect(end.Reached(m)).To(BeFalse()) // until then nobody may power the server on
	m.Status.Phase = v1alpha1.PhasePowerHold
	g.Expect(end.Reached(m)).To(BeTrue())
	paused := annotated(with(free(), maintained), clusterv1.PausedAnnotation, "")
	end, err = MaintenanceEnd(paused, anna)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(end.Reached).To(BeNil())

	on, err := PowerOn(h, anna)
	g.Expect(err).NotTo(HaveOccurred())
	on.Change(h)
	g.Expect(on.Reached(h)).To(BeFalse())
	h.Status.Power = v1alpha1.PowerOn
	g.Expect(on.Reached(h)).To(BeFalse())
	h.Spec.ProviderState.PowerHoldStartTime, h.Spec.ProviderState.PowerHoldOffTime = nil, nil
	g.Expect(on.Reached(h)).To(BeTrue())
}

// TestInspectionReached: an inspection by the BMC ends with the operation that follows the request. The annotation is removed before it.
func TestInspectionReached(t *testing.T) {
	g := NewWithT(t)
	h := free()
	operation := func(name string, started time.Duration, outcome v1alpha1.OperationOutcome) *v1alpha1.Operation {
		op := &v1alpha1.Operation{Name: name, StartTime: metav1.NewTime(anna.Now.Add(started)), Outcome: outcome, Message: "login refused"}
		if outcome != "" {
			op.EndTime = &op.StartTime
		}
		return op
	}
	h.Status.LastOperation = operation("Inspect", 0, v1alpha1.OperationFailed)
	p, err := Inspect(true)(h, anna)
	g.Expect(err).NotTo(HaveOccurred())
	p.Change(h)
	h.Status.LastOperation = operation("Inspect", time.Minute, v1alpha1.OperationSucceeded)
	g.Expect(p.Reached(h)).To(BeFalse(), "the request is not accepted")
	h.Annotations = nil
	for _, before := range []*v1alpha1.Operation{nil, operation("Inspect", 0, v1alpha1.OperationFailed), operation("Inspect", time.Minute, "")} {
		h.Status.LastOperation = before
		g.Expect(p.Reached(h)).To(BeFalse(), "%+v", before)
	}
	h.Status.LastOperation = operation("Inspect", time.Minute, v1alpha1.OperationFailed)
	g.Expect(p.Reached(h)).To(BeTrue())
	g.Expect(p.Outcome(h)).To(MatchError("Inspect failed: login refused"))
	for _, after := range []*v1alpha1.Operation{operation("Inspect", time.Minute, v1alpha1.OperationSucceeded), operation("ForceOff", time.Minute, v1alpha1.OperationFailed)} {
		h.Status.LastOperation = after
		g.Expect(p.Reached(h)).To(BeTrue())
		g.Expect(p.Outcome(h)).To(Succeed(), "%+v", after)
	}
}

// TestHolder: each user has another key, and an annotation can have it.
func TestHolder(t *testing.T) {
	g := NewWithT(t)
	for user, want := range map[string]string{
		"anna": "anna", "anna-example.com": "anna-example.com", "anna@example.com": annaKey, "system:serviceaccount:ops:robot": "system-serviceaccount-ops-robot-b689ffc9",
		"": "user-e3b0c442", "@": "user-c3641f85", "https://id.example/#a": "https---id.example--a-1b748069", "anna-": "anna-2b2bf44f",
	} {
		g.Expect(Requester{User: user}.Holder()).To(Equal(want))
	}
	rapid.Check(t, func(t *rapid.T) {
		user, other := rapid.StringN(0, 100, -1).Draw(t, "user"), rapid.StringN(0, 100, -1).Draw(t, "other")
		key := Requester{User: user}.Holder()
		if problems := validation.IsQualifiedName("example.org/" + key); len(problems) > 0 {
			t.Fatalf("%q of %q: %v", key, user, problems)
		}
		if user != other && key == (Requester{User: other}).Holder() {
			t.Fatalf("%q and %q have the key %q", user, other, key)
		}
	})
	long, other := Requester{User: strings.Repeat("x", 80) + "1"}.Holder(), Requester{User: strings.Repeat("x", 80) + "2"}.Holder()
	g.Expect(len(long)).To(BeNumerically("<=", maxHolder))
	g.Expect(long).NotTo(Equal(other))
	g.Expect(Requester{User: "anna", Reason: strings.Repeat("é", 2000)}.Text()).To(Equal("anna: " + strings.Repeat("é", (maxText-len("anna: "))/2)))
	g.Expect(Requester{User: "ann", Reason: strings.Repeat("é", 2000)}.Text()).To(Equal("ann: " + strings.Repeat("é", (maxText-len("ann: "))/2)))
	g.Expect(Requester{User: "anna", Reason: "two\nlines\x1b"}.Text()).To(Equal("anna: two lines?"))
}
