package image

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/klauspost/compress/zstd"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

func newService(t *testing.T, opts Options) *Service {
	t.Helper()
	opts.Outbound = outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	if opts.Dir == "" {
		opts.Dir = t.TempDir()
	}
	if opts.RetryAfter == 0 {
		opts.RetryAfter = time.Hour
	}
	if opts.MaxRetryAfter == 0 {
		opts.MaxRetryAfter = 4 * time.Hour
	}
	s, err := New(opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func sum(content []byte) string {
	s := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(s[:])
}

// disk is a disk with size bytes of data.
func disk(size int, seed byte) []byte { return bytes.Repeat([]byte{seed, 1, 2, 3}, size/4) }

func gz(content []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(content)
	_ = w.Close()
	return out.Bytes()
}

func zst(content []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	return w.EncodeAll(content, nil)
}

// origins serves files by their paths, and counts the requests.
type origins struct {
	*httptest.Server

	requests atomic.Int32
}

func serve(t *testing.T, files map[string][]byte) *origins {
	t.Helper()
	o := &origins{}
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o.requests.Add(1)
		content, ok := files[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(o.Close)
	return o
}

// await waits until an image is ready or has an error.
func await(t *testing.T, images Images, namespace string, from Source) (Info, error) {
	t.Helper()
	var info Info
	var err error
	NewWithT(t).Eventually(func() bool {
		info, err = images.Prepare(t.Context(), namespace, from, nil)
		return errors.Is(err, ErrNotYet)
	}, "30s", "2ms").Should(BeFalse())
	return info, err
}

func reasonOf(err error) Reason {
	failure := new(Error)
	if !errors.As(err, &failure) {
		return Reason(fmt.Sprintf("none: %v", err))
	}
	return failure.Reason
}

// diskUsage is what is in a folder.
func diskUsage(t *testing.T, dir string) int64 {
	t.Helper()
	var n int64
	_ = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, _ error) error {
		var stat syscall.Stat_t
		if syscall.Lstat(path, &stat) == nil && stat.Mode&syscall.S_IFMT == syscall.S_IFREG {
			n += stat.Blocks * 512
		}
		return nil
	})
	return n
}

// names are the entries of a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestPrepareAndOpen(t *testing.T) {
	g := NewWithT(t)
	content := append(disk(3<<20, 7), make([]byte, 4<<20+100)...)
	packed := gz(content)
	origin := serve(t, map[string][]byte{"/disk": content, "/disk.gz": packed})
	s := newService(t, Options{})
	var infos []Info
	for path, raw := range map[string][]byte{"/disk": content, "/disk.gz": packed} {
		from := Source{URL: origin.URL + path, Checksum: sum(raw)}
		_, err := s.Open("dc", from)
		g.Expect(err).To(MatchError(ErrNotYet))
		info, err := await(t, s, "dc", from)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(info.DataBytes).To(BeEquivalentTo(3 << 20))
		g.Eventually(func() float64 { return testutil.ToFloat64(s.metrics.cacheBytes) }).Should(BeNumerically(">=", 3<<20), "the job exports it after the image is ready")
		g.Expect(testutil.ToFloat64(s.metrics.cacheLimit)).To(BeEquivalentTo(s.opts.MaxBytes))
		infos = append(infos, info)
		opened, err := s.Open("dc", from)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(opened.Info).To(Equal(info))
		encoded, err := opened.Manifest()
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(manifest.DigestOf(encoded)).To(Equal(info.ManifestDigest))
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.Header.Set("Range", "bytes=3145724-3145731")
		http.ServeContent(w, r, "", opened.Modified, opened.Data)
		g.Expect(w.Body.Bytes()).To(Equal([]byte{7, 1, 2, 3, 0, 0, 0, 0}))
		g.Expect(s.space.Remove(strings.Replace(from.Checksum, ":", "-", 1))).To(Succeed())
		_, err = opened.Data.Seek(0, io.SeekStart)
		g.Expect(err).NotTo(HaveOccurred())
		all, err := io.ReadAll(opened.Data)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bytes.Equal(all[:len(content)], content)).To(BeTrue(), "it stays readable after it was deleted")
		g.Expect(opened.Close()).To(Succeed())
	}
	g.Expect(infos[0]).To(Equal(infos[1]))
	s.Close()
	g.Expect(names(t, s.opts.Dir)).To(BeEmpty())
	complete, partial := s.space.Bytes()
	g.Expect([]int64{complete, partial}).To(Equal([]int64{0, 0}))
}

