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
	// declineWindow is how long after an address was given its client may decline it. A client checks the address before it uses it for the first time (RFC 2131,
	// section 4.4.1: ARP; RFC 8415, section 18.2.10.1: duplicate address detection), which takes some seconds.
	declineWindow = time.Minute
	// mostAcknowledged bounds the servers that are remembered. More do not boot in a minute.
	mostAcknowledged = 8192
)

// Acknowledged remembers which address a server was given a moment ago, other than by a renewal. Only such an address can be declined: a packet with the MAC
// address of a server that runs would take its address from it otherwise. The zero value is ready.
type Acknowledged struct {
	// Clock tells the time. Defaults to the real one.
	Clock clock.PassiveClock

	once sync.Once
	of   *lru.Cache // from an acknowledgedKey to a time.Time
}

type acknowledgedKey struct {
	mac     string
	address netip.Addr
}

func (a *Acknowledged) init() {
	a.once.Do(func() {
		a.of = lru.New(mostAcknowledged)
		if a.Clock == nil {
			a.Clock = clock.RealClock{}
		}
	})
}

// Note notes that a server was given an address.
func (a *Acknowledged) Note(mac net.HardwareAddr, address netip.Addr) {
	a.init()
	a.of.Add(acknowledgedKey{mac.String(), address}, a.Clock.Now())
}

// MayDecline is true once for an address that a server was given a moment ago.
func (a *Acknowledged) MayDecline(mac net.HardwareAddr, address netip.Addr) bool {
	a.init()
	key := acknowledgedKey{mac.String(), address}
	at, found := a.of.Get(key)
	a.of.Remove(key)
	given, ok := at.(time.Time)
	return found && ok && a.Clock.Since(given) < declineWindow
}
