package erase_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/erase"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

const (
	sector = 512
	size   = 17 << 20
	mib    = 1 << 20
)

// medium is a disk with a cache: a cut keeps any part of what was not flushed.
type medium struct {
	mu      sync.Mutex
	content []byte
	pending [][2]int64
	// operation is called before each write, flush and read.
	operation func(kind string, offset int64) error
	calls     []string
	cut       bool
}

func (m *medium) call(kind string, offset int64) error {
	if m.cut {
		return errors.New("the power is cut")
	}
	m.calls = append(m.calls, fmt.Sprintf("%s %d", kind, offset))
	if m.operation != nil {
		return m.operation(kind, offset)
	}
	return nil
}

func (m *medium) ReadAt(b []byte, offset int64) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("read", offset); err != nil {
		return 0, err
	}
	n := copy(b, m.content[offset:])
	for _, p := range m.pending {
		if start, end := max(p[0], offset), min(p[0]+p[1], offset+int64(n)); start < end {
			clear(b[start-offset : end-offset])
		}
	}
	return n, nil
}

func (m *medium) ZeroRange(offset, length int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if offset%sector != 0 || length%sector != 0 || length <= 0 || offset < 0 || offset+length > size {
		return fmt.Errorf("unaligned: %d+%d", offset, length)
	}
	if err := m.call("zero", offset); err != nil {
		return err
	}
	m.pending = append(m.pending, [2]int64{offset, length})
	return nil
}

func (m *medium) Flush() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.call("flush", 0); err != nil {
		return err
	}
	for _, p := range m.pending {
		clear(m.content[p[0] : p[0]+p[1]])
	}
	m.pending = nil
	return nil
}

// powerCut keeps a random part of the sectors that were not flushed.
func (m *medium) powerCut(random *rand.Rand) {
	for _, p := range m.pending {
		for at := p[0]; at < p[0]+p[1]; at += sector {
			if random.IntN(2) == 0 {
				clear(m.content[at : at+sector])
			}
		}
	}
	m.pending, m.cut = nil, true
}

func (m *medium) Size() int64     { return size }
func (m *medium) SectorSize() int { return sector }
func (m *medium) Close() error    { return nil }

// table is the partition table of these tests: a magic number and a list of areas, in sector 1 and in the last sector. An area that is a table has a list too.
func table(areas ...erase.Area) []byte {
	out := make([]byte, sector)
	copy(out, "TABLE")
	out[5] = byte(len(areas))
	for i, a := range areas {
		binary.LittleEndian.PutUint64(out[8+24*i:], uint64(a.Offset))
		binary.LittleEndian.PutUint64(out[16+24*i:], uint64(a.Length))
		if a.Table {
			out[24+24*i] = 1
		}
	}
	return out
}

func readTable(r io.ReaderAt, offset int64) ([]erase.Area, error) {
	b := make([]byte, sector)
	if _, err := r.ReadAt(b, offset); err != nil {
		return nil, err
	}
	if !bytes.HasPrefix(b, []byte("TABLE")) {
		return nil, nil
	}
	var out []erase.Area
	for i := range int(b[5]) {
		a := erase.Area{
			Offset: int64(binary.LittleEndian.Uint64(b[8+24*i:])), Length: int64(binary.LittleEndian.Uint64(b[16+24*i:])), Table: b[24+24*i] == 1,
		}
		out = append(out, a)
		if a.Table && a.Offset > 0 && a.Offset < size-sector {
			more, err := readTable(r, a.Offset)
			if err != nil {
				return nil, err
			}
			out = append(out, more...)
		}
	}
	return out, nil
}

var finder = erase.Finder{
	Partitions: func(r io.ReaderAt, size int64, sector int) ([]erase.Area, error) {
		first, err := readTable(r, int64(sector))
		if err != nil {
			return nil, err
		}
		last, err := readTable(r, size-int64(sector))
		return append(first, last...), err
	},
	Signatures: func(r io.ReaderAt, _ int64, _ int) ([]erase.Area, error) {
		b := make([]byte, 5)
		if _, err := r.ReadAt(b, 9*mib+7); err != nil || !bytes.Equal(b, []byte("MAGIC")) {
			return nil, err
		}
		return []erase.Area{{Offset: 9*mib + 7, Length: 5}}, nil
	},
}

