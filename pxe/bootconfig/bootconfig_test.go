package bootconfig

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/internal/grub"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/ipxe"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// TestExample: the example of the documentation is a valid file, with the documented meaning.
func TestExample(t *testing.T) {
	g := NewWithT(t)
	doc, err := os.ReadFile("../../docs/reference/boot-configuration.md")
	g.Expect(err).NotTo(HaveOccurred())
	_, rest, found := strings.Cut(string(doc), "<!-- A test reads this example. -->\n```yaml\n")
	g.Expect(found).To(BeTrue())
	example, _, _ := strings.Cut(rest, "```")
	c, err := Parse([]byte(example))
	g.Expect(err).NotTo(HaveOccurred())

	// The example has the defaults for everything except networks and TLS.
	_, networks, _ := strings.Cut(example, "networks:\n")
	short, err := Parse([]byte("networks:\n" + networks))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(short.HTTP.TLS).To(BeNil())
	g.Expect(c.HTTP.TLS).To(Equal(&TLS{Port: 8481, CertFile: "/etc/capbm-tls/tls.crt", KeyFile: "/etc/capbm-tls/tls.key", NextCertFile: "/etc/capbm-tls/next.crt", URL: "https://boot.example.com:8481"}))
	short.HTTP.TLS = c.HTTP.TLS
	g.Expect(short).To(Equal(c))

	g.Expect(c.Networks).To(HaveLen(4))
	g.Expect(c.Networks[0]).To(Equal(Network{
		Name: "rack-1", Mode: Authoritative, Interface: "eth1", Subnet: netip.MustParsePrefix("192.0.2.0/24"), Address: addr("192.0.2.5"), URL: "http://192.0.2.5:8480",
		Ranges: []pxe.Range{{First: addr("192.0.2.100"), Last: addr("192.0.2.200")}}, Router: addr("192.0.2.1"),
		DNS: []netip.Addr{addr("192.0.2.53"), addr("192.0.2.54")}, Domain: "example.com", NTP: []netip.Addr{addr("192.0.2.123")}, MTU: 9000, LeaseTime: time.Hour, MaxBoots: 50,
	}))
	g.Expect(c.Networks[1].MaxBoots).To(BeZero(), "no limit")
	g.Expect(c.Networks[1].Relays).To(Equal([]netip.Addr{addr("203.0.113.1")}))
	g.Expect(c.Networks[2].URL).To(Equal("http://boot.example.com:8480"))
	g.Expect(c.Networks[3].URL).To(Equal("http://[2001:db8::5]:8480"))
	g.Expect(BaseURL(c.Networks, addr("10.0.0.5"))).To(Equal("http://boot.example.com:8480"))
	g.Expect(BaseURL(c.Networks, addr("10.9.9.9"))).To(Equal("http://192.0.2.5:8480"), "an address of no network")
}

// TestFields: the documentation describes every field of the file.
func TestFields(t *testing.T) {
	doc, err := os.ReadFile("../../docs/reference/boot-configuration.md")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	var check func(section reflect.Type)
	check = func(section reflect.Type) {
		for section.Kind() == reflect.Pointer || section.Kind() == reflect.Slice {
			section = section.Elem()
		}
		if section.Kind() != reflect.Struct {
			return
		}
		for f := range section.Fields() {
			if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
				NewWithT(t).Expect(string(doc)).To(MatchRegexp("`(\\w+\\.)*"+name+"(\\.\\w+)*`"), name)
			}
			check(f.Type)
		}
	}
	check(reflect.TypeFor[file]())
}

