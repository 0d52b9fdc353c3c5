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

// provider is implemented by every provider of bmclib. It repeats the interfaces of bmclib's package bmc, because that package (v2.3.5)
// imports modules for firmware and inventories, which are not needed here. No upstream issue was found. Delete it when the package has
// no such imports.
type provider interface {
	// PowerStateGet returns "on" or "off".
	PowerStateGet(ctx context.Context) (state string, err error)
	// PowerSet accepts "on", "off", "soft", "cycle" and "reset".
	PowerSet(ctx context.Context, state string) (ok bool, err error)
	BootDeviceSet(ctx context.Context, device string, persistent, efi bool) (ok bool, err error)
}

// backend is a provider with its specific behavior.
type backend interface {
	provider
	// explain returns the result of a call as an error with a kind. It is called after every call, even after a success, because the
	// providers drop some errors (bmclib v2.3.5; no upstream issue found). Delete the calls after a success when they return all errors.
	explain(ctx context.Context, err error) error
	// device returns the provider's name of the boot device. The error is Unsupported if the provider does not have it.
	device(override bmc.BootOverride) (string, error)
	describe() bmc.Description
	close()
}

// interrupter is a backend that can send an NMI. The method has the name that bmclib uses.
type interrupter interface {
	SendNMI(ctx context.Context) error
}

// client implements bmc.Client with a backend.
type client struct {
	backend backend
	timeout time.Duration
}

var _ bmc.Client = &client{}

// do makes one call of the provider, with a timeout and recover: the providers of bmclib v2.3.5 parse untrusted responses, and some panic
// on them. No upstream issue was found. Delete guard when they return errors instead.
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

// shorten returns an untrusted text as one short line.
func shorten(text string) string {
	return fmt.Sprintf("%.200s", strings.ToValidUTF8(strings.Join(strings.Fields(text), " "), "?"))
}

// unsupported is the error of a function that a provider does not have.
func unsupported(op, reason string) error {
	return &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errors.New(reason)}
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

// Cycle switches a running server off and on again. A server that is off is switched on.
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

// set sends a command unless the server is in the wanted state. The providers of bmclib v2.3.5 read the state too, but treat an error of
// that as "off". No upstream issue was found. Delete the read when they return the error.
func (c *client) set(ctx context.Context, op, command string, want bmc.PowerState) error {
	if state, err := c.PowerState(ctx); err != nil || state == want {
		return err
	}
	err := c.command(ctx, op, command)
	if err == nil {
		return nil
	}
	// After a lost connection, the command has often taken effect. Some BMCs return an error if the server is in the wanted state already.
	if state, readErr := c.PowerState(ctx); readErr == nil && state == want {
		return nil
	}
	return err
}

func (c *client) command(ctx context.Context, op, command string) error {
	return c.do(ctx, op, func(ctx context.Context) error {
		ok, err := c.backend.PowerSet(ctx, command)
		if err == nil && !ok {
			err = errors.New("the provider did not execute the command")
		}
		return err
	})
}

// NMI sends a non-maskable interrupt, if the provider supports it.
func (c *client) NMI(ctx context.Context) error {
	const op = "Send an NMI"
	i, ok := c.backend.(interrupter)
	if !ok {
		return unsupported(op, "the provider has no such command")
	}
	return c.do(ctx, op, i.SendNMI)
}

// methodBootDevice is the only method: bmclib has one call for boot devices.
const methodBootDevice bmc.BootMethod = "BootDevice"

// BootMethods returns the only method.
func (*client) BootMethods() []bmc.BootMethod { return []bmc.BootMethod{methodBootDevice} }

// BootOverride is Unsupported: the providers intelamt, rpc and ipmitool of bmclib v2.3.5 cannot read it. No upstream issue was found.
// Implement it when they implement BootDeviceOverrideGetter.
func (*client) BootOverride(context.Context) (bmc.BootOverride, error) {
	return bmc.BootOverride{}, unsupported("Read the boot override", "the provider cannot read it")
}

// SetBootOverride sets the override. It cannot be read back.
//
// An empty mode sets UEFI: bmclib v2.3.5 has only a boolean for UEFI, so an unset mode would be legacy. No upstream issue was found.
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
			err = errors.New("the provider did not set the boot device")
		}
		return err
	})
	if err != nil {
		return bmc.BootResult{}, err
	}
	return bmc.BootResult{Method: methodBootDevice}, nil
}

// bootDevice returns the name of a boot target in ipmitool and in the webhook protocol.
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

// Inspect returns an inventory without known facts: the providers do not read a server's parts.
func (*client) Inspect(ctx context.Context) (bmc.Inventory, error) {
	inventory := bmc.Inventory{}
	inventory.SetNotOffered("the protocol does not offer it")
	return inventory, bmc.Wrap("Inspect", ctx.Err())
}

// Describe returns the capabilities that the provider supports.
func (c *client) Describe(ctx context.Context) (bmc.Description, error) {
	d := c.backend.describe()
	slices.Sort(d.Capabilities)
	return d, bmc.Wrap("Describe", ctx.Err())
}

// Close ends the connection. There is no session between two calls.
func (c *client) Close(context.Context) error {
	c.backend.close()
	return nil
}
