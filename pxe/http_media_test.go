package pxe_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/iso/isotest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/loader"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// mediaLab is a lab whose hosts boot from media.
type mediaLab struct {
	*lab

	media *pxetest.Media
	mux   http.Handler // of the first request
}

// do is that of the lab, with one mux for all requests.
func (l *mediaLab) do(method, path string, header ...string) *httptest.ResponseRecorder {
	if l.mux == nil {
		l.mux = l.handler.Mux()
	}
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(method, "/", nil) //nolint:noctx // answered at once
	request.URL = &url.URL{Path: path}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	l.mux.ServeHTTP(recorder, request)
	return recorder
}

func newMediaLab(tb testing.TB) *mediaLab {
	tb.Helper()
	g := NewWithT(tb)
	l := &mediaLab{lab: newLab(tb, 64<<10), media: pxetest.NewMedia()}
	loaders, agents := tb.TempDir(), tb.TempDir()
	g.Expect(pxetest.WriteMediaLoaders(loaders)).To(Succeed())
	set, err := loader.Load(loaders)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.Mkdir(filepath.Join(agents, "amd64"), 0o700)).To(Succeed())
	for name, size := range map[string]int{"kernel": 200_001, "ramdisk": 300_003} {
		g.Expect(os.WriteFile(filepath.Join(agents, "amd64", name), bytes.Repeat([]byte(name+" of the agent;"), size)[:size], 0o600)).To(Succeed())
	}
	l.handler.Loaders, l.handler.Media, l.handler.AgentFiles = set, l.media, &pxe.AgentFiles{Dir: agents, CommandLine: "quiet"}
	return l
}

var mediumPath = pxe.MediaPath("dc/h", "token-h")

