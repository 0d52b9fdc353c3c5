package pxe_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/loader"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

const mac = "52-54-00-00-00-01"

// lab is a handler whose Booter knows one server, which boots a kernel.
type lab struct {
	handler *pxe.Handler
	booter  *booter
	kernel  []byte

	mu  sync.Mutex
	log strings.Builder // the log of the cache
}

// booter is a pxe.Booter whose script the test changes.
type booter struct {
	*pxetest.Booter

	change func(*pxe.Script)
}

func (b *booter) Script(ctx context.Context, mac net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	script, err := b.Booter.Script(ctx, mac, from)
	if b.change != nil {
		b.change(&script)
	}
	return script, err
}

func newLab(tb testing.TB, size int) *lab {
	tb.Helper()
	g := NewWithT(tb)
	l := &lab{kernel: bytes.Repeat([]byte("kernel! "), size/8)}
	sum := sha256.Sum256(l.kernel)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(l.kernel) }))
	tb.Cleanup(origin.Close)
	cache, err := artifact.New(artifact.Options{
		Dir: tb.TempDir(), Outbound: outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Log: funcr.New(func(_, line string) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.log.WriteString(line + "\n")
		}, funcr.Options{}),
	})
	g.Expect(err).NotTo(HaveOccurred())
	tb.Cleanup(cache.Close)
	loaders := tb.TempDir()
	g.Expect(pxetest.WriteLoaders(loaders, "snponly.efi", "undionly.kpxe")).To(Succeed())
	set, err := loader.Load(loaders)
	g.Expect(err).NotTo(HaveOccurred())
	l.booter = &booter{Booter: &pxetest.Booter{
		MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, Token: "token",
		Answer: pxe.Answer{Known: true, Boot: pxe.Network, Namespace: "dc", Files: []artifact.Artifact{{URL: origin.URL, Checksum: "sha256:" + hex.EncodeToString(sum[:])}}},
	}}
	l.handler = &pxe.Handler{
		Booter: l.booter, Artifacts: cache, Loaders: set, Log: logr.Discard(), BaseURL: func(netip.Addr) string { return "http://192.0.2.1:8480" },
	}
	g.Eventually(func() error {
		file, err := cache.Open("dc", l.booter.Answer.Files[0])
		if err != nil {
			return err
		}
		return file.Close()
	}, "30s").Should(Succeed())
	return l
}

func (l *lab) do(method, path string, header ...string) *httptest.ResponseRecorder {
	recorder := httptest.NewRecorder()
	request := httptest.NewRequest(method, "/", nil) //nolint:noctx // answered at once
	request.URL = &url.URL{Path: path}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	l.handler.Mux().ServeHTTP(recorder, request)
	return recorder
}

