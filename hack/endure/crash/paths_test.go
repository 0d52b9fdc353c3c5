package crash

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// path is a part of a host's life. walk runs it, and checks its end.
type path struct {
	name string
	walk func(t *testing.T, f *fuse)
	// writes are writes to hosts and boots that must be among its crash points, two for each action.
	writes []string
}

var paths = []path{
	{"provision", provision, []string{
		"create of baremetalboots", "finalizer of the host", "claim", "record the boot", "count the boot", "record the power-on", "record that the script is served",
		"record that data is served", "record the report", "status of baremetalboots",
	}},
	{"release", release, []string{"begin the cleaning", "void the boot", "release"}},
	{"image", writeImage, []string{
		"claim", "record the boot", "count the boot", "record the power-on", "record that the script is served", "record that data is served", "record the permission",
		"record that the agent is done", "record the report",
	}},
	{"erase", eraseDisk, allErased},
	{"clear", clearDisks, allErased},
	{"purge", purgeDisks, allErased},
	{"request-erasure", requestErasure, []string{
		"record the erasure", "count the boot", "record the power-on", "record that the script is served", "record that the agent is done", "create of baremetalerasures",
		"void the boot",
	}},
	{"inspect", inspect, []string{"record the inspection", "count the boot", "record the power-on", "record that the agent is done", "void the boot", "create of baremetalinspections"}},
	{"configure", configure, []string{
		"create of baremetalsettings", "count the run", "record that settings are staged", "record that the settings are pending", "record the restart", "count the boot",
		"record the power-on", "record that the script is served", "record that the agent is done", "record the outcome of the run", "void the boot", "record the end of the run",
		"count the end of the run",
	}},
	{"configure-machine", configureMachine, []string{
		"count the run", "record that settings are staged", "record that the settings are pending", "record that the server is off", "record the outcome of the run",
		"record the end of the run", "count the end of the run",
	}},
	{"remove", remove, []string{"void the boot", "finalizer of the host", "finalizer of the boot"}},
	{"remediate", remediate, []string{"hold"}},
	{"move-source", moveSource, []string{"record that data is served", "record the report", "allow the move"}},
	{"move-target", moveTarget, nil},
}

// allErased are the writes of a release that erases all disks.
var allErased = []string{
	"begin the cleaning", "record the erasure", "count the boot", "record the power-on", "record that the script is served", "record that the agent is done",
	"create of baremetalerasures", "void the boot", "release",
}

// rack returns two servers, one of which has BMC sessions, and a machine that needs one of them.
func rack(t *testing.T) *run {
	t.Helper()
	r := newRun(t, env)
	for name, sessions := range map[string]bool{"a": true, "b": false} {
		r.site.Server(t, name, rig.ServerOptions{Node: true, Sessions: sessions}).Register(t)
	}
	r.claimServer()
	return r
}

// claimServer adds a machine that needs a server.
func (r *run) claimServer(change ...func(*controllerstest.Claim)) {
	t := r.t
	t.Helper()
	r.claim = r.site.Claim(t, r.machine(), change...)
	t.Cleanup(func() {
		_ = r.site.Env.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.machine()}})
	})
}

// provisioned waits until the machine runs and all statuses are written.
func (r *run) provisioned() {
	r.t.Helper()
	m, node := r.claim.BareMetalMachine, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.machine()}}
	r.until("the machine runs", func() error {
		if err := errors.Join(r.get(m), r.get(node), r.phases(v1alpha1.PhaseProvisioned, v1alpha1.PhaseAvailable)); err != nil {
			return err
		}
		if m.Status.HostRef == nil || m.Spec.ProviderID != inventory.ProviderID(m.Namespace, m.Status.HostRef.Name, m.Name) || !conditions.IsTrue(m, v1alpha1.ReadyCondition) {
			return fmt.Errorf("the machine: provider ID %q, status %+v", m.Spec.ProviderID, m.Status)
		}
		if node.Spec.ProviderID != m.Spec.ProviderID {
			return fmt.Errorf("the Node has the provider ID %q", node.Spec.ProviderID)
		}
		return nil
	})
}

// host returns the host of the machine, with its server.
func (r *run) host() (*v1alpha1.BareMetalHost, *rig.Server) {
	r.t.Helper()
	for _, h := range r.hosts() {
		if h.Spec.ConsumerRef == nil || h.Spec.ConsumerRef.Name != r.machine() {
			continue
		}
		for _, s := range r.site.Servers() {
			if s.Name == h.Name {
				return &h, s
			}
		}
	}
	r.t.Fatal("no host has the machine")
	return nil, nil
}

