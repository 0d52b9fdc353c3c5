package server_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	. "github.com/onsi/gomega"
	"github.com/pin/tftp/v3"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/dhcp"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// offer requests the boot file of a kind of client, through a relay agent.
func offer(t *testing.T, firmware *pxetest.Firmware, client dhcp.Client) *dhcpv4.DHCPv4 {
	t.Helper()
	g := NewWithT(t)
	conn, err := net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(firmware.Relay, 0)))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = conn.Close() }()
	class := "PXEClient"
	if client.HTTP {
		class = "HTTPClient"
	}
	request, err := dhcpv4.NewDiscovery(firmware.MAC, dhcpv4.WithRelay(firmware.Relay.AsSlice()),
		dhcpv4.WithOption(dhcpv4.OptRelayAgentInfo(dhcpv4.OptGeneric(dhcpv4.RelaySourcePortSubOption, nil))),
		dhcpv4.WithOption(dhcpv4.OptClassIdentifier(fmt.Sprintf("%s:Arch:%05d:UNDI:003016", class, client.Arch))), dhcpv4.WithOption(dhcpv4.OptClientArch(client.Arch)))
	g.Expect(err).NotTo(HaveOccurred())
	_, err = conn.WriteToUDPAddrPort(request.ToBytes(), firmware.DHCPServer)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(conn.SetReadDeadline(time.Now().Add(time.Minute))).To(Succeed())
	buffer := make([]byte, 1500)
	n, err := conn.Read(buffer)
	g.Expect(err).NotTo(HaveOccurred())
	answer, err := dhcpv4.FromBytes(buffer[:n])
	g.Expect(err).NotTo(HaveOccurred())
	return answer
}

// load fetches a boot file from the location in an offer.
func load(ctx context.Context, offer *dhcpv4.DHCPv4, tftpPort uint16) ([]byte, error) {
	if !strings.HasPrefix(offer.BootFileName, "http://") {
		client, err := tftp.NewClient(net.JoinHostPort(offer.ServerIPAddr.String(), strconv.Itoa(int(tftpPort))))
		if err != nil {
			return nil, err
		}
		from, err := client.Receive(offer.BootFileName, "octet")
		if err != nil {
			return nil, err
		}
		var content bytes.Buffer
		_, err = from.WriteTo(&content)
		return content.Bytes(), err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, offer.BootFileName, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	return io.ReadAll(response.Body)
}

// TestEveryBootFileIsServed: every boot file that DHCP names to any kind of client exists, and is the right one.
func TestEveryBootFileIsServed(t *testing.T) {
	var content atomic.Value
	for _, secureBoot := range []bool{false, true} {
		booter := newBooter(t, &content)
		booter.Answer.SecureBoot = secureBoot
		firmware := lab(t, booter)
		for _, named := range dhcp.LoaderClients() {
			if named.SecureBoot != secureBoot {
				continue
			}
			t.Run(fmt.Sprintf("%s, Secure Boot %v", named.Client, secureBoot), func(t *testing.T) {
				g := NewWithT(t)
				got, err := load(t.Context(), offer(t, firmware, named.Client), firmware.TFTPPort)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(string(got)).To(Equal("loader " + named.Loader))
			})
		}
	}
}

// TestLoadersOfOthers: the boot loaders that another DHCP server names, without MAC addresses, exist too.
func TestLoadersOfOthers(t *testing.T) {
	var content atomic.Value
	firmware := lab(t, newBooter(t, &content))
	base, _, _ := strings.Cut(offer(t, firmware, dhcp.Client{HTTP: true, Arch: 16}).BootFileName, "/loader/")
	for _, named := range dhcp.LoaderClients() {
		file := named.Loader
		if named.Client.HTTP {
			file = base + pxe.LoaderPath(nil, named.Loader)
		}
		g := NewWithT(t)
		got, err := load(t.Context(), &dhcpv4.DHCPv4{BootFileName: file, ServerIPAddr: bootAddress.AsSlice()}, firmware.TFTPPort)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(got)).To(Equal("loader " + named.Loader))
	}
}

