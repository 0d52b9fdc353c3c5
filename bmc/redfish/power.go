package redfish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

const resetAction = "#ComputerSystem.Reset"

// commands are the reset types (DSP0268, Resource.ResetType) that do what a capability says, the best first. PushPowerButton is
// never among them: what it does depends on the state that the server is in by then.
var commands = map[bmc.Capability][]schemas.ResetType{
	bmc.CanPowerOn:  {schemas.OnResetType, schemas.ForceOnResetType},
	bmc.CanShutDown: {schemas.GracefulShutdownResetType},
	bmc.CanForceOff: {schemas.ForceOffResetType},
	bmc.CanCycle:    {schemas.PowerCycleResetType, schemas.ForceRestartResetType},
	bmc.CanReset:    {schemas.ForceRestartResetType, schemas.GracefulRestartResetType},
	bmc.CanNMI:      {schemas.NmiResetType},
}

// PowerState reads the power state afresh.
func (c *conn) PowerState(ctx context.Context) (bmc.PowerState, error) {
	if err := c.refresh(ctx); err != nil {
		return "", err
	}
	switch state := schemas.PowerState(c.system.text("PowerState")); state {
	case schemas.OnPowerState, schemas.PoweringOnPowerState, schemas.PoweringOffPowerState, schemas.PausedPowerState:
		return bmc.PowerOn, nil
	case schemas.OffPowerState:
		return bmc.PowerOff, nil
	default:
		return "", &bmc.Error{Kind: bmc.Failed, Op: "Read the power state", Err: fmt.Errorf("the BMC says %.40q", state)}
	}
}

// PowerOn switches the server on.
func (c *conn) PowerOn(ctx context.Context) error {
	return c.bring(ctx, "Power on", bmc.PowerOn, bmc.CanPowerOn)
}

// ShutDown asks the operating system to shut down.
func (c *conn) ShutDown(ctx context.Context) error {
	return c.bring(ctx, "Shut down", bmc.PowerOff, bmc.CanShutDown)
}

// ForceOff switches the server off.
func (c *conn) ForceOff(ctx context.Context) error {
	return c.bring(ctx, "Power off", bmc.PowerOff, bmc.CanForceOff)
}

// Cycle switches a running server off and on, and one that is off on.
func (c *conn) Cycle(ctx context.Context) error {
	state, err := c.PowerState(ctx)
	switch {
	case err != nil:
		return err
	case state == bmc.PowerOff:
		return c.PowerOn(ctx)
	default:
		return c.reset(ctx, "Power cycle", bmc.CanCycle)
	}
}

// Reset restarts a running server.
func (c *conn) Reset(ctx context.Context) error { return c.running(ctx, "Reset", bmc.CanReset) }

// NMI interrupts a running server.
func (c *conn) NMI(ctx context.Context) error { return c.running(ctx, "Send an NMI", bmc.CanNMI) }

// running gives a command to a server that must be on.
func (c *conn) running(ctx context.Context, op string, command bmc.Capability) error {
	state, err := c.PowerState(ctx)
	if err != nil {
		return err
	}
	if state == bmc.PowerOff {
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: errors.New("the server is off")}
	}
	return c.reset(ctx, op, command)
}

// bring gives a command unless the server is as it shall be. The error of a BMC that refuses what is so already is none.
func (c *conn) bring(ctx context.Context, op string, want bmc.PowerState, command bmc.Capability) error {
	if state, err := c.PowerState(ctx); err != nil || state == want {
		return err
	}
	err := c.reset(ctx, op, command)
	if err == nil || !refusedCommand(err) {
		return err
	}
	if state, stateErr := c.PowerState(ctx); stateErr == nil && state == want {
		return nil
	}
	return err
}

// refusedCommand is true for an answer to a command: without one it is not known what became of it.
func refusedCommand(err error) bool {
	kind := bmc.KindOf(err)
	return kind == bmc.Failed || kind == bmc.NotFound || kind == bmc.Unsupported
}

// reset sends the first of the command's reset types that the BMC offers. It is sent once: a command whose answer was lost may
// have been obeyed.
func (c *conn) reset(ctx context.Context, op string, command bmc.Capability) error {
	kind, err := c.resetType(ctx, commands[command])
	if err != nil {
		return &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: err}
	}
	target := c.system.link("Actions", resetAction, "target")
	if target == "" {
		target = c.path + "/Actions/ComputerSystem.Reset"
	}
	_, _, err = c.request(ctx, http.MethodPost, target, map[string]any{"ResetType": kind}, nil)
	return wrap(op, err)
}

// resetType picks the first of the types that the BMC offers. One that does not tell what it offers gets the first.
func (c *conn) resetType(ctx context.Context, types []schemas.ResetType) (schemas.ResetType, error) {
	const property = "ResetType"
	offered := c.system.texts("Actions", resetAction, property+"@Redfish.AllowableValues")
	if info := c.system.link("Actions", resetAction, "@Redfish.ActionInfo"); len(offered) == 0 && info != "" {
		for _, parameter := range c.try(ctx, info).list("Parameters") {
			if parameter.text("Name") == property {
				offered = parameter.texts("AllowableValues")
			}
		}
	}
	if len(offered) == 0 {
		return types[0], nil
	}
	i := slices.IndexFunc(types, func(t schemas.ResetType) bool { return slices.Contains(offered, string(t)) })
	if i < 0 {
		return "", fmt.Errorf("the BMC offers none of %v, but %v", types, offered)
	}
	return types[i], nil
}
