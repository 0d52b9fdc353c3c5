package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
)

var errCrashed = errors.New("the process has ended")

// crash ends a process at one of its writes: before the write reaches the API server, or before its answer reaches the process.
type crash struct {
	at     int // the number of the write, from 0
	before bool
	writes int
	over   bool
	names  []string
}

// write performs a write, unless the process has ended.
func (c *crash) write(name string, do func() error) error {
	if c.over {
		return errCrashed
	}
	n := c.writes
	c.writes++
	c.names = append(c.names, name)
	if c.over = n == c.at; c.over && c.before {
		return errCrashed
	}
	if err := do(); err != nil || !c.over {
		return err
	}
	return errCrashed
}

func (c *crash) client(t *testing.T) client.Client {
	t.Helper()
	inner, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return c.write(fmt.Sprintf("create %T", o), func() error { return w.Create(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return c.write(fmt.Sprintf("patch %T", o), func() error { return w.Patch(ctx, o, p, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, w client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			return c.write(fmt.Sprintf("patch %s of %T", sub, o), func() error { return w.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	})
}

// converge reconciles until nothing is written, or until the process ends.
func converge(t *testing.T, w *world, c *crash) {
	t.Helper()
	r := &Reconciler{Client: c.client(t)}
	for range 20 {
		before := c.writes
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: w.config.Name}})
		if c.over {
			return
		}
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		if c.writes == before {
			return
		}
	}
	t.Fatal("the reconciler never stops writing")
}

// crashWorld has data that needs every write: values to label, and then the Secret and the status.
func crashWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.config.Spec.Values = []bootstrapv1.ConfigValue{{Name: "token", SecretKeyRef: ref("values", "token")}, {Name: "site", ConfigMapKeyRef: ref("site", "site")}}
	w.config.Spec.Commands = []string{"join <% .Values.token %> <% .Values.site %>"}
	site := &corev1.ConfigMap{Data: map[string]string{"site": "here"}}
	site.Namespace, site.Name = w.namespace, "site"
	env.Create(t, labeledSecret(w.namespace, "values", map[string]string{"token": "secret-token"}), site)
	return w.create(t)
}

// TestCrashPoints: the reconciler ends at each of its writes, before and after the write. A new one ends as if nothing had happened: the data is rendered
// once, and a Secret that exists is not written again.
func TestCrashPoints(t *testing.T) {
	g := NewWithT(t)
	w := crashWorld(t)
	whole := &crash{at: -1}
	converge(t, w, whole)
	g.Expect(whole.names).To(Equal([]string{
		"patch status of *v1alpha1.BareMetalConfig", // not paused
		"patch *v1.PartialObjectMetadata", "patch *v1.PartialObjectMetadata", "create *v1.Secret", "patch status of *v1alpha1.BareMetalConfig",
	}))
	want := string(w.secret(t).Data["value"])
	for at, name := range whole.names {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d %s, before it %t", at, name, before), func(t *testing.T) {
				g, w := NewWithT(t), crashWorld(t)
				crashed := &crash{at: at, before: before}
				converge(t, w, crashed)
				g.Expect(crashed.over).To(BeTrue())
				var first corev1.Secret
				existed := env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.config), &first) == nil
				g.Expect(existed).To(Equal(at == 3 && !before || at > 3))
				converge(t, w, &crash{at: -1})
				g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.config), w.config)).To(Succeed())
				g.Expect(conditions.IsTrue(w.config, bootstrapv1.ReadyCondition)).To(BeTrue())
				g.Expect(conditions.IsFalse(w.config, clusterv1.PausedCondition)).To(BeTrue())
				g.Expect(w.config.Status.Initialization.DataSecretCreated).To(HaveValue(BeTrue()))
				after := w.secret(t)
				g.Expect(string(after.Data["value"])).To(Equal(want))
				if existed {
					g.Expect(after.ResourceVersion).To(Equal(first.ResourceVersion))
				}
			})
		}
	}
}

// TestTwoProcesses: two processes that lead at the same moment create one Secret, and both report it.
func TestTwoProcesses(t *testing.T) {
	g := NewWithT(t)
	w := crashWorld(t)
	first, second := &crash{at: -1}, &crash{at: 3, before: true} // the second has rendered, and has not created
	converge(t, w, second)
	converge(t, w, first)
	before := w.secret(t)
	s := &scope{config: w.config, machine: w.machine, cluster: w.cluster}
	err := (&Reconciler{Client: env.Client}).createSecret(t.Context(), s, []byte("of the second"))
	g.Expect(err).To(MatchError(ContainSubstring("already exists")))
	converge(t, w, &crash{at: -1})
	g.Expect(w.secret(t).ResourceVersion).To(Equal(before.ResourceVersion))
}

// TestRequestFailed: an error of the API server is a condition until the request succeeds. A conflict is not such an error.
func TestRequestFailed(t *testing.T) {
	g := NewWithT(t)
	w := crashWorld(t)
	inner, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	answers := []error{
		apierrors.NewConflict(schema.GroupResource{Resource: "secrets"}, "m", errors.New("changed")),
		apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "m", errors.New("a policy denies it")),
	}
	r := &Reconciler{Client: interceptor.NewClient(inner, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if len(answers) == 0 {
				return c.Create(ctx, o, opts...)
			}
			answer := answers[0]
			answers = answers[1:]
			return answer
		},
	})}
	reconcile := func() error {
		_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: w.namespace, Name: w.config.Name}})
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(w.config), w.config)).To(Succeed())
		return err
	}
	g.Expect(reconcile()).To(Succeed(), "the condition Paused")
	g.Expect(reconcile()).To(Succeed(), "the conflict")
	g.Expect(conditions.Get(w.config, bootstrapv1.ReadyCondition)).To(BeNil())
	g.Expect(reconcile()).To(MatchError(ContainSubstring("a policy denies it")), "the work queue repeats it")
	g.Expect(conditions.Get(w.config, bootstrapv1.ReadyCondition)).To(And(
		HaveField("Reason", bootstrapv1.ReasonRequestFailed), HaveField("Message", ContainSubstring("a policy denies it"))))
	w.noSecret(t)
	g.Expect(reconcile()).To(Succeed())
	w.expect(t, bootstrapv1.ReasonDataSecretCreated)
}
