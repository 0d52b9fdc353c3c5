package pxe

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

const (
	// declineWindow is how long a client may decline an address after it was acknowledged. A client checks an address before its first use (RFC 2131,
	// section 4.4.1: ARP; RFC 8415, section 18.2.10.1: duplicate address detection), which takes a few seconds.
	declineWindow = time.Minute
	// maxAcknowledged bounds the servers in memory. No more boot within a minute.
	maxAcknowledged = 8192
)

// Acknowledged remembers which address a server was given within the last minute, renewals excepted. Only such an address can be declined. Otherwise a packet
// with the MAC address of a running server would take its address away. The zero value is ready.
type Acknowledged struct {
	// Clock defaults to the real clock.
	Clock clock.PassiveClock

	once           sync.Once
	acknowledgedAt *lru.Cache // from an acknowledgedKey to a time.Time
}

type acknowledgedKey struct {
	mac     string
	address netip.Addr
}

func (a *Acknowledged) init() {
	a.once.Do(func() {
		a.acknowledgedAt = lru.New(maxAcknowledged)
		if a.Clock == nil {
			a.Clock = clock.RealClock{}
		}
	})
}

// Note records that a server was given an address.
func (a *Acknowledged) Note(mac net.HardwareAddr, address netip.Addr) {
	a.init()
	a.acknowledgedAt.Add(acknowledgedKey{mac.String(), address}, a.Clock.Now())
}

// MayDecline is true once for an address that a server was given within the last minute.
func (a *Acknowledged) MayDecline(mac net.HardwareAddr, address netip.Addr) bool {
	a.init()
	key := acknowledgedKey{mac.String(), address}
	at, found := a.acknowledgedAt.Get(key)
	a.acknowledgedAt.Remove(key)
	given, ok := at.(time.Time)
	return found && ok && a.Clock.Since(given) < declineWindow
}
