package dhcp

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/tftp"
)

// Client is the kind of a DHCP client, as its request describes it.
type Client struct {
	// PXE is true for firmware that boots over the network.
	PXE bool
	// HTTP is true for UEFI HTTP boot.
	HTTP bool
	// IPXE is true for an iPXE that supports HTTP: it can fetch the script at once.
	IPXE bool
	// Arch is the firmware's architecture (RFC 4578, section 2.1).
	Arch iana.Arch
}

func (c Client) String() string {
	kind := "PXE"
	switch {
	case c.IPXE:
		kind = "iPXE"
	case c.HTTP:
		kind = "UEFI HTTP boot"
	case !c.PXE:
		return "DHCP client"
	}
	return kind + ", " + c.Arch.String()
}

// Boots is true for a client that asks for a boot file.
func (c Client) Boots() bool { return c.PXE || c.HTTP || c.IPXE }

// bios is true for a client that boots with a BIOS. All others have UEFI, or unsupported firmware that gets no boot file.
func (c Client) bios() bool { return c.Arch == iana.INTEL_X86PC }

const (
	classPXE  = "PXEClient"
	classHTTP = "HTTPClient"
	// optionIPXE encapsulates iPXE's own options, in both directions.
	optionIPXE = dhcpv4.GenericOptionCode(175)
	// ipxeHTTP, in it, means that this iPXE was built with HTTP.
	ipxeHTTP = 19
	// ipxeNoProxy instructs iPXE not to wait for the offer of a proxy.
	ipxeNoProxy = 176
)

// Classify classifies a client by options 60 (vendor class), 77 (user class), 93 (architecture) and 175 (iPXE).
func Classify(request *dhcpv4.DHCPv4) Client {
	vendor := request.ClassIdentifier()
	return Client{
		PXE: strings.HasPrefix(vendor, classPXE), HTTP: strings.HasPrefix(vendor, classHTTP), IPXE: isIPXE(request), Arch: archOf(request, vendor),
	}
}

// isIPXE is true for an iPXE with HTTP whose user class names iPXE, or is empty. iPXE with another user class was built to look like another client, and iPXE
// without HTTP cannot fetch its script.
func isIPXE(request *dhcpv4.DHCPv4) bool {
	// iPXE sends its name without the length byte that RFC 3004 requires before it.
	class := string(request.Options.Get(dhcpv4.OptionUserClassInformation))
	own := request.Options.Get(optionIPXE)
	if own == nil {
		return strings.Contains(class, "iPXE")
	}
	features := dhcpv4.Options{}
	if err := features.FromBytes(own); err != nil || !features.Has(dhcpv4.GenericOptionCode(ipxeHTTP)) {
		return false
	}
	return class == "" || strings.Contains(class, "iPXE")
}

// ArchIn returns the architecture that firmware writes into its vendor class: PXEClient:Arch:00007:UNDI:003016.
func ArchIn(class string) (iana.Arch, bool) {
	parts := strings.Split(class, ":")
	if len(parts) < 3 || parts[1] != "Arch" {
		return 0, false
	}
	number, err := strconv.ParseUint(parts[2], 10, 16)
	return iana.Arch(number), err == nil
}

// archOf returns the first architecture that has a boot loader. Firmware without option 93 names its architecture in the vendor class.
func archOf(request *dhcpv4.DHCPv4, vendor string) iana.Arch {
	archs := request.ClientArch()
	if len(archs) == 0 {
		arch, ok := ArchIn(vendor)
		if !ok {
			return iana.INTEL_X86PC
		}
		return arch
	}
	if i := slices.IndexFunc(archs, func(a iana.Arch) bool { return loaders[a].plain != "" }); i >= 0 {
		return archs[i]
	}
	return archs[0]
}

// loader has the names of boot loaders in the folder that TFTP and HTTP serve: iPXE, and shim for firmware that runs only signed programs.
type loader struct{ plain, signed string }

// loaders are the boot loaders by architecture. RFC 4578 swapped the numbers of the two UEFI x64 entries, and firmware sends either. There is no boot loader for
// IA32 UEFI.
var loaders = map[iana.Arch]loader{
	iana.INTEL_X86PC:     {plain: "undionly.kpxe"},
	iana.EFI_BC:          {plain: "snponly.efi", signed: "shimx64.efi"},
	iana.EFI_X86_64:      {plain: "snponly.efi", signed: "shimx64.efi"},
	iana.EFI_X86_64_HTTP: {plain: "snponly.efi", signed: "shimx64.efi"},
	iana.EFI_ARM64:       {plain: "snponly-arm64.efi", signed: "shimaa64.efi"},
	iana.EFI_ARM64_HTTP:  {plain: "snponly-arm64.efi", signed: "shimaa64.efi"},
}

// LoaderFor returns the name of the boot loader for an architecture, empty if there is none. A BIOS checks no signatures.
func LoaderFor(arch iana.Arch, secureBoot bool) string {
	if secureBoot && arch != iana.INTEL_X86PC {
		return loaders[arch].signed
	}
	return loaders[arch].plain
}

// LoaderClient is a kind of client, with the boot loader that DHCP names to it.
type LoaderClient struct {
	Client Client
	// SecureBoot is true for a server that boots with shim.
	SecureBoot bool
	// Loader is the boot loader's name in its folder.
	Loader string
}

// LoaderClients returns every kind of client that gets a boot loader, in a fixed order. The boot server must serve all these boot loaders.
func LoaderClients() []LoaderClient {
	var all []LoaderClient
	for arch, l := range loaders {
		client := Client{PXE: true, Arch: arch}
		if arch == iana.EFI_X86_64_HTTP || arch == iana.EFI_ARM64_HTTP {
			client = Client{HTTP: true, Arch: arch}
		}
		all = append(all, LoaderClient{Client: client, Loader: l.plain})
		if l.signed != "" {
			all = append(all, LoaderClient{Client: client, SecureBoot: true, Loader: l.signed})
		}
	}
	slices.SortFunc(all, func(a, b LoaderClient) int {
		if a.Client.Arch != b.Client.Arch {
			return int(a.Client.Arch) - int(b.Client.Arch)
		}
		return strings.Compare(a.Loader, b.Loader)
	})
	return all
}

// bootFile returns the boot file of a client, empty for none.
func bootFile(n bootconfig.Network, client Client, answer pxe.Answer, mac net.HardwareAddr) string {
	name := LoaderFor(client.Arch, answer.SecureBoot)
	switch {
	case answer.Boot == pxe.Ignore || answer.Boot == pxe.NotYet || !client.Boots():
		return ""
	case client.IPXE:
		return n.URL + pxe.ScriptPath(mac)
	case answer.Boot == pxe.Disk && !answer.BIOS || name == "":
		// UEFI firmware continues with the disk when the network offers nothing. A BIOS may try the network forever.
		return ""
	case client.HTTP:
		return n.URL + pxe.LoaderPath(mac, name)
	default:
		return tftp.JoinName(mac, name)
	}
}
