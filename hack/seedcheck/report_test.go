package seedcheck

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// image is what an operating system has: a shell, and one program that can send a report.
type image struct {
	name  string
	shell []string
	// programs are those on the path, with what they are.
	programs map[string]string
}

var images = []image{
	{"BusyBox", []string{"/bin/busybox", "sh"}, map[string]string{"sleep": "/bin/busybox", "setsid": "/bin/busybox", "timeout": "/bin/busybox", "wget": "/bin/busybox"}},
	{"dash and curl", []string{"/bin/dash"}, map[string]string{"sleep": "/bin/sleep", "setsid": "/usr/bin/setsid", "curl": "/usr/bin/curl"}},
	{"dash and wget", []string{"/bin/dash"}, map[string]string{"sleep": "/bin/sleep", "setsid": "/usr/bin/setsid", "timeout": "/usr/bin/timeout", "wget": "/usr/bin/wget"}},
	{"dash and python3", []string{"/bin/dash"}, map[string]string{"sleep": "/bin/sleep", "setsid": "/usr/bin/setsid", "python3": "/usr/bin/python3"}},
}

// system is the part of a running operating system that the scripts read.
type system struct {
	image

	t   *testing.T
	dir string
	// reports are the paths that were posted to and taken.
	reports chan string
	url     string
}

