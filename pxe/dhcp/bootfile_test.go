package dhcp

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"
	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// TestClassify: the classification of clients.
func TestClassify(t *testing.T) {
	class := func(text string) dhcpv4.Modifier { return dhcpv4.WithOption(dhcpv4.OptClassIdentifier(text)) }
	bios := pxeClient(iana.INTEL_X86PC)
	for name, test := range map[string]struct {
		request []dhcpv4.Modifier
		want    string
	}{
		"a BIOS":                           {bios, "PXE, Intel x86PC"},
		"UEFI":                             {pxeClient(iana.EFI_X86_64), "PXE, EFI x86-64"},
		"UEFI, arm64":                      {pxeClient(iana.EFI_ARM64), "PXE, EFI ARM64"},
		"UEFI HTTP boot":                   {httpClient(iana.EFI_X86_64_HTTP), "UEFI HTTP boot, EFI x86-64 boot from HTTP"},
		"several architectures":            {with(bios, dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_IA32, iana.EFI_X86_64))), "PXE, EFI x86-64"},
		"several that have no loader":      {with(bios, dhcpv4.WithOption(dhcpv4.OptClientArch(iana.EFI_IA32, iana.EFI_ARM32))), "PXE, EFI IA32"},
		"no option 93":                     {[]dhcpv4.Modifier{class("PXEClient:Arch:00011:UNDI:003016")}, "PXE, EFI ARM64"},
		"no option 93, and no number":      {[]dhcpv4.Modifier{class("PXEClient:Arch:none")}, "PXE, Intel x86PC"},
		"the class alone":                  {[]dhcpv4.Modifier{class("PXEClient")}, "PXE, Intel x86PC"},
		"an odd option 93":                 {[]dhcpv4.Modifier{class("PXEClient"), dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientSystemArchitectureType, []byte{0}))}, "PXE, Intel x86PC"},
		"iPXE":                             {ipxeClient(), "iPXE, Intel x86PC"},
		"iPXE with a class of RFC 3004":    {with(bios, dhcpv4.WithUserClass("iPXE", true)), "iPXE, Intel x86PC"},
		"iPXE by its own options":          {with(bios, ipxeOptions(ipxeHTTP)), "iPXE, Intel x86PC"},
		"iPXE without HTTP":                {with(ipxeClient(), ipxeOptions(24)), "PXE, Intel x86PC"},
		"iPXE that passes for another":     {with(ipxeClient(), dhcpv4.WithUserClass("PXE", false)), "PXE, Intel x86PC"},
		"gPXE, which has the same options": {with(bios, dhcpv4.WithUserClass("gPXE", false), ipxeOptions(ipxeHTTP)), "PXE, Intel x86PC"},
		"iPXE's options, broken":           {with(ipxeClient(), dhcpv4.WithOption(dhcpv4.OptGeneric(optionIPXE, []byte{ipxeHTTP, 200}))), "PXE, Intel x86PC"},
		"an operating system":              {[]dhcpv4.Modifier{class("MSFT 5.0")}, "DHCP client"},
		"nothing":                          {nil, "DHCP client"},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(Classify(discover(t, test.request...)).String()).To(Equal(test.want))
		})
	}
}

