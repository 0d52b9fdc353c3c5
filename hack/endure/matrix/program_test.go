package matrix

import (
	"context"
	"fmt"
	"net/netip"
	"os/exec"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// startProgram starts kube-controller-manager with the controller of namespaces alone. It ends with the test.
func startProgram(t *testing.T, program, kubeconfig string) {
	t.Helper()
	g := NewWithT(t)
	port, err := pxetest.FreePort(netip.MustParseAddr("127.0.0.1"))
	g.Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(context.Background(), program,
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--leader-elect=false", "--controllers=namespace-controller",
	)
	g.Expect(cmd.Start()).To(Succeed())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}
