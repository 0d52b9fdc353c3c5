package agenttest_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/qemu"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/loader"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// maxMedium is the maximum size of a medium with the agent for amd64.
const maxMedium = 45_000_000

// mediaHandler serves the medium of the host of serve, with the agent and the boot loaders that are installed. Its agent finds the boot server at a URL.
func mediaHandler(t *testing.T, agentURL string) (*pxetest.Media, http.Handler) {
	t.Helper()
	set, err := loader.Load("../../.cache/loaders")
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "hack/agenttest.sh makes it")
	media := pxetest.NewMedia()
	media.Script.Title, media.Script.Agent = "a test of media", &pxe.AgentScript{Architecture: "amd64", Host: host, Token: token}
	h := &pxe.Handler{
		Booter: &pxetest.Booter{}, Media: media, Loaders: set, AgentFiles: &pxe.AgentFiles{Dir: filepath.Dir(output)}, Log: logr.Discard(),
		BaseURL: func(netip.Addr) string { return agentURL },
	}
	return media, h.Mux()
}

var mediumPath = pxe.MediaPath("dc/h", "token-h")

// mediaServer is a server of a medium, which counts what was sent.
type mediaServer struct {
	media *pxetest.Media
	url   string

	mu       sync.Mutex
	requests int
	bytes    int64
}

func serveMedium(t *testing.T, at netip.Addr, agentURL string) *mediaServer {
	t.Helper()
	s := &mediaServer{}
	media, handler := mediaHandler(t, agentURL)
	s.media = media
	listener, err := net.Listen("tcp", netip.AddrPortFrom(at, 0).String()) //nolint:noctx // at an address of this test
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s.url = "http://" + listener.Addr().String() + mediumPath
	h := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		counted := &countedAnswer{ResponseWriter: w}
		handler.ServeHTTP(counted, r)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.requests++
		s.bytes += counted.sent
	})}
	go func() { _ = h.Serve(listener) }()
	t.Cleanup(func() { _ = h.Close() })
	return s
}

type countedAnswer struct {
	http.ResponseWriter

	sent int64
}

func (c *countedAnswer) Unwrap() http.ResponseWriter { return c.ResponseWriter }

func (c *countedAnswer) Write(b []byte) (int, error) {
	n, err := c.ResponseWriter.Write(b)
	c.sent += int64(n)
	return n, err
}

func (s *mediaServer) sent() (requests int, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests, s.bytes
}