// secret is the bootstrap data, at an offset that is no multiple of a sector.
var secret = erase.Area{Offset: 12*mib + 100, Length: 3*mib + 9}

// used is a disk of an old machine: every byte is 0xee outside of the tables.
func used() *medium {
	m := &medium{content: bytes.Repeat([]byte{0xee}, size)}
	logical := erase.Area{Offset: 6 * mib, Length: sector, Table: true}
	areas := []erase.Area{{Offset: 34 * sector, Length: 3 * mib}, {Offset: 4 * mib, Length: 512 * sector}, logical}
	copy(m.content[sector:], table(areas...))
	copy(m.content[size-sector:], table(areas...))
	// The first MiB of this partition has the table of the logical ones.
	copy(m.content[6*mib:], table(erase.Area{Offset: 6*mib - sector, Length: 2 * mib}))
	copy(m.content[9*mib+7:], "MAGIC")
	return m
}

// expected are the bytes that must be zero, all others are untouched.
var expected = []erase.Area{
	{Offset: 0, Length: mib}, {Offset: mib, Length: 34 * sector}, {Offset: 4 * mib, Length: 512 * sector}, {Offset: 6*mib - sector, Length: mib},
	{Offset: 9 * mib, Length: sector}, {Offset: 12 * mib, Length: 3*mib + sector}, {Offset: size - mib, Length: mib},
}

func check(g Gomega, m *medium, original *medium) {
	for _, a := range expected {
		clear(original.content[a.Offset : a.Offset+a.Length])
	}
	compare(g, m, original)
}

// compare names the first byte that is not as it must be, because Equal would print the whole medium.
func compare(g Gomega, m, want *medium) {
	if bytes.Equal(m.content, want.content) {
		return
	}
	for at := range m.content {
		if m.content[at] != want.content[at] {
			g.Expect(m.content[at]).To(Equal(want.content[at]), "the byte at %d MiB + %d", at/mib, at%mib)
		}
	}
}

func disk(m *medium, id agent.DiskID) erase.Disk {
	id.Size = size
	return erase.Disk{ID: id, Name: "sd-" + id.Serial, Open: func() (erase.Device, error) { return m, nil }}
}

func plan(id agent.DiskID) agent.CleanPlan {
	return agent.CleanPlan{Ranges: []agent.DiskRange{{Disk: id, Offset: secret.Offset, Length: secret.Length}}}
}

// erased returns the serial numbers of the disks that were erased.
func erased(r erase.Result) []string {
	var out []string
	for _, o := range r.Outcomes {
		if o.Err == nil {
			out = append(out, o.Disk.ID.Serial)
		}
	}
	return out
}

func TestErase(t *testing.T) {
	g := NewWithT(t)
	m := used()
	r := erase.Clean(t.Context(), plan(agent.DiskID{Serial: "S1", Size: size}), []erase.Disk{disk(m, agent.DiskID{Serial: "S1"})}, finder)
	g.Expect(r.Failure).To(BeNil())
	g.Expect(erased(r)).To(Equal([]string{"S1"}))
	check(g, m, used())
	// Again: nothing changes.
	g.Expect(erase.Clean(t.Context(), plan(agent.DiskID{Serial: "S1"}), []erase.Disk{disk(m, agent.DiskID{Serial: "S1"})}, finder).Failure).To(BeNil())
	check(g, m, used())
}

// TestPowerCut cuts the power at each operation. The second run completes what the first one did.
func TestPowerCut(t *testing.T) {
	whole := used()
	id := agent.DiskID{Serial: "S1"}
	NewWithT(t).Expect(erase.Clean(t.Context(), plan(id), []erase.Disk{disk(whole, id)}, finder).Failure).To(BeNil())
	for n := range len(whole.calls) {
		for seed := range uint64(2) {
			g := NewWithT(t)
			m := used()
			m.operation = func(string, int64) error {
				if len(m.calls) > n {
					m.powerCut(rand.New(rand.NewPCG(seed, uint64(n))))
					return errors.New("the power is cut")
				}
				return nil
			}
			first := erase.Clean(t.Context(), plan(id), []erase.Disk{disk(m, id)}, finder)
			g.Expect(first.Failure).To(HaveField("Message", ContainSubstring(`serial number "S1"`)))
			again := &medium{content: m.content}
			g.Expect(erase.Clean(t.Context(), plan(id), []erase.Disk{disk(again, id)}, finder).Failure).To(BeNil())
			check(g, again, used())
		}
	}
}

