package hardware_test

import (
	"context"
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

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive/drivetest"
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

// ports are the ports of drives, by the kernel's names.
func ports(drives map[string]*drivetest.Drive) func(string) drive.Port {
	return func(name string) drive.Port {
		if d := drives[name]; d != nil {
			return d.Port(0)
		}
		return nil
	}
}

func drive1(kind drive.Kind, change func(*drivetest.Drive)) *drivetest.Drive {
	d := drivetest.New(kind, 1, 1<<20, 1)
	change(d)
	return d
}

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

func TestGolden(t *testing.T) {
	answering := ports(map[string]*drivetest.Drive{
		"nvme0n1": drive1(drive.NVMe, func(d *drivetest.Drive) { d.Crypto, d.BlockErase, d.Format, d.FormatCrypto = true, true, true, true }),
		"sda":     drive1(drive.ATA, func(d *drivetest.Drive) { d.Crypto, d.SecurityErase, d.Frozen = true, true, true }),
	})
	management := bmc{
		"\x06\x01": "\x20\x01\x05\x08", "\x06\x42\x01": "\x01\x04", "\x06\x42\x02": "\x02\x08",
		"\x0c\x02\x01\x03\x00\x00": "\x11\xc0\x00\x02\x0a", "\x0c\x02\x01\x05\x00\x00": "\x11\xaa\xbb\xcc\x00\x00\xff",
		"\x0c\x02\x01\x38\x00\x00": "\x11\x00\x80\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x40\x00",
	}
	for name, c := range map[string]struct {
		source hardware.Source
		tree   tree
		disks  []wire.InspectedDisk
	}{
		"qemu": {hardware.Source{BMC: bmc(nil), Links: links{"eth0": {}}}, qemu(), []wire.InspectedDisk{{Name: "vda", Transport: wire.TransportVirtio, SizeBytes: 1 << 30}}},
		"server": {
			hardware.Source{BMC: management, Port: answering, Links: links{"eno1": {PermanentMAC: "aa:bb:cc:00:00:02", Driver: "ice", Firmware: "4.40 0x8001c967 1.3534.0"}}},
			server(), []wire.InspectedDisk{{Name: "nvme0n1", Transport: wire.TransportNVMe, SizeBytes: 1 << 40}, {Name: "sda", Transport: wire.TransportSATA, SizeBytes: 1 << 40}},
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
	g.Expect(s.Collect(t.Context(), nil, "").CPU).To(Equal(wire.InspectedCPU{
		Architecture: "arm64", Model: "Example CPU 8000", Sockets: 2, Cores: 4, Threads: 8, NUMANodes: 2, Features: []string{"asimd", "atomics", "sve"},
	}))
}

// TestHangingDisk: a disk that does not answer is a problem at the end of the context.
func TestHangingDisk(t *testing.T) {
	g := NewWithT(t)
	hold := make(chan struct{})
	defer close(hold)
	ctx, cancel := context.WithCancelCause(t.Context())
	d := drive1(drive.NVMe, func(d *drivetest.Drive) {
		d.Hook = func(string) error {
			cancel(errors.New("the time is over"))
			<-hold
			return nil
		}
	})
	s := hardware.Source{Root: qemu().write(t), Port: ports(map[string]*drivetest.Drive{"nvme0n1": d})}
	inv := s.Collect(ctx, []wire.InspectedDisk{{Name: "nvme0n1", Transport: wire.TransportNVMe}}, "")
	g.Expect(inv.Problems).To(ContainElement("disk nvme0n1: it did not answer commands: the time is over"))
}

// TestDisks: an inspection reports what package drive reads of a disk. Of one that does not answer, nothing is known.
func TestDisks(t *testing.T) {
	silent := func(d *drivetest.Drive) { d.Hook = func(string) error { return errors.New("no answer") } }
	for _, c := range []struct {
		name      string
		drive     *drivetest.Drive
		transport wire.DiskTransport
		methods   []string
		class     wire.ErasePolicy
		health    wire.Health
		problem   string
	}{
		{"NVMe", drive1(drive.NVMe, func(d *drivetest.Drive) { d.Crypto, d.SMART = true, 1 }), wire.TransportNVMe, []string{"Overwrite", "NVMeSanitizeCrypto"}, wire.PolicyPurge, "Warning", ""},
		{"NVMe without commands", drive1(drive.NVMe, func(*drivetest.Drive) {}), wire.TransportNVMe, []string{"Overwrite"}, wire.PolicyClear, "OK", ""},
		{"ATA", drive1(drive.ATA, func(d *drivetest.Drive) { d.SecurityErase, d.Frozen = true, true }), wire.TransportSATA, []string{"Overwrite", "ATAErase"}, wire.PolicyClear, "", "frozen by the firmware"},
		{"locked ATA", drive1(drive.ATA, func(d *drivetest.Drive) { d.BlockErase, d.SecurityErase = true, true; d.SetPassword("unknown") }), wire.TransportSATA, []string{"Overwrite", "ATASanitizeBlock", "ATAErase"}, wire.PolicyPurge, "", "locked by a password"},
		{"SAS", drive1(drive.SCSI, func(d *drivetest.Drive) { d.Crypto = true }), wire.TransportSAS, []string{"Overwrite", "SCSISanitizeCrypto"}, wire.PolicyPurge, "", ""},
		{"virtio", nil, wire.TransportVirtio, []string{"Overwrite"}, wire.PolicyClear, "", ""},
		{"silent NVMe", drive1(drive.NVMe, silent), wire.TransportNVMe, nil, "", "", "NVMe Identify Controller: no answer"},
		{"silent SAS", drive1(drive.SCSI, silent), wire.TransportSAS, nil, "", "", "SCSI INQUIRY: no answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			s := hardware.Source{Root: qemu().write(t), Port: ports(map[string]*drivetest.Drive{"d0": c.drive})}
			inv := s.Collect(t.Context(), []wire.InspectedDisk{{Name: "d0", Transport: c.transport}}, "")
			got := inv.Disks[0]
			g.Expect(got.EraseMethods).To(Equal(c.methods))
			g.Expect(got.EraseClass).To(Equal(c.class))
			g.Expect(got.Health).To(Equal(c.health))
			if c.problem != "" {
				g.Expect(inv.Problems).To(ContainElement(And(HavePrefix("disk d0: "), ContainSubstring(c.problem))))
			}
		})
	}
}

func TestSecureBoot(t *testing.T) {
	g := NewWithT(t)
	g.Expect(hardware.ParseSecureBoot([]byte{6, 0, 0, 0, 1})).To(Equal(wire.SecureBootEnabled))
	g.Expect(hardware.ParseSecureBoot([]byte{6, 0, 0, 0, 0})).To(Equal(wire.SecureBootDisabled))
	for _, content := range [][]byte{nil, {6, 0, 0, 0}, {6, 0, 0, 0, 2}, {6, 0, 0, 0, 1, 0}} {
		g.Expect(hardware.ParseSecureBoot(content)).To(BeEmpty())
	}
	g.Expect((&hardware.Source{Root: server().write(t)}).SecureBoot()).To(Equal(wire.SecureBootEnabled))
	g.Expect((&hardware.Source{Root: t.TempDir()}).SecureBoot()).To(BeEmpty(), "a BIOS")
}

// TestDamagedTables: what precedes the damage is kept.
func TestDamagedTables(t *testing.T) {
	g := NewWithT(t)
	whole := structure(1, 27, map[int]any{4: 1, 7: 2, 8: systemID}, "Example", "To Be Filled By O.E.M.")
	tables, err := hardware.ParseTables([]byte("_SM_\x00\x1f\x02\x05"), append(whole, 17, 3, 0, 0))
	g.Expect(err).To(MatchError(ContainSubstring("damaged after 1 structures")))
	g.Expect(tables.System).To(Equal(wire.InspectedSystem{Manufacturer: "Example", SystemUUID: "33221100-5544-7766-8899-aabbccddeeff"}), "before version 2.6 the UUID is big-endian")
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
		for _, text := range []string{tables.System.Manufacturer, tables.System.Model, tables.System.SerialNumber, tables.Processor} {
			if !utf8.ValidString(text) || len(text) > 256 {
				t.Fatalf("%q", text)
			}
		}
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
func inventories() *rapid.Generator[wire.Inspection] {
	text := rapid.OneOf(rapid.StringN(0, 40, -1), rapid.Just(strings.Repeat("<\u2028", 500)), rapid.Just("\xff\xfe\x00\n"), rapid.Just(strings.Repeat("é", 500)))
	return rapid.Custom(func(t *rapid.T) wire.Inspection {
		some := text.Draw(t, "text")
		inv := wire.Inspection{System: wire.InspectedSystem{Manufacturer: text.Draw(t, "manufacturer"), Model: some, SerialNumber: some}, CPU: wire.InspectedCPU{Model: some}}
		count := rapid.SampledFrom([]int{0, 1, 50})
		for range count.Draw(t, "disks") {
			inv.Disks = append(inv.Disks, wire.InspectedDisk{Name: "sda", SerialNumber: some, Model: some, Vendor: some, ByPath: some, EraseMethods: []string{some, "x"}, Signatures: []string{some}, Protected: some})
		}
		for range count.Draw(t, "network interfaces") {
			inv.NICs = append(inv.NICs, wire.InspectedNIC{Name: "eno1", MACAddress: "aa:bb:cc:00:00:01", FirmwareVersion: some, Neighbor: &wire.InspectedNeighbor{SystemDescription: some, PortID: some}})
		}
		for range count.Draw(t, "modules") {
			inv.Memory.DIMMs = append(inv.Memory.DIMMs, wire.InspectedDIMM{Slot: some, PartNumber: some})
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
	var inv wire.Inspection
	for range 100 {
		inv.NICs = append(inv.NICs, wire.InspectedNIC{Name: "eno1", MACAddress: "aa:bb:cc:00:00:01", Neighbor: &wire.InspectedNeighbor{PortID: "Ethernet1", SystemDescription: strings.Repeat("x", 255)}})
		inv.Disks = append(inv.Disks, wire.InspectedDisk{Name: "sda", SerialNumber: "S1"})
	}
	out := hardware.Trim(inv)
	g.Expect(out.Disks).To(HaveLen(100))
	g.Expect(out.NICs).To(HaveLen(100))
	g.Expect(out.NICs[0].Neighbor).To(Equal(&wire.InspectedNeighbor{PortID: "Ethernet1"}))
	g.Expect(out.Problems).To(Equal([]string{fmt.Sprintf("the inventory has more than %d bytes; left out: the descriptions of LLDP neighbours", agent.MaxInventory)}))
}
