package provider

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// interfaces are the addresses of a machine, which change.
type interfaces struct {
	local []netip.Prefix
	err   error
}

func (i *interfaces) set(addresses ...string) {
	i.local = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/8"), netip.MustParsePrefix("::1/128")}
	for _, a := range addresses {
		i.local = append(i.local, netip.MustParsePrefix(a))
	}
}

// watchOf returns a watch of the addresses of networks on a machine, its events, and its log.
func watchOf(addresses ...string) (w *addressWatch, machine *interfaces, recorded *events.FakeRecorder, log *[]string) {
	machine, recorded, log = &interfaces{}, events.NewFakeRecorder(10), new([]string)
	machine.set()
	w = &addressWatch{
		local: func() ([]netip.Prefix, error) { return machine.local, machine.err }, node: "mgmt-2", recorder: recorded,
		pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "capbm-system", Name: "capbm-boot-x"}},
		log: funcr.New(func(_, args string) { *log = append(*log, args) }, funcr.Options{}),
	}
	for _, a := range addresses {
		w.networks = append(w.networks, bootconfig.Network{Address: netip.MustParseAddr(a)})
	}
	return w, machine, recorded, log
}

// TestAddressMoves: the boot server is ready while all its addresses are on interfaces. An address may come and go.
func TestAddressMoves(t *testing.T) {
	g := NewWithT(t)
	w, machine, recorded, log := watchOf("127.0.82.1", "192.0.2.5", "2001:db8::5")
	g.Expect(w.Ready(nil)).To(MatchError("192.0.2.5, 2001:db8::5 are on no interface of node mgmt-2: set CAPBM_NODE_SELECTOR to the node that has it, " +
		"or CAPBM_BOOT_ADDRESS (in a custom boot configuration: `address`) to an address of this node"))
	machine.set("192.0.2.5/24", "2001:db8::5/64")
	g.Expect(w.Ready(nil)).To(Succeed())
	start := time.Now()
	state := w.report(reportedAddresses{}, start)
	g.Expect(*log).To(BeEmpty(), "nothing to report")
	g.Expect(recorded.Events).To(BeEmpty())

	machine.set("2001:db8::5/64")
	g.Expect(w.Ready(nil)).To(MatchError(HavePrefix("192.0.2.5 is on no interface of node mgmt-2: ")))
	for after := time.Duration(0); after < addressEventInterval; after += addressInterval {
		state = w.report(state, start.Add(after))
	}
	g.Expect(*log).To(HaveLen(1), "once, not for each probe")
	g.Expect((*log)[0]).To(ContainSubstring("192.0.2.5 is on no interface"))
	g.Expect(recorded.Events).To(HaveLen(1))
	g.Expect(<-recorded.Events).To(HavePrefix("Warning BootAddressMissing 192.0.2.5 is on no interface of node mgmt-2: set CAPBM_NODE_SELECTOR"))
	state = w.report(state, start.Add(addressEventInterval))
	g.Expect(recorded.Events).To(HaveLen(1), "again, before the API server forgets the first event")
	<-recorded.Events

	machine.set()
	state = w.report(state, start.Add(addressEventInterval))
	g.Expect(*log).To(HaveLen(2), "another address is missing")
	g.Expect(<-recorded.Events).To(ContainSubstring("192.0.2.5, 2001:db8::5 are on no interface"))

	machine.set("192.0.2.5/24", "2001:db8::5/64")
	g.Expect(w.Ready(nil)).To(Succeed(), "keepalived moved it here")
	state = w.report(state, start.Add(time.Hour))
	g.Expect(w.report(state, start.Add(2*time.Hour))).To(BeZero())
	g.Expect(*log).To(HaveLen(3))
	g.Expect((*log)[2]).To(ContainSubstring("on interfaces of this machine again"))
	g.Expect(recorded.Events).To(BeEmpty())
}

// TestAddressesUnknown: addresses that cannot be read do not make the boot server not ready.
func TestAddressesUnknown(t *testing.T) {
	w, machine, _, _ := watchOf("192.0.2.5")
	machine.err = errors.New("netlink: operation not permitted")
	NewWithT(t).Expect(w.Ready(nil)).To(Succeed())
}

// TestAddressOutsideCluster: outside of a cluster there are no variables, and no Pod that an event could be about.
func TestAddressOutsideCluster(t *testing.T) {
	g := NewWithT(t)
	w, _, recorded, _ := watchOf("192.0.2.5")
	w.node, w.pod = "", nil
	w.report(reportedAddresses{}, time.Now())
	g.Expect(recorded.Events).To(BeEmpty())
	g.Expect(w.Ready(nil)).To(MatchError(And(HavePrefix("192.0.2.5 is on no interface of this machine: "), Not(ContainSubstring("CAPBM")))))
}

// TestReasons: the answer of /readyz has the reason of each failure.
func TestReasons(t *testing.T) {
	g := NewWithT(t)
	checks := map[string]healthz.Checker{"ping": healthz.Ping}
	get := func() *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		serveChecks(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil), checks)
		return w
	}
	g.Expect(get().Code).To(Equal(http.StatusOK))
	g.Expect(get().Body.String()).To(Equal("[+]ping ok\n"))
	g.Expect(add(checks, "boot", func(*http.Request) error { return errors.New("it does not listen") })).To(Succeed())
	g.Expect(add(checks, "boot", healthz.Ping)).NotTo(Succeed())
	g.Expect(get().Code).To(Equal(http.StatusInternalServerError))
	g.Expect(get().Body.String()).To(Equal("[-]boot failed: it does not listen\n[+]ping ok\n"))
}
