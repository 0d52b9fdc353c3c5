package server_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// The boot server and its clients have loopback addresses of their own: a client sends its requests from the address that DHCP
// gave it.
var (
	bootAddress   = netip.MustParseAddr("127.0.80.1")
	relayAddress  = netip.MustParseAddr("127.0.80.2")
	clientAddress = netip.MustParseAddr("127.0.80.77")
)

func freePort(t *testing.T) uint16 {
	t.Helper()
	port, err := pxetest.FreePort(bootAddress)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return port
}

// lab is a boot server with the firmware of one client.
func lab(t *testing.T, booter *pxetest.Booter) *pxetest.Firmware {
	t.Helper()
	firmware, _ := labWith(t, booter, nil)
	return firmware
}

// labWith is lab with a boot server that answers agents, and the address of its HTTP server.
func labWith(t *testing.T, booter *pxetest.Booter, agents pxe.Agents) (firmware *pxetest.Firmware, web string) {
	t.Helper()
	g := NewWithT(t)
	dhcpPort, tftpPort, httpPort := freePort(t), freePort(t), freePort(t)
	loaders := t.TempDir()
	var names []string
	for _, named := range dhcp.LoaderClients() {
		names = append(names, named.Loader)
	}
	slices.Sort(names) // some kinds of clients load the same
	g.Expect(pxetest.WriteLoaders(loaders, append(slices.Compact(names), "grubx64.efi", "grubaa64.efi")...)).To(Succeed())
	agentFiles := t.TempDir()
	_, err := pxetest.WriteAgent(agentFiles)
	g.Expect(err).NotTo(HaveOccurred())
	address := func(port uint16) string { return netip.AddrPortFrom(bootAddress, port).String() }
	s := &server.Server{
		Config: server.Config{
			Networks: []bootconfig.Network{{
				Name: "test", Mode: bootconfig.Authoritative, Address: bootAddress, URL: "http://" + address(httpPort), Subnet: netip.MustParsePrefix("127.0.80.0/24"),
				LeaseTime: time.Hour,
			}},
			DHCPAddress: address(dhcpPort), TFTPAddress: address(tftpPort), HTTPAddress: address(httpPort), LoaderDirs: []string{loaders}, Agent: bootconfig.Agent{Dir: agentFiles},
			Artifacts: artifact.Options{Dir: t.TempDir(), Outbound: outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, RetryAfter: 1},
		},
		Booter: booter, Agents: agents, Log: logr.Discard(),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	g.Eventually(func() error {
		conn, err := net.Dial("tcp4", address(httpPort)) //nolint:noctx // returns at once
		if err != nil {
			return err
		}
		return conn.Close()
	}).Should(Succeed())
	return &pxetest.Firmware{MAC: booter.MAC, DHCPServer: netip.AddrPortFrom(bootAddress, dhcpPort), Relay: relayAddress, TFTPPort: tftpPort}, address(httpPort)
}

func hexSum(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func newBooter(t *testing.T, content *atomic.Value) *pxetest.Booter {
	t.Helper()
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = fmt.Fprint(w, content.Load().(string)+r.URL.Path)
	}))
	t.Cleanup(origin.Close)
	return &pxetest.Booter{
		MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, Address: clientAddress, Token: "token",
		Answer: pxe.Answer{Known: true, Boot: pxe.Network, Files: []artifact.Artifact{
			{URL: origin.URL + "/kernel", Checksum: "sha256:" + hexSum("good/kernel")}, {URL: origin.URL + "/initrd", Checksum: "sha256:" + hexSum("good/initrd")},
		}},
		Data: seed.Data{InstanceID: "i", Hostname: "m", ProviderID: "baremetal://dc/h/m", UserData: []byte("#cloud-config\n"), ReportPath: pxe.ReportPath("dc/h", "token", pxe.Up)},
	}
}

