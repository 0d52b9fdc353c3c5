// Package seedcheck lets the programs that read our seeds on real systems read them: cloud-init, netplan, systemd, NetworkManager and Ignition of
// Debian 12, BusyBox and the clients that a report is sent with. hack/seedtools.sh unpacks them. The samples of BareMetalConfig are carried out by these
// programs in a root folder and namespaces of their own.
package seedcheck

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// root is where the tools are unpacked.
var root = func() string {
	path, err := filepath.Abs("../../.cache/seedtools/root")
	if err != nil {
		panic(err)
	}
	return path
}()

const (
	networkGenerator = "lib/systemd/systemd-network-generator"
	initrdGenerator  = "usr/lib/NetworkManager/nm-initrd-generator"
	nmcli            = "usr/bin/nmcli"
	netplan          = "usr/libexec/netplan/generate"
	systemd          = "lib/systemd/systemd"
	systemctl        = "bin/systemctl"
	ignitionBinary   = "usr/lib/dracut/modules.d/30ignition/ignition"
)

func TestMain(m *testing.M) {
	var files []string
	for _, tool := range []string{networkGenerator, initrdGenerator, nmcli, netplan, systemd, systemctl, ignitionBinary, "usr/lib/python3/dist-packages/cloudinit"} {
		files = append(files, filepath.Join(root, tool))
	}
	controllerstest.Need(m, "make seedcheck, which unpacks the tools", append(files,
		"/usr/bin/python3", "/bin/busybox", "/bin/dash", "/usr/bin/curl", "/usr/bin/wget", "/usr/bin/unshare", "/sbin/fsck.vfat", "/usr/bin/mcopy", "/sbin/blkid")...)
	os.Exit(m.Run())
}

// tool runs one of the tools with the libraries that were unpacked with it, and returns what it prints. A warning is a failure too.
func tool(t *testing.T, stdin, name string, args ...string) string {
	t.Helper()
	libraries := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	out, said, err := run(t, stdin, []string{"LD_LIBRARY_PATH=" + libraries + ":" + libraries + "/systemd", "LC_ALL=C"}, filepath.Join(root, name), args...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%s %v\n%s\nsays: %s", name, args, stdin, said)
	NewWithT(t).Expect(said).To(BeEmpty(), "%s %v\n%s", name, args, stdin)
	return out
}

// python runs cloud-init's code. Its home is empty, so that it reads no configuration of this machine.
func python(t *testing.T, env []string, args ...string) string {
	t.Helper()
	env = append(env, "PYTHONPATH="+filepath.Join(root, "usr/lib/python3/dist-packages"), "PYTHONDONTWRITEBYTECODE=1", "HOME="+t.TempDir(), "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin")
	out, said, err := run(t, "", env, "/usr/bin/python3", args...)
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "%v says: %s%s", args, said, out)
	return out
}

// cloudInit runs cloud-init.
func cloudInit(t *testing.T, args ...string) string {
	t.Helper()
	return python(t, nil, append([]string{"-c", "import sys; sys.argv[0] = 'cloud-init'; from cloudinit.cmd.main import main; sys.exit(main())"}, args...)...)
}

func run(t *testing.T, stdin string, env []string, name string, args ...string) (out, said string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var stdout, stderr bytes.Buffer
	command := exec.CommandContext(ctx, name, args...)
	command.Env, command.Stdin, command.Stdout, command.Stderr = env, strings.NewReader(stdin), &stdout, &stderr
	err = command.Run()
	return stdout.String(), stderr.String(), err
}
