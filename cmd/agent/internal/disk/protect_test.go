package disk

import (
	"bytes"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk/disktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// TestProtect: what a plan keeps is protected also if the plan names the disk, and is left out. What is a disk of the server is a failure.
func TestProtect(t *testing.T) {
	disk := Disk{
		Disk: agent.Disk{Name: "sda", Serial: "S1", WWN: "5000c500a0b1c2d3", Transport: "sata"}, PartitionNames: []string{"ceph-data"},
		Found: []Signature{{Type: "xfs", Label: "DATA"}},
	}
	for _, keep := range []string{"s1 ", "0x5000C500A0B1C2D3", "ceph-data", "DATA"} {
		g := NewWithT(t)
		g.Expect(Protect(disk, []Disk{disk}, true, []string{"other", keep})).To(And(HaveField("Why", ContainSubstring("spec.storage.keep")), HaveField("Outside", true)), keep)
	}
	for _, keep := range []string{"", "data", "Ceph-Data", "S", "5000c500"} {
		g := NewWithT(t)
		g.Expect(Protect(disk, []Disk{disk}, false, []string{keep})).To(Equal(Protection{}), keep)
	}
	g := NewWithT(t)
	shared := disk
	shared.Found = []Signature{{Type: "vmfs"}}
	g.Expect(Protect(shared, nil, false, nil)).To(And(HaveField("Why", ContainSubstring("vmfs")), HaveField("Outside", false)))
	g.Expect(Protect(shared, nil, true, nil)).To(Equal(Protection{}))
	shared.Transport = "fc"
	g.Expect(Protect(shared, nil, false, nil).Outside).To(BeTrue())
	mounted := disk
	mounted.Mounted = []string{"/"}
	g.Expect(Protect(mounted, nil, true, nil)).To(And(HaveField("Why", ContainSubstring("mounted")), HaveField("Outside", false)))
}

// TestOtherDisksNameIsNoLabel: a tenant who knows which disk is kept cannot keep another one by writing that name as a label.
func TestOtherDisksNameIsNoLabel(t *testing.T) {
	kept := Disk{Disk: agent.Disk{Serial: "S1", WWN: "5000c500a0b1c2d3"}}
	for _, name := range []string{"S1", "s1", "0x5000C500A0B1C2D3"} {
		g := NewWithT(t)
		parts, files := Disk{Disk: agent.Disk{Serial: "S2"}, PartitionNames: []string{name}}, Disk{Disk: agent.Disk{Serial: "S3"}, Found: []Signature{{Type: "xfs", Label: name}}}
		pool := Disk{Disk: agent.Disk{Serial: "S4"}, Found: []Signature{{Type: "zfs"}}}
		all := []Disk{kept, parts, files, pool}
		for _, d := range []Disk{parts, files} {
			g.Expect(Protect(d, all, false, []string{name})).To(Equal(Protection{}), name)
			g.Expect(Protect(d, all[1:], false, []string{name}).Outside).To(BeTrue(), "a name that no disk has may be a label")
		}
		g.Expect(Protect(kept, all, false, []string{name}).Outside).To(BeTrue(), name)
		g.Expect(Unproven(pool, all, []string{name})).To(BeEmpty(), "the disk to keep is found")
	}
}

// TestUnproven: a disk without a serial number, and one with a volume whose labels are not read, might be a kept one, unless that one is found by its serial number, WWN
// or label.
func TestUnproven(t *testing.T) {
	g := NewWithT(t)
	none, labelled := Disk{}, Disk{Disk: agent.Disk{Serial: "S2"}, PartitionNames: []string{"data"}}
	pool := Disk{Disk: agent.Disk{Serial: "S3", Size: 8 << 30}, Found: []Signature{{Type: "zfs"}}}
	all := []Disk{none, labelled, pool}
	g.Expect(Unproven(none, all, []string{"data", "S2"})).To(BeEmpty())
	g.Expect(Unproven(none, all, []string{"data", "S9"})).To(ContainSubstring("might be S9"))
	g.Expect(Unproven(labelled, all, []string{"S9"})).To(BeEmpty())
	g.Expect(Unproven(pool, all, []string{"data"})).To(BeEmpty())
	g.Expect(Unproven(pool, all, []string{"tank"})).To(ContainSubstring("it has zfs, whose labels are not read, and it might be tank"))
	for _, d := range []Disk{
		{Disk: agent.Disk{Serial: "S4"}, Found: []Signature{{Type: "f2fs"}}},
		{Disk: agent.Disk{Serial: "S4"}, Found: []Signature{{Type: "gpt"}}}, // it is damaged
	} {
		g.Expect(Unproven(d, append(all, d), []string{"tank"})).To(ContainSubstring("it might be tank"), d.Found[0].Type)
		g.Expect(Unproven(d, append(all, d), []string{"data"})).To(BeEmpty())
	}
	table := Disk{Disk: agent.Disk{Serial: "S5"}, Found: []Signature{{Type: "gpt"}, {Type: "ext", Label: "root", Partition: 1}}}
	g.Expect(Unproven(table, append(all, table), []string{"tank"})).To(BeEmpty())
	_, err := Select(all, agent.RootDevice{Serial: "S3"}, []string{"tank"})
	g.Expect(err).To(MatchError(ContainSubstring("remove the name if that disk is gone")))
}

// TestBlankHints: a blank hint identifies no disk, also not one without that identity, and lifts no protection.
func TestBlankHints(t *testing.T) {
	g := NewWithT(t)
	blank := Disk{Disk: agent.Disk{Size: 8 << 30, Transport: "usb"}}
	for _, want := range []agent.RootDevice{{Serial: " "}, {WWN: "0x"}} {
		_, err := Select([]Disk{blank}, want, nil)
		g.Expect(err).To(MatchError(ContainSubstring("no disk matches")))
	}
	g.Expect(Protected(blank, nil, agent.RootDevice{Serial: " "}, nil)).NotTo(BeEmpty())
}

// TestNamedDiskThatCannotBeRead: it may have a label to keep.
func TestNamedDiskThatCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	d := Disk{Disk: agent.Disk{Serial: "S1", Size: 8 << 30}, Unreadable: "input/output error"}
	g.Expect(Protect(d, nil, true, []string{"data"}).Why).To(ContainSubstring("input/output error"))
	g.Expect(Protect(d, nil, true, nil).Why).To(BeEmpty())
}

// TestPartitionNames: the labels come from the primary table and from the backup, also if the primary one is damaged.
func TestPartitionNames(t *testing.T) {
	g := NewWithT(t)
	content := make([]byte, 8<<20)
	disktest.PutGPT(content, 512, []disktest.Part{{First: 2048, Last: 4095, Name: "root"}, {First: 4096, Last: 8191, Name: "ceph-data"}})
	g.Expect(PartitionNames(bytes.NewReader(content), int64(len(content)), 512)).To(Equal([]string{"root", "ceph-data"}))
	clear(content[:4096])
	g.Expect(PartitionNames(bytes.NewReader(content), int64(len(content)), 512)).To(Equal([]string{"root", "ceph-data"}))
	g.Expect(PartitionNames(bytes.NewReader(nil), 0, 512)).To(BeEmpty())
}
