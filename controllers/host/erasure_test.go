package host_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// recorder records erasures, and fails as the test wants.
type recorder struct {
	fails    atomic.Bool
	unproven atomic.Bool
	calls    atomic.Int64
	recorded atomic.Pointer[v1alpha1.ErasureReport]
	released atomic.Bool // a call came after the release
}

func (r *recorder) Record(_ context.Context, h *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) error {
	r.calls.Add(1)
	if h.Spec.ConsumerRef == nil {
		r.released.Store(true)
	}
	if r.fails.Load() {
		return errors.New("the key is missing")
	}
	if r.unproven.Load() {
		return &erasure.UnprovenError{Reason: "no disk was erased"}
	}
	r.recorded.Store(boot.Spec.Erasure.DeepCopy())
	return nil
}

// startRecording is start with a recorder.
func startRecording(t *testing.T, r *recorder) func() {
	t.Helper()
	return startReconciler(t, &host.Reconciler{Settings: controllerstest.Settings(), Clock: &shiftedClock{}, Erasures: r})
}

// serverToErase returns a server whose machine is deleted, and whose agent runs to erase its disks with a policy.
func serverToErase(t *testing.T, policy wire.ErasePolicy) *controllerstest.Server {
	t.Helper()
	server, claim := runningServer(t)
	wait(t, server, phase(v1alpha1.PhaseProvisioned))
	controllerstest.ModifyBoot(t, env, server.Host, func(b *v1alpha1.BareMetalBootSpec) {
		now := metav1.Now().Rfc3339Copy()
		b.PoweredOffTime, b.PoweredOnTime, b.DataServedTime, b.ReportedTime = &now, &now, &now, &now
	})
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = policy })
	NewWithT(t).Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	NewWithT(t).Eventually(func(g Gomega) {
		boot := controllerstest.BootOf(t, env, server.Host)
		g.Expect(boot.Spec.Purpose).To(Equal(v1alpha1.PurposeClean))
		g.Expect(boot.Spec.PoweredOnTime).NotTo(BeNil())
		g.Expect(server.On()).To(BeTrue())
	}, inspectionTimeout).Should(Succeed())
	return server
}

// endErasure does what the boot server does with the result of an agent, which powers the server off.
func endErasure(t *testing.T, server *controllerstest.Server) {
	t.Helper()
	boot := controllerstest.BootOf(t, env, server.Host)
	now := metav1.Now().Rfc3339Copy()
	controllerstest.Modify(t, env, boot, func(b *v1alpha1.BareMetalBoot) {
		b.Spec.AgentDoneTime, b.Spec.WrittenDisks = &now, nil
		b.Spec.Erasure = &v1alpha1.ErasureReport{Policy: b.Spec.CleaningPolicy, StartTime: now, EndTime: now, Disks: []v1alpha1.ErasedDisk{{DiskErasure: wire.DiskErasure{
			Disk: wire.DiskIdentity{SerialNumber: "S1"}, Outcome: wire.Erased, Method: "NVMe sanitize", Class: wire.PolicyPurge,
			Verification: &wire.ErasureVerification{Kind: "Samples", Passed: true},
		}}}}
	})
	server.SetPower(false)
}

// TestErasureAfterANetworkBoot: a host with the policy Purge is erased after a machine that booted from the network, also if its policy is changed meanwhile. Its erasure
// is recorded before it is released.
func TestErasureAfterANetworkBoot(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	defer startRecording(t, r)()
	server := serverToErase(t, wire.PolicyClear)
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.CleaningPolicy).To(Equal(wire.PolicyClear))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = wire.PolicyMetadata })
	endErasure(t, server)
	wait(t, server, expectReleasedClean)
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.CleaningPolicy).To(Equal(wire.PolicyClear))
	g.Expect(r.recorded.Load()).To(HaveValue(HaveField("Policy", wire.PolicyClear)))
	g.Expect(r.released.Load()).To(BeFalse())
}

// TestErasureIsNotRecorded: a host whose erasure cannot be recorded is not released, and says why. It is released once that succeeds.
func TestErasureIsNotRecorded(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	r.fails.Store(true)
	defer startRecording(t, r)()
	server := serverToErase(t, wire.PolicyClear)
	endErasure(t, server)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetReason(h, v1alpha1.BootedCondition)).To(Equal(v1alpha1.ReasonErasureNotRecorded), "%+v", h.Status)
		g.Expect(conditions.GetMessage(h, v1alpha1.ReadyCondition)).To(ContainSubstring("the key is missing"))
		g.Expect(h.Spec.ConsumerRef).NotTo(BeNil())
	})
	calls := r.calls.Load()
	g.Eventually(r.calls.Load, inspectionTimeout).Should(BeNumerically(">", calls), "it is repeated")
	g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), server.Host)).To(Succeed())
	g.Expect(server.Host.Spec.ConsumerRef).NotTo(BeNil())
	r.fails.Store(false)
	wait(t, server, expectReleasedClean)
	g.Expect(r.recorded.Load()).NotTo(BeNil())
}

