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

// maxMedium is the maximum size of a medium with the agent.
const maxMedium = 45_000_000

// mediaHandler serves the medium of the host of serve, with the agent and the boot loaders that are installed. Its agent finds the boot server at a URL.
func mediaHandler(t *testing.T, agentURL, architecture, parameters string) (*pxetest.Media, http.Handler) {
	t.Helper()
	set, err := loader.Load("../../.cache/loaders")
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), "hack/agenttest.sh makes it")
	media := pxetest.NewMedia()
	media.Medium.Architecture = architecture
	media.Script.Title, media.Script.Agent = "a test of media", &pxe.AgentScript{Architecture: architecture, Host: host, Token: token}
	h := &pxe.Handler{
		Booter: &pxetest.Booter{}, Media: media, Loaders: set, AgentFiles: &pxe.AgentFiles{Dir: agents, CommandLine: "no_timer_check " + parameters}, Log: logr.Discard(),
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

func serveMedium(t *testing.T, at netip.Addr, agentURL, architecture, parameters string) *mediaServer {
	t.Helper()
	s := &mediaServer{}
	media, handler := mediaHandler(t, agentURL, architecture, parameters)
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
		name, architecture string
		firmware           qemu.Firmware
		drive              []string
		says               string
	}{
		{"BIOS", "amd64", qemu.BIOS(), ideDrive, `"firmware":"BIOS"`},
		{"UEFI", "amd64", qemu.UEFI(), ideDrive, `"firmware":"UEFI"`},
		{"Secure Boot", "amd64", qemu.SecureUEFI(), ideDrive, `"firmware":"UEFI"`},
		{"UEFI of arm64", "arm64", qemu.UEFIOfARM(), usbDrive, `"firmware":"UEFI"`},
		{"Secure Boot of arm64", "arm64", qemu.SecureUEFIOfARM(), usbDrive, `"firmware":"UEFI"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			w := newSegment(t, "10.89.0.0/24")
			w.dnsmasq(t, "10.89.0.100,10.89.0.150,2m")
			s := serve(t, w.address(), agent.PowerOff)
			medium := serveMedium(t, w.address(), s.url, c.architecture, "")
			m := start(t, machine{
				architecture: c.architecture, firmware: prepare(t, c.firmware), memory: 1024, bootTimeout: 5 * bootTimeout,
				cards: []card{{model: "virtio-net-pci", tap: w.tap(t)}},
				args:  append([]string{"-drive", "if=none,id=cd,media=cdrom,readonly=on,format=raw,file=" + medium.url}, c.drive...),
			})
			m.awaitEnd(s)
			requests, bytes := medium.sent()
			t.Logf("%s: %.1f s from QEMU's start to the request for the plan, %d requests for %d bytes of the medium", c.name, m.secondsFromStart(s), requests, bytes)
			g.Expect(string(s.Requests(agent.EndpointPlan)[0].Body)).To(And(ContainSubstring(c.says), ContainSubstring(`"architecture":"`+c.architecture+`"`)))
			g.Expect(medium.media.Parts()).To(ContainElements(pxe.MediaHeaders, pxe.MediaLoader, pxe.MediaKernel))
			g.Expect(m.said()).To(ContainSubstring("a test of media"))
			if strings.HasPrefix(c.name, "Secure Boot") {
				g.Expect(m.said()).To(MatchRegexp("(?i)secure boot enabled|Kernel is locked down"))
			}
		})
	}
}

// TestParameters: the agent writes its log to the second serial port if the configuration names it, and gives a module its parameters. The kernel names one that the module does
// not have.
func TestParameters(t *testing.T) {
	g := NewWithT(t)
	w := newSegment(t, "10.89.0.0/24")
	w.dnsmasq(t, "10.89.0.100,10.89.0.150,2m")
	s := serve(t, w.address(), agent.PowerOff)
	medium := serveMedium(t, w.address(), s.url, "amd64", "console=ttyS1,115200n8 virtio-net.capbm=1")
	second := filepath.Join(t.TempDir(), "ttyS1")
	written := func() string {
		content, _ := os.ReadFile(second) // QEMU has not started
		return string(content)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the second serial port:\n%s", written())
		}
	})
	m := start(t, machine{
		firmware: prepare(t, qemu.BIOS()), memory: 1024, bootTimeout: 5 * bootTimeout, cards: []card{{model: "virtio-net-pci", tap: w.tap(t)}},
		args: append([]string{"-serial", "file:" + second, "-drive", "if=none,id=cd,media=cdrom,readonly=on,format=raw,file=" + medium.url}, ideDrive...),
	})
	m.awaitEnd(s)
	g.Expect(written()).To(And(ContainSubstring("Got the plan"), ContainSubstring("virtio_net: unknown parameter 'capbm' ignored"), Not(ContainSubstring("Failed to load"))))
	g.Expect(m.said()).NotTo(ContainSubstring("Got the plan"))
}

// Drives for a medium: one of an ATA controller, and one of USB, as which BMCs show their media.
var (
	ideDrive = []string{"-device", "ide-cd,drive=cd,bootindex=0"}
	usbDrive = []string{"-device", "qemu-xhci", "-device", "usb-storage,drive=cd,removable=on,bootindex=0"}
)

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
	w := newSegment(t, "10.88.0.0/24")
	s := serve(t, w.address(), agent.PowerOff)
	medium := serveMedium(t, w.address(), s.url, "amd64", "")
	w.dnsmasq(t, "10.88.0.100,10.88.0.150,2m", "--dhcp-match=set:firmware,option:client-arch,16", "--dhcp-option-force=tag:firmware,60,HTTPClient",
		"--dhcp-boot=tag:firmware,"+medium.url)
	m := start(t, machine{
		firmware: append(prepare(t, qemu.SecureUEFI()), "-fw_cfg", "name=opt/org.tianocore/IPv4PXESupport,string=n",
			"-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n"), memory: 1024, bootTimeout: 3 * bootTimeout,
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

// TestMediumIsValid: programs that nobody here wrote find nothing wrong with the media, and they are not too large.
func TestMediumIsValid(t *testing.T) {
	for _, architecture := range []string{"amd64", "arm64"} {
		t.Run(architecture, func(t *testing.T) {
			g := NewWithT(t)
			_, handler := mediaHandler(t, "http://192.0.2.1:8480", architecture, "")
			file := filepath.Join(t.TempDir(), "boot.iso")
			writeMedium(g, handler, file)
			info, err := os.Stat(file)
			g.Expect(err).NotTo(HaveOccurred())
			t.Logf("the medium has %d bytes", info.Size())
			g.Expect(info.Size()).To(BeNumerically("<=", maxMedium))
			checkByXorriso(t, file, architecture)
			checkByIsoinfo(t, file, architecture)
			checkLoaders(t, file, architecture)
		})
	}
}

// checkByXorriso has xorriso find the boot images of a medium. Firmware of arm64 is always UEFI.
func checkByXorriso(t *testing.T, file, architecture string) {
	t.Helper()
	g := NewWithT(t)
	out := run(t, "xorriso", "-abort_on", "WARNING", "-indev", file, "-report_el_torito", "plain", "-find", "/", "-exec", "lsdl")
	g.Expect(out).NotTo(MatchRegexp(complaint))
	if architecture == "amd64" {
		g.Expect(out).To(MatchRegexp(`El Torito boot img :\s+1\s+BIOS\s+y`))
		g.Expect(out).To(MatchRegexp(`El Torito boot img :\s+2\s+UEFI\s+y`))
		g.Expect(out).To(ContainSubstring("boot-info-table"))
	} else {
		g.Expect(out).To(MatchRegexp(`El Torito boot img :\s+1\s+UEFI\s+y`))
		g.Expect(out).NotTo(ContainSubstring("BIOS"))
	}
	g.Expect(run(t, "xorriso", "-abort_on", "WARNING", "-indev", file, "-check_media", "--")).NotTo(MatchRegexp(complaint))
}

// checkByIsoinfo has isoinfo list and read the files of a medium.
func checkByIsoinfo(t *testing.T, file, architecture string) {
	t.Helper()
	g := NewWithT(t)
	out := run(t, "isoinfo", "-debug", "-d", "-i", file)
	g.Expect(out).NotTo(MatchRegexp(complaint))
	g.Expect(out).To(ContainSubstring("CD-ROM is in ISO 9660 format"))
	g.Expect(out).To(MatchRegexp(`Volume id: CAPBM_[0-9A-F]{8}`))
	g.Expect(out).To(ContainSubstring("El Torito VD version 1 found"))
	out = run(t, "isoinfo", "-l", "-i", file)
	g.Expect(out).NotTo(MatchRegexp(complaint))
	names := []string{"GRUB.CFG;1", "KERNEL.;1", "INITRD1.;1", "UEFI.IMG;1"}
	kernel := "kernel.squashfs"
	if architecture == "amd64" {
		names, kernel = append(names, "BIOS.IMG;1"), "kernel"
	}
	for _, name := range names {
		g.Expect(out).To(ContainSubstring(name))
	}
	for path, name := range map[string]string{"/BOOT/KERNEL.;1": kernel, "/BOOT/INITRD1.;1": "ramdisk"} {
		content, err := os.ReadFile(filepath.Join(agents, architecture, name))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bytes.Equal(outputOf(t, "isoinfo", "-x", path, "-i", file), content)).To(BeTrue(), path)
	}
	if architecture == "arm64" {
		packed := filepath.Join(agents, architecture, kernel)
		g.Expect(run(t, "unsquashfs", "-UTC", "-llnumeric", packed)).To(MatchRegexp(`(?m)^-rw-r--r-- 0/0 +\d+ 1970-01-01 00:00 squashfs-root/kernel$`))
		unpacked := outputOf(t, "unsquashfs", "-cat", packed, "kernel")
		g.Expect(bytes.Equal(unpacked, outputOf(t, "gzip", "--decompress", "--stdout", filepath.Join(agents, architecture, "kernel.gz")))).To(BeTrue())
	}
}

// checkLoaders has dosfstools and mtools read the EFI system partition of a medium.
func checkLoaders(t *testing.T, file, architecture string) {
	t.Helper()
	g := NewWithT(t)
	esp := filepath.Join(t.TempDir(), "esp")
	g.Expect(os.WriteFile(esp, outputOf(t, "isoinfo", "-x", "/BOOT/UEFI.IMG;1", "-i", file), 0o600)).To(Succeed())
	run(t, "/sbin/fsck.vfat", "-n", esp)
	of := map[string]string{"amd64": "X64", "arm64": "AA64"}[architecture]
	g.Expect(run(t, "mdir", "-b", "-/", "-i", esp)).To(MatchRegexp(fmt.Sprintf(`(?i)EFI/BOOT/BOOT%[1]s\.EFI(.|\n)*EFI/BOOT/grub%[1]s\.efi`, of)))
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

// outputOf returns what a program writes.
func outputOf(t *testing.T, program string, args ...string) []byte {
	t.Helper()
	out, err := exec.Command(program, args...).Output() //nolint:noctx // short programs of this test
	NewWithT(t).Expect(err).NotTo(HaveOccurred(), fmt.Sprintf("%s %s (hack/agenttest.sh installs it)", program, strings.Join(args, " ")))
	return out
}
