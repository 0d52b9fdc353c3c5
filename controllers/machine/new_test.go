package machine

import (
	"context"
	"errors"
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
		r.hosts.update(host)
	}
	return r
}

// TestNewMachine: the first write of a machine has its finalizer and its choice of a host, and needs no list of the machine's hosts. Every other reconcile lists them, also with a
// stale cache: no machine gets two hosts.
func TestNewMachine(t *testing.T) {
	g := NewWithT(t)
	machine := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a"}}
	r := claimWorld(t, machine, "h-1", "h-2", "h-3")
	api := r.Client.(client.WithWatch)
	var shown v1alpha1.BareMetalMachine
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(machine), &shown)).To(Succeed())
	scopeOf := func(m *v1alpha1.BareMetalMachine) *scope {
		return &scope{machine: m.DeepCopy(), before: m.DeepCopy(), owner: &clusterv1.Machine{}}
	}
	behind, second := scopeOf(&shown), scopeOf(&shown)

	deleted := scopeOf(&shown)
	deleted.machine.DeletionTimestamp = new(metav1.Now())
	deleted.addFinalizer()
	g.Expect(deleted.machine.Finalizers).To(BeEmpty())
	g.Expect(deleted.isNew).To(BeFalse())

	lists, writes := 0, 0
	r.APIReader = interceptor.NewClient(api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			lists++
			return c.List(ctx, list, opts...)
		},
	})
	r.Client = interceptor.NewClient(api, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if _, ok := o.(*v1alpha1.BareMetalMachine); ok {
				writes++
			}
			err := c.Patch(ctx, o, p, opts...)
			o.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "capbm"}}) // an API server answers with them, and the cache drops them
			return err
		},
	})
	s := scopeOf(&shown)
	s.addFinalizer()
	g.Expect(s.isNew).To(BeTrue())
	_, err := r.reconcileClaim(t.Context(), s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.host).NotTo(BeNil())
	g.Expect(lists).To(BeZero())
	g.Expect(r.writeFinalizer(t.Context(), s)).To(Succeed())
	_, err = r.write(t.Context(), s.before, s.machine)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(writes).To(Equal(1), "the finalizer and the choice")
	g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(machine), &shown)).To(Succeed())
	g.Expect(shown.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer))
	choice, ok := claim.ChoiceOf(&shown)
	g.Expect(ok).To(BeTrue())
	g.Expect(choice.Name).To(Equal(s.host.Name))

	again := scopeOf(&shown) // without any knowledge of the claim
	again.addFinalizer()
	g.Expect(again.isNew).To(BeFalse())
	_, err = r.reconcileClaim(t.Context(), again)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again.host.Name).To(Equal(s.host.Name))
	g.Expect(lists).To(Equal(1))

	// Another process leads now, and its cache shows the machine before the claim, and a free host or none.
	next := &Reconciler{Client: api, APIReader: r.APIReader}
	behind.addFinalizer()
	g.Expect(behind.isNew).To(BeTrue())
	g.Expect(apierrors.IsConflict(next.writeFinalizer(t.Context(), behind))).To(BeTrue())
	var hosts v1alpha1.BareMetalHostList
	g.Expect(api.List(t.Context(), &hosts)).To(Succeed())
	for i := range hosts.Items {
		next.hosts.update(&hosts.Items[i])
	}
	second.addFinalizer()
	_, err = next.reconcileClaim(t.Context(), second)
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	claimed, err := claim.HostsOf(t.Context(), api, "dc", "m")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(claimed).To(HaveLen(1))
}

// TestMachineGoneDespiteFinalizer: a deletion that began before a machine got its finalizer removes it all the same. Such a machine, or another one of its name, claims no host.
func TestMachineGoneDespiteFinalizer(t *testing.T) {
	for _, recreated := range []bool{false, true} {
		g := NewWithT(t)
		machine := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a"}}
		r := claimWorld(t, machine, "h-1")
		api := r.Client.(client.WithWatch)
		var shown v1alpha1.BareMetalMachine
		g.Expect(api.Get(t.Context(), client.ObjectKeyFromObject(machine), &shown)).To(Succeed())
		r.Client = interceptor.NewClient(api, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if err := c.Patch(ctx, o, p, opts...); err != nil || o.GetName() != "m" {
					return err
				}
				gone := o.DeepCopyObject().(client.Object)
				gone.SetFinalizers(nil)
				if err := errors.Join(c.Update(ctx, gone), c.Delete(ctx, gone)); err != nil || !recreated {
					return err
				}
				return c.Create(ctx, &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "b"}})
			},
		})
		s := &scope{machine: shown.DeepCopy(), before: shown.DeepCopy(), owner: &clusterv1.Machine{}}
		s.addFinalizer()
		_, err := r.reconcileClaim(t.Context(), s)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%v", err)
		claimed, err := claim.HostsOf(t.Context(), api, "dc", "m")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(claimed).To(BeEmpty())
	}
}

