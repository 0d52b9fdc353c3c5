package link

import (
	"context"
	"net/netip"
)

// client is a DHCP client that runs.
type client struct {
	cancel context.CancelFunc
	// up receives a value when the interface gets a carrier.
	up chan struct{}
}

// knownOf returns what is known of an interface. The caller holds m.mu.
func (m *Manager) knownOf(i Interface) *known {
	k := m.known[i.Index]
	if k == nil {
		k = &known{Interface: i, clients: map[string]client{}, resolvers: map[string][]netip.Addr{}}
		m.known[i.Index] = k
	}
	return k
}

// start runs DHCP clients of an interface, if they do not run.
func (m *Manager) start(ctx context.Context, i Interface, v4, v6 bool) {
	if v4 {
		m.run(ctx, i, "dhcp4", m.Kernel.DHCP4)
	}
	if v6 {
		m.run(ctx, i, "dhcp6", m.Kernel.DHCP6)
	}
}

// run runs a DHCP client in the background, if it does not run.
func (m *Manager) run(ctx context.Context, i Interface, source string, dhcp func(context.Context, Interface, <-chan struct{}, func(Config))) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.knownOf(i)
	if _, runs := k.clients[source]; runs {
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	c := client{cancel, make(chan struct{}, 1)}
	k.clients[source] = c
	go func() {
		defer func() {
			if p := recover(); p != nil { // it reads what any client of the network sends
				m.Log.Error("A DHCP client panicked: this is a bug", "name", i.Name, "source", source, "panic", p)
			}
		}()
		dhcp(ctx, i, c.up, func(c Config) {
			if ctx.Err() == nil {
				m.configure(i, source, c)
			}
		})
	}()
}

func (m *Manager) configure(i Interface, source string, c Config) {
	if err := m.Kernel.Configure(i, source, c); err != nil {
		m.Log.Error("Failed to configure a network interface", "name", i.Name, "source", source, "error", err)
	}
	m.mu.Lock()
	m.knownOf(i).resolvers[source] = c.Resolvers
	m.mu.Unlock()
	m.Log.Info("Addresses of a network interface", "name", i.Name, "source", source, "addresses", join(c.Addresses))
}

// stop ends DHCP clients of an interface and takes their addresses and name servers.
func (m *Manager) stop(i Interface, v4, v6 bool) {
	for source, stops := range map[string]bool{"dhcp4": v4, "dhcp6": v6} {
		if !stops {
			continue
		}
		m.mu.Lock()
		if k := m.known[i.Index]; k != nil {
			if c, runs := k.clients[source]; runs {
				c.cancel()
			}
			delete(k.clients, source)
			delete(k.resolvers, source)
		}
		m.mu.Unlock()
		_ = m.Kernel.Configure(i, source, Config{}) // it may have had no configuration
	}
}