// TestBoot boots with every kind of firmware: everything that DHCP names is served.
func TestBoot(t *testing.T) {
	for _, arch := range []iana.Arch{iana.INTEL_X86PC, iana.EFI_X86_64, iana.EFI_BC, iana.EFI_ARM64} {
		t.Run(arch.String(), func(t *testing.T) {
			g := NewWithT(t)
			var content atomic.Value
			content.Store("good")
			booter := newBooter(t, &content)
			firmware := lab(t, booter)
			firmware.Arch = arch
			system, err := firmware.Boot(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(system.Address).To(Equal(clientAddress))
			g.Expect(system.Files).To(Equal([]string{hexSum("good/kernel"), hexSum("good/initrd")}))
			g.Expect(system.CommandLine).To(HavePrefix("initrd=initrd0 quiet ds=nocloud;dsmode=net;s=http://"))
			g.Expect(string(system.UserData)).To(Equal("#cloud-config\n"))
			g.Expect(system.MetaData).To(HaveKeyWithValue("provider-id", "baremetal://dc/h/m"))
			g.Expect(system.Report(t.Context())).To(Succeed())
			g.Expect(booter.Reports()).To(Equal(1))
			g.Eventually(booter.Stages).Should(ContainElements(pxe.StageDHCP, pxe.StageLoader, pxe.StageKernel))
		})
	}
}

// TestBootAgent: the firmware boots the files of the agent, with the parameters of the boot, and no seed is read.
func TestBootAgent(t *testing.T) {
	for arch, architecture := range map[iana.Arch]string{iana.INTEL_X86PC: "amd64", iana.EFI_X86_64: "amd64", iana.EFI_ARM64: "arm64"} {
		t.Run(arch.String(), func(t *testing.T) {
			g := NewWithT(t)
			booter := newBooter(t, &atomic.Value{})
			booter.Answer.Files, booter.Answer.Agent = nil, architecture
			booter.Scripts = func(netip.Addr) (pxe.Script, error) {
				return pxe.Script{Title: "test", Agent: &pxe.AgentScript{Architecture: architecture, Host: "dc/h", Token: "token"}}, nil
			}
			firmware := lab(t, booter)
			firmware.Arch = arch
			system, err := firmware.Boot(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			files, err := pxetest.WriteAgent(t.TempDir())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(system.Files).To(Equal(files))
			g.Expect(system.Agent).NotTo(BeNil())
			g.Expect(system.Agent.Server).To(HavePrefix("http://" + bootAddress.String() + ":"))
			g.Expect(system.Agent).To(Equal(&pxetest.Agent{Server: system.Agent.Server, Host: "dc/h", Token: "token"}))
			g.Expect(system.UserData).To(BeNil())
			g.Eventually(booter.Stages).Should(ContainElements(pxe.StageDHCP, pxe.StageLoader, pxe.StageKernel))
		})
	}
}

// TestWrongKernel: a kernel with another checksum is not served, the reason is recorded, and the boot continues
// automatically once the origin is fixed.
func TestWrongKernel(t *testing.T) {
	g := NewWithT(t)
	var content atomic.Value
	content.Store("evil")
	booter := newBooter(t, &content)
	firmware := lab(t, booter)
	done := make(chan error, 1)
	go func() {
		_, err := firmware.Boot(t.Context())
		done <- err
	}()
	g.Eventually(booter.Failures, "30s").Should(ContainElement(MatchError(artifact.ErrChecksum)))
	content.Store("good")
	g.Eventually(done, "2m").Should(Receive(Succeed()))
}

func TestNoBoot(t *testing.T) {
	g := NewWithT(t)
	var content atomic.Value
	booter := newBooter(t, &content)
	booter.Answer = pxe.Answer{Known: true}
	firmware := lab(t, booter)
	firmware.Attempts = 2 // nothing answers
	_, err := firmware.Boot(t.Context())
	g.Expect(err).To(MatchError(pxetest.ErrNothingToBoot))
	g.Expect(booter.Stages()).To(Equal([]pxe.Stage{pxe.StageFirmware}), "that it asked is seen all the same")
}

// TestRefusals: without the token there is no seed, and errors reveal nothing to a stranger.
func TestRefusals(t *testing.T) {
	g := NewWithT(t)
	var content atomic.Value
	content.Store("good")
	booter := newBooter(t, &content)
	booter.Err = nil
	handler := &pxe.Handler{BaseURL: func(netip.Addr) string { return "http://192.0.2.1" }, Booter: booter, Log: logr.Discard()}
	status := func(method, path string) (int, string) {
		recorder := httptest.NewRecorder()
		handler.Mux().ServeHTTP(recorder, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		return recorder.Code, recorder.Body.String()
	}
	for path, want := range map[string]int{
		"/seed/dc/h/guess/user-data": http.StatusForbidden, "/seed/dc/other/token/user-data": http.StatusForbidden,
		"/seed/dc/h/token/nothing": http.StatusForbidden, "/ipxe/garbage": http.StatusForbidden, "/boot/52-54-00-00-00-01/9": http.StatusForbidden,
		"/boot/52-54-00-00-00-02/0": http.StatusForbidden, "/": http.StatusForbidden,
	} {
		code, _ := status(http.MethodGet, path)
		g.Expect(code).To(Equal(want), path)
	}
	booter.Err = errors.New("the API server says: secret")
	code, body := status(http.MethodGet, "/seed/dc/h/token/user-data")
	g.Expect(code).To(Equal(http.StatusServiceUnavailable))
	g.Expect(body).NotTo(ContainSubstring("secret"))
	code, _ = status(http.MethodPost, "/report/dc/h/guess/up")
	g.Expect(code).To(Equal(http.StatusForbidden))
}

// TestPrefetch: a file is fetched before a server asks for it. A file that cannot be had is an error.
func TestPrefetch(t *testing.T) {
	g := NewWithT(t)
	var content atomic.Value
	content.Store("good")
	files := newBooter(t, &content).Answer.Files
	s := &server.Server{
		Config: server.Config{
			Networks: []bootconfig.Network{{Name: "test", Mode: bootconfig.Off}}, HTTPAddress: netip.AddrPortFrom(bootAddress, freePort(t)).String(),
			Artifacts: artifact.Options{Dir: t.TempDir(), Outbound: outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, RetryAfter: 1},
		},
		Booter: &pxetest.Booter{}, Log: logr.Discard(),
	}
	g.Expect(s.Prefetch("dc", files[0])).To(MatchError(artifact.ErrNotYet), "the boot server does not run")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	g.Eventually(func() error { return s.Prefetch("dc", files[0]) }).Should(Succeed())
	content.Store("bad") // what is here is not fetched again
	g.Expect(s.Prefetch("dc", files[0])).To(Succeed())
	g.Eventually(func() error { return s.Prefetch("dc", files[1]) }).Should(MatchError(artifact.ErrChecksum))
	cancel()
	g.Expect(<-done).To(Succeed())
	g.Expect(s.Prefetch("dc", files[0])).To(MatchError(artifact.ErrNotYet), "the boot server runs no more")
}
