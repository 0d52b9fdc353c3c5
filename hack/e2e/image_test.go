package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// image is a Linux that is booted: Debian's kernel for clouds, and an initramfs with busybox.
type image struct {
	// kernel and initramfs are at an origin on this machine.
	kernel, initramfs v1alpha1.Artifact
}

// noTimerCheck is the kernel parameter of each Linux here, and of the agent: the kernel must not check the timer. It counts its ticks against the clock, and panics
// where QEMU did not run for some milliseconds.
const noTimerCheck = "no_timer_check"

// commandLine is the command line of every kernel here: its output goes to the serial line, and a panic ends the machine.
const commandLine = "console=ttyS0 panic=1 " + noTimerCheck

// source is what a machine boots.
func (i *image) source() v1alpha1.BootSource {
	return v1alpha1.BootSource{
		Kernel: i.kernel, Initrds: []v1alpha1.Artifact{i.initramfs}, CommandLine: commandLine, Persistence: v1alpha1.PersistenceInstalled,
	}
}

// initScript is the first program. For the boot server it does the same as cloud-init: it reads the seed that
// the kernel command line names, and reports to where vendor-data says. Its address is DHCP's, unless e2e.address=ADDRESS/BITS on the
// command line is another, with a default route by e2e.gateway=ADDRESS: busybox knows no DHCPv6, and networks of media have no DHCP.
const initScript = `#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in $(cat /modules/order); do insmod /modules/$module; done
report() {
  echo 0 >/proc/sys/net/ipv6/conf/eth0/accept_dad
  ip link set eth0 up
  address=$(sed -n 's/.* e2e.address=\([^ ]*\).*/\1/p' /proc/cmdline)
  if [ -n "$address" ]; then
    ip address add $address dev eth0
    gateway=$(sed -n 's/.* e2e.gateway=\([^ ]*\).*/\1/p' /proc/cmdline)
    [ -z "$gateway" ] || ip route add default via $gateway
  else
    udhcpc -q -n -f -t 20 -T 1 -i eth0 -s /bin/lease || return
  fi
  seed=$(sed -n 's/.*;s=\(http[^ ;]*\).*/\1/p' /proc/cmdline)
  for file in meta-data user-data vendor-data; do
    wget -q -O /$file ${seed}$file || return
  done
  id=$(sed -n 's/^instance-id: //p' /meta-data)
  echo "e2e: I am $id"
  wget -q -O /dev/null --post-data "instance_id=$id" $(sed -n 's/^ *url: //p' /vendor-data) || return
  echo "e2e: reported in"
}
report || { echo "e2e: failed"; poweroff -f; }
while :; do sleep 60; done
`

// leaseScript is what udhcpc calls when it has an address.
const leaseScript = `#!/bin/busybox sh
[ "$1" = bound ] || exit 0
ip address add $ip/$mask dev $interface
[ -z "$router" ] || ip route add default via $router
`

func makeImage(t *testing.T) *image {
	t.Helper()
	initramfs := filepath.Join(t.TempDir(), "initramfs")
	makeInitramfs(t, initramfs)
	return &image{kernel: serve(t, filepath.Join(firmware(), "vmlinuz"), "hack/firmware.sh unpacks the kernel"), initramfs: serve(t, initramfs, "")}
}

// serve makes a file an artifact, at an origin on this machine. It ends with the test.
func serve(t *testing.T, path, remedy string) v1alpha1.Artifact {
	t.Helper()
	g := NewWithT(t)
	file, err := os.Open(path)
	g.Expect(err).NotTo(HaveOccurred(), remedy)
	defer func() { _ = file.Close() }()
	sum := sha256.New()
	_, err = io.Copy(sum, file)
	g.Expect(err).NotTo(HaveOccurred())
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, path) }))
	t.Cleanup(origin.Close)
	return v1alpha1.Artifact{URL: origin.URL + "/" + filepath.Base(path), Checksum: "sha256:" + hex.EncodeToString(sum.Sum(nil))}
}

// firmware is the folder that hack/firmware.sh puts the kernel into.
func firmware() string { return filepath.Join(controllerstest.Root(), ".cache", "firmware") }

// makeInitramfs writes an archive of busybox, the drivers of virtio's network card and the two scripts.
func makeInitramfs(t *testing.T, to string) {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	for _, name := range []string{"bin", "dev", "proc", "sys", "modules"} {
		g.Expect(os.Mkdir(filepath.Join(dir, name), 0o755)).To(Succeed())
	}
	put := func(name string, content []byte) {
		g.Expect(os.WriteFile(filepath.Join(dir, name), content, 0o755)).To(Succeed())
	}
	// It is the busybox of Debian 13: the boot server refuses TLS of that of Debian 12, which sends no signature_algorithms (RFC 9155, section 2).
	run(t, "tar", "-C", filepath.Join(dir, "bin"), "--strip-components=3", "--occurrence=1", "-xf", filepath.Join(controllerstest.Root(), ".cache", "osimage", "base.tar.zst"), "./usr/bin/busybox")
	put("bin/lease", []byte(leaseScript))
	put("init", []byte(initScript))
	var order []string
	for _, path := range modules(t, "virtio_pci", "virtio_net") {
		content, err := os.ReadFile(path)
		g.Expect(err).NotTo(HaveOccurred())
		put("modules/"+filepath.Base(path), content)
		order = append(order, filepath.Base(path))
	}
	put("modules/order", []byte(strings.Join(order, "\n")+"\n"))
	run(t, "sh", "-euc", `cd "$1"; find . | cpio --quiet -o -H newc >"$2"`, "sh", dir, to)
}

// modules returns the files of kernel modules and of what they need, in the order in which they can be loaded.
func modules(t *testing.T, names ...string) []string {
	t.Helper()
	kernel := firmware()
	version, err := os.ReadFile(filepath.Join(kernel, "version"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "hack/firmware.sh installs the kernel")
	var paths []string
	seen := map[string]bool{}
	for _, name := range names {
		out := run(t, "/sbin/modprobe", "-d", kernel, "-S", strings.TrimSpace(string(version)), "--show-depends", name)
		for line := range strings.Lines(out) {
			if path, ok := strings.CutPrefix(strings.TrimSpace(line), "insmod "); ok && !seen[path] {
				seen[path] = true
				paths = append(paths, path)
			}
		}
	}
	return paths
}
