package matrix

import (
	"slices"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
)

// step is a step of a host's life: a column of the matrix.
type step struct {
	name string
	// bring brings a host to the step, and keeps it there if it would continue automatically.
	bring func(l *life)
	// proceed lets it continue.
	proceed func(l *life)
	// end is where it comes to if nothing is wrong, after the server was switched on so often.
	end end
	ons int
}

// end is where a host comes to.
type end int

const (
	endAvailable end = iota
	endProvisioned
	endReleased
)

const (
	registering = "registering"
	available   = "available"
	waiting     = "waiting for bootstrap data"
	beforeOff   = "boot: to be powered off"
	off         = "boot: off"
	override    = "boot: override set"
	dhcp        = "boot: DHCP"
	script      = "boot: script"
	kernel      = "boot: kernel"
	seeded      = "boot: seed given out"
	reported    = "boot: reported"
	running     = "provisioned"
	heldOff     = "to be held off"
	releasing   = "releasing"
	cleaning    = "cleaning"
	writing     = "agent: writing the image"
	written     = "agent: image written"
	bootable    = "agent: disk bootable"
	erasing     = "agent: disk erased"
	clearing    = "agent: disks cleared"
	purging     = "agent: disks to be purged"
	freeing     = "agent: free host erased"
	configuring = "agent: settings applied"
	quarantined = "quarantined"
	maintenance = "maintenance"
)

// holder is the holder of the power hold.
const holder = v1alpha1.PowerHoldPrefix + "anna"

func goOn(l *life) { l.letGo() }

func rests(*life) {}

// bootTo brings a host to a point of its boot.
func bootTo(point string) func(*life) {
	return func(l *life) {
		l.makeAvailable()
		l.holdAt(point)
		l.claimIt(l.persistence, true)
		l.held()
	}
}

func provision(l *life) {
	l.makeAvailable()
	l.claimIt(l.persistence, true)
	l.provisioned()
}

// release brings a host to a command of its release.
func release(point string) func(*life) {
	return func(l *life) {
		provision(l)
		l.holdAt(point)
		l.deleteMachine()
		l.held()
	}
}

// agentTo brings a host to a point of the agent that writes its image.
func agentTo(point string) func(*life) {
	return func(l *life) {
		l.makeAvailable()
		l.holdAt(point)
		l.claimImage()
		l.held()
	}
}

// erase brings a host to the end of the erasure of its disk, which the agent has not reported.
func erase(l *life) {
	l.makeAvailable()
	l.claimImage()
	l.provisioned()
	l.holdAt(rig.ResultPoint)
	l.deleteMachine()
	l.held()
}

// eraseAll brings a host to a point of the agent that erases all disks of its server. The claim has recorded the disks, which an inspection has found.
func eraseAll(point string) func(*life) {
	return func(l *life) {
		l.makeAvailable()
		l.claimImage()
		l.provisioned()
		l.Expect(l.host().Spec.ConsumerRef.Disks).To(HaveLen(2))
		l.holdAt(point)
		l.deleteMachine()
		l.held()
	}
}

// eraseFree brings a host that no machine has to the end of the erasure that a BareMetalErasureRequest requests, which the agent has not reported.
func eraseFree(l *life) {
	l.makeAvailable()
	l.holdAt(rig.ResultPoint)
	h := l.host()
	controllerstest.RequestErasure(l.T, env, h, h.Status.Hardware.SerialNumber, h.Spec.CleaningPolicy)
	l.held()
}

// configure brings a host that is registered to the end of the restart that applies the settings of a profile, which the agent has not reported.
func configure(l *life) {
	profile := &v1alpha1.BareMetalProfile{ObjectMeta: metav1.ObjectMeta{Namespace: l.site.Namespace, Name: "p"}}
	profile.Spec.Hosts.Selector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"profile": "p"}}
	profile.Spec.BIOSSettings = []v1alpha1.BIOSSetting{{Name: "WorkloadProfile", Value: new(intstr.FromString("LowLatency"))}}
	profile.Spec.Rollout.State = v1alpha1.RolloutActive
	profile.Spec.SecureBoot, l.server.Host.Spec.BootMode = wire.SecureBootEnabled, v1alpha1.BootModeUEFISecureBoot
	env.Create(l.T, profile)
	l.server.Host.Labels = map[string]string{"profile": "p"}
	l.holdAt(rig.ResultPoint)
	l.register()
	l.held()
}

func powerOffForHold(l *life) {
	provision(l)
	l.holdAt("reset GracefulShutdown")
	l.powerWanted()
	l.modify(func(h *v1alpha1.BareMetalHost) { metav1.SetMetaDataAnnotation(&h.ObjectMeta, holder, "new memory") })
	l.held()
}

// endHold waits until a server with a power hold is off, and ends the hold.
func (l *life) endHold() {
	l.Helper()
	if _, held := l.host().Annotations[holder]; !held {
		return
	}
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Spec.ProviderState.PowerHoldOffTime).NotTo(BeNil())
	})
	l.Expect(l.server.On()).To(BeFalse())
	l.modify(func(h *v1alpha1.BareMetalHost) { delete(h.Annotations, holder) })
}

