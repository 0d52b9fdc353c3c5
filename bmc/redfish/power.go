package redfish

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// PowerState reads the power state afresh.
func (c *conn) PowerState(context.Context) (bmc.PowerState, error) {
	if err := c.refresh(); err != nil {
		return "", err
	}
	switch c.system.PowerState {
	case schemas.OnPowerState, schemas.PoweringOnPowerState, schemas.PoweringOffPowerState, schemas.PausedPowerState:
		return bmc.PowerOn, nil
	case schemas.OffPowerState:
		return bmc.PowerOff, nil
	default:
		return "", &bmc.Error{Kind: bmc.Failed, Op: "Read the power state", Err: fmt.Errorf("the BMC says %q", c.system.PowerState)}
	}
}

func (c *conn) refresh() error {
	system, err := schemas.GetComputerSystem(c.api, c.system.ODataID)
	if err != nil {
		return wrap("Read system "+c.system.ODataID, err)
	}
	c.system = system
	return nil
}

// PowerOn switches the server on.
func (c *conn) PowerOn(ctx context.Context) error {
	return c.reset(ctx, "Power on", bmc.PowerOn, schemas.OnResetType, schemas.ForceOnResetType)
}

// ShutDown asks the operating system to shut down.
func (c *conn) ShutDown(ctx context.Context) error {
	return c.reset(ctx, "Shut down", bmc.PowerOff, schemas.GracefulShutdownResetType)
}

// ForceOff switches the server off.
func (c *conn) ForceOff(ctx context.Context) error {
	return c.reset(ctx, "Power off", bmc.PowerOff, schemas.ForceOffResetType)
}

// Cycle switches a running server off and on, and one that is off on.
func (c *conn) Cycle(ctx context.Context) error {
	state, err := c.PowerState(ctx)
	if err != nil {
		return err
	}
	if state == bmc.PowerOff {
		return c.PowerOn(ctx)
	}
	return c.reset(ctx, "Power cycle", "", schemas.PowerCycleResetType, schemas.ForceRestartResetType)
}

// reset asks for the first of the reset types that the BMC offers. A server that is already in the state wanted is left
// alone, and so is the error of a BMC that refuses what is already so.
func (c *conn) reset(ctx context.Context, op string, want bmc.PowerState, types ...schemas.ResetType) error {
	if state, err := c.PowerState(ctx); err != nil || state == want {
		return err
	}
	supported, err := c.system.GetSupportedResetTypes()
	if err != nil && len(supported) == 0 {
		supported = nil // Without a list the BMC is asked and may refuse.
	}
	chosen := types[0]
	if len(supported) > 0 {
		i := slices.IndexFunc(types, func(t schemas.ResetType) bool { return slices.Contains(supported, t) })
		if i < 0 {
			return &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: fmt.Errorf("the BMC offers %v", supported)}
		}
		chosen = types[i]
	}
	if _, err = c.system.Reset(chosen); err == nil {
		return nil
	}
	if state, stateErr := c.PowerState(ctx); stateErr == nil && state == want {
		return nil
	}
	return wrap(op, err)
}

// SetNetworkBoot makes the network the next boot device, by PXE.
func (c *conn) SetNetworkBoot(_ context.Context, mode bmc.BootMode) error {
	boot := &schemas.Boot{
		BootSourceOverrideTarget:  schemas.PxeBootSource,
		BootSourceOverrideEnabled: schemas.OnceBootSourceOverrideEnabled,
		BootSourceOverrideMode:    schemas.UEFIBootSourceOverrideMode,
	}
	if mode == bmc.BootLegacy {
		boot.BootSourceOverrideMode = schemas.LegacyBootSourceOverrideMode
	}
	err := c.system.SetBoot(boot)
	var answer *schemas.Error
	if errors.As(err, &answer) && answer.HTTPReturnedStatusCode/100 == 4 {
		// Many BMCs refuse the mode where it cannot be changed, and take the rest.
		boot.BootSourceOverrideMode = ""
		err = c.system.SetBoot(boot)
	}
	return wrap("Set the boot override", err)
}
