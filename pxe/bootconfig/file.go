package bootconfig

import (
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// file is the file as written.
type file struct {
	HTTP            httpSection     `json:"http"`
	TFTP            tftpSection     `json:"tftp"`
	DHCP            dhcpSection     `json:"dhcp"`
	Loaders         []string        `json:"loaders"`
	Artifacts       artifactSection `json:"artifacts"`
	Agent           agentSection    `json:"agent"`
	Images          imageSection    `json:"images"`
	Media           mediaSection    `json:"media"`
	BMCs            outboundSection `json:"bmcs"`
	Clusters        outboundSection `json:"clusters"`
	ClusterNetworks []string        `json:"clusterNetworks"`
	Tenants         []tenantSection `json:"tenants"`
	Networks        []network       `json:"networks"`
}

type httpSection struct {
	Port *uint16     `json:"port"`
	TLS  *tlsSection `json:"tls"`
}

type tlsSection struct {
	Port         *uint16 `json:"port"`
	CertFile     string  `json:"certFile"`
	KeyFile      string  `json:"keyFile"`
	NextCertFile string  `json:"nextCertFile"`
	URL          string  `json:"url"`
}

type tftpSection struct {
	Port *uint16 `json:"port"`
}

type dhcpSection struct {
	Port      *uint16 `json:"port"`
	Port6     *uint16 `json:"port6"`
	ProxyPort *uint16 `json:"proxyPort"`
}

type imageSection struct {
	Dir     string `json:"dir"`
	MaxSize string `json:"maxSize"`
	Socket  string `json:"socket"`

	TokenServices []string `json:"tokenServices"`
}

type mediaSection struct {
	AllowedClients []string `json:"allowedClients"`
}

type artifactSection struct {
	outboundSection `json:",inline"`

	Dir     string `json:"dir"`
	MaxSize string `json:"maxSize"`
}

// outboundSection restricts the addresses of outbound connections.
type outboundSection struct {
	AllowNetworks []string `json:"allowNetworks"`
	AllowHosts    []string `json:"allowHosts"`
	DenyNetworks  []string `json:"denyNetworks"`
}

type network struct {
	Name      string   `json:"name"`
	Mode      string   `json:"mode"`
	Interface string   `json:"interface"`
	Subnet    string   `json:"subnet"`
	Address   string   `json:"address"`
	URL       string   `json:"url"`
	Ranges    []string `json:"ranges"`
	Router    string   `json:"router"`
	DNS       []string `json:"dns"`
	Domain    string   `json:"domain"`
	NTP       []string `json:"ntp"`
	MTU       *int     `json:"mtu"`
	LeaseTime string   `json:"leaseTime"`
	Relays    []string `json:"relays"`
	MaxBoots  int      `json:"maxBoots"`
}

// Bounds that keep a DHCP answer within a packet, and the URL of a boot file within the 128 bytes of the header field.
const (
	maxServers   = 8
	maxURLLength = 80
)

// noneKeyword means an empty value: clusterctl has no variables whose default is empty.
const noneKeyword = "none"

// reader reads values from the file, and collects the errors.
type reader struct{ problems field.ErrorList }

func (r *reader) invalid(path *field.Path, value any, remedy string) {
	r.problems = append(r.problems, field.Invalid(path, value, remedy))
}

func (r *reader) required(path *field.Path, remedy string) {
	r.problems = append(r.problems, field.Required(path, remedy))
}

func port(value *uint16, otherwise uint16) uint16 {
	if value == nil {
		return otherwise
	}
	return *value
}

func (f file) config() (Config, field.ErrorList) {
	r := &reader{}
	c := Config{
		HTTP: HTTP{Port: port(f.HTTP.Port, DefaultHTTPPort)}, TFTPPort: port(f.TFTP.Port, DefaultTFTPPort),
		DHCPPort: port(f.DHCP.Port, DefaultDHCPPort), DHCPPort6: port(f.DHCP.Port6, DefaultDHCPPort6),
		DHCPProxyPort: port(f.DHCP.ProxyPort, DefaultDHCPProxyPort), Loaders: f.Loaders,
	}
	if f.HTTP.TLS != nil {
		c.HTTP.TLS = f.HTTP.TLS.tls(r, c.HTTP.Port)
	}
	r.ports(c)
	if len(c.Loaders) == 0 {
		c.Loaders = []string{DefaultLoaderDir}
	}
	for i, dir := range c.Loaders {
		if !filepath.IsAbs(dir) {
			r.invalid(field.NewPath("loaders").Index(i), dir, "give the folder's absolute path")
		}
	}
	c.Artifacts = r.artifacts(f.Artifacts, field.NewPath("artifacts"))
	c.Agent = r.agent(f.Agent, field.NewPath("agent"))
	c.Images = r.images(f.Images, c.Artifacts.Dir+DefaultImageSuffix, field.NewPath("images"))
	c.MediaClients = r.prefixes(f.Media.AllowedClients, field.NewPath("media", "allowedClients"))
	c.BMCs = r.outbound(f.BMCs, field.NewPath("bmcs"))
	c.Clusters = r.outbound(f.Clusters, field.NewPath("clusters"))
	c.ClusterNetworks = r.prefixes(f.ClusterNetworks, field.NewPath("clusterNetworks"))
	path := field.NewPath("networks")
	for i, n := range f.Networks {
		c.Networks = append(c.Networks, r.network(n, c.HTTP.Port, path.Index(i)))
	}
	if len(r.problems) == 0 {
		r.checkTogether(c.Networks, path)
	}
	c.Tenants = r.tenants(f.Tenants, c.Networks, field.NewPath("tenants"))
	c.Deny(c.ClusterNetworks...)
	for _, n := range c.Networks {
		if n.Address.IsValid() {
			c.Deny(netip.PrefixFrom(n.Address, n.Address.BitLen())) // the file may list networks of other boot servers too
		}
	}
	return c, r.problems
}

func (r *reader) ports(c Config) {
	path := field.NewPath("dhcp")
	if c.HTTP.Port == 0 {
		r.invalid(field.NewPath("http", "port"), 0, "give a port from 1 to 65535: scripts, kernels and bootstrap data go over HTTP")
	}
	if c.DHCPPort == 0 {
		r.invalid(path.Child("port"), 0, "give a port from 1 to 65535")
	}
	if c.DHCPPort6 == 0 {
		r.invalid(path.Child("port6"), 0, "give a port from 1 to 65535")
	}
	if c.DHCPProxyPort == c.DHCPPort || c.DHCPProxyPort == c.DHCPPort6 {
		r.invalid(path.Child("proxyPort"), c.DHCPProxyPort, "give another port than dhcp.port and dhcp.port6, or 0 for none")
	}
}

func (r *reader) artifacts(a artifactSection, path *field.Path) Artifacts {
	return Artifacts{
		Dir: r.absolute(a.Dir, DefaultArtifactDir, path.Child("dir")), MaxBytes: r.size(a.MaxSize, DefaultArtifactSize, path.Child("maxSize")),
		Outbound: r.outbound(a.outboundSection, path),
	}
}

func (r *reader) images(i imageSection, dir string, path *field.Path) Images {
	out := Images{Dir: r.absolute(i.Dir, dir, path.Child("dir")), MaxBytes: r.size(i.MaxSize, DefaultImageSize, path.Child("maxSize")), Socket: i.Socket}
	if i.Socket != "" && !filepath.IsAbs(i.Socket) {
		r.invalid(path.Child("socket"), i.Socket, "give the absolute path of the Unix socket")
	}
	for n, host := range withoutNone(i.TokenServices) {
		if u, err := url.Parse("https://" + host); err != nil || u.Host != host || strings.ToLower(host) != host || u.Hostname() == "" {
			r.invalid(path.Child("tokenServices").Index(n), host, "give a host in lower case, with a port unless it is 443, like gitlab.example.com")
		}
		out.TokenServices = append(out.TokenServices, host)
	}
	return out
}

// absolute returns the path of a folder, or its default.
func (r *reader) absolute(dir, byDefault string, path *field.Path) string {
	if dir == "" {
		return byDefault
	}
	if !filepath.IsAbs(dir) {
		r.invalid(path, dir, "give the folder's absolute path")
	}
	return dir
}

// size returns a size in bytes, or its default.
func (r *reader) size(text string, byDefault int64, path *field.Path) int64 {
	if text == "" {
		return byDefault
	}
	size, err := resource.ParseQuantity(text)
	bytes := size.Value()
	if err != nil || bytes <= 0 {
		r.invalid(path, text, "give a size like 20Gi")
	}
	return bytes
}

var interfaceName = regexp.MustCompile(`^[^/\s]{1,15}$`)

func (r *reader) network(n network, httpPort uint16, path *field.Path) Network {
	for _, text := range []*string{&n.Interface, &n.Subnet, &n.URL, &n.Router, &n.Domain} {
		if *text == noneKeyword {
			*text = ""
		}
	}
	if n.Mode == "false" { // YAML reads the word off as false
		n.Mode = string(Off)
	}
	out := Network{
		Name: n.Name, Mode: Mode(n.Mode), Interface: n.Interface, Subnet: r.prefix(n.Subnet, path.Child("subnet")), Domain: n.Domain, LeaseTime: DefaultLeaseTime,
		MaxBoots: n.MaxBoots,
		Router:   r.address(n.Router, path.Child("router")), DNS: r.addresses(n.DNS, maxServers, path.Child("dns")),
		NTP: r.addresses(n.NTP, maxServers, path.Child("ntp")), Relays: r.addresses(n.Relays, math.MaxInt, path.Child("relays")),
		Ranges: r.ranges(n.Ranges, path.Child("ranges")),
	}
	if len(validation.IsDNS1123Label(n.Name)) > 0 {
		r.invalid(path.Child("name"), n.Name, "give a name of lower-case letters, digits and dashes, like rack-1")
	}
	switch out.Mode {
	case Off, Proxy, Authoritative:
	default:
		r.invalid(path.Child("mode"), n.Mode, "give off, proxy (beside another DHCP server) or authoritative (gives addresses to the hosts of the inventory)")
	}
	if n.Interface != "" && !interfaceName.MatchString(n.Interface) {
		r.invalid(path.Child("interface"), n.Interface, "give the name of a network interface, like eth1")
	}
	if out.Address = r.address(n.Address, path.Child("address")); n.Address == "" {
		r.required(path.Child("address"), "give the address that servers of this network reach the boot server at")
	}
	if n.Domain != "" && len(validation.IsDNS1123Subdomain(n.Domain)) > 0 {
		r.invalid(path.Child("domain"), n.Domain, "give a domain name like example.com")
	}
	out.MTU = r.mtu(n.MTU, path.Child("mtu"))
	if n.LeaseTime != "" {
		var err error
		if out.LeaseTime, err = time.ParseDuration(n.LeaseTime); err != nil || out.LeaseTime < time.Minute || out.LeaseTime > 365*24*time.Hour {
			r.invalid(path.Child("leaseTime"), n.LeaseTime, "give a time from 1m to 8760h")
		}
	}
	if n.MaxBoots < 0 {
		r.invalid(path.Child("maxBoots"), n.MaxBoots, "give how many servers of this network may boot at once, or 0 for any number")
	}
	out.URL = "http://" + netip.AddrPortFrom(out.Address, httpPort).String()
	if n.URL != "" {
		out.URL = r.url(n.URL, path.Child("url"))
	}
	r.checkNetwork(out, path)
	return out
}

func (r *reader) mtu(mtu *int, path *field.Path) uint16 {
	if mtu == nil {
		return 0
	}
	if *mtu < 576 || *mtu > 9216 {
		r.invalid(path, *mtu, "give 576 to 9216")
	}
	return uint16(*mtu) //nolint:gosec // checked above
}

func (r *reader) url(text string, path *field.Path) string {
	parsed, err := url.Parse(text)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil || parsed.RawQuery != "" || parsed.Fragment != "" ||
		len(text) > maxURLLength {
		r.invalid(path, text, "give an HTTP URL of at most 80 characters, like http://192.0.2.5:8480")
	}
	return strings.TrimRight(text, "/")
}

func (r *reader) prefix(text string, path *field.Path) netip.Prefix {
	if text == "" {
		return netip.Prefix{}
	}
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		r.invalid(path, text, "give a network like 192.0.2.0/24")
	case prefix != prefix.Masked():
		r.invalid(path, text, "give the network's own address: "+prefix.Masked().String())
	default:
	}
	return prefix
}

