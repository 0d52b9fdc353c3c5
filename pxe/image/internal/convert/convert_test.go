package convert

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	kgzip "github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	. "github.com/onsi/gomega"
	"github.com/ulikunitz/xz"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt/gpttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/internal/format"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

// account counts as a reservation does, with a limit.
type account struct{ used, most, limit int64 }

var errFull = errors.New("full")

func (a *account) Add(n int64) error {
	if a.used+n > a.limit {
		return errFull
	}
	a.used += n
	a.most = max(a.most, a.used)
	return nil
}

func (a *account) Sub(n int64) { a.used -= n }

// run converts a source, and returns the data and the encoded manifest.
func run(ctx context.Context, dir string, source []byte, reservation *account, maxSize int64) (data []byte, encoded []byte, err error) {
	var files [3]*os.File
	for i := range files {
		if files[i], err = os.CreateTemp(dir, ""); err != nil {
			return nil, nil, err
		}
		defer func() { _ = os.Remove(files[i].Name()); _ = files[i].Close() }()
	}
	if _, err := files[0].Write(source); err != nil {
		return nil, nil, err
	}
	reservation.used = int64(len(source))
	m, err := Convert(ctx, files[0], files[1], Options{MaxSize: maxSize, Reservation: reservation, Temporary: files[2]})
	if err != nil {
		return nil, nil, err
	}
	if data, err = os.ReadFile(files[1].Name()); err != nil {
		return nil, nil, err
	}
	var stat syscall.Stat_t
	if err := syscall.Fstat(int(files[1].Fd()), &stat); err != nil {
		return nil, nil, err
	}
	if stat.Blocks*512 > m.DataBytes()+64<<10 {
		return nil, nil, fmt.Errorf("%d bytes on the disk for %d bytes of data", stat.Blocks*512, m.DataBytes())
	}
	encoded, err = m.Encode()
	return data, encoded, err
}

func pack(kind format.Kind, content []byte) []byte {
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch kind {
	case format.GZIP:
		w = kgzip.NewWriter(&out)
	case format.XZ:
		w, err = xz.NewWriter(&out)
	case format.ZSTD:
		w, err = zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	default:
		panic(kind)
	}
	if err == nil {
		_, err = w.Write(content)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// qcow2 returns a qcow2 file of version 3 with a disk. Clusters of zeros are not allocated. The fixtures of package format are those of qemu-img.
func qcow2(disk []byte, bits uint32) []byte {
	cluster := 1 << bits
	perL1 := cluster * cluster / 8
	l1 := (len(disk) + perL1 - 1) / perL1
	l1Clusters := (l1*8 + cluster - 1) / cluster
	file := make([]byte, (2+l1Clusters)*cluster)
	copy(file, "QFI\xfb")
	binary.BigEndian.PutUint32(file[4:], 3)
	binary.BigEndian.PutUint32(file[20:], bits)
	binary.BigEndian.PutUint64(file[24:], uint64(len(disk)))
	binary.BigEndian.PutUint32(file[36:], uint32(l1))
	binary.BigEndian.PutUint64(file[40:], uint64(2*cluster))
	binary.BigEndian.PutUint64(file[48:], uint64(cluster))
	binary.BigEndian.PutUint32(file[56:], 1)
	binary.BigEndian.PutUint32(file[96:], 4)
	binary.BigEndian.PutUint32(file[100:], 104)
	for at := 0; at < len(disk); at += cluster {
		part := disk[at:min(len(disk), at+cluster)]
		if len(bytes.Trim(part, "\x00")) == 0 {
			continue
		}
		entry := 2*cluster + at/perL1*8
		l2 := binary.BigEndian.Uint64(file[entry:]) &^ (1 << 63)
		if l2 == 0 {
			l2 = uint64(len(file))
			binary.BigEndian.PutUint64(file[entry:], l2|1<<63)
			file = append(file, make([]byte, cluster)...) //nolint:makezero // it grows behind its tables
		}
		binary.BigEndian.PutUint64(file[int(l2)+at%perL1/cluster*8:], uint64(len(file))|1<<63)
		file = append(append(file, part...), make([]byte, cluster-len(part))...) //nolint:makezero // as above
	}
	return file
}

// TestPropertySame: a raw, a qcow2 and a compressed image of a disk become the same data, which is that of the disk and zeros up to a sector, and the same
// manifest, which describes the data.
func TestPropertySame(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		disk := make([]byte, rapid.IntRange(1, 6<<20).Draw(t, "size"))
		for range rapid.IntRange(0, 5).Draw(t, "extents") {
			at := rapid.IntRange(0, len(disk)-1).Draw(t, "at")
			value := byte(rapid.IntRange(0, 255).Draw(t, "value"))
			for i := range rapid.IntRange(1, 200_000).Draw(t, "length") {
				if at+i < len(disk) {
					disk[at+i] = value + byte(i*i>>8)
				}
			}
		}
		reservation := func() *account { return &account{limit: 1 << 30} }
		data, want, err := run(context.Background(), dir, disk, reservation(), 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		m, err := manifest.Decode(want)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(data)) != m.Size || len(data)-len(disk) >= 512 || !bytes.Equal(data[:len(disk)], disk) || len(bytes.Trim(data[len(disk):], "\x00")) > 0 {
			t.Fatal("the data is not the disk")
		}
		for c := range m.All() {
			part := data[c.Offset : c.Offset+c.Length]
			if zero := len(bytes.Trim(part, "\x00")) == 0; zero != c.Hole || !zero && sha256.Sum256(part) != c.Digest {
				t.Fatalf("chunk %d differs", c.Index)
			}
		}
		bits := uint32(rapid.IntRange(9, 18).Draw(t, "cluster bits"))
		kind := rapid.SampledFrom([]format.Kind{format.GZIP, format.XZ, format.ZSTD}).Draw(t, "kind")
		for name, source := range map[string][]byte{
			"qcow2": qcow2(disk, bits), string(kind): pack(kind, disk), "qcow2." + string(kind): pack(kind, qcow2(disk, bits)),
		} {
			got, encoded, err := run(context.Background(), dir, source, reservation(), 1<<40)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !bytes.Equal(got, data) || !bytes.Equal(encoded, want) {
				t.Fatalf("%s has another result", name)
			}
		}
	})
}