// TestRefusals: whatever is refused, the answer is the same in status, headers and bytes, so that a client does not learn what exists.
func TestRefusals(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, 8)
	want := l.do(http.MethodGet, "/ipxe/52-54-00-00-00-02")
	g.Expect(want.Code).To(Equal(http.StatusForbidden))
	for _, request := range []string{
		"GET /", "GET /ipxe/", "GET /ipxe", "GET /ipxe/garbage", "GET /ipxe/52-54-00-00-00", "GET /ipxe/00-00-00-00-00-00-00-01", "GET /grub/garbage", "GET /grub",
		"GET /grub/52-54-00-00-00-02", "POST /ipxe/" + mac, "PUT /ipxe/" + mac, "DELETE /grub/" + mac, "OPTIONS /ipxe/" + mac, "TRACE /", "POST /grub/grub.cfg",
		"GET /grub/x86_64-efi/grub.cfg", "GET /boot/" + mac, "GET /boot/" + mac + "/", "GET /boot/" + mac + "/1", "GET /boot/" + mac + "/-1", "GET /boot/" + mac + "/x",
		"GET /boot/52-54-00-00-00-02/0", "GET /boot/garbage/0", "POST /boot/" + mac + "/0", "GET /loader", "GET /loader/", "GET /loader/" + mac, "GET /loader/" + mac + "/",
		"GET /loader/" + mac + "/SHA256SUMS", "GET /loader/" + mac + "/../../../etc/passwd", `GET /loader/..\..\etc\passwd`, "GET /loader/garbage/snponly.efi",
		"POST /loader/" + mac + "/snponly.efi", "GET /seed/dc/h/guess/user-data", "GET /seed/dc/other/token/user-data", "GET /seed/", "POST /seed/dc/h/token/user-data",
		"POST /report/dc/h/guess/up", "GET /report/dc/h/token/up", "POST /report/dc/h/token/nothing", "GET /metrics", "GET /.well-known/x", "GET //", "GET /ipxe//x",
	} {
		method, path, _ := strings.Cut(request, " ")
		got := l.do(method, path)
		g.Expect(got.Code).To(Equal(want.Code), request)
		g.Expect(got.Header()).To(Equal(want.Header()), request)
		g.Expect(got.Body.String()).To(Equal(want.Body.String()), request)
	}
	g.Expect(l.booter.Stages()).To(BeEmpty())
	g.Expect(l.booter.Reports()).To(BeZero())

	l.booter.Err = errors.New("the API server says: secret")
	for _, path := range []string{"/ipxe/", "/grub/"} { // any other answer would end the boot
		got := l.do(http.MethodGet, path+mac)
		g.Expect(got.Code).To(Equal(http.StatusOK))
		g.Expect(got.Body.String()).To(ContainSubstring("cannot answer now, asking again in 5 seconds"))
		g.Expect(got.Body.String()).NotTo(ContainSubstring("secret"))
	}
}

// FuzzRequests: whatever the request, existing resources are served and everything else gets the same refusal.
func FuzzRequests(f *testing.F) {
	l := newLab(f, 8)
	mux := l.handler.Mux()
	for _, path := range []string{"/ipxe/" + mac, "/grub/52:54:00:00:00:01", "/grub/grub.cfg", "/boot/" + mac + "/0", "/loader//" + mac + "/./snponly.efi", "/seed/dc/h/token/meta-data", "/%2e%2e", `\x`} {
		f.Add("GET", path, "")
		f.Add("HEAD", path, "bytes=0-1,3-")
	}
	f.Fuzz(func(t *testing.T, method, path, ranges string) {
		request := httptest.NewRequest(http.MethodGet, "/", nil) //nolint:noctx // answered at once
		request.Method, request.URL = method, &url.URL{Path: path}
		request.Header.Set("Range", ranges)
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, request)
		switch recorder.Code {
		case http.StatusOK, http.StatusPartialContent, http.StatusRequestedRangeNotSatisfiable, http.StatusNoContent:
		case http.StatusForbidden:
			if recorder.Body.String() != "refused\n" {
				t.Fatalf("%s %q: %q", method, path, recorder.Body)
			}
		default:
			t.Fatalf("%s %q: %d %q", method, path, recorder.Code, recorder.Body)
		}
	})
}

// TestScripts: each boot loader gets the same script in its own syntax.
func TestScripts(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, 8)
	script := l.do(http.MethodGet, "/ipxe/"+mac)
	g.Expect(script.Code).To(Equal(http.StatusOK))
	g.Expect(script.Body.String()).To(ContainSubstring("\nkernel --name kernel http://192.0.2.1:8480/boot/" + mac + "/0 quiet ds=nocloud;dsmode=net;s=http://192.0.2.1:8480/seed/dc/h/token/ ||"))
	config := l.do(http.MethodGet, "/grub/52:54:00:00:00:01") // as GRUB writes it
	g.Expect(config.Code).To(Equal(http.StatusOK))
	g.Expect(config.Body.String()).To(ContainSubstring("\nif linux '(http,192.0.2.1:8480)/boot/" + mac + "/0' 'quiet' 'ds=nocloud;dsmode=net;s=http://192.0.2.1:8480/seed/dc/h/token/'; then\n"))
	g.Expect(config.Header().Get("Content-Length")).NotTo(BeEmpty(), "GRUB reads no chunks")
	// After UEFI HTTP boot GRUB asks for the size first.
	size := l.do(http.MethodHead, "/grub/52:54:00:00:00:01")
	g.Expect(size.Code).To(Equal(http.StatusOK))
	g.Expect(size.Header().Get("Content-Length")).To(Equal(config.Header().Get("Content-Length")))
	g.Expect(config.Body.Len()).To(Equal(8<<10), "by the time of the GET it may be another script, of the same size")
	first := l.do(http.MethodGet, "/grub/grub.cfg")
	g.Expect(first.Body.String()).To(ContainSubstring("source '(http,192.0.2.1:8480)/grub/'${net_default_mac}\n"))
	for _, response := range []*httptest.ResponseRecorder{script, config, first} {
		g.Expect(response.Header().Get("Content-Type")).To(Equal("text/plain; charset=utf-8"))
		g.Expect(response.Header().Get("Cache-Control")).To(Equal("no-store"))
	}

	l.booter.Answer.Boot = pxe.Disk
	g.Expect(l.do(http.MethodGet, "/ipxe/"+mac).Body.String()).To(HaveSuffix("\nexit 1\n"))
	g.Expect(strings.TrimRight(l.do(http.MethodGet, "/grub/"+mac).Body.String(), "\n")).To(HaveSuffix("\nexit"))
}

