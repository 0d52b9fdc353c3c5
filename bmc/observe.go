package bmc

import (
	"context"
	"time"
)

// Call is a call of a driver that ended: one method of a Client, or the opening of a connection. What a BMC was not asked, since it is left
// alone for a while, is none.
type Call struct {
	// Scheme is the URL scheme that the driver is registered for.
	Scheme string
	// Operation is the method: Open, PowerState, SetBootOverride, ...
	Operation string
	// Took is how long it took, with the wait for the BMC's rate.
	Took time.Duration
	// Err is how it ended.
	Err error
}

// Load is what a pool has to do at the moment.
type Load struct {
	// Waiting are the jobs that wait for their turn, and Running those that are under way. Slow are those of the latter that gave their
	// slot away since they take long.
	Waiting, Running, Slow int
}

// Load returns what the pool has to do at the moment.
func (p *Pool) Load() Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := p.stuck
	for _, c := range []*class{&p.proven, &p.others} {
		running += c.running
	}
	return Load{Waiting: max(0, len(p.busy)-running), Running: running, Slow: p.stuck}
}

// observed tells of each call of a client. It has every capability: of one that the client lacks, each method is Unsupported.
type observed struct {
	Client

	scheme string
	tell   func(Call)
}

var (
	_ VirtualMedia = observed{}
	_ SecureBooter = observed{}
	_ Monitor      = observed{}
)

// observe returns a client that tells of each of its calls.
func observe(c Client, scheme string, tell func(Call)) Client {
	if tell == nil {
		return c
	}
	return observed{c, scheme, tell}
}

// call makes a call, and tells of it.
func call[T any](o observed, operation string, do func() (T, error)) (T, error) {
	start := time.Now()
	got, err := do()
	o.tell(Call{Scheme: o.scheme, Operation: operation, Took: time.Since(start), Err: err})
	return got, err
}

// order is call for what returns nothing but an error.
func (o observed) order(operation string, do func() error) error {
	_, err := call(o, operation, func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// PowerState implements Client.
func (o observed) PowerState(ctx context.Context) (PowerState, error) {
	return call(o, "PowerState", func() (PowerState, error) { return o.Client.PowerState(ctx) })
}

// PowerOn implements Client.
func (o observed) PowerOn(ctx context.Context) error {
	return o.order("PowerOn", func() error { return o.Client.PowerOn(ctx) })
}

// ShutDown implements Client.
func (o observed) ShutDown(ctx context.Context) error {
	return o.order("ShutDown", func() error { return o.Client.ShutDown(ctx) })
}

// ForceOff implements Client.
func (o observed) ForceOff(ctx context.Context) error {
	return o.order("ForceOff", func() error { return o.Client.ForceOff(ctx) })
}

// Cycle implements Client.
func (o observed) Cycle(ctx context.Context) error {
	return o.order("Cycle", func() error { return o.Client.Cycle(ctx) })
}

// Reset implements Client.
func (o observed) Reset(ctx context.Context) error {
	return o.order("Reset", func() error { return o.Client.Reset(ctx) })
}

// NMI implements Client.
func (o observed) NMI(ctx context.Context) error {
	return o.order("NMI", func() error { return o.Client.NMI(ctx) })
}

// BootOverride implements Client.
func (o observed) BootOverride(ctx context.Context) (BootOverride, error) {
	return call(o, "BootOverride", func() (BootOverride, error) { return o.Client.BootOverride(ctx) })
}

// SetBootOverride implements Client.
func (o observed) SetBootOverride(ctx context.Context, override BootOverride, way BootMethod) (BootResult, error) {
	return call(o, "SetBootOverride", func() (BootResult, error) { return o.Client.SetBootOverride(ctx, override, way) })
}

// Inspect implements Client.
func (o observed) Inspect(ctx context.Context) (Inventory, error) {
	return call(o, "Inspect", func() (Inventory, error) { return o.Client.Inspect(ctx) })
}

// Describe implements Client.
func (o observed) Describe(ctx context.Context) (Description, error) {
	return call(o, "Describe", func() (Description, error) { return o.Client.Describe(ctx) })
}
