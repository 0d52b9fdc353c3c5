package host_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
)

// behindCache is a cache that is minutes old: it does not show a change.
type behindCache struct {
	client.Client

	hide func(client.Object)
}

func (c behindCache) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	err := c.Client.Get(ctx, key, o, opts...)
	if err == nil {
		c.hide(o)
	}
	return err
}

// hostReads counts the reads of hosts from the API server.
type hostReads struct {
	client.Reader

	count atomic.Int32
}

func (r *hostReads) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*v1alpha1.BareMetalHost); ok {
		r.count.Add(1)
	}
	return r.Reader.Get(ctx, key, o, opts...)
}

// TestCommandsAreLive: a command that the cache asks for is not given if the API server shows that it must not be: a technician has set maintenance, or the boot is void.
func TestCommandsAreLive(t *testing.T) {
	now := metav1.Now()
	for name, c := range map[string]struct {
		prepare func(*testing.T, *controllerstest.Server)
		hide    func(client.Object)
	}{
		"maintenance": {func(_ *testing.T, s *controllerstest.Server) {
			s.Host.Spec.Power, s.Host.Spec.Maintenance = v1alpha1.PowerOn, &v1alpha1.Maintenance{Reason: "anna replaces a fan"}
		}, func(o client.Object) {
			if h, ok := o.(*v1alpha1.BareMetalHost); ok {
				h.Spec.Maintenance = nil
			}
		}},
		"the boot is void": {func(t *testing.T, s *controllerstest.Server) {
			t.Helper()
			env.NewClaim(t, s.Host.Namespace, "m")
			s.Host.Spec.ConsumerRef, s.Host.Spec.ProviderState.Boots = controllerstest.Claimed("m"), 1
			env.Create(t, &v1alpha1.BareMetalBoot{
				ObjectMeta: metav1.ObjectMeta{Namespace: s.Host.Namespace, Name: s.Host.Name}, Spec: v1alpha1.BareMetalBootSpec{
					Number: 1, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: s.Host.Spec.ConsumerRef.ClaimID, MachineName: "m", StartTime: now,
					PoweredOffTime: &now, VoidedTime: &now,
				},
			})
		}, func(o client.Object) {
			if b, ok := o.(*v1alpha1.BareMetalBoot); ok {
				b.Spec.VoidedTime = nil
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: (&redfish.Driver{Permit: bmctest.Loopback}).Driver()}, bmc.PoolOptions{})
			defer pool.Close()
			reads := &hostReads{}
			stop := env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
				reads.Reader = mgr.GetAPIReader()
				return (&host.Reconciler{
					Client: behindCache{mgr.GetClient(), c.hide}, APIReader: reads, Pool: pool, Settings: controllerstest.Settings(),
				}).SetupWithManager(ctx, mgr, controller.Options{})
			})
			defer stop()
			server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
			c.prepare(t, server)
			register(t, server)
			g.Eventually(reads.count.Load, 30*time.Second).Should(BeNumerically(">", 0), "a command is confirmed")
			g.Consistently(server.CommandNames, 2*time.Second, 50*time.Millisecond).Should(BeEmpty())
		})
	}
}