// TestClusterctl: the ConfigMap that clusterctl installs is valid with the fewest variables, and with all.
func TestClusterctl(t *testing.T) {
	g := NewWithT(t)
	manifest, err := os.ReadFile("../../config/boot/boot-config.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	_, content, found := strings.Cut(string(manifest), "boot.yaml: |\n")
	g.Expect(found).To(BeTrue())
	variable := regexp.MustCompile(`\$\{(\w+)(?::=([^}]*))?\}`)
	fill := func(values map[string]string) string {
		return variable.ReplaceAllStringFunc(content, func(text string) string {
			parts := variable.FindStringSubmatch(text)
			if value, ok := values[parts[1]]; ok {
				return value
			}
			return parts[2]
		})
	}
	_, err = Parse([]byte(fill(map[string]string{"CAPBM_BOOT_ADDRESS": "192.0.2.5"})))
	g.Expect(err).To(MatchError(ContainSubstring("networks[0].mode: Invalid value")), "the mode has no default")
	c, err := Parse([]byte(fill(map[string]string{"CAPBM_BOOT_ADDRESS": "192.0.2.5", "CAPBM_DHCP_MODE": "proxy"})))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]any{c.ClusterNetworks, c.Artifacts.Outbound.AllowNetworks, c.Artifacts.Outbound.AllowHosts, c.BMCs.AllowNetworks}).To(HaveEach(BeEmpty()))
	g.Expect(c.Networks).To(Equal([]Network{{Name: "default", Mode: Proxy, Address: addr("192.0.2.5"), URL: "http://192.0.2.5:8480", LeaseTime: time.Hour}}))

	c, err = Parse([]byte(fill(map[string]string{
		"CAPBM_BOOT_ADDRESS": "192.0.2.5", "CAPBM_DHCP_MODE": "authoritative", "CAPBM_DHCP_INTERFACE": "eth0", "CAPBM_DHCP_NETWORK": "192.0.2.0/24",
		"CAPBM_DHCP_RANGE": "192.0.2.10-192.0.2.19,192.0.2.30-192.0.2.39", "CAPBM_DHCP_ROUTER": "192.0.2.1", "CAPBM_DHCP_DNS": "192.0.2.2,192.0.2.3",
		"CAPBM_DHCP_NTP": "192.0.2.4", "CAPBM_DHCP_DOMAIN": "example.com", "CAPBM_DHCP_LEASE_TIME": "30m", "CAPBM_DHCP_RELAYS": "203.0.113.1",
		"CAPBM_CLUSTER_NETWORKS": "10.96.0.0/12,10.244.0.0/16", "CAPBM_ARTIFACT_ALLOW_NETWORKS": "10.96.0.80/32",
		"CAPBM_ARTIFACT_ALLOW_HOSTS": "a.example.com,b.example.com", "CAPBM_BMC_ALLOW_NETWORKS": "127.0.0.0/8",
	})))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.ClusterNetworks).To(HaveLen(2))
	g.Expect(c.Artifacts.Outbound.AllowNetworks).To(HaveExactElements(netip.MustParsePrefix("10.96.0.80/32")))
	g.Expect(c.Artifacts.Outbound.AllowHosts).To(HaveExactElements("a.example.com", "b.example.com"))
	g.Expect(c.BMCs.AllowNetworks).To(HaveExactElements(netip.MustParsePrefix("127.0.0.0/8")))
	g.Expect(c.Networks).To(Equal([]Network{{
		Name: "default", Mode: Authoritative, Interface: "eth0", Subnet: netip.MustParsePrefix("192.0.2.0/24"), Address: addr("192.0.2.5"), URL: "http://192.0.2.5:8480",
		Ranges: []pxe.Range{{First: addr("192.0.2.10"), Last: addr("192.0.2.19")}, {First: addr("192.0.2.30"), Last: addr("192.0.2.39")}},
		Router: addr("192.0.2.1"), DNS: []netip.Addr{addr("192.0.2.2"), addr("192.0.2.3")}, NTP: []netip.Addr{addr("192.0.2.4")}, Domain: "example.com",
		LeaseTime: 30 * time.Minute, Relays: []netip.Addr{addr("203.0.113.1")},
	}}))
}

// good is a valid network.
const good = `{name: a, mode: authoritative, address: 192.0.2.5, subnet: 192.0.2.0/24}`