// TestSoon: a client that asks for the script of a server that is not powered on yet is asked to retry, in the syntax of its boot loader. Nothing is
// served, fetched or bound, and no boot slot is used.
func TestSoon(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, 8)
	l.handler.BootSlots = pxe.NewBootSlots(map[string]int{"rack-1": 1}, l.booter)
	l.handler.Network = func(netip.Addr, netip.Addr) string { return "rack-1" }
	l.booter.Scripts = func(netip.Addr) (pxe.Script, error) {
		t.Error("the script is asked for")
		return pxe.Script{}, pxe.ErrRefused
	}
	l.booter.Answer.Boot = pxe.NotYet
	for range 30 { // more often than the limit of failed attempts
		script := l.do(http.MethodGet, "/ipxe/"+mac)
		g.Expect(script.Code).To(Equal(http.StatusOK))
		g.Expect(script.Body.String()).To(And(HavePrefix("#!ipxe\n"), ContainSubstring("The boot is being prepared, asking again in 5 seconds"),
			ContainSubstring("http://192.0.2.1:8480/ipxe/"+mac), Not(ContainSubstring("/seed/"))))
		config := l.do(http.MethodGet, "/grub/"+mac)
		g.Expect(config.Code).To(Equal(http.StatusOK))
		g.Expect(config.Body.String()).To(And(ContainSubstring("The boot is being prepared, asking again in 5 seconds"), Not(ContainSubstring("/seed/"))))
		g.Expect(config.Body.Len()).To(Equal(8<<10), "as long as the script that follows")
	}
	g.Expect(l.do(http.MethodGet, "/boot/"+mac+"/0").Code).To(Equal(http.StatusForbidden))
	g.Expect(l.booter.Stages()).To(BeEmpty())
	l.booter.Scripts, l.booter.Answer.Boot = nil, pxe.Network
	g.Expect(l.do(http.MethodGet, "/ipxe/"+mac).Body.String()).To(HavePrefix("#!ipxe\necho test\nkernel"))
}