// TestManifestDecodedOnce: an image opens without reading a manifest that is known. A manifest that was replaced is read, and one that was damaged is not served.
func TestManifestDecodedOnce(t *testing.T) {
	g := NewWithT(t)
	content := disk(3<<20, 9)
	origin := serve(t, map[string][]byte{"/disk": content})
	s := newService(t, Options{})
	from := Source{URL: origin.URL + "/disk", Checksum: sum(content)}
	_, err := await(t, s, "dc", from)
	g.Expect(err).NotTo(HaveOccurred())
	opened, err := s.Open("dc", from)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(opened.Close()).To(Succeed())

	path := filepath.Join(s.opts.Dir, strings.ReplaceAll(from.Checksum, ":", "-"), manifestName)
	info, err := os.Stat(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(path, make([]byte, info.Size()), 0o600)).To(Succeed())
	g.Expect(os.Chtimes(path, info.ModTime(), info.ModTime())).To(Succeed())
	opened, err = s.Open("dc", from)
	g.Expect(err).NotTo(HaveOccurred(), "the manifest is known")
	_, err = opened.Manifest()
	g.Expect(err).To(MatchError(errDamaged))
	g.Expect(opened.Close()).To(Succeed())

	g.Expect(os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0))).To(Succeed())
	_, err = s.Open("dc", from)
	g.Expect(err).To(MatchError(ErrNotYet), "the file is another one")
}

// TestRawDisk: a disk that begins like another format is refused, and taken if it is declared as raw; also compressed.
func TestRawDisk(t *testing.T) {
	content := append([]byte("WithoutFreeSpace"), disk(1<<20, 1)...)
	packed := zst(content)
	o := serve(t, map[string][]byte{"/disk": content, "/packed": packed})
	s := newService(t, Options{})
	for path, file := range map[string][]byte{"/disk": content, "/packed": packed} {
		g := NewWithT(t)
		from := Source{URL: o.URL + path, Checksum: sum(file)}
		_, err := await(t, s, "dc", from)
		g.Expect(err).To(MatchError(ContainSubstring("set format: Raw")))
		from.Raw = true
		_, err = await(t, s, "dc", from)
		g.Expect(err).NotTo(HaveOccurred(), path)
	}
}

