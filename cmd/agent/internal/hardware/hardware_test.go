package hardware_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/hardware"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

var update = flag.Bool("update", false, "write the golden files")

// links are network drivers.
type links map[string]hardware.Link

func (l links) Link(name string) (hardware.Link, error) {
	link, ok := l[name]
	if !ok {
		return link, errors.New("operation not supported")
	}
	return link, nil
}

// disks are disks that answer commands.
type disks struct {
	nvme func(opcode byte, data []byte) error
	scsi func(cdb, data []byte) (int, error)
}

func (d disks) NVMeAdmin(_ string, opcode byte, _, _ uint32, data []byte) error {
	return d.nvme(opcode, data)
}
func (d disks) SCSI(_ string, cdb, data []byte) (int, error) { return d.scsi(cdb, data) }

// bmc answers requests by network function, command and data.
type bmc map[string]string

func (b bmc) Command(ctx context.Context, netFn, command byte, data []byte) ([]byte, error) {
	if b == nil {
		return nil, hardware.ErrNoBMC
	}
	if answer, ok := b[string(append([]byte{netFn, command}, data...))]; ok {
		return []byte("\x00" + answer), ctx.Err()
	}
	return []byte{0xcc}, ctx.Err()
}

func identify() []byte {
	b := make([]byte, 4096)
	binary.LittleEndian.PutUint32(b[328:], 3)
	binary.LittleEndian.PutUint16(b[256:], 2)
	b[524] = 4
	return b
}

func ata(words map[int]uint16) []byte {
	b := make([]byte, 512)
	for word, value := range words {
		binary.LittleEndian.PutUint16(b[2*word:], value)
	}
	return b
}

func TestGolden(t *testing.T) {
	answering := disks{
		nvme: func(opcode byte, data []byte) error {
			if opcode == 6 {
				copy(data, identify())
			}
			return nil
		},
		scsi: func(cdb, data []byte) (int, error) {
			switch cdb[0] {
			case 0x12:
				return copy(data, "\x00\x00\x00\x02\x00\x89"), nil
			case 0x85:
				return copy(data, ata(map[int]uint16{59: 1<<12 | 1<<13, 82: 2, 83: 1 << 14, 128: 1 | 1<<3})), nil
			default:
				return 0, errors.New("unexpected")
			}
		},
	}
	management := bmc{
		"\x06\x01": "\x20\x01\x05\x08", "\x06\x42\x01": "\x01\x04", "\x06\x42\x02": "\x02\x08",
		"\x0c\x02\x01\x03\x00\x00": "\x11\xc0\x00\x02\x0a", "\x0c\x02\x01\x05\x00\x00": "\x11\xaa\xbb\xcc\x00\x00\xff",
		"\x0c\x02\x01\x38\x00\x00": "\x11\x00\x80\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x40\x00",
	}
	for name, c := range map[string]struct {
		source hardware.Source
		tree   tree
		disks  []agent.Disk
	}{
		"qemu": {hardware.Source{BMC: bmc(nil), Links: links{"eth0": {}}}, qemu(), []agent.Disk{{Name: "vda", Transport: "virtio", Size: 1 << 30}}},
		"server": {
			hardware.Source{BMC: management, Disks: answering, Links: links{"eno1": {PermanentMAC: "aa:bb:cc:00:00:02", Driver: "ice", Firmware: "4.40 0x8001c967 1.3534.0"}}},
			server(), []agent.Disk{{Name: "nvme0n1", Transport: "nvme", Size: 1 << 40}, {Name: "sda", Transport: "sata", Size: 1 << 40}},
		},
		"empty": {hardware.Source{}, tree{"proc/version": ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c.source.Root, c.source.Architecture = c.tree.write(t), "amd64"
			inv := c.source.Collect(t.Context(), c.disks, "v1.2.3")
			for i, p := range inv.Problems {
				inv.Problems[i] = strings.ReplaceAll(p, c.source.Root, "")
			}
			got, err := json.MarshalIndent(inv, "", "  ")
			g.Expect(err).NotTo(HaveOccurred())
			path := filepath.Join("testdata", name+".json")
			if *update {
				g.Expect(os.WriteFile(path, append(got, '\n'), 0o600)).To(Succeed())
			}
			want, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(got) + "\n").To(Equal(string(want)))
		})
	}
}