// TestMedia: each kind of firmware boots the medium, which QEMU reads over HTTP in ranges as a BMC does, up to the end of the agent's plan.
func TestMedia(t *testing.T) {
	for _, c := range []struct {
		name     string
		firmware qemu.Firmware
		says     string
	}{
		{"BIOS", qemu.BIOS(), `"firmware":"BIOS"`},
		{"UEFI", qemu.UEFI(), `"firmware":"UEFI"`},
		{"Secure Boot", qemu.SecureUEFI(), `"firmware":"UEFI"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWire(t, "10.89.0.0/24")
			w.dnsmasq(t, "10.89.0.100,10.89.0.150,2m")
			s := serve(t, w.address(), agent.PowerOff)
			medium := serveMedium(t, w.address(), s.url)
			m := start(t, machine{
				firmware: prepare(t, c.firmware), memory: 1024, patience: 3 * patience, cards: []card{{model: "virtio-net-pci", tap: w.tap(t)}},
				args: []string{
					"-drive", "if=none,id=cd,media=cdrom,readonly=on,format=raw,file=" + medium.url, "-device", "ide-cd,drive=cd,bootindex=0",
				},
			})
			m.awaitEnd(s)
			requests, bytes := medium.sent()
			t.Logf("%s: %.1f s from QEMU's start to the request for the plan, %d requests for %d bytes of the medium", c.name, m.secondsFromStart(s), requests, bytes)
			g.Expect(string(s.Requests(agent.EndpointPlan)[0].Body)).To(ContainSubstring(c.says))
			g.Expect(medium.media.Parts()).To(ContainElements(pxe.MediaHeaders, pxe.MediaLoader, pxe.MediaKernel))
			g.Expect(m.said()).To(ContainSubstring("a test of media"))
			if c.name == "Secure Boot" {
				g.Expect(m.said()).To(MatchRegexp("(?i)secure boot enabled|Kernel is locked down"))
			}
		})
	}
}

// prepare returns the arguments of QEMU for firmware.
func prepare(t *testing.T, f qemu.Firmware) []string {
	t.Helper()
	dir := t.TempDir()
	NewWithT(t).Expect(f.Prepare(dir)).To(Succeed())
	args := make([]string, len(f.Args))
	for i, arg := range f.Args {
		args[i] = strings.ReplaceAll(arg, "FOLDER", dir)
	}
	return args
}

// TestMediaByFirmware: the firmware itself copies the medium (UEFI HTTP boot), and boots from the copy with Secure Boot. DHCP names the URL here, and a BMC would
// set it.
func TestMediaByFirmware(t *testing.T) {
	g := NewWithT(t)
	w := newWire(t, "10.88.0.0/24")
	s := serve(t, w.address(), agent.PowerOff)
	medium := serveMedium(t, w.address(), s.url)
	w.dnsmasq(t, "10.88.0.100,10.88.0.150,2m", "--dhcp-match=set:firmware,option:client-arch,16", "--dhcp-option-force=tag:firmware,60,HTTPClient",
		"--dhcp-boot=tag:firmware,"+medium.url)
	m := start(t, machine{
		firmware: append(prepare(t, qemu.SecureUEFI()), "-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n",
			"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n"), memory: 1024, patience: 3 * patience,
		cards: []card{{model: "virtio-net-pci,bootindex=0", tap: w.tap(t)}},
	})
	m.awaitEnd(s)
	requests, bytes := medium.sent()
	t.Logf("%.1f s from QEMU's start to the request for the plan, %d requests for %d bytes of the medium", m.secondsFromStart(s), requests, bytes)
	g.Expect(medium.media.Parts()).To(ContainElement(pxe.MediaWhole))
	g.Expect(medium.media.Parts()).NotTo(ContainElement(pxe.MediaKernel))
	g.Expect(m.said()).To(MatchRegexp("(?i)secure boot enabled|Kernel is locked down"))
}

// complaint matches the messages of xorriso and isoinfo about what is wrong. isoinfo prints its own to its standard error, and most of them do not change its exit code.
const complaint = `(?i): (WARNING|SORRY|MISHAP|FAILURE|FATAL) :|not readable|isoinfo: |warning(:| -)|\*\*bad|bad rock ridge|illegal`

// TestMediumIsValid: programs that nobody here wrote find nothing wrong with the medium, and it is not too large.
func TestMediumIsValid(t *testing.T) {
	g := NewWithT(t)
	_, handler := mediaHandler(t, "http://192.0.2.1:8480")
	file := filepath.Join(t.TempDir(), "boot.iso")
	writeMedium(g, handler, file)
	info, err := os.Stat(file)
	g.Expect(err).NotTo(HaveOccurred())
	t.Logf("the medium has %d bytes", info.Size())
	g.Expect(info.Size()).To(BeNumerically("<=", maxMedium))

	out := run(t, "xorriso", "-abort_on", "WARNING", "-indev", file, "-report_el_torito", "plain", "-find", "/", "-exec", "lsdl")
	g.Expect(out).NotTo(MatchRegexp(complaint))
	g.Expect(out).To(MatchRegexp(`El Torito boot img :\s+1\s+BIOS\s+y`))
	g.Expect(out).To(MatchRegexp(`El Torito boot img :\s+2\s+UEFI\s+y`))
	g.Expect(out).To(ContainSubstring("boot-info-table"))
	g.Expect(run(t, "xorriso", "-abort_on", "WARNING", "-indev", file, "-check_media", "--")).NotTo(MatchRegexp(complaint))

	out = run(t, "isoinfo", "-debug", "-d", "-i", file)
	g.Expect(out).NotTo(MatchRegexp(complaint))
	g.Expect(out).To(ContainSubstring("CD-ROM is in ISO 9660 format"))
	g.Expect(out).To(MatchRegexp(`Volume id: CAPBM_[0-9A-F]{8}`))
	g.Expect(out).To(ContainSubstring("El Torito VD version 1 found"))
	out = run(t, "isoinfo", "-l", "-i", file)
	g.Expect(out).NotTo(MatchRegexp(complaint))
	for _, name := range []string{"GRUB.CFG;1", "KERNEL.;1", "INITRD1.;1", "UEFI.IMG;1", "BIOS.IMG;1"} {
		g.Expect(out).To(ContainSubstring(name))
	}
	for path, want := range map[string]string{"/BOOT/KERNEL.;1": "kernel", "/BOOT/INITRD1.;1": "ramdisk"} {
		content, err := exec.Command("isoinfo", "-x", path, "-i", file).Output() //nolint:noctx // a short program
		g.Expect(err).NotTo(HaveOccurred())
		original, err := os.ReadFile(filepath.Join(output, want))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bytes.Equal(content, original)).To(BeTrue(), path)
	}

	esp := filepath.Join(t.TempDir(), "esp")
	content, err := exec.Command("isoinfo", "-x", "/BOOT/UEFI.IMG;1", "-i", file).Output() //nolint:noctx // a short program
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(esp, content, 0o600)).To(Succeed())
	run(t, "/sbin/fsck.vfat", "-n", esp)
	g.Expect(run(t, "mdir", "-b", "-/", "-i", esp)).To(MatchRegexp(`(?i)EFI/BOOT/BOOTX64\.EFI(.|\n)*EFI/BOOT/grubx64\.efi`))
}

// writeMedium writes the medium of a handler to a file.
func writeMedium(g *WithT, handler http.Handler, file string) {
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, mediumPath, nil)) //nolint:noctx // answered at once
	g.Expect(recorder.Code).To(Equal(http.StatusOK))
	content, err := io.ReadAll(recorder.Body)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(os.WriteFile(file, content, 0o600)).To(Succeed())
}

var escapes = regexp.MustCompile(`\r`)

func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput() //nolint:noctx // short programs of this test
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), fmt.Sprintf("%s %s: %s (hack/agenttest.sh installs it)", program, strings.Join(args, " "), out))
	return escapes.ReplaceAllString(string(out), "\n")
}
