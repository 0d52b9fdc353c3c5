package disk

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

func testDisk(name, serial string, size int64) Disk {
	return Disk{InspectedDisk: wire.InspectedDisk{Name: name, SerialNumber: serial, SizeBytes: size, ByPath: "pci-0000:00:1f.2-ata-" + name, Model: "Model " + name, WWN: "5000c500" + serial}}
}

func TestSelect(t *testing.T) {
	const gib = 1 << 30
	a, b, c := testDisk("sda", "A1", 900*gib), testDisk("sdb", "B1", 400*gib), testDisk("sdc", "C1", 400*gib)
	b.ByPath, c.ByPath = "pci-0000:00:1f.2-ata-10.0", "pci-0000:00:1f.2-ata-2.0"
	b.ByPathAlias = "pci-0000:00:1f.2-ata-10"
	usb, tiny, noSerial := testDisk("sdd", "D1", 8*gib), testDisk("sde", "E1", gib), testDisk("sdf", "", 100*gib)
	usb.Transport = wire.TransportUSB
	mounted, vmfs := testDisk("sdg", "G1", 8*gib), testDisk("sdh", "H1", 8*gib)
	mounted.Mounted, vmfs.Found = []string{"/"}, []Signature{{Type: "vmfs"}}
	all := []Disk{a, b, c, usb, tiny, mounted, vmfs}
	rotational := true
	for _, test := range []struct {
		name  string
		disks []Disk
		want  agent.RootDevice
		keep  []wire.KeptDisk
		disk  string // or the reason
	}{
		{"the smallest, by by-path with its numbers", all, agent.RootDevice{}, nil, "sdc"},
		{"the smallest that is not kept", all, agent.RootDevice{}, []wire.KeptDisk{{SerialNumber: "c1 "}}, "sdb"},
		{"serial without case", all, agent.RootDevice{SerialNumber: "a1"}, nil, "sda"},
		{"wwn with a prefix", all, agent.RootDevice{WWN: "0x5000C500A1"}, nil, "sda"},
		{"model in part", all, agent.RootDevice{Model: "SDA"}, nil, "sda"},
		{"two models", all, agent.RootDevice{Model: "model"}, nil, wire.ReasonSeveralDisksMatch},
		{"minimum size", all, agent.RootDevice{MinSize: 500 * gib}, nil, "sda"},
		{"rotational", all, agent.RootDevice{Rotational: &rotational}, nil, wire.ReasonNoDiskMatches},
		{"the alias of by-path", all, agent.RootDevice{ByPath: "/dev/disk/by-path/pci-0000:00:1f.2-ata-10"}, nil, "sdb"},
		{"name", all, agent.RootDevice{Name: "/dev/sdb"}, nil, "sdb"},
		{"hints that exclude each other", all, agent.RootDevice{Name: "sdb", SerialNumber: "A1"}, nil, wire.ReasonNoDiskMatches},
		{"usb", all, agent.RootDevice{Name: "sdd"}, nil, wire.ReasonDiskProtected},
		{"usb by serial", all, agent.RootDevice{SerialNumber: "D1"}, nil, "sdd"},
		{"vmfs", all, agent.RootDevice{Name: "sdh"}, nil, wire.ReasonDiskProtected},
		{"vmfs by serial", all, agent.RootDevice{SerialNumber: "H1"}, nil, "sdh"},
		{"mounted by serial", all, agent.RootDevice{SerialNumber: "G1"}, nil, wire.ReasonDiskProtected},
		{"kept by serial", all, agent.RootDevice{SerialNumber: "A1"}, []wire.KeptDisk{{SerialNumber: "A1"}}, wire.ReasonDiskProtected},
		{"small disks only", []Disk{tiny}, agent.RootDevice{}, nil, wire.ReasonNoDiskMatches},
		{"a small disk by serial", []Disk{tiny}, agent.RootDevice{SerialNumber: "E1"}, nil, "sde"},
		{"no disks", nil, agent.RootDevice{}, nil, wire.ReasonNoDiskMatches},
		{"no serial, and a kept one is missing", []Disk{noSerial, a}, agent.RootDevice{}, []wire.KeptDisk{{SerialNumber: "Z9"}}, "sda"},
		{"no serial, and the kept one is there", []Disk{noSerial, a}, agent.RootDevice{}, []wire.KeptDisk{{SerialNumber: "A1"}}, "sdf"},
	} {
		got, err := Select(test.disks, test.want, test.keep)
		if err != nil {
			f := failure.Of(err)
			if f == nil || f.Reason != test.disk {
				t.Errorf("%s: %v, not %s", test.name, err, test.disk)
			}
			for _, d := range test.disks {
				if !strings.Contains(f.Message, d.Name+" (") || !strings.Contains(f.Message, d.ByPath) || !strings.Contains(f.Message, d.WWN) {
					t.Errorf("%s: %s is not in %q", test.name, d.Name, f.Message)
				}
			}
		} else if got.Name != test.disk {
			t.Errorf("%s: %s, not %s", test.name, got.Name, test.disk)
		}
	}
}

