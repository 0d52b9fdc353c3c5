package disk

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
)

// TestProtect: what a plan keeps is protected also if the plan names the disk, and is left out. What is a disk of the server is a failure.
func TestProtect(t *testing.T) {
	disk := Disk{
		InspectedDisk: wire.InspectedDisk{Name: "sda", SerialNumber: "S1", WWN: "5000c500a0b1c2d3", Transport: wire.TransportSATA}, PartitionNames: []string{"ceph-data"},
		Found: []Signature{{Type: "xfs", Label: "DATA"}},
	}
	for _, keep := range []wire.KeptDisk{{SerialNumber: "s1 "}, {WWN: "0x5000C500A0B1C2D3"}, {Label: "ceph-data"}, {Label: "DATA"}} {
		g := NewWithT(t)
		g.Expect(Protect(disk, true, []wire.KeptDisk{{SerialNumber: "other"}, keep})).To(
			And(HaveField("Why", ContainSubstring("spec.storage.keep")), HaveField("Excluded", true)), "%+v", keep)
	}
	for _, keep := range []wire.KeptDisk{
		{}, {Label: " "}, {Label: "data"}, {Label: "Ceph-Data"}, {SerialNumber: "S"}, {WWN: "5000c500"}, {WWN: "0x"}, {SerialNumber: "DATA"}, {WWN: "DATA"}, {Label: "S1"},
	} {
		g := NewWithT(t)
		g.Expect(Protect(disk, false, []wire.KeptDisk{keep})).To(Equal(Protection{}), "%+v", keep)
	}
	g := NewWithT(t)
	shared := disk
	shared.Found = []Signature{{Type: "vmfs"}}
	g.Expect(Protect(shared, false, nil)).To(And(HaveField("Why", ContainSubstring("vmfs")), HaveField("Excluded", false)))
	g.Expect(Protect(shared, true, nil)).To(Equal(Protection{}))
	shared.Transport = wire.TransportFibreChannel
	g.Expect(Protect(shared, false, nil).Excluded).To(BeTrue())
	mounted := disk
	mounted.Mounted = []string{"/"}
	g.Expect(Protect(mounted, true, nil)).To(And(HaveField("Why", ContainSubstring("mounted")), HaveField("Excluded", false)))
}

// TestOtherDisksNameIsNoLabel: a tenant who knows which disk is kept cannot keep another one by writing that name as a label.
func TestOtherDisksNameIsNoLabel(t *testing.T) {
	g := NewWithT(t)
	kept := wire.KeptDisk{SerialNumber: "S1"}
	for _, d := range []Disk{
		{InspectedDisk: wire.InspectedDisk{SerialNumber: "S2"}, PartitionNames: []string{"S1"}}, {InspectedDisk: wire.InspectedDisk{SerialNumber: "S3"}, Found: []Signature{{Type: "xfs", Label: "S1"}}},
	} {
		g.Expect(Protect(d, false, []wire.KeptDisk{kept})).To(Equal(Protection{}))
		g.Expect(MayBeKept(d, []Disk{d}, []wire.KeptDisk{kept})).To(BeEmpty())
	}
}