// TestMedium: the medium has the boot loaders, and GRUB's configuration boots the agent from it, with the command line of a network boot.
func TestMedium(t *testing.T) {
	g := NewWithT(t)
	l := newMediaLab(t)
	l.handler.Pins = func() ([]string, error) { return []string{"pin"}, nil }
	l.media.Script.Agent.Network = &seed.Network{Interfaces: []seed.Interface{{Name: "lan0"}}}
	answer := l.do(http.MethodGet, mediumPath)
	g.Expect(answer.Code).To(Equal(http.StatusOK))
	for name, want := range map[string]string{
		"Content-Type": "application/vnd.efi-iso", "Accept-Ranges": "bytes", "Content-Length": strconv.Itoa(answer.Body.Len()), "Location": "", "Transfer-Encoding": "",
		"Last-Modified": "Wed, 25 Nov 2026 10:00:00 GMT",
	} {
		g.Expect(answer.Header().Get(name)).To(Equal(want), name)
	}
	g.Expect(answer.Header().Get("ETag")).To(MatchRegexp(`^"[0-9a-f]{32}"$`))
	volume, err := isotest.Read(bytes.NewReader(answer.Body.Bytes()), int64(answer.Body.Len()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(volume.Label).To(MatchRegexp("^CAPBM_[0-9A-F]{8}$"))
	g.Expect(volume.Boot).To(HaveLen(2))
	g.Expect(volume.Files).To(HaveLen(6))
	mark := "boot/mark/" + strings.ToLower(strings.TrimPrefix(volume.Label, "CAPBM_"))
	g.Expect(volume.Files).To(HaveKey(mark))
	g.Expect(string(volume.Files["boot/kernel"])).To(HavePrefix("kernel of the agent;"))
	g.Expect(volume.Files["boot/kernel"]).To(HaveLen(200_001))
	g.Expect(volume.Files["boot/initrd1"]).To(HaveLen(300_003))
	config := strings.TrimRight(string(volume.Files["boot/grub/grub.cfg"]), "\n")
	network := base64.RawURLEncoding.EncodeToString([]byte(`{"interfaces":[{"name":"lan0"}]}`))
	g.Expect(config).To(And(
		HavePrefix("echo 'dc/h for m, boot attempt 1'\n"), ContainSubstring("search --no-floppy --file --set=root '/"+mark+"'"),
		ContainSubstring("if linux '/boot/kernel' 'console=tty0' 'panic=60' 'quiet' 'console=ttyS0,115200n8' 'capbm.server=http://192.0.2.1:8480' 'capbm.host=dc/h' "+
			"'capbm.token=agent-token' 'capbm.pins=pin' 'capbm.network="+network+"'; then\n"),
		ContainSubstring("initrd '/boot/initrd1'; then\n")))
	g.Expect(answer.Body.String()).NotTo(ContainSubstring("token-h"), "the token of the medium is not in it")

	again := l.do(http.MethodGet, mediumPath)
	g.Expect(bytes.Equal(again.Body.Bytes(), answer.Body.Bytes())).To(BeTrue())
	g.Expect(l.media.ScriptCount()).To(Equal(1), "the configuration is rendered once")
	other := newMediaLab(t)
	other.handler.Pins, other.media.Script = l.handler.Pins, l.media.Script
	replica := other.do(http.MethodGet, mediumPath)
	g.Expect(bytes.Equal(replica.Body.Bytes(), answer.Body.Bytes())).To(BeTrue(), "each boot server has the same bytes")
	g.Expect(replica.Header().Get("ETag")).To(Equal(answer.Header().Get("ETag")))
	another := l.do(http.MethodGet, pxe.MediaPath("dc/h2", "token-h2"))
	g.Expect(another.Code).To(Equal(http.StatusOK))
	g.Expect(another.Header().Get("ETag")).NotTo(Equal(answer.Header().Get("ETag")))
}

// TestMediumOfARM: the medium for arm64 has the kernel in a file system, from which GRUB loads it.
func TestMediumOfARM(t *testing.T) {
	g := NewWithT(t)
	l := newMediaLab(t)
	folder := filepath.Join(l.handler.AgentFiles.Dir, "arm64")
	g.Expect(os.Mkdir(folder, 0o700)).To(Succeed())
	kernel := bytes.Repeat([]byte("kernel of arm64;"), 10_000)
	g.Expect(os.WriteFile(filepath.Join(folder, "kernel.gz"), []byte("for iPXE"), 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(folder, "kernel.squashfs"), kernel, 0o600)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(folder, "ramdisk"), []byte("ramdisk of arm64"), 0o600)).To(Succeed())
	l.media.Medium.Architecture, l.media.Script.Agent.Architecture = "arm64", "arm64"
	answer := l.do(http.MethodGet, mediumPath)
	g.Expect(answer.Code).To(Equal(http.StatusOK), answer.Body.String())
	volume, err := isotest.Read(bytes.NewReader(answer.Body.Bytes()), int64(answer.Body.Len()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(bytes.Equal(volume.Files["boot/kernel"], kernel)).To(BeTrue())
	g.Expect(string(volume.Files["boot/grub/grub.cfg"])).To(MatchRegexp(`\n *loopback kernel '/boot/kernel'\n *if linux '\(kernel\)/kernel' 'console=tty0' 'panic=60' 'quiet' 'console=ttyAMA0,115200n8' `))
}

// TestMediumCannotBeRead: an error in the middle of an answer is recorded: the status of the answer was sent before.
func TestMediumCannotBeRead(t *testing.T) {
	g := NewWithT(t)
	l := newMediaLab(t)
	g.Expect(l.do(http.MethodHead, mediumPath).Code).To(Equal(http.StatusOK))
	g.Expect(os.WriteFile(filepath.Join(l.handler.AgentFiles.Dir, "amd64", "kernel"), []byte("another kernel"), 0o600)).To(Succeed())
	l.do(http.MethodGet, mediumPath)
	g.Expect(l.booter.Failures()).To(HaveLen(1))
	g.Expect(l.booter.Failures()[0]).To(MatchError(ContainSubstring("was replaced during the boot")))
	g.Expect(l.media.Parts()).To(HaveEach(pxe.MediaSize))
}

// TestMediumKeepsItsFiles: many ranges open a file once. A medium keeps the files with which its reading began, and another medium has those that replaced them.
func TestMediumKeepsItsFiles(t *testing.T) {
	g := NewWithT(t)
	l := newMediaLab(t)
	kernel := filepath.Join(l.handler.AgentFiles.Dir, "amd64", "kernel")
	openKernels := func() (n int) {
		descriptors, err := os.ReadDir("/proc/self/fd")
		g.Expect(err).NotTo(HaveOccurred())
		for _, d := range descriptors {
			// It is empty for a descriptor that was closed meanwhile. That of a replaced file ends with " (deleted)".
			if target, _ := os.Readlink("/proc/self/fd/" + d.Name()); strings.HasPrefix(target, kernel) {
				n++
			}
		}
		return n
	}
	old := l.do(http.MethodGet, mediumPath).Body.Bytes()
	g.Expect(openKernels()).To(Equal(1))
	for start := 0; start < len(old); start += 64 << 10 {
		l.do(http.MethodGet, mediumPath, "Range", fmt.Sprintf("bytes=%d-%d", start, start+64<<10-1))
	}
	g.Expect(openKernels()).To(Equal(1))

	next := bytes.Repeat([]byte("the next kernel;"), 20_000)[:200_001]
	g.Expect(os.WriteFile(kernel+".new", next, 0o600)).To(Succeed())
	g.Expect(os.Rename(kernel+".new", kernel)).To(Succeed())
	g.Expect(bytes.Equal(l.do(http.MethodGet, mediumPath).Body.Bytes(), old)).To(BeTrue())
	g.Expect(bytes.Contains(l.do(http.MethodGet, pxe.MediaPath("dc/h2", "token-h2")).Body.Bytes(), next)).To(BeTrue())
	g.Expect(openKernels()).To(Equal(2))
}

// TestMediumOfBootSource: a machine with spec.boot boots its own kernel and initrds from the medium.
func TestMediumOfBootSource(t *testing.T) {
	g := NewWithT(t)
	l := newMediaLab(t)
	files := slices.Concat(l.booter.Answer.Files, l.booter.Answer.Files)
	l.media.Medium.Agent, l.media.Medium.Files = false, files
	l.media.Script = pxe.Script{Title: "own", CommandLine: "quiet", Files: files, SeedPath: pxe.SeedPath("dc/h", "seed-token")}
	l.handler.MediaURL = func(_ netip.Addr, configured []netip.Addr) string {
		g.Expect(configured).To(Equal([]netip.Addr{netip.MustParseAddr("198.51.100.7")}))
		return "http://198.51.100.1:8480"
	}
	l.media.Medium.Addresses = []netip.Addr{netip.MustParseAddr("198.51.100.7")}
	answer := l.do(http.MethodGet, mediumPath)
	g.Expect(answer.Code).To(Equal(http.StatusOK))
	volume, err := isotest.Read(bytes.NewReader(answer.Body.Bytes()), int64(answer.Body.Len()))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(volume.Files["boot/kernel"]).To(Equal(l.kernel))
	g.Expect(volume.Files["boot/initrd1"]).To(Equal(l.kernel))
	g.Expect(string(volume.Files["boot/grub/grub.cfg"])).To(ContainSubstring(
		"if linux '/boot/kernel' 'quiet' 'ds=nocloud;dsmode=net;s=http://198.51.100.1:8480/seed/dc/h/seed-token/'; then\n"))

	for name, change := range map[string]func(*pxe.Script){
		"a template":  func(s *pxe.Script) { s.Template = "#!ipxe" },
		"a quotation": func(s *pxe.Script) { s.CommandLine = `a="b"` },
	} {
		l := newMediaLab(t)
		own := l.booter.Answer.Files
		l.media.Medium.Agent, l.media.Medium.Files = false, own
		l.media.Script = pxe.Script{Title: "own", Files: own}
		change(&l.media.Script)
		g.Expect(l.do(http.MethodGet, mediumPath).Code).To(Equal(http.StatusServiceUnavailable), name)
		g.Expect(l.booter.Failures()).To(HaveLen(1), name)
		g.Expect(l.booter.Failures()[0]).To(MatchError(pxe.ErrBootSource), name)
	}
}

// TestMediumRanges: any range has the bytes of the whole, and what is not satisfiable is said to be so.
func TestMediumRanges(t *testing.T) {
	l := newMediaLab(t)
	whole := l.do(http.MethodGet, mediumPath).Body.Bytes()
	size := len(whole)
	rapidtest.Checks(t, 25) // each reads a medium
	rapid.Check(t, func(t *rapid.T) {
		g := NewWithT(t)
		start := rapid.IntRange(0, size-1).Draw(t, "start")
		end := rapid.IntRange(start, size+100).Draw(t, "end")
		spec, wantStart := fmt.Sprintf("bytes=%d-%d", start, end), start
		switch rapid.IntRange(0, 2).Draw(t, "kind") {
		case 1:
			spec, end = fmt.Sprintf("bytes=%d-", start), size
		case 2:
			spec, wantStart, end = fmt.Sprintf("bytes=-%d", size-start), start, size
		}
		want := whole[wantStart:min(end+1, size)]
		answer := l.do(http.MethodGet, mediumPath, "Range", spec)
		g.Expect(answer.Code).To(Equal(http.StatusPartialContent))
		g.Expect(bytes.Equal(answer.Body.Bytes(), want)).To(BeTrue(), spec)
		g.Expect(answer.Header().Get("Content-Range")).To(Equal(fmt.Sprintf("bytes %d-%d/%d", wantStart, wantStart+len(want)-1, size)))
		g.Expect(answer.Header().Get("Content-Length")).To(Equal(strconv.Itoa(len(want))))
		head := l.do(http.MethodHead, mediumPath, "Range", spec)
		g.Expect(head.Code).To(Equal(http.StatusPartialContent))
		g.Expect(head.Header()).To(Equal(answer.Header()))
		g.Expect(head.Body.Len()).To(BeZero())
	})
	g := NewWithT(t)
	head := l.do(http.MethodHead, mediumPath)
	g.Expect(head.Code).To(Equal(http.StatusOK))
	g.Expect(head.Header().Get("Content-Length")).To(Equal(strconv.Itoa(size)))
	g.Expect(head.Body.Len()).To(BeZero())
	for _, spec := range []string{fmt.Sprintf("bytes=%d-", size), fmt.Sprintf("bytes=%d-%d", size+5, size+9), "bytes=9-1", "bytes=x", "pages=1-2", "bytes=99999999999999999999-"} {
		answer := l.do(http.MethodGet, mediumPath, "Range", spec)
		g.Expect(answer.Code).To(Equal(http.StatusRequestedRangeNotSatisfiable), spec)
		g.Expect(answer.Body.Len()).To(BeNumerically("<", 100), spec)
	}
	g.Expect(l.do(http.MethodGet, mediumPath, "Range", fmt.Sprintf("bytes=%d-", size)).Header().Get("Content-Range")).To(Equal(fmt.Sprintf("bytes */%d", size)))
	// Several ranges get the whole: RFC 9110, section 14.2.
	several := l.do(http.MethodGet, mediumPath, "Range", "bytes=0-0"+strings.Repeat(",0-0", 3000))
	g.Expect(several.Code).To(Equal(http.StatusOK))
	g.Expect(bytes.Equal(several.Body.Bytes(), whole)).To(BeTrue())
	// A client that resumes gets the answer that the medium is another one.
	tag := head.Header().Get("ETag")
	g.Expect(l.do(http.MethodGet, mediumPath, "Range", "bytes=1-1", "If-Range", tag).Code).To(Equal(http.StatusPartialContent))
	g.Expect(l.do(http.MethodGet, mediumPath, "Range", "bytes=1-1", "If-Range", `"another"`).Code).To(Equal(http.StatusOK))
}

// TestMediumParts: the parts that were fetched tell a BMC that cannot fetch the medium from a server that does not boot it.
func TestMediumParts(t *testing.T) {
	g := NewWithT(t)
	l := newMediaLab(t)
	whole := l.do(http.MethodGet, mediumPath).Body.Bytes()
	g.Expect(l.media.Parts()).To(Equal([]pxe.MediaPart{pxe.MediaSize, pxe.MediaWhole}), "the request counts before its answer ends")
	at := func(content string) string {
		start := bytes.Index(whole, []byte(content))
		g.Expect(start).To(BeNumerically(">", 0), content)
		return fmt.Sprintf("bytes=%d-%d", start, start+10)
	}
	late := bytes.LastIndex(whole, []byte("loader gcdx64.efi"))
	for _, c := range []struct {
		method, ranges string
		want           pxe.MediaPart
	}{
		{http.MethodHead, "", pxe.MediaSize}, {http.MethodGet, "bytes=32768-34815", pxe.MediaHeaders}, {http.MethodGet, at("echo 'dc/h"), pxe.MediaHeaders},
		{http.MethodGet, fmt.Sprintf("bytes=%d-%d", late, late+5), pxe.MediaLoader}, {http.MethodGet, at("kernel of the agent"), pxe.MediaKernel},
		{http.MethodGet, at("ramdisk of the agent"), pxe.MediaHeaders}, {http.MethodGet, fmt.Sprintf("bytes=%d-", len(whole)), pxe.MediaSize},
		{http.MethodGet, "bytes=0-", pxe.MediaWhole},
	} {
		l := newMediaLab(t)
		l.do(c.method, mediumPath, "Range", c.ranges)
		g.Expect(l.media.Parts()).To(Equal(slices.Compact([]pxe.MediaPart{pxe.MediaSize, c.want})), c.ranges)
	}
}

// TestMediumOrder: the boot loaders are behind the kernel, so that a BMC that copies the medium in parts is no server that boots.
func TestMediumOrder(t *testing.T) {
	g := NewWithT(t)
	l := newMediaLab(t)
	size := l.do(http.MethodGet, mediumPath).Body.Len()
	l = newMediaLab(t)
	for start := 0; start < size; start += 64 << 10 {
		l.do(http.MethodGet, mediumPath, "Range", fmt.Sprintf("bytes=%d-%d", start, start+64<<10-1))
	}
	parts := l.media.Parts()
	g.Expect(parts).To(ContainElements(pxe.MediaKernel, pxe.MediaLoader))
	g.Expect(slices.Index(parts, pxe.MediaKernel)).To(BeNumerically("<", slices.Index(parts, pxe.MediaLoader)))
}

// TestMediumRefusals: whatever is refused, the answer is that of every other refusal.
func TestMediumRefusals(t *testing.T) {
	g := NewWithT(t)
	l := newMediaLab(t)
	want := l.do(http.MethodGet, "/ipxe/garbage")
	for _, path := range []string{
		pxe.MediaPath("dc/h", "guess"), pxe.MediaPath("dc/h2", "token-h"), pxe.MediaPath("DC/h", "token-h"), pxe.MediaPath("dc/-", "token-h"), "/media/dc/h/token-h/boot.img", "/media/dc/h/token-h/",
		"/media/dc/h/token-h", "/media", mediumPath + "/x",
	} {
		got := l.do(http.MethodGet, path)
		g.Expect(got.Code).To(Equal(want.Code), path)
		g.Expect(got.Header()).To(Equal(want.Header()), path)
		g.Expect(got.Body.String()).To(Equal(want.Body.String()), path)
	}
	g.Expect(l.do(http.MethodPost, mediumPath).Code).To(Equal(want.Code))
	g.Expect(l.media.Parts()).To(BeEmpty())

	// httptest's client has the address 192.0.2.1.
	l.handler.MediaClients = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8::/32")}
	got := l.do(http.MethodGet, mediumPath)
	g.Expect(got.Code).To(Equal(want.Code))
	g.Expect(got.Header()).To(Equal(want.Header()))
	g.Expect(l.media.Refusals()).To(HaveExactElements(MatchError(ContainSubstring("the client is in none of media.allowedClients"))))
	g.Expect(l.do(http.MethodGet, pxe.MediaPath("dc/h", "guess")).Body.String()).To(Equal(want.Body.String()))
	g.Expect(l.media.Refusals()).To(HaveLen(1), "a client without the token writes nothing")
	l.handler.MediaClients = append(l.handler.MediaClients, netip.MustParsePrefix("192.0.2.0/24"))
	g.Expect(l.do(http.MethodGet, mediumPath).Code).To(Equal(http.StatusOK))
}

// TestMediumFaults: what is missing is a problem of the boot, and the client gets the answer "not now".
func TestMediumFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault func(*mediaLab)
		want  string
	}{
		"no loader":       {func(l *mediaLab) { l.handler.Loaders = &loader.Set{} }, "no boot loader shimx64.efi"},
		"no agent":        {func(l *mediaLab) { l.handler.AgentFiles.Dir = "/nowhere" }, "no agent for amd64"},
		"architecture":    {func(l *mediaLab) { l.media.Medium.Architecture = "riscv64" }, "no boot medium for the architecture"},
		"no certificate":  {func(l *mediaLab) { l.handler.Pins = func() ([]string, error) { return nil, errors.New("no file") } }, "no file"},
		"long parameters": {func(l *mediaLab) { l.media.Script.Agent.Token = strings.Repeat("x", 3000) }, "too long"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := newMediaLab(t)
			c.fault(l)
			answer := l.do(http.MethodGet, mediumPath)
			g.Expect(answer.Code).To(Equal(http.StatusServiceUnavailable))
			g.Expect(answer.Body.String()).To(Equal("not now\n"))
			g.Expect(l.booter.Failures()).To(HaveLen(1))
			g.Expect(l.booter.Failures()[0]).To(MatchError(ContainSubstring(c.want)))
		})
	}
	g := NewWithT(t)
	l := newMediaLab(t)
	l.media.ScriptErr = errors.New("no bootstrap data")
	g.Expect(l.do(http.MethodGet, mediumPath).Code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(l.booter.Failures()).To(BeEmpty(), "the inventory has recorded it")
	l.media.ScriptErr = nil
	g.Expect(l.do(http.MethodGet, mediumPath).Code).To(Equal(http.StatusOK), "a failure is not kept")
	other := newMediaLab(t)
	other.media.Medium.Agent, other.media.Medium.Files = false, []artifact.Artifact{{URL: other.booter.Answer.Files[0].URL, Checksum: "sha256:" + strings.Repeat("0", 64)}}
	g.Expect(other.do(http.MethodGet, mediumPath).Code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(other.media.Refusals()).To(HaveExactElements(MatchError(ContainSubstring("is still being fetched"))))
	l.media.Err = errors.New("the API server says: secret")
	answer := l.do(http.MethodGet, mediumPath)
	g.Expect(answer.Code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(answer.Body.String()).To(Equal("not now\n"))
}

// FuzzMedium: whatever the range and the path, an answer has the bytes of the whole, or is one of the refusals.
func FuzzMedium(f *testing.F) {
	l := newMediaLab(f)
	whole := l.do(http.MethodGet, mediumPath).Body.Bytes()
	mux := l.handler.Mux()
	for _, ranges := range []string{"", "bytes=0-", "bytes=-1", "bytes=5-2", "bytes=1-2,3-4", "bytes=9223372036854775807-", "bytes= 1 - 2", "bytes=,", "bytes=--1"} {
		f.Add(mediumPath, ranges, "")
		f.Add("/media/dc/h/token-h/../token-h//boot.iso", ranges, `"x"`)
	}
	f.Fuzz(func(t *testing.T, path, ranges, ifRange string) {
		request := httptest.NewRequest(http.MethodGet, "/", nil) //nolint:noctx // answered at once
		request.URL = &url.URL{Path: path}
		request.Header.Set("Range", ranges)
		request.Header.Set("If-Range", ifRange)
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, request)
		switch recorder.Code {
		case http.StatusOK:
			if strings.HasPrefix(path, "/media/") && !bytes.Equal(recorder.Body.Bytes(), whole) {
				t.Fatalf("%q: not the whole", ranges)
			}
		case http.StatusPartialContent:
			var start, end, size int
			if _, err := fmt.Sscanf(recorder.Header().Get("Content-Range"), "bytes %d-%d/%d", &start, &end, &size); err != nil || size != len(whole) ||
				!bytes.Equal(recorder.Body.Bytes(), whole[start:end+1]) {
				t.Fatalf("%q: %v %d %d %d", ranges, err, start, end, size)
			}
		case http.StatusRequestedRangeNotSatisfiable, http.StatusForbidden, http.StatusServiceUnavailable:
		default:
			t.Fatalf("%q %q: %d", path, ranges, recorder.Code)
		}
	})
}
