package seedcheck

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/seedtest"
)

// sentinelCase is what one failure does to the sentinel of a provider.
type sentinelCase struct {
	// golden is the name of the bootstrap Secret.
	golden string
	// fails is what fails: a program, "download" for a download that prints nothing, "install" for an install script that fails, or nothing.
	fails string
	// written is true if the data creates the sentinel anyway.
	written bool
	// careless removes "set -e" from the commands, which a provider does not put there.
	careless bool
}

// sentinelCases are what docs/guides/bootstrap-providers.md says about the sentinel and about reportBootstrap.
var sentinelCases = []sentinelCase{
	{golden: "kubeadm-worker", written: true},
	{golden: "kubeadm-worker", fails: "kubeadm"},
	{golden: "kubeadm-controlplane", written: true},
	{golden: "kubeadm-controlplane", fails: "kubeadm"},
	{golden: "kubeadm-worker-ignition", written: true},
	{golden: "kubeadm-worker-ignition", fails: "kubeadm"},
	{golden: "rke2-worker", written: true},
	{golden: "rke2-worker", fails: "install"},
	{golden: "rke2-worker", fails: "systemctl"},
	{golden: "rke2-worker", fails: "install", careless: true, written: true},
	{golden: "rke2-worker", fails: "systemctl", careless: true, written: true},
	{golden: "rke2-worker-ignition", written: true},
	{golden: "rke2-worker-ignition", fails: "download"},
	{golden: "rke2-worker-ignition", fails: "install"},
	{golden: "rke2-worker-ignition", fails: "systemctl"},
	{golden: "k3s-worker", written: true},
	{golden: "k3s-worker", fails: "install"},
	{golden: "k3s-worker", fails: "download", written: true},
	{golden: "k3s-worker-defaults", written: true},
	{golden: "k0smotron-worker", written: true},
	{golden: "k0smotron-worker", fails: "install"},
	{golden: "k0smotron-worker", fails: "k0s"},
	{golden: "k0smotron-worker", fails: "systemctl"},
	{golden: "k0smotron-worker", fails: "systemctl", careless: true, written: true},
	{golden: "k0smotron-worker-ignition", written: true},
	{golden: "k0smotron-worker-ignition", fails: "k0s"},
	{golden: "k0smotron-worker-ignition", fails: "systemctl"},
}

// TestProviderSentinel: the commands of each provider create the sentinel after success, and after a failure only where docs/guides/bootstrap-providers.md warns of it. With
// Ignition the real systemd runs the provider's unit, and our watch reports the result at its first check.
func TestProviderSentinel(t *testing.T) {
	all := goldens(t)
	tried := map[string]bool{}
	for _, c := range sentinelCases {
		tried[c.golden] = true
		name := c.golden + "/" + map[bool]string{true: "careless, ", false: ""}[c.careless] + "fails: " + c.fails
		t.Run(name, func(t *testing.T) {
			p := all[slices.IndexFunc(all, func(p golden) bool { return p.name == c.golden })]
			s := start(t, images[1], 0)
			s.programs(c.fails)
			if p.format == seed.Ignition {
				s.runUnit(p, c.written)
				return
			}
			s.runCommands(p, c.careless)
			sentinel := filepath.Join(s.dir, "bootstrap-success.complete")
			if c.written {
				NewWithT(t).Expect(sentinel).To(BeAnExistingFile())
			} else {
				NewWithT(t).Expect(sentinel).NotTo(BeAnExistingFile())
			}
		})
	}
	for _, p := range all {
		if !tried[p.name] && !p.ownReader() {
			t.Errorf("no case of %s", p.name)
		}
		if p.name == "talos-worker" && strings.Contains(p.value, "bootstrap-success.complete") {
			t.Error("Talos writes the sentinel: docs/guides/bootstrap-providers.md says that it does not")
		}
	}
}