// TestPropertySelect: what is selected matches and may be written, is the only one with hints, and does not depend on the order of the disks.
func TestPropertySelect(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var disks []Disk
		for i := range rapid.IntRange(0, 6).Draw(t, "disks") {
			d := testDisk(string(rune('a'+i)), rapid.SampledFrom([]string{"", "S1", "S2", "S3"}).Draw(t, "serial"), int64(rapid.IntRange(1, 8).Draw(t, "GiB"))<<30)
			d.Transport = rapid.SampledFrom([]wire.DiskTransport{wire.TransportSATA, wire.TransportUSB}).Draw(t, "transport")
			d.ReadOnly = rapid.IntRange(0, 5).Draw(t, "read-only") == 0
			d.Removable = rapid.IntRange(0, 5).Draw(t, "removable") == 0
			d.Model = rapid.SampledFrom([]string{"x", "y"}).Draw(t, "model")
			if rapid.IntRange(0, 5).Draw(t, "mounted") == 0 {
				d.Mounted = []string{"/mnt"}
			}
			disks = append(disks, d)
		}
		want := agent.RootDevice{
			SerialNumber: rapid.SampledFrom([]string{"", "", "s1", "S2"}).Draw(t, "wanted serial"), Model: rapid.SampledFrom([]string{"", "x"}).Draw(t, "wanted model"),
			MinSize: int64(rapid.SampledFrom([]int{0, 4}).Draw(t, "minimum")) << 30,
		}
		keep := rapid.SampledFrom([][]wire.KeptDisk{nil, {{SerialNumber: "S1"}}, {{SerialNumber: "S2"}, {SerialNumber: "S9"}}}).Draw(t, "keep")
		got, err := Select(disks, want, keep)
		reversed := slices.Clone(disks)
		slices.Reverse(reversed)
		again, err2 := Select(reversed, want, keep)
		if got.Name != again.Name || (err == nil) != (err2 == nil) {
			t.Fatalf("%s or %s, by the order", got.Name, again.Name)
		}
		usable := func(d Disk) bool {
			named := want.SerialNumber != "" && strings.EqualFold(want.SerialNumber, d.SerialNumber)
			return !d.ReadOnly && len(d.Mounted) == 0 && !slices.Contains(keep, wire.KeptDisk{SerialNumber: d.SerialNumber}) && (named || d.Transport != wire.TransportUSB && !d.Removable) &&
				(want.SerialNumber == "" || named) && strings.Contains(d.Model, want.Model) && d.SizeBytes >= want.MinSize
		}
		if err != nil {
			if failure.Of(err) == nil {
				t.Fatalf("%v is not a failure", err)
			}
			return
		}
		if !usable(got) {
			t.Fatalf("%+v is selected", got)
		}
		for _, d := range disks {
			if want == (agent.RootDevice{}) && usable(d) && d.SerialNumber != "" && d.SizeBytes >= 4<<30 && d.SizeBytes < got.SizeBytes {
				t.Fatalf("%s is smaller than %s", d.Name, got.Name)
			}
			if want != (agent.RootDevice{}) && d.Name != got.Name && d.SerialNumber != "" && usable(d) {
				t.Fatalf("%s matches as well as %s", d.Name, got.Name)
			}
		}
	})
}
