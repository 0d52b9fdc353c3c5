package seedcheck

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
// booted with systemd: it has its own /run, in a mount namespace. It moves all processes of its cgroup to another one: it has its own cgroups.
func (s *system) manager() *manager {
	s.t.Helper()
	g := NewWithT(s.t)
	g.Expect(os.Geteuid()).To(BeZero(), "only root may start a systemd in a mount namespace of its own")
	m := &manager{s: s, runtime: s.t.TempDir(), units: filepath.Join(s.dir, "home/.config/systemd/user")}
	g.Expect(os.MkdirAll(m.units, 0o700)).To(Succeed())
	log := filepath.Join(s.dir, "systemd.log")
	output, err := os.Create(log)
	g.Expect(err).NotTo(HaveOccurred())
	before, err := os.ReadFile("/proc/self/cgroup")
	g.Expect(err).NotTo(HaveOccurred())
	var enter []string
	for _, cgroup := range s.cgroups(string(before)) {
		enter = append(enter, "echo $$ >"+cgroup+"/cgroup.procs && ")
	}
	instance := exec.CommandContext(s.t.Context(), "/usr/bin/unshare", "--mount", "/bin/sh", "-c", strings.Join(enter, "")+
		"mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec "+filepath.Join(root, systemd)+" --user")
	instance.Env, instance.Stdout, instance.Stderr = m.environment(), output, output
	instance.Cancel = func() error { return instance.Process.Signal(syscall.SIGTERM) }
	instance.WaitDelay = 10 * time.Second
	g.Expect(instance.Start()).To(Succeed())
	s.t.Cleanup(func() {
		_ = instance.Wait()
		_ = output.Close()
	})
	wrapper := filepath.Join(s.dir, "bin/systemctl")
	write(s.t, wrapper, "#!/bin/sh\nexport '"+strings.Join(m.environment(), "' '")+"'\necho \"$1\" >>'"+filepath.Join(s.dir, "calls")+
		"'\nexec "+filepath.Join(root, systemctl)+" --user \"$@\"\n")
	g.Expect(os.Chmod(wrapper, 0o700)).To(Succeed())
	g.Eventually(func(g Gomega) {
		_, said, err := run(s.t, "", nil, wrapper, "show", "--property=Version")
		content, _ := os.ReadFile(log)
		g.Expect(err).NotTo(HaveOccurred(), said+string(content))
	}, "30s").Should(Succeed())
	g.Expect(os.ReadFile("/proc/self/cgroup")).To(Equal(before), "systemd has moved processes that are not its own")
	return m
}

// cgroups makes a cgroup below that of this process in each hierarchy, and removes it at the end of the test. They have one name: systemd makes the cgroup that
// it has in one hierarchy in others too.
func (s *system) cgroups(own string) []string {
	s.t.Helper()
	g := NewWithT(s.t)
	name := fmt.Sprintf("seedcheck-%d-%d", os.Getpid(), time.Now().UnixNano())
	var entered []string
	remove := map[string]bool{}
	paths := map[string]bool{}
	var mounts []string
	for line := range strings.Lines(own) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // cgroups(7): hierarchy-ID:controllers:path
		if strings.Contains(fields[1], "cpuset") {
			continue // takes no process before CPUs are assigned, and systemd leaves it alone
		}
		mount := filepath.Join("/sys/fs/cgroup", strings.TrimPrefix(fields[1], "name="))
		if fields[1] == "" {
			if unified := filepath.Join(mount, "unified"); isFolder(unified) {
				mount = unified
			}
		}
		mounts = append(mounts, mount)
		paths[fields[2]] = true
		entered = append(entered, filepath.Join(mount, fields[2], name))
		g.Expect(os.Mkdir(entered[len(entered)-1], 0o700)).To(Succeed())
	}
	for _, mount := range mounts {
		for path := range paths {
			remove[filepath.Join(mount, path, name)] = true
		}
	}
	s.t.Cleanup(func() {
		for cgroup := range remove {
			removeCgroup(g, cgroup)
		}
	})
	return entered
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// removeCgroup removes a cgroup and those in it, if it is there.
func removeCgroup(g Gomega, cgroup string) {
	var folders []string
	_ = filepath.WalkDir(cgroup, func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return nil
	})
	for _, folder := range slices.Backward(folders) {
		g.Eventually(func() error { return os.Remove(folder) }, "10s").Should(Succeed()) // the last process may not yet be gone
	}
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
