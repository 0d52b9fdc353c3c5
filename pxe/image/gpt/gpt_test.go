package gpt_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
)

const mib = 1 << 20

func TestGUID(t *testing.T) {
	g, err := gpt.ParseGUID("C12A7328-F81F-11D2-BA4B-00A0C93EC93B")
	if err != nil || g.String() != "c12a7328-f81f-11d2-ba4b-00a0c93ec93b" || g[0] != 0x28 || g[15] != 0x3b {
		t.Errorf("%v %v", g, err)
	}
	for _, wrong := range []string{"", "c12a7328", "c12a7328-f81f-11d2-ba4b-00a0c93ec93", "c12a7328-f81f-11d2-ba4b-00a0c93ec93g", "c12a7328xf81f-11d2-ba4b-00a0c93ec93b"} {
		if _, err := gpt.ParseGUID(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// TestRead: which header and entries are accepted, and which error each damage is.
func TestRead(t *testing.T) {
	for name, c := range map[string]struct {
		change func(header, entries []byte)
		fixed  bool // the CRCs are those of the changed table
		want   string
	}{
		"valid":                  {func(_, _ []byte) {}, false, "valid"},
		"no signature":           {func(h, _ []byte) { h[0] = 0 }, false, "none"},
		"header CRC":             {func(h, _ []byte) { h[50] ^= 1 }, false, "damaged"},
		"entries CRC":            {func(_, e []byte) { e[33] ^= 1 }, false, "damaged"},
		"a short header":         {func(h, _ []byte) { h[12] = 91 }, true, "damaged"},
		"a long header":          {func(h, _ []byte) { h[14] = 1 }, false, "damaged"},
		"another sector":         {func(h, _ []byte) { h[24] = 2 }, true, "damaged"},
		"no entries":             {func(h, _ []byte) { h[80] = 0 }, true, "damaged"},
		"many entries":           {func(h, _ []byte) { h[82] = 1 }, true, "damaged"},
		"the most entries":       {func(h, _ []byte) { h[80], h[81] = 0, 16 }, true, "valid"},
		"one entry more":         {func(h, _ []byte) { h[80], h[81] = 1, 16 }, true, "damaged"},
		"short entries":          {func(h, _ []byte) { h[84] = 64 }, true, "damaged"},
		"entries of 136 bytes":   {func(h, _ []byte) { h[84] = 136 }, true, "damaged"},
		"the largest entries":    {func(h, _ []byte) { h[84], h[85] = 0, 16 }, true, "valid"},
		"larger entries":         {func(h, _ []byte) { h[80], h[84], h[85] = 1, 0, 32 }, true, "damaged"},
		"entries over header":    {func(h, _ []byte) { h[72] = 1 }, true, "damaged"},
		"entries behind disk":    {func(h, _ []byte) { h[74] = 1 }, true, "damaged"},
		"entries behind all":     {func(h, _ []byte) { h[79] = 0xff }, true, "damaged"},
		"entries half in a disk": {func(h, _ []byte) { binary.LittleEndian.PutUint64(h[72:], 2*mib/512-1) }, true, "damaged"},
	} {
		b := make([]byte, 2*mib)
		gpttest.PutGPT(b, 512, []gpttest.Part{{First: 2048, Last: 3000, Attributes: 5, Name: "root"}})
		header := b[512:1024]
		c.change(header, b[1024:])
		if c.fixed {
			fix(b, header)
		}
		table, err := gpt.Read(bytes.NewReader(b), 1, int64(len(b)), 512)
		if got := kind(err); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
		if err == nil && len(table.Partitions()) != 1 {
			t.Errorf("%s: %+v", name, table.Partitions())
		}
	}
}

func kind(err error) string {
	switch {
	case err == nil:
		return "valid"
	case errors.Is(err, gpt.ErrNoTable):
		return "none"
	case errors.As(err, new(*gpt.DamagedError)):
		return "damaged"
	default:
		return err.Error()
	}
}

// fix makes the CRCs right again, as far as the entries are in the disk.
func fix(b, header []byte) {
	at, length := binary.LittleEndian.Uint64(header[72:]), uint64(binary.LittleEndian.Uint32(header[80:]))*uint64(binary.LittleEndian.Uint32(header[84:]))
	if at < uint64(len(b)/512) && at*512+length <= uint64(len(b)) {
		binary.LittleEndian.PutUint32(header[88:], crc32.ChecksumIEEE(b[at*512:at*512+length]))
	}
	clear(header[16:20])
	binary.LittleEndian.PutUint32(header[16:], crc32.ChecksumIEEE(header[:binary.LittleEndian.Uint32(header[12:])]))
}

// failing is a disk that fails at and after an offset.
type failing struct {
	io.ReaderAt

	from int64
}

var errDisk = errors.New("input/output error")

func (f failing) ReadAt(b []byte, offset int64) (int, error) {
	if offset+int64(len(b)) > f.from {
		return 0, errDisk
	}
	return f.ReaderAt.ReadAt(b, offset)
}

// TestReadError: a disk that cannot be read is not one with a damaged table, or without one.
func TestReadError(t *testing.T) {
	b := make([]byte, 2*mib)
	gpttest.PutGPT(b, 512, nil)
	for _, from := range []int64{0, 1024, 1024 + 128*128 - 1} {
		_, err := gpt.Read(failing{bytes.NewReader(b), from}, 1, int64(len(b)), 512)
		if !errors.Is(err, errDisk) || kind(err) == "damaged" {
			t.Errorf("%d: %v", from, err)
		}
	}
	if _, err := gpt.ReadMBR(failing{bytes.NewReader(b), 0}, int64(len(b)), 512); !errors.Is(err, errDisk) {
		t.Error(err)
	}
}

// TestPut: a table has what was put into it, and its header is valid for it.
func TestPut(t *testing.T) {
	b := make([]byte, 2*mib)
	gpttest.PutGPT(b, 512, []gpttest.Part{{First: 2048, Last: 3000, Attributes: 5, Name: "root"}})
	table, err := gpt.Read(bytes.NewReader(b), 1, int64(len(b)), 512)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(table.Header(), b[512:1024]) || !bytes.Equal(table.Entries(), b[1024:1024+128*128]) {
		t.Error("a table that has not changed is encoded otherwise")
	}
	want := gpt.Partition{Number: 128, Type: gpt.DataType, GUID: gpt.GUID{1}, First: 3001, Last: 3500, Attributes: 1 << 63, Name: gpt.DataName}
	table.Put(want)
	long := gpt.Partition{Number: 1, Type: gpt.GUID{2}, Name: "a name with more than thirty-six characters"}
	table.Put(long)
	copy(b[1024:], table.Entries())
	copy(b[512:], table.Header())
	if table, err = gpt.Read(bytes.NewReader(b), 1, int64(len(b)), 512); err != nil {
		t.Fatal(err)
	}
	long.Name = long.Name[:36]
	if got := table.Partitions(); !slices.Equal(got, []gpt.Partition{long, want}) {
		t.Errorf("%+v", got)
	}
	if got, found := table.Find(want.GUID); !found || got != want {
		t.Errorf("%+v", got)
	}
}

// TestLogicalPartitions reads an extended partition, and one that links to itself.
func TestLogicalPartitions(t *testing.T) {
	b := make([]byte, 4*mib)
	gpttest.PutMBR(b, []gpttest.Part{{First: 100, Last: 199, Type: 0x83}, {First: 1000, Last: 4000, Type: 5}})
	gpttest.PutMBR(b[1000*512:], []gpttest.Part{{First: 10, Last: 19, Type: 0x8e}, {First: 500, Last: 600, Type: 5}})
	gpttest.PutMBR(b[1500*512:], []gpttest.Part{{First: 10, Last: 29, Type: 0x83}})
	got, err := gpt.ReadMBR(bytes.NewReader(b), int64(len(b)), 512)
	if err != nil || len(got) != 4 || got[2].Number != 5 || got[2].First != 1010 || got[3].Number != 6 || got[3].First != 1510 || got[3].Last != 1529 {
		t.Errorf("%v %+v", err, got)
	}
	gpttest.PutMBR(b[1500*512:], []gpttest.Part{{First: 10, Last: 29, Type: 0x83}, {First: 0, Last: 10, Type: 5}})
	if got, err = gpt.ReadMBR(bytes.NewReader(b), int64(len(b)), 512); err != nil || len(got) != 4 {
		t.Errorf("%v %+v", err, got)
	}
}

// FuzzRead: no content of a disk makes a reader panic, and what is accepted is bounded, and encoded as it was read.
func FuzzRead(f *testing.F) {
	for _, sector := range []int{512, 4096} {
		b := make([]byte, 256<<10)
		gpttest.PutGPT(b, sector, []gpttest.Part{{First: 40, Last: 50}})
		f.Add(b[:64<<10], sector == 4096)
	}
	b := make([]byte, 4<<10)
	gpttest.PutMBR(b, []gpttest.Part{{First: 1, Last: 7, Type: 5}})
	f.Add(b, false)
	f.Fuzz(func(t *testing.T, b []byte, large bool) {
		sector := 512
		if large {
			sector = 4096
		}
		size := int64(len(b) / sector * sector)
		table, err := gpt.Read(bytes.NewReader(b), 1, size, sector)
		switch {
		case err == nil && (len(table.Partitions()) > 4096 || len(table.Entries()) > 512<<10):
			t.Error("too many partitions")
		case err == nil && !bytes.Equal(table.Header(), b[sector:2*sector]):
			t.Error("the header is encoded otherwise")
		case !slices.Contains([]string{"valid", "none", "damaged"}, kind(err)):
			t.Error(err) // memory can be read
		}
		if parts, err := gpt.ReadMBR(bytes.NewReader(b), size, sector); err == nil && len(parts) > 1024 {
			t.Error("too many partitions")
		}
	})
}
