package seedcheck

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap/render"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

const (
	ignitionProgram  = "/tools/" + ignitionBinary
	ignitionValidate = "/tools/usr/bin/ignition-validate"
	capbmMetadata    = "/etc/capbm/metadata"
)

// flatcar returns the sample with a k3s that the mirror serves.
func flatcar(t *testing.T) *sample {
	t.Helper()
	url, checksum := mirror(t)
	s := readSample(t, "flatcar.yaml", url)
	s.values["token"], s.values["sha256"] = hostileToken, checksum
	return s
}

// ignite lets Ignition fetch its config from the boot server as the kernel command line says, and write the files of the system.
func ignite(t *testing.T, s *sample) (initramfs *node, server *bootServer, said string, err error) {
	t.Helper()
	server, n := serve(t, s.seed(t)), newNode(t)
	n.write("/cmdline", server.commandLine+"\n")
	for _, stage := range []string{"fetch", "files"} {
		var out string
		out, said, err = n.run(ignitionProgram + " --platform metal --root /sysroot --log-to-stdout --config-cache /run/ignition.json --stage " + stage)
		if err != nil && !strings.Contains(out+said, noSELinux) {
			return n, server, out + said, err
		}
	}
	return n, server, said, nil
}

// noSELinux is the error of the last step of Debian's Ignition in a system without SELinux: all files are already written.
const noSELinux = "Ignition failed: failed to handle relabeling: failed to open /etc/selinux/config"

// ignited returns the system that Ignition wrote.
func ignited(t *testing.T, initramfs *node) *node {
	t.Helper()
	n := newNode(t)
	out, err := exec.CommandContext(t.Context(), "cp", "-a", initramfs.path("/sysroot")+"/.", n.root).CombinedOutput()
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), string(out))
	n.program("systemctl", serviceManager)
	return n
}

// bootstrap runs the commands as their unit does.
func (n *node) bootstrap() (string, error) {
	n.t.Helper()
	g := NewWithT(n.t)
	unit := n.read("/etc/systemd/system/" + render.CommandsUnit)
	g.Expect(unit).To(ContainSubstring("EnvironmentFile=-" + capbmMetadata + "\n"))
	_, rest, _ := strings.Cut(unit, "\nExecStart=")
	program, _, _ := strings.Cut(rest, "\n")
	_, said, err := n.run("set -a; . " + capbmMetadata + "; exec " + program)
	return said, err
}

// TestSampleFlatcar: Ignition accepts and carries out what the boot server serves, systemd accepts the units, and the commands join the cluster.
func TestSampleFlatcar(t *testing.T) {
	g := NewWithT(t)
	initramfs, server, said, err := ignite(t, flatcar(t))
	g.Expect(err).NotTo(HaveOccurred(), said)
	n := ignited(t, initramfs)
	g.Expect(n.read("/etc/hostname")).To(Equal("m-1\n"))
	g.Expect(n.read("/etc/rancher/k3s/token")).To(Equal(hostileToken))
	for path, mode := range map[string]os.FileMode{"/etc/rancher/k3s/token": 0o600, "/etc/capbm/commands": 0o700, "/opt/bin/k3s": 0o755} {
		info, err := os.Stat(n.path(path))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.Mode().Perm()).To(Equal(mode), path)
	}
	for _, unit := range []string{render.CommandsUnit, "k3s-agent.service"} {
		n.verifyUnit("/etc/systemd/system/" + unit)
	}
	n.mustRun("/tools/bin/systemctl --root=/ preset-all", "LD_LIBRARY_PATH="+systemdLibraries)
	wants := "/etc/systemd/system/multi-user.target.wants/"
	g.Expect(n.has(wants+render.CommandsUnit)).To(BeTrue(), "it starts at the boot")
	g.Expect(n.has(wants+"k3s-agent.service")).To(BeFalse(), "it has no configuration before the commands ran")
	g.Expect(os.Readlink(n.path("/etc/systemd/system/update-engine.service"))).To(Equal("/dev/null"))

	said, err = n.bootstrap()
	g.Expect(err).NotTo(HaveOccurred(), said)
	var agent map[string]any
	g.Expect(yaml.Unmarshal([]byte(n.read("/etc/rancher/k3s/config.yaml")), &agent)).To(Succeed())
	g.Expect(agent).To(Equal(map[string]any{
		"server": "https://192.0.2.20:6443", "token-file": "/etc/rancher/k3s/token", "node-taint": []any{bootstrapv1.UninitializedTaint},
		"kubelet-arg": []any{"provider-id=baremetal://dc/h/m-1"},
	}))
	g.Expect(n.calls()).To(Equal([]string{"systemctl enable --now k3s-agent.service", "k3s agent"}))
	g.Expect(n.read(render.Sentinel)).To(Equal("success\n"))
	g.Expect(n.has("/pwned")).To(BeFalse())
	n.mustRun("/bin/sh /etc/capbm/report && /bin/sh /etc/capbm/report-bootstrap")
	g.Expect(server.reported()).To(Equal([]string{"up", "succeeded"}))
}

