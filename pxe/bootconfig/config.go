// Package bootconfig reads the configuration file: where the boot server listens, what it serves, in which networks, and which addresses boot
// artifacts and BMCs may have. docs/reference/boot-configuration.md describes the file.
package bootconfig

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// Mode is which DHCP server gives addresses in a network.
type Mode string

const (
	// Off answers no DHCP: the operator's own DHCP server points at the boot server.
	Off Mode = "off"
	// Proxy adds the boot file to the answers of another DHCP server.
	Proxy Mode = "proxy"
	// Authoritative gives addresses too, only to servers of the inventory.
	Authoritative Mode = "authoritative"
)

const (
	DefaultHTTPPort      = 8480
	DefaultHTTPSPort     = 8481
	DefaultTFTPPort      = 69
	DefaultDHCPPort      = 67
	DefaultDHCPPort6     = 547
	DefaultDHCPProxyPort = 4011
	DefaultArtifactDir   = "/var/cache/capbm"
	DefaultArtifactSize  = 20 << 30
	DefaultLoaderDir     = "/usr/lib/capbm/loaders"
	DefaultAgentDir      = "/usr/lib/capbm/agent"
	// DefaultImageSuffix makes the default of the folder of images of the folder of artifacts.
	DefaultImageSuffix = "-images"
	DefaultImageSize   = 60 << 30
	DefaultLeaseTime   = time.Hour
)

// Config is a valid configuration.
type Config struct {
	HTTP HTTP
	// TFTPPort serves boot loaders; 0 serves none.
	TFTPPort uint16
	// DHCPPort and DHCPPort6 are the ports of DHCPv4 and DHCPv6. DHCPProxyPort is the port at which firmware asks a proxy a second time; with 0
	// the boot server does not listen for that.
	DHCPPort, DHCPPort6, DHCPProxyPort uint16
	// Loaders are the folders with the boot loaders. A file in a later folder replaces the file of the same name in an earlier one.
	Loaders   []string
	Artifacts Artifacts
	Agent     Agent
	Images    Images
	// MediaClients are the networks whose clients may fetch boot media. Without any, all may.
	MediaClients []netip.Prefix
	// BMCs restricts which addresses BMCs may have.
	BMCs outbound.Policy
	// Clusters restricts which addresses the API servers of workload clusters may have.
	Clusters outbound.Policy
	// ClusterNetworks are those of the Services and Pods of the management cluster. Artifacts, BMCs and Clusters deny them too.
	ClusterNetworks []netip.Prefix
	// Tenants restrict namespaces. Without any, each namespace may use everything.
	Tenants Tenants
	// Networks has at least one element where the boot server runs: see CheckNetworks.
	Networks []Network
}

// TLS configures HTTPS.
type TLS struct {
	Port uint16
	// CertFile and KeyFile have the certificate, and are read again when they change.
	CertFile, KeyFile string
	// NextCertFile is the certificate that will replace that in CertFile, so that agents which boot before the change trust its key. Empty for none. The file may
	// be missing.
	NextCertFile string
	// URL is where servers find HTTPS, without a slash at its end. The certificate must be valid for its name.
	URL string
}

// HTTP configures the service of everything except the boot loaders.
type HTTP struct {
	Port uint16
	// TLS serves everything over HTTPS too. Bootstrap data and reports then use HTTPS only. Nil for none.
	TLS *TLS
}

// Artifacts configures the cache of kernels and initrds.
type Artifacts struct {
	// Dir is the folder, MaxBytes the maximum size.
	Dir      string
	MaxBytes int64
	// Outbound restricts where kernels and initrds may come from.
	Outbound outbound.Policy
}

// Images configures the operating system images that agents write to disks. They may come from where kernels and initrds may come from.
type Images struct {
	// Dir is the folder, MaxBytes the maximum size with everything that a conversion needs.
	Dir      string
	MaxBytes int64
	// Socket is the Unix socket of a separate image service with the same Dir. Empty makes the boot server download and convert the images itself.
	Socket string
	// TokenServices are the hosts, with a port unless it is 443, that registries may name as their token services, beside their own.
	TokenServices []string
}

