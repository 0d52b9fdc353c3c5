package seedcheck

import (
	"os"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap/render"
)

// autoinstallSection is the part of Ubuntu's autoinstall that the test carries out.
type autoinstallSection struct {
	Version      int            `json:"version"`
	Identity     map[string]any `json:"identity"`
	UserData     map[string]any `json:"user-data"`
	LateCommands []string       `json:"late-commands"`
}

// install boots the installer, and does what it does after it has written the system to /target: it limits cloud-init to its own data, and runs the late
// commands. The installer itself is not run.
func install(t *testing.T, server *bootServer) *node {
	t.Helper()
	g := NewWithT(t)
	n := newNode(t)
	log := n.boot(server.commandLine)
	g.Expect(log).To(ContainSubstring(`"errors": []`))
	var config struct {
		Autoinstall *autoinstallSection `json:"autoinstall"`
	}
	g.Expect(yaml.Unmarshal([]byte(n.read(instanceFolder+"/cloud-config.txt")), &config)).To(Succeed())
	section := config.Autoinstall
	g.Expect(section).NotTo(BeNil(), "the installer finds the section in the merged configuration")
	g.Expect(section.Version).To(Equal(1))
	g.Expect(section.Identity == nil).To(Equal(section.UserData != nil), "one of them is required")
	n.write("/target/etc/cloud/cloud.cfg.d/99-installer.cfg", "datasource: {None: {metadata: {instance-id: x}, userdata_raw: '#cloud-config'}}\ndatasource_list: [None]\n")
	n.write("/target/etc/cloud/ds-identify.cfg", "policy: enabled\n")
	g.Expect(os.MkdirAll(n.path("/target/usr/local/bin"), 0o755)).To(Succeed()) //nolint:gosec // the system's
	for _, command := range section.LateCommands {
		n.mustRun(command, "PYTHONPATH=/snap/subiquity/current/lib/python3.12/site-packages")
	}
	return n
}

// installed returns the installed system: what the installer put into /target, in a system without a datasource.
func installed(t *testing.T, installer *node) *node {
	t.Helper()
	n := newNode(t)
	NewWithT(t).Expect(os.Remove(n.path("/etc/cloud/cloud.cfg.d/90-datasource.cfg"))).To(Succeed())
	for path, content := range tree(t, installer.path("/target")) {
		if name, ok := strings.CutPrefix(path, "/usr/local/bin/"); ok {
			info, err := os.Stat(installer.path("/target" + path))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			NewWithT(t).Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o755)))
			n.program(name, content)
			continue
		}
		n.write(path, content)
	}
	n.program("systemctl", serviceManager)
	return n
}

// TestSampleAutoinstall: the installer hands the seed to the installed system, which joins the cluster and reports. The installer reports nothing.
func TestSampleAutoinstall(t *testing.T) {
	url, checksum := mirror(t)
	s := readSample(t, "autoinstall.yaml", url)
	s.values["token"], s.values["sha256"] = hostileToken, checksum
	server := serve(t, s.seed(t))
	parts := readParts(t, server)
	NewWithT(t).Expect(parts).To(HaveLen(1))
	NewWithT(t).Expect(parts[0].Type).To(Equal("text/cloud-config"), "the installer does not fill in what is for the installed system")
	installer := install(t, server)
	NewWithT(t).Expect(installer.has(instanceFolder + "/scripts/vendor")).To(BeFalse())
	NewWithT(t).Expect(installer.has(render.Sentinel)).To(BeFalse())
	NewWithT(t).Expect(server.reported()).To(BeEmpty(), "the machine is not up yet")
	for name, report := range map[string]string{"succeeds": "succeeded", "fails": "failed"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n := installed(t, installer)
			if name == "fails" {
				n.write("/k3s-fails", "")
			}
			n.mustRun("/bin/sh /tools/usr/lib/cloud-init/ds-identify --force") // it fails if cloud-init would not run at the boot
			log := n.boot("BOOT_IMAGE=/vmlinuz root=/dev/sda2")
			n.expectAgent("/etc/rancher/k3s/config.yaml", "https://192.0.2.20:6443", hostileToken)
			g.Expect(n.has("/run/capbm")).To(BeFalse(), "the user data of the installer is not read again")
			g.Expect(n.read("/var/lib/cloud/data/instance-id")).To(Equal("i-1\n"))
			g.Expect(n.calls()).To(Equal([]string{"systemctl enable --now k3s-agent.service", "k3s agent"}))
			if name == "succeeds" {
				n.expectSuccess(log)
			}
			g.Expect(n.has(render.Sentinel)).To(Equal(name == "succeeds"), log)
			g.Expect(server.reported()).To(Equal([]string{"up", report}), log)
		})
	}
}