// steps are the columns of the matrix.
var steps = []step{
	{registering, rests, (*life).register, endAvailable, 0},
	{available, (*life).makeAvailable, rests, endAvailable, 0},
	{waiting, func(l *life) {
		l.makeAvailable()
		l.claimIt(l.persistence, false)
		controllerstest.Wait(l.T, env, l.claim.BareMetalMachine.DeepCopy(), func(g Gomega, m *v1alpha1.BareMetalMachine) {
			g.Expect(conditions.GetReason(m, v1alpha1.HostClaimedCondition)).To(Equal(v1alpha1.ReasonWaitingForBootstrapData))
		})
	}, (*life).giveBootstrapData, endProvisioned, 1},
	{beforeOff, bootTo("reset ForceOff"), goOn, endProvisioned, 2},
	{off, bootTo("override Pxe"), goOn, endProvisioned, 1},
	{override, bootTo("reset On"), goOn, endProvisioned, 1},
	{dhcp, bootTo("DHCP"), goOn, endProvisioned, 1},
	{script, bootTo("script"), goOn, endProvisioned, 1},
	{kernel, bootTo("kernel"), goOn, endProvisioned, 1},
	{seeded, bootTo("report"), goOn, endProvisioned, 1},
	{reported, func(l *life) {
		bootTo("report")(l)
		l.letGo()
		l.Eventually(func() *metav1.Time { return l.record().Spec.ReportedTime }, stepTimeout).ShouldNot(BeNil(), func() string { return l.story() })
	}, rests, endProvisioned, 1},
	{running, provision, rests, endProvisioned, 1},
	{heldOff, powerOffForHold, goOn, endProvisioned, 2},
	{releasing, release("reset GracefulShutdown"), goOn, endReleased, 1},
	{cleaning, release("override None"), goOn, endReleased, 1},
	{writing, agentTo(imagePoint), goOn, endProvisioned, 1},
	{written, agentTo(rig.DataPoint), goOn, endProvisioned, 1},
	{bootable, agentTo(rig.ResultPoint), goOn, endProvisioned, 1},
	{erasing, erase, goOn, endReleased, 2},
	{clearing, eraseAll(rig.ResultPoint), goOn, endReleased, 3},
	{purging, eraseAll(rig.PlanPoint), goOn, endReleased, 3},
	{freeing, eraseFree, goOn, endAvailable, 2},
	{configuring, configure, goOn, endAvailable, 1},
	{quarantined, func(l *life) {
		l.makeAvailable()
		l.modify(func(h *v1alpha1.BareMetalHost) {
			h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Noise", Message: "a fan"}
		})
		l.wait(phase(v1alpha1.PhaseQuarantined))
	}, func(l *life) { l.modifyIfThere(func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil }) }, endAvailable, 0},
	{maintenance, func(l *life) {
		provision(l)
		l.modify(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "a cable"} })
		l.wait(phase(v1alpha1.PhaseMaintenance))
	}, func(l *life) { l.modifyIfThere(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil }) }, endProvisioned, 1},
}

// reach waits until a host is where a step ends.
func (l *life) reach(e end) {
	l.Helper()
	switch e {
	case endAvailable:
		l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
			phase(v1alpha1.PhaseAvailable)(g, h)
			g.Expect(conditions.IsTrue(h, v1alpha1.AvailableCondition)).To(BeTrue())
		})
	case endProvisioned:
		l.powerWanted()
		l.endHold()
		l.provisioned()
	case endReleased:
		l.machineGone()
		l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(h.Spec.ConsumerRef).To(BeNil())
			phase(v1alpha1.PhaseAvailable)(g, h)
		})
		l.Expect(l.server.On()).To(BeFalse())
	}
}

// is reports whether the step has one of the names.
func (s step) is(names ...string) bool {
	return slices.Contains(names, s.name)
}

// booting are the steps of a boot that has not come to its report.
var booting = []string{beforeOff, off, override, dhcp, script, kernel, seeded, writing, written, bootable}

// claimed are the steps in which a machine has the host.
var claimed = slices.Concat(booting, leaving, []string{reported, running, heldOff, maintenance})

// leaving are the steps in which the host is released.
var leaving = []string{releasing, cleaning, erasing, clearing, purging}

// withAgent are the steps in which an agent runs.
var withAgent = []string{writing, written, bootable, erasing, clearing, purging, freeing, configuring}

// policies are the cleaning policies of the steps in which all disks are erased.
var policies = map[string]wire.ErasePolicy{clearing: wire.PolicyClear, purging: wire.PolicyPurge, freeing: wire.PolicyMetadata}

// exists is true while an object is there.
func (l *life) exists(o client.Object) bool {
	o = o.DeepCopyObject().(client.Object)
	return env.Client.Get(l.Context(), client.ObjectKeyFromObject(o), o) == nil
}
