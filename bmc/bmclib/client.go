package bmclib

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// provider is what every provider of bmclib can do. The interfaces of bmclib's package bmc are spelled out here: that package
// would bring modules for firmware and for inventories, which nothing here needs.
type provider interface {
	// PowerStateGet returns "on" or "off".
	PowerStateGet(ctx context.Context) (state string, err error)
	// PowerSet obeys "on", "off", "soft", "cycle" and "reset".
	PowerSet(ctx context.Context, state string) (ok bool, err error)
	BootDeviceSet(ctx context.Context, device string, persistent, efi bool) (ok bool, err error)
}

// backend is a provider with what differs between them.
type backend interface {
	provider
	// explain turns what a call ended with into an error that has a kind. It is called after every call, also after one that
	// ended well: the providers swallow some errors.
	explain(ctx context.Context, err error) error
	// device names what to boot from. The error is Unsupported where the provider cannot.
	device(override bmc.BootOverride) (string, error)
	describe() bmc.Description
	close()
}

// interrupter is a back that can send an NMI. bmclib gives the method its name.
type interrupter interface {
	SendNMI(ctx context.Context) error
}

// client makes a bmc.Client of a provider.
type client struct {
	backend backend
	timeout time.Duration
}

var _ bmc.Client = &client{}

// do makes one call of the provider, and bounds it in time. The providers parse what strangers send, and some panic on it.
func (c *client) do(ctx context.Context, op string, call func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	err := c.backend.explain(ctx, guard(func() error { return call(ctx) }))
	var known *bmc.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return &bmc.Error{Kind: known.Kind, Op: op, Err: known.Err, RetryAfter: known.RetryAfter}
	case ctx.Err() != nil:
		return bmc.Wrap(op, fmt.Errorf("there was no answer: %w", ctx.Err()))
	default:
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: errors.New(shorten(err.Error()))}
	}
}

// guard turns a panic into an error.
func guard(call func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("the answer could not be read: %v", r)
		}
	}()
	return call()
}

// shorten puts a text that a stranger may have had a hand in on one short line.
func shorten(text string) string {
	return fmt.Sprintf("%.200s", strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?"))
}

// unsupported is the error of what a provider cannot do.
func unsupported(op, why string) error {
	return &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errors.New(why)}
}

// PowerState reads the power state.
func (c *client) PowerState(ctx context.Context) (bmc.PowerState, error) {
	const op = "Read the power state"
	var state string
	err := c.do(ctx, op, func(ctx context.Context) (err error) {
		state, err = c.backend.PowerStateGet(ctx)
		return err
	})
	switch {
	case err != nil:
		return "", err
	case strings.EqualFold(state, "on"):
		return bmc.PowerOn, nil
	case strings.EqualFold(state, "off"):
		return bmc.PowerOff, nil
	default:
		return "", &bmc.Error{Kind: bmc.Failed, Op: op, Err: fmt.Errorf("the answer is %q", shorten(state))}
	}
}

// PowerOn switches the server on.
func (c *client) PowerOn(ctx context.Context) error { return c.set(ctx, "Power on", "on", bmc.PowerOn) }

// ShutDown asks the operating system to shut down.
func (c *client) ShutDown(ctx context.Context) error {
	return c.set(ctx, "Shut down", "soft", bmc.PowerOff)
}

// ForceOff switches the server off at once.
func (c *client) ForceOff(ctx context.Context) error {
	return c.set(ctx, "Power off", "off", bmc.PowerOff)
}

// Cycle switches a running server off and on, and one that is off on.
func (c *client) Cycle(ctx context.Context) error {
	state, err := c.PowerState(ctx)
	switch {
	case err != nil:
		return err
	case state == bmc.PowerOff:
		return c.command(ctx, "Power on", "on")
	default:
		return c.command(ctx, "Power cycle", "cycle")
	}
}

// Reset restarts a running server.
func (c *client) Reset(ctx context.Context) error {
	state, err := c.PowerState(ctx)
	switch {
	case err != nil:
		return err
	case state == bmc.PowerOff:
		return &bmc.Error{Kind: bmc.Failed, Op: "Reset", Err: errors.New("the server is off")}
	default:
		return c.command(ctx, "Reset", "reset")
	}
}

