package peertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// The firmware of the machines from Debian's package ovmf. This build needs an emulated SMM, and supports Secure Boot.
const (
	firmware           = "/usr/share/OVMF/OVMF_CODE_4M.secboot.fd"
	firmwareVars       = "/usr/share/OVMF/OVMF_VARS_4M.fd"
	firmwareVarsSecure = "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"
)

// Libvirt is a separate libvirtd with QEMU machines.
type Libvirt struct {
	// URI is the address for its clients.
	URI string
	// Machines are its machines.
	Machines []Machine
}

// Machine is a QEMU machine. It has an empty disk, an optical drive and a network card.
type Machine struct {
	Name, UUID, MAC string
	// Tap is the network interface of this computer that the machine's network card is connected to. It must belong to the user TapOwner.
	// If it is empty, the network card uses QEMU's own network, which has no boot server.
	Tap string
	// MemoryGiB is its memory, and Processors the number of its processors, both 1 by default. DiskGiB is the size of its disk, which has 1 MiB by default. The
	// serial number of the disk is Name.
	MemoryGiB, Processors, DiskGiB int
	// CPU is the mode of libvirt for its processors; empty for QEMU's default one. "maximum" has all instructions that QEMU emulates.
	CPU string
	// Console is the file with the output of its serial line, and Disk that of its disk. StartLibvirtWith sets both.
	Console, Disk string
}

// TapOwner is the user of the machines if root starts libvirtd.
const TapOwner = "nobody"

// StartLibvirt starts a libvirtd with count machines, which are off.
func StartLibvirt(tb testing.TB, machines int) *Libvirt {
	tb.Helper()
	made := make([]Machine, machines)
	for i := range made {
		made[i] = Machine{Name: fmt.Sprintf("m%d", i), UUID: fmt.Sprintf("27946b59-9e44-4fa7-8e91-f3527a1ef0%02x", i), MAC: fmt.Sprintf("52:54:00:00:00:%02x", i)}
	}
	return StartLibvirtWith(tb, made...)
}

// StartLibvirtWith starts a libvirtd with machines, which are off. It is libvirt's session daemon with all its folders in a temporary
// folder, so it is independent of the system's libvirtd.
func StartLibvirtWith(tb testing.TB, machines ...Machine) *Libvirt {
	tb.Helper()
	path := installed(tb, "/usr/sbin/libvirtd")
	for _, needed := range []string{"/usr/bin/virsh", "/usr/bin/qemu-system-x86_64", firmware, firmwareVars, firmwareVarsSecure} {
		installed(tb, needed)
	}
	owner, err := unprivileged()
	if err != nil {
		tb.Fatal(err)
	}
	home := libvirtHome(tb, owner, machines)
	env := []string{"XDG_RUNTIME_DIR=" + home + "/run"}
	for _, name := range []string{"config", "cache", "data"} {
		env = append(env, "XDG_"+strings.ToUpper(name)+"_HOME="+home+"/"+name)
	}
	p := start(tb, program{path: path, home: home, env: env, user: owner})
	l := &Libvirt{URI: "qemu+unix:///session?socket=" + home + "/run/libvirt/libvirt-sock"}
	await(tb, p, func(ctx context.Context) error { return l.virsh(ctx, "list") })
	// sushy-tools stores images in this pool.
	l.define(tb, "pool-create", home, poolXML, Machine{})
	for _, m := range machines {
		m.Console, m.Disk = home+"/"+m.Name+".console", home+"/pool/"+m.Name+".raw"
		l.Machines = append(l.Machines, m)
		l.define(tb, "define", home, machineXML, m)
	}
	return l
}