func TestErrors(t *testing.T) {
	network := func(more string) string {
		return "networks: [{name: b, mode: authoritative, address: 198.51.100.5, subnet: 198.51.100.0/24, " + more + "}, " + good + "]"
	}
	proxies := func(a, b string) string {
		return "networks: [{name: a, mode: proxy, " + a + "}, {name: b, mode: proxy, " + b + "}]"
	}
	for name, test := range map[string]struct{ content, want string }{
		"an unknown key":            {"network: []\nnetworks: [" + good + "]", `unknown field "network"`},
		"an unknown key within":     {network("gateway: 1"), `unknown field "gateway"`},
		"a key that stands twice":   {"http: {port: 1}\nhttp: {port: 2}", `"http"`},
		"a value of a wrong type":   {"tftp: {port: high}", "tftpSection.tftp.port"},
		"no port":                   {"http: {port: 0}\nnetworks: [" + good + "]", "http.port: Invalid value"},
		"no DHCPv6 port":            {"dhcp: {port6: 0}\nnetworks: [" + good + "]", "dhcp.port6: Invalid value"},
		"one port for DHCPv6":       {"dhcp: {port6: 4011}\nnetworks: [" + good + "]", "dhcp.proxyPort: Invalid value: 4011: give another port"},
		"no DHCP port":              {"dhcp: {port: 0}\nnetworks: [" + good + "]", "dhcp.port: Invalid value"},
		"one port for two":          {"dhcp: {proxyPort: 67}\nnetworks: [" + good + "]", "dhcp.proxyPort: Invalid value: 67: give another port"},
		"a relative folder":         {"loaders: [/a, b]\nnetworks: [" + good + "]", `loaders[1]: Invalid value: "b": give the folder's absolute path`},
		"no size":                   {"artifacts: {maxSize: big}\nnetworks: [" + good + "]", `artifacts.maxSize: Invalid value: "big": give a size like 20Gi`},
		"a size of nothing":         {"artifacts: {maxSize: 0}\nnetworks: [" + good + "]", "artifacts.maxSize"},
		"no network to allow":       {"artifacts: {allowNetworks: [127.0.0.1]}\nnetworks: [" + good + "]", "artifacts.allowNetworks[0]"},
		"no network to deny":        {`artifacts: {denyNetworks: [192.0.2.0/24, ""]}`, "artifacts.denyNetworks[1]: Invalid value"},
		"a network of BMCs":         {"bmcs: {allowNetworks: [127.0.0.1]}", `bmcs.allowNetworks[0]: Invalid value: "127.0.0.1": give a network like 192.0.2.0/24`},
		"a mapped network":          {`bmcs: {denyNetworks: ["::ffff:10.0.0.0/104"]}`, "bmcs.denyNetworks[0]"},
		"a network of Pods":         {"clusterNetworks: [10.244.0.1/16]", "clusterNetworks[0]: Invalid value: \"10.244.0.1/16\": give the network's own address: 10.244.0.0/16"},
		"a host with a port":        {"artifacts: {allowHosts: ['a.example.com:80']}", "artifacts.allowHosts[0]: Invalid value: \"a.example.com:80\": give a host name"},
		"a parameter of ours":       {"agent: {commandLine: quiet capbm.network=a}", "agent.commandLine: Invalid value: \"capbm.network=a\": leave it out: the provider sets it"},
		"another agent":             {"agent: {commandLine: rdinit=/bin/sh}", "agent.commandLine: Invalid value: \"rdinit=/bin/sh\": leave it out"},
		"an expanded parameter":     {"agent: {commandLine: \"a=${b}\"}", "agent.commandLine: Invalid value: \"a=${b}\": give printable"},
		"a quoted parameter":        {"agent: {commandLine: 'a=\"b c\"'}", "agent.commandLine: Invalid value: \"a=\\\"b\": give printable"},
		"a backslash":               {"agent: {commandLine: 'a\\b'}", "agent.commandLine: Invalid value"},
		"an umlaut":                 {"agent: {commandLine: ä}", "agent.commandLine: Invalid value"},
		"the end of a command":      {"agent: {commandLine: a || b}", "agent.commandLine: Invalid value: \"||\": leave it out"},
		"the end of parameters":     {"agent: {commandLine: a -- b}", "agent.commandLine: Invalid value: \"--\": leave it out"},
		"a comment in a command":    {"agent: {commandLine: 'a #b'}", "agent.commandLine: Invalid value: \"#b\""},
		"another ramdisk":           {"agent: {commandLine: initrd=a}", "agent.commandLine: Invalid value: \"initrd=a\""},
		"the next command":          {"agent: {commandLine: a ; b}", "agent.commandLine: Invalid value: \";\""},
		"a second command":          {"agent: {commandLine: a && b}", "agent.commandLine: Invalid value: \"&&\""},
		"many parameters":           {"agent: {commandLine: " + strings.Repeat("a", 257) + "}", "agent.commandLine: Too long"},
		"a relative agent":          {"agent: {dir: a}", "agent.dir: Invalid value"},
		"a URL as a token service":  {"images: {tokenServices: [\"https://gitlab.example.com\"]}", "images.tokenServices[0]: Invalid value"},
		"an address for a host":     {"bmcs: {allowHosts: [192.0.2.80]}", "bmcs.allowHosts[0]: Invalid value"},
		"a host in upper case":      {"artifacts: {allowHosts: [A.example.com]}", "artifacts.allowHosts[0]"},
		"no name":                   {"networks: [{mode: proxy, address: 192.0.2.5}]", `networks[0].name: Invalid value: "": give a name of lower-case letters`},
		"no mode":                   {"networks: [{name: a, address: 192.0.2.5}]", "networks[0].mode: Invalid value"},
		"no address":                {"networks: [{name: a, mode: proxy}]", "networks[0].address: Required value"},
		"the unspecified address":   {"networks: [{name: a, mode: proxy, address: 0.0.0.0}]", "networks[0].address: Invalid value"},
		"authoritative, no subnet":  {"networks: [{name: a, mode: authoritative, address: 192.0.2.5}]", "networks[0].subnet: Required value"},
		"a machine for a subnet":    {"networks: [{name: a, mode: proxy, address: 192.0.2.5, subnet: 192.0.2.5/24}]", "give the network's own address: 192.0.2.0/24"},
		"an interface":              {network("interface: a/b"), "networks[0].interface"},
		"a router elsewhere":        {network("router: 192.0.2.1"), "networks[0].router: Invalid value: \"192.0.2.1\": give an address of subnet 198.51.100.0/24"},
		"a range elsewhere":         {network("ranges: [198.51.100.9-198.51.101.9]"), "networks[0].ranges[0]"},
		"a range from high to low":  {network("ranges: [198.51.100.9-198.51.100.8]"), "give the first and the last address"},
		"our address in a range":    {network("ranges: [198.51.100.1-198.51.100.9]"), "leave out 198.51.100.5, which is the address of the boot server"},
		"the router in a range":     {network("router: 198.51.100.9, ranges: [198.51.100.9]"), "leave out 198.51.100.9, which is the router"},
		"the broadcast address":     {network("ranges: [198.51.100.200-198.51.100.255]"), "which is the broadcast address"},
		"the network's address":     {network("ranges: [198.51.100.0-198.51.100.4]"), "which is the network's own address"},
		"ranges that overlap":       {network("ranges: [198.51.100.10-198.51.100.20, 198.51.100.20-198.51.100.30]"), "leave out the addresses that networks[0].ranges[0] has too"},
		"IPv6 in an IPv4 network":   {network(`dns: ["2001:db8::1"]`), "networks[0].dns[0]: Invalid value: \"2001:db8::1\": give an address of the same IP version"},
		"TLS without a key":         {`{http: {tls: {certFile: /a, url: "https://b"}}, networks: []}`, "http.tls.keyFile"},
		"TLS with a relative path":  {`{http: {tls: {certFile: /a, keyFile: /b, nextCertFile: next.crt, url: "https://b"}}, networks: []}`, "http.tls.nextCertFile"},
		"TLS at the port of HTTP":   {`{http: {tls: {port: 8480, certFile: /a, keyFile: /b, url: "https://b"}}, networks: []}`, "http.tls.port"},
		"TLS without a URL":         {`{http: {tls: {certFile: /a, keyFile: /b, url: "http://b"}}, networks: []}`, "http.tls.url"},
		"an IPv6 range":             {network(`ranges: ["2001:db8::1-2001:db8::2"]`), "networks[0].ranges[0]"},
		"an invalid relay":          {network("relays: [one]"), "networks[0].relays[0]"},
		"too many DNS servers":      {network("dns: [1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8,1.1.1.9]"), "networks[0].dns: Too many"},
		"a domain":                  {network("domain: a_b"), "networks[0].domain"},
		"an MTU":                    {network("mtu: 100"), "networks[0].mtu: Invalid value: 100: give 576 to 9216"},
		"a lease time":              {network("leaseTime: 1s"), "networks[0].leaseTime"},
		"fewer than no boots":       {network("maxBoots: -1"), "networks[0].maxBoots: Invalid value: -1: give how many servers of this network may boot at once, or 0 for any number"},
		"a part of a boot":          {network("maxBoots: 1.5"), "maxBoots"},
		"a URL of another protocol": {network(`url: "ftp://a"`), "networks[0].url"},
		"a URL that is too long":    {network(`url: "http://` + strings.Repeat("a", 80) + `"`), "networks[0].url"},
		"a name twice":              {"networks: [" + good + ", {name: a, mode: off, address: 198.51.100.5}]", "networks[1].name: Duplicate value: \"a\""},
		"off beside others":         {"networks: [" + good + ", {name: b, mode: off, address: 198.51.100.5}]", "networks[1].subnet: Required value: give the network of its servers"},
		"overlapping subnets":       {network("")[:len(network(""))-1] + ", {name: c, mode: \"off\", address: 192.0.2.6, subnet: 192.0.2.128/25}]", "networks[2].subnet"},
		"another's address":         {"networks: [{name: b, mode: proxy, address: 192.0.2.77, interface: eth0}, {name: a, mode: authoritative, address: 192.0.2.5, subnet: 192.0.2.0/24, ranges: [192.0.2.70-192.0.2.80]}]", "networks[1].ranges: Invalid value: \"192.0.2.77\": leave out the address of networks[0]"},
		"nothing tells them apart":  {proxies("address: 192.0.2.5", "address: 192.0.2.5"), "networks[1]: Invalid value: \"b\": it cannot be distinguished from networks[0]"},
		"one interface for two":     {proxies("address: 192.0.2.5, interface: eth0", "address: 192.0.2.6, interface: eth0"), "it cannot be distinguished from networks[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(test.content))
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(test.want)))
		})
	}
}