// TestFailures: each failure has its reason, leaves nothing on the disk, and is remembered.
func TestFailures(t *testing.T) {
	content := disk(1<<20, 1)
	vmdk := append([]byte("KDMV"), content...)
	qcow2 := append([]byte("QFI\xfb\x00\x00\x00\x03"), make([]byte, 500)...)
	huge := append([]byte("QFI\xfb\x00\x00\x00\x03"), bytes.Repeat([]byte{0x7f}, 500)...)
	bomb := zst(disk(128<<20, 1))
	o := serve(t, map[string][]byte{"/disk": content, "/vmdk": vmdk, "/qcow2": qcow2, "/huge": huge, "/bomb": bomb, "/large": disk(9<<20, 1)})
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, test := range map[string]struct {
		from   Source
		reason Reason
		text   string
	}{
		"unreachable": {Source{URL: closed.URL, Checksum: sum(content)}, ImageUnreachable, "no file came from the origin"},
		"404":         {Source{URL: o.URL + "/none?token=x", Checksum: sum(content)}, ImageUnreachable, "no file came from the origin"},
		"scheme":      {Source{URL: "ftp://x/y", Checksum: sum(content)}, ImageUnreachable, "http, https and oci"},
		"checksum":    {Source{URL: o.URL + "/disk", Checksum: sum([]byte("guess"))}, ChecksumDiffers, sum([]byte("guess"))},
		"no checksum": {Source{URL: o.URL + "/disk", Checksum: "md5:x"}, ChecksumDiffers, "is no checksum"},
		"VMDK":        {Source{URL: o.URL + "/vmdk", Checksum: sum(vmdk)}, ImageFormatInvalid, "format VMDK"},
		"qcow2 raw":   {Source{URL: o.URL + "/qcow2", Checksum: sum(qcow2), Raw: true}, ImageFormatInvalid, "remove format"},
		"qcow2":       {Source{URL: o.URL + "/qcow2", Checksum: sum(qcow2)}, ImageFormatInvalid, "qcow2"},
		"huge":        {Source{URL: o.URL + "/huge", Checksum: sum(huge)}, ImageTooLarge, "use an image with a smaller disk"},
		"bomb":        {Source{URL: o.URL + "/bomb", Checksum: sum(bomb)}, ImageFormatInvalid, "times as much data"},
		"large":       {Source{URL: o.URL + "/large", Checksum: "sha256:" + strings.Repeat("0", 64)}, ImageTooLarge, "larger than 8388608"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var lines strings.Builder
			log := funcr.New(func(_, line string) { lines.WriteString(line) }, funcr.Options{})
			limit := int64(8 << 20)
			if name == "bomb" {
				limit = 1 << 30
			}
			s := newService(t, Options{MaxImageSize: limit, Log: log})
			_, err := await(t, s, "dc", test.from)
			g.Expect(reasonOf(err)).To(Equal(test.reason))
			if name != "no checksum" { // it is refused before a preparation begins
				g.Expect(testutil.ToFloat64(s.metrics.preparations.WithLabelValues(string(test.reason)))).To(BeNumerically(">", 0))
			}
			g.Expect(err).To(MatchError(ContainSubstring(test.text)))
			g.Expect(err.Error()).NotTo(ContainSubstring(sum(content)))
			before := o.requests.Load()
			_, again := s.Prepare(t.Context(), "dc", test.from, nil)
			g.Expect(again).To(MatchError(err.Error()))
			g.Expect(o.requests.Load()).To(Equal(before))
			s.Close()
			g.Expect(names(t, s.opts.Dir)).To(BeEmpty())
			_, partial := s.space.Bytes()
			g.Expect(partial).To(BeZero())
			g.Expect(lines.String()).NotTo(ContainSubstring("token=x"))
		})
	}
}

// TestPermanent: an error that only another image or another source ends is remembered longer each time.
func TestPermanent(t *testing.T) {
	for reason, want := range map[Reason]bool{ChecksumDiffers: true, ImageNotFound: true, ImageFormatInvalid: true, ImageUnreachable: false, NoSpace: false, Interrupted: false} {
		if got := permanent(&Error{Reason: reason}); got != want {
			t.Errorf("%s: %t", reason, got)
		}
	}
}

