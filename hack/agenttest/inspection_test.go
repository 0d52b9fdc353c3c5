package agenttest_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/mdlayher/packet"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestInspection: the report of the agent has the switch ports that neighbours announce by LLDP to each kind of card, the address of the BMC that the system
// interface (KCS) of the server reaches, and a disk that has two paths. It writes to no disk.
func TestInspection(t *testing.T) {
	g := NewWithT(t)
	w := newSegment(t, "10.90.0.0/24")
	w.dnsmasq(t, "10.90.0.100,10.90.0.150,2m")
	s := serve(t, w.address(), agent.PowerOff)
	s.Plan = agent.Plan{Title: "inspection", Purpose: agent.Inspect, Inspect: &agent.InspectPlan{LLDPSeconds: 60}}
	bmc := ipmiSim(t)
	cards := []card{{model: "virtio-net-pci", tap: w.tap(t)}, {model: "e1000e", tap: w.tap(t)}}
	for i, c := range cards {
		announce(t, c.tap, fmt.Sprintf("leaf-%d\x1b[2J", i), fmt.Sprintf("Ethernet%d", i))
	}
	disk := blankDisk(t)
	m := start(t, machine{cards: cards, server: s.url, args: slices.Concat(bmc.args, noShutdown, []string{
		"-device", "virtio-scsi-pci,id=scsi",
		"-drive", "if=none,id=a,format=raw,file.locking=off,file=" + disk, "-device", "scsi-hd,bus=scsi.0,drive=a,serial=TWICE,wwn=0x5000c500a1b2c3d4,share-rw=on",
		"-drive", "if=none,id=b,format=raw,file.locking=off,file=" + disk, "-device", "scsi-hd,bus=scsi.0,drive=b,serial=TWICE,wwn=0x5000c500a1b2c3d4,share-rw=on",
		"-drive", "if=none,id=c,format=raw,file=" + blankDisk(t), "-device", "virtio-blk-pci,drive=c,serial=ONCE",
	})})
	g.Eventually(func() bool { return s.Result() != nil || m.isOff() }, bootTimeout, "50ms").Should(BeTrue())
	g.Expect(s.Result()).NotTo(BeNil(), "the server went off before")
	g.Expect(s.Result().Failure).To(BeNil())
	reports := s.Requests(agent.EndpointInventory)
	g.Expect(reports).To(HaveLen(1))
	m.mu.Lock()
	kernel := m.kernel
	m.mu.Unlock()
	t.Logf("%.1f s from the kernel's start to the report, with neighbours that announce themselves every second", reports[0].At.Sub(kernel).Seconds())
	var found wire.Inspection
	g.Expect(json.Unmarshal(reports[0].Body, &found)).To(Succeed())
	t.Logf("the report has %d bytes; problems: %q", len(reports[0].Body), found.Problems)

	for i := range cards {
		g.Expect(found.NICs).To(ContainElement(And(HaveField("MACAddress", macOf(i)), HaveField("LinkUp", true), HaveField("Neighbor", Equal(&wire.InspectedNeighbor{
			ChassisID: "02:00:00:00:00:01", SystemName: fmt.Sprintf("leaf-%d[2J", i), PortID: fmt.Sprintf("Ethernet%d", i), ManagementAddress: "192.0.2.1", VLAN: 7,
		})))))
	}
	g.Expect(found.BMC).To(Equal(&wire.InspectedBMC{Address: bmc.address, MACAddress: bmc.mac, FirmwareVersion: "9.08"}))
	g.Expect(found.Disks).To(ContainElement(And(HaveField("SerialNumber", "ONCE"), HaveField("Protected", ""))))
	for _, name := range []string{"sda", "sdb"} {
		g.Expect(found.Disks).To(ContainElement(And(HaveField("Name", name), HaveField("Protected", ContainSubstring("the same disk as sd")))))
	}
	g.Expect(m.awaitWrites()).To(Equal(map[string]int{"a": 0, "b": 0, "c": 0}), "an inspection writes to no disk")
}

