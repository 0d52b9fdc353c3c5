package e2e_test

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/peertest"
)

// control is what ipmi_sim runs to switch a server, as a rack's wiring would. Its placeholder is the folder of the server.
const control = `#!/bin/sh
cd '%s' || exit 1
if [ "$1" = status ]; then cat power; else echo "$@" >commands; fi
`

// testIPMISim boots a server whose BMC is OpenIPMI's ipmi_sim, which knows of it by a program only.
func testIPMISim(t *testing.T, s *site) {
	t.Helper()
	m := bios()
	c := m.build(t, s.hosts, nextMAC())
	sim := peertest.StartIPMISim(t, cable(t, c))
	r := s.enlist("ipmi", c.mac, m.mode(), sim.Subject.Endpoint)
	r.console = c.console
	r.register(t)
	r.boot(t)
	r.awaitProvisioned(t, bootTimeout, "iPXE, Intel x86PC", stages...)
	NewWithT(t).Expect(r.host.Status.BMC.Protocol).To(HavePrefix("IPMI 2.0"))
	r.release(t)
}

// cable creates the program that switches the server. The test executes its commands.
func cable(t *testing.T, c *chassis) string {
	t.Helper()
	g := NewWithT(t)
	program := c.file("control")
	g.Expect(os.WriteFile(program, fmt.Appendf(nil, control, c.folder), 0o700)).To(Succeed())
	g.Expect(os.WriteFile(c.file("power"), []byte("0\n"), 0o600)).To(Succeed())
	g.Expect(syscall.Mkfifo(c.file("commands"), 0o600)).To(Succeed())
	// Open for writing too: without a writer it would have no end.
	pipe, err := os.OpenFile(c.file("commands"), os.O_RDWR, 0)
	g.Expect(err).NotTo(HaveOccurred())
	var done sync.WaitGroup
	done.Go(func() {
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			state := "0\n"
			if device, on := strings.CutPrefix(lines.Text(), "on "); on {
				if _, err := c.on(device == "pxe"); err != nil {
					t.Errorf("start QEMU: %v", err)
				}
				state = "1\n"
			} else {
				c.off()
			}
			if err := os.WriteFile(c.file("power"), []byte(state), 0o600); err != nil {
				t.Errorf("tell the power: %v", err)
			}
		}
	})
	t.Cleanup(func() {
		_ = pipe.Close()
		done.Wait()
	})
	return program
}
