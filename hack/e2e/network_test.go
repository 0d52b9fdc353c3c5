package e2e_test

import (
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// The provisioning network: a bridge with the boot server's address, and a tap for the server that boots.
const (
	bridge = "br0"
	tap    = "tap0"
)

var (
	network       = netip.MustParsePrefix("10.77.0.0/24")
	bootAddress   = netip.MustParseAddr("10.77.0.1")
	hostAddress   = netip.MustParseAddr("10.77.0.50")
	routerAddress = netip.MustParseAddr("fe80::1")
	localAddress  = netip.MustParseAddr("127.0.0.1")
)

// makeNetwork makes the provisioning network in the namespace that TestMain made. It is gone with the namespace.
func makeNetwork(t *testing.T) {
	t.Helper()
	for _, args := range []string{
		"link set lo up",
		"link add " + bridge + " type bridge",
		"address add " + netip.PrefixFrom(bootAddress, network.Bits()).String() + " dev " + bridge,
		// The router's address must be usable at once: one that the kernel chooses is first probed for.
		"link set " + bridge + " addrgenmode none",
		"link set " + bridge + " up",
		"address add " + routerAddress.String() + "/64 dev " + bridge + " nodad",
		"tuntap add " + tap + " mode tap",
		"link set " + tap + " master " + bridge + " up",
	} {
		run(t, "ip", strings.Fields(args)...)
	}
}

// run runs a program, and returns what it says. What is missing is an error of the test: hack/firmware.sh installs it.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s %s: %s (hack/firmware.sh installs what is needed)", program, strings.Join(args, " "), out)
	return string(out)
}
