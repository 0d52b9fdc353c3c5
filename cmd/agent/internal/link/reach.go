package link

import (
	"net"
	"net/netip"
	"strings"
)

// reach records the path through which the boot server answered.
func (m *Manager) reach(name string, local net.Addr) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := netip.Addr{}
	if tcp, ok := local.(*net.TCPAddr); ok {
		from = tcp.AddrPort().Addr().Unmap()
	}
	if m.used != name || m.local != from {
		m.Log.Info("The boot server answers", "interface", name, "address", from.String())
	}
	m.used, m.local = name, from
	select {
	case <-m.reached:
	default:
		close(m.reached)
	}
}

func join(addresses []netip.Prefix) string {
	all := make([]string, len(addresses))
	for i, a := range addresses {
		all[i] = a.String()
	}
	return strings.Join(all, " ")
}