// TestArm64: neither the model nor the sockets are in /proc and /sys.
func TestArm64(t *testing.T) {
	g := NewWithT(t)
	files := server()
	files["proc/cpuinfo"] = "processor\t: 0\nFeatures\t: fp asimd sve atomics\nCPU implementer\t: 0x41\n"
	for i := range 8 {
		files["sys/devices/system/cpu/cpu"+string(rune('0'+i))+"/topology/physical_package_id"] = "-1\n"
	}
	s := hardware.Source{Root: files.write(t), Architecture: "arm64"}
	g.Expect(s.Collect(t.Context(), nil, "").CPU).To(Equal(agent.CPU{
		Architecture: "arm64", Model: "Example CPU 8000", Sockets: 2, Cores: 4, Threads: 8, NUMANodes: 2, Features: []string{"asimd", "atomics", "sve"},
	}))
}

// TestHangingDisk: a disk that does not answer is a problem at the end of the context.
func TestHangingDisk(t *testing.T) {
	g := NewWithT(t)
	hold := make(chan struct{})
	defer close(hold)
	ctx, cancel := context.WithCancelCause(t.Context())
	d := disks{nvme: func(byte, []byte) error {
		cancel(errors.New("the time is over"))
		<-hold
		return nil
	}}
	s := hardware.Source{Root: qemu().write(t), Disks: d}
	inv := s.Collect(ctx, []agent.Disk{{Name: "nvme0n1", Transport: "nvme"}}, "")
	g.Expect(inv.Problems).To(ContainElement("disk nvme0n1: it did not answer commands: the time is over"))
}

func TestATA(t *testing.T) {
	g := NewWithT(t)
	supported := map[int]uint16{59: 1<<12 | 1<<13 | 1<<14 | 1<<15, 82: 2, 83: 1 << 14, 128: 1 | 1<<5}
	id, err := hardware.ParseATAIdentify(ata(supported))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(id).To(Equal(hardware.ATAIdentity{Methods: []string{"ata-sanitize-crypto", "ata-sanitize-block", "ata-sanitize-overwrite", "ata-secure-erase-enhanced", "ata-secure-erase"}}))
	supported[128] |= 1 << 3
	id, err = hardware.ParseATAIdentify(ata(supported))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(id.Frozen).To(BeTrue())
	g.Expect(id.Methods).NotTo(ContainElement("ata-secure-erase"))
	supported[255] = 0x01a5
	_, err = hardware.ParseATAIdentify(ata(supported))
	g.Expect(err).To(MatchError(ContainSubstring("wrong checksum")))
	_, err = hardware.ParseATAIdentify(make([]byte, 511))
	g.Expect(err).To(HaveOccurred())
	g.Expect(hardware.ParseATAIdentify(make([]byte, 512))).To(Equal(hardware.ATAIdentity{}))
}

func TestNVMe(t *testing.T) {
	g := NewWithT(t)
	g.Expect(hardware.ParseNVMeIdentify(identify())).To(Equal([]string{"nvme-sanitize-crypto", "nvme-sanitize-block", "nvme-format-crypto", "nvme-format-user"}))
	g.Expect(hardware.ParseNVMeIdentify(make([]byte, 4096))).To(BeEmpty())
	_, err := hardware.ParseNVMeIdentify(make([]byte, 4095))
	g.Expect(err).To(HaveOccurred())
	for warning, want := range map[byte]string{0: "OK", 1: "Warning", 2: "Warning", 4: "Critical", 8: "Critical", 16: "Critical", 32: "Warning", 64: "OK"} {
		log := make([]byte, 512)
		log[0] = warning
		g.Expect(hardware.ParseNVMeHealth(log)).To(Equal(want), "%#x", warning)
	}
	worn := make([]byte, 512)
	worn[5] = 100
	g.Expect(hardware.ParseNVMeHealth(worn)).To(Equal("Warning"))
	_, err = hardware.ParseNVMeHealth(nil)
	g.Expect(err).To(HaveOccurred())
}

// TestSCSI: SANITIZE counts only if the disk reports it as a standard has it.
func TestSCSI(t *testing.T) {
	g := NewWithT(t)
	d := disks{scsi: func(cdb, data []byte) (int, error) {
		switch {
		case cdb[0] == 0x12:
			return copy(data, "\x00\x00\x00\x03\x00\x80\x83"), nil
		case cdb[5] == 3:
			return copy(data, "\x00\x03\x00\x0a"), nil
		case cdb[5] == 2:
			return copy(data, "\x00\x05\x00\x0a"), nil
		default:
			return 0, errors.New("the command is refused")
		}
	}}
	s := hardware.Source{Root: qemu().write(t), Disks: d}
	inv := s.Collect(t.Context(), []agent.Disk{{Name: "sda", Transport: "sas"}}, "")
	g.Expect(inv.Disks[0].Erase).To(Equal([]string{"scsi-sanitize-crypto", "overwrite"}))
	for _, c := range [][]byte{nil, {0, 0, 0, 9}, {0, 1, 0, 0}} {
		_, err := hardware.ParseVPDPages(c)
		g.Expect(err).To(HaveOccurred())
	}
}

