package crash

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// disks returns two servers with disks, one of which has BMC sessions. change may change their hosts.
func disks(t *testing.T, change func(*v1alpha1.BareMetalHost)) *run {
	t.Helper()
	r := newRun(t, env)
	for name, sessions := range map[string]bool{"a": true, "b": false} {
		server := r.site.Server(t, name, rig.ServerOptions{Node: true, Sessions: sessions, Disk: true})
		if change != nil {
			change(server.Host)
		}
		server.Register(t)
	}
	return r
}

// leftOn expects what is on the disk of a server, and that it was never bootable before it was complete.
func (r *run) leftOn(s *rig.Server, wantBoots, wantData bool) error {
	boots, data, err := s.Left()
	switch torn := s.Torn(); {
	case err != nil:
		return err
	case len(torn) > 0:
		return fmt.Errorf("%s: server %s: %v", promise.Commit, s.Name, torn)
	case boots != wantBoots || data != wantData:
		return fmt.Errorf("%s: server %s: its disk boots: %t, has bootstrap data: %t", promise.Erased, s.Name, boots, data)
	}
	return nil
}

// writeImage goes from unregistered servers to a machine that runs from the disk that an agent wrote.
func writeImage(t *testing.T, f *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := disks(t, nil)
	r.claimServer(r.site.WithImage(t))
	f.arm()
	r.start(env, f)
	r.settled(r.provisioned)
	h, s := r.host()
	life := s.Last()
	g.Expect(life).NotTo(BeNil())
	g.Expect(life.Reported()).To(BeTrue())
	g.Expect(life.FromDisk).To(BeTrue())
	boot := r.boot(h)
	g.Expect([]int32{boot.Attempt, boot.Number, h.Spec.ProviderState.Boots, boot.CommittedNumber}).To(Equal([]int32{1, 1, 1, 0}), r.scene())
	g.Expect(life.System.MetaData["instance-id"]).To(Equal(boot.ClaimID + "-1"))
	g.Expect(boot.DataAddress).To(Equal(life.System.Address.String()))
	g.Expect([]*metav1.Time{boot.PoweredOnTime, boot.DHCPTime, boot.DataServedTime, boot.CommitAllowedTime, boot.AgentDoneTime, boot.ReportedTime}).NotTo(ContainElement(BeNil()), r.scene())
	g.Expect(boot.WrittenDisks).To(HaveLen(1))
	g.Expect(r.leftOn(s, true, true)).To(Succeed())
	r.ended(powers{switched: [][2]int{{1, 0}, {0, 0}}, boots: 1})
}

// eraseDisk goes from a deleted machine to a free server whose disk was erased.
func eraseDisk(t *testing.T, f *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := disks(t, nil)
	s := r.released(f)
	g.Expect(r.leftOn(s, false, false)).To(Succeed())
	r.ended(powers{switched: [][2]int{{2, 2}, {0, 0}}, boots: 1})
}

// clearDisks and purgeDisks go from a deleted machine to a free server whose disks, which an inspection has found, were all erased.
func clearDisks(t *testing.T, f *fuse) {
	t.Helper()
	eraseAll(t, f, wire.PolicyClear)
}

func purgeDisks(t *testing.T, f *fuse) {
	t.Helper()
	eraseAll(t, f, wire.PolicyPurge)
}

func eraseAll(t *testing.T, f *fuse, policy wire.ErasePolicy) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := disks(t, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Inspection, h.Spec.CleaningPolicy = v1alpha1.InspectionAgent, policy
	})
	for _, s := range r.site.Servers() {
		s.AddDisk(t, rig.SecondDisk)
		if policy == wire.PolicyPurge {
			s.SetPurges()
		}
	}
	s := r.released(f)
	g.Expect(s.Data()).To(BeEmpty(), promise.Erased)
	keys, err := r.site.ErasureKeys(t.Context(), env.Client)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.site.Proven(t.Context(), env.Client, keys, s.Name, policy, "DISK-"+s.Name, rig.SecondDisk+s.Name)).To(Succeed(), promise.Proven)
	r.ended(powers{switched: [][2]int{{3, 3}, {1, 1}}, boots: 1})
}

