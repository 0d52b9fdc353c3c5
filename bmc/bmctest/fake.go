package bmctest

import (
	"context"
	"sync"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Fake is a BMC without a protocol. It records the calls and fails on demand.
type Fake struct {
	mu    sync.Mutex
	calls []string
	power bmc.PowerState
	// Errors are returned by the call named, such as "PowerOn" or "Open".
	Errors map[string]error
	// Block, where not nil, holds each call until it is closed or the call's context ends.
	Block <-chan struct{}
}

var _ bmc.Client = &Fake{}

// Open is a bmc.OpenFunc that returns the fake.
func (f *Fake) Open(ctx context.Context, _ bmc.Endpoint) (bmc.Client, error) {
	return f, f.call(ctx, "Open", "")
}

// Calls returns the names of the calls so far.
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.calls...)
}

func (f *Fake) call(ctx context.Context, name string, power bmc.PowerState) error {
	if f.Block != nil {
		select {
		case <-f.Block:
		case <-ctx.Done():
			return &bmc.Error{Kind: bmc.Unreachable, Op: name, Err: ctx.Err()}
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls = append(f.calls, name)
	if err := f.Errors[name]; err != nil {
		return err
	}
	if power != "" {
		f.power = power
	}
	return nil
}

// PowerState reads the power state.
func (f *Fake) PowerState(ctx context.Context) (bmc.PowerState, error) {
	err := f.call(ctx, "PowerState", "")
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.power, err
}

// PowerOn switches the server on.
func (f *Fake) PowerOn(ctx context.Context) error { return f.call(ctx, "PowerOn", bmc.PowerOn) }

// ShutDown switches the server off.
func (f *Fake) ShutDown(ctx context.Context) error { return f.call(ctx, "ShutDown", bmc.PowerOff) }

// ForceOff switches the server off.
func (f *Fake) ForceOff(ctx context.Context) error { return f.call(ctx, "ForceOff", bmc.PowerOff) }

// Cycle switches the server on.
func (f *Fake) Cycle(ctx context.Context) error { return f.call(ctx, "Cycle", bmc.PowerOn) }

// SetNetworkBoot does nothing.
func (f *Fake) SetNetworkBoot(ctx context.Context, _ bmc.BootMode) error {
	return f.call(ctx, "SetNetworkBoot", "")
}

// Inspect returns an empty inventory.
func (f *Fake) Inspect(ctx context.Context) (bmc.Inventory, error) {
	return bmc.Inventory{}, f.call(ctx, "Inspect", "")
}

// Close ends nothing.
func (f *Fake) Close(context.Context) error { return nil }
