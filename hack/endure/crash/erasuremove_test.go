package crash

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
)

// agentHold holds agents back before they report their result.
type agentHold struct {
	mu      sync.Mutex
	open    chan struct{} // nil while nothing is held back
	arrived chan struct{}
}

func (h *agentHold) set() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open, h.arrived = make(chan struct{}), make(chan struct{})
}

func (h *agentHold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.open != nil {
		close(h.open)
		h.open = nil
	}
}

// pass is the rig's Point.
func (h *agentHold) pass(ctx context.Context, point string) error {
	h.mu.Lock()
	open := h.open
	if point == rig.ResultPoint && open != nil {
		select {
		case <-h.arrived:
		default:
			close(h.arrived)
		}
	}
	h.mu.Unlock()
	if point != rig.ResultPoint || open == nil {
		return nil
	}
	select {
	case <-open:
	case <-ctx.Done():
	}
	return nil
}

// TestMoveErasures: clusterctl moves the record of an erasure, whose signature stays valid, and a host whose disks are being erased. A move forgets that a machine is
// being deleted. Once it is deleted again, the erasure is completed and recorded on the other side.
func TestMoveErasures(t *testing.T) {
	g := NewWithT(t)
	startTarget(t)
	r, hold := newRun(t, env), &agentHold{}
	t.Cleanup(hold.end)
	for _, name := range []string{"a", "b"} {
		server := r.site.Server(t, name, rig.ServerOptions{Node: true, Disk: true, Point: hold.pass})
		server.Host.Spec.Inspection, server.Host.Spec.CleaningPolicy = v1alpha1.InspectionAgent, wire.PolicyClear
		server.AddDisk(t, rig.SecondDisk)
		server.Register(t)
	}
	first := r.released(&fuse{})
	source, err := r.site.ErasureKeys(t.Context(), env.Client)
	g.Expect(err).NotTo(HaveOccurred())
	own(t, r.claim) // clusterctl moves only clusters that are complete

	second := r.erasing(hold, first)
	r.watchClaims(target)
	g.Expect(clusterctlMove(t.Context(), r.site.Namespace)).To(Succeed(), r.scene)
	var left v1alpha1.BareMetalErasureList
	g.Expect(env.Client.List(t.Context(), &left, client.InNamespace(r.site.Namespace))).To(Succeed())
	g.Expect(left.Items).To(BeEmpty(), "records are left behind")
	g.Expect(r.site.Proven(t.Context(), target.Client, source, first.Name, wire.PolicyClear, "DISK-"+first.Name, rig.SecondDisk+first.Name)).To(Succeed())

	g.Expect(r.sides[0].provider.Stop()).To(Succeed())
	r.sides, r.home = nil, target // it is not revived
	r.start(target, &fuse{})
	r.sides[0].provider.Ready(t)
	raise(t, target, r.claim.Cluster, r.claim.Machine)
	g.Expect(target.Client.Delete(t.Context(), r.claim.BareMetalMachine)).To(Succeed())
	r.until("the erasure continues", func() error { return r.isIn(second.Name, v1alpha1.PhaseCleaning) })
	// The lease of its address is not moved, so the agent gets no answer: its server loses the power, and boots again.
	hold.end()
	second.SetPower(false)
	r.until("the machine is gone and its server is free", func() error {
		if err := r.get(r.claim.BareMetalMachine); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the machine is there: %w", err)
		}
		return r.isIn(second.Name, v1alpha1.PhaseAvailable)
	})
	keys, err := r.site.ErasureKeys(t.Context(), target.Client)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.site.Proven(t.Context(), target.Client, keys, second.Name, wire.PolicyClear, "DISK-"+second.Name, rig.SecondDisk+second.Name)).To(Succeed())
	g.Expect(second.Data()).To(BeEmpty(), "it has data of the machine")
	g.Expect(second.On()).To(BeFalse())
	g.Expect(r.sides[0].provider.Stop()).To(Succeed())
}

// isIn is nil if a host is in a phase.
func (r *run) isIn(name string, phase v1alpha1.HostPhase) error {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: r.site.Namespace, Name: name}}
	if err := r.get(h); err != nil {
		return err
	}
	if h.Status.Phase != phase {
		return fmt.Errorf("host %s is %s", name, h.Status.Phase)
	}
	return nil
}

// erasing runs a machine on the server that is not the first, deletes it, and holds the agent back that has erased the disks. It returns the server.
func (r *run) erasing(hold *agentHold, first *rig.Server) *rig.Server {
	t := r.t
	t.Helper()
	g := NewWithT(t)
	image := r.site.WithImage(t)
	controllerstest.Modify(t, env, first.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Taints = []v1alpha1.HostTaint{{Key: "reserved"}} })
	r.claim = r.site.Claim(t, r.machine()+"-2", image)
	t.Cleanup(func() {
		_ = env.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.machine() + "-2"}})
	})
	own(t, r.claim)
	r.until("the machine runs", func() error {
		m := r.claim.BareMetalMachine
		if err := r.get(m); err != nil {
			return err
		}
		if m.Spec.ProviderID == "" || m.Status.HostRef == nil {
			return errors.New("it has no provider ID")
		}
		return nil
	})
	hold.set()
	g.Expect(env.Client.Delete(t.Context(), r.claim.BareMetalMachine)).To(Succeed())
	r.until("the agent has erased the disks", func() error {
		select {
		case <-hold.arrived:
			return nil
		default:
			return errors.New("it has not")
		}
	})
	for _, server := range r.site.Servers() {
		if server != first {
			return server
		}
	}
	return nil
}