// TestNotYet: a client that is too early for a script, or for bootstrap data, is asked to retry. This is no failed attempt, delays no other server that
// waits for a boot slot, and reveals no reason.
func TestNotYet(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, 8)
	l.handler.BootSlots = pxe.NewBootSlots(map[string]int{"rack-1": 1}, neighbours{l.booter})
	l.handler.Network = func(netip.Addr, netip.Addr) string { return "rack-1" }
	l.booter.Scripts = func(netip.Addr) (pxe.Script, error) {
		return pxe.Script{}, fmt.Errorf("%w: the reason", pxe.ErrNotYet)
	}
	mux := l.handler.Mux()
	get := func(path string) *httptest.ResponseRecorder {
		recorder := httptest.NewRecorder()
		mux.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil)) //nolint:noctx // answered at once
		return recorder
	}
	for range 30 {
		for _, path := range []string{"/ipxe/", "/grub/"} {
			script := get(path + mac)
			g.Expect(script.Code).To(Equal(http.StatusOK))
			g.Expect(script.Body.String()).To(And(ContainSubstring("The boot is not ready yet"), ContainSubstring("asking again in 5 seconds"),
				Not(ContainSubstring("/seed/")), Not(ContainSubstring("the reason"))))
		}
	}
	// Another server of the network gets the only slot.
	l.booter.Scripts, l.booter.MAC[5] = nil, 9
	g.Expect(get("/ipxe/52-54-00-00-00-09").Body.String()).To(HavePrefix("#!ipxe\necho test\nkernel"))
	l.booter.Err = fmt.Errorf("%w: the reason", pxe.ErrNotYet)
	for range 30 {
		data := get("/seed/dc/h/token/user-data")
		g.Expect(data.Code).To(Equal(http.StatusServiceUnavailable), "an operating system asks again")
		g.Expect(data.Body.String()).NotTo(ContainSubstring("the reason"))
	}
}

// TestWait: while the slots of its network are used a server is asked to retry, in the syntax of its boot loader, before anything is served or
// bound. A server with nothing to boot uses no slot and learns nothing.
func TestWait(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, 8)
	granted := l.do(http.MethodGet, "/ipxe/"+mac).Body.String()
	refused := l.do(http.MethodGet, "/ipxe/52-54-00-00-00-02").Body.String()
	var asked []netip.Addr
	l.handler.BootSlots = pxe.NewBootSlots(map[string]int{"rack-1": 1}, neighbours{l.booter})
	l.handler.Network = func(_, from netip.Addr) string { asked = append(asked, from); return "rack-1" }

	// Another server of the network has the slot.
	l.booter.MAC[5] = 9
	g.Expect(l.do(http.MethodGet, "/ipxe/52-54-00-00-00-09").Body.String()).To(HavePrefix("#!ipxe\necho test\nkernel"))
	l.booter.MAC[5] = 1

	bound := 0
	l.booter.change = func(*pxe.Script) { bound++ }
	waits := l.do(http.MethodGet, "/ipxe/"+mac)
	g.Expect(waits.Code).To(Equal(http.StatusOK))
	golden(t, "wait.ipxe", waits.Body.String())
	config := l.do(http.MethodGet, "/grub/"+mac)
	g.Expect(config.Body.Len()).To(Equal(8<<10), "as long as the script that follows")
	golden(t, "wait.cfg", strings.TrimRight(config.Body.String(), "\n")+"\n")
	g.Expect(bound).To(BeZero(), "no client got the script")
	g.Expect(l.booter.Stages()).To(BeEmpty())
	g.Expect(l.booter.Waiting()).To(Equal(1))
	g.Expect(l.do(http.MethodGet, "/ipxe/52-54-00-00-00-02").Body.String()).To(Equal(refused))
	l.booter.Answer.Boot = pxe.Disk
	g.Expect(l.do(http.MethodGet, "/ipxe/"+mac).Body.String()).To(HaveSuffix("\nexit 1\n"))
	l.booter.Answer.Boot = pxe.Network
	g.Expect(asked).To(HaveEach(netip.MustParseAddr("192.0.2.1")))

	// A server that gets no script with its slot delays no other server.
	l.handler.BootSlots = pxe.NewBootSlots(map[string]int{"rack-1": 1}, neighbours{l.booter})
	l.booter.change = func(s *pxe.Script) { s.CommandLine = "a ; shell" }
	g.Expect(l.do(http.MethodGet, "/ipxe/"+mac).Body.String()).To(ContainSubstring("The boot source is not usable"))
	l.booter.change, l.booter.MAC[5] = nil, 9
	g.Expect(l.do(http.MethodGet, "/ipxe/52-54-00-00-00-09").Body.String()).To(HavePrefix("#!ipxe\necho test\nkernel"))

	l.handler.BootSlots, l.booter.MAC[5] = nil, 1
	g.Expect(l.do(http.MethodGet, "/ipxe/"+mac).Body.String()).To(Equal(granted))
}

