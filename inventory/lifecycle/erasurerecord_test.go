package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// hasReport is a boot whose agent has reported that it erased a disk.
func hasReport(v *View) { agentDone(v); v.Host.Boot.Erasure = erasureReport() }

func unfenced(v *View) { v.Requests.ReleaseUnfenced = by("anna: burnt") }

// TestErasureRecord: no step loses the proof of an erasure before it is recorded, unless it cannot be recorded, or a user does not wait for it. An erasure without proof
// leads to quarantine.
func TestErasureRecord(t *testing.T) {
	released := func(changes ...func(*View)) View {
		return erasingView(append([]func(*View){cleaned, hasReport, voided}, changes...)...)
	}
	requested := func(changes ...func(*View)) View {
		return erasingFreeView(append([]func(*View){agentSeen, hasReport, commanded(CommandForceOff, 30*time.Second)}, changes...)...)
	}
	unerased := func(v *View) { v.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: v1alpha1.ReasonDisksNotErased} }
	for name, test := range map[string]struct {
		view       View
		outcome    RecordOutcome
		action     Action
		quarantine string
		message    string
	}{
		"a release, and nothing is recorded":        {released(), RecordNone, Release, "", "is off and clean"},
		"a release":                                 {released(), RecordDue, RecordErasure, "", "is off and clean"},
		"a release, recorded":                       {released(), RecordWritten, Release, "", "is off and clean"},
		"a release, not recorded":                   {released(), RecordFailed, RecordErasure, "", "so the host is not released yet: the key is missing"},
		"a release in a namespace that ends":        {released(), RecordImpossible, Release, "", "is off and clean"},
		"a release, not proven":                     {released(), RecordUnproven, Release, v1alpha1.ReasonDisksNotErased, "is off and clean"},
		"a release of a host of the policy Manual":  {released(hostPolicy(manual)), RecordUnproven, Release, v1alpha1.ReasonCleaningByHand, "is off and clean"},
		"a release without disks":                   {released(func(v *View) { v.Host.Boot.Erasure.Disks = nil }), RecordDue, Release, "", "is off and clean"},
		"a release without fencing":                 {released(unfenced), RecordDue, RecordErasure, v1alpha1.ReasonReleasedUnfenced, ""},
		"a release without fencing, not recorded":   {released(unfenced), RecordFailed, Release, v1alpha1.ReasonReleasedUnfenced, ""},
		"on request, and nothing is recorded":       {requested(), RecordNone, RecordBoot, "", "is over"},
		"on request":                                {requested(), RecordDue, RecordErasure, "", "is over"},
		"on request, recorded":                      {requested(), RecordWritten, RecordBoot, "", "is over"},
		"on request, not recorded":                  {requested(), RecordFailed, RecordErasure, "", "so the host is not available yet: the key is missing"},
		"on request in a namespace that ends":       {requested(), RecordImpossible, RecordBoot, "", "is over"},
		"on request, not proven":                    {requested(), RecordUnproven, Isolate, v1alpha1.ReasonDisksNotErased, "its report proves nothing: the key is missing. Wipe the disks"},
		"on request, not proven, and in quarantine": {requested(unerased), RecordUnproven, RecordBoot, "", ""},
		"on request, in quarantine for a reason":    {requested(quarantined), RecordUnproven, Isolate, v1alpha1.ReasonDisksNotErased, "its report proves nothing"},
		"on request, failed":                        {requested(eraseFailed, unerased), RecordDue, RecordBoot, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			test.view.Erasure.Record = ErasureRecord{Outcome: test.outcome, Err: errNoKey}
			step := Next(test.view, DefaultSettings())
			g.Expect(step.Action).To(Equal(test.action), step.Message)
			g.Expect(step.Message).To(ContainSubstring(test.message))
			if test.quarantine == "" {
				g.Expect(step.Quarantine).To(BeNil())
			} else {
				g.Expect(step.Quarantine).To(HaveValue(HaveField("Reason", test.quarantine)))
			}
			if test.outcome == RecordFailed && step.Action == RecordErasure {
				g.Expect(step.Reason).To(Equal(v1alpha1.ReasonErasureNotRecorded))
				g.Expect(step.RequeueAt).To(BeZero())
				g.Expect(step.Drop).To(BeEmpty())
			}
		})
	}
}