// TestAllErrors: one reading reports all errors.
func TestAllErrors(t *testing.T) {
	_, err := Parse([]byte("http: {port: 0}\nnetworks: [{name: A, mode: on, address: x}]"))
	g := NewWithT(t)
	for _, field := range []string{"http.port", "networks[0].name", "networks[0].mode", "networks[0].address"} {
		g.Expect(err).To(MatchError(ContainSubstring(field)))
	}
}

func TestToldApart(t *testing.T) {
	for name, content := range map[string]string{
		"interfaces":              "networks: [{name: a, mode: proxy, address: 192.0.2.5, interface: eth0}, {name: b, mode: proxy, address: 192.0.2.5, interface: eth1}]",
		"addresses":               "networks: [{name: a, mode: proxy, address: 192.0.2.5}, {name: b, mode: proxy, address: 192.0.2.6}]",
		"one is behind a relay":   "networks: [{name: a, mode: proxy, address: 192.0.2.5, subnet: 192.0.2.0/24}, {name: b, mode: proxy, address: 192.0.2.5, subnet: 198.51.100.0/24}]",
		"one has DHCP off":        `networks: [{name: a, mode: proxy, address: 192.0.2.5}, {name: b, mode: "off", address: 192.0.2.5, subnet: 198.51.100.0/24}]`,
		"IPv4 and IPv6":           `networks: [{name: a, mode: proxy, address: 192.0.2.5, interface: eth0}, {name: b, mode: authoritative, address: "fe80::1", subnet: "fd00::/64", interface: eth0}]`,
		"off without quotes":      "networks: [{name: a, mode: off, address: 192.0.2.5}]",
		"a router without subnet": "networks: [{name: a, mode: proxy, address: 192.0.2.5, router: 192.0.2.1}]",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(content))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		})
	}
}