// libvirtHome makes the folder, and starts a process that removes it after the test and ends all processes that use it.
func libvirtHome(tb testing.TB, owner *syscall.Credential, machines []Machine) string {
	tb.Helper()
	// The test's own folder is too long: the path of a socket has at most 107 bytes.
	home, err := os.MkdirTemp("", "peer") //nolint:usetesting // see above
	if err != nil {
		tb.Fatal(err)
	}
	startSweeper(tb, home)
	folders := []string{home}
	for _, name := range []string{"run", "config", "config/libvirt", "cache", "data", "pool"} {
		folders = append(folders, filepath.Join(home, name))
		if err := os.Mkdir(filepath.Join(home, name), 0o700); err != nil {
			tb.Fatal(err)
		}
	}
	// Otherwise libvirtd would start a daemon for the machines' logs, and use AppArmor.
	write(tb, home+"/config/libvirt/qemu.conf", "stdio_handler = \"file\"\nsecurity_driver = \"none\"\n")
	files := []string{home + "/config/libvirt/qemu.conf"}
	for _, m := range machines {
		disk := home + "/pool/" + m.Name + ".raw"
		write(tb, disk, "")
		if err := os.Truncate(disk, max(1<<20, int64(m.DiskGiB)<<30)); err != nil {
			tb.Fatal(err)
		}
		files = append(files, disk)
	}
	if owner != nil {
		for _, path := range slices.Concat(folders, files) {
			if err := os.Chown(path, int(owner.Uid), int(owner.Gid)); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return home
}

// sweeper waits for the end of its input, which closes when the test's process ends for any reason. Then it ends the machines, which
// libvirtd leaves running, and removes the folder. It ends only processes with the folder in their command line, because another process
// may have the ID in a file by then.
const sweeper = `cat >/dev/null
for file in "$1"/run/libvirt/qemu/run/*.pid; do
  pid=$(cat "$file") && grep -q -F "$1" "/proc/$pid/cmdline" && kill -KILL "$pid"
done
rm -rf "$1"`

func startSweeper(tb testing.TB, home string) {
	tb.Helper()
	// It outlives the test.
	cmd := exec.CommandContext(context.Background(), "/bin/sh", "-c", sweeper, "sweeper", home) //nolint:gosec // this package made the folder
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}                                       // so that Ctrl-C does not end it
	input, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatalf("start the sweeper: %v", err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(input.Close(), cmd.Wait()); err != nil {
			tb.Errorf("sweep %s: %v", home, err)
		}
	})
}

// unprivileged is the user of libvirtd: as root, libvirtd would use the system's folders.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil //nolint:nilnil // the current user is unprivileged
	}
	nobody, err := user.Lookup(TapOwner)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(nobody.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(nobody.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

// virsh runs a command of libvirt's client.
func (l *Libvirt) virsh(ctx context.Context, args ...string) error {
	_, err := run(ctx, "/usr/bin/virsh", slices.Concat([]string{"--connect", l.URI}, args)...)
	return err
}

// EndOverride makes a running machine boot by the order of its firmware from its next reset on, as servers do whose BMC has a boot override for one boot.
// sushy-tools writes the override into the description of the machine, where it stays, and QEMU keeps it from its start. The next start has it again.
func (l *Libvirt) EndOverride(ctx context.Context, machine string, device Device) error {
	return l.virsh(ctx, "qemu-monitor-command", machine,
		fmt.Sprintf(`{"execute": "qom-set", "arguments": {"path": "/machine/peripheral/%s", "property": "bootindex", "value": -1}}`, device))
}

// Device is a device of a machine that an override names.
type Device string

// The devices, by libvirt's names.
const (
	NetworkCard  Device = "net0"
	OpticalDrive Device = "sata0-0-1"
)

// define defines an object of libvirt from its description.
func (l *Libvirt) define(tb testing.TB, command, home, description string, m Machine) {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "description.xml")
	network := "<interface type='user'>"
	if m.Tap != "" {
		network = "<interface type='ethernet'><target dev='" + m.Tap + "' managed='no'/>"
	}
	processor := ""
	if m.CPU != "" {
		processor = "<cpu mode='" + m.CPU + "'/>"
	}
	write(tb, path, strings.NewReplacer("HOME", home, "NAME", m.Name, "UUID", m.UUID, "MAC", m.MAC, "NETWORK", network, "MEMORY", strconv.Itoa(max(m.MemoryGiB, 1)),
		"PROCESSORS", strconv.Itoa(max(m.Processors, 1)), "CPU", processor).Replace(description))
	if err := l.virsh(tb.Context(), command, path); err != nil {
		tb.Fatal(err)
	}
}

// poolXML describes the folder of the disks and images.
const poolXML = `<pool type='dir'><name>default</name><target><path>HOME/pool</path></target></pool>`

// machineXML describes a machine (libvirt.org/formatdomain.html). type='qemu' needs no hardware virtualization. The network card has no
// ROM, so the firmware's own network boot is used.
const machineXML = `<domain type='qemu'>
  <name>NAME</name>
  <uuid>UUID</uuid>
  <memory unit='GiB'>MEMORY</memory>
  <vcpu>PROCESSORS</vcpu>
  CPU
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <loader readonly='yes' secure='no' type='pflash'>` + firmware + `</loader>
    <nvram template='` + firmwareVars + `'>HOME/NAME.fd</nvram>
  </os>
  <features><acpi/><apic/><smm state='on'/></features>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw' cache='unsafe' discard='unmap'/>
      <source file='HOME/pool/NAME.raw'/>
      <target dev='sda' bus='sata'/>
      <serial>NAME</serial>
    </disk>
    <disk type='file' device='cdrom'><target dev='sdb' bus='sata'/><readonly/></disk>
    NETWORK<mac address='MAC'/><model type='virtio'/><rom enabled='no'/></interface>
    <serial type='file'><source path='HOME/NAME.console'/></serial>
    <video><model type='none'/></video>
    <memballoon model='none'/>
  </devices>
</domain>`