func TestFailures(t *testing.T) {
	fails := func(kind string) *medium {
		m := used()
		m.operation = func(k string, _ int64) error {
			if k == kind {
				return errors.New("input/output error")
			}
			return nil
		}
		return m
	}
	lies := used()
	lies.operation = func(kind string, _ int64) error {
		if kind == "flush" {
			lies.pending = nil
		}
		return nil
	}
	s1 := agent.DiskID{Serial: "S1"}
	protected := disk(used(), s1)
	protected.Protected = "spec.storage.keep names it"
	for _, c := range []struct {
		name    string
		plan    agent.CleanPlan
		disks   []erase.Disk
		reason  string
		message string
	}{
		{"missing", plan(agent.DiskID{Serial: "S9", Size: 7}), []erase.Disk{disk(used(), s1)}, agent.ReasonEraseFailed, `the disk with the serial number "S9" and 7 bytes has bootstrap data and is not there`},
		{"another size", plan(agent.DiskID{Serial: "S1", Size: 7}), []erase.Disk{disk(used(), s1)}, agent.ReasonEraseFailed, "is not there"},
		{"another WWN", plan(agent.DiskID{Serial: "S1", WWN: "1"}), []erase.Disk{disk(used(), agent.DiskID{Serial: "S1", WWN: "2"})}, agent.ReasonEraseFailed, "is not there"},
		{"two", plan(s1), []erase.Disk{disk(used(), s1), disk(used(), s1)}, agent.ReasonEraseFailed, "2 disks have the serial number"},
		{"no ID", plan(agent.DiskID{}), nil, agent.ReasonPlanInvalid, "names no disk"},
		{"write error", plan(s1), []erase.Disk{disk(fails("zero"), s1)}, agent.ReasonEraseFailed, `disk sd-S1 (serial number "S1"): the bootstrap data: cannot write`},
		{"flush error", plan(s1), []erase.Disk{disk(fails("flush"), s1)}, agent.ReasonEraseFailed, "cannot flush: input/output error"},
		{"read error", plan(s1), []erase.Disk{disk(fails("read"), s1)}, agent.ReasonEraseFailed, "cannot read back"},
		{"other data", plan(s1), []erase.Disk{disk(lies, s1)}, agent.ReasonEraseFailed, "it returns other data than the zeros"},
		{"protected", plan(s1), []erase.Disk{protected}, agent.ReasonProtectedDisk, "must not be touched"},
		{"outside", agent.CleanPlan{Ranges: []agent.DiskRange{{Disk: s1, Offset: size - 1, Length: 2}}}, []erase.Disk{disk(used(), s1)}, agent.ReasonPlanInvalid, "is not on the disk"},
		{"cannot be opened", plan(s1), []erase.Disk{{ID: agent.DiskID{Serial: "S1", Size: size}, Name: "sda", Open: func() (erase.Device, error) { return nil, errors.New("busy") }}}, agent.ReasonEraseFailed, "cannot be opened for writing: busy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			r := erase.Clean(t.Context(), c.plan, c.disks, finder)
			g.Expect(erased(r)).To(BeEmpty())
			g.Expect(r.Failure).NotTo(BeNil())
			g.Expect(r.Failure.Reason).To(Equal(c.reason))
			g.Expect(r.Failure.Message).To(ContainSubstring(c.message))
		})
	}
}