// requestErasure goes from a BareMetalErasureRequest for a free host to a free host whose disk was erased once.
func requestErasure(t *testing.T, f *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := disks(t, nil)
	r.start(env, f)
	offered := func() error { return r.phases(v1alpha1.PhaseAvailable, v1alpha1.PhaseAvailable) }
	r.until("both servers are offered", offered)
	s := r.site.Servers()[0]
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: r.site.Namespace, Name: s.Name}}
	g.Expect(r.get(h)).To(Succeed())
	g.Expect(h.Status.Hardware.SerialNumber).NotTo(BeEmpty())
	f.arm()
	request := controllerstest.RequestErasure(t, env, h, h.Status.Hardware.SerialNumber, wire.PolicyClear)
	r.settled(func() {
		r.until("the request is carried out and both servers are offered", func() error {
			if err := errors.Join(r.get(h), env.Client.Get(t.Context(), client.ObjectKeyFromObject(request), request)); err != nil {
				return err
			}
			if !conditions.IsTrue(request, v1alpha1.ErasedCondition) {
				return fmt.Errorf("host %s is %s, and the request: %s", h.Name, h.Status.Phase, conditions.GetMessage(request, v1alpha1.ErasedCondition))
			}
			return offered()
		})
	})
	g.Expect(h.Spec.Quarantine).To(BeNil())
	boot := r.boot(h)
	g.Expect([]any{boot.Purpose, boot.Attempt, boot.Number}).To(Equal([]any{v1alpha1.PurposeClean, int32(1), int32(1)}), r.scene())
	g.Expect(boot.VoidedTime).NotTo(BeNil())
	keys, err := r.site.ErasureKeys(t.Context(), env.Client)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(r.site.Proven(t.Context(), env.Client, keys, s.Name, wire.PolicyClear, "DISK-"+s.Name)).To(Succeed(), promise.Proven)
	r.ended(powers{switched: [][2]int{{1, 1}, {0, 0}}})
}

// released runs a machine from an image, deletes it, and waits until its server is free. It returns the server. The fuse counts from the deletion on.
func (r *run) released(f *fuse) *rig.Server {
	r.t.Helper()
	g := NewWithT(r.t)
	image := r.site.WithImage(r.t)
	r.start(env, f)
	r.until("both servers are offered", func() error { return r.phases(v1alpha1.PhaseAvailable, v1alpha1.PhaseAvailable) })
	r.claimServer(image)
	r.provisioned()
	h, s := r.host()
	g.Expect(r.leftOn(s, true, true)).To(Succeed())
	number, disks := h.Spec.ProviderState.Boots+1, 0
	if h.Spec.Inspection == v1alpha1.InspectionAgent {
		disks = 2
	}
	g.Expect(h.Spec.ConsumerRef.Disks).To(HaveLen(disks), "what the claim knows of the disks")
	f.arm()
	g.Expect(env.Client.Delete(r.t.Context(), r.claim.BareMetalMachine)).To(Succeed())
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
		g.Expect(h.Spec.Quarantine).To(BeNil())
		g.Expect(h.Spec.ProviderState.CleaningStartTime).To(BeNil())
		g.Expect(r.boot(&h).WrittenDisks).To(BeEmpty())
		if h.Name == s.Name {
			boot := r.boot(&h)
			g.Expect([]any{boot.Purpose, boot.Attempt, boot.Number}).To(Equal([]any{v1alpha1.PurposeClean, int32(1), number}), r.scene())
		}
	}
	g.Expect(s.On()).To(BeFalse())
	return s
}

// inspect goes from unregistered servers to free ones that the agent has inspected.
func inspect(t *testing.T, f *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := disks(t, func(h *v1alpha1.BareMetalHost) { h.Spec.Inspection = v1alpha1.InspectionAgent })
	f.arm()
	r.start(env, f)
	r.settled(func() {
		r.until("both servers are offered", func() error { return r.phases(v1alpha1.PhaseAvailable, v1alpha1.PhaseAvailable) })
	})
	for _, h := range r.hosts() {
		report := &v1alpha1.BareMetalInspection{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}}
		g.Expect(r.get(report)).To(Succeed())
		g.Expect(report.Spec.Disks).To(ContainElement(HaveField("SerialNumber", "DISK-"+h.Name)))
		boot := r.boot(&h)
		g.Expect([]any{boot.Purpose, boot.Attempt, boot.Number, report.Spec.BootNumber}).To(Equal([]any{v1alpha1.PurposeInspect, int32(1), int32(1), int32(1)}), r.scene())
		g.Expect(boot.VoidedTime).NotTo(BeNil())
		g.Expect(h.Annotations).To(BeEmpty())
	}
	for _, s := range r.site.Servers() {
		g.Expect(r.leftOn(s, false, false)).To(Succeed())
	}
	r.ended(powers{switched: [][2]int{{1, 1}, {1, 1}}})
}
