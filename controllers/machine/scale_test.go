package machine_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
)

// sizeClass is a size of hosts, with as many machines that need that size. Every host is needed: a machine that takes a larger one leaves another
// machine without a host.
type sizeClass struct {
	hosts  int
	memory int64 // GiB
}

// claims counts the results of claims.
type claims struct{ won, conflicts atomic.Int32 }

// counting returns the manager's client, which counts every claim.
func counting(t *testing.T, mgr ctrl.Manager, n *claims) client.Client {
	t.Helper()
	c, err := client.NewWithWatch(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return interceptor.NewClient(c, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			err := c.Patch(ctx, o, p, opts...)
			if _, ok := o.(*v1alpha1.BareMetalHost); ok {
				switch {
				case err == nil:
					n.won.Add(1)
				case apierrors.IsConflict(err):
					n.conflicts.Add(1)
				}
			}
			return err
		},
	})
}

// inParallel calls f for each number below n.
func inParallel(n int, f func(int)) {
	var wg sync.WaitGroup
	var next atomic.Int32
	for range 16 {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}

// TestManyClaims: 16 workers claim 200 hosts for 200 machines with nested requirements: only the largest hosts fit the largest machines. No host
// gets two machines, no machine two hosts, every machine gets one, and conflicts are rare. It runs only the claim phase, from the cache;
// TestConcurrentClaims runs whole reconciles.
func TestManyClaims(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	began := time.Now()
	machines := register(t, namespace, []sizeClass{{100, 16}, {50, 64}, {30, 256}, {20, 1024}})
	registered := time.Now()

	var n claims
	r := &machine.Reconciler{}
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		r.Client, r.APIReader = counting(t, mgr, &n), mgr.GetAPIReader()
		return r.WatchHosts(ctx, mgr)
	})
	g.Eventually(func() int { return r.FreeHosts(namespace) }, time.Minute, 100*time.Millisecond).Should(Equal(len(machines)))
	synced := time.Now()
	serve(t, r, machines)
	t.Logf("%d machines: hosts registered in %s, all served in %s; %d claims won, %d conflicts", len(machines),
		registered.Sub(began).Round(time.Millisecond), time.Since(synced).Round(time.Millisecond), n.won.Load(), n.conflicts.Load())

	var hosts v1alpha1.BareMetalHostList
	g.Expect(env.Client.List(t.Context(), &hosts, client.InNamespace(namespace))).To(Succeed())
	got := map[string]string{}
	for _, h := range hosts.Items {
		g.Expect(h.Spec.ConsumerRef).NotTo(BeNil(), "host %s is free", h.Name)
		g.Expect(got).NotTo(HaveKey(h.Spec.ConsumerRef.Name), "it has two hosts")
		got[h.Spec.ConsumerRef.Name] = h.Name
	}
	g.Expect(got).To(HaveLen(len(machines)))
	for _, m := range machines {
		g.Expect(m.Status.HostRef).To(HaveValue(HaveField("Name", got[m.Name])))
	}
	g.Expect(n.won.Load()).To(BeEquivalentTo(len(machines)), "each machine claims once")
	g.Expect(n.conflicts.Load()).To(BeNumerically("<=", len(machines)/10))
}

// serve claims a host for each machine, with 16 workers. A machine that gets none goes to the end of the queue, as after a conflict.
func serve(t *testing.T, r *machine.Reconciler, machines []*v1alpha1.BareMetalMachine) {
	t.Helper()
	const maxTries = 20 // per machine
	type try struct {
		m      *v1alpha1.BareMetalMachine
		number int
	}
	queue := make(chan try, len(machines))
	for _, m := range machines {
		queue <- try{m, 1}
	}
	var open sync.WaitGroup
	open.Add(len(machines))
	for range 16 {
		go func() {
			for next := range queue {
				err := r.ClaimFor(t.Context(), next.m, &clusterv1.Machine{})
				switch {
				case next.m.Status.HostRef != nil:
					open.Done()
				case next.number == maxTries || err != nil && !apierrors.IsConflict(err):
					t.Errorf("%s after %d tries: %v, %s", next.m.Name, next.number, err, conditions.GetMessage(next.m, v1alpha1.HostClaimedCondition))
					open.Done()
				default:
					queue <- try{next.m, next.number + 1}
				}
			}
		}()
	}
	open.Wait()
	close(queue)
}

