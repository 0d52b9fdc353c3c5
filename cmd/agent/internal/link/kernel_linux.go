package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// System is the Kernel of this machine.
type System struct {
	Log *slog.Logger

	mu sync.Mutex
	// given is what Configure gave to interfaces.
	given map[owner]Config
}

// owner is an interface and the source of its configuration.
type owner struct {
	index  int
	source string
}

// Interfaces implements Kernel.
func (s *System) Interfaces(ctx context.Context, changed func(Interface)) error {
	updates := make(chan netlink.LinkUpdate, 64)
	// ListExisting reports those that are there, after the subscription: none is missed in between.
	err := netlink.LinkSubscribeWithOptions(updates, ctx.Done(), netlink.LinkSubscribeOptions{ListExisting: true})
	if err != nil {
		return fmt.Errorf("subscribe to changes of links: %w", err)
	}
	for update := range updates {
		if i, ok := interfaceOf(update.Link); ok && update.Header.Type == unix.RTM_NEWLINK {
			changed(i)
		}
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errors.New("the kernel ended the subscription to changes of links")
}

// interfaceOf returns an Ethernet interface: a card, a bond or a VLAN.
func interfaceOf(l netlink.Link) (Interface, bool) {
	a := l.Attrs()
	kind := l.Type()
	if a.EncapType != "ether" || a.Flags&net.FlagLoopback != 0 || kind != "device" && kind != "bond" && kind != "vlan" {
		return Interface{}, false
	}
	return Interface{
		Index: a.Index, Name: a.Name, MAC: a.HardwareAddr.String(), Physical: kind == "device", Master: a.MasterIndex,
		Carrier: a.RawFlags&unix.IFF_LOWER_UP != 0,
	}, true
}

// Up implements Kernel.
func (s *System) Up(i Interface) error {
	// An interface answers ARP only for its own addresses: two cards may be in one network (Documentation/networking/ip-sysctl.rst).
	folder := filepath.Join("/proc/sys/net/ipv4/conf", i.Name)
	err := errors.Join(
		os.WriteFile(filepath.Join(folder, "arp_ignore"), []byte("1"), 0),
		os.WriteFile(filepath.Join(folder, "arp_announce"), []byte("2"), 0),
	)
	return errors.Join(err, netlink.LinkSetUp(linkOf(i)))
}

func linkOf(i Interface) netlink.Link {
	return &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: i.Index, Name: i.Name}}
}

// Configure implements Kernel.
func (s *System) Configure(i Interface, source string, c Config) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given == nil {
		s.given = map[owner]Config{}
	}
	key := owner{i.Index, source}
	before := s.given[key]
	s.given[key] = c
	var failed []error
	if c.MTU > 0 && c.MTU != before.MTU {
		failed = append(failed, wrap("set the MTU", netlink.LinkSetMTU(linkOf(i), c.MTU)))
	}
	for _, a := range c.Addresses {
		address := addressOf(a)
		failed = append(failed, wrap("add the address "+a.String(), netlink.AddrReplace(linkOf(i), address)))
	}
	for _, a := range before.Addresses {
		if !slices.Contains(c.Addresses, a) {
			failed = append(failed, wrap("remove the address "+a.String(), ignore(netlink.AddrDel(linkOf(i), addressOf(a)), unix.EADDRNOTAVAIL)))
		}
	}
	for _, r := range c.Routes {
		failed = append(failed, wrap("add the route to "+r.To.String(), netlink.RouteReplace(routeOf(i, r))))
	}
	for _, r := range before.Routes {
		if !slices.Contains(c.Routes, r) {
			failed = append(failed, wrap("remove the route to "+r.To.String(), ignore(netlink.RouteDel(routeOf(i, r)), unix.ESRCH)))
		}
	}
	return errors.Join(failed...)
}

func wrap(what string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

func ignore(err, ignored error) error {
	if errors.Is(err, ignored) {
		return nil
	}
	return err
}

// addressOf is an address for the kernel. An IPv6 address is usable at once: its server has checked it, or the user has.
func addressOf(a netip.Prefix) *netlink.Addr {
	address := &netlink.Addr{IPNet: &net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}}
	if a.Addr().Is6() {
		address.Flags = unix.IFA_F_NODAD
	}
	return address
}

// baseMetric keeps routes of several interfaces apart: the kernel wants another metric for each.
const baseMetric = 1000

// routeOf is a route for the kernel. A gateway that is in no network of the interface is assumed to be on the link, as clouds and RFC 3442 have them.
func routeOf(i Interface, r seed.Route) *netlink.Route {
	route := &netlink.Route{
		LinkIndex: i.Index, Priority: baseMetric + i.Index,
		Dst: &net.IPNet{IP: r.To.Addr().AsSlice(), Mask: net.CIDRMask(r.To.Bits(), r.To.Addr().BitLen())},
	}
	if r.Metric > 0 {
		route.Priority = r.Metric*baseMetric + i.Index
	}
	if r.Via.IsValid() {
		route.Gw = r.Via.AsSlice()
		route.Flags = int(netlink.FLAG_ONLINK)
	} else {
		route.Scope = netlink.SCOPE_LINK
	}
	return route
}