// TestBreaks: a download that breaks continues. One that never advances is an error.
func TestBreaks(t *testing.T) {
	g := NewWithT(t)
	content := disk(4<<20, 3)
	var requests, ranges atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Etag", `"x"`)
		if r.URL.Path == "/always" {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
			_, _ = w.Write(content[:1<<20])
			panic(http.ErrAbortHandler)
		}
		if r.Header.Get("Range") != "" {
			ranges.Add(1)
		}
		if requests.Load() <= 2 {
			w = &short{ResponseWriter: w, left: 1 << 20}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	defer server.Close()
	s := newService(t, Options{})
	_, err := await(t, s, "dc", Source{URL: server.URL + "/disk", Checksum: sum(content)})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(ranges.Load()).To(BeEquivalentTo(2))
	_, err = await(t, s, "dc", Source{URL: server.URL + "/always", Checksum: sum([]byte("x"))})
	g.Expect(reasonOf(err)).To(Equal(ImageUnreachable))
}

// short ends a response early.
type short struct {
	http.ResponseWriter

	left int
}

func (s *short) Write(p []byte) (int, error) {
	if s.left < len(p) {
		panic(http.ErrAbortHandler)
	}
	s.left -= len(p)
	return s.ResponseWriter.Write(p)
}

// TestBound: the folder never exceeds its bound, whatever the origin says about the length. Of a file that is too large by its declared length only the start is downloaded.
func TestBound(t *testing.T) {
	g := NewWithT(t)
	const most, start = 8 << 20, 1 << 20
	var sent atomic.Int64 // of the file with a declared length
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		declared := r.URL.Path == "/declared"
		if declared {
			w.Header().Set("Content-Length", strconv.Itoa(most*2))
		}
		for block := disk(1<<16, 1); r.Context().Err() == nil; {
			n, err := w.Write(block)
			if err != nil {
				return
			}
			// The kernel takes megabytes for a client that reads no more, so a client has time to close the connection.
			if declared && sent.Add(int64(n)) == start/2 {
				select {
				case <-r.Context().Done():
				case <-time.After(5 * time.Second):
				}
			}
		}
	}))
	defer server.Close()
	s := newService(t, Options{MaxBytes: most})
	_, err := s.Prepare(t.Context(), "dc", Source{URL: server.URL + "/endless", Checksum: sum([]byte("x"))}, nil)
	for errors.Is(err, ErrNotYet) {
		g.Expect(diskUsage(t, s.opts.Dir)).To(BeNumerically("<=", most))
		_, err = s.Prepare(t.Context(), "dc", Source{URL: server.URL + "/endless", Checksum: sum([]byte("x"))}, nil)
	}
	g.Expect(reasonOf(err)).To(Equal(NoSpace))
	g.Expect(err).To(MatchError(ContainSubstring("images.maxSize")))
	_, err = await(t, s, "dc", Source{URL: server.URL + "/declared", Checksum: sum([]byte("x"))})
	g.Expect(reasonOf(err)).To(Equal(NoSpace))
	s.Close()
	g.Expect(names(t, s.opts.Dir)).To(BeEmpty())
	server.Close() // waits for the handler
	g.Expect(sent.Load()).To(And(BeNumerically(">", 0), BeNumerically("<", start)))
	// A disk that grows while it is converted.
	sparse := zst(disk(16<<20, 1))
	o := serve(t, map[string][]byte{"/grows": sparse})
	s = newService(t, Options{MaxBytes: most})
	_, err = await(t, s, "dc", Source{URL: o.URL + "/grows", Checksum: sum(sparse)})
	g.Expect(reasonOf(err)).To(Equal(NoSpace))
}

// TestShares: a namespace cannot take the space of what another one uses beyond its share, and an image of two namespaces is stored once.
func TestShares(t *testing.T) {
	g := NewWithT(t)
	files := map[string][]byte{}
	for i := range byte(8) {
		files[fmt.Sprint("/", i)] = disk(2<<20, i)
	}
	o := serve(t, files)
	from := func(i int) Source {
		path := fmt.Sprint("/", i)
		return Source{URL: o.URL + path, Checksum: sum(files[path])}
	}
	s := newService(t, Options{MaxBytes: 14 << 20, RetryAfter: time.Nanosecond, MaxRetryAfter: time.Nanosecond})
	for i := range 5 {
		_, err := await(t, s, "mallory", from(i))
		g.Expect(err).NotTo(HaveOccurred(), "alone it may have all")
	}
	_, err := await(t, s, "dc", from(3))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.requests.Load()).To(BeEquivalentTo(5), "it is stored once")
	_, err = await(t, s, "dc", from(5))
	g.Expect(err).NotTo(HaveOccurred(), "it has less than its share")
	for i := range 8 {
		_, _ = await(t, s, "mallory", from(i)) // some do not fit
	}
	for _, i := range []int{3, 5} {
		_, err := s.Prepare(t.Context(), "dc", from(i), nil)
		g.Expect(err).NotTo(HaveOccurred(), "what it uses it keeps")
	}
}

