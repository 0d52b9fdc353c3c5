package main

import (
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// TestProgressIsChecked: the demo fails if no agent showed the progress of its image. The other steps of an agent are no such progress.
func TestProgressIsChecked(t *testing.T) {
	g := NewWithT(t)
	a := &agents{report: &printer{muted: true}, printed: map[string]string{}}
	boot := &v1alpha1.BareMetalBoot{Spec: v1alpha1.BareMetalBootSpec{Agent: true, Number: 1}}
	shows := func(step wire.AgentStep, total int64) {
		boot.Status.Agent = &v1alpha1.AgentProgress{Number: 1, Step: step, TotalBytes: total, Percent: 42}
		a.show(boot)
	}
	a.show(boot)
	shows(wire.StepReading, 0)
	shows(wire.StepWriting, 0)
	shows(wire.StepVerifying, 100)
	g.Expect(a.check()).To(MatchError(errNoProgress))
	shows(wire.StepWriting, 100)
	shows(wire.StepCommitting, 0)
	g.Expect(a.check()).To(Succeed())
}

// TestReports: only the agent of a machine's boot has written an image.
func TestReports(t *testing.T) {
	for purpose, want := range map[v1alpha1.BootPurpose]string{
		v1alpha1.PurposeProvision: "agent reported: the image is written and verified",
		v1alpha1.PurposeClean:     "agent reported: the disk is erased",
		v1alpha1.PurposeConfigure: "agent reported: the server restarted, and no disk was opened",
		v1alpha1.PurposeInspect:   "",
	} {
		boot := &v1alpha1.BareMetalBoot{Spec: v1alpha1.BareMetalBootSpec{Agent: true, Number: 1, Purpose: purpose, AgentDoneTime: &metav1.Time{}}}
		NewWithT(t).Expect(describeAgent(boot)).To(Equal(want))
	}
}