// TestNetworkOf: the address of a server determines its network, otherwise the address that received its request.
func TestNetworkOf(t *testing.T) {
	g := NewWithT(t)
	c, err := Parse([]byte(`networks:
- {name: first, mode: proxy, address: 10.0.0.5, interface: eth0}
- {name: local, mode: authoritative, address: 192.0.2.5, subnet: 192.0.2.0/24}
- {name: relayed, mode: authoritative, address: 192.0.2.5, subnet: 198.51.100.0/24}
- {name: others, mode: off, address: 192.0.2.5, subnet: 203.0.113.0/24}
- {name: six, mode: authoritative, address: "2001:db8::5", subnet: "2001:db8::/64"}`))
	g.Expect(err).NotTo(HaveOccurred())
	for _, test := range []struct{ local, from, want string }{
		{"192.0.2.5", "192.0.2.100", "local"}, {"192.0.2.5", "198.51.100.7", "relayed"}, {"192.0.2.5", "203.0.113.9", "others"},
		{"10.0.0.5", "10.0.0.7", "first"}, {"2001:db8::5", "fe80::1", "six"}, {"172.16.0.1", "198.18.0.9", "first"},
	} {
		g.Expect(NetworkOf(c.Networks, addr(test.local), addr(test.from)).Name).To(Equal(test.want), "%v", test)
	}
}