// TestErasureIsNotProven: a report that proves no erasure is no reason to wait: the host goes into quarantine.
func TestErasureIsNotProven(t *testing.T) {
	r := &recorder{}
	r.unproven.Store(true)
	defer startRecording(t, r)()
	server := serverToErase(t, wire.PolicyClear)
	endErasure(t, server)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ConsumerRef).To(BeNil())
		g.Expect(h.Spec.Quarantine).To(HaveValue(And(HaveField("Reason", v1alpha1.ReasonDisksNotErased), HaveField("Message", ContainSubstring("no disk was erased")))))
	})
}

// TestUnfencedReleaseWithoutRecord: a user can release a host without fencing although its erasure cannot be recorded.
func TestUnfencedReleaseWithoutRecord(t *testing.T) {
	r := &recorder{}
	r.fails.Store(true)
	defer startRecording(t, r)()
	server := serverToErase(t, wire.PolicyClear)
	endErasure(t, server)
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonErasureNotRecorded))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.ReleaseUnfencedAnnotation: "anna: the key is lost"}
	})
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ConsumerRef).To(BeNil())
		g.Expect(h.Spec.Quarantine).To(HaveValue(HaveField("Reason", v1alpha1.ReasonReleasedUnfenced)))
	})
}

// TestPurgeIsNotPossible: a host that is to be purged and has a disk that cannot be is not available, until the policy is one that it can meet.
func TestPurgeIsNotPossible(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := newInspectedServer(t, env.Namespace(t), "h")
	server.Host.Spec.CleaningPolicy = wire.PolicyPurge
	register(t, server)
	waitForAgent(t, server)
	reportHardware(t, server, server.Host.Status.Hardware.CPU.Threads)
	wait(t, server, phase(v1alpha1.PhaseAvailable)) // what the disk offers is unknown
	report := &v1alpha1.BareMetalInspection{}
	g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), report)).To(Succeed())
	controllerstest.Modify(t, env, report, func(r *v1alpha1.BareMetalInspection) {
		r.Spec.Disks = []wire.InspectedDisk{
			{SerialNumber: "S1", SizeBytes: 480e9, EraseClass: wire.PolicyPurge}, {SerialNumber: "S2", SizeBytes: 480e9, EraseClass: wire.PolicyClear},
		}
	})
	wait(t, server, reason(v1alpha1.AvailableCondition, v1alpha1.ReasonCleaningPolicyNotPossible))
	g.Expect(conditions.GetMessage(server.Host, v1alpha1.AvailableCondition)).To(ContainSubstring("no method for that: S2"))
	g.Expect(server.Host.Status.Inspection.NotPurgeable).To(ConsistOf(HaveField("SerialNumber", "S2")))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Storage = &v1alpha1.HostStorage{Keep: []wire.KeptDisk{{SerialNumber: "S2"}}}
	})
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Storage = nil })
	wait(t, server, phase(v1alpha1.PhaseUnavailable))
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = wire.PolicyClear })
	wait(t, server, phase(v1alpha1.PhaseAvailable))
}

// TestErasureInADeletedNamespace: nothing can be created in a namespace that is being deleted, so a host whose erasure is not recorded is released there: its deletion
// must end.
func TestErasureInADeletedNamespace(t *testing.T) {
	g := NewWithT(t)
	r := &recorder{}
	r.fails.Store(true)
	defer startRecording(t, r)()
	server := serverToErase(t, wire.PolicyClear)
	endErasure(t, server)
	wait(t, server, reason(v1alpha1.BootedCondition, v1alpha1.ReasonErasureNotRecorded))
	g.Expect(env.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: server.Host.Namespace}})).To(Succeed())
	g.Expect(env.Client.Delete(t.Context(), server.Host)).To(Succeed()) // as Kubernetes' namespace controller does
	env.Gone(t, server.Host)
	g.Expect(r.recorded.Load()).To(BeNil())
	g.Expect(server.On()).To(BeFalse())
}
