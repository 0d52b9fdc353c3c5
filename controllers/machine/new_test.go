package machine

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// claimWorld returns a reconciler with an API server in memory that has a machine and free hosts; its cache shows them.
func claimWorld(t *testing.T, machine *v1alpha1.BareMetalMachine, hosts ...string) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	NewWithT(t).Expect(v1alpha1.AddToScheme(scheme)).To(Succeed())
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(machine).WithStatusSubresource(machine).
		WithIndex(&v1alpha1.BareMetalHost{}, claim.ConsumerField, func(o client.Object) []string {
			if host, ok := o.(*v1alpha1.BareMetalHost); ok && host.Spec.ConsumerRef != nil {
				return []string{host.Spec.ConsumerRef.Name}
			}
			return nil
		}).
		WithIndex(&v1alpha1.BareMetalBoot{}, controllers.MachineIndex, func(client.Object) []string { return nil }).Build()
	r := &Reconciler{Client: api, APIReader: api}
	for _, name := range hosts {
		host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: name}}
		host.Spec.Architecture = v1alpha1.ArchitectureAMD64
		host.Status.Hardware = &v1alpha1.Hardware{Architecture: string(v1alpha1.ArchitectureAMD64)}
		host.Status.Conditions = []metav1.Condition{
			{Type: v1alpha1.AvailableCondition, Status: metav1.ConditionTrue}, {Type: v1alpha1.VerifiedCondition, Status: metav1.ConditionTrue},
		}
		NewWithT(t).Expect(api.Create(t.Context(), host)).To(Succeed())
		r.freeHosts.update(host)
	}
	return r
}

// TestNewMachine: the reconcile that added the finalizer need not list the machine's hosts. Every other reconcile lists them, also with a stale
// cache: no machine gets two hosts.
func TestNewMachine(t *testing.T) {
	g := NewWithT(t)
	machine := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a"}}
	r := claimWorld(t, machine, "h-1", "h-2", "h-3")
	var shown v1alpha1.BareMetalMachine
	g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), &shown)).To(Succeed())
	scopeOf := func(m *v1alpha1.BareMetalMachine) *scope {
		return &scope{machine: m.DeepCopy(), owner: &clusterv1.Machine{}}
	}
	behind := scopeOf(&shown)

	deleted := scopeOf(&shown)
	deleted.machine.DeletionTimestamp = new(metav1.Now())
	g.Expect(r.ensureFinalizer(t.Context(), deleted)).To(Succeed())
	g.Expect(deleted.machine.Finalizers).To(BeEmpty())
	g.Expect(deleted.isNew).To(BeFalse())

	s := scopeOf(&shown)
	g.Expect(r.ensureFinalizer(t.Context(), s)).To(Succeed())
	g.Expect(s.machine.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer))
	g.Expect(s.isNew).To(BeTrue())
	lists := 0
	r.APIReader = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	})
	s.before = s.machine.DeepCopy()
	_, err := r.reconcileClaim(t.Context(), s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.host).NotTo(BeNil())
	g.Expect(lists).To(BeZero())

	again := scopeOf(s.machine) // without any knowledge of the claim
	again.machine.Status.HostRef = nil
	g.Expect(r.ensureFinalizer(t.Context(), again)).To(Succeed(), "it is there")
	g.Expect(again.isNew).To(BeFalse())
	again.before = again.machine.DeepCopy()
	_, err = r.reconcileClaim(t.Context(), again)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.host.Name).To(Equal(s.host.Name))
	g.Expect(lists).To(Equal(1))
	hosts, err := claim.HostsOf(t.Context(), r.APIReader, "dc", "m")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(hosts).To(HaveLen(1))

	// Another process leads now, and its cache shows the machine before the claim.
	next := &Reconciler{Client: r.Client, APIReader: r.APIReader}
	g.Expect(apierrors.IsConflict(next.ensureFinalizer(t.Context(), behind))).To(BeTrue())
	g.Expect(behind.isNew).To(BeFalse())
}