// neighbours gives every server the answers of the one server.
type neighbours struct{ *booter }

func (n neighbours) Lookup(ctx context.Context, _ net.HardwareAddr) (pxe.Answer, error) {
	return n.booter.Lookup(ctx, n.MAC)
}

// golden compares a text with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(got).To(Equal(string(want)))
}

// TestBootSources: an unusable boot source is a condition, and the server asks again until it is fixed.
func TestBootSources(t *testing.T) {
	for name, c := range map[string]struct {
		path, commandLine, template string
		files                       []artifact.Artifact
		want                        string
	}{
		"a template":                     {path: "/ipxe/", template: "#!ipxe\nchain {{ .SeedURL }}{{ .Hostname }} {{ .Kernel }}", want: ""},
		"a template that names nothing":  {path: "/ipxe/", template: "#!ipxe\n{{ .Secret }}", want: "iPXE template: "},
		"a template with Secure Boot":    {path: "/grub/", template: "#!ipxe\n", want: "give boot.kernel and boot.commandLine instead of boot.ipxeTemplate"},
		"a quotation with Secure Boot":   {path: "/grub/", commandLine: `a="b c"`, want: "the command line of a server with Secure Boot cannot contain"},
		"a quotation without":            {path: "/ipxe/", commandLine: `a="b c"`},
		"a command line that is no line": {path: "/ipxe/", commandLine: "a ; shell", want: "a script cannot contain"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := newLab(t, 8)
			l.booter.change = func(s *pxe.Script) { s.CommandLine, s.Template, s.Hostname = c.commandLine, c.template, "m-1" }
			got := l.do(http.MethodGet, c.path+mac)
			g.Expect(got.Code).To(Equal(http.StatusOK))
			if c.want == "" {
				g.Expect(l.booter.Failures()).To(BeEmpty())
				g.Expect(got.Body.String()).To(ContainSubstring("http://192.0.2.1:8480/"))
				return
			}
			g.Expect(l.booter.Failures()).To(ConsistOf(And(MatchError(pxe.ErrBootSource), MatchError(ContainSubstring(c.want)))))
			g.Expect(got.Body.String()).To(ContainSubstring("The boot source is not usable"))
			g.Expect(got.Body.String()).NotTo(ContainSubstring(c.want), "the client reads where the reason is")
			g.Expect(got.Body.String()).NotTo(ContainSubstring("token"))
		})
	}
	g := NewWithT(t)
	l := newLab(t, 8)
	l.booter.Answer.Files = nil
	l.booter.change = func(s *pxe.Script) {
		s.Template = "#!ipxe\nchain http://menu.example.com/{{ .Kernel }}{{ len .Initrds }}?{{ .SeedURL }}"
	}
	g.Expect(l.do(http.MethodGet, "/ipxe/"+mac).Body.String()).To(Equal("#!ipxe\nchain http://menu.example.com/0?http://192.0.2.1:8480/seed/dc/h/token/"))
}

// TestVanishedOrigin: a file that cannot be fetched completely is not served, the reason is recorded, and the server asks again.
func TestVanishedOrigin(t *testing.T) {
	for name, origin := range map[string]http.HandlerFunc{
		"gone":   http.NotFound,
		"broken": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"truncated": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "half")
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := newLab(t, 8)
			server := httptest.NewServer(origin)
			defer server.Close()
			l.booter.Answer.Files = append(l.booter.Answer.Files, artifact.Artifact{URL: server.URL, Checksum: "sha256:" + strings.Repeat("0", 64)})
			g.Expect(l.do(http.MethodGet, "/ipxe/"+mac).Body.String()).To(ContainSubstring("The boot files are being fetched"))
			g.Eventually(func() string { return l.do(http.MethodGet, "/ipxe/"+mac).Body.String() }).Should(ContainSubstring("The boot files are not available"))
			g.Expect(l.booter.Failures()).To(ContainElement(MatchError(ContainSubstring(server.URL))))
			g.Expect(l.do(http.MethodGet, "/boot/"+mac+"/1").Code).To(Equal(http.StatusServiceUnavailable))
			l.mu.Lock()
			defer l.mu.Unlock()
			g.Expect(strings.Split(strings.TrimSpace(l.log.String()), "\n")).To(HaveEach(ContainSubstring(`"namespace"="dc"`)))
		})
	}
}

