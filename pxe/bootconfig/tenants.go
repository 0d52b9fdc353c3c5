package bootconfig

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// otherNamespaces means all namespaces that no tenant names.
const otherNamespaces = "*"

// Tenant is what the hosts of some namespaces may use. An empty field permits everything.
type Tenant struct {
	// Namespaces are those of the tenant; "*" means all that no tenant names.
	Namespaces []string
	// BMCNetworks must contain the addresses of its BMCs.
	BMCNetworks []netip.Prefix
	// DHCPNetworks are the names of the networks in which its servers may boot.
	DHCPNetworks []string
	// MACPrefixes are the permitted prefixes of the boot MAC addresses of its hosts, in lower case with colons.
	MACPrefixes []string
}

// Tenants define which BMCs, networks and MAC addresses each namespace may use. Without tenants every namespace may use everything. With tenants, a namespace
// that no tenant names may use nothing.
type Tenants []Tenant

// of returns the tenant of a namespace, and whether there is one. Without tenants it returns one that may use everything.
func (t Tenants) of(namespace string) (Tenant, bool) {
	if len(t) == 0 {
		return Tenant{}, true
	}
	for _, name := range []string{namespace, otherNamespaces} {
		if i := slices.IndexFunc(t, func(t Tenant) bool { return slices.Contains(t.Namespaces, name) }); i >= 0 {
			return t[i], true
		}
	}
	return Tenant{}, false
}

// CheckHost returns an error, with the remedy, if a namespace may not use one of the boot MAC addresses or the BMC of a host. bmc is the host name or IP address of the
// BMC. In a namespace with BMCNetworks it must be an IP address, because the addresses of a name are known only when the provider connects.
func (t Tenants) CheckHost(namespace string, macs []string, bmc string) error {
	const remedy = "the tenants of the provider's configuration file permit"
	tenant, found := t.of(namespace)
	if !found {
		return fmt.Errorf("%s namespace %s nothing", remedy, namespace)
	}
	for _, mac := range macs {
		if len(tenant.MACPrefixes) > 0 && !slices.ContainsFunc(tenant.MACPrefixes, func(prefix string) bool { return strings.HasPrefix(mac, prefix) }) {
			return fmt.Errorf("spec.bootMACAddresses has %s: %s namespace %s only addresses that begin with %s", mac, remedy, namespace, strings.Join(tenant.MACPrefixes, " or "))
		}
	}
	if len(tenant.BMCNetworks) == 0 {
		return nil
	}
	ip, err := netip.ParseAddr(bmc)
	if err != nil {
		return fmt.Errorf("spec.bmc.address has the host name %s: %s namespace %s only BMCs of some networks, so give the IP address", bmc, remedy, namespace)
	}
	if !slices.ContainsFunc(tenant.BMCNetworks, func(n netip.Prefix) bool { return n.Contains(ip.Unmap().WithZone("")) }) {
		return fmt.Errorf("spec.bmc.address has the IP address %s: %s namespace %s only BMCs in %v", bmc, remedy, namespace, tenant.BMCNetworks)
	}
	return nil
}

// MayBootIn is true if the servers of a namespace may boot in a network.
func (t Tenants) MayBootIn(namespace, network string) bool {
	tenant, found := t.of(namespace)
	return found && (len(tenant.DHCPNetworks) == 0 || slices.Contains(tenant.DHCPNetworks, network))
}

// tenantSection is a tenant as written in the file.
type tenantSection struct {
	Namespaces   []string `json:"namespaces"`
	BMCNetworks  []string `json:"bmcNetworks"`
	DHCPNetworks []string `json:"dhcpNetworks"`
	MACPrefixes  []string `json:"macPrefixes"`
}

var macPrefix = regexp.MustCompile(`^[0-9a-f]{2}(:[0-9a-f]{2}){0,5}$`)

// tenants reads the tenants. networks is empty in a file for the controllers alone.
func (r *reader) tenants(sections []tenantSection, networks []Network, path *field.Path) Tenants {
	var all Tenants
	named := map[string]bool{}
	for i, s := range sections {
		at := path.Index(i)
		r.namespaces(s.Namespaces, named, at.Child("namespaces"))
		for j, name := range s.DHCPNetworks {
			if len(networks) > 0 && !slices.ContainsFunc(networks, func(n Network) bool { return n.Name == name }) {
				r.invalid(at.Child("dhcpNetworks").Index(j), name, "give the name of one of networks")
			}
		}
		for j, prefix := range s.MACPrefixes {
			if !macPrefix.MatchString(prefix) {
				r.invalid(at.Child("macPrefixes").Index(j), prefix, "give the beginning of a MAC address in lower case with colons, like 52:54:00")
			}
		}
		all = append(all, Tenant{
			Namespaces: s.Namespaces, BMCNetworks: r.prefixes(s.BMCNetworks, at.Child("bmcNetworks")), DHCPNetworks: s.DHCPNetworks, MACPrefixes: s.MACPrefixes,
		})
	}
	return all
}

// namespaces checks the namespaces of a tenant. named has those of the tenants before it.
func (r *reader) namespaces(names []string, named map[string]bool, path *field.Path) {
	const remedy = `give the name of a namespace, or "*" for those that no tenant names`
	if len(names) == 0 {
		r.required(path, remedy)
	}
	for i, name := range names {
		if name != otherNamespaces && len(validation.IsDNS1123Label(name)) > 0 {
			r.invalid(path.Index(i), name, remedy)
		}
		if named[name] {
			r.problems = append(r.problems, field.Duplicate(path.Index(i), name))
		}
		named[name] = true
	}
}
