package bootconfig

import (
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
)

// Deny denies networks to artifacts, BMCs and the API servers of workload clusters.
func (c *Config) Deny(networks ...netip.Prefix) {
	for _, policy := range []*outbound.Policy{&c.Artifacts.Outbound, &c.BMCs, &c.Clusters} {
		policy.DenyNetworks = append(policy.DenyNetworks, networks...)
	}
}

func (r *reader) outbound(s outboundSection, path *field.Path) outbound.Policy {
	policy := outbound.Policy{
		AllowNetworks: r.prefixes(s.AllowNetworks, path.Child("allowNetworks")), DenyNetworks: r.prefixes(s.DenyNetworks, path.Child("denyNetworks")),
	}
	for i, host := range withoutNone(s.AllowHosts) {
		_, err := netip.ParseAddr(host)
		if len(validation.IsDNS1123Subdomain(host)) > 0 || err == nil {
			r.invalid(path.Child("allowHosts").Index(i), host, "give a host name like images.example.com; addresses belong into allowNetworks, like 192.0.2.80/32")
		}
		policy.AllowHosts = append(policy.AllowHosts, host)
	}
	return policy
}

func (r *reader) prefixes(texts []string, path *field.Path) []netip.Prefix {
	var out []netip.Prefix
	for i, text := range withoutNone(texts) {
		prefix := r.prefix(text, path.Index(i))
		if text == "" || prefix.Addr().Is4In6() {
			r.invalid(path.Index(i), text, "give a network like 192.0.2.0/24")
		}
		out = append(out, prefix)
	}
	return out
}