func TestRead(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "boot.yaml")
	_, err := Read(path)
	g.Expect(err).To(MatchError(os.ErrNotExist))
	g.Expect(os.WriteFile(path, []byte("networks: [{}]"), 0o600)).To(Succeed())
	_, err = Read(path)
	g.Expect(err).To(MatchError(HavePrefix(path + ": [networks[0].address: Required value")))
	g.Expect(os.WriteFile(path, nil, 0o600)).To(Succeed())
	c, err := Read(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.CheckNetworks()).To(MatchError(HavePrefix("networks: Required value: give the network that servers boot in")))
}

// TestOutbound: the networks of the cluster and the addresses of boot servers are denied for artifacts, BMCs and API servers. Allowed ones stay allowed.
func TestOutbound(t *testing.T) {
	g := NewWithT(t)
	c, err := Parse([]byte(`artifacts: {maxSize: 1Gi, allowNetworks: [10.96.0.80/32], allowHosts: [images.example.com], denyNetworks: [198.51.100.0/24]}
bmcs: {allowNetworks: [127.0.0.0/8], denyNetworks: [203.0.113.0/24]}
clusters: {allowNetworks: [10.96.0.81/32]}
clusterNetworks: [10.96.0.0/12, "fd00:96::/108"]
networks: [` + good + "]"))
	g.Expect(err).NotTo(HaveOccurred())
	c.Deny(netip.MustParsePrefix("192.0.2.99/32"))
	for address, want := range map[string]struct{ artifacts, bmcs, clusters bool }{
		"10.96.0.1": {}, "fd00:96::1": {}, "10.96.0.80": {artifacts: true}, "10.96.0.81": {clusters: true},
		"198.51.100.1": {bmcs: true, clusters: true}, "203.0.113.1": {artifacts: true, clusters: true},
		"127.0.0.1": {bmcs: true}, "192.0.2.5": {}, "192.0.2.6": {true, true, true}, "192.0.2.99": {},
	} {
		g.Expect(c.Clusters.Check("a", addr(address)) == nil).To(Equal(want.clusters), "API servers at %s", address)
		g.Expect(c.Artifacts.Outbound.Check("a", addr(address)) == nil).To(Equal(want.artifacts), "artifacts at %s", address)
		g.Expect(c.BMCs.Check("a", addr(address)) == nil).To(Equal(want.bmcs), "BMCs at %s", address)
	}
	g.Expect(c.Artifacts.Outbound.Check("images.example.com", addr("10.96.0.1"))).To(Succeed())
	g.Expect(c.BMCs.Check("images.example.com", addr("10.96.0.1"))).NotTo(Succeed())
}

func TestUsable(t *testing.T) {
	g := NewWithT(t)
	n := Network{Subnet: netip.MustParsePrefix("192.0.2.0/26"), Address: addr("192.0.2.5"), Router: addr("192.0.2.1")}
	for _, a := range []string{"192.0.2.0", "192.0.2.63", "192.0.2.5", "192.0.2.1", "192.0.2.64", "2001:db8::1"} {
		g.Expect(n.Usable(addr(a))).To(BeFalse(), a)
	}
	g.Expect(n.Usable(netip.Addr{})).To(BeFalse())
	g.Expect(n.Usable(addr("192.0.2.62"))).To(BeTrue())
}

