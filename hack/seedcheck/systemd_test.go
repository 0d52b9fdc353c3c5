package seedcheck

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	. "github.com/onsi/gomega"
)

// manager is a user instance of the real systemd, which runs the units of one test.
type manager struct {
	s       *system
	runtime string
	units   string
}

// manager starts a systemd for this system, whose script then finds it as "systemctl". systemd refuses to start as a user instance on a machine that was not
// booted with systemd: it has a /run of its own, in a mount namespace.
func (s *system) manager() *manager {
	s.t.Helper()
	g := NewWithT(s.t)
	m := &manager{s: s, runtime: s.t.TempDir(), units: filepath.Join(s.dir, "home/.config/systemd/user")}
	g.Expect(os.MkdirAll(m.units, 0o700)).To(Succeed())
	log := filepath.Join(s.dir, "systemd.log")
	output, err := os.Create(log)
	g.Expect(err).NotTo(HaveOccurred())
	systemd := exec.CommandContext(s.t.Context(), "/usr/bin/unshare", "--mount", "/bin/sh", "-c",
		"mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec "+filepath.Join(root, "lib/systemd/systemd")+" --user")
	systemd.Env, systemd.Stdout, systemd.Stderr = m.environment(), output, output
	systemd.Cancel = func() error { return systemd.Process.Signal(syscall.SIGTERM) }
	systemd.WaitDelay = 10 * time.Second
	g.Expect(systemd.Start()).To(Succeed())
	s.t.Cleanup(func() {
		_ = systemd.Wait()
		_ = output.Close()
	})
	wrapper := filepath.Join(s.dir, "bin/systemctl")
	write(s.t, wrapper, "#!/bin/sh\nexport '"+strings.Join(m.environment(), "' '")+"'\necho \"$1\" >>'"+filepath.Join(s.dir, "calls")+
		"'\nexec "+filepath.Join(root, "bin/systemctl")+" --user \"$@\"\n")
	g.Expect(os.Chmod(wrapper, 0o700)).To(Succeed())
	g.Eventually(func(g Gomega) {
		_, said, err := run(s.t, "", nil, wrapper, "show", "--property=Version")
		content, _ := os.ReadFile(log)
		g.Expect(err).NotTo(HaveOccurred(), said+string(content))
	}, "30s").Should(Succeed())
	return m
}

func (m *manager) environment() []string {
	libraries := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	return []string{
		"XDG_RUNTIME_DIR=" + m.runtime, "HOME=" + filepath.Join(m.s.dir, "home"), "PATH=/usr/bin:/bin", "LC_ALL=C",
		"LD_LIBRARY_PATH=" + libraries + ":" + libraries + "/systemd",
	}
}

// checks returns how often the script has asked for failed units.
func (m *manager) checks() int {
	m.s.t.Helper()
	calls, err := os.ReadFile(filepath.Join(m.s.dir, "calls"))
	NewWithT(m.s.t).Expect(err).NotTo(HaveOccurred())
	return strings.Count(string(calls), "is-failed\n")
}

// unit writes a oneshot unit.
func (m *manager) unit(name, command string) {
	write(m.s.t, filepath.Join(m.units, name), "[Service]\nType=oneshot\nExecStart="+command+"\n")
}

// start starts a unit and waits for its end.
func (m *manager) start(name string, succeeds bool) {
	m.s.t.Helper()
	_, said, err := run(m.s.t, "", nil, filepath.Join(m.s.dir, "bin/systemctl"), "start", name)
	NewWithT(m.s.t).Expect(err == nil).To(Equal(succeeds), said)
}