// TestFinalizerAlone: a machine for which no host fits gets its finalizer, with an optimistic lock.
func TestFinalizerAlone(t *testing.T) {
	g := NewWithT(t)
	machine := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a"}}
	r := claimWorld(t, machine)
	var shown v1alpha1.BareMetalMachine
	g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), &shown)).To(Succeed())
	s := &scope{machine: shown.DeepCopy(), before: shown.DeepCopy(), owner: &clusterv1.Machine{}}
	s.addFinalizer()
	_, err := r.reconcileClaim(t.Context(), s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.host).To(BeNil())
	g.Expect(r.writeFinalizer(t.Context(), s)).To(Succeed())
	g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), &shown)).To(Succeed())
	g.Expect(shown.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer))
	g.Expect(shown.Annotations).NotTo(HaveKey(v1alpha1.ChosenHostAnnotation))
}

// hostless is a cache that shows no hosts.
type hostless struct{ client.Client }

func (h hostless) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*v1alpha1.BareMetalHostList); ok {
		return nil
	}
	return h.Client.List(ctx, list, opts...)
}

// TestFinalizerNeedsTheAPIServer: a machine that is deleted keeps its finalizer while the API server shows that it has a host. The cache may be minutes old.
func TestFinalizerNeedsTheAPIServer(t *testing.T) {
	g := NewWithT(t)
	now := metav1.Now()
	r := claimWorld(t, &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "dc", Name: "m", UID: "a", Finalizers: []string{v1alpha1.MachineFinalizer}, DeletionTimestamp: &now,
	}}, "h-1")
	r.Client = hostless{r.Client}
	var m v1alpha1.BareMetalMachine
	g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "m"}, &m)).To(Succeed())
	var host v1alpha1.BareMetalHost
	g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "h-1"}, &host)).To(Succeed())
	g.Expect(claim.Claim(t.Context(), r.Client, &host, claim.Terms{Machine: "m"})).To(Succeed())
	s := &scope{machine: &m, before: m.DeepCopy(), owner: &clusterv1.Machine{}}
	g.Expect(r.reconcileDelete(t.Context(), s)).To(Succeed())
	g.Expect(m.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer))
	g.Expect(s.host).To(HaveField("Name", "h-1"))
}

// TestClaimArrivesInDeletion: the claim of a former leader arrives while a machine that is deleted is checked. The machine keeps its finalizer: its host has to be released.
func TestClaimArrivesInDeletion(t *testing.T) {
	g := NewWithT(t)
	now := metav1.Now()
	r := claimWorld(t, &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "dc", Name: "m", UID: "a", Finalizers: []string{v1alpha1.MachineFinalizer}, DeletionTimestamp: &now,
	}}, "h-1")
	api := r.Client.(client.WithWatch)
	var m v1alpha1.BareMetalMachine
	g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "m"}, &m)).To(Succeed())
	var host v1alpha1.BareMetalHost
	g.Expect(api.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "h-1"}, &host)).To(Succeed())
	claim.Choose(&m, &host)
	r.APIReader = interceptor.NewClient(api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			err := c.List(ctx, list, opts...)
			g.Expect(claim.Claim(ctx, api, &host, claim.Terms{Machine: "m"})).To(Succeed())
			return err
		},
	})
	s := &scope{machine: &m, before: m.DeepCopy(), owner: &clusterv1.Machine{}}
	g.Expect(apierrors.IsConflict(r.reconcileDelete(t.Context(), s))).To(BeTrue())
	g.Expect(m.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer))
}

// TestClosedChoiceNeedsNoRead: the cache proves that a choice is closed. That it is open, only the API server shows.
func TestClosedChoiceNeedsNoRead(t *testing.T) {
	g := NewWithT(t)
	r := claimWorld(t, &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a"}}, "h-1")
	reads := 0
	r.APIReader = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			return c.Get(ctx, key, o, opts...)
		},
	})
	var host v1alpha1.BareMetalHost
	g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "h-1"}, &host)).To(Succeed())
	m := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m"}}
	claim.Choose(m, &host)
	g.Expect(r.chosenHost(t.Context(), m)).To(HaveField("Name", "h-1"))
	g.Expect(reads).To(Equal(1))
	host.Labels = map[string]string{"changed": "yes"}
	g.Expect(r.Client.Update(t.Context(), &host)).To(Succeed())
	g.Expect(r.chosenHost(t.Context(), m)).To(BeNil())
	g.Expect(reads).To(Equal(1))
}

// TestFinalizerRemovedByHand: a machine with a choice and no finalizer is not new, although its choice is closed. The API server is asked for its hosts, and the cache may show none.
func TestFinalizerRemovedByHand(t *testing.T) {
	g := NewWithT(t)
	r := claimWorld(t, &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a"}}, "h-1", "h-2")
	var m v1alpha1.BareMetalMachine
	g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "m"}, &m)).To(Succeed())
	var host v1alpha1.BareMetalHost
	g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "h-1"}, &host)).To(Succeed())
	claim.Choose(&m, &host)
	g.Expect(claim.Claim(t.Context(), r.Client, &host, claim.Terms{Machine: "m"})).To(Succeed())
	s := &scope{machine: &m, before: m.DeepCopy(), owner: &clusterv1.Machine{}}
	s.addFinalizer()
	_, err := r.reconcileClaim(t.Context(), s)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.host).To(HaveField("Name", "h-1"))
	g.Expect(claim.HostsOf(t.Context(), r.APIReader, "dc", "m")).To(HaveLen(1))
}