// announce sends LLDP frames to the server at a tap every second, as a switch does every 30 s. A bridge would not forward them (IEEE 802.1Q, table 8-1).
func announce(t *testing.T, tap, system, port string) {
	t.Helper()
	g := NewWithT(t)
	i, err := net.InterfaceByName(tap)
	g.Expect(err).NotTo(HaveOccurred())
	const etherType = 0x88cc
	conn, err := packet.Listen(i, packet.Raw, etherType, nil)
	g.Expect(err).NotTo(HaveOccurred())
	frame := []byte{0x01, 0x80, 0xc2, 0, 0, 0x0e, 0x02, 0, 0, 0, 0, 0x01, etherType >> 8, etherType & 0xff}
	for _, tlv := range []struct {
		kind  int
		value string
	}{
		{1, "\x04\x02\x00\x00\x00\x00\x01"}, {2, "\x05" + port}, {3, "\x00\x78"}, {5, system}, {8, "\x05\x01\xc0\x00\x02\x01\x02\x00\x00\x00\x01\x00"},
		{127, "\x00\x80\xc2\x01\x00\x07"}, {0, ""},
	} {
		frame = append(frame, byte(tlv.kind<<1|len(tlv.value)>>8), byte(len(tlv.value)))
		frame = append(frame, tlv.value...)
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for tick := time.NewTicker(time.Second); ; {
			_, _ = conn.WriteTo(frame, &packet.Addr{HardwareAddr: frame[:6]}) // before the server is on, nobody receives it
			select {
			case <-stop:
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		_ = conn.Close()
	})
}

// simulatedBMC is OpenIPMI's BMC emulator behind the system interface of a server.
type simulatedBMC struct {
	// args are the arguments of QEMU.
	args []string
	// address and mac are its LAN configuration.
	address, mac string
}

// lanConf is the configuration of ipmi_sim (ipmi_lan(5)). Its placeholders are the ports and the program with the LAN configuration, which the page leaves out.
const lanConf = `name "bmc"
set_working_mc 0x20
startlan 1
  addr 127.0.0.1 %d
  priv_limit admin
  lan_config_program "%s"
endlan
serial kcs 127.0.0.1 %d codec VM
user 2 true "admin" "secret" admin 10 none md2 md5 straight
`

// lanConfig answers "get NAME..." with a line for each name. Its placeholders are the addresses.
const lanConfig = `#!/bin/sh
shift
for what; do
	case $what in
	ip_addr) echo "ip_addr:%s" ;;
	ip_addr_src) echo "ip_addr_src:static" ;;
	mac_addr) echo "mac_addr:%s" ;;
	subnet_mask) echo "subnet_mask:255.255.255.0" ;;
	default_gw_ip_addr | backup_gw_ip_addr) echo "$what:0.0.0.0" ;;
	default_gw_mac_addr | backup_gw_mac_addr) echo "$what:00:00:00:00:00:00" ;;
	esac
done
`

// ipmiSim starts a BMC, which ends with the test.
func ipmiSim(t *testing.T) simulatedBMC {
	t.Helper()
	g := NewWithT(t)
	b := simulatedBMC{address: "198.51.100.23", mac: "02:00:00:00:be:ef"}
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		g.Expect(os.WriteFile(path, []byte(content), 0o700)).To(Succeed())
		return path
	}
	system := freePort(t)
	program := file("lan", fmt.Sprintf(lanConfig, b.address, b.mac))
	conf := file("lan.conf", fmt.Sprintf(lanConf, freePort(t), program, system))
	emulation := file("sim.emu", "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nmc_enable 0x20\n")
	g.Expect(os.Mkdir(filepath.Join(dir, "state"), 0o700)).To(Succeed())
	log, err := os.Create(filepath.Join(dir, "log"))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = log.Close() }()
	command := exec.CommandContext(t.Context(), "ipmi_sim", "-n", "-c", conf, "-f", emulation, "-s", filepath.Join(dir, "state"))
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	g.Expect(command.Start()).To(Succeed(), "hack/agenttest.sh installs it")
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
		if content, err := os.ReadFile(log.Name()); t.Failed() {
			t.Logf("ipmi_sim: %v\n%s", err, content)
		}
	})
	b.args = []string{
		"-chardev", "socket,id=bmc,host=127.0.0.1,reconnect=1,port=" + strconv.Itoa(system),
		"-device", "ipmi-bmc-extern,id=bmc0,chardev=bmc", "-device", "isa-ipmi-kcs,bmc=bmc0",
	}
	return b
}
