package machine_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
)

// slowClaimer is a process that led until a moment ago: its write of the claim arrives when deliver is closed.
type slowClaimer struct {
	deliver chan struct{}
	written chan string // the host whose claim is delayed
	outcome chan error
}

// startSlowClaimer starts the controller with a client that delays writes to hosts.
func startSlowClaimer(t *testing.T) *slowClaimer {
	t.Helper()
	s := &slowClaimer{deliver: make(chan struct{}), written: make(chan string, 1), outcome: make(chan error, 1)}
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		c, err := client.NewWithWatch(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
		if err != nil {
			return err
		}
		slow := interceptor.NewClient(c, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				if _, ok := o.(*v1alpha1.BareMetalHost); !ok {
					return c.Patch(ctx, o, p, opts...)
				}
				s.written <- o.GetName()
				select {
				case <-s.deliver:
				case <-ctx.Done():
					return ctx.Err()
				}
				err := c.Patch(ctx, o, p, opts...)
				s.outcome <- err
				return err
			},
		})
		return (&machine.Reconciler{Client: slow, APIReader: mgr.GetAPIReader()}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 1})
	})
	return s
}

// consumers returns the names of the hosts that a machine has.
func consumers(t *testing.T, namespace, machine string) []string {
	t.Helper()
	var hosts v1alpha1.BareMetalHostList
	NewWithT(t).Expect(env.Client.List(t.Context(), &hosts, client.InNamespace(namespace))).To(Succeed())
	var names []string
	for _, h := range hosts.Items {
		if ref := h.Spec.ConsumerRef; ref != nil && ref.Name == machine {
			names = append(names, h.Name)
		}
	}
	return names
}

// TestFailover: the claim of a former leader is delayed while another process leads. Now another host is the better choice. Without the record of the
// first choice the new leader would claim that one, and the machine would have two hosts.
func TestFailover(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	newHost(t, namespace, "h-1", 1, nil)
	before := startSlowClaimer(t)
	claim := env.NewClaim(t, namespace, "m")
	var first string
	g.Eventually(before.written).Should(Receive(&first))
	g.Expect(first).To(Equal("h-1"))
	newHost(t, namespace, "h-0", 2, nil) // by its name it comes first

	start(t)
	wait(t, claim, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Status.HostRef).To(HaveValue(HaveField("Name", "h-1")))
	})
	close(before.deliver)
	var err error
	g.Eventually(before.outcome).Should(Receive(&err))
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	g.Expect(consumers(t, namespace, "m")).To(ConsistOf("h-1"))
}

// TestFailoverInDeletion: a machine is deleted while the claim of a former leader is delayed. It remains until that host was released, so that a new
// machine of the same name does not get it as a second host.
func TestFailoverInDeletion(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	h := newHost(t, namespace, "h-1", 1, nil)
	before := startSlowClaimer(t)
	claim := env.NewClaim(t, namespace, "m")
	g.Eventually(before.written).Should(Receive())
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())

	start(t)
	wait(t, claim, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonWaitingForRelease))
	g.Expect(consumers(t, namespace, "m")).To(ConsistOf("h-1"))
	controllerstest.Modify(t, env, h, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }) // as the host controller does
	close(before.deliver)
	var err error
	g.Eventually(before.outcome).Should(Receive(&err))
	g.Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)
	env.Gone(t, claim.BareMetalMachine)
	g.Expect(consumers(t, namespace, "m")).To(BeEmpty())
}
