// Package e2e_test boots real firmware in QEMU: from power-on through the boot loader to a Linux that fetches its seed and
// reports in, with our boot server as the only DHCP, TFTP and HTTP server on the wire. It needs root, and what hack/firmware.sh
// installs; it fails where either is missing.
package e2e_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// inside is set in the environment of the process that has a network namespace of its own.
const inside = "E2E_INSIDE"

// TestMain runs the tests in a process with a network of its own. The namespace has no name and belongs to that process, so it
// is gone with it, however it ends, and no other run can meet it.
func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	os.Exit(runInside())
}

func runInside() int {
	if os.Geteuid() != 0 {
		fmt.Fprintln(os.Stderr, "e2e: run as root: the tests make a network namespace and listen on the ports 67 and 69")
		return 1
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	child := exec.Command(self, os.Args[1:]...) //nolint:noctx // it has its own deadline, -test.timeout
	child.Env = append(os.Environ(), inside+"=1")
	child.Stdout, child.Stderr = os.Stdout, os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err = child.Run()
	if exit := (&exec.ExitError{}); errors.As(err, &exit) {
		return max(exit.ExitCode(), 1)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e: start the tests in a network namespace:", err)
		return 1
	}
	return 0
}

// TestBoot boots each kind of firmware from power-on to the report.
func TestBoot(t *testing.T) {
	image := makeImage(t)
	makeNetwork(t)
	for _, c := range []struct {
		name    string
		machine machine
		// stages are what must be seen, in this order, each within so many seconds of power-on: three times what a quiet machine
		// takes.
		stages []deadline
		// client is what the DHCP server must have taken the firmware for: the proof that it went the way that it should.
		client string
	}{
		{
			name: "BIOS PXE by iPXE in ROM", machine: bios, client: "iPXE, Intel x86PC",
			stages: []deadline{{stageDHCP, 7}, {stageScript, 11}, {stageKernel, 11}, {stageSeed, 20}, {stageReport, 20}},
		},
		{
			name: "BIOS PXE", machine: plainBIOS, client: "PXE, Intel x86PC",
			stages: []deadline{{stageDHCP, 7}, {stageLoader, 8}, {stageScript, 16}, {stageKernel, 16}, {stageSeed, 27}, {stageReport, 27}},
		},
		{
			name: "UEFI PXE", machine: uefi(), client: "PXE, EFI x86-64",
			stages: []deadline{{stageDHCP, 10}, {stageLoader, 28}, {stageScript, 28}, {stageKernel, 31}, {stageSeed, 40}, {stageReport, 41}},
		},
		{
			name: "UEFI HTTP boot", machine: uefi(httpOnly...), client: "UEFI HTTP boot, EFI x86-64 boot from HTTP",
			stages: []deadline{{stageDHCP, 11}, {stageLoader, 29}, {stageScript, 29}, {stageKernel, 32}, {stageSeed, 41}, {stageReport, 42}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, image)
			advertise(t)
			power := time.Now()
			m := c.machine.start(t)
			for _, d := range c.stages {
				w.await(t, m, d, power)
			}
			g := NewWithT(t)
			g.Expect(w.first(stageDHCP).client).To(Equal(c.client))
			g.Eventually(m.exited, "10s").Should(BeClosed(), "the guest switches itself off")
			g.Expect(m.consoleText()).To(ContainSubstring("e2e: I am " + w.Data.InstanceID))
			g.Expect(w.Failures()).To(BeEmpty())
		})
	}
}

// root is the folder of the repository.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return dir
}
