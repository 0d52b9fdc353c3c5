package disk

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
)

// TestProtect: what a plan keeps is protected also if the plan names the disk, and is left out. What is a disk of the server is a failure.
func TestProtect(t *testing.T) {
	disk := Disk{
		Disk: agent.Disk{Name: "sda", Serial: "S1", WWN: "5000c500a0b1c2d3", Transport: "sata"}, PartitionNames: []string{"ceph-data"},
		Found: []Signature{{Type: "xfs", Label: "DATA"}},
	}
	for _, keep := range []agent.KeptDisk{{Serial: "s1 "}, {WWN: "0x5000C500A0B1C2D3"}, {Label: "ceph-data"}, {Label: "DATA"}} {
		g := NewWithT(t)
		g.Expect(Protect(disk, true, []agent.KeptDisk{{Serial: "other"}, keep})).To(
			And(HaveField("Why", ContainSubstring("spec.storage.keep")), HaveField("Outside", true)), "%+v", keep)
	}
	for _, keep := range []agent.KeptDisk{
		{}, {Label: " "}, {Label: "data"}, {Label: "Ceph-Data"}, {Serial: "S"}, {WWN: "5000c500"}, {WWN: "0x"}, {Serial: "DATA"}, {WWN: "DATA"}, {Label: "S1"},
	} {
		g := NewWithT(t)
		g.Expect(Protect(disk, false, []agent.KeptDisk{keep})).To(Equal(Protection{}), "%+v", keep)
	}
	g := NewWithT(t)
	shared := disk
	shared.Found = []Signature{{Type: "vmfs"}}
	g.Expect(Protect(shared, false, nil)).To(And(HaveField("Why", ContainSubstring("vmfs")), HaveField("Outside", false)))
	g.Expect(Protect(shared, true, nil)).To(Equal(Protection{}))
	shared.Transport = "fc"
	g.Expect(Protect(shared, false, nil).Outside).To(BeTrue())
	mounted := disk
	mounted.Mounted = []string{"/"}
	g.Expect(Protect(mounted, true, nil)).To(And(HaveField("Why", ContainSubstring("mounted")), HaveField("Outside", false)))
}

// TestOtherDisksNameIsNoLabel: a tenant who knows which disk is kept cannot keep another one by writing that name as a label.
func TestOtherDisksNameIsNoLabel(t *testing.T) {
	g := NewWithT(t)
	kept := agent.KeptDisk{Serial: "S1"}
	for _, d := range []Disk{
		{Disk: agent.Disk{Serial: "S2"}, PartitionNames: []string{"S1"}}, {Disk: agent.Disk{Serial: "S3"}, Found: []Signature{{Type: "xfs", Label: "S1"}}},
	} {
		g.Expect(Protect(d, false, []agent.KeptDisk{kept})).To(Equal(Protection{}))
		g.Expect(MayBeKept(d, []Disk{d}, []agent.KeptDisk{kept})).To(BeEmpty())
	}
}

// TestMayBeKept: a disk of which is unknown what an entry names might be the kept one, unless that one is found.
func TestMayBeKept(t *testing.T) {
	g := NewWithT(t)
	none, labelled := Disk{}, Disk{Disk: agent.Disk{Serial: "S2", WWN: "5000c500a0b1c2d3"}, PartitionNames: []string{"data"}}
	pool := Disk{Disk: agent.Disk{Serial: "S3", Size: 8 << 30}, Found: []Signature{{Type: "zfs"}}}
	all := []Disk{none, labelled, pool}
	data, tank, gone, there := agent.KeptDisk{Label: "data"}, agent.KeptDisk{Label: "tank"}, agent.KeptDisk{Serial: "S9"}, agent.KeptDisk{Serial: "s2"}
	for _, c := range []struct {
		name string
		disk Disk
		keep []agent.KeptDisk
		want string
	}{
		{"all are found", none, []agent.KeptDisk{data, there, {WWN: "naa.5000c500a0b1c2d3"}}, ""},
		{"no serial number", none, []agent.KeptDisk{data, gone}, "its serial number is unknown, and it might be S9"},
		{"another serial number", labelled, []agent.KeptDisk{gone}, ""},
		{"no WWN", pool, []agent.KeptDisk{{WWN: "5000c500a0b1c2d4"}}, "its WWN is unknown, and it might be 5000c500a0b1c2d4"},
		{"another WWN", labelled, []agent.KeptDisk{{WWN: "5000c500a0b1c2d4"}}, ""},
		{"the label is found", pool, []agent.KeptDisk{data}, ""},
		{"labels that are not read", pool, []agent.KeptDisk{tank}, "it has zfs, whose labels are not read, and it might be tank"},
		{"labels that are read", labelled, []agent.KeptDisk{tank}, ""},
		{"a file system that is unknown", Disk{Disk: agent.Disk{Serial: "S4"}, Found: []Signature{{Type: "f2fs"}}}, []agent.KeptDisk{tank}, "it might be tank"},
		{"a partition table that is damaged", Disk{Disk: agent.Disk{Serial: "S4"}, Found: []Signature{{Type: "gpt"}}}, []agent.KeptDisk{tank}, "it might be tank"},
		{"the same, and the label is found", Disk{Disk: agent.Disk{Serial: "S4"}, Found: []Signature{{Type: "gpt"}}}, []agent.KeptDisk{data}, ""},
		{"a partition table", Disk{Disk: agent.Disk{Serial: "S5"}, Found: []Signature{{Type: "gpt"}, {Type: "ext", Label: "root", Partition: 1}}}, []agent.KeptDisk{tank}, ""},
	} {
		want := Equal("")
		if c.want != "" {
			want = ContainSubstring(c.want)
		}
		g.Expect(MayBeKept(c.disk, append(all, c.disk), c.keep)).To(want, c.name)
	}
	_, err := Select(all, agent.RootDevice{Serial: "S3"}, []agent.KeptDisk{tank})
	g.Expect(err).To(MatchError(ContainSubstring("remove the entry if that disk is gone")))
}

// TestBlankHints: a blank hint identifies no disk, also not one without that identity, and lifts no protection.
func TestBlankHints(t *testing.T) {
	g := NewWithT(t)
	blank := Disk{Disk: agent.Disk{Size: 8 << 30, Transport: "usb"}}
	for _, want := range []agent.RootDevice{{Serial: " "}, {WWN: "0x"}} {
		_, err := Select([]Disk{blank}, want, nil)
		g.Expect(err).To(MatchError(ContainSubstring("no disk matches")))
	}
	g.Expect(Protected(blank, agent.RootDevice{Serial: " "}, nil)).NotTo(BeEmpty())
}

// TestNamedDiskThatCannotBeRead: it may have a label to keep.
func TestNamedDiskThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	d := Disk{Disk: agent.Disk{Serial: "S1", Size: 8 << 30}, Unreadable: "input/output error"}
	g.Expect(Protect(d, true, []agent.KeptDisk{{Label: "data"}}).Why).To(ContainSubstring("input/output error"))
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