// void expects that the tokens of a boot are invalid. The report's token is valid until the release, since a report whose answer was lost is repeated.
func void(ctx context.Context, life *rig.Life, report bool) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	seed, err := life.System.SeedURL()
	if err != nil {
		return err
	}
	response, err := life.System.Get(ctx, seed+"user-data")
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusForbidden {
		return fmt.Errorf("the seed's token is good still: %s", response.Status)
	}
	if !report {
		return nil
	}
	home, err := life.System.ReportURL()
	if err != nil {
		return err
	}
	if err := life.System.Post(ctx, home, url.Values{}); err == nil || !strings.Contains(err.Error(), "403") {
		return fmt.Errorf("the report's token is good still: %w", err)
	}
	return nil
}

// provision goes from unregistered servers to a running machine.
func provision(t *testing.T, f *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := rack(t)
	f.arm()
	r.start(env, f)
	r.settled(r.provisioned)
	h, s := r.host()
	life := s.Last()
	g.Expect(life).NotTo(BeNil())
	g.Expect(life.Reported()).To(BeTrue())
	boot := r.boot(h)
	g.Expect(boot.Attempt).To(Equal(int32(1)), r.scene())
	g.Expect(boot.Number).To(Equal(int32(1)), r.scene())
	g.Expect(h.Spec.ProviderState.Boots).To(Equal(int32(1)), r.scene())
	g.Expect(boot.ClaimID).To(Equal(h.Spec.ConsumerRef.ClaimID))
	g.Expect(boot.ScriptAddress).To(Equal(life.System.Address.String()))
	g.Expect(boot.DataAddress).To(Equal(life.System.Address.String()))
	g.Expect([]*metav1.Time{boot.PoweredOffTime, boot.PoweredOnTime, boot.DHCPTime, boot.DataServedTime, boot.ReportedTime}).NotTo(ContainElement(BeNil()), r.scene())
	g.Expect(boot.VoidedTime).To(BeNil())
	r.until("the seed's token is void", func() error { return void(t.Context(), life, false) })
	r.ended(powers{switched: [][2]int{{1, 0}, {0, 0}}, boots: 1})
}

// release goes from a deleted machine to a free server.
func release(t *testing.T, f *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := rack(t)
	r.start(env, f)
	r.provisioned()
	_, s := r.host()
	life := s.Last()
	f.arm()
	g.Expect(env.Client.Delete(t.Context(), r.claim.BareMetalMachine)).To(Succeed())
	r.settled(func() {
		r.until("the machine is gone and the server is free", func() error {
			if err := r.get(r.claim.BareMetalMachine); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the machine is there: %w", err)
			}
			return r.phases(v1alpha1.PhaseAvailable, v1alpha1.PhaseAvailable)
		})
	})
	for _, h := range r.hosts() {
		g.Expect(h.Spec.ConsumerRef).To(BeNil())
		boot := r.boot(&h)
		g.Expect(boot.Number).To(Equal(h.Spec.ProviderState.Boots))
		g.Expect(boot.VoidedTime == nil).To(Equal(boot.Number == 0), r.scene())
		g.Expect(h.Spec.Quarantine).To(BeNil())
		g.Expect(h.Spec.ProviderState.CleaningStartTime).To(BeNil())
	}
	g.Expect(s.On()).To(BeFalse())
	r.until("the tokens are void", func() error { return void(t.Context(), life, true) })
	for _, h := range r.hosts() {
		g.Expect(h.Annotations).To(BeEmpty())
	}
	r.ended(powers{switched: [][2]int{{1, 1}, {0, 0}}, boots: 1})
}