// start starts a server that refuses the first posts, and makes the system.
func start(t *testing.T, i image, refusals int) *system {
	t.Helper()
	s := &system{image: i, t: t, dir: t.TempDir(), reports: make(chan string, 10)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || refusals > 0 {
			refusals--
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		s.reports <- r.URL.Path
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	for name, program := range i.programs {
		NewWithT(t).Expect(os.MkdirAll(filepath.Join(s.dir, "bin"), 0o700)).To(Succeed())
		NewWithT(t).Expect(os.Symlink(program, filepath.Join(s.dir, "bin", name))).To(Succeed())
	}
	return s
}

// run runs a script on this system instead of the whole machine, every second and at most three times.
func (s *system) run(script string) {
	s.t.Helper()
	g := NewWithT(s.t)
	for from, to := range map[string]string{
		"/run/cloud-init": s.dir, "/run/cluster-api": s.dir, "/run/systemd/system": s.dir + "/systemd", "/bin/sh \"$0\"": strings.Join(s.shell, " ") + " \"$0\"",
		"/etc/capbm": s.dir, "-lt 720": "-lt 3", "sleep 5\n": "sleep 1\n",
	} {
		script = strings.ReplaceAll(script, from, to)
	}
	path := filepath.Join(s.dir, "script")
	write(s.t, path, script)
	_, said, err := run(s.t, "", []string{"PATH=" + filepath.Join(s.dir, "bin")}, s.shell[0], append(s.shell[1:], path)...)
	g.Expect(err).NotTo(HaveOccurred(), said)
	g.Expect(said).To(BeEmpty())
}

func (s *system) touch(name string) { write(s.t, filepath.Join(s.dir, name), "") }

func (s *system) expect(report string) {
	s.t.Helper()
	NewWithT(s.t).Eventually(s.reports, "30s").Should(Receive(Equal("/report/dc/h/token/" + report)))
}

// vendorScript is the script that cloud-init runs for us.
func (s *system) vendorScript() string {
	content, ok, err := seed.File(data(s.t), seed.VendorData, s.url)
	g := NewWithT(s.t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ok).To(BeTrue())
	var parts []struct{ Content string }
	g.Expect(yaml.Unmarshal(content, &parts)).To(Succeed())
	return parts[1].Content
}

// TestVendorScript: the script returns at once, waits aside for the end of cloud-init, and reports how the bootstrap went.
func TestVendorScript(t *testing.T) {
	for _, i := range images {
		t.Run(i.name, func(t *testing.T) {
			t.Run("succeeded", func(t *testing.T) {
				s := start(t, i, 1)
				s.touch("bootstrap-success.complete")
				s.run(s.vendorScript())
				NewWithT(t).Expect(s.reports).NotTo(Receive(), "cloud-init is not done")
				s.touch("result.json")
				s.expect("succeeded")
			})
			t.Run("failed", func(t *testing.T) {
				s := start(t, i, 0)
				s.touch("result.json")
				s.run(s.vendorScript())
				s.expect("failed")
			})
			t.Run("not done in time", func(t *testing.T) {
				s := start(t, i, 0)
				s.run(s.vendorScript())
				s.expect("failed")
			})
		})
	}
}

// TestVendorScriptWithoutPrograms: in an image without curl, wget and python3, the script succeeds and reports nothing. The Node counts as the report
// (TestNodeProvesBoot of controllers/node).
func TestVendorScriptWithoutPrograms(t *testing.T) {
	s := start(t, image{"dash alone", []string{"/bin/dash"}, map[string]string{"sleep": "/bin/sleep", "setsid": "/usr/bin/setsid"}}, 0)
	s.touch("result.json")
	s.touch("bootstrap-success.complete")
	s.run(s.vendorScript())
	NewWithT(t).Consistently(s.reports, "4s").ShouldNot(Receive())
}

// TestIgnitionScripts: the scripts of the units report that the system is up, and how the bootstrap went.
func TestIgnitionScripts(t *testing.T) {
	i := images[1]
	script := func(s *system, name string) string {
		d := data(s.t)
		d.Format, d.UserData = seed.Ignition, []byte(`{"ignition":{"version":"3.4.0"}}`)
		return ignitionFiles(s.t, d, s.url)["/etc/capbm/"+name]
	}
	t.Run("up", func(t *testing.T) {
		s := start(t, i, 1)
		s.run(script(s, "report"))
		s.expect("up")
	})
	t.Run("succeeded", func(t *testing.T) {
		s := start(t, i, 0)
		s.manager()
		s.touch("bootstrap-success.complete")
		s.run(script(s, "report-bootstrap"))
		s.expect("succeeded")
		NewWithT(t).Expect(filepath.Join(s.dir, "report-bootstrap.done")).To(BeAnExistingFile(), "the unit does not start again")
	})
	for _, unit := range []string{"kubeadm.service", "rke2-install.service", "k0s-bootstrap.service", "capbm-bootstrap.service"} {
		t.Run(unit, func(t *testing.T) {
			s := start(t, i, 0)
			m := s.manager()
			m.unit(unit, "/bin/false")
			m.start(unit, false)
			s.run(script(s, "report-bootstrap"))
			s.expect("failed")
			NewWithT(t).Expect(m.checks()).To(Equal(1), "the first check notices the failure")
		})
	}
	t.Run("not done in time", func(t *testing.T) {
		s := start(t, i, 0)
		m := s.manager()
		m.unit("kubeadm.service", "/bin/true") // has ended without the sentinel
		m.start("kubeadm.service", true)
		m.unit("rke2-server.service", "/bin/false") // its failure is not a failure of the bootstrap
		m.start("rke2-server.service", false)
		s.run(script(s, "report-bootstrap"))
		s.expect("failed")
		NewWithT(t).Expect(m.checks()).To(Equal(3), "none of the checks finds a failed bootstrap")
	})
}

// TestMetadataFile: a shell reads the facts of a system with Ignition, with any content.
func TestMetadataFile(t *testing.T) {
	d := data(t)
	d.Format, d.UserData, d.FailureDomain = seed.Ignition, []byte(`{"ignition":{"version":"3.4.0"}}`), "row '1' $HOME `id` \\"
	path := filepath.Join(t.TempDir(), "metadata")
	write(t, path, ignitionFiles(t, d, "http://192.0.2.1")["/etc/capbm/metadata"])
	for _, i := range images[:2] {
		out, said, err := run(t, "", nil, i.shell[0], append(i.shell[1:], "-c", `. "$0"; echo "$CAPBM_PROVIDER_ID|$CAPBM_HOSTNAME|$CAPBM_FAILURE_DOMAIN|$CAPBM_LABELS"`, path)...)
		NewWithT(t).Expect(err).NotTo(HaveOccurred(), said)
		NewWithT(t).Expect(out).To(Equal("baremetal://dc/h/m-1|m-1|" + d.FailureDomain + "|example.com/rack-row=r-1\n"))
	}
}