// TestRestart: images of an earlier process are verified before they are served, damaged ones are fetched again, and incomplete ones are deleted.
func TestRestart(t *testing.T) {
	g := NewWithT(t)
	files := map[string][]byte{"/good": disk(2<<20, 1), "/flipped": disk(2<<20, 2), "/hole": append(disk(1<<20, 3), make([]byte, 1<<20)...), "/manifest": disk(1<<20, 4), "/gone": disk(1<<20, 5)}
	o := serve(t, files)
	dir := t.TempDir()
	s := newService(t, Options{Dir: dir})
	from := map[string]Source{}
	infos := map[string]Info{}
	path := func(name, file string) string {
		return filepath.Join(dir, strings.Replace(from[name].Checksum, ":", "-", 1), file)
	}
	for name, content := range files {
		from[name] = Source{URL: o.URL + name, Checksum: sum(content)}
		info, err := await(t, s, "dc", from[name])
		g.Expect(err).NotTo(HaveOccurred())
		infos[name] = info
	}
	s.Close()
	for name, offset := range map[string]int64{"/flipped": 5, "/hole": 1<<20 + 5} {
		f, err := os.OpenFile(path(name, dataName), os.O_WRONLY, 0)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = f.WriteAt([]byte{0xff}, offset)
		g.Expect(errors.Join(err, f.Close())).To(Succeed())
	}
	g.Expect(os.Truncate(path("/manifest", manifestName), 100)).To(Succeed())
	g.Expect(os.Remove(path("/gone", dataName))).To(Succeed())
	g.Expect(os.MkdirAll(filepath.Join(dir, "part-1", "x"), 0o700)).To(Succeed())
	g.Expect(os.Mkdir(filepath.Join(dir, "lost+found"), 0o700)).To(Succeed())

	s = newService(t, Options{Dir: dir, Log: funcr.New(func(_, line string) { t.Log(line) }, funcr.Options{})})
	g.Expect(filepath.Join(dir, "part-1")).NotTo(BeADirectory())
	_, err := s.Open("dc", from["/good"])
	g.Expect(err).To(MatchError(ErrNotYet), "it is not verified yet")
	for name := range files {
		info, err := await(t, s, "dc", from[name])
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(info).To(Equal(infos[name]))
	}
	g.Expect(o.requests.Load()).To(BeEquivalentTo(5 + 4))
	g.Expect(names(t, dir)).To(HaveLen(6))
	// A running process notices an emptied folder.
	g.Expect(os.RemoveAll(filepath.Dir(path("/good", dataName)))).To(Succeed())
	_, err = s.Open("dc", from["/good"])
	g.Expect(err).To(MatchError(ErrNotYet))
	_, err = await(t, s, "dc", from["/good"])
	g.Expect(err).NotTo(HaveOccurred())
	complete, partial := s.space.Bytes()
	g.Expect(partial).To(BeZero())
	g.Expect(complete).To(BeNumerically(">", 7<<20))
}

