package system

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// Parameters are what the kernel command line says to the agent.
type Parameters struct {
	// Server is the URL of the boot server, without a slash at its end.
	Server string
	// Host is "namespace/name".
	Host  string
	Token string
	// Pins are the digests of public keys of agent.ParamPins.
	Pins []string
	// Network is the static network of the host, or nil.
	Network *seed.Network
	// StaticFirst is true if Network is used without waiting for DHCP.
	StaticFirst bool
}

// ParseParameters reads a kernel command line. The last of several parameters with one name counts, as in the kernel.
func ParseParameters(commandLine string) (Parameters, error) {
	found := map[string]string{}
	for word := range strings.FieldsSeq(commandLine) {
		name, value, _ := strings.Cut(word, "=")
		found[name] = value
	}
	p := Parameters{Server: strings.TrimSuffix(found[agent.ParamServer], "/"), Host: found[agent.ParamHost], Token: found[agent.ParamToken]}
	if pins := found[agent.ParamPins]; pins != "" {
		p.Pins = strings.Split(pins, ",")
	}
	if err := p.check(); err != nil {
		return Parameters{}, err
	}
	p.StaticFirst = found[agent.ParamStatic] == agent.StaticFirst
	if text := found[agent.ParamNetwork]; text != "" {
		network, err := parseNetwork(text)
		if err != nil {
			return Parameters{}, fmt.Errorf("the kernel parameter %s: %w", agent.ParamNetwork, err)
		}
		p.Network = network
	}
	return p, nil
}

func (p Parameters) check() error {
	for _, required := range []struct{ name, value string }{{agent.ParamServer, p.Server}, {agent.ParamHost, p.Host}, {agent.ParamToken, p.Token}} {
		if required.value == "" {
			return fmt.Errorf("the kernel command line has no %s: the server was not booted by the boot server's script", required.name)
		}
	}
	server, err := url.Parse(p.Server)
	if err != nil || server.Host == "" || server.Scheme != "http" && server.Scheme != "https" {
		return fmt.Errorf("the kernel parameter %s=%.200q is no URL with http or https", agent.ParamServer, p.Server)
	}
	if server.Scheme == "https" && len(p.Pins) == 0 {
		return fmt.Errorf("the kernel parameter %s has a URL with https, and there is no %s", agent.ParamServer, agent.ParamPins)
	}
	if namespace, name, ok := strings.Cut(p.Host, "/"); !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return fmt.Errorf("the kernel parameter %s=%.200q is not namespace/name", agent.ParamHost, p.Host)
	}
	return nil
}

// parseNetwork decodes and checks the static network.
func parseNetwork(text string) (*seed.Network, error) {
	content, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	network := &seed.Network{}
	if err := json.Unmarshal(content, network); err != nil {
		return nil, err
	}
	return network, checkNetwork(network)
}

// checkNetwork checks names, and references between the parts.
func checkNetwork(network *seed.Network) error {
	names := linkNames{}
	for _, i := range network.Interfaces {
		if err := names.add(i.Name, i.Settings); err != nil {
			return err
		}
	}
	for _, b := range network.Bonds {
		for _, member := range b.Interfaces {
			if !names[member] {
				return fmt.Errorf("the bond %s has the interface %.40q, which is not in the list", b.Name, member)
			}
		}
		if err := names.add(b.Name, b.Settings); err != nil {
			return err
		}
	}
	for _, v := range network.VLANs {
		if !names[v.Link] || v.ID < 1 || v.ID > 4094 {
			return fmt.Errorf("the VLAN %.40q has the ID %d on %.40q, which is not in the list, or the ID is not from 1 to 4094", v.Name, v.ID, v.Link)
		}
		if err := names.add(v.Name, v.Settings); err != nil {
			return err
		}
	}
	return nil
}

// linkNames are the names of links so far.
type linkNames map[string]bool

func (names linkNames) add(name string, s seed.Settings) error {
	if name == "" || len(name) > 15 || strings.ContainsAny(name, "/: \t\n") || names[name] {
		return fmt.Errorf("the name %.40q of an interface is empty, too long, used twice, or has characters that the kernel refuses", name)
	}
	names[name] = true
	return checkSettings(name, s)
}

func checkSettings(name string, s seed.Settings) error {
	for _, a := range s.Addresses {
		if !a.IsValid() {
			return fmt.Errorf("an address of %s is not valid", name)
		}
	}
	for _, r := range s.Routes {
		if !r.To.IsValid() || r.Via != (netip.Addr{}) && r.Via.Is4() != r.To.Addr().Is4() {
			return fmt.Errorf("a route of %s is not valid", name)
		}
	}
	return nil
}
