package machine

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestProvisionedEvent: the event Provisioned is recorded once, with the write of the provider ID, even if the status write after it fails.
func TestProvisionedEvent(t *testing.T) {
	g := NewWithT(t)
	r := claimWorld(t, &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a"}})
	recorder := events.NewFakeRecorder(10)
	r.Recorder = recorder
	away := true
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if away {
				return errors.New("the API server is away")
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	look := func(then func(*v1alpha1.BareMetalMachine)) error {
		var m v1alpha1.BareMetalMachine
		g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "m"}, &m)).To(Succeed())
		before := m.DeepCopy()
		then(&m)
		_, err := r.writeOrDelay(t.Context(), before, &scope{machine: &m, host: &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h"}}})
		return err
	}
	ready := func(m *v1alpha1.BareMetalMachine) { m.Status.Initialization.Provisioned = new(true) }
	g.Expect(look(ready)).NotTo(Succeed())
	g.Expect(recorder.Events).To(BeEmpty(), "it has no provider ID")

	runs := func(m *v1alpha1.BareMetalMachine) { m.Spec.ProviderID = "baremetal://dc/h/m"; ready(m) }
	g.Expect(look(runs)).NotTo(Succeed())
	g.Expect(recorder.Events).To(HaveLen(1))
	g.Expect(<-recorder.Events).To(ContainSubstring("The host runs BareMetalMachine m"))

	away = false
	g.Expect(look(runs)).To(Succeed())
	g.Expect(recorder.Events).To(BeEmpty(), "the event was recorded before")
}

// TestLastWrite: the write that removes the finalizer of a machine is its last one. Its status has no object any more. The cache may still show the machine: nothing is asked or
// written for it again.
func TestLastWrite(t *testing.T) {
	g := NewWithT(t)
	now := metav1.Now()
	r := claimWorld(t, &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "dc", Name: "m", UID: "a", Finalizers: []string{v1alpha1.MachineFinalizer}, DeletionTimestamp: &now,
	}})
	r.released = lru.New(1)
	var shown v1alpha1.BareMetalMachine
	g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "m"}, &shown)).To(Succeed())
	var writes []string
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			shown.DeepCopyInto(o.(*v1alpha1.BareMetalMachine))
			return nil
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			writes = append(writes, "machine")
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			writes = append(writes, sub)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	m := shown.DeepCopy()
	m.Finalizers, m.Status.HostRef = nil, nil
	_, err := r.writeOrDelay(t.Context(), &shown, &scope{machine: m})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(writes).To(Equal([]string{"machine"}))
	g.Expect(apierrors.IsNotFound(r.APIReader.Get(t.Context(), client.ObjectKeyFromObject(m), m))).To(BeTrue())

	r.APIReader = nil
	g.Expect(r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&shown)})).To(BeZero())
	g.Expect(writes).To(HaveLen(1))
}

// TestFinalizerLostInLife: a machine whose finalizer another writer removed while it lives is not taken for one that is gone when it is deleted later.
func TestFinalizerLostInLife(t *testing.T) {
	g := NewWithT(t)
	m := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a", Finalizers: []string{"theirs"}}}
	r := claimWorld(t, m)
	r.released = lru.New(1)
	var now v1alpha1.BareMetalMachine
	g.Expect(r.Client.Get(t.Context(), client.ObjectKeyFromObject(m), &now)).To(Succeed())
	before := now.DeepCopy()
	before.Finalizers = []string{v1alpha1.MachineFinalizer} // as the cache shows it
	after := before.DeepCopy()
	after.Labels = map[string]string{"rack": "r1"}
	_, err := r.write(t.Context(), before, after)
	g.Expect(err).NotTo(HaveOccurred())
	now.DeletionTimestamp = new(metav1.Now())
	g.Expect(r.isReleased(&now)).To(BeFalse())
}

// TestChangesAreComputedOnce: a write sends the difference that was computed before, and a reconcile that changes nothing computes none.
func TestChangesAreComputedOnce(t *testing.T) {
	g := NewWithT(t)
	r := claimWorld(t, &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m", UID: "a"}})
	var sent []string
	note := func(p client.Patch) {
		change, err := p.Data(&v1alpha1.BareMetalMachine{})
		g.Expect(err).NotTo(HaveOccurred())
		sent = append(sent, string(change))
	}
	r.Client = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			note(p)
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			note(p)
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	var m v1alpha1.BareMetalMachine
	g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: "m"}, &m)).To(Succeed())
	before := m.DeepCopy()
	m.Spec.ProviderID, m.Status.NodeName = "baremetal://dc/h/m", "n"
	_, err := r.write(t.Context(), before, &m)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(sent).To(ConsistOf(`{"spec":{"providerID":"baremetal://dc/h/m"}}`, `{"status":{"nodeName":"n"}}`))

	difference := func() { _, _ = client.MergeFrom(&m).Data(&m) }
	unchanged := func() {
		wait, err := r.writeOrDelay(t.Context(), &m, &scope{machine: &m, undecided: true})
		g.Expect(wait, err).To(BeZero())
	}
	g.Expect(2 * testing.AllocsPerRun(10, unchanged)).To(BeNumerically("<", testing.AllocsPerRun(10, difference)))
	g.Expect(sent).To(HaveLen(2))
}
