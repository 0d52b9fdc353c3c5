package ipmi

import (
	"context"
	"errors"

	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// PowerState reads the power state (Get Chassis Status, IPMI 2.0, 28.2).
func (c *conn) PowerState(ctx context.Context) (bmc.PowerState, error) {
	status := &chassis.GetChassisStatusResponse{}
	if err := c.do(ctx, "Read the power state", &chassis.GetChassisStatusRequest{}, status); err != nil {
		return "", err
	}
	if status.PowerIsOn {
		return bmc.PowerOn, nil
	}
	return bmc.PowerOff, nil
}

// PowerOn switches the server on.
func (c *conn) PowerOn(ctx context.Context) error {
	return c.setPower(ctx, "Power on", bmc.PowerOn, chassis.ChassisControlPowerUp)
}

// ShutDown asks the operating system to shut down, with an emulated press of the power button (ACPI).
func (c *conn) ShutDown(ctx context.Context) error {
	return c.setPower(ctx, "Shut down", bmc.PowerOff, chassis.ChassisControlSoftShutdown)
}

// ForceOff switches the server off at once.
func (c *conn) ForceOff(ctx context.Context) error {
	return c.setPower(ctx, "Force off", bmc.PowerOff, chassis.ChassisControlPowerDown)
}

// setPower sends a command unless the power state is the wanted one. A refusal is no error if the state is the wanted one afterwards.
func (c *conn) setPower(ctx context.Context, op string, want bmc.PowerState, command chassis.ChassisControl) error {
	state, err := c.PowerState(ctx)
	if err != nil || state == want {
		return err
	}
	// A second press of the power button may switch on a server that has just gone off.
	err = c.control(ctx, op, command, command == chassis.ChassisControlSoftShutdown)
	if _, refused := codeOf(err); refused {
		if state, stateErr := c.PowerState(ctx); stateErr == nil && state == want {
			return nil
		}
	}
	return err
}

// Cycle switches a running server off and on again. A server that is off is switched on.
func (c *conn) Cycle(ctx context.Context) error {
	const op = "Power cycle"
	state, err := c.PowerState(ctx)
	switch {
	case err != nil:
		return err
	case state == bmc.PowerOff:
		return c.control(ctx, op, chassis.ChassisControlPowerUp, false)
	default:
		return c.control(ctx, op, chassis.ChassisControlPowerCycle, true)
	}
}

// Reset restarts a running server.
func (c *conn) Reset(ctx context.Context) error {
	const op = "Reset"
	state, err := c.PowerState(ctx)
	if err != nil {
		return err
	}
	if state == bmc.PowerOff {
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: errors.New("the server is off")}
	}
	return c.control(ctx, op, chassis.ChassisControlHardReset, true)
}

// NMI pulses the diagnostic interrupt.
func (c *conn) NMI(ctx context.Context) error {
	return c.control(ctx, "Send an NMI", chassis.ChassisControlDiagnosticInterrupt, true)
}

// control sends a Chassis Control command (IPMI 2.0, 28.3). once is for commands that take effect each time they arrive: if the response
// is lost, the error is Unreachable, and the command may have taken effect.
func (c *conn) control(ctx context.Context, op string, command chassis.ChassisControl, once bool) error {
	err := c.doWith(ctx, op, ipmiRequest{once: once}, &chassis.ChassisControlRequest{ChassisControl: command}, nil)
	var refused *bmc.Error
	if code, ok := codeOf(err); ok && errors.As(err, &refused) {
		switch code {
		case types.CodeParameterOutOfRange, types.CodeRequestDataFieldInvalid:
			// Cycle, diagnostic interrupt and soft shutdown are optional. These codes mean that the BMC does not have the command.
			refused.Kind = bmc.Unsupported
		case types.CodeNodeBusy, types.CodeNotSupported:
			refused.Kind = bmc.Busy // D5h is "not supported in present state": the power is in transition (IPMI 2.0, table 5-2)
		default:
		}
	}
	return err
}