// TestAgentParameters: what stands between the parameters does not matter.
func TestAgentParameters(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]string{
		`"console=ttyS1,115200n8"`: "console=ttyS1,115200n8", "\" a  b\\n\"": "a b", "none": "", "\"\"": "", strings.Repeat("a", 256): strings.Repeat("a", 256),
	} {
		c, err := Parse([]byte("agent: {dir: /a, commandLine: " + text + "}\nnetworks: [" + good + "]"))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(c.Agent).To(Equal(Agent{Dir: "/a", CommandLine: want}))
	}
}

// FuzzParse: no file makes the manager panic, and a valid file fulfills the requirements of the servers and of the boot loaders.
func FuzzParse(f *testing.F) {
	f.Add([]byte("networks: [" + good + "]"))
	f.Add([]byte("agent: {commandLine: 'a=\"b\"'}\nnetworks: [" + good + "]"))
	f.Add([]byte("agent: {commandLine: 'console=ttyS1,115200n8 a=1;b a#b $ -'}\nnetworks: [" + good + "]"))
	f.Add([]byte(`networks: [{name: a, mode: authoritative, address: "2001:db8::5", subnet: "2001:db8::/64", ranges: ["2001:db8::10-2001:db8::20"]}]`))
	f.Fuzz(func(t *testing.T, content []byte) {
		c, err := Parse(content)
		if err != nil {
			return
		}
		values := ipxe.Values{Kernel: "http://192.0.2.5/kernel", CommandLine: c.Agent.CommandLine}
		_, script := ipxe.Network(values)
		_, network := grub.Network(values)
		_, medium := grub.Medium(grub.MediumValues{Mark: "/mark", Kernel: "/kernel", CommandLine: c.Agent.CommandLine})
		if err := errors.Join(script, network, medium); err != nil {
			t.Fatalf("a boot loader refuses agent.commandLine: %v", err)
		}
		for _, n := range c.Networks {
			for _, rng := range n.Ranges {
				if n.Mode == Authoritative && (!n.Usable(rng.First) || !n.Usable(rng.Last)) {
					t.Fatalf("%s: the range %v holds what nobody may have", n.Name, rng)
				}
			}
		}
	})
}

// TestMedia: the clients of boot media, and the URL for the system on a medium, whose BMC may be in another network.
func TestMedia(t *testing.T) {
	g := NewWithT(t)
	c, err := Parse([]byte(`
media: {allowedClients: [10.1.0.0/24, "2001:db8:1::/64"]}
networks:
- {name: a, mode: "off", address: 192.0.2.5, subnet: 192.0.2.0/24}
- {name: b, mode: "off", address: 198.51.100.5, subnet: 198.51.100.0/24}
`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(c.MediaClients).To(Equal([]netip.Prefix{netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("2001:db8:1::/64")}))
	for _, test := range []struct {
		local      string
		configured []netip.Addr
		want       string
	}{
		{"10.1.0.5", nil, "http://192.0.2.5:8480"},
		{"198.51.100.5", nil, "http://198.51.100.5:8480"},
		{"10.1.0.5", []netip.Addr{addr("203.0.113.9"), addr("198.51.100.9")}, "http://198.51.100.5:8480"},
		{"198.51.100.5", []netip.Addr{addr("192.0.2.9")}, "http://192.0.2.5:8480"},
		{"198.51.100.5", []netip.Addr{addr("203.0.113.9")}, "http://198.51.100.5:8480"},
	} {
		g.Expect(MediumURL(c.Networks, addr(test.local), test.configured)).To(Equal(test.want))
	}
	_, err = Parse([]byte("media: {allowedClients: [10.1.0.1/24, x]}\nnetworks: [{name: a, mode: \"off\", address: 192.0.2.5}]\n"))
	g.Expect(err).To(MatchError(And(ContainSubstring("media.allowedClients[0]"), ContainSubstring("media.allowedClients[1]"))))
}
