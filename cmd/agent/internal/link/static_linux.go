package link

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// defaultMonitor is the interval of link monitoring, in milliseconds, of a bond whose configuration does not set one. Without it the kernel never notices that a link is down.
const defaultMonitor = 100

// Static implements Kernel. Cards keep the names that the kernel gave them.
func (s *System) Static(n *seed.Network, present []Interface, busy func(Interface)) ([]StaticLink, error) {
	found := map[string]Interface{}
	var failed []error
	for _, i := range n.Interfaces {
		card, ok := cardOf(i, present)
		if !ok {
			failed = append(failed, fmt.Errorf("no network interface has the MAC address %s of %s", i.MAC, i.Name))
			continue
		}
		found[i.Name] = card
	}
	var links []StaticLink
	add := func(name string, settings seed.Settings) {
		if i, ok := found[name]; ok && settings.MTU > 0 {
			failed = append(failed, wrap("set the MTU of "+name, netlink.LinkSetMTU(linkOf(i), settings.MTU)))
		}
		if i, ok := found[name]; ok && (len(settings.Addresses) > 0 || settings.DHCP4 || settings.DHCP6) {
			links = append(links, StaticLink{i, settings})
		}
	}
	for _, i := range n.Interfaces {
		add(i.Name, i.Settings)
	}
	for _, b := range n.Bonds {
		made, err := makeBond(b, found, busy)
		failed = append(failed, err)
		if err == nil {
			found[b.Name] = made
			add(b.Name, b.Settings)
		}
	}
	for _, v := range n.VLANs {
		made, err := makeVLAN(v, found)
		failed = append(failed, err)
		if err == nil {
			found[v.Name] = made
			add(v.Name, v.Settings)
		}
	}
	return links, errors.Join(failed...)
}

// cardOf returns the card of an interface of the static network.
func cardOf(i seed.Interface, present []Interface) (Interface, bool) {
	at := slices.IndexFunc(present, func(p Interface) bool {
		return p.Physical && (i.MAC != "" && strings.EqualFold(p.MAC, i.MAC) || i.MAC == "" && p.Name == i.Name)
	})
	if at < 0 {
		return Interface{}, false
	}
	return present[at], true
}

// bondOf returns a bond for the kernel. Members are added later, and the primary with them.
func bondOf(b seed.Bond) (*netlink.Bond, error) {
	bond := netlink.NewLinkBond(netlink.LinkAttrs{Name: b.Name})
	bond.Mode = netlink.StringToBondMode(b.Mode)
	if bond.Mode == netlink.BOND_MODE_UNKNOWN {
		return nil, fmt.Errorf("the bond %s has the mode %.40q, which the kernel does not know", b.Name, b.Mode)
	}
	bond.Miimon = int(b.Monitor.Milliseconds())
	if bond.Miimon == 0 {
		bond.Miimon = defaultMonitor
	}
	if b.LACPRate != "" {
		bond.LacpRate = netlink.StringToBondLacpRate(b.LACPRate)
		if bond.LacpRate == netlink.BOND_LACP_RATE_UNKNOWN {
			return nil, fmt.Errorf("the bond %s has the LACP rate %.40q, which the kernel does not know", b.Name, b.LACPRate)
		}
	}
	if b.HashPolicy != "" {
		bond.XmitHashPolicy = netlink.StringToBondXmitHashPolicy(b.HashPolicy)
		if bond.XmitHashPolicy == netlink.BOND_XMIT_HASH_POLICY_UNKNOWN {
			return nil, fmt.Errorf("the bond %s has the hash policy %.40q, which the kernel does not know", b.Name, b.HashPolicy)
		}
	}
	return bond, nil
}

// makeBond makes a bond, and adds those of its members that are present.
func makeBond(b seed.Bond, found map[string]Interface, busy func(Interface)) (Interface, error) {
	bond, err := bondOf(b)
	if err != nil {
		return Interface{}, err
	}
	made, err := makeLink(b.Name, bond)
	if err != nil {
		return Interface{}, fmt.Errorf("make the bond %s: %w", b.Name, err)
	}
	bond.Index = made.Index
	primary := found[b.Primary].Name
	for _, name := range b.Interfaces {
		card, ok := found[name]
		if !ok || card.Master == made.Index {
			continue
		}
		busy(card)
		// The kernel adds only interfaces that are down (Documentation/networking/bonding.rst).
		if err := errors.Join(netlink.LinkSetDown(linkOf(card)), netlink.LinkSetMaster(linkOf(card), bond), netlink.LinkSetUp(linkOf(card))); err != nil {
			return Interface{}, fmt.Errorf("add %s to the bond %s: %w", card.Name, b.Name, err)
		}
		delete(found, name)
	}
	if primary != "" {
		// The library sets options of a bond only when it makes it, and then it has no members.
		if err := os.WriteFile(filepath.Join("/sys/class/net", b.Name, "bonding/primary"), []byte(primary), 0); err != nil {
			return Interface{}, fmt.Errorf("set the primary of the bond %s: %w", b.Name, err)
		}
	}
	if err := netlink.LinkSetUp(bond); err != nil {
		return Interface{}, fmt.Errorf("activate the bond %s: %w", b.Name, err)
	}
	return current(b.Name)
}

// makeVLAN makes a VLAN.
func makeVLAN(v seed.VLAN, found map[string]Interface) (Interface, error) {
	parent, ok := found[v.Link]
	if !ok {
		return Interface{}, fmt.Errorf("the VLAN %s is on %s, which is not present", v.Name, v.Link)
	}
	made, err := makeLink(v.Name, &netlink.Vlan{LinkAttrs: netlink.LinkAttrs{Name: v.Name, ParentIndex: parent.Index}, VlanId: v.ID})
	if err != nil {
		return Interface{}, fmt.Errorf("make the VLAN %s: %w", v.Name, err)
	}
	if err := errors.Join(netlink.LinkSetUp(linkOf(parent)), netlink.LinkSetUp(linkOf(made))); err != nil {
		return Interface{}, fmt.Errorf("activate the VLAN %s: %w", v.Name, err)
	}
	return current(v.Name)
}

// makeLink makes an interface, if it is not there.
func makeLink(name string, l netlink.Link) (Interface, error) {
	if err := netlink.LinkAdd(l); err != nil && !errors.Is(err, unix.EEXIST) {
		return Interface{}, err
	}
	return current(name)
}

// current returns an interface as the kernel has it.
func current(name string) (Interface, error) {
	l, err := netlink.LinkByName(name)
	if err != nil {
		return Interface{}, err
	}
	i, ok := interfaceOf(l)
	if !ok {
		return Interface{}, fmt.Errorf("%s is no Ethernet interface", name)
	}
	return i, nil
}
