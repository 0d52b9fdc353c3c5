package format

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	. "github.com/onsi/gomega"
	"github.com/ulikunitz/xz"
)

var limits = Limits{MaxSize: 1 << 40}

// fixture returns a file of testdata, which testdata/make.sh makes.
func fixture(tb testing.TB, name string) []byte {
	tb.Helper()
	raw, err := os.ReadFile("testdata/" + name + ".gz")
	if err != nil {
		tb.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		tb.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		tb.Fatal(err)
	}
	return content
}

// readAll reads a disk in chunks of an odd size.
func readAll(ctx context.Context, r Reader, chunk, limit int) ([]byte, error) {
	var all []byte
	p := make([]byte, chunk)
	for len(all) <= limit {
		for i := range p {
			p[i] = 0xa5
		}
		n, hole, err := r.ReadChunk(ctx, p)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if hole {
			clear(p[:n])
		}
		all = append(all, p[:n]...)
	}
	return all, nil
}

func readQCOW2(file []byte, chunk int) ([]byte, error) {
	r, size, err := NewQCOW2(bytes.NewReader(file), int64(len(file)), limits)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return readAll(context.Background(), r, chunk, int(min(size, 16<<20)))
}

// TestQCOW2: the disk is the one that qemu-img convert reads.
func TestQCOW2(t *testing.T) {
	for name, disk := range map[string]string{
		"v2": "disk", "v3": "disk", "small": "disk", "deflate": "disk", "zstd": "disk", "large": "disk", "extras": "extras",
	} {
		for _, chunk := range []int{1 << 20, 100_003} {
			t.Run(name, func(t *testing.T) {
				g := NewWithT(t)
				file := fixture(t, name+".qcow2")
				g.Expect(Detect(file)).To(Equal(QCOW2))
				got, err := readQCOW2(file, chunk)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(bytes.Equal(got, fixture(t, disk+".raw"))).To(BeTrue())
			})
		}
	}
}

// TestQCOW2Refused: each file that needs more than itself, or contradicts itself, is refused with what to do.
func TestQCOW2Refused(t *testing.T) {
	v3 := fixture(t, "v3.qcow2")
	change := func(offset int, bytes ...byte) []byte {
		c := append([]byte(nil), v3...)
		copy(c[offset:], bytes)
		return c
	}
	word := func(value uint64) []byte { return binary.BigEndian.AppendUint64(nil, value) }
	l1 := int(binary.BigEndian.Uint64(v3[40:]))
	l2 := int(binary.BigEndian.Uint64(v3[l1:]) & entryOffset)
	for name, test := range map[string]struct {
		file    []byte
		message string
	}{
		"backing":           {fixture(t, "backing.qcow2"), "backing file"},
		"extended":          {fixture(t, "extended.qcow2"), "extended L2"},
		"external":          {fixture(t, "external.qcow2"), "data in another file"},
		"encrypted":         {fixture(t, "encrypted.qcow2"), "encrypted"},
		"version 4":         {change(4, 0, 0, 0, 4), "version 4"},
		"cluster bits":      {change(20, 0, 0, 0, 63), "clusters of 2^63"},
		"dirty":             {change(79, 1), "in use"},
		"corrupt":           {change(79, 2), "corrupt"},
		"unknown feature":   {change(72, 1), "unknown"},
		"compression":       {change(104, 9), "compression type 9"},
		"contradiction":     {change(104, 1), "contradict"},
		"refcount order":    {change(96, 0, 0, 0, 7), "refcounts"},
		"header length":     {change(100, 0, 0, 0, 5), "header of 5"},
		"empty disk":        {change(24, word(0)...), "empty"},
		"huge L1":           {change(36, 0xff, 0xff, 0xff, 0xff), "L1 table of"},
		"small L1":          {change(36, 0, 0, 0, 0), "0 L1 entries"},
		"L1 outside":        {change(40, word(1<<40)...), "L1 table outside"},
		"L1 overflow":       {change(40, word(1<<64-1<<16)...), "L1 table outside"},
		"L1 in header":      {change(40, word(0)...), "L1 table outside"},
		"L1 unaligned":      {change(40, word(uint64(l1+8))...), "L1 table outside"},
		"refcounts outside": {change(48, word(1<<40)...), "refcount table"},
		"refcounts huge":    {change(56, 0xff, 0xff, 0xff, 0xff), "refcount table"},
		"refcounts overlap": {change(48, word(uint64(l1))...), "overlapping"},
		"L2 outside":        {change(l1, word(1<<63|1<<40)...), "L2 table outside"},
		"L2 unaligned":      {change(l1, word(1<<63|uint64(l2+512))...), "L2 table outside"},
		"L1 reserved":       {change(l1, word(1<<62|uint64(l2))...), "reserved"},
		"L2 reserved":       {change(l2, word(1<<61|uint64(l2))...), "reserved"},
		"data outside":      {change(l2, word(1<<63|1<<50)...), "data cluster outside"},
		"data in header":    {change(l2, word(1<<63|512)...), "data cluster outside"},
		"compressed out":    {change(l2, word(1<<62|1<<40)...), "compressed cluster outside"},
		"not compressed":    {change(l2, word(1<<62|uint64(l1))...), "damaged compressed"},
		"truncated header":  {v3[:80], "truncated"},
		"truncated tables":  {v3[:l1+8], "outside"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			_, err := readQCOW2(test.file, 1<<20)
			g.Expect(err).To(MatchError(ContainSubstring(test.message)))
			g.Expect(errors.As(err, new(*InvalidError))).To(BeTrue())
		})
	}
	_, _, err := NewQCOW2(bytes.NewReader(v3), int64(len(v3)), Limits{MaxSize: 5 << 20})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	_, _, err = NewQCOW2(bytes.NewReader(v3), int64(len(v3)), Limits{MaxSize: 5<<20 - 1})
	NewWithT(t).Expect(errors.As(err, new(*TooLargeError))).To(BeTrue())
}