// register creates the hosts of all size classes as the host controller leaves them, and returns a machine for each, in mixed order.
func register(t *testing.T, namespace string, rungs []sizeClass) []*v1alpha1.BareMetalMachine {
	t.Helper()
	g := NewWithT(t)
	var sizes []sizeClass
	for _, r := range rungs {
		for range r.hosts {
			sizes = append(sizes, r)
		}
	}
	machines := make([]*v1alpha1.BareMetalMachine, len(sizes))
	errs := make(chan error, 3*len(sizes))
	inParallel(len(sizes), func(i int) {
		h := &v1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("h-%04d", i*7%len(sizes))},
			Spec: v1alpha1.BareMetalHostSpec{
				BMC:              v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"},
				BootMACAddresses: []string{fmt.Sprintf("52:54:00:01:%02x:%02x", i>>8, i&255)}, FailureDomain: fmt.Sprintf("rack-%d", i%20),
			},
		}
		errs <- env.Client.Create(t.Context(), h)
		h.Status.Hardware = &v1alpha1.Hardware{Memory: *resource.NewQuantity(sizes[i].memory<<30, resource.BinarySI)}
		for _, kind := range []string{v1alpha1.VerifiedCondition, v1alpha1.AvailableCondition} {
			h.Status.Conditions = append(h.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, LastTransitionTime: metav1.Now()})
		}
		errs <- env.Client.Status().Update(t.Context(), h)
		machines[i*13%len(sizes)] = &v1alpha1.BareMetalMachine{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("m-%04d", i)},
			Spec: v1alpha1.BareMetalMachineSpec{
				Hardware: v1alpha1.HardwareRequirements{Memory: resource.NewQuantity(sizes[i].memory<<30, resource.BinarySI)},
				Boot:     v1alpha1.BootSource{IPXETemplate: "#!ipxe\n", Persistence: v1alpha1.PersistenceInstalled},
			},
		}
		errs <- env.Client.Create(t.Context(), machines[i*13%len(sizes)])
	})
	close(errs)
	for err := range errs {
		g.Expect(err).NotTo(HaveOccurred())
	}
	return machines
}

// TestEventBatching: machines without a fitting host are not reconciled for each host that registers, nor written for each changed count. A machine
// with a fitting host gets it soon.
func TestEventBatching(t *testing.T) {
	const waiting, rack = 10, 60
	g := NewWithT(t)
	var written, scans atomic.Int32
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		c, err := client.NewWithWatch(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), Cache: &client.CacheOptions{Reader: mgr.GetCache()}})
		if err != nil {
			return err
		}
		counted := interceptor.NewClient(c, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				which := (&client.ListOptions{}).ApplyOptions(opts).FieldSelector
				if _, ok := list.(*v1alpha1.BareMetalHostList); ok && which == nil {
					scans.Add(1)
				}
				return c.List(ctx, list, opts...)
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				written.Add(1)
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			},
		})
		return (&machine.Reconciler{Client: counted, APIReader: mgr.GetAPIReader()}).SetupWithManager(ctx, mgr, controller.Options{MaxConcurrentReconciles: 4})
	})
	namespace := env.Namespace(t)
	newHost(t, namespace, "other", 200, nil)
	for i := range waiting {
		c := env.NewClaim(t, namespace, fmt.Sprintf("m-%d", i), func(c *controllerstest.Claim) {
			c.BareMetalMachine.Spec.HostSelector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"disk": "nvme"}}
		})
		wait(t, c, reason(v1alpha1.ReadyCondition, v1alpha1.ReasonNoHostFits))
	}
	began, writtenBefore, scansBefore := time.Now(), written.Load(), scans.Load()
	for i := range rack {
		newHost(t, namespace, fmt.Sprintf("h-%02d", i), i, nil)
	}
	wait(t, env.NewClaim(t, namespace, "shows-that-the-hosts-were-seen"), func(g Gomega, m *v1alpha1.BareMetalMachine) { g.Expect(m.Status.HostRef).NotTo(BeNil()) })
	// Each machine is diagnosed after 1, 2, 4 ... seconds. Its own write enqueues it once more, which reads only the free hosts.
	tellings := 2
	for gap := time.Second; gap < time.Since(began); gap *= 2 {
		tellings++
	}
	t.Logf("%d hosts in %s: %d writes of %d machines, %d looks", rack, time.Since(began).Round(time.Millisecond), written.Load()-writtenBefore, waiting, scans.Load()-scansBefore)
	const otherReads = 20 // of the machine that gets a host
	g.Expect(written.Load() - writtenBefore).To(BeNumerically("<=", waiting*tellings+otherReads))
	g.Expect(scans.Load() - scansBefore).To(BeNumerically("<=", 3*waiting*tellings+otherReads))

	served := time.Now()
	newHost(t, namespace, "nvme", 201, map[string]string{"disk": "nvme"})
	g.Eventually(func(g Gomega) {
		var h v1alpha1.BareMetalHost
		g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "nvme"}, &h)).To(Succeed())
		g.Expect(h.Spec.ConsumerRef).NotTo(BeNil())
	}, 30*time.Second, 20*time.Millisecond).Should(Succeed())
	t.Logf("a host that fits was claimed after %s", time.Since(served).Round(time.Millisecond))
}