// TestQEMU: the files of qemu-img become the disk that qemu-img convert reads from them, also when they are compressed.
func TestQEMU(t *testing.T) {
	for name, disk := range map[string]string{"v2": "disk", "v3": "disk", "small": "disk", "deflate": "disk", "zstd": "disk", "large": "disk", "extras": "extras"} {
		g := NewWithT(t)
		packed, err := os.ReadFile("../format/testdata/" + name + ".qcow2.gz")
		g.Expect(err).NotTo(HaveOccurred())
		data, _, err := run(t.Context(), t.TempDir(), packed, &account{limit: 1 << 30}, 1<<40)
		g.Expect(err).NotTo(HaveOccurred(), name)
		raw, err := os.Open("../format/testdata/" + disk + ".raw.gz")
		g.Expect(err).NotTo(HaveOccurred())
		r, err := gzip.NewReader(raw)
		g.Expect(err).NotTo(HaveOccurred())
		want, err := io.ReadAll(r)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bytes.Equal(data, want)).To(BeTrue(), name)
	}
}

// TestPadding: an image for sectors of 4096 bytes is padded to them, and the digest of its last chunk is that of the padded one.
func TestPadding(t *testing.T) {
	g := NewWithT(t)
	disk := make([]byte, manifest.ChunkSize+4096*3+5)
	gpttest.PutGPT(disk, 4096, nil)
	disk[len(disk)-1] = 7
	data, encoded, err := run(t.Context(), t.TempDir(), disk, &account{limit: 1 << 30}, 1<<40)
	g.Expect(err).NotTo(HaveOccurred())
	m, err := manifest.Decode(encoded)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(m.SectorSize).To(Equal(4096))
	g.Expect(m.Size).To(BeEquivalentTo(manifest.ChunkSize + 4*4096))
	g.Expect(data).To(HaveLen(int(m.Size)))
	for c := range m.All() {
		g.Expect(c.Digest).To(BeEquivalentTo(sha256.Sum256(data[c.Offset : c.Offset+c.Length])))
	}
}

