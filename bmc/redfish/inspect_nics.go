package redfish

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// nicReader reads the NICs into an inventory.
type nicReader struct {
	service   *service
	system    *system
	ownership *ownership
	inventory *bmc.Inventory
	// notNICs are the MAC addresses and paths of interfaces that are not the server's own.
	notNICs map[string]bool
}

func (n *inspection) readNICs(ctx context.Context) bmc.Fact {
	r := &nicReader{service: n.service, system: n.system, ownership: n.ownership, inventory: &n.inventory}
	return r.read(ctx)
}

// read reads the system's Ethernet interfaces, and the ports of its network adapters that are not among the interfaces.
func (n *nicReader) read(ctx context.Context) bmc.Fact {
	interfaces := n.service.list(ctx, n.system.link("EthernetInterfaces"))
	sortByPath(interfaces.members)
	n.notNICs = n.otherMACs(ctx, interfaces)
	for _, r := range interfaces.members {
		if isAbsent(r) || isHostInterface(r) || strings.EqualFold(r.text("EthernetInterfaceType"), "Virtual") || n.notNICs[r.link("@odata.id")] {
			continue
		}
		n.addNIC(bmc.NIC{Name: r.id(), MACAddress: macOfInterface(r), SpeedMbps: bounded32(r.count("SpeedMbps")), LinkUp: linkOf(r)})
	}
	fact := interfaces.fact(len(n.inventory.NICs))
	if n.service.unavailable(ctx) != nil {
		return fact
	}
	adapters := n.adapters(ctx)
	for _, a := range adapters.members {
		if !isAbsent(a) {
			n.readAdapter(ctx, a)
		}
	}
	switch {
	case fact.State == bmc.FactKnown && fact.Message == "" && (adapters.err != nil || len(adapters.members) < adapters.total):
		fact.Message = adapters.reason() // there may be more interfaces
	case fact.State == bmc.FactKnown:
	case len(n.inventory.NICs) > 0:
		return adapters.fact(len(n.inventory.NICs))
	default:
		return interfaces.and(adapters).fact(0)
	}
	return fact
}

func sortByPath(resources []resource) {
	slices.SortStableFunc(resources, func(a, b resource) int { return cmp.Compare(a.link("@odata.id"), b.link("@odata.id")) })
}

// macOfInterface returns the current MAC address of an interface, which may differ from its permanent one.
func macOfInterface(r resource) string {
	return cmp.Or(macOf(r.text("MACAddress")), macOf(r.text("PermanentMACAddress")))
}

// addNIC adds an interface, unless its MAC address is empty, known, or not the server's.
func (n *nicReader) addNIC(nic bmc.NIC) {
	if !n.knowsMAC(nic.MACAddress) {
		n.inventory.NICs = append(n.inventory.NICs, nic)
	}
}

// knowsMAC is true for a MAC address that addNIC ignores.
func (n *nicReader) knowsMAC(mac string) bool {
	return mac == "" || n.notNICs[mac] || slices.ContainsFunc(n.inventory.NICs, func(nic bmc.NIC) bool { return nic.MACAddress == mac })
}

// hostInterfaceName matches the names of the interface between the operating system and the BMC.
var hostInterfaceName = regexp.MustCompile(`(?i)^(to[-_ ]?(manager|bmc)|usb[-_ ]?\d*|.*\b(over usb|usb (nic|ethernet|lan)|rndis)\b.*)$`)

func isHostInterface(r resource) bool {
	return r.has("Links", "HostInterface") || hostInterfaceName.MatchString(r.id()) || hostInterfaceName.MatchString(r.text("Name"))
}

// otherMACs returns the paths and MAC addresses of interfaces that are not NICs of the server: the BMC's own interfaces, and the host
// interfaces to the BMC (DSP0270). If a BMC lists all of the server's interfaces there, the list is ignored.
func (n *nicReader) otherMACs(ctx context.Context, interfaces listing) map[string]bool {
	others := map[string]bool{}
	take := func(members []resource) {
		for _, r := range members {
			others[r.link("@odata.id")] = true
			for _, mac := range []string{macOf(r.text("MACAddress")), macOf(r.text("PermanentMACAddress"))} {
				others[mac] = mac != ""
			}
		}
	}
	manager := n.system.readManager(ctx)
	take(n.service.list(ctx, manager.link("EthernetInterfaces")).members)
	for _, host := range n.service.list(ctx, manager.link("HostInterfaces")).members {
		if path := host.link("HostEthernetInterfaces"); path != interfaces.source {
			take(n.service.list(ctx, path).members)
		}
	}
	return others
}

