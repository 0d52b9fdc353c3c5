package host_test

import (
	"net/netip"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// TestTenants: the configuration does not permit a namespace the MAC address or BMC of a host. The BMC gets no requests, the host is not available, and
// other hosts may use the MAC address and BMC, even if that host is older.
func TestTenants(t *testing.T) {
	g := NewWithT(t)
	owner, other := env.Namespace(t), env.Namespace(t)
	own := controllerstest.NewServer(t, owner, "own", bmctest.Options{})
	taker := controllerstest.NewServer(t, other, "taker", bmctest.Options{})
	defer startReconciler(t, &host.Reconciler{Settings: controllerstest.Settings(), Clock: &shiftedClock{}, Tenants: bootconfig.Tenants{
		{Namespaces: []string{owner}, MACPrefixes: []string{"52:54:00"}, BMCNetworks: []netip.Prefix{netip.MustParsePrefix(own.BMCIP + "/32")}},
		{Namespaces: []string{"*"}, MACPrefixes: []string{"02:00:00"}},
	}})()
	taker.Host.Spec.BootMACAddresses = []string{own.Host.Spec.BootMACAddresses[0]}
	register(t, taker)
	wait(t, taker, conflict(v1alpha1.ReasonNotPermitted, "only addresses that begin with 02:00:00"))
	register(t, own)
	wait(t, own, phase(v1alpha1.PhaseAvailable))
	elsewhere := controllerstest.NewServer(t, owner, "elsewhere", bmctest.Options{})
	register(t, elsewhere)
	wait(t, elsewhere, conflict(v1alpha1.ReasonNotPermitted, "has the IP address "+elsewhere.BMCIP))
	wait(t, elsewhere, reason(v1alpha1.BMCReadyCondition, v1alpha1.ReasonNotPermitted))
	g.Expect(taker.Requests()).To(BeZero(), "its BMC is not asked")
	g.Expect(elsewhere.Requests()).To(BeZero(), "its BMC is not asked")

	controllerstest.Modify(t, env, taker.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddresses = []string{"02:00:00:00:00:b5"} })
	wait(t, taker, phase(v1alpha1.PhaseAvailable))
}
