// Package link brings the network of a server up, and finds the interface through which the boot server answers. It does not know the server's network: it
// tries DHCP on every Ethernet interface at once, and then the static network of the host, or, where there may be no DHCP, that network first. It tries until
// its context ends.
//
// Each interface has its own routes, and each connection is bound to an interface (SO_BINDTODEVICE). So interfaces in the same network, or with default
// routes that contradict one another, do not disturb one another, and the name servers of a network answer only for it.
package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// StaticAfter is how long DHCP is tried alone, unless StaticFirst is set. Then the static network of the host is set up.
const StaticAfter = 30 * time.Second

const (
	// attemptTimeout is the timeout of a connection through one interface.
	attemptTimeout = 5 * time.Second
	// dialDelay is how long to wait before all interfaces are tried again.
	dialDelay = 500 * time.Millisecond
	// reportEvery is how often a connection that does not succeed is logged.
	reportEvery = 10 * time.Second
	// failoverAfter is how long only the last path that worked is tried: another address may cost a boot attempt. A switch port needs up to 30 s (IEEE 802.1D).
	failoverAfter = 40 * time.Second
)

// Manager brings the network up.
type Manager struct {
	// Network is the static network of the host, or nil.
	Network *seed.Network
	// StaticFirst sets Network up as soon as its interfaces appear. At an interface that has addresses in it DHCP then runs only for the families for which Network
	// has DHCP: the routes of a DHCP server would replace those of Network.
	StaticFirst bool
	Log         *slog.Logger
	// Kernel changes the interfaces.
	Kernel Kernel
	// Dial connects through an interface. Defaults to DialThrough.
	Dial func(ctx context.Context, through Path, network, address string) (net.Conn, error)

	mu sync.Mutex
	// known are the interfaces by their index.
	known map[int]*known
	// used is the interface through which the boot server answered last, and local the address of this server in that connection.
	used  string
	local netip.Addr
	// reached is closed when the boot server has answered.
	reached chan struct{}
	// appeared receives a value when there is another Ethernet card. Nil unless StaticFirst.
	appeared chan struct{}
}

// known is an interface that the Manager takes care of.
type known struct {
	Interface
	clients   map[string]client       // its DHCP clients that run, by their source: dhcp4, dhcp6
	resolvers map[string][]netip.Addr // by what named them: dhcp4, dhcp6, static
}

// Interface is a network interface.
type Interface struct {
	Index int
	Name  string
	MAC   string
	// Physical is true for an Ethernet card, and false for a bond or a VLAN.
	Physical bool
	// Master is the index of the bond that it belongs to, 0 for none.
	Master  int
	Carrier bool
}

// Kernel changes interfaces.
type Kernel interface {
	// Interfaces calls changed with every Ethernet interface, and again with each that changes, until ctx ends.
	Interfaces(ctx context.Context, changed func(Interface)) error
	// Up activates an interface.
	Up(i Interface) error
	// Configure gives an interface its addresses and routes of one source. It replaces those that it gave it for that source before.
	Configure(i Interface, source string, c Config) error
	// DHCP4 and DHCP6 keep an address until ctx ends. They call set with each new configuration.
	DHCP4(ctx context.Context, i Interface, up <-chan struct{}, set func(Config))
	DHCP6(ctx context.Context, i Interface, up <-chan struct{}, set func(Config))
	// Static sets the static network up. It may be called again when an interface has appeared: what is there stays. It returns the interfaces with
	// addresses. busy is called before an interface becomes part of a bond.
	Static(n *seed.Network, present []Interface, busy func(Interface)) ([]StaticLink, error)
}

// StaticLink is an interface of a static network.
type StaticLink struct {
	Interface
	Settings seed.Settings
}

// Config is what an interface gets from DHCP, or from a static network.
type Config struct {
	Addresses []netip.Prefix
	Routes    []seed.Route
	Resolvers []netip.Addr
	MTU       int
}

// Run takes care of the network until ctx ends.
func (m *Manager) Run(ctx context.Context) error {
	m.init()
	if m.Network != nil {
		go m.static(ctx)
	}
	err := m.Kernel.Interfaces(ctx, func(i Interface) { m.changed(ctx, i) })
	return fmt.Errorf("follow the network interfaces: %w", err)
}

func (m *Manager) init() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil {
		m.known, m.reached = map[int]*known{}, make(chan struct{})
		if m.StaticFirst {
			m.appeared = make(chan struct{}, 1)
		}
	}
}

// changed starts DHCP at a new Ethernet card, and wakes it up if the card got a carrier.
func (m *Manager) changed(ctx context.Context, i Interface) {
	m.mu.Lock()
	_, found := m.known[i.Index]
	k := m.knownOf(i)
	carrier := i.Carrier && !k.Carrier
	changed := !found || i.Carrier != k.Carrier
	k.Interface = i
	clients := slices.Collect(maps.Values(k.clients))
	m.mu.Unlock()
	if changed {
		m.Log.Info("Network interface", "name", i.Name, "mac", i.MAC, "carrier", i.Carrier)
	}
	if carrier {
		for _, c := range clients {
			select {
			case c.up <- struct{}{}:
			default: // it is awake
			}
		}
	}
	if !found && i.Physical && i.Master == 0 {
		if err := m.Kernel.Up(i); err != nil {
			m.Log.Error("Failed to activate a network interface", "name", i.Name, "error", err)
		}
		m.start(ctx, i, true, true)
		select {
		case m.appeared <- struct{}{}:
		default: // nobody waits for it, or the static network will be set up with this card
		}
	}
}

