package rack

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
)

// ManagerArgs are the flags of a manager whose boot server serves the rack.
func (r *Rack) ManagerArgs() []string {
	return []string{
		"--boot-config=" + filepath.Join(r.Dir, bootConfig), "--boot-timeout=5m", "--power-active-interval=1s", "--power-poll-interval=5s",
	}
}

// OtherManagerArgs are the flags of a second manager, whose boot server is in the network too, and serves no server.
func (r *Rack) OtherManagerArgs() []string {
	args := slices.Clone(r.ManagerArgs())
	args[0] = "--boot-config=" + filepath.Join(r.Dir, otherBootConfig)
	return args
}

// The configuration files of the two boot servers.
const bootConfig, otherBootConfig = "boot.yaml", "other-boot.yaml"

// leases is the range of addresses of the boot server.
func (r *Rack) leases() string {
	return fmt.Sprintf("%s-%s", r.address(1, firstLease), r.address(1, lastLease))
}

// MakeRoom gives boot servers that start later addresses for some 14,000 servers instead of 250. The balancer of the rack does not know these addresses.
func (r *Rack) MakeRoom() error {
	return r.writeBootConfig(bootConfig, r.address(0, 1), fmt.Sprintf("%s-%s", r.address(200, 1), r.address(254, 254)))
}

// DHCP returns the address at which the boot server answers DHCP, and the address of the relay of the servers.
func (r *Rack) DHCP() (server netip.AddrPort, relay netip.Addr) {
	return netip.AddrPortFrom(r.address(0, 1), r.ports["dhcp"]), r.address(0, 2)
}

// Network is a network of real firmware, which a boot server serves beside the rack.
type Network struct {
	// Address is that of the boot server in the network. It is also the router of the servers.
	Address netip.Addr
	Subnet  netip.Prefix
	// First and Last are the range of addresses of the servers.
	First, Last netip.Addr
	// Loaders is the folder of the boot loaders, and Agent that of the kernels and ramdisks of the agent. Emulated servers of the rack can then boot only over
	// the network: they do not know this agent.
	Loaders, Agent string
}

// ServeAlso makes boot servers that start later serve another network too, at the ports that firmware uses.
func (r *Rack) ServeAlso(n Network) error {
	r.ports["dhcp"], r.ports["tftp"], r.beside = 67, 69, &n
	return r.writeBootConfig(bootConfig, r.address(0, 1), r.leases())
}

// writeBootConfig writes the configuration file of a boot server at an address, with a range of addresses.
func (r *Rack) writeBootConfig(name string, address netip.Addr, leases string) error {
	loaders, agent, beside := filepath.Join(r.Dir, "loaders"), r.agentDir(), ""
	if n := r.beside; n != nil {
		loaders, agent = n.Loaders, n.Agent
		beside = fmt.Sprintf("- {name: beside, mode: authoritative, address: %s, subnet: %s, ranges: [%s-%s], router: %[1]s}\n", n.Address, n.Subnet, n.First, n.Last)
	}
	content := fmt.Sprintf(`http: {port: %d}
tftp: {port: %d}
dhcp: {port: %d, proxyPort: 0}
loaders: [%q]
artifacts: {dir: %q, allowNetworks: [127.0.0.0/8]}
agent: {dir: %q}
images: {dir: %q}
bmcs: {allowNetworks: [127.0.0.0/8]}
networks:
%s- name: rack
  mode: authoritative
  address: %s
  subnet: %s/16
  ranges: [%s]
`, r.ports["http"], r.ports["tftp"], r.ports["dhcp"], loaders, filepath.Join(r.Dir, "artifacts"), agent, filepath.Join(r.Dir, "images-of-"+name),
		beside, address, r.address(0, 0), leases)
	return os.WriteFile(filepath.Join(r.Dir, name), []byte(content), 0o600)
}