// TestFiles: kernels, initrds and boot loaders are served with their size, and in parts.
func TestFiles(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, 4000)
	head := l.do(http.MethodHead, "/boot/"+mac+"/0")
	g.Expect(head.Code).To(Equal(http.StatusOK))
	g.Expect(head.Header().Get("Content-Length")).To(Equal("4000"))
	g.Expect(head.Body.Len()).To(BeZero())
	g.Expect(l.booter.Stages()).To(BeEmpty(), "to ask for the size is not to load it")
	whole := l.do(http.MethodGet, "/boot/"+mac+"/0")
	g.Expect(whole.Body.Bytes()).To(Equal(l.kernel))
	g.Expect(whole.Header().Get("Content-Type")).To(Equal("application/octet-stream"))
	part := l.do(http.MethodGet, "/boot/"+mac+"/0", "Range", "bytes=8-23")
	g.Expect(part.Code).To(Equal(http.StatusPartialContent))
	g.Expect(part.Header().Get("Content-Range")).To(Equal("bytes 8-23/4000"))
	g.Expect(part.Body.String()).To(Equal("kernel! kernel! "))
	g.Expect(l.do(http.MethodGet, "/boot/"+mac+"/0", "Range", "bytes=5000-").Code).To(Equal(http.StatusRequestedRangeNotSatisfiable))

	size := l.do(http.MethodHead, "/loader/"+mac+"/snponly.efi")
	g.Expect(size.Header().Get("Content-Length")).To(Equal("18"))
	g.Expect(size.Header().Get("Content-Type")).To(Equal("application/efi"))
	g.Expect(l.booter.Stages()).To(Equal([]pxe.Stage{pxe.StageKernel}))
	// shim asks for files beside it with two slashes, some firmware with backslashes.
	for _, path := range []string{"/loader/" + mac + "/snponly.efi", "/loader/" + mac + "//snponly.efi", "/loader/" + mac + `/\snponly.efi`, "/loader/snponly.efi"} {
		g.Expect(l.do(http.MethodGet, path).Body.String()).To(Equal("loader snponly.efi"), path)
	}
	g.Expect(l.do(http.MethodGet, "/loader/"+mac+"/undionly.kpxe", "Range", "bytes=7-14").Body.String()).To(Equal("undionly"))
	g.Expect(l.booter.Stages()).To(Equal([]pxe.Stage{pxe.StageKernel, pxe.StageLoader}))
}

// watched is a connection that counts what is sent through it.
type watched struct {
	*net.TCPConn

	l *watcher
}

type watcher struct {
	net.Listener

	mu             sync.Mutex
	files, written int64 // bytes that were passed as files, and other bytes
}

func (l *watcher) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watched{conn.(*net.TCPConn), l}, nil
}

func (c *watched) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	c.l.written += int64(n)
	return n, err
}

func (c *watched) ReadFrom(r io.Reader) (int64, error) {
	limited, ok := r.(*io.LimitedReader)
	if ok {
		_, ok = limited.R.(*os.File)
	}
	n, err := c.TCPConn.ReadFrom(r)
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	if ok {
		c.l.files += n
	} else {
		c.l.written += n
	}
	return n, err
}

// TestSendfile: the kernel sends a file from the disk to the network. For that the connection must get the
// file itself, limited once at most (net.TCPConn.ReadFrom): it would not recognize it in any other wrapper.
func TestSendfile(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, 5<<20)
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	g.Expect(err).NotTo(HaveOccurred())
	w := &watcher{Listener: listener}
	server := &http.Server{Handler: l.handler.Mux(), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(w) }()
	t.Cleanup(func() { _ = server.Close() })
	response, err := http.Get("http://" + listener.Addr().String() + "/boot/" + mac + "/0") //nolint:noctx // the lab's own
	g.Expect(err).NotTo(HaveOccurred())
	content, err := io.ReadAll(response.Body)
	g.Expect(errors.Join(err, response.Body.Close())).To(Succeed())
	g.Expect(bytes.Equal(content, l.kernel)).To(BeTrue())
	w.mu.Lock()
	defer w.mu.Unlock()
	g.Expect(w.files).To(BeEquivalentTo(len(l.kernel)-512), "net/http copies the first 512 bytes itself")
	g.Expect(w.written).To(BeNumerically("<", 1024), "these, and the head of the answer")
}

