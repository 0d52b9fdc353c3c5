package pxetest

import (
	"context"
	"net"
	"net/netip"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// Booter is a hand-written pxe.Booter for one server. It records its calls, and fails on demand.
type Booter struct {
	MAC     net.HardwareAddr
	Answer  pxe.Answer
	Address netip.Addr
	Token   string
	Data    seed.Data
	// Lookups, if not nil, answers Lookup for the server, and Scripts answers Script.
	Lookups func() (pxe.Answer, error)
	Scripts func(from netip.Addr) (pxe.Script, error)
	// Admits, if not nil, answers Admit.
	Admits func(from netip.Addr) error
	// Leases, if not nil, answers Lease.
	Leases func(request pxe.LeaseRequest) (pxe.Lease, error)
	// Err is returned by every method that returns an error.
	Err error

	mu       sync.Mutex
	stages   []pxe.Stage
	waiting  int
	failures []error
	declined []netip.Addr
	reports  int
}

var _ pxe.Booter = &Booter{}

// Stages returns the observed stages in their order, without repetitions.
func (b *Booter) Stages() []pxe.Stage {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []pxe.Stage
	for _, s := range b.stages {
		if len(out) == 0 || out[len(out)-1] != s {
			out = append(out, s)
		}
	}
	return out
}

// Failures returns the errors that ObserveFailure was called with.
func (b *Booter) Failures() []error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]error(nil), b.failures...)
}

// Reports counts the reports.
func (b *Booter) Reports() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.reports
}

// Lookup returns the result of Lookups, or Answer, for the server, and nothing for others.
func (b *Booter) Lookup(_ context.Context, mac net.HardwareAddr) (pxe.Answer, error) {
	if mac.String() != b.MAC.String() {
		return pxe.Answer{}, b.Err
	}
	if b.Lookups != nil {
		return b.Lookups()
	}
	return b.Answer, b.Err
}

// Lease returns the result of Leases, or Address.
func (b *Booter) Lease(_ context.Context, request pxe.LeaseRequest) (pxe.Lease, error) {
	if b.Leases != nil {
		return b.Leases(request)
	}
	return pxe.Lease{Address: b.Address}, b.Err
}

// Decline records the address.
func (b *Booter) Decline(_ context.Context, _ net.HardwareAddr, address netip.Addr) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.declined = append(b.declined, address)
	return b.Err
}

// Declined returns the addresses that were declined.
func (b *Booter) Declined() []netip.Addr {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]netip.Addr(nil), b.declined...)
}

// Admit returns the result of Admits, or Err.
func (b *Booter) Admit(_ context.Context, _ net.HardwareAddr, from netip.Addr) error {
	if b.Admits != nil {
		return b.Admits(from)
	}
	return b.Err
}

// Script returns the result of Scripts, or a script of the answer's files.
func (b *Booter) Script(_ context.Context, _ net.HardwareAddr, from netip.Addr) (pxe.Script, error) {
	if b.Scripts != nil {
		return b.Scripts(from)
	}
	return pxe.Script{Title: "test", CommandLine: "quiet", Files: b.Answer.Files, SeedPath: pxe.SeedPath("dc/h", b.Token)}, b.Err
}

// KnowsSeedToken is true for Token.
func (b *Booter) KnowsSeedToken(_ context.Context, host, token string) bool {
	return host == "dc/h" && token == b.Token
}

// BootstrapData returns Data for Token.
func (b *Booter) BootstrapData(_ context.Context, host, token, _ string, _ netip.Addr) (seed.Data, error) {
	if host != "dc/h" || token != b.Token {
		return seed.Data{}, pxe.ErrRefused
	}
	return b.Data, b.Err
}

// Report counts.
func (b *Booter) Report(_ context.Context, host, token string, _ pxe.Outcome, _ netip.Addr) error {
	if host != "dc/h" || token != b.Token {
		return pxe.ErrRefused
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reports++
	return b.Err
}

// ObserveStage records a stage.
func (b *Booter) ObserveStage(_ net.HardwareAddr, stage pxe.Stage, _ netip.Addr, _ string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stages = append(b.stages, stage)
}

// ObserveWaiting records a position in the queue.
func (b *Booter) ObserveWaiting(_ net.HardwareAddr, _ netip.Addr, position int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = position
}

// Waiting returns the last position of a server in the queue for a boot slot; 0 if none waits.
func (b *Booter) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waiting
}

// ObserveFailure records a failure.
func (b *Booter) ObserveFailure(_ net.HardwareAddr, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, err)
}