// static sets the static network up if the boot server did not answer in time, or with StaticFirst when a card has appeared. Until the boot server answers it
// tries again: an interface may be late.
func (m *Manager) static(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.reached:
			return
		case <-m.appeared:
			m.Log.Info("Setting up the static network of the host")
		case <-time.After(StaticAfter):
			m.Log.Info("The boot server does not answer: trying the static network of the host")
		}
		links, err := m.Kernel.Static(m.Network, m.present(), func(i Interface) { m.stop(i, true, true) })
		if err != nil {
			m.Log.Error("Failed to set up the static network", "error", err)
		}
		for _, l := range links {
			if len(l.Settings.Addresses) > 0 {
				if m.StaticFirst { // the other family too, if the network has DHCP for one
					m.stop(l.Interface, !l.Settings.DHCP4, !l.Settings.DHCP6)
				}
				m.noteStatic(l)
			}
			m.start(ctx, l.Interface, l.Settings.DHCP4, l.Settings.DHCP6)
		}
	}
}

func (m *Manager) noteStatic(l StaticLink) {
	m.configure(l.Interface, "static", Config{Addresses: l.Settings.Addresses, Routes: l.Settings.Routes, Resolvers: l.Settings.Nameservers, MTU: l.Settings.MTU})
}

// present returns the interfaces.
func (m *Manager) present() []Interface {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Interface, 0, len(m.known))
	for _, k := range m.known {
		all = append(all, k.Interface)
	}
	slices.SortFunc(all, func(a, b Interface) int { return a.Index - b.Index })
	return all
}

// DialContext connects to the boot server through the first interface through which it answers. Then it keeps to that interface and its address, as long as
// the boot server answers there. It tries until ctx ends: interfaces may be late, and addresses too. So ctx must have an end of its own where DialContext is that
// of an http.Transport, which does not end it with the request.
func (m *Manager) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	m.init()
	var last error
	failover := false
	for start, reported := time.Now(), time.Now(); ; {
		paths := m.paths(true)
		if len(paths) == 0 || failover {
			paths = m.paths(false)
		}
		conn, err := m.race(ctx, paths, network, address)
		if err == nil {
			return conn, nil
		}
		last = err
		failover = time.Since(start) >= failoverAfter || errors.Is(err, syscall.EADDRNOTAVAIL) // the address is not this server's any more
		if time.Since(reported) >= reportEvery {
			reported = time.Now()
			m.Log.Warn("The boot server does not answer", "address", address, "error", err)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("connect to the boot server at %s: %w", address, ctx.Err()), last)
		case <-time.After(dialDelay):
		}
	}
}

// Path is an interface to connect through.
type Path struct {
	Interface
	// Resolvers are its name servers.
	Resolvers []netip.Addr
	// Local is the address to connect from. An invalid one leaves the choice to the kernel.
	Local netip.Addr
}

// paths returns the interfaces that can be connected through: only the one that was used last, with its address, or all.
func (m *Manager) paths(onlyUsed bool) []Path {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Path
	for _, k := range m.known {
		if k.Master != 0 || onlyUsed && k.Name != m.used {
			continue
		}
		p := Path{Interface: k.Interface}
		if onlyUsed {
			p.Local = m.local
		}
		for _, source := range []string{"static", "dhcp4", "dhcp6"} {
			p.Resolvers = append(p.Resolvers, k.resolvers[source]...)
		}
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Path) int { return a.Index - b.Index })
	return all
}

// race connects through several interfaces at once. The first connection wins, and the others are closed.
func (m *Manager) race(ctx context.Context, through []Path, network, address string) (net.Conn, error) {
	if len(through) == 0 {
		return nil, errors.New("the server has no network interface: does the ramdisk have its driver?")
	}
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	dial := m.Dial
	if dial == nil {
		dial = DialThrough
	}
	type result struct {
		conn net.Conn
		name string
		err  error
	}
	results := make(chan result, len(through))
	for _, p := range through {
		go func() {
			conn, err := dial(ctx, p, network, address)
			if err != nil {
				err = fmt.Errorf("%s: %w", p.Name, err)
			}
			results <- result{conn, p.Name, err}
		}()
	}
	var failed []error
	for n := range through {
		r := <-results
		if r.err != nil {
			failed = append(failed, r.err)
			continue
		}
		m.reach(r.name, r.conn.LocalAddr())
		go func() { // those that are late
			defer cancel()
			for range len(through) - n - 1 {
				if late := <-results; late.conn != nil {
					_ = late.conn.Close()
				}
			}
		}()
		return r.conn, nil
	}
	cancel()
	return nil, errors.Join(failed...)
}