// TestBomb: a small file with much data, or a huge disk, ends with a clear error. Zeros are no data.
func TestBomb(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	ones := pack(format.ZSTD, bytes.Repeat([]byte{1}, 128<<20))
	_, _, err := run(t.Context(), dir, ones, &account{limit: 1 << 30}, 1<<40)
	g.Expect(err).To(MatchError(ContainSubstring("more than 256 times as much data")))
	g.Expect(errors.As(err, new(*format.InvalidError))).To(BeTrue())
	// The disk is small, and the file has much that is not of the disk: it is refused while it is unpacked, before its tables are read.
	_, _, err = run(t.Context(), dir, pack(format.ZSTD, append(qcow2([]byte{1}, 16), bytes.Repeat([]byte{1}, 128<<20)...)), &account{limit: 1 << 30}, 1<<40)
	g.Expect(err).To(MatchError(ContainSubstring("more than 256 times as much data")))
	// All clusters of the disk are the same one of the file.
	bits := uint32(16)
	file := qcow2(append(bytes.Repeat([]byte{1}, 1<<16), make([]byte, 511<<20)...), bits)
	l2 := int(binary.BigEndian.Uint64(file[2<<16:]) &^ (1 << 63))
	for at := range 1 << 13 {
		copy(file[l2+at*8:], file[l2:l2+8])
	}
	_, _, err = run(t.Context(), dir, file, &account{limit: 1 << 30}, 1<<40)
	g.Expect(err).To(MatchError(ContainSubstring("more than 256 times as much data")))
	zeros := pack(format.ZSTD, make([]byte, 256<<20))
	_, encoded, err := run(t.Context(), dir, zeros, &account{limit: 1 << 20}, 1<<40)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(encoded)).To(BeNumerically("<", 1000))
	_, _, err = run(t.Context(), dir, zeros, &account{limit: 1 << 20}, 256<<20-1)
	g.Expect(errors.As(err, new(*format.TooLargeError))).To(BeTrue())
	_, _, err = run(t.Context(), dir, pack(format.GZIP, zeros), &account{limit: 1 << 30}, 1<<40)
	g.Expect(err).To(MatchError(ContainSubstring("compressed twice, with gzip and zstd")))
	_, _, err = run(t.Context(), dir, pack(format.GZIP, qcow2(bytes.Repeat([]byte{1}, 8<<20), 16)), &account{limit: 4 << 20}, 1<<40)
	g.Expect(err).To(MatchError(errFull))
	_, _, err = run(t.Context(), dir, nil, &account{limit: 1 << 30}, 1<<40)
	g.Expect(err).To(MatchError(ContainSubstring("empty")))
	_, _, err = run(t.Context(), dir, pack(format.GZIP, nil), &account{limit: 1 << 30}, 1<<40)
	g.Expect(err).To(MatchError(ContainSubstring("empty")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err = run(ctx, dir, ones, &account{limit: 1 << 30}, 1<<40)
	g.Expect(err).To(MatchError(context.Canceled))
}

// TestPanic: a panic is an error of the image.
func TestPanic(t *testing.T) {
	g := NewWithT(t)
	source, err := os.CreateTemp(t.TempDir(), "")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = source.WriteString("x")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = Convert(t.Context(), source, nil, Options{MaxSize: 1 << 40}) // without Reservation
	g.Expect(err).To(MatchError(ContainSubstring("makes its decoder fail")))
	g.Expect(source.Close()).To(Succeed())
}

// TestSpace: the source gives its space to the disk while it is read.
func TestSpace(t *testing.T) {
	g := NewWithT(t)
	disk := bytes.Repeat([]byte{1}, 100<<20)
	reservation := &account{limit: 1 << 30}
	_, _, err := run(t.Context(), t.TempDir(), disk, reservation, 1<<40)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reservation.most).To(BeNumerically("<=", 100<<20+2*consumedStep))
}

// benchmark converts an image of 256 MiB, of which a quarter is data, and reports the most memory that the conversion has in use.
func benchmark(b *testing.B, source []byte, size int64) {
	b.Helper()
	dir := b.TempDir()
	var peak atomic.Uint64
	stop := make(chan struct{})
	done := make(chan struct{})
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	go func() {
		defer close(done)
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				var now runtime.MemStats
				runtime.ReadMemStats(&now)
				peak.Store(max(peak.Load(), now.HeapInuse-min(now.HeapInuse, before.HeapInuse)))
			}
		}
	}()
	files := make([]*os.File, 2)
	b.SetBytes(size)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		name := filepath.Join(dir, "source")
		if err := os.WriteFile(name, source, 0o600); err != nil {
			b.Fatal(err)
		}
		var err error
		if files[0], err = os.OpenFile(name, os.O_RDWR, 0); err == nil {
			files[1], err = os.CreateTemp(dir, "")
		}
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if _, err := Convert(b.Context(), files[0], files[1], Options{MaxSize: 1 << 40, Reservation: &account{limit: 1 << 40}}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		for _, f := range files {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
		b.StartTimer()
	}
	close(stop)
	<-done
	b.ReportMetric(float64(peak.Load())/(1<<20), "peak-MiB")
}

// BenchmarkConvert reports the speed in bytes of the disk.
func BenchmarkConvert(b *testing.B) {
	disk := make([]byte, 256<<20)
	state := uint32(1)
	for i := 0; i < len(disk)/4; i += 4 { // half of the bits are noise
		state = state*1664525 + 1013904223
		binary.LittleEndian.PutUint32(disk[i:], state&0xff0f0f0f)
	}
	for name, source := range map[string]func() []byte{
		"raw": func() []byte { return disk }, "qcow2": func() []byte { return qcow2(disk, 16) },
		"gzip": func() []byte { return pack(format.GZIP, disk) }, "xz": func() []byte { return pack(format.XZ, disk) }, "zstd": func() []byte { return pack(format.ZSTD, disk) },
	} {
		b.Run(name, func(b *testing.B) { benchmark(b, source(), int64(len(disk))) })
	}
}
