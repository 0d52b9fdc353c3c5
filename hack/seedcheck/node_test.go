package seedcheck

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// node is the file system of a server. Programs run with it as their root, in namespaces of their own, with the /usr of this machine and the unpacked
// tools in /tools. They can read and write nothing else.
type node struct {
	t *testing.T
	// root is its folder on this machine.
	root string
}

// enter makes the node the root of a shell. $1 is the node, $2 the tools, $3 the script.
const enter = `set -eu
mount --rbind -o ro /usr "$1/usr"
mount --bind "$1/.local" "$1/usr/local"
mount --bind "$2" "$1/tools"
mount -t proc none "$1/proc"
for device in null zero random urandom; do
  mount --bind "/dev/$device" "$1/dev/$device"
done
if [ -e "$1/cmdline" ]; then mount --bind "$1/cmdline" "$1/proc/cmdline"; fi
exec chroot "$1" /bin/sh -c "$3"
`

// cloudInitProgram is cloud-init's program. It leaves the environment of its children alone. The compiled modules are kept, which saves seconds at each start.
const cloudInitProgram = `#!/bin/sh
exec /usr/bin/python3 -X pycache_prefix=/tools/.pycache -c '
import sys
sys.path.insert(0, "/tools/usr/lib/python3/dist-packages")
sys.argv[0] = "cloud-init"
from cloudinit.cmd.main import main
sys.exit(main())
' "$@"
`

// cloudInitConfig has the modules, in Debian's order, that write into the node only.
const cloudInitConfig = `network: {config: disabled}
preserve_hostname: true
cloud_init_modules: [write-files]
cloud_config_modules: [runcmd]
cloud_final_modules: [write-files-deferred, scripts-vendor, scripts-user, phone-home]
system_info:
  distro: debian
  paths: {cloud_dir: /var/lib/cloud/, run_dir: /run/cloud-init/, templates_dir: /tools/etc/cloud/templates/}
`

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{t: t, root: t.TempDir()}
	g := NewWithT(t)
	for _, folder := range []string{
		"usr", ".local/bin", ".local/lib/systemd/system", "tools", "proc", "dev", "etc/cloud/cloud.cfg.d", "var/lib", "var/log", "run", "tmp", "root", "opt/bin", "srv", "sysroot",
	} {
		g.Expect(os.MkdirAll(filepath.Join(n.root, folder), 0o755)).To(Succeed())
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		g.Expect(os.Symlink("usr/"+link, filepath.Join(n.root, link))).To(Succeed())
	}
	for _, device := range []string{"null", "zero", "random", "urandom"} {
		n.write("/dev/"+device, "")
	}
	n.write("/etc/passwd", "root:x:0:0:root:/root:/bin/sh\n")
	n.write("/etc/group", "root:x:0:\n")
	n.write("/etc/cloud/cloud.cfg", cloudInitConfig)
	n.write("/etc/cloud/cloud.cfg.d/90-datasource.cfg", "datasource_list: [NoCloud]\n")
	n.program("cloud-init", cloudInitProgram)
	return n
}

func (n *node) path(name string) string { return filepath.Join(n.root, name) }

func (n *node) write(name, content string) {
	n.t.Helper()
	write(n.t, n.path(name), content)
}

// program writes a program that is on the path.
func (n *node) program(name, script string) {
	n.t.Helper()
	n.write("/.local/bin/"+name, script)
	NewWithT(n.t).Expect(os.Chmod(n.path("/.local/bin/"+name), 0o755)).To(Succeed())
}

func (n *node) read(name string) string {
	n.t.Helper()
	content, err := os.ReadFile(n.path(name))
	NewWithT(n.t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

func (n *node) has(name string) bool {
	_, err := os.Lstat(n.path(name))
	return err == nil
}

// mustRun runs a script in the node, and returns what it prints.
func (n *node) mustRun(script string, env ...string) string {
	n.t.Helper()
	out, said, err := n.run(script, env...)
	NewWithT(n.t).Expect(err).NotTo(HaveOccurred(), "%s\n%s%s", script, said, out)
	return out
}

// run runs a script in the node. What it leaves running ends with it.
func (n *node) run(script string, env ...string) (out, said string, err error) {
	n.t.Helper()
	env = append([]string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin", "HOME=/root", "LC_ALL=C.UTF-8"}, env...)
	return run(n.t, "", env, "/usr/bin/unshare", "--user", "--map-root-user", "--mount", "--uts", "--pid", "--fork", "--kill-child",
		"/bin/sh", "-c", enter, "enter", n.root, root, script)
}

// bootServer is the provider's boot server, which serves one seed.
type bootServer struct {
	url, commandLine string

	mu      sync.Mutex
	reports []string
}

// serve starts a boot server.
func serve(t *testing.T, d seed.Data) *bootServer {
	t.Helper()
	g := NewWithT(t)
	handler := &pxe.Handler{Booter: &pxetest.Booter{Token: "token", Data: d}, Log: logr.Discard()}
	mux, s := handler.Mux(), &bootServer{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			s.mu.Lock()
			s.reports = append(s.reports, strings.TrimPrefix(r.URL.Path, "/report/dc/h/token/"))
			s.mu.Unlock()
		}
		mux.ServeHTTP(w, r)
	}))
	s.url = "http://" + server.Listener.Addr().String()
	handler.BaseURL = func(netip.Addr) string { return s.url }
	server.Start()
	t.Cleanup(server.Close)
	line, err := seed.CommandLine(d.Format, d.Network, s.url+pxe.SeedPath("dc/h", "token"))
	g.Expect(err).NotTo(HaveOccurred())
	s.commandLine = "initrd=initrd0 console=ttyS0 " + line
	return s
}

// reported returns the reports since the last call.
func (s *bootServer) reported() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	reports := s.reports
	s.reports = nil
	return reports
}

// boot runs the stages of cloud-init at a boot with the kernel command line, and waits for the watch of the vendor data if there is one: it looks every five
// seconds.
func (n *node) boot(commandLine string) (log string) {
	n.t.Helper()
	n.write("/cmdline", commandLine+"\n")
	out, said, err := n.run(`cloud-init init --local
cloud-init init && cloud-init modules --mode=config
cloud-init modules --mode=final
if [ -e /var/lib/cloud/instance/scripts/vendor/capbm-report-bootstrap ]; then sleep 7; fi`)
	log = out + said
	NewWithT(n.t).Expect(err).NotTo(HaveOccurred(), log)
	NewWithT(n.t).Expect(n.has("/run/cloud-init/result.json")).To(BeTrue(), "cloud-init ended: %s", log)
	return log + n.read("/run/cloud-init/result.json")
}

// calls returns the calls of the programs that record them, one in a line.
func (n *node) calls() []string {
	n.t.Helper()
	if !n.has("/calls") {
		return nil
	}
	return strings.Split(strings.TrimSuffix(n.read("/calls"), "\n"), "\n")
}

// recorder is a program that records its call.
func recorder(name string) string { return fmt.Sprintf("#!/bin/sh\necho \"%s $*\" >>/calls\n", name) }

// serviceManager is a systemctl that records its call, and runs the program of a unit that is started.
const serviceManager = `#!/bin/sh
echo "systemctl $*" >>/calls
[ "$1 $2" = "enable --now" ] || exit 0
for folder in /etc/systemd/system /usr/local/lib/systemd/system; do
  if [ -e "$folder/$3" ]; then
    exec sh -c "$(sed -n 's/^ExecStart=//p' "$folder/$3")"
  fi
done
exit 1
`
