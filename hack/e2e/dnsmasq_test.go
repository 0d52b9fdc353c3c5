package e2e_test

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// startDnsmasq starts a dnsmasq on a separate machine, which gives addresses on the network and does not support network boot. It returns
// the addresses that it gives.
func startDnsmasq(t *testing.T, w *segment) (first, last netip.Addr) {
	t.Helper()
	first, last = w.at(100), w.at(200)
	machine := newNamespace(t, leg{w, netip.PrefixFrom(w.at(2), w.prefix.Bits())})
	startInside(t, machine, "dnsmasq", "/usr/sbin/dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--port=0",
		"--log-facility=-", "--log-dhcp", "--pid-file", "--dhcp-authoritative", "--dhcp-leasefile="+filepath.Join(t.TempDir(), "leases"),
		fmt.Sprintf("--dhcp-range=%s,%s,1h", first, last))
	return first, last
}

// startInside starts a program in a namespace. It ends with the test.
func startInside(t *testing.T, n *namespace, name string, command ...string) {
	t.Helper()
	folder := t.TempDir()
	command = n.enter(command...)
	p, err := proc.Start(context.WithoutCancel(t.Context()), folder, name, nil, command[0], command[1:]...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "hack/e2e.sh installs it")
	t.Cleanup(func() {
		p.Stop()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", name, tail(filepath.Join(folder, name+".log"), 40))
		}
	})
}
