package e2e_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// machine is a kind of server, by what is special about it in QEMU.
type machine struct {
	// args follow those that all machines have. FOLDER in them is a folder of this machine's own.
	args []string
	// card are properties of its network card.
	card string
	// memory is its memory in MiB. Defaults to 512.
	memory int
	// prepare, where not nil, fills the folder.
	prepare func(t *testing.T, folder string)
}

// bios is a PC whose network card has iPXE in its ROM: it asks for the script right away.
func bios() machine {
	return machine{args: []string{"-machine", "pc,accel=tcg,graphics=off"}}
}

// plainBIOS is a PC whose firmware knows PXE and no HTTP. There is no such ROM among Debian's packages: iPXE plays it, under
// another name, and loads what DHCP names over TFTP.
func plainBIOS() machine {
	return machine{
		args: []string{"-machine", "pc,accel=tcg,graphics=off", "-kernel", "/usr/lib/ipxe/ipxe.lkrn", "-initrd", "FOLDER/script"}, card: ",romfile=",
		prepare: func(t *testing.T, folder string) {
			t.Helper()
			// The name is taken back before the loader runs, which would find it among the settings that iPXE hands on. What a proxy
			// answers goes before what the DHCP server does (PXE 2.1, section 2.4).
			script := "#!ipxe\nset user-class PXE\ndhcp net0 || exit\nclear user-class\n" +
				"isset ${proxydhcp/filename} && chain tftp://${proxydhcp/next-server}/${proxydhcp/filename} || chain tftp://${next-server}/${filename}\n"
			NewWithT(t).Expect(os.WriteFile(filepath.Join(folder, "script"), []byte(script), 0o600)).To(Succeed())
		},
	}
}

// uefi is a PC with OVMF, whose own network stack is used: the card has no ROM.
func uefi(args ...string) machine {
	return machine{
		args: append([]string{
			"-machine", "q35,accel=tcg,graphics=off",
			"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
			"-drive", "if=pflash,unit=1,format=raw,file=FOLDER/vars",
		}, args...),
		card: ",romfile=",
		prepare: func(t *testing.T, folder string) {
			t.Helper()
			copyFile(t, "/usr/share/OVMF/OVMF_VARS_4M.fd", filepath.Join(folder, "vars"))
		},
	}
}

// withROM gives the network card of a machine its ROM with iPXE.
func (m machine) withROM() machine {
	m.card = ""
	return m
}

// noIPv6 keeps OVMF from trying PXE over IPv6, noIPv4 from trying it over IPv4, and httpOnly from trying PXE at all.
var (
	noIPv6   = []string{"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n"}
	noIPv4   = []string{"-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n"}
	httpOnly = slices.Concat(noIPv4, noIPv6)
)

// mode is the firmware interface of a kind of server.
func (m machine) mode() v1alpha1.BootMode {
	for _, arg := range m.args {
		if strings.HasPrefix(arg, "pc,") {
			return v1alpha1.BootModeLegacy
		}
	}
	return v1alpha1.BootModeUEFI
}

// chassis is a server of a kind on a network. Its emulated BMC switches it.
type chassis struct {
	machine machine
	mac     string
	tap     string
	folder  string
	// disk are the properties of its disk's -drive.
	disk string
	// ownOrder, where true, leaves it to the firmware what is booted first.
	ownOrder bool

	mu      sync.Mutex
	process *exec.Cmd
	exited  chan struct{}
}

// build puts a server of the kind on a network, switched off. It has a disk that reports when it is booted. It is switched off at the end
// of the test.
func (m machine) build(t *testing.T, w *wire, mac string) *chassis {
	t.Helper()
	c := &chassis{machine: m, mac: mac, tap: w.tap(t, "root"), folder: t.TempDir()}
	c.disk = makeDisk(t, c.folder, m.mode() == v1alpha1.BootModeUEFI)
	if m.prepare != nil {
		m.prepare(t, c.folder)
	}
	t.Cleanup(func() {
		c.off()
		if t.Failed() {
			t.Logf("the console of %s:\n%s", mac, c.console())
		}
	})
	return c
}

// args is QEMU's command line.
func (c *chassis) args(networkFirst bool) []string {
	// -kernel takes the index 0.
	card, disk := ",bootindex=1", ",bootindex=2"
	if !networkFirst {
		card, disk = disk, card
	}
	if c.ownOrder {
		card, disk = "", ""
	}
	args := []string{
		// graphics=off in -machine sends the firmware's output to the serial line.
		"-cpu", "Nehalem", "-m", strconv.Itoa(max(c.machine.memory, 512)), "-smp", "1", "-nodefaults", "-display", "none", "-no-reboot",
		"-chardev", "file,id=serial,append=on,path=" + c.file("console"), "-serial", "chardev:serial",
		"-netdev", "tap,id=net0,ifname=" + c.tap + ",script=no,downscript=no,vnet_hdr=off", // the dump would show virtio's headers
		"-object", "filter-dump,id=dump,netdev=net0,file=" + c.file("packets"),
		"-device", "virtio-net-pci,netdev=net0,mac=" + c.mac + c.machine.card + card,
		"-drive", "if=none,id=disk," + c.disk, "-device", "virtio-blk-pci,drive=disk" + disk,
	}
	args = append(args, c.machine.args...)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "FOLDER", c.folder)
	}
	return args
}

func (c *chassis) file(name string) string { return filepath.Join(c.folder, name) }

// on switches the server on. The channel that it returns is closed when the server went off, also without off.
func (c *chassis) on(networkFirst bool) (<-chan struct{}, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		return c.exited, nil
	}
	said, err := os.OpenFile(c.file("console"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("qemu-system-x86_64", c.args(networkFirst)...) //nolint:noctx // ended by off, after its output was read
	cmd.Stdout, cmd.Stderr = said, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	exited, started := make(chan struct{}), make(chan error)
	go func() {
		runtime.LockOSThread() // Linux takes the end of the thread that started a process for that of its parent
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // killed, or switched off by its guest
		}
		_ = said.Close()
		c.mu.Lock()
		c.process = nil
		c.mu.Unlock()
		close(exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	c.process, c.exited = cmd, exited
	return exited, nil
}

// off switches the server off, like a pulled plug.
func (c *chassis) off() {
	c.mu.Lock()
	process, exited := c.process, c.exited
	c.mu.Unlock()
	if process != nil {
		_ = process.Process.Kill() // an error says that it is gone
		<-exited
	}
}

// isOn is true while the server is on.
func (c *chassis) isOn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process != nil
}

// console returns what the server wrote to its serial line, without what moves the cursor about.
func (c *chassis) console() string {
	content, err := os.ReadFile(c.file("console"))
	if err != nil {
		return err.Error()
	}
	return printable(content)
}

// printable drops escape sequences and control characters.
func printable(content []byte) string {
	var out strings.Builder
	escape := false
	for _, c := range content {
		switch {
		case c == '\x1b':
			escape = true
		case escape:
			escape = c < '@' || c == '['
		case c == '\n' || c >= ' ' && c <= '~':
			_ = out.WriteByte(c)
		default:
		}
	}
	return out.String()
}

// copyFile copies a file of the firmware into the folder of a machine.
func copyFile(t *testing.T, from, to string) {
	t.Helper()
	g := NewWithT(t)
	source, err := os.Open(from)
	g.Expect(err).NotTo(HaveOccurred(), "hack/firmware.sh installs the firmware")
	defer func() { _ = source.Close() }()
	g.Expect(os.MkdirAll(filepath.Dir(to), 0o755)).To(Succeed())
	target, err := os.Create(to)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = io.Copy(target, source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(target.Close()).To(Succeed())
}
