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

// Addresses of servers end with these numbers.
const firstLease, lastLease = 1, 250

// leases is the range of addresses of the boot server.
func (r *Rack) leases() string {
	return fmt.Sprintf("%s-%s", r.Address(1, firstLease), r.Address(1, lastLease))
}

// MakeRoom gives boot servers that start later addresses for some 14,000 servers instead of 250.
func (r *Rack) MakeRoom() error {
	return r.writeBootConfig(bootConfig, r.Address(1), fmt.Sprintf("%s-%s", r.Address(200, 1), r.Address(254, 254)))
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
	r.DHCP, r.TFTP, r.beside = 67, 69, &n
	return r.writeBootConfig(bootConfig, r.Address(1), r.leases())
}

// writeBootConfig writes the configuration file of a boot server at an address, with a range of addresses.
func (r *Rack) writeBootConfig(name string, address netip.Addr, leases string) error {
	loaders, agent, beside, clusters := r.Loaders(), r.AgentDir(), "", "127.0.0.0/8"
	if n := r.beside; n != nil {
		loaders, agent, clusters = n.Loaders, n.Agent, clusters+", "+n.Subnet.String() // the control plane is on this machine, at an address of that network
		beside = fmt.Sprintf("- {name: beside, mode: authoritative, address: %s, subnet: %s, ranges: [%s-%s], router: %[1]s}\n", n.Address, n.Subnet, n.First, n.Last)
	}
	content := fmt.Sprintf(`http: {port: %d}
tftp: {port: %d}
dhcp: {port: %d, proxyPort: 0}
loaders: [%q]
artifacts: {dir: %q, allowNetworks: [127.0.0.0/8]}
agent: {dir: %q, commandLine: no_timer_check} # of QEMU without KVM: its kernel panics where it does not run for some milliseconds
images: {dir: %q}
bmcs: {allowNetworks: [127.0.0.0/8]}
clusters: {allowNetworks: [%s]}
networks:
%s- name: rack
  mode: authoritative
  address: %s
  subnet: %s
  ranges: [%s]
`, r.HTTP, r.TFTP, r.DHCP, loaders, filepath.Join(r.Dir, "artifacts"), agent, filepath.Join(r.Dir, "images-of-"+name), clusters,
		beside, address, r.Subnet(), leases)
	return os.WriteFile(filepath.Join(r.Dir, name), []byte(content), 0o600)
}
