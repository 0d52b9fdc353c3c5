package server_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/go-logr/logr"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"
	"github.com/pin/tftp/v3"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// lab6 is a boot server of an IPv6 network, which listens at all addresses, with the firmware of one client.
func lab6(t *testing.T, mode bootconfig.Mode, booter *pxetest.Booter) *pxetest.Firmware6 {
	t.Helper()
	g := NewWithT(t)
	loopback := netip.IPv6Loopback()
	port := func() uint16 {
		free, err := pxetest.FreePort(netip.IPv6Unspecified())
		g.Expect(err).NotTo(HaveOccurred())
		return free
	}
	at := func(port uint16) string {
		return strings.TrimPrefix(netip.AddrPortFrom(netip.IPv6Unspecified(), port).String(), "[::]")
	}
	dhcpPort, tftpPort, httpPort := port(), port(), port()
	loaders := t.TempDir()
	g.Expect(pxetest.WriteLoaders(loaders, "snponly.efi", "snponly-arm64.efi", "shimx64.efi", "shimaa64.efi")).To(Succeed())
	s := &server.Server{
		Config: server.Config{
			Networks: []bootconfig.Network{{
				Name: "test", Mode: mode, Subnet: netip.MustParsePrefix("::/64"), Address: loopback, URL: "http://" + netip.AddrPortFrom(loopback, httpPort).String(),
				Relays: []netip.Addr{loopback}, // the only address that it can send from
			}},
			DHCP6Address: netip.AddrPortFrom(loopback, dhcpPort).String(), TFTPAddress: at(tftpPort), HTTPAddress: at(httpPort), LoaderDirs: []string{loaders},
			Artifacts: artifact.Options{Dir: t.TempDir(), Outbound: outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, RetryAfter: 1},
		},
		Booter: booter, Log: logr.Discard(),
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		NewWithT(t).Expect(<-done).To(Succeed())
	})
	g.Eventually(func() error {
		conn, err := net.Dial("tcp", net.JoinHostPort("::1", at(httpPort)[1:])) //nolint:noctx // returns at once
		if err != nil {
			return err
		}
		return conn.Close()
	}).Should(Succeed())
	return &pxetest.Firmware6{
		Firmware: pxetest.Firmware{MAC: booter.MAC, TFTPPort: tftpPort}, Server: netip.AddrPortFrom(loopback, dhcpPort), Link: netip.MustParseAddr("::2"),
	}
}

// TestBoot6 boots over IPv6 with every kind of firmware: everything that DHCPv6 names is served.
func TestBoot6(t *testing.T) {
	for name, c := range map[string]struct {
		arch       iana.Arch
		http       bool
		secureBoot bool
		stateless  bool
	}{
		"PXE x64":         {arch: iana.EFI_X86_64},
		"PXE arm64":       {arch: iana.EFI_ARM64},
		"HTTP x64":        {arch: iana.EFI_X86_64_HTTP, http: true},
		"HTTP arm64":      {arch: iana.EFI_ARM64_HTTP, http: true},
		"Secure Boot":     {arch: iana.EFI_X86_64, secureBoot: true},
		"HTTP, signed":    {arch: iana.EFI_ARM64_HTTP, http: true, secureBoot: true},
		"stateless, PXE":  {arch: iana.EFI_X86_64, stateless: true},
		"stateless, HTTP": {arch: iana.EFI_X86_64_HTTP, http: true, stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			var content atomic.Value
			content.Store("good")
			booter := newBooter(t, &content)
			booter.Address, booter.Answer.SecureBoot = netip.MustParseAddr("::77"), c.secureBoot
			mode := bootconfig.Authoritative
			if c.stateless {
				mode = bootconfig.Proxy
			}
			firmware := lab6(t, mode, booter)
			firmware.Arch, firmware.HTTP, firmware.Stateless = c.arch, c.http, c.stateless
			system, err := firmware.Boot(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(system.Address.IsValid()).To(Equal(!c.stateless))
			g.Expect(system.Files).To(Equal([]string{hexSum("good/kernel"), hexSum("good/initrd")}))
			g.Expect(system.CommandLine).To(ContainSubstring("ds=nocloud;dsmode=net;s=http://[::1]:"), "IPv6 goes on with IPv6")
			g.Expect(string(system.UserData)).To(Equal("#cloud-config\n"))
			g.Expect(system.Report(t.Context())).To(Succeed())
			g.Expect(booter.Reports()).To(Equal(1))
			g.Eventually(booter.Stages).Should(ContainElements(pxe.StageDHCP, pxe.StageLoader, pxe.StageKernel))
		})
	}
}

// TestBothFamilies: a listener without an address serves IPv4 and IPv6.
func TestBothFamilies(t *testing.T) {
	g := NewWithT(t)
	booter := &pxetest.Booter{MAC: net.HardwareAddr{0x52, 0x54, 0, 0, 0, 1}, Address: netip.MustParseAddr("::77"), Answer: pxe.Answer{Known: true, Boot: pxe.Disk}}
	firmware := lab6(t, bootconfig.Authoritative, booter)
	reply, err := firmware.Ask(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	for _, host := range []string{"127.0.0.1", "[::1]"} {
		client, err := tftp.NewClient(fmt.Sprintf("%s:%d", host, firmware.TFTPPort))
		g.Expect(err).NotTo(HaveOccurred())
		file, err := client.Receive("52-54-00-00-00-01/snponly.efi", "octet")
		g.Expect(err).NotTo(HaveOccurred())
		var content strings.Builder
		_, err = file.WriteTo(&content)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(content.String()).To(Equal("loader snponly.efi"))
		response, err := http.Get(strings.Replace(reply.Options.BootFileURL(), "[::1]", host, 1)) //nolint:noctx // the lab's own
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	}
}