// TestAskedTooEarly: firmware that asks before the boot server knows of the power-on boots nevertheless. DHCP answers once it knows,
// and a script that says to ask again is requested again.
func TestAskedTooEarly(t *testing.T) {
	g := NewWithT(t)
	var content atomic.Value
	content.Store("good")
	booter := newBooter(t, &content)
	var looked, asked atomic.Int32
	network, notYet := booter.Answer, pxe.Answer{Known: true, Boot: pxe.NotYet}
	booter.Lookups = func() (pxe.Answer, error) {
		if looked.Add(1) <= 2 {
			return notYet, nil
		}
		return network, nil
	}
	booter.Scripts = func(from netip.Addr) (pxe.Script, error) {
		g.Expect(from).To(Equal(clientAddress))
		if asked.Add(1) == 1 {
			return pxe.Script{}, pxe.ErrNotYet
		}
		return pxe.Script{Title: "test", CommandLine: "quiet", Files: network.Files, SeedPath: pxe.SeedPath("dc/h", "token")}, nil
	}
	system, err := lab(t, booter).Boot(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(system.Files).To(Equal([]string{hexSum("good/kernel"), hexSum("good/initrd")}))
	g.Expect(asked.Load()).To(BeNumerically(">", 1))
	g.Expect(booter.Stages()[:2]).To(Equal([]pxe.Stage{pxe.StageFirmware, pxe.StageDHCP}), "the first request is not that of the boot")
}

func TestFromFile(t *testing.T) {
	g := NewWithT(t)
	config, err := bootconfig.Parse([]byte("networks: [{name: a, mode: proxy, address: 192.0.2.5}]"))
	g.Expect(err).NotTo(HaveOccurred())
	got := server.FromFile(config)
	g.Expect([]string{got.DHCPAddress, got.ProxyAddress, got.TFTPAddress, got.HTTPAddress}).To(Equal([]string{":67", ":4011", ":69", ":8480"}))
	g.Expect(got.Artifacts.MaxBytes).To(BeEquivalentTo(20 << 30))

	config, err = bootconfig.Parse([]byte("agent: {dir: /a, commandLine: quiet}\ntftp: {port: 0}\ndhcp: {port: 6767, proxyPort: 0}\nnetworks: [{name: a, mode: proxy, address: 127.0.0.5}]"))
	g.Expect(err).NotTo(HaveOccurred())
	got = server.FromFile(config)
	g.Expect([]string{got.DHCPAddress, got.ProxyAddress, got.TFTPAddress, got.HTTPAddress}).To(Equal([]string{"127.0.0.5:6767", "", "", "127.0.0.5:8480"}))
	g.Expect(got.Agent).To(Equal(bootconfig.Agent{Dir: "/a", CommandLine: "quiet"}))
}

// TestNoDHCP: if every network has DHCP off, the boot server does not listen for it, and serves the rest.
func TestNoDHCP(t *testing.T) {
	g := NewWithT(t)
	address := func() string { return netip.AddrPortFrom(bootAddress, freePort(t)).String() }
	s := &server.Server{Booter: &pxetest.Booter{}, Config: server.Config{
		Networks:    []bootconfig.Network{{Name: "a", Mode: bootconfig.Off, Address: bootAddress}},
		DHCPAddress: "no address", ProxyAddress: "no address", HTTPAddress: address(),
	}}
	s.Config.Artifacts.Dir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Start(ctx) }()
	g.Eventually(func() error {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp4", s.Config.HTTPAddress)
		if err != nil {
			return err
		}
		return conn.Close()
	}).Should(Succeed())
	cancel()
	g.Expect(<-done).To(Succeed())
	s.Config.Networks[0].Mode = bootconfig.Proxy
	g.Expect(s.Start(t.Context())).To(MatchError(ContainSubstring("listen for DHCP")))
}