// pack compresses content.
func pack(tb testing.TB, kind Kind, content []byte) []byte {
	tb.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch kind {
	case GZIP:
		w = gzip.NewWriter(&out)
	case XZ:
		w, err = xz.NewWriter(&out)
	case ZSTD:
		w, err = zstd.NewWriter(&out)
	default:
		tb.Fatal(kind)
	}
	if err != nil {
		tb.Fatal(err)
	}
	_, err = w.Write(content)
	if err := errors.Join(err, w.Close()); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// bzipped is "hello\n" as bzip2 writes it.
const bzipped = "BZh91AY&SY\xc1\xc0\x80\xe2\x00\x00\x01A\x00\x00\x10\x02D\xa0\x000\xcd\x00\xc3F)\x97\x17rE8P\x90\xc1\xc0\x80\xe2"

// TestDecompress: each kind is detected and read, also several files one after the other. A truncated and a damaged file is an InvalidError.
func TestDecompress(t *testing.T) {
	content := bytes.Repeat([]byte("hello\n"), 100_000)
	for _, kind := range []Kind{GZIP, XZ, ZSTD, BZIP2} {
		t.Run(string(kind), func(t *testing.T) {
			g := NewWithT(t)
			packed, want := []byte(bzipped), []byte("hello\n")
			if kind != BZIP2 {
				packed, want = pack(t, kind, content), content
			}
			g.Expect(Detect(packed)).To(Equal(kind))
			unpack := func(ctx context.Context, p []byte) ([]byte, error) {
				r, err := Decompress(ctx, kind, bytes.NewReader(p))
				if err != nil {
					return nil, err
				}
				got, err := io.ReadAll(r)
				return got, errors.Join(err, r.Close())
			}
			got, err := unpack(t.Context(), packed)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(bytes.Equal(got, want)).To(BeTrue())
			got, err = unpack(t.Context(), append(append([]byte(nil), packed...), packed...))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(HaveLen(2 * len(want)))
			_, err = unpack(t.Context(), packed[:len(packed)-3])
			g.Expect(errors.As(err, new(*InvalidError))).To(BeTrue(), "%v", err)
			damaged := append([]byte(nil), packed...)
			damaged[len(damaged)/2] ^= 0x55
			_, err = unpack(t.Context(), damaged)
			g.Expect(errors.As(err, new(*InvalidError))).To(BeTrue(), "%v", err)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err = unpack(ctx, packed)
			g.Expect(err).To(MatchError(context.Canceled))
		})
	}
}

// TestDecoderMemory: a file that demands a huge dictionary or window is refused before the memory is allocated.
func TestDecoderMemory(t *testing.T) {
	g := NewWithT(t)
	var out bytes.Buffer
	w, err := xz.WriterConfig{DictCap: 1 << 27}.NewWriter(&out)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.Write([]byte("x"))
	g.Expect(errors.Join(err, w.Close())).To(Succeed())
	r, err := Decompress(t.Context(), XZ, &out)
	if err == nil {
		_, err = io.ReadAll(r)
	}
	g.Expect(err).To(MatchError(ContainSubstring("dictionary of more than 67108864 bytes")))
	// A frame header with a window of 2 GiB (RFC 8878, section 3.1.1.1.2), and an empty last block.
	r, err = Decompress(t.Context(), ZSTD, bytes.NewReader([]byte("\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00")))
	if err == nil {
		_, err = io.ReadAll(r)
	}
	g.Expect(err).To(MatchError(ContainSubstring("window of more than 134217728 bytes")))
}

func TestDetectOthers(t *testing.T) {
	g := NewWithT(t)
	for _, head := range []string{"KDMV\x01", "# Disk DescriptorFile", "vhdxfile", "conectix", "QED\x00", "PK\x03\x04", string(make([]byte, 64)) + "\x7f\x10\xda\xbe", string(make([]byte, 257)) + "ustar",
		"WithoutFreeSpace\x02", "WithouFreSpacExt\x02", "MSWIM\x00\x00\x00", "hsqs", "LZIP\x01", "\x89LZO\x00\r\n\x1a\n", "\x1f\x9d\x90", "Rar!\x1a\x07\x01", "070701", "!<arch>\n",
		"\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff", "\x5d\x00\x00\x80\x01\x00\x00\x00\x40\x00\x00\x00\x00"} {
		_, err := Detect([]byte(head))
		g.Expect(err).To(And(MatchError(ContainSubstring("qemu-img convert")), MatchError(ErrUnsupported)), head)
		g.Expect(errors.As(err, new(*InvalidError))).To(BeTrue(), head)
	}
	for _, head := range []string{"", "BZ", "BZh9", "BZh91AY&S", "\xeb\x3c\x90", "\x5d\x00\x00\x80", "\x5d\x01\x02\x03\x04\xff\xff\xff\xff\xff\xff\xff\xff",
		"\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\x01"} {
		g.Expect(Detect([]byte(head))).To(Equal(Raw))
	}
	g.Expect(VirtualSize(fixture(t, "v3.qcow2"))).To(BeEquivalentTo(5 << 20))
	g.Expect(VirtualSize([]byte("raw"))).To(BeZero())
}

func TestRawLimit(t *testing.T) {
	g := NewWithT(t)
	_, err := readAll(t.Context(), NewRaw(bytes.NewReader(make([]byte, 101)), Limits{MaxSize: 100}), 64, 1<<20)
	g.Expect(errors.As(err, new(*TooLargeError))).To(BeTrue())
	g.Expect(readAll(t.Context(), NewRaw(bytes.NewReader(make([]byte, 100)), Limits{MaxSize: 100}), 64, 1<<20)).To(HaveLen(100))
}

// FuzzQCOW2: no file makes the reader panic, read outside of the file, or end with an error that is not the file's fault.
func FuzzQCOW2(f *testing.F) {
	for _, name := range []string{"small", "deflate", "zstd", "backing", "extended"} {
		file := fixture(f, name+".qcow2")
		f.Add(file[:min(len(file), 64<<10)])
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		r, size, err := NewQCOW2(bytes.NewReader(file), int64(len(file)), Limits{MaxSize: 8 << 20})
		if err == nil {
			defer r.Close()
			var got []byte
			if got, err = readAll(ctx, r, 1<<20, 16<<20); err == nil && int64(len(got)) != size {
				t.Fatalf("%d of %d bytes", len(got), size)
			}
		}
		if err != nil && !errors.As(err, new(*InvalidError)) && !errors.As(err, new(*TooLargeError)) {
			t.Fatal(err)
		}
	})
}

// FuzzDecompress: no file makes a decoder panic or end with an error that is not the file's fault.
func FuzzDecompress(f *testing.F) {
	for _, kind := range []Kind{GZIP, XZ, ZSTD} {
		f.Add(pack(f, kind, bytes.Repeat([]byte("hello\n"), 1000)))
	}
	f.Add([]byte(bzipped))
	f.Add([]byte("\x50\x2a\x4d\x18\x04\x00\x00\x00abcd"))
	f.Fuzz(func(t *testing.T, file []byte) {
		kind, err := Detect(file)
		if err != nil || !kind.Compressed() {
			return
		}
		r, err := Decompress(t.Context(), kind, bytes.NewReader(file))
		if err == nil {
			_, err = io.Copy(io.Discard, io.LimitReader(r, 64<<20))
			err = errors.Join(err, r.Close())
		}
		if err != nil && !errors.As(err, new(*InvalidError)) {
			t.Fatal(err)
		}
	})
}