// TestMayBeKept: a disk of which is unknown what an entry names might be the kept one, unless that one is found.
func TestMayBeKept(t *testing.T) {
	g := NewWithT(t)
	none, labelled := Disk{}, Disk{InspectedDisk: wire.InspectedDisk{SerialNumber: "S2", WWN: "5000c500a0b1c2d3"}, PartitionNames: []string{"data"}}
	pool := Disk{InspectedDisk: wire.InspectedDisk{SerialNumber: "S3", SizeBytes: 8 << 30}, Found: []Signature{{Type: "zfs"}}}
	all := []Disk{none, labelled, pool}
	data, tank, gone, there := wire.KeptDisk{Label: "data"}, wire.KeptDisk{Label: "tank"}, wire.KeptDisk{SerialNumber: "S9"}, wire.KeptDisk{SerialNumber: "s2"}
	for _, c := range []struct {
		name string
		disk Disk
		keep []wire.KeptDisk
		want string
	}{
		{"all are found", none, []wire.KeptDisk{data, there, {WWN: "naa.5000c500a0b1c2d3"}}, ""},
		{"no serial number", none, []wire.KeptDisk{data, gone}, "its serial number is unknown, and it might be S9"},
		{"another serial number", labelled, []wire.KeptDisk{gone}, ""},
		{"no WWN", pool, []wire.KeptDisk{{WWN: "5000c500a0b1c2d4"}}, "its WWN is unknown, and it might be 5000c500a0b1c2d4"},
		{"another WWN", labelled, []wire.KeptDisk{{WWN: "5000c500a0b1c2d4"}}, ""},
		{"the label is found", pool, []wire.KeptDisk{data}, ""},
		{"labels that are not read", pool, []wire.KeptDisk{tank}, "it has zfs, whose labels are not read, and it might be tank"},
		{"labels that are read", labelled, []wire.KeptDisk{tank}, ""},
		{"a file system that is unknown", Disk{InspectedDisk: wire.InspectedDisk{SerialNumber: "S4"}, Found: []Signature{{Type: "f2fs"}}}, []wire.KeptDisk{tank}, "it might be tank"},
		{"a partition table that is damaged", Disk{InspectedDisk: wire.InspectedDisk{SerialNumber: "S4"}, Found: []Signature{{Type: "gpt"}}}, []wire.KeptDisk{tank}, "it might be tank"},
		{"the same, and the label is found", Disk{InspectedDisk: wire.InspectedDisk{SerialNumber: "S4"}, Found: []Signature{{Type: "gpt"}}}, []wire.KeptDisk{data}, ""},
		{"a partition table", Disk{InspectedDisk: wire.InspectedDisk{SerialNumber: "S5"}, Found: []Signature{{Type: "gpt"}, {Type: "ext", Label: "root", Partition: 1}}}, []wire.KeptDisk{tank}, ""},
	} {
		want := Equal("")
		if c.want != "" {
			want = ContainSubstring(c.want)
		}
		g.Expect(MayBeKept(c.disk, append(all, c.disk), c.keep)).To(want, c.name)
	}
	_, err := Select(all, agent.RootDevice{SerialNumber: "S3"}, []wire.KeptDisk{tank})
	g.Expect(err).To(MatchError(ContainSubstring("remove the entry if that disk is gone")))
}

// TestBlankHints: a blank hint identifies no disk, also not one without that identity, and lifts no protection.
func TestBlankHints(t *testing.T) {
	g := NewWithT(t)
	blank := Disk{InspectedDisk: wire.InspectedDisk{SizeBytes: 8 << 30, Transport: wire.TransportUSB}}
	for _, want := range []agent.RootDevice{{SerialNumber: " "}, {WWN: "0x"}} {
		_, err := Select([]Disk{blank}, want, nil)
		g.Expect(err).To(MatchError(ContainSubstring("no disk matches")))
	}
	g.Expect(Protected(blank, agent.RootDevice{SerialNumber: " "}, nil)).NotTo(BeEmpty())
}

// TestNamedDiskThatCannotBeRead: it may have a label to keep.
func TestNamedDiskThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	d := Disk{InspectedDisk: wire.InspectedDisk{SerialNumber: "S1", SizeBytes: 8 << 30}, Unreadable: "input/output error"}
	g.Expect(Protect(d, true, []wire.KeptDisk{{Label: "data"}}).Why).To(ContainSubstring("input/output error"))
	g.Expect(Protect(d, true, nil).Why).To(BeEmpty())
}

// TestPartitionNames: the labels come from the primary table and from the backup, also if the primary one is damaged.
func TestPartitionNames(t *testing.T) {
	g := NewWithT(t)
	content := make([]byte, 8<<20)
	gpttest.PutGPT(content, 512, []gpttest.Part{{First: 2048, Last: 4095, Name: "root"}, {First: 4096, Last: 8191, Name: "ceph-data"}})
	g.Expect(PartitionNames(bytes.NewReader(content), int64(len(content)), 512)).To(Equal([]string{"root", "ceph-data"}))
	clear(content[:4096])
	g.Expect(PartitionNames(bytes.NewReader(content), int64(len(content)), 512)).To(Equal([]string{"root", "ceph-data"}))
	g.Expect(PartitionNames(bytes.NewReader(nil), 0, 512)).To(BeEmpty())
}