// TestAllDisks: disks without ranges are erased too, kept and protected ones are not, and one that fails does not stop the others.
func TestAllDisks(t *testing.T) {
	g := NewWithT(t)
	media := map[string]*medium{}
	var disks []erase.Disk
	for _, serial := range []string{"A", "B", "kept", "protected"} {
		media[serial] = used()
		disks = append(disks, disk(media[serial], agent.DiskID{Serial: serial}))
	}
	disks[2].Protected, disks[3].Protected = "spec.storage.keep names it", "it is mounted"
	media["A"].operation = func(string, int64) error { return errors.New("input/output error") }
	p := agent.CleanPlan{AllDisks: true}
	r := erase.Clean(t.Context(), p, disks, finder)
	g.Expect(r.Failure).To(HaveField("Message", And(ContainSubstring(`"A"`), Not(ContainSubstring(`"B"`)))))
	g.Expect(erased(r)).To(Equal([]string{"B"}))
	g.Expect(r.Warnings).To(ConsistOf(ContainSubstring("spec.storage.keep names it"), ContainSubstring("it is mounted")))
	g.Expect(media["kept"].calls).To(BeEmpty())
	g.Expect(media["protected"].calls).To(BeEmpty())
	g.Expect(media["B"].content[:mib]).To(Equal(make([]byte, mib)))
	g.Expect(media["B"].content[secret.Offset]).To(Equal(byte(0xee)), "the data of a machine is not erased")
}

// TestHanging: a disk that hangs fails at the end of the context.
func TestHanging(t *testing.T) {
	g := NewWithT(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	hold := make(chan struct{})
	defer close(hold)
	id := agent.DiskID{WWN: "0x5000c500a0b1c2d3"}
	d := disk(used(), id)
	d.Open = func() (erase.Device, error) {
		cancel(errors.New("the time is over"))
		<-hold
		return nil, errors.New("released")
	}
	r := erase.Clean(ctx, plan(agent.DiskID{WWN: "naa.5000C500A0B1C2D3"}), []erase.Disk{d}, finder)
	g.Expect(r.Failure).To(HaveField("Message", And(ContainSubstring("it was not erased in time: the time is over"), ContainSubstring("5000c500a0b1c2d3"))))
}

// TestByPath: a disk without serial number and WWN is found by its path and size.
func TestByPath(t *testing.T) {
	g := NewWithT(t)
	m := used()
	d := disk(m, agent.DiskID{ByPath: "pci-0000:00:04.0"})
	d.ByPathAlias = "virtio-pci-0000:00:04.0"
	g.Expect(erase.Clean(t.Context(), plan(agent.DiskID{ByPath: "virtio-pci-0000:00:04.0", Size: size}), []erase.Disk{d}, finder).Failure).To(BeNil())
	check(g, m, used())
}

// TestHostileTables: whatever a table names, the beginnings of areas on the disk and both its ends are overwritten, nothing else is, and nothing fails.
func TestHostileTables(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		m, want := &medium{content: bytes.Repeat([]byte{0xee}, size)}, &medium{content: bytes.Repeat([]byte{0xee}, size)}
		clear(want.content[:mib])
		clear(want.content[size-mib:])
		var areas []erase.Area
		value := rapid.OneOf(rapid.Int64Range(-1, size+mib), rapid.Int64())
		for range rapid.IntRange(0, 8).Draw(t, "areas") {
			a := erase.Area{Offset: value.Draw(t, "offset"), Length: value.Draw(t, "length"), Table: rapid.Bool().Draw(t, "table")}
			areas = append(areas, a)
			if a.Offset >= 0 && a.Offset < size && a.Length > 0 {
				end := a.Offset + min(a.Length, mib)
				clear(want.content[a.Offset/sector*sector : min((end+sector-1)/sector*sector, size)])
			}
		}
		find := erase.Finder{
			Partitions: func(io.ReaderAt, int64, int) ([]erase.Area, error) { return areas, nil },
			Signatures: func(io.ReaderAt, int64, int) ([]erase.Area, error) { return areas, nil },
		}
		id := agent.DiskID{Serial: "S1"}
		g.Expect(erase.Clean(context.Background(), agent.CleanPlan{AllDisks: true}, []erase.Disk{disk(m, id)}, find).Failure).To(BeNil())
		compare(g, m, want)
	})
}