// TestBootFiles: the boot file of each kind of client, in each mode.
func TestBootFiles(t *testing.T) {
	secure := pxe.Answer{Known: true, Boot: pxe.Network, SecureBoot: true}
	legacyDisk := pxe.Answer{Known: true, Boot: pxe.Disk, BIOS: true}
	script := "http://192.0.2.1:8480/ipxe/52-54-00-00-00-01"
	for name, test := range map[string]struct {
		client []dhcpv4.Modifier
		answer pxe.Answer
		file   string
		class  string
	}{
		"BIOS":                         {pxeClient(iana.INTEL_X86PC), networkBoot, "52-54-00-00-00-01/undionly.kpxe", classPXE},
		"UEFI x64":                     {pxeClient(iana.EFI_X86_64), networkBoot, "52-54-00-00-00-01/snponly.efi", classPXE},
		"UEFI x64, as RFC 4578":        {pxeClient(iana.EFI_BC), networkBoot, "52-54-00-00-00-01/snponly.efi", classPXE},
		"UEFI x64, Secure Boot":        {pxeClient(iana.EFI_X86_64), secure, "52-54-00-00-00-01/shimx64.efi", classPXE},
		"UEFI arm64":                   {pxeClient(iana.EFI_ARM64), networkBoot, "52-54-00-00-00-01/snponly-arm64.efi", classPXE},
		"UEFI arm64, Secure Boot":      {pxeClient(iana.EFI_ARM64), secure, "52-54-00-00-00-01/shimaa64.efi", classPXE},
		"UEFI IA32":                    {pxeClient(iana.EFI_IA32), networkBoot, "", ""},
		"UEFI HTTP":                    {httpClient(iana.EFI_X86_64_HTTP), networkBoot, "http://192.0.2.1:8480/loader/52-54-00-00-00-01/snponly.efi", classHTTP},
		"UEFI HTTP, Secure Boot":       {httpClient(iana.EFI_X86_64_HTTP), secure, "http://192.0.2.1:8480/loader/52-54-00-00-00-01/shimx64.efi", classHTTP},
		"UEFI HTTP arm64":              {httpClient(iana.EFI_ARM64_HTTP), networkBoot, "http://192.0.2.1:8480/loader/52-54-00-00-00-01/snponly-arm64.efi", classHTTP},
		"UEFI HTTP arm64, Secure Boot": {httpClient(iana.EFI_ARM64_HTTP), secure, "http://192.0.2.1:8480/loader/52-54-00-00-00-01/shimaa64.efi", classHTTP},
		"UEFI HTTP IA32":               {httpClient(iana.EFI_X86_HTTP), networkBoot, "", ""},
		"UEFI HTTP, disk":              {httpClient(iana.EFI_X86_64_HTTP), diskBoot, "", ""},
		"iPXE":                         {ipxeClient(), networkBoot, script, ""},
		"iPXE, Secure Boot":            {ipxeClient(), secure, script, ""},
		"iPXE, disk":                   {ipxeClient(), diskBoot, script, ""},
		"iPXE, nothing":                {ipxeClient(), known, "", ""},
		"UEFI, disk":                   {pxeClient(iana.EFI_X86_64), diskBoot, "", ""},
		"BIOS, disk":                   {pxeClient(iana.INTEL_X86PC), legacyDisk, "52-54-00-00-00-01/undionly.kpxe", classPXE},
		"BIOS, Secure Boot":            {pxeClient(iana.INTEL_X86PC), secure, "52-54-00-00-00-01/undionly.kpxe", classPXE},
		"BIOS, nothing":                {pxeClient(iana.INTEL_X86PC), known, "", ""},
		"an operating system":          {nil, networkBoot, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			request := discover(t, test.client...)
			offer, what := ask(t, server(bootconfig.Authoritative, booter(test.answer)), request, atServer)
			g.Expect(what).To(Equal(ResultAnswered), "an address is given in any case")
			g.Expect(offer.YourIPAddr.String()).To(Equal("192.0.2.77"))
			g.Expect(offer.BootFileName).To(Equal(test.file), "in the header")
			g.Expect(offer.BootFileNameOption()).To(Equal(test.file), "in the options")
			g.Expect(offer.ClassIdentifier()).To(Equal(test.class))
			if test.file != "" {
				g.Expect(offer.ServerIPAddr.String()).To(Equal("192.0.2.1"))
				g.Expect(offer.Options.Get(dhcpv4.OptionClientMachineIdentifier)).To(Equal(request.Options.Get(dhcpv4.OptionClientMachineIdentifier)))
			}

			offer, what = ask(t, server(bootconfig.Proxy, booter(test.answer)), request, atServer)
			if test.file == "" {
				g.Expect(what).To(Equal(ResultNothing), "a proxy with no boot file keeps silent")
				return
			}
			g.Expect(what).To(Equal(ResultAnswered))
			g.Expect(offer.BootFileName).To(Equal(test.file))
			g.Expect(offer.YourIPAddr.IsUnspecified()).To(BeTrue(), "a proxy gives no address")
			if test.class == "" {
				test.class = classPXE // iPXE accepts a proxy's answer only with it
			}
			g.Expect(offer.ClassIdentifier()).To(Equal(test.class))
		})
	}
}