// adapters reads the network adapters of the system's chassis. If the chassis list no adapters, it reads those of the system's network interfaces.
func (n *nicReader) adapters(ctx context.Context) listing {
	adapters := listing{}
	for _, box := range n.ownership.readOwnChassis(ctx) {
		adapters = adapters.and(n.service.list(ctx, box.link("NetworkAdapters")))
	}
	if len(adapters.members) > 0 {
		return adapters
	}
	interfaces := n.service.list(ctx, n.system.link("NetworkInterfaces"))
	var paths []string
	for _, r := range interfaces.members {
		paths = append(paths, r.link("Links", "NetworkAdapter"))
	}
	paths = unique(slices.DeleteFunc(paths, func(path string) bool { return path == "" }))
	return adapters.and(listing{source: interfaces.source, err: interfaces.err, members: n.service.readAll(ctx, paths), total: len(paths), inconclusive: interfaces.total > 0})
}

// readAdapter adds the ports of an adapter that are not Ethernet interfaces of the system. A function has a MAC address and a name. A port
// has the speed and the state of the link, and on some BMCs the only MAC address.
func (n *nicReader) readAdapter(ctx context.Context, adapter resource) {
	if n.listsFunctions(adapter) {
		return
	}
	functions := n.service.list(ctx, adapter.link("NetworkDeviceFunctions")).members
	sortByPath(functions)
	defer n.setNetworkBoot(functions)
	known, unknown, others := 0, []resource{}, []resource{}
	isOff := offFunctions(functions)
	for _, f := range functions {
		switch mac := macOfFunction(f); {
		case isAbsent(f), mac == "", isHostInterface(f):
		case n.knowsMAC(mac):
			known++
		case isOff(f), isFibreChannel(f):
			others = append(others, f)
		default:
			unknown = append(unknown, f)
		}
	}
	for _, f := range others { // a port may list its address too, and one of the NICs may have the same
		isNIC := func(nic resource) bool { return macOfFunction(nic) == macOfFunction(f) }
		n.notNICs[macOfFunction(f)] = n.notNICs[macOfFunction(f)] || !slices.ContainsFunc(unknown, isNIC)
	}
	if known > 0 && len(unknown) == 0 || n.service.unavailable(ctx) != nil {
		return
	}
	ports := n.portsOf(ctx, adapter)
	for _, f := range unknown {
		mac := macOfFunction(f)
		var port resource
		if i := slices.IndexFunc(ports, func(p resource) bool { return slices.Contains(macsOfPort(p), mac) }); i >= 0 {
			port = ports[i]
		} else {
			path := cmp.Or(f.link("Links", "PhysicalPortAssignment"), f.link("PhysicalPortAssignment"), f.link("Links", "PhysicalNetworkPortAssignment"))
			port = n.service.readOptional(ctx, path)
		}
		n.addNIC(bmc.NIC{Name: f.id(), MACAddress: mac, SpeedMbps: speedOfPort(port), LinkUp: linkOf(port)})
	}
	for _, p := range ports {
		for _, mac := range macsOfPort(p) {
			n.addNIC(bmc.NIC{Name: p.id(), MACAddress: mac, SpeedMbps: speedOfPort(p), LinkUp: linkOf(p)})
		}
	}
}

// setNetworkBoot records from which interfaces the firmware boots (DSP0268, NetworkDeviceFunction.BootMode).
func (n *nicReader) setNetworkBoot(functions []resource) {
	for _, f := range functions {
		at := slices.IndexFunc(n.inventory.NICs, func(nic bmc.NIC) bool { return nic.MACAddress == macOfFunction(f) })
		if at < 0 {
			continue
		}
		switch nic := &n.inventory.NICs[at]; f.text("BootMode") {
		case "PXE", "HTTP":
			nic.NetworkBoot = new(true)
		case "Disabled":
			nic.NetworkBoot = new(nic.NetworkBoot != nil && *nic.NetworkBoot) // another partition may boot
		}
	}
}