// TestSampleFlatcarFails: neither a program with another checksum nor a failing command makes a machine that reports success.
func TestSampleFlatcarFails(t *testing.T) {
	t.Run("another checksum", func(t *testing.T) {
		s := flatcar(t)
		delete(s.values, "sha256")
		_, _, said, err := ignite(t, s)
		NewWithT(t).Expect(err).To(HaveOccurred())
		NewWithT(t).Expect(said).To(ContainSubstring("hash verification failed"))
	})
	t.Run("a command", func(t *testing.T) {
		g := NewWithT(t)
		initramfs, _, said, err := ignite(t, flatcar(t))
		g.Expect(err).NotTo(HaveOccurred(), said)
		n := ignited(t, initramfs)
		n.write("/k3s-fails", "")
		_, err = n.bootstrap()
		g.Expect(err).To(HaveOccurred(), "systemd takes the unit for failed")
		g.Expect(n.calls()).To(ContainElement("k3s agent"))
		g.Expect(n.has(render.Sentinel)).To(BeFalse())
	})
}

// TestIgnitionAccepts: Ignition's parsers, the one of Debian and the one of the library, have nothing to say about the rendered config and the served one.
func TestIgnitionAccepts(t *testing.T) {
	s := flatcar(t)
	served := file(t, s.seed(t), seed.IgnitionFile)
	for name, content := range map[string]string{"rendered": string(s.render(t)), "served": served} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(content).To(ContainSubstring(`"version":"3.3.0"`), "Flatcar and Debian's Ignition read no later version")
			_, report, err := config.Parse([]byte(content))
			g.Expect(err).NotTo(HaveOccurred(), report.String())
			g.Expect(report.Entries).To(BeEmpty(), report.String())
			n := newNode(t)
			n.write("/config.ign", content)
			g.Expect(n.mustRun(ignitionValidate + " /config.ign 2>&1")).To(BeEmpty())
			n.write("/config.ign", strings.Replace(content, `"mode":`, `"mode":"`, 1))
			_, _, err = n.run(ignitionValidate + " /config.ign")
			g.Expect(err).To(HaveOccurred(), "the program finds errors")
		})
	}
}

// TestVerifyUnit: systemd finds errors in a unit.
func TestVerifyUnit(t *testing.T) {
	for unit, says := range map[string]string{
		"[Service]\nType=oneshot\nExecStart=/bin/no-such-program\n":                  "no-such-program is not executable",
		"[Service]\nType=oneshot\nExecStart=/bin/sh\nExecStrt=/bin/sh\n":             "Unknown key 'ExecStrt'",
		"[Unit]\nAfter=network-online\n[Service]\nType=oneshot\nExecStart=/bin/sh\n": "Failed to add dependency on network-online",
	} {
		n := newNode(t)
		n.write("/etc/systemd/system/x.service", unit)
		_, said, err := n.run(systemdVerify+"/etc/systemd/system/x.service", verifyEnvironment...)
		NewWithT(t).Expect(err).To(HaveOccurred())
		NewWithT(t).Expect(said).To(ContainSubstring(says))
	}
}