// TestMany: many servers of several namespaces want images while they come and go. The folder keeps its bound, and each open image is whole.
func TestMany(t *testing.T) {
	const kinds, most = 6, 9 << 20
	files := map[string][]byte{}
	for i := range byte(kinds) {
		files[fmt.Sprint("/", i)] = zst(disk(2<<20, i))
	}
	o := serve(t, files)
	s := newService(t, Options{MaxBytes: most, Retention: 1, RetryAfter: time.Nanosecond, MaxRetryAfter: time.Nanosecond})
	var wg sync.WaitGroup
	for i := range 24 {
		wg.Go(func() {
			g := NewGomega(func(message string, _ ...int) { t.Error(message) })
			path := fmt.Sprint("/", i%kinds)
			from := Source{URL: o.URL + path, Checksum: sum(files[path])}
			g.Eventually(func() error {
				if _, err := s.Prepare(context.Background(), fmt.Sprint("ns", i%3), from, nil); err != nil {
					return err
				}
				opened, err := s.Open(fmt.Sprint("ns", i%3), from)
				if err != nil {
					return err
				}
				all, err := io.ReadAll(opened.Data)
				if err := errors.Join(err, opened.Close()); err != nil || !bytes.Equal(all, disk(2<<20, byte(i%kinds))) {
					t.Errorf("%d bytes, %v", len(all), err)
				}
				return nil
			}, "1m", "1ms").Should(Succeed())
			if n := diskUsage(t, s.opts.Dir); n > most {
				t.Errorf("%d bytes on the disk", n)
			}
		})
	}
	wg.Wait()
	s.Close()
	_, partial := s.space.Bytes()
	NewWithT(t).Expect(partial).To(BeZero())
}

// TestDiskFull: the message says that the disk is full. A full disk is /dev/full.
func TestDiskFull(t *testing.T) {
	g := NewWithT(t)
	s := newService(t, Options{})
	_, r, err := s.reserve(t.Context(), &job{namespace: "dc"})
	g.Expect(err).NotTo(HaveOccurred())
	defer r.close()
	r.source, err = os.OpenFile("/dev/full", os.O_WRONLY, 0)
	g.Expect(err).NotTo(HaveOccurred())
	err = (&transfer{service: s, reservation: r, sum: sha256.New(), job: &job{}}).receive(strings.NewReader("content"))
	g.Expect(err).To(MatchError(syscall.ENOSPC))
	failure := s.failure(t.Context(), &job{}, err)
	g.Expect(failure.Reason).To(Equal(NoSpace))
	g.Expect(failure.Message).To(ContainSubstring("the disk with the images is full"))
}

// TestClient: a client in another process gets the same, and opens what is ready also without the service. Credentials are in no log.
func TestClient(t *testing.T) {
	g := NewWithT(t)
	content := disk(2<<20, 9)
	o := serve(t, map[string][]byte{"/disk": content})
	s := newService(t, Options{Log: logr.Discard()})
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	g.Expect(err).NotTo(HaveOccurred())
	server := &http.Server{Handler: s.Handler()}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(listener) })
	c := NewClient(s.opts.Dir, socket)
	g.Expect(c.Health(t.Context())).To(Succeed())
	from := Source{URL: o.URL + "/disk", Checksum: sum(content)}
	_, err = c.Open("dc", from)
	g.Expect(err).To(MatchError(ErrNotYet))
	info, err := await(t, c, "dc", from)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info).To(Equal(Info{ManifestDigest: info.ManifestDigest, DataBytes: 2 << 20, Header: manifest.Header{Version: 1, Size: 2 << 20, SectorSize: 512, Table: manifest.NoTable}}))
	_, err = await(t, c, "dc", Source{URL: o.URL + "/none", Checksum: sum([]byte("x"))})
	g.Expect(reasonOf(err)).To(Equal(ImageUnreachable))
	for range 2 {
		opened, err := c.Open("dc", from)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(io.ReadAll(opened.Data)).To(Equal(content))
		g.Expect(opened.Info).To(Equal(info))
		g.Expect(opened.Close()).To(Succeed())
		g.Expect(server.Close()).To(Succeed())
	}
	wg.Wait()
	_, err = c.Prepare(t.Context(), "dc", from, nil)
	g.Expect(err).To(MatchError(ContainSubstring("does not answer")))
	g.Expect(c.Health(t.Context())).To(MatchError(ContainSubstring("does not answer")))
	g.Expect(fmt.Sprintf("%v %s %#v", Credentials("hunter2"), Credentials("hunter2"), Credentials("hunter2"))).NotTo(ContainSubstring("hunter2"))
}
