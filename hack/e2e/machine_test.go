package e2e_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	. "github.com/onsi/gomega"
)

// machine is a kind of server, by what is special about it in QEMU.
type machine struct {
	// args follow those that all machines have. FOLDER in them is a folder of this machine's own.
	args []string
	// card are properties of its network card.
	card string
	// prepare, where not nil, fills the folder.
	prepare func(t *testing.T, folder string)
}

// bios is a PC whose network card has iPXE in its ROM: it asks for the script right away.
var bios = machine{args: []string{"-machine", "pc,accel=tcg,graphics=off"}, card: ",bootindex=0"}

// plainBIOS is a PC whose firmware knows PXE and no HTTP. There is no such ROM among Debian's packages: iPXE plays it, under
// another name, and loads what DHCP names over TFTP.
var plainBIOS = machine{
	args: []string{"-machine", "pc,accel=tcg,graphics=off", "-kernel", loaderDir + "/ipxe.lkrn", "-initrd", "FOLDER/script"}, card: ",romfile=",
	prepare: func(t *testing.T, folder string) {
		t.Helper()
		// The name is taken back before the loader runs, which would find it among the settings that iPXE hands on.
		script := "#!ipxe\nset user-class PXE\ndhcp net0 || exit\nclear user-class\nchain tftp://${next-server}/${filename}\n"
		NewWithT(t).Expect(os.WriteFile(filepath.Join(folder, "script"), []byte(script), 0o600)).To(Succeed())
	},
}

// uefi is a PC with OVMF, whose own network stack is used: the card has no ROM.
func uefi(args ...string) machine {
	return machine{
		args: append([]string{
			"-machine", "q35,accel=tcg,graphics=off",
			"-drive", "if=pflash,unit=0,format=raw,readonly=on,file=/usr/share/OVMF/OVMF_CODE_4M.fd",
			"-drive", "if=pflash,unit=1,format=raw,file=FOLDER/vars",
		}, args...),
		card: ",bootindex=0,romfile=",
		prepare: func(t *testing.T, folder string) {
			t.Helper()
			copyFile(t, "/usr/share/OVMF/OVMF_VARS_4M.fd", filepath.Join(folder, "vars"))
		},
	}
}

// httpOnly keeps OVMF from trying PXE before HTTP boot.
var httpOnly = []string{
	"-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n", "-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n",
}

// running is a machine that runs.
type running struct {
	console string // the file with the output of the serial line
	exited  chan struct{}
}

// start switches a machine on. It is switched off at the end of the test.
func (m machine) start(t *testing.T) *running {
	t.Helper()
	g := NewWithT(t)
	folder := t.TempDir()
	if m.prepare != nil {
		m.prepare(t, folder)
	}
	r := &running{console: filepath.Join(folder, "console"), exited: make(chan struct{})}
	args := []string{
		// graphics=off in -machine sends the firmware's output to the serial line.
		"-cpu", "Nehalem", "-m", "512", "-smp", "1", "-nodefaults", "-display", "none", "-serial", "file:" + r.console, "-no-reboot",
		"-netdev", "tap,id=net0,ifname=" + tap + ",script=no,downscript=no",
		"-device", "virtio-net-pci,netdev=net0,mac=" + hostMAC.String() + m.card,
	}
	for _, arg := range m.args {
		args = append(args, strings.ReplaceAll(arg, "FOLDER", folder))
	}
	cmd := exec.Command("qemu-system-x86_64", args...) //nolint:noctx // killed below, after its output was read
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	said := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = said, said
	g.Expect(cmd.Start()).To(Succeed(), "hack/firmware.sh installs QEMU")
	go func() {
		_ = cmd.Wait() // killed, or switched off by its guest
		close(r.exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // an error says that it is gone
		<-r.exited
		if t.Failed() {
			t.Logf("QEMU said: %s\nthe console:\n%s", said, r.consoleText())
		}
	})
	return r
}

// consoleText returns what the machine wrote to its serial line, without what moves the cursor about.
func (r *running) consoleText() string {
	content, err := os.ReadFile(r.console)
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
	target, err := os.Create(to)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = io.Copy(target, source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(target.Close()).To(Succeed())
}