// TestErasesByOverwrite: a disk that has answered can at least be overwritten. Of one that has not answered, no methods are known.
func TestErasesByOverwrite(t *testing.T) {
	g := NewWithT(t)
	silent := errors.New("no answer")
	s := hardware.Source{Root: qemu().write(t), Disks: disks{
		nvme: func(byte, []byte) error { return silent }, scsi: func(_, _ []byte) (int, error) { return 0, silent },
	}}
	inv := s.Collect(t.Context(), []agent.Disk{{Name: "d0", Transport: "nvme"}, {Name: "d1", Transport: "sas"}, {Name: "d2", Transport: "virtio"}}, "")
	g.Expect([][]string{inv.Disks[0].Erase, inv.Disks[1].Erase, inv.Disks[2].Erase}).To(Equal([][]string{nil, nil, {"overwrite"}}))
	s.Disks = disks{nvme: func(byte, []byte) error { return nil }}
	inv = s.Collect(t.Context(), []agent.Disk{{Name: "d0", Transport: "nvme"}}, "")
	g.Expect(inv.Disks[0].Erase).To(Equal([]string{"overwrite"}), "it offers no command")
}

func TestSecureBoot(t *testing.T) {
	g := NewWithT(t)
	g.Expect(hardware.ParseSecureBoot([]byte{6, 0, 0, 0, 1})).To(Equal(agent.SecureBootEnabled))
	g.Expect(hardware.ParseSecureBoot([]byte{6, 0, 0, 0, 0})).To(Equal(agent.SecureBootDisabled))
	for _, content := range [][]byte{nil, {6, 0, 0, 0}, {6, 0, 0, 0, 2}, {6, 0, 0, 0, 1, 0}} {
		g.Expect(hardware.ParseSecureBoot(content)).To(BeEmpty())
	}
	g.Expect((&hardware.Source{Root: server().write(t)}).SecureBoot()).To(Equal(agent.SecureBootEnabled))
	g.Expect((&hardware.Source{Root: t.TempDir()}).SecureBoot()).To(BeEmpty(), "a BIOS")
}

// TestDamagedTables: what precedes the damage is kept.
func TestDamagedTables(t *testing.T) {
	g := NewWithT(t)
	whole := structure(1, 27, map[int]any{4: 1, 7: 2, 8: systemID}, "Example", "To Be Filled By O.E.M.")
	tables, err := hardware.ParseTables([]byte("_SM_\x00\x1f\x02\x05"), append(whole, 17, 3, 0, 0))
	g.Expect(err).To(MatchError(ContainSubstring("damaged after 1 structures")))
	g.Expect(tables.System).To(Equal(agent.System{Manufacturer: "Example", UUID: "33221100-5544-7766-8899-aabbccddeeff"}), "before version 2.6 the UUID is big-endian")
	_, err = hardware.ParseTables(nil, nil)
	g.Expect(err).To(MatchError(ContainSubstring("is empty")))
	_, err = hardware.ParseTables(nil, []byte{1, 4, 0, 0, 'a'})
	g.Expect(err).To(MatchError(ContainSubstring("ends in its structure 0")))
}

func FuzzTables(f *testing.F) {
	f.Add([]byte("_SM3_"), []byte(server()["sys/firmware/dmi/tables/DMI"]))
	f.Add([]byte("_SM_\x00\x1f\x02\x05"), []byte(qemu()["sys/firmware/dmi/tables/DMI"]))
	f.Fuzz(func(t *testing.T, entry, table []byte) {
		tables, _ := hardware.ParseTables(entry, table)
		for _, text := range []string{tables.System.Manufacturer, tables.System.Product, tables.System.SerialNumber, tables.Processor} {
			if !utf8.ValidString(text) || len(text) > 256 {
				t.Fatalf("%q", text)
			}
		}
	})
}