// TestSlowClients: a client that receives data, however slowly, gets all of it; the connection of one that stops is closed.
func TestSlowClients(t *testing.T) {
	g := NewWithT(t)
	l := newLab(t, 48<<20)
	l.handler.ClientTimeout = 2 * time.Second
	server := httptest.NewServer(l.handler.Mux())
	t.Cleanup(server.Close)
	ask := func() *net.TCPConn {
		conn, err := net.Dial("tcp", server.Listener.Addr().String()) //nolint:noctx // the lab's own
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "GET /boot/"+mac+"/0 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		g.Expect(err).NotTo(HaveOccurred())
		return conn.(*net.TCPConn)
	}
	stopped, slow := ask(), ask()
	begin := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var got int64
	for range 1 << 10 {
		n, err := io.CopyN(io.Discard, slow, 1<<20)
		got += n
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		<-tick.C
	}
	g.Expect(got).To(BeNumerically(">", len(l.kernel)))
	g.Expect(time.Since(begin)).To(BeNumerically(">", 2*l.handler.ClientTimeout), "it was slow")
	n, err := io.Copy(io.Discard, stopped)
	g.Expect(errors.Is(err, io.EOF) || err == nil || errors.Is(err, syscall.ECONNRESET)).To(BeTrue(), "%v", err)
	g.Expect(n).To(BeNumerically("<", len(l.kernel)), "it is cut off")
}

// BenchmarkFile measures the cost of sending a kernel in this process, compared with a copy of the same file through its memory.
func BenchmarkFile(b *testing.B) {
	l := newLab(b, 64<<20)
	plain := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		file, err := l.handler.Artifacts.Open("dc", l.booter.Answer.Files[0])
		if err != nil {
			b.Error(err)
			return
		}
		defer func() { _ = file.Close() }()
		w.Header().Set("Content-Length", strconv.Itoa(len(l.kernel)))
		_, _ = io.Copy(struct{ io.Writer }{w}, file)
	})
	for name, handler := range map[string]http.Handler{"sendfile": l.handler.Mux(), "copied": plain} {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(handler)
			defer server.Close()
			conn, err := net.Dial("tcp", server.Listener.Addr().String()) //nolint:noctx // the lab's own
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			b.SetBytes(int64(len(l.kernel)))
			before := cpu()
			for b.Loop() {
				if _, err := io.WriteString(conn, "GET /boot/"+mac+"/0 HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					b.Fatal(err)
				}
				// The reader discards the data in the kernel (MSG_TRUNC).
				discard(b, conn.(*net.TCPConn), len(l.kernel))
			}
			b.ReportMetric((cpu()-before).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// discard reads an answer with a body of a size, and discards it.
func discard(b *testing.B, conn *net.TCPConn, body int) {
	b.Helper()
	head := make([]byte, 0, 4096)
	for !bytes.Contains(head, []byte("\r\n\r\n")) {
		n, err := conn.Read(head[len(head):cap(head)])
		if err != nil {
			b.Fatal(err)
		}
		head = head[:len(head)+n]
	}
	_, rest, _ := bytes.Cut(head, []byte("\r\n\r\n"))
	left := body - len(rest)
	raw, err := conn.SyscallConn()
	if err != nil {
		b.Fatal(err)
	}
	buffer := make([]byte, 1<<20)
	for left > 0 {
		err := raw.Read(func(fd uintptr) bool {
			n, _, err := syscall.Recvfrom(int(fd), buffer[:min(left, len(buffer))], syscall.MSG_TRUNC)
			left -= max(n, 0)
			return !errors.Is(err, syscall.EAGAIN)
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}
