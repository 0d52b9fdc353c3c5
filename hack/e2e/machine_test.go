package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/peertest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/qemu"
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
	// blank, where not nil, is an empty disk instead of one that reports when it is booted.
	blank *blankDisk
}

// blankDisk is an empty disk.
type blankDisk struct {
	// size is in GiB.
	size int64
	// device are the arguments for QEMU. The drive has the ID disk, and BOOTINDEX stands for the property of the boot order.
	device []string
}

// onBlankDisk gives a machine an empty disk.
func (m machine) onBlankDisk(d blankDisk) machine {
	m.blank, m.memory = &d, max(m.memory, 768)
	m.args = append(slices.Clone(m.args), "-cpu", "max")
	return m
}

// bios is a PC whose network card has iPXE in its ROM: it asks for the script right away.
func bios() machine {
	return machine{args: qemu.BIOS().Args}
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
func uefi(args ...string) machine { return withFirmware(qemu.UEFI(), args...) }

// withFirmware is a PC with firmware whose own network stack is used: the card has no ROM.
func withFirmware(f qemu.Firmware, args ...string) machine {
	return machine{
		args: append(f.Args, args...),
		card: ",romfile=",
		prepare: func(t *testing.T, folder string) {
			t.Helper()
			NewWithT(t).Expect(f.Prepare(folder)).To(Succeed())
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
			return v1alpha1.BootModeBIOS
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
	// hasURI is true once the firmware's variables have a URI to boot from.
	hasURI bool

	pc *qemu.Machine
}

// build puts a server of the kind on a network, switched off. It has a disk that reports when it is booted. It is switched off at the end
// of the test.
func (m machine) build(t *testing.T, w *segment, mac string) *chassis {
	t.Helper()
	c := &chassis{machine: m, mac: mac, tap: w.tap(t, "root"), folder: t.TempDir()}
	c.pc = qemu.New(c.folder)
	if m.blank != nil {
		c.disk = makeBlankDisk(t, c.folder, m.blank.size)
	} else {
		c.disk = makeDisk(t, c.folder, m.mode() == v1alpha1.BootModeUEFI)
	}
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
	if c.ownOrder || c.hasURI || c.machine.blank != nil && !networkFirst && c.machine.mode() == v1alpha1.BootModeUEFI {
		card, disk = "", ""
	}
	args := []string{
		"-m", strconv.Itoa(max(c.machine.memory, 512)),
		"-netdev", "tap,id=net0,ifname=" + c.tap + ",script=no,downscript=no,vnet_hdr=off", // the dump would show virtio's headers
		"-object", "filter-dump,id=dump,netdev=net0,file=" + c.file("packets"),
		"-device", "virtio-net-pci,netdev=net0,mac=" + c.mac + c.machine.card + card,
		"-drive", "if=none,id=disk," + c.disk,
	}
	device := []string{"-device", "virtio-blk-pci,drive=diskBOOTINDEX"}
	if c.machine.blank != nil {
		device = c.machine.blank.device
	}
	for _, arg := range device {
		args = append(args, strings.ReplaceAll(arg, "BOOTINDEX", disk))
	}
	return append(args, c.machine.args...)
}

func (c *chassis) file(name string) string { return filepath.Join(c.folder, name) }

// on switches the server on. The channel that it returns is closed when the server went off, also without off.
func (c *chassis) on(networkFirst bool) (<-chan struct{}, error) {
	return c.pc.On(c.args(networkFirst)...)
}

// off switches the server off, like a pulled plug.
func (c *chassis) off() { c.pc.Off() }

// restarts returns how often the system restarted the server. QEMU ends then.
func (c *chassis) restarts() int { return strings.Count(c.console(), "reboot: Restarting system") }

// isOn is true while the server is on.
func (c *chassis) isOn() bool { return c.pc.IsOn() }

// console returns what the server wrote to its serial line, without what moves the cursor about.
func (c *chassis) console() string { return c.pc.Console() }

// setBootURI makes the firmware boot from a URI the next time, as a BMC does.
func (c *chassis) setBootURI(t *testing.T, uri string) {
	t.Helper()
	c.hasURI = true
	variables := c.file("vars")
	if out, err := exec.Command(peertest.Program(t, "virt-fw-vars"), "--inplace", variables, "--set-boot-uri", uri).CombinedOutput(); err != nil { //nolint:noctx // a moment
		t.Errorf("set the boot URI: %v: %s", err, out)
	}
}
