package disk

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestPaths: two devices with one WWN are one disk; so are two with one identifier of the kernel, or with one serial number, model and size. No plan touches it,
// and the reason names the other device.
func TestPaths(t *testing.T) {
	const sas = "pci0000:00/0000:00:01.1/0000:03:00.0/host4/"
	scsi := func(address, name, wwid, serial string) (string, map[string]string) {
		target, _, _ := strings.Cut(address, ":0:")
		attributes := map[string]string{"device/type": "0", "device/model": "ST8000", "device/vpd_pg80": page(0x80, serial), "size": "15628053168"}
		if wwid != "" {
			attributes["device/wwid"] = wwid
		}
		return sas + "target4:0:" + target + "/" + address + "/block/" + name, attributes
	}
	tr := newTree(t)
	for _, d := range []struct{ address, name, wwid, serial string }{
		{"4:0:0:0", "sda", "naa.5000c500a1b2c3d4", "ZA1"},
		{"4:0:1:0", "sdb", "naa.5000C500A1B2C3D4", "ZA1"}, // the other port of sda
		{"4:0:2:0", "sdc", "naa.5000c500a1b2c3d5", "ZA1"}, // another LUN of a storage system with one serial number
		{"4:0:3:0", "sdd", "", "ZA2"},
		{"4:0:4:0", "sde", "", "za2 "}, // the other port of sdd, neither has a WWN
		{"4:0:5:0", "sdf", "", ""},
		{"4:0:6:0", "sdg", "", ""}, // nothing is known of these two
	} {
		path, attributes := scsi(d.address, d.name, d.wwid, d.serial)
		tr.disk(path, attributes)
	}
	for _, name := range []string{"nvme0n1", "nvme0n2"} { // two namespaces of one disk, which has no EUI-64
		tr.disk("pci0000:5d/0000:5d:05.0/nvme/nvme0/"+name, map[string]string{"nsid": name[6:], "device/serial": "PHAC1", "wwid": "nvme.8086-50484143-5353-0000000" + name[6:]})
	}
	disks, err := List(t.Context(), tr.Tree)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"sda": "sdb", "sdb": "sda", "sdd": "sde", "sde": "sdd"}
	for _, d := range disks {
		if got := strings.Join(d.Paths, " "); got != want[d.Name] {
			t.Errorf("%s is the same disk as %q, and not %q", d.Name, got, want[d.Name])
		}
		protected := Protected(d, agent.RootDevice{SerialNumber: d.SerialNumber, WWN: d.WWN}, nil)
		if (protected != "") != (want[d.Name] != "") || !strings.Contains(protected, want[d.Name]) {
			t.Errorf("%s is protected: %q", d.Name, protected)
		}
	}
	for _, hints := range []agent.RootDevice{{SerialNumber: "ZA2"}, {WWN: "5000c500a1b2c3d4"}, {Name: "sda"}, {HCTL: "4:0:1:0"}} {
		if _, err := Select(disks, hints, nil); !failure.HasReason(err, wire.ReasonDiskProtected) || !strings.Contains(err.Error(), "the same disk as") {
			t.Errorf("%+v: %v", hints, err)
		}
	}
	if d, err := Select(disks, agent.RootDevice{}, nil); err != nil || !strings.HasPrefix(d.Name, "nvme0") {
		t.Errorf("without hints: %s, %v", d.Name, err)
	}
}

// TestUnreadable: a disk whose content is unknown might have a file system of other servers. Only its serial number selects it.
func TestUnreadable(t *testing.T) {
	broken, good := testDisk("sda", "A1", 8<<30), testDisk("sdb", "B1", 9<<30)
	broken.Unreadable = "it cannot be read: input/output error"
	for _, c := range []struct {
		hints agent.RootDevice
		want  string
	}{{agent.RootDevice{}, "sdb"}, {agent.RootDevice{Name: "sda"}, wire.ReasonDiskProtected}, {agent.RootDevice{SerialNumber: "A1"}, "sda"}} {
		d, err := Select([]Disk{broken, good}, c.hints, nil)
		if err != nil && (!failure.HasReason(err, c.want) || !strings.Contains(err.Error(), "input/output error")) || err == nil && d.Name != c.want {
			t.Errorf("%+v: %s, %v", c.hints, d.Name, err)
		}
	}
}

// TestIs: beside the rule of package diskname, the size is compared, and a disk has two names in by-path.
func TestIs(t *testing.T) {
	d := testDisk("sda", "S1", 7)
	d.ByPath, d.ByPathAlias, d.WWN = "pci-1", "virtio-pci-1", "5000c500a1b2c3d4"
	for name, c := range map[string]struct {
		id wire.DiskIdentity
		is bool
	}{
		"itself":                             {d.ID(), true},
		"of unknown size":                    {wire.DiskIdentity{SerialNumber: "s1 "}, true},
		"of another size":                    {wire.DiskIdentity{SerialNumber: "S1", SizeBytes: 8}, false},
		"with another WWN":                   {wire.DiskIdentity{SerialNumber: "S1", WWN: "5000c500a1b2c3d5", SizeBytes: 7}, false},
		"by its path":                        {wire.DiskIdentity{ByPath: "pci-1"}, true},
		"by another name of it":              {wire.DiskIdentity{ByPath: "virtio-pci-1"}, true},
		"by another path":                    {wire.DiskIdentity{ByPath: "pci-2"}, false},
		"nothing is wanted":                  {wire.DiskIdentity{}, false},
		"nothing is wanted, and of its size": {wire.DiskIdentity{SizeBytes: 7}, false},
	} {
		if got := d.Is(c.id); got != c.is {
			t.Errorf("%s: %t", name, got)
		}
	}
	if (Disk{}).Is(wire.DiskIdentity{}) {
		t.Error("a disk without a name is any disk")
	}
}

// TestPropertyPaths: a disk is never its own path, and the relation has two directions.
func TestPropertyPaths(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []Disk
		for i := range rapid.IntRange(0, 6).Draw(t, "disks") {
			d := testDisk(string(rune('a'+i)), rapid.SampledFrom([]string{"", "S1", "S2"}).Draw(t, "serial"), 1<<30)
			d.WWN, d.Model = rapid.SampledFrom([]string{"", "1", "2"}).Draw(t, "WWN"), "m"
			all = append(all, d)
		}
		findPaths(all)
		for _, d := range all {
			for _, path := range d.Paths {
				at := slices.IndexFunc(all, func(other Disk) bool { return other.Name == path })
				if path == d.Name || !slices.Contains(all[at].Paths, d.Name) || all[at].WWN != "" && d.WWN != "" && all[at].WWN != d.WWN {
					t.Fatalf("%s is %s", d.Name, path)
				}
			}
		}
	})
}
