// Package bootconfig reads the configuration file: where the boot server listens, what it serves, the networks that it serves, and where
// boot artifacts and BMCs may be. docs/network-boot.md describes the file.
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

// Mode says who gives addresses in a network.
type Mode string

// The modes.
const (
	// Off answers no DHCP: the operator's own DHCP server points at the boot server.
	Off Mode = "off"
	// Proxy adds the boot file to what another DHCP server answers.
	Proxy Mode = "proxy"
	// Authoritative gives addresses too, to the servers of the inventory and to no other.
	Authoritative Mode = "authoritative"
)

// What holds where the file says nothing.
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
	DefaultLeaseTime     = time.Hour
)

// Config is a valid configuration.
type Config struct {
	HTTP HTTP
	// TFTPPort is where boot loaders are served; 0 serves none.
	TFTPPort uint16
	// DHCPPort and DHCPPort6 are where DHCPv4 and DHCPv6 are listened for, DHCPProxyPort is where firmware asks a proxy once more. A
	// proxy port of 0 is not listened at.
	DHCPPort, DHCPPort6, DHCPProxyPort uint16
	// Loaders are the folders with the boot loaders. A file of a later one stands for that of an earlier one.
	Loaders   []string
	Artifacts Artifacts
	// BMCs is where BMCs may be.
	BMCs outbound.Policy
	// ClusterNetworks are those of the Services and Pods of the management cluster. Artifacts and BMCs deny them too.
	ClusterNetworks []netip.Prefix
	// Tenants confine namespaces. Without any, each may use all.
	Tenants Tenants
	// Networks are at least one where the boot server runs: see CheckNetworks.
	Networks []Network
}

// TLS is how HTTPS is served.
type TLS struct {
	Port uint16
	// CertFile and KeyFile hold the certificate, and are read again when they change.
	CertFile, KeyFile string
	// URL is where servers find it, without a slash at its end, with a name that the certificate has.
	URL string
}

// HTTP is how everything but the boot loaders is served.
type HTTP struct {
	Port uint16
	// TLS serves everything over HTTPS too; bootstrap data and reports go that way only then. Nil for none.
	TLS *TLS
}

// Artifacts are the cache of kernels and initrds.
type Artifacts struct {
	// Dir is its folder, MaxBytes what it may hold.
	Dir      string
	MaxBytes int64
	// Outbound is where kernels and initrds may come from.
	Outbound outbound.Policy
}

// Network is a network with servers that boot. All its addresses are of one family.
type Network struct {
	// Name stands in logs and metrics.
	Name string
	Mode Mode
	// Interface is where the broadcasts of the network are heard. Empty means: where Address is.
	Interface string
	// Subnet is the network. It is invalid where the file does not say it, which the mode authoritative does not allow.
	Subnet netip.Prefix
	// Address is where servers of this network reach the boot server: of TFTP and HTTP, and as the DHCP server's identifier.
	Address netip.Addr
	// URL is where HTTP is served, without a slash at its end.
	URL string
	// Ranges are given from, in the mode authoritative.
	Ranges []pxe.Range
	// Router, DNS, Domain, NTP and MTU go with the addresses. All may be empty.
	Router netip.Addr
	DNS    []netip.Addr
	Domain string
	NTP    []netip.Addr
	MTU    uint16
	// LeaseTime is how long an address may be used without asking again.
	LeaseTime time.Duration
	// Relays are the addresses that relay agents of this network send from, and write into requests (giaddr) where that is none of Subnet. Without
	// any a relay agent has to send from the address in Subnet that it writes.
	Relays []netip.Addr
	// MaxBoots is how many servers of this network may load what they boot at once; 0 for any number.
	MaxBoots int
}

// Pool is where addresses of the network are given from.
func (n Network) Pool() pxe.Pool {
	return pxe.Pool{Network: n.Name, Prefix: n.Subnet, Ranges: n.Ranges}
}

// BaseURL returns where a server finds HTTP that reached it at a local address. There is at least one network.
func BaseURL(networks []Network, local netip.Addr) string {
	i := slices.IndexFunc(networks, func(n Network) bool { return n.Address == local })
	return networks[max(i, 0)].URL
}

// NetworkOf returns the network of a server that asks from an address, and reached this one at a local address: the one whose subnet holds the
// server's address, or else that of the local address, best one without a subnet. There is at least one network.
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

// CheckNetworks returns an error for a configuration without networks, which the boot server cannot run with.
func (c *Config) CheckNetworks() error {
	if len(c.Networks) == 0 {
		return field.Required(field.NewPath("networks"), "give the network that servers boot in, with its name, mode and address")
	}
	return nil
}

// Read reads and checks a file.
func Read(path string) (Config, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(content)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse checks the content of a file. The error names every field that is wrong, and says what would be right.
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