// programs are the programs that the commands call. One of them fails.
func (s *system) programs(fails string) {
	s.t.Helper()
	g := NewWithT(s.t)
	outcome := func(name string) string {
		return map[bool]string{true: "exit 1\n", false: "exit 0\n"}[name == fails]
	}
	curl := "echo " + outcome("install")
	if fails == "download" {
		curl = "exit 22\n"
	}
	g.Expect(os.RemoveAll(filepath.Join(s.dir, "bin/curl"))).To(Succeed())
	for name, script := range map[string]string{
		"curl": curl, "systemctl": outcome("systemctl"), "kubeadm": outcome("kubeadm"), "k0s": outcome("k0s"), "setenforce": "exit 0\n", "restorecon": "exit 0\n",
		"semanage": "exit 0\n",
	} {
		path := filepath.Join(s.dir, "stubs", name)
		write(s.t, path, "#!/bin/sh\necho \"$@\" >>'"+s.dir+"/arguments'\n"+script)
		g.Expect(os.Chmod(path, 0o700)).To(Succeed())
	}
}

// here replaces the paths of a system by paths below the folder of this one.
func (s *system) here(text string) string {
	return strings.NewReplacer("/run/cluster-api", s.dir, "/usr/local/bin/k0s", s.dir+"/stubs/k0s", "/etc/", s.dir+"/etc/", " /tmp/", " "+s.dir+"/").Replace(text)
}

// path is that of the commands.
func (s *system) path() string { return "PATH=" + filepath.Join(s.dir, "stubs") + ":/usr/bin:/bin" }

// runCommands runs the commands of a cloud-config as cloud-init does: as one script.
func (s *system) runCommands(p golden, careless bool) {
	s.t.Helper()
	g := NewWithT(s.t)
	config := filepath.Join(s.dir, "config")
	rendered := p.render(s.t)
	if careless {
		less := strings.NewReplacer("  - \"set -e\"\n", "", "  - set -e\n", "").Replace(rendered)
		g.Expect(less).NotTo(Equal(rendered))
		rendered = less
	}
	write(s.t, config, rendered)
	var script string
	g.Expect(json.Unmarshal([]byte(python(s.t, nil, "testdata/reader.py", "script", config)), &script)).To(Succeed())
	path := filepath.Join(s.dir, "script")
	write(s.t, path, s.here(script))
	_, said, _ := run(s.t, "", []string{s.path()}, "/bin/dash", path)
	s.t.Log(said)
}

// runUnit runs the unit of an Ignition config with systemd, and then our watch.
func (s *system) runUnit(p golden, succeeds bool) {
	s.t.Helper()
	g := NewWithT(s.t)
	content := file(s.t, p.data(s.t), seed.IgnitionFile)
	config, err := seedtest.ReadIgnitionTree([]byte(content))
	g.Expect(err).NotTo(HaveOccurred())
	for _, f := range config.Files {
		path := filepath.Join(s.dir, f.Path)
		write(s.t, path, s.here(f.Content))
		g.Expect(os.Chmod(path, os.FileMode(f.Mode))).To(Succeed())
	}
	m := s.manager()
	var units []string
	for _, u := range config.Units {
		if strings.HasPrefix(u.Name, "capbm-") {
			continue
		}
		units = append(units, u.Name)
		write(s.t, filepath.Join(m.units, u.Name), s.here(u.Contents))
		write(s.t, filepath.Join(m.units, u.Name+".d/path.conf"), "[Service]\nEnvironment="+s.path()+"\n")
		for _, d := range u.DropIns {
			write(s.t, filepath.Join(m.units, u.Name+".d", d.Name), s.here(d.Contents))
		}
	}
	g.Expect(units).To(HaveLen(1))
	m.start(units[0], succeeds)
	if succeeds {
		written := tree(s.t, s.dir)
		delete(written, "/etc/capbm/metadata")
		g.Expect(written).To(ContainElement(MatchRegexp(`provider-id=baremetal://dc/h/m-1\b|name: provider-id\n +value: 'baremetal://dc/h/m-1'`)), "a file of the provider, or the arguments of a program")
	}
	g.Expect(os.RemoveAll(filepath.Join(s.dir, "bin/curl"))).To(Succeed())
	g.Expect(os.Symlink("/usr/bin/curl", filepath.Join(s.dir, "bin/curl"))).To(Succeed())
	s.run(ignitionFiles(s.t, p.data(s.t), s.url)["/etc/capbm/report-bootstrap"])
	s.expect(map[bool]string{true: "succeeded", false: "failed"}[succeeds])
	g.Expect(m.checks()).To(Equal(map[bool]int{true: 0, false: 1}[succeeds]), "the first check notices the result")
}
