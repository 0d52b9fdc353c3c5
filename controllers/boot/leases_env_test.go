package boot_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// bootServer starts a manager with a Booter that has its own cache.
func bootServer(t *testing.T, namespace string) (booter *boot.Booter, stop func()) {
	t.Helper()
	stop = env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		booter = boot.New(&boot.Booter{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Namespace: namespace, Recorder: mgr.GetEventRecorder("capbm-boot"), Log: logr.Discard(),
		})
		return boot.IndexLeases(ctx, mgr.GetFieldIndexer())
	})
	return booter, stop
}

// TestLeases: several boot servers lease addresses to many servers at once. Each server gets its own address, and the same one after a restart.
func TestLeases(t *testing.T) {
	g := NewWithT(t)
	namespace := env.Namespace(t)
	const hosts, asking = 20, 3
	p := pxe.Pool{Network: "rack-1", Prefix: netip.MustParsePrefix("198.51.100.0/24"), Ranges: []pxe.Range{
		{First: netip.MustParseAddr("198.51.100.10"), Last: netip.MustParseAddr("198.51.100.34")},
	}}
	macs := make([]net.HardwareAddr, hosts)
	for i := range macs {
		macs[i] = net.HardwareAddr{0x52, 0x54, 0, 0x99, 0, byte(i)}
		h := &v1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("h", i)},
			Spec: v1alpha1.BareMetalHostSpec{
				BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "bmc"}, BootMACAddresses: []string{macs[i].String()},
			},
		}
		env.Create(t, h)
		t.Cleanup(func() { g.Expect(env.Client.Delete(context.Background(), h)).To(Succeed()) })
	}
	var mu sync.Mutex
	given := map[string]string{} // MAC addresses by addresses
	ask := func(booter *boot.Booter, mac net.HardwareAddr) {
		g.Eventually(func(g Gomega) {
			lease, err := booter.Lease(t.Context(), pxe.LeaseRequest{MAC: mac, Pool: p})
			g.Expect(err).NotTo(HaveOccurred()) // the cache may not know the host yet
			mu.Lock()
			defer mu.Unlock()
			g.Expect(given).To(Or(Not(HaveKey(lease.Address.String())), HaveKeyWithValue(lease.Address.String(), mac.String())))
			given[lease.Address.String()] = mac.String()
		}, "30s").Should(Succeed())
	}
	var wg sync.WaitGroup
	var stops []func()
	for range asking {
		booter, stop := bootServer(t, namespace)
		stops = append(stops, stop)
		for _, mac := range macs {
			wg.Go(func() { ask(booter, mac) })
		}
	}
	wg.Wait()
	g.Expect(given).To(HaveLen(hosts), "each server got one address, whichever boot server it asked")
	for _, stop := range stops {
		stop()
	}
	booter, _ := bootServer(t, namespace)
	for _, mac := range macs {
		ask(booter, mac)
	}
	g.Expect(given).To(HaveLen(hosts))
	var leases coordinationv1.LeaseList
	g.Expect(env.Client.List(t.Context(), &leases, client.InNamespace(namespace), client.MatchingLabels{boot.NetworkLabel: "rack-1"})).To(Succeed())
	g.Expect(leases.Items).To(HaveLen(hosts))

	for address, mac := range given {
		if mac != macs[0].String() {
			continue
		}
		g.Expect(booter.Decline(t.Context(), macs[0], netip.MustParseAddr(address))).To(Succeed())
		g.Eventually(func(g Gomega) {
			var all eventsv1.EventList
			g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
			g.Expect(all.Items).To(HaveLen(1))
			e := all.Items[0]
			g.Expect([]string{e.Regarding.Name, e.Type, e.Reason}).To(Equal([]string{"h0", corev1.EventTypeWarning, v1alpha1.ReasonAddressConflict}))
			g.Expect(e.Note).To(ContainSubstring(address))
		}, "30s").Should(Succeed())
	}
}