func FuzzDisks(f *testing.F) {
	f.Add(identify())
	f.Add(ata(map[int]uint16{59: 0xffff, 82: 2, 83: 1 << 14, 128: 1}))
	f.Add([]byte("\x00\x00\x00\x03\x00\x80\x83"))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = hardware.ParseNVMeIdentify(data)
		_, _ = hardware.ParseNVMeHealth(data)
		_, _ = hardware.ParseATAIdentify(data)
		_, _ = hardware.ParseVPDPages(data)
		hardware.ParseSupportedOperation(data)
	})
}

// FuzzBMC: whatever a BMC answers, Collect ends with an inventory.
func FuzzBMC(f *testing.F) {
	f.Add([]byte("\x00\x11\xc0\x00\x02\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		s := hardware.Source{Root: "/nowhere", BMC: echo(answer)}
		if inv := s.Collect(t.Context(), nil, ""); len(inv.Problems) == 0 {
			t.Fatal("an empty root has problems")
		}
	})
}

type echo []byte

func (e echo) Command(context.Context, byte, byte, []byte) ([]byte, error) { return e, nil }

// inventories generates inventories with hostile texts and long lists.
func inventories() *rapid.Generator[agent.Inventory] {
	text := rapid.OneOf(rapid.StringN(0, 40, -1), rapid.Just(strings.Repeat("<\u2028", 500)), rapid.Just("\xff\xfe\x00\n"), rapid.Just(strings.Repeat("é", 500)))
	return rapid.Custom(func(t *rapid.T) agent.Inventory {
		some := text.Draw(t, "text")
		inv := agent.Inventory{System: agent.System{Manufacturer: text.Draw(t, "manufacturer"), Product: some, SerialNumber: some}, CPU: agent.CPU{Model: some}}
		count := rapid.SampledFrom([]int{0, 1, 50})
		for range count.Draw(t, "disks") {
			inv.Disks = append(inv.Disks, agent.Disk{Name: "sda", Serial: some, Model: some, Vendor: some, ByPath: some, Erase: []string{some, "x"}, Signatures: []string{some}, Protected: some})
		}
		for range count.Draw(t, "network interfaces") {
			inv.NICs = append(inv.NICs, agent.NIC{Name: "eno1", MAC: "aa:bb:cc:00:00:01", Firmware: some, LLDP: &agent.Neighbor{SystemDescription: some, PortID: some}})
		}
		for range count.Draw(t, "modules") {
			inv.Memory.DIMMs = append(inv.Memory.DIMMs, agent.DIMM{Slot: some, PartNumber: some})
		}
		for range count.Draw(t, "problems") {
			inv.Problems = append(inv.Problems, some)
		}
		return inv
	})
}

// TestTrim: an inventory always fits, what fits is not reduced, and the argument does not change.
func TestTrim(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		inv := inventories().Draw(t, "inventory")
		before, err := json.Marshal(inv)
		g.Expect(err).NotTo(HaveOccurred())
		out := hardware.Trim(inv)
		content, err := json.Marshal(out)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(content)).To(BeNumerically("<=", agent.MaxInventory))
		after, err := json.Marshal(inv)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(after).To(Equal(before))
		again, err := json.Marshal(hardware.Trim(out))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(again)).To(Equal(string(content)), "a trimmed inventory stays as it is")
		if len(before) < agent.MaxInventory/2 {
			g.Expect(out.Disks).To(HaveLen(len(inv.Disks)))
		}
	})
}

// TestTrimOrder: the disks of a large server stay when the descriptions of its switches do not fit.
func TestTrimOrder(t *testing.T) {
	g := NewWithT(t)
	var inv agent.Inventory
	for range 100 {
		inv.NICs = append(inv.NICs, agent.NIC{Name: "eno1", MAC: "aa:bb:cc:00:00:01", LLDP: &agent.Neighbor{PortID: "Ethernet1", SystemDescription: strings.Repeat("x", 255)}})
		inv.Disks = append(inv.Disks, agent.Disk{Name: "sda", Serial: "S1"})
	}
	out := hardware.Trim(inv)
	g.Expect(out.Disks).To(HaveLen(100))
	g.Expect(out.NICs).To(HaveLen(100))
	g.Expect(out.NICs[0].LLDP).To(Equal(&agent.Neighbor{PortID: "Ethernet1"}))
	g.Expect(out.Problems).To(Equal([]string{fmt.Sprintf("the inventory has more than %d bytes; left out: the descriptions of LLDP neighbours", agent.MaxInventory)}))
}