// listsFunctions is true if each function of the adapter has the name of a known interface, as on Dell servers. Plain numbers do not
// count as names.
func (n *nicReader) listsFunctions(adapter resource) bool {
	var functions []string
	for _, c := range adapter.list("Controllers") {
		functions = append(functions, c.links("Links", "NetworkDeviceFunctions")...)
	}
	return len(functions) > 0 && !slices.ContainsFunc(functions, func(path string) bool {
		name := path[strings.LastIndex(path, "/")+1:]
		return strings.Trim(name, "0123456789") == "" || !slices.ContainsFunc(n.inventory.NICs, func(nic bmc.NIC) bool { return nic.Name == name })
	})
}

// offFunctions returns which functions of an adapter are switched off, as the partitions of a card that is not partitioned. Dell gives the type Disabled to the only function of
// a card that works, and a port without a link has the state Disabled in AMI's firmware.
func offFunctions(functions []resource) func(resource) bool {
	isOfType := func(f resource) bool { return f.text("NetDevFuncType") == "Disabled" }
	hasOthers := slices.ContainsFunc(functions, func(f resource) bool { return f.text("DeviceEnabled") != "false" && !isOfType(f) })
	return func(f resource) bool { return f.text("DeviceEnabled") == "false" || hasOthers && isOfType(f) }
}

// fibreChannelName matches the names of Cisco's virtual host bus adapters, whose functions have no type.
var fibreChannelName = regexp.MustCompile(`^fc\d+$`)

// isFibreChannel is true for a function that is a host bus adapter: its MAC address is that of FCoE.
func isFibreChannel(f resource) bool {
	return strings.HasPrefix(f.text("NetDevFuncType"), "FibreChannel") || !f.has("NetDevFuncType") && fibreChannelName.MatchString(f.id())
}

func macOfFunction(f resource) string {
	return cmp.Or(macOf(f.text("Ethernet", "MACAddress")), macOf(f.text("Ethernet", "PermanentMACAddress")))
}

// portsOf reads the ports of an adapter: Ports, or NetworkPorts before Redfish 2020.3, and those that its controllers link to.
func (n *nicReader) portsOf(ctx context.Context, adapter resource) []resource {
	ports := n.service.list(ctx, adapter.link("Ports")).members
	if len(ports) == 0 {
		ports = n.service.list(ctx, adapter.link("NetworkPorts")).members
	}
	var linked []string
	for _, c := range adapter.list("Controllers") {
		linked = append(linked, append(c.links("Links", "Ports"), c.links("Links", "NetworkPorts")...)...)
	}
	isRead := func(path string) bool {
		return slices.ContainsFunc(ports, func(p resource) bool { return p.link("@odata.id") == path })
	}
	ports = append(ports, n.service.readAll(ctx, slices.DeleteFunc(unique(linked), isRead))...)
	sortByPath(ports)
	return ports
}

// macsOfPort returns the MAC addresses of a port, whose list may contain other network addresses.
func macsOfPort(port resource) []string {
	var macs []string
	for _, text := range append(port.texts("Ethernet", "AssociatedMACAddresses"), port.texts("AssociatedNetworkAddresses")...) {
		if mac := macOf(text); mac != "" {
			macs = append(macs, mac)
		}
	}
	return unique(macs)
}

func speedOfPort(port resource) int {
	speed := port.count("CurrentLinkSpeedMbps")
	if gbps, ok := port.number("CurrentSpeedGbps"); ok && speed == 0 && gbps > 0 && gbps < 1e6 {
		speed = int64(gbps * 1000)
	}
	return bounded32(speed)
}

// linkOf returns whether a link is up (DSP0268, EthernetInterface.LinkStatus, NetworkPort.LinkStatus, Port.LinkStatus).
func linkOf(r resource) *bool {
	switch strings.ToLower(r.text("LinkStatus")) {
	case "linkup", "up":
		return new(true)
	case "linkdown", "down", "nolink":
		return new(false)
	default:
		return nil
	}
}

// macOf returns a MAC address in lower case with colons: BMCs also write it with dashes, with dots, and without separators. It returns ""
// for an invalid one.
func macOf(text string) string {
	digits := strings.ToLower(strings.NewReplacer(":", "", "-", "", ".", "").Replace(text))
	if len(digits) != 12 || strings.Trim(digits, "0123456789abcdef") != "" || digits == "000000000000" || digits == "ffffffffffff" {
		return ""
	}
	parts := make([]string, 6)
	for i := range parts {
		parts[i] = digits[2*i : 2*i+2]
	}
	return strings.Join(parts, ":")
}