// remove goes from deleted hosts to nothing: a free host, and a host that boots although its machine was removed from it.
func remove(t *testing.T, f *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := newRun(t, env)
	booted, on := make(chan struct{}), make(chan struct{})
	r.site.Server(t, "a", rig.ServerOptions{Boot: func(ctx context.Context, _ *pxetest.Firmware) {
		close(on)
		select {
		case <-booted:
		case <-ctx.Done():
		}
	}}).Register(t)
	t.Cleanup(func() { close(booted) })
	r.claim = r.site.Claim(t, r.machine())
	r.start(env, f)
	g.Eventually(on, factTimeout).Should(BeClosed(), r.scene)
	r.site.Server(t, "b", rig.ServerOptions{Sessions: true}).Register(t)
	var h *v1alpha1.BareMetalHost
	r.until("the other host is offered, and the server is on", func() error {
		h, _ = r.host()
		if h.Status.Power != v1alpha1.PowerOn {
			return fmt.Errorf("the server is %s", h.Status.Power)
		}
		return r.phases(v1alpha1.PhaseBooting, v1alpha1.PhaseAvailable)
	})
	g.Expect(env.Client.Delete(t.Context(), r.claim.Machine)).To(Succeed()) // the machine wants no other host
	controllerstest.Modify(t, env, r.claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, clusterv1.PausedAnnotation, "")
	})
	f.arm()
	for _, h := range r.hosts() {
		g.Expect(env.Client.Delete(t.Context(), &h)).To(Succeed())
	}
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil })
	r.settled(func() {
		r.until("nothing holds the hosts", func() error { return r.phases() })
		r.collected("nothing holds their boots")
	})
	g.Expect(r.site.Servers()[0].On()).To(BeFalse())
	r.ended(powers{switched: [][2]int{{1, 1}, {0, 0}}})
}

// remediate goes from an unhealthy Node through a power cycle to a healthy one, and to a remediation that is gone.
func remediate(t *testing.T, f *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := rack(t)
	r.start(env, f)
	r.provisioned()
	m := r.claim.Machine
	controllerstest.Modify(t, env, m, func(m *clusterv1.Machine) { m.Finalizers = []string{clusterv1.MachineFinalizer} })
	r.judge(metav1.ConditionFalse)
	g.Expect(r.site.Speak(t.Context(), r.machine(), corev1.ConditionUnknown)).To(Succeed())
	remediation := &v1alpha1.BareMetalRemediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: m.Namespace, Name: m.Name, Labels: map[string]string{clusterv1.ClusterNameLabel: m.Name},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: m.Name, UID: m.UID}},
	}}
	f.arm()
	r.site.Env.Create(t, remediation)
	r.until("the machine is well again", func() error {
		if err := r.get(remediation); err != nil {
			return err
		}
		if remediation.Status.Phase != v1alpha1.RemediationRecovered {
			return fmt.Errorf("the remediation is %s: %s", remediation.Status.Phase, conditions.GetMessage(remediation, v1alpha1.ReadyCondition))
		}
		return nil
	})
	g.Expect(remediation.Status.Attempt).To(Equal(int32(1)))
	r.judge(metav1.ConditionTrue)
	g.Expect(env.Client.Delete(t.Context(), remediation)).To(Succeed())
	r.until("the remediation is gone", func() error {
		if err := r.get(remediation); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the remediation is there: %w", err)
		}
		return nil
	})
	r.settled(r.provisioned)
	h, s := r.host()
	g.Expect(h.Spec.PowerHolds).To(BeEmpty())
	g.Expect(h.Spec.ProviderState.PowerHoldStartTime).To(BeNil())
	g.Expect(h.Spec.ProviderState.PowerHoldOffTime).To(BeNil())
	g.Expect(h.Spec.Quarantine).To(BeNil())
	g.Expect(s.On()).To(BeTrue())
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.machine()}}
	g.Expect(r.get(node)).To(Succeed())
	g.Expect(node.Spec.Taints).NotTo(ContainElement(HaveField("Key", corev1.TaintNodeOutOfService)))
	g.Expect(r.get(m)).To(Succeed())
	g.Expect(conditions.Has(m, clusterv1.MachineOwnerRemediatedCondition)).To(BeFalse(), "it is to be replaced")
	r.ended(powers{switched: [][2]int{{2, 1}, {0, 0}}, boots: 1})
	controllerstest.Modify(t, env, m, func(m *clusterv1.Machine) { m.Finalizers = nil })
}

// judge writes what Cluster API finds about the machine: its Node, and whether it is healthy.
func (r *run) judge(healthy metav1.ConditionStatus) {
	r.t.Helper()
	NewWithT(r.t).Eventually(func() error {
		m := r.claim.Machine
		if err := r.get(m); err != nil {
			return err
		}
		m.Status.NodeRef = clusterv1.MachineNodeReference{Name: r.machine()}
		conditions.Set(m, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: healthy, Reason: "Test"})
		return env.Client.Status().Update(context.Background(), m)
	}, "30s").Should(Succeed())
}
