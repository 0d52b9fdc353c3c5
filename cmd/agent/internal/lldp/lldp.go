// Package lldp learns to which switch ports a server is connected, from the LLDP frames that switches send (IEEE 802.1AB). It only listens.
package lldp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
)

// Interface is a network interface to listen on.
type Interface struct {
	Name string
	// Driver is the kernel's driver, for the drivers whose firmware keeps LLDP frames to itself.
	Driver string
}

// Conn receives LLDP frames of one interface.
type Conn interface {
	// Receive returns the next LLDPDU, without its Ethernet header. It returns an error after Close.
	Receive() ([]byte, error)
	io.Closer
}

// Network is access to network interfaces.
type Network interface {
	// Open starts to receive LLDP frames.
	Open(name string) (Conn, error)
	// ReleaseFrames makes the firmware of an interface give LLDP frames to the kernel. It returns false if the driver has no setting for that.
	ReleaseFrames(name string) (bool, error)
}

// firmwareAgents are the drivers whose firmware has an LLDP agent that is on by default and consumes the frames: Intel's 700 and 800 series (Linux,
// Documentation/networking/device_drivers/ethernet/intel/i40e.rst and ice.rst).
var firmwareAgents = map[string]bool{"i40e": true, "ice": true}

const (
	maxInterfaces = 256
	// maxErrors is the maximum number of errors in a row after which an interface is not listened on any more.
	maxErrors = 16
	// maxFrames is the maximum number of frames that are read on an interface. A switch sends one in 30 s.
	maxFrames = 100_000
)

// wantedInterval is how often Wait asks which neighbours are wanted, if none comes.
const wantedInterval = time.Second

// Listener listens on interfaces. It is safe for concurrent use.
type Listener struct {
	network Network
	done    sync.WaitGroup

	mu         sync.Mutex
	interfaces map[string]Interface
	conns      map[string]Conn
	neighbours map[string]wire.InspectedNeighbor
	problems   map[string]string
	closed     bool
	changed    chan struct{}
}

// Listen starts to listen on interfaces, and returns at once. What fails is in Problems. The caller calls Close.
func Listen(network Network, interfaces []Interface) *Listener {
	l := &Listener{
		network: network, interfaces: map[string]Interface{}, conns: map[string]Conn{}, neighbours: map[string]wire.InspectedNeighbor{}, problems: map[string]string{},
		changed: make(chan struct{}),
	}
	for _, i := range interfaces[:min(len(interfaces), maxInterfaces)] {
		l.add(i)
	}
	return l
}

func (l *Listener) add(i Interface) {
	if _, ok := l.interfaces[i.Name]; ok {
		return
	}
	l.interfaces[i.Name] = i
	// The setting takes effect at once. That of ice outlives a power cycle, and an agent that reads must not change a server: it is left alone.
	if i.Driver == "i40e" {
		if _, err := l.network.ReleaseFrames(i.Name); err != nil {
			l.report(i.Name, fmt.Errorf("the firmware's LLDP agent cannot be switched off: %w", err))
		}
	}
	conn, err := l.network.Open(i.Name)
	if err != nil {
		l.report(i.Name, fmt.Errorf("cannot listen for LLDP: %w", err))
		return
	}
	l.conns[i.Name] = conn
	l.done.Go(func() { l.receive(i.Name, conn) })
}

func (l *Listener) report(name string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.problems[name] = fmt.Sprintf("network interface %.32s: %.200v", name, err)
	}
}

// receive reads the frames of an interface. The last neighbour counts: a cable may be moved.
func (l *Listener) receive(name string, conn Conn) {
	failures := 0
	for range maxFrames {
		frame, err := conn.Receive()
		if errors.Is(err, io.EOF) || l.isClosed() {
			return
		}
		if err != nil {
			if failures++; failures >= maxErrors {
				l.report(name, fmt.Errorf("cannot receive LLDP frames: %w", err))
				return
			}
			continue
		}
		failures = 0
		var neighbour wire.InspectedNeighbor
		err = failure.Protect(func() (err error) {
			neighbour, err = Parse(frame)
			return err
		})
		if err != nil {
			l.report(name, fmt.Errorf("an LLDP frame is not valid: %w", err))
			continue
		}
		l.mu.Lock()
		l.neighbours[name] = neighbour
		delete(l.problems, name)
		close(l.changed)
		l.changed = make(chan struct{})
		l.mu.Unlock()
	}
}

func (l *Listener) isClosed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed
}

// Wait returns when each of the interfaces that wanted returns has a neighbour, or at the end of ctx. It calls wanted again and again: links come and go.
func (l *Listener) Wait(ctx context.Context, wanted func() []string) {
	tick := time.NewTicker(wantedInterval)
	defer tick.Stop()
	for {
		l.mu.Lock()
		changed := l.changed
		l.mu.Unlock()
		if !slices.ContainsFunc(wanted(), l.lacks) {
			return
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// lacks is true if an interface has no neighbour yet.
func (l *Listener) lacks(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.neighbours[name]
	return !ok
}

// Apply adds the neighbours to the interfaces of an inventory. It returns the problems: what failed, and interfaces whose firmware may keep the frames to itself.
func (l *Listener) Apply(nics []wire.InspectedNIC) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	problems := maps.Clone(l.problems)
	for i, nic := range nics {
		if neighbour, ok := l.neighbours[nic.Name]; ok {
			nics[i].Neighbor = &neighbour
			continue
		}
		driver := cmp.Or(l.interfaces[nic.Name].Driver, nic.Driver)
		if _, ok := problems[nic.Name]; !ok && nic.LinkUp && firmwareAgents[driver] {
			problems[nic.Name] = fmt.Sprintf(
				"network interface %.32s: the link is up and no LLDP frame came: the firmware of %s adapters may keep them, switch its LLDP agent off in the firmware's setup", nic.Name, driver)
		}
	}
	return slices.Sorted(maps.Values(problems))
}

// Close stops listening.
func (l *Listener) Close() error {
	l.mu.Lock()
	l.closed = true
	conns := l.conns
	l.conns = nil
	l.mu.Unlock()
	var errs []error
	for _, c := range conns {
		errs = append(errs, c.Close())
	}
	l.done.Wait()
	return errors.Join(errs...)
}
