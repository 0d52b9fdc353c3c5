package link

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// DialThrough connects through an interface. A host name is resolved by the name servers of that interface, to addresses of the family of through.Local.
func DialThrough(ctx context.Context, through Path, network, address string) (net.Conn, error) {
	if err := hasAddress(through.Interface); err != nil {
		return nil, err
	}
	alive := net.KeepAliveConfig{Enable: true, Idle: keepAlive, Interval: keepAlive, Count: 2}
	dialer := &net.Dialer{KeepAliveConfig: alive, Control: func(network, _ string, c syscall.RawConn) error {
		var failed error
		err := c.Control(func(socket uintptr) {
			failed = unix.BindToDevice(int(socket), through.Name)
			if strings.HasPrefix(network, "tcp") {
				// Data that is not acknowledged ends the connection as well (tcp(7)).
				timeout := 3 * keepAlive
				failed = errors.Join(failed, unix.SetsockoptInt(int(socket), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds())))
			}
		})
		return errors.Join(err, failed)
	}}
	plain, resolvers, next := *dialer, through.Resolvers, 0
	if through.Local.IsValid() {
		dialer.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(through.Local, 0))
	}
	dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if len(resolvers) > 0 {
			// /etc/resolv.conf is empty, and Go would ask this machine.
			address = net.JoinHostPort(resolvers[next%len(resolvers)].String(), strconv.Itoa(dnsPort))
			next++
		}
		return plain.DialContext(ctx, network, address)
	}}
	conn, err := dialer.DialContext(ctx, network, address)
	if err == nil && fromLinkLocal(conn) {
		_ = conn.Close() // nothing was sent
		return nil, errNoAddress
	}
	return conn, err
}

// fromLinkLocal is true for a connection from a link-local address to another kind of address. The kernel chooses it while it still checks the interface's global
// addresses (RFC 4862, section 5.4), and boot servers behind a router would not get the packets.
func fromLinkLocal(conn interface {
	LocalAddr() net.Addr
	RemoteAddr() net.Addr
},
) bool {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	remote, alsoOK := conn.RemoteAddr().(*net.TCPAddr)
	return ok && alsoOK && local.IP.IsLinkLocalUnicast() && !remote.IP.IsLinkLocalUnicast()
}

const dnsPort = 53

// keepAlive is how often a silent connection is checked. One whose other end does not answer ends after three times that, so that the agent tries another
// interface: the boot server may hold a request for agent.MaxPoll.
const keepAlive = 5 * time.Second

// hasAddress returns an error for an interface without an address that other machines know. A connection that is bound to such an interface would not fail:
// the kernel sends it from 0.0.0.0 (ip_route_output_key_hash_rcu), and later ones after it got an address as well fail.
func hasAddress(i Interface) error {
	device, err := net.InterfaceByIndex(i.Index)
	if err != nil {
		return err
	}
	addresses, err := device.Addrs()
	if err != nil {
		return err
	}
	for _, a := range addresses {
		if prefix, ok := a.(*net.IPNet); ok && prefix.IP.IsGlobalUnicast() {
			return nil
		}
	}
	return errNoAddress
}

var errNoAddress = errors.New("the interface has no address: neither DHCP nor a router has given one")
