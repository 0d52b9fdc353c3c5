package bmc

import (
	"context"
	"time"
)

// Call is a finished call of a driver: one method of a Client, or the opening of a connection. A job that the pool rejects because
// of a backoff makes no call.
type Call struct {
	// Scheme is the URL scheme that the driver is registered for.
	Scheme string
	// Operation is the method: Open, PowerState, SetBootOverride, ...
	Operation string
	// Took is the duration, including the wait for the BMC's request rate.
	Took time.Duration
	// Err is the result.
	Err error
}

// Load is the current work of a pool.
type Load struct {
	// Waiting counts the jobs that wait for a slot, and Running those that run. Slow counts the running jobs that exceeded
	// PoolOptions.SlotTimeout and gave up their slot.
	Waiting, Running, Slow int
}

// Load returns the pool's current work.
func (p *Pool) Load() Load {
	p.mu.Lock()
	defer p.mu.Unlock()
	running := p.slow + p.answering.used + p.others.used
	return Load{Waiting: max(0, len(p.busy)-running), Running: running, Slow: p.slow}
}

// observed records the calls that the manager makes. Other methods, such as Cycle, are called unobserved; As finds the driver's
// other interfaces through unwrap.
type observed struct {
	Client

	scheme string
	record func(Call)
}

// observedMedia is an observed client that implements VirtualMedia.
type observedMedia struct {
	observed
	VirtualMedia
}

var _ HealthReader = observed{}

// observe returns a client that records its calls.
func observe(c Client, scheme string, record func(Call)) Client {
	if record == nil {
		return c
	}
	o := observed{c, scheme, record}
	if media, ok := c.(VirtualMedia); ok {
		return observedMedia{o, media}
	}
	return o
}

func (o observed) unwrap() Client { return o.Client }

// done records a call that began at start. It is deferred, so err is the result.
func (o observed) done(operation string, start time.Time, err *error) {
	o.record(Call{Scheme: o.scheme, Operation: operation, Took: time.Since(start), Err: *err})
}

// PowerState implements Client.
func (o observed) PowerState(ctx context.Context) (_ PowerState, err error) {
	defer o.done("PowerState", time.Now(), &err)
	return o.Client.PowerState(ctx)
}

// PowerOn implements Client.
func (o observed) PowerOn(ctx context.Context) (err error) {
	defer o.done("PowerOn", time.Now(), &err)
	return o.Client.PowerOn(ctx)
}

// ShutDown implements Client.
func (o observed) ShutDown(ctx context.Context) (err error) {
	defer o.done("ShutDown", time.Now(), &err)
	return o.Client.ShutDown(ctx)
}

// ForceOff implements Client.
func (o observed) ForceOff(ctx context.Context) (err error) {
	defer o.done("ForceOff", time.Now(), &err)
	return o.Client.ForceOff(ctx)
}

// BootOverride implements Client.
func (o observed) BootOverride(ctx context.Context) (_ BootOverride, err error) {
	defer o.done("BootOverride", time.Now(), &err)
	return o.Client.BootOverride(ctx)
}

// SetBootOverride implements Client.
func (o observed) SetBootOverride(ctx context.Context, override BootOverride, method BootMethod) (_ BootResult, err error) {
	defer o.done("SetBootOverride", time.Now(), &err)
	return o.Client.SetBootOverride(ctx, override, method)
}

// Inspect implements Client.
func (o observed) Inspect(ctx context.Context) (_ Inventory, err error) {
	defer o.done("Inspect", time.Now(), &err)
	return o.Client.Inspect(ctx)
}

// Describe implements Client.
func (o observed) Describe(ctx context.Context) (_ Description, err error) {
	defer o.done("Describe", time.Now(), &err)
	return o.Client.Describe(ctx)
}

// InsertMedia implements VirtualMedia.
func (o observedMedia) InsertMedia(ctx context.Context, image string) (err error) {
	defer o.done("InsertMedia", time.Now(), &err)
	return o.VirtualMedia.InsertMedia(ctx, image)
}

// EjectMedia implements VirtualMedia.
func (o observedMedia) EjectMedia(ctx context.Context) (err error) {
	defer o.done("EjectMedia", time.Now(), &err)
	return o.VirtualMedia.EjectMedia(ctx)
}

// ReadHealth implements HealthReader. The error is Unsupported if the driver does not.
func (o observed) ReadHealth(ctx context.Context, request HealthRequest) (_ HealthReading, err error) {
	reader, err := As[HealthReader](o.Client, "Read the health")
	if err != nil {
		return HealthReading{}, err
	}
	defer o.done("ReadHealth", time.Now(), &err)
	return reader.ReadHealth(ctx, request)
}

// ReadLogs implements HealthReader. The error is Unsupported if the driver does not.
func (o observed) ReadLogs(ctx context.Context, sources []LogSource) (_ []Log, err error) {
	reader, err := As[HealthReader](o.Client, "Read the logs")
	if err != nil {
		return nil, err
	}
	defer o.done("ReadLogs", time.Now(), &err)
	return reader.ReadLogs(ctx, sources)
}