func (r *reader) address(text string, path *field.Path) netip.Addr {
	if text == "" {
		return netip.Addr{}
	}
	address, err := netip.ParseAddr(text)
	if err != nil || address.Zone() != "" || address.Is4In6() || address.IsUnspecified() || address.IsMulticast() {
		r.invalid(path, text, "give the IP address of one machine, like 192.0.2.5")
		return netip.Addr{}
	}
	return address
}

func (r *reader) addresses(texts []string, limit int, path *field.Path) []netip.Addr {
	var out []netip.Addr
	texts = withoutNone(texts)
	for i, text := range texts {
		out = append(out, r.address(text, path.Index(i)))
	}
	if len(texts) > limit {
		r.problems = append(r.problems, field.TooMany(path, len(texts), limit))
	}
	return out
}

func (r *reader) ranges(texts []string, path *field.Path) []pxe.Range {
	var out []pxe.Range
	for i, text := range withoutNone(texts) {
		first, last, found := strings.Cut(text, "-")
		if !found {
			last = first
		}
		from, firstErr := netip.ParseAddr(strings.TrimSpace(first))
		to, lastErr := netip.ParseAddr(strings.TrimSpace(last))
		if firstErr != nil || lastErr != nil || from.BitLen() != to.BitLen() || to.Less(from) {
			r.invalid(path.Index(i), text, "give the first and the last address, like 192.0.2.100-192.0.2.200")
			continue
		}
		out = append(out, pxe.Range{First: from, Last: to})
	}
	return out
}

func withoutNone(texts []string) []string {
	if len(texts) == 1 && texts[0] == noneKeyword {
		return nil
	}
	return texts
}