// set gives a command unless the server is as it is wanted. The providers read the state too, but take an error of that for "off".
func (c *client) set(ctx context.Context, op, command string, want bmc.PowerState) error {
	if state, err := c.PowerState(ctx); err != nil || state == want {
		return err
	}
	err := c.command(ctx, op, command)
	if err == nil {
		return nil
	}
	// BMCs that lose the connection have often obeyed, and some call it an error that nothing was left to do.
	if state, readErr := c.PowerState(ctx); readErr == nil && state == want {
		return nil
	}
	return err
}

func (c *client) command(ctx context.Context, op, command string) error {
	return c.do(ctx, op, func(ctx context.Context) error {
		ok, err := c.backend.PowerSet(ctx, command)
		if err == nil && !ok {
			err = errors.New("the provider says that it was not done")
		}
		return err
	})
}

// NMI sends a non-maskable interrupt, where the provider can.
func (c *client) NMI(ctx context.Context) error {
	const op = "Send an NMI"
	i, ok := c.backend.(interrupter)
	if !ok {
		return unsupported(op, "the provider has no such command")
	}
	return c.do(ctx, op, i.SendNMI)
}

// methodBootDevice is the only way: bmclib has one call for it.
const methodBootDevice bmc.BootMethod = "BootDevice"

// BootMethods lists the ways to set a boot override.
func (*client) BootMethods() []bmc.BootMethod { return []bmc.BootMethod{methodBootDevice} }

// BootOverride is Unsupported: no provider of bmclib that is used here reads it.
func (*client) BootOverride(context.Context) (bmc.BootOverride, error) {
	return bmc.BootOverride{}, unsupported("Read the boot override", "the provider cannot read it")
}

// SetBootOverride sets the override. It cannot be read back.
//
// An empty mode asks for UEFI: bmclib knows UEFI and not UEFI only, and to say nothing is to say legacy.
func (c *client) SetBootOverride(ctx context.Context, override bmc.BootOverride, method bmc.BootMethod) (bmc.BootResult, error) {
	const op = "Set the boot override"
	if method != "" && method != methodBootDevice {
		return bmc.BootResult{}, unsupported(op, fmt.Sprintf("there is no boot method %q", method))
	}
	device, err := c.backend.device(override)
	if err != nil {
		return bmc.BootResult{}, err
	}
	efi := override.Mode != bmc.BootLegacy && override.Target != bmc.BootNone
	err = c.do(ctx, op, func(ctx context.Context) error {
		ok, err := c.backend.BootDeviceSet(ctx, device, override.Continuous, efi)
		if err == nil && !ok {
			err = errors.New("the provider says that it was not done")
		}
		return err
	})
	if err != nil {
		return bmc.BootResult{}, err
	}
	return bmc.BootResult{Method: methodBootDevice}, nil
}

// bootDevice names a boot target as ipmitool and the webhook protocol do.
func bootDevice(target bmc.BootTarget, cd string) (string, error) {
	switch target {
	case bmc.BootNone:
		return "none", nil
	case bmc.BootPXE:
		return "pxe", nil
	case bmc.BootDisk:
		return "disk", nil
	case bmc.BootCD:
		return cd, nil
	default:
		return "", unsupported("Set the boot override", fmt.Sprintf("the provider cannot boot from %q", target))
	}
}

// Inspect returns an inventory of which nothing is known: the providers read nothing of a server's parts.
func (*client) Inspect(ctx context.Context) (bmc.Inventory, error) {
	inventory := bmc.Inventory{}
	inventory.SetNotOffered("the protocol does not offer it")
	return inventory, bmc.Wrap("Inspect", ctx.Err())
}

// Describe tells what the provider is known to do.
func (c *client) Describe(ctx context.Context) (bmc.Description, error) {
	d := c.backend.describe()
	slices.Sort(d.Capabilities)
	return d, bmc.Wrap("Describe", ctx.Err())
}

// Close ends the connection. Nothing is logged in between two calls.
func (c *client) Close(context.Context) error {
	c.backend.close()
	return nil
}