// TestSoon: firmware of a server that is not powered on yet gets no answer, in any mode, so that it asks again. An operating system gets its address.
func TestSoon(t *testing.T) {
	notYet := pxe.Answer{Known: true, Boot: pxe.NotYet}
	for _, mode := range []bootconfig.Mode{bootconfig.Proxy, bootconfig.Authoritative} {
		for name, client := range map[string][]dhcpv4.Modifier{
			"BIOS": pxeClient(iana.INTEL_X86PC), "UEFI": pxeClient(iana.EFI_X86_64), "UEFI HTTP": httpClient(iana.EFI_X86_64_HTTP), "iPXE": ipxeClient(),
		} {
			t.Run(string(mode)+", "+name, func(t *testing.T) {
				g := NewWithT(t)
				b := booter(notYet)
				b.Leases = func(pxe.LeaseRequest) (pxe.Lease, error) {
					t.Error("an address is given")
					return pxe.Lease{}, nil
				}
				_, what := ask(t, server(mode, b), discover(t, client...), atServer)
				g.Expect(what).To(Equal(ResultNothing))
				x, err := server(mode, b).handle(t.Context(), message(t, dhcpv4.MessageTypeRequest, with(client, requested(leased))...), atProxy)
				g.Expect(err).To(HaveOccurred())
				g.Expect(x.file).To(BeEmpty())
				b.Leases, b.Answer = nil, networkBoot
				offer, what := ask(t, server(mode, b), discover(t, client...), atServer)
				g.Expect(what).To(Equal(ResultAnswered), "when it asks again")
				g.Expect(offer.BootFileName).NotTo(BeEmpty())
			})
		}
	}
	g := NewWithT(t)
	b := booter(notYet)
	offer, what := ask(t, server(bootconfig.Authoritative, b), discover(t), atServer)
	g.Expect(what).To(Equal(ResultAnswered))
	g.Expect(offer.YourIPAddr.String()).To(Equal("192.0.2.77"))
	decline := message(t, dhcpv4.MessageTypeDecline, with(pxeClient(iana.EFI_X86_64), requested(leased), serverID(ours))...)
	s := server(bootconfig.Authoritative, b)
	s.acknowledged.Note(decline.ClientHWAddr, leased)
	_, what = ask(t, s, decline, atServer)
	g.Expect(what).To(Equal(ResultNoted))
	g.Expect(b.Declined()).To(Equal([]netip.Addr{leased}))
}

// TestAllNamed: the list of boot loaders is that of the answers.
func TestAllNamed(t *testing.T) {
	for _, named := range LoaderClients() {
		answer := networkBoot
		answer.SecureBoot = named.SecureBoot
		client := pxeClient(named.Client.Arch)
		if named.Client.HTTP {
			client = httpClient(named.Client.Arch)
		}
		offer, _ := ask(t, server(bootconfig.Proxy, booter(answer)), discover(t, client...), atServer)
		NewWithT(t).Expect(offer.BootFileName).To(HaveSuffix("/"+named.Loader), "%s", named.Client)
	}
	NewWithT(t).Expect(LoaderClients()).To(HaveLen(11))
}

// TestDiscoveryControl: which clients are instructed not to ask a boot server, and which must not be.
func TestDiscoveryControl(t *testing.T) {
	control := []byte{6, 1, 8, 255}
	item := dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{71, 4, 0, 9, 0, 0, 255}))
	for name, test := range map[string]struct {
		client               []dhcpv4.Modifier
		authoritative, proxy []byte
	}{
		"BIOS":                        {pxeClient(iana.INTEL_X86PC), control, control},
		"UEFI":                        {pxeClient(iana.EFI_X86_64), control, nil},
		"UEFI HTTP boot":              {httpClient(iana.EFI_X86_64_HTTP), nil, nil},
		"iPXE":                        {ipxeClient(), nil, control},
		"BIOS that asks for an item":  {with(pxeClient(iana.INTEL_X86PC), item), []byte{6, 1, 8, 71, 4, 0, 9, 0, 0, 255}, []byte{6, 1, 8, 71, 4, 0, 9, 0, 0, 255}},
		"BIOS with a broken option":   {with(pxeClient(iana.INTEL_X86PC), dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{71, 99}))), control, control},
		"BIOS with an item too short": {with(pxeClient(iana.INTEL_X86PC), dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionVendorSpecificInformation, []byte{71, 1, 0}))), control, control},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			offer, _ := ask(t, server(bootconfig.Authoritative, booter(networkBoot)), discover(t, test.client...), atServer)
			g.Expect(offer.Options.Get(dhcpv4.OptionVendorSpecificInformation)).To(Equal(test.authoritative))
			offer, _ = ask(t, server(bootconfig.Proxy, booter(networkBoot)), discover(t, test.client...), atServer)
			g.Expect(offer.Options.Get(dhcpv4.OptionVendorSpecificInformation)).To(Equal(test.proxy))
		})
	}
}