// Network is a network with servers that boot. All its addresses are of one family.
type Network struct {
	// Name appears in logs and metrics.
	Name string
	Mode Mode
	// Interface receives the broadcasts of the network. Empty means the interface with Address.
	Interface string
	// Subnet is invalid if the file does not give it, which the mode authoritative does not allow.
	Subnet netip.Prefix
	// Address is the boot server's address in this network: of TFTP and HTTP, and as the DHCP server identifier.
	Address netip.Addr
	// URL is where HTTP is served, without a slash at its end.
	URL string
	// Ranges are the addresses that the mode authoritative gives to servers without a reservation.
	Ranges []pxe.Range
	// Router, DNS, Domain, NTP and MTU go with the addresses. All may be empty.
	Router netip.Addr
	DNS    []netip.Addr
	Domain string
	NTP    []netip.Addr
	MTU    uint16
	// LeaseTime is how long an address may be used without asking again.
	LeaseTime time.Duration
	// Relays are the addresses that relay agents of this network send from, and that they may write into requests (giaddr) if they are outside Subnet.
	// Without any, a relay agent must send from the address in Subnet that it writes into the request.
	Relays []netip.Addr
	// MaxBoots is how many servers of this network may load their boot files at once; 0 for any number.
	MaxBoots int
}

// Pool returns the addresses that DHCP may give to servers of the network.
func (n Network) Pool() pxe.Pool {
	return pxe.Pool{Network: n.Name, Prefix: n.Subnet, Ranges: n.Ranges}
}

// BaseURL returns the HTTP URL for a server that reached the boot server at a local address. There is at least one network.
func BaseURL(networks []Network, local netip.Addr) string {
	i := slices.IndexFunc(networks, func(n Network) bool { return n.Address == local })
	return networks[max(i, 0)].URL
}

// MediumURL returns the HTTP URL for the operating system on a boot medium, given the addresses that it is configured with and the local address at which the
// medium was fetched. The BMC that fetches it may be in another network than its server, so the first network that has one of the configured addresses decides.
func MediumURL(networks []Network, local netip.Addr, configured []netip.Addr) string {
	for _, n := range networks {
		if n.Subnet.IsValid() && slices.ContainsFunc(configured, n.Subnet.Contains) {
			return n.URL
		}
	}
	return BaseURL(networks, local)
}

// NetworkOf returns the network of a server that asks from an address, and reached the boot server at a local address. It is the network whose subnet
// contains the server's address, otherwise one of the local address, preferably without a subnet. There is at least one network.
func NetworkOf(networks []Network, local, from netip.Addr) Network {
	for _, holds := range []func(Network) bool{
		func(n Network) bool { return n.Subnet.IsValid() && n.Subnet.Contains(from) },
		func(n Network) bool { return n.Address == local && !n.Subnet.IsValid() },
		func(n Network) bool { return n.Address == local },
	} {
		if i := slices.IndexFunc(networks, holds); i >= 0 {
			return networks[i]
		}
	}
	return networks[0]
}

// CheckNetworks returns an error for a configuration without networks. The boot server cannot run without one.
func (c *Config) CheckNetworks() error {
	if len(c.Networks) == 0 {
		return field.Required(field.NewPath("networks"), "give the network that servers boot in, with its name, mode and address")
	}
	return nil
}

// Read reads and checks a file.
func Read(path string) (Config, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the operator chooses it
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(content)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse checks the content of a file. The error names every invalid field, and says how to fix it.
func Parse(content []byte) (Config, error) {
	var f file
	if err := yaml.UnmarshalStrict(content, &f); err != nil {
		return Config{}, err
	}
	c, problems := f.config()
	if len(problems) > 0 {
		slices.SortStableFunc(problems, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
		return Config{}, problems.ToAggregate()
	}
	return c, nil
}
