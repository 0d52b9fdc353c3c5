package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
)

// image is a Linux that is booted: Debian's kernel for clouds, and an initramfs with busybox.
type image struct {
	// files are the kernel and the initramfs, at an origin on this machine.
	files []artifact.Artifact
	// dir holds them.
	dir string
}

// initScript is the first program. It does what cloud-init does, as far as the boot server can tell: it reads the seed that
// the kernel command line names, and reports to where vendor-data says.
const initScript = `#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
for module in $(cat /modules/order); do insmod /modules/$module; done
report() {
  ip link set eth0 up
  udhcpc -q -n -f -t 20 -T 1 -i eth0 -s /bin/lease || return
  seed=$(sed -n 's/.*ds=nocloud;s=\([^ ]*\).*/\1/p' /proc/cmdline)
  for file in meta-data user-data vendor-data; do
    wget -q -O /$file ${seed}$file || return
  done
  id=$(sed -n 's/^instance-id: //p' /meta-data)
  echo "e2e: I am $id"
  wget -q -O /dev/null --post-data "instance_id=$id" $(sed -n 's/^ *url: //p' /vendor-data) || return
  echo "e2e: reported in"
}
report || echo "e2e: failed"
poweroff -f
`

// leaseScript is what udhcpc calls when it has an address.
const leaseScript = `#!/bin/busybox sh
[ "$1" = bound ] && ip address add $ip/$mask dev $interface
exit 0
`

func makeImage(t *testing.T) *image {
	t.Helper()
	g := NewWithT(t)
	i := &image{dir: t.TempDir()}
	kernel, err := os.ReadFile(filepath.Join(root(t), ".cache/firmware/vmlinuz"))
	g.Expect(err).NotTo(HaveOccurred(), "hack/firmware.sh installs the kernel")
	g.Expect(os.WriteFile(filepath.Join(i.dir, "vmlinuz"), kernel, 0o600)).To(Succeed())
	makeInitramfs(t, filepath.Join(i.dir, "initramfs"))
	origin := httptest.NewServer(http.FileServer(http.Dir(i.dir)))
	t.Cleanup(origin.Close)
	for _, name := range []string{"vmlinuz", "initramfs"} {
		content, err := os.ReadFile(filepath.Join(i.dir, name))
		g.Expect(err).NotTo(HaveOccurred())
		sum := sha256.Sum256(content)
		i.files = append(i.files, artifact.Artifact{URL: origin.URL + "/" + name, Checksum: "sha256:" + hex.EncodeToString(sum[:])})
	}
	return i
}

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
	busybox, err := os.ReadFile("/bin/busybox")
	g.Expect(err).NotTo(HaveOccurred(), "hack/firmware.sh installs it")
	put("bin/busybox", busybox)
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
	kernel := filepath.Join(root(t), ".cache/firmware")
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