// TestServerNames: firmware finds the TFTP server in every field that it may read, iPXE does not wait for a proxy, and HTTP clients get no TFTP server.
func TestServerNames(t *testing.T) {
	g := NewWithT(t)
	s := server(bootconfig.Authoritative, booter(networkBoot))
	offer, _ := ask(t, s, discover(t, pxeClient(iana.INTEL_X86PC)...), atServer)
	g.Expect(offer.ServerHostName).To(Equal("192.0.2.1"))
	g.Expect(offer.TFTPServerName()).To(Equal("192.0.2.1"))
	g.Expect(offer.Options.Has(optionIPXE)).To(BeFalse())

	offer, _ = ask(t, s, discover(t, ipxeClient()...), atServer)
	g.Expect(offer.Options.Get(optionIPXE)).To(Equal([]byte{176, 1, 1}))
	offer, _ = ask(t, server(bootconfig.Proxy, booter(networkBoot)), discover(t, ipxeClient()...), atServer)
	g.Expect(offer.Options.Has(optionIPXE)).To(BeFalse(), "iPXE would pass over the offer that says so")

	offer, _ = ask(t, s, discover(t, httpClient(iana.EFI_X86_64_HTTP)...), atServer)
	g.Expect(offer.TFTPServerName()).To(BeEmpty())
	g.Expect(offer.ServerHostName).To(BeEmpty())
}

// TestSizes: an answer fits into the client's maximum size; a name that does not fit into the header field is not cut off.
func TestSizes(t *testing.T) {
	g := NewWithT(t)
	s := server(bootconfig.Authoritative, booter(networkBoot))
	s.Networks[0].URL = "http://" + strings.Repeat("a", 120)
	offer, _ := ask(t, s, discover(t, ipxeClient()...), atServer)
	g.Expect(offer.BootFileName).To(BeEmpty())
	g.Expect(offer.BootFileNameOption()).To(HaveLen(150))

	s.Networks[0].Domain = strings.Repeat("a", 250)
	clientID := dhcpv4.WithOption(dhcpv4.OptGeneric(dhcpv4.OptionClientIdentifier, make([]byte, 40)))
	request := discover(t, with(ipxeClient(), clientID)...)
	offer, _ = ask(t, s, request, atServer)
	g.Expect(len(offer.ToBytes())).To(BeNumerically("<=", 548))
	g.Expect(offer.DomainName()).To(BeEmpty())
	g.Expect(offer.BootFileNameOption()).NotTo(BeEmpty())
	g.Expect(offer.SubnetMask()).NotTo(BeNil())

	request.UpdateOption(dhcpv4.OptMaxMessageSize(1400))
	offer, _ = ask(t, s, request, atServer)
	g.Expect(offer.DomainName()).NotTo(BeEmpty())
	g.Expect(offer.NTPServers()).NotTo(BeEmpty())

	request.UpdateOption(dhcpv4.OptGeneric(dhcpv4.OptionClientIdentifier, make([]byte, 1400)))
	_, what := ask(t, s, request, atServer)
	g.Expect(what).To(Equal(ResultUnsuitable))
}

// TestOperatorConfig: each text names every loader, the script's URL with a MAC address in the form that HTTP serves, and only
// networks that are off.
func TestOperatorConfig(t *testing.T) {
	networks := []bootconfig.Network{network(bootconfig.Off), network(bootconfig.Proxy)}
	networks[1].Name = "proxied"
	for _, software := range Software() {
		t.Run(software, func(t *testing.T) {
			g := NewWithT(t)
			text, err := OperatorConfig(software, networks)
			g.Expect(err).NotTo(HaveOccurred())
			url := strings.ReplaceAll("http://192.0.2.1:8480/ipxe/${netX/mac:hexhyp}", "${netX/mac:hexhyp}", strings.ReplaceAll(mac.String(), ":", "-"))
			g.Expect(url).To(HaveSuffix(pxe.ScriptPath(mac)))
			for _, want := range []string{
				"http://192.0.2.1:8480/ipxe/${netX/mac:hexhyp}", "http://192.0.2.1:8480/loader/snponly.efi", "http://192.0.2.1:8480/loader/snponly-arm64.efi",
				"undionly.kpxe", "snponly.efi", "snponly-arm64.efi", "192.0.2.1", "HTTPClient", "iPXE",
			} {
				g.Expect(text).To(ContainSubstring(want))
			}
			g.Expect(text).NotTo(ContainSubstring("proxied"))
			checkGolden(t, "operator-"+software+".txt", text)
		})
	}
	g := NewWithT(t)
	_, err := OperatorConfig("windows", networks)
	g.Expect(err).To(MatchError(`"windows" is not one of dnsmasq, isc, kea`))
	_, err = OperatorConfig("kea", networks[1:])
	g.Expect(err).To(MatchError(ContainSubstring("no IPv4 network has the mode off")))

	networks[1].Mode = bootconfig.Off
	text, err := OperatorConfig("dnsmasq", networks)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(ContainSubstring("dhcp-boot=tag:proxied,tag:ipxe,"), "several networks are told apart by their tags")
	g.Expect(slices.IsSorted(Software())).To(BeTrue())
}
