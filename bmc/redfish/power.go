package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

const resetAction = "#ComputerSystem.Reset"

// commands are the reset types (DSP0268, Resource.ResetType) of each capability, in order of preference. PushPowerButton is not among
// them, because its effect depends on the server's state at that moment.
var commands = map[bmc.Capability][]schemas.ResetType{
	bmc.CanPowerOn:  {schemas.OnResetType, schemas.ForceOnResetType},
	bmc.CanShutDown: {schemas.GracefulShutdownResetType},
	bmc.CanForceOff: {schemas.ForceOffResetType},
	bmc.CanCycle:    {schemas.PowerCycleResetType, schemas.ForceRestartResetType},
	bmc.CanReset:    {schemas.ForceRestartResetType, schemas.GracefulRestartResetType},
	bmc.CanNMI:      {schemas.NmiResetType},
}

// power controls the power of the system.
type power struct {
	service *service
	system  *system
}

var (
	_ bmc.Power        = &power{}
	_ bmc.BootRecorder = &power{}
)

// PowerState reads the power state from the BMC.
func (p *power) PowerState(ctx context.Context) (bmc.PowerState, error) {
	if err := p.system.refresh(ctx); err != nil {
		return "", err
	}
	switch state := schemas.PowerState(p.system.text("PowerState")); state {
	case schemas.OnPowerState, schemas.PausedPowerState:
		return bmc.PowerOn, nil
	case schemas.OffPowerState:
		return bmc.PowerOff, nil
	case schemas.PoweringOnPowerState:
		return bmc.PoweringOn, nil
	case schemas.PoweringOffPowerState:
		return bmc.PoweringOff, nil
	default:
		return "", &bmc.Error{Kind: bmc.Failed, Op: "Read the power state", Err: fmt.Errorf("the BMC reports %.40q", state)}
	}
}

// PowerOn switches the server on.
func (p *power) PowerOn(ctx context.Context) error {
	return p.setPower(ctx, "Power on", bmc.PowerOn, bmc.CanPowerOn)
}

// ShutDown asks the operating system to shut down.
func (p *power) ShutDown(ctx context.Context) error {
	return p.setPower(ctx, "Shut down", bmc.PowerOff, bmc.CanShutDown)
}

// ForceOff switches the server off.
func (p *power) ForceOff(ctx context.Context) error {
	return p.setPower(ctx, "Power off", bmc.PowerOff, bmc.CanForceOff)
}

// Cycle switches a running server off and on again. A server that is off is switched on.
func (p *power) Cycle(ctx context.Context) error {
	state, err := p.PowerState(ctx)
	switch {
	case err != nil:
		return err
	case state == bmc.PowerOff:
		return p.PowerOn(ctx)
	case state.InTransition():
		return inTransition("Power cycle", state)
	default:
		return p.reset(ctx, "Power cycle", bmc.CanCycle)
	}
}

// Reset restarts a running server.
func (p *power) Reset(ctx context.Context) error { return p.commandRunning(ctx, "Reset", bmc.CanReset) }

// NMI sends a non-maskable interrupt to a running server.
func (p *power) NMI(ctx context.Context) error {
	return p.commandRunning(ctx, "Send an NMI", bmc.CanNMI)
}

// commandRunning sends a command to a server that must be on.
func (p *power) commandRunning(ctx context.Context, op string, command bmc.Capability) error {
	state, err := p.PowerState(ctx)
	if err != nil {
		return err
	}
	switch {
	case state == bmc.PowerOff:
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: errors.New("the server is off")}
	case state.InTransition():
		return inTransition(op, state)
	default:
		return p.reset(ctx, op, command)
	}
}

// setPower sends a command unless the server is in the wanted state or in transition to it. A refusal is no error if the server is in the
// wanted state afterwards.
func (p *power) setPower(ctx context.Context, op string, want bmc.PowerState, command bmc.Capability) error {
	state, err := p.PowerState(ctx)
	switch {
	case err != nil || state == want:
		return err
	case command == bmc.CanPowerOn && state == bmc.PoweringOn, command == bmc.CanShutDown && state == bmc.PoweringOff:
		return nil
	case command != bmc.CanForceOff && state.InTransition(): // ForceOff is allowed, because an operating system may take long to shut down, or hang
		return inTransition(op, state)
	}
	err = p.reset(ctx, op, command)
	if err == nil || !refusedCommand(err) {
		return err
	}
	if state, stateErr := p.PowerState(ctx); stateErr == nil && state == want {
		return nil
	}
	return err
}

// inTransition is the error of a command during a transition. The command is not sent, because BMCs acknowledge and then drop it.
func inTransition(op string, state bmc.PowerState) error {
	return &bmc.Error{Kind: bmc.Busy, Op: op, Err: fmt.Errorf("the server's power is in transition (%s)", state)}
}

// refusedCommand is true if the BMC answered the command with an error. Without a response, the command may have taken effect.
func refusedCommand(err error) bool {
	kind := bmc.KindOf(err)
	return kind == bmc.Failed || kind == bmc.Busy || kind == bmc.NotFound || kind == bmc.Unsupported
}

// reset sends the first of the command's reset types that the BMC offers. It does not repeat it, because a command without a response may
// have taken effect.
func (p *power) reset(ctx context.Context, op string, command bmc.Capability) error {
	kind, err := p.resetType(ctx, commands[command])
	if err != nil {
		return &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: err}
	}
	target := p.system.link("Actions", resetAction, "target")
	if target == "" {
		target = p.system.path + "/Actions/ComputerSystem.Reset"
	}
	_, _, err = p.service.request(ctx, http.MethodPost, target, map[string]any{"ResetType": kind}, nil)
	var refused *bmc.Error
	if wrapped := wrap(op, err); errors.As(wrapped, &refused) && (statusOf(err) == http.StatusConflict || hasMessageID(err, "ResourceInUse")) {
		// The state of the resource does not allow it now (RFC 9110, 15.5.10; Base.ResourceInUse). BMCs answer so while the power is in transition.
		return &bmc.Error{Kind: bmc.Busy, Op: op, Err: refused.Err, RetryAfter: refused.RetryAfter}
	}
	return wrap(op, err)
}

// resetType returns the first of the types that the BMC offers. If the BMC does not list its types, it returns the first one.
func (p *power) resetType(ctx context.Context, types []schemas.ResetType) (schemas.ResetType, error) {
	const property = "ResetType"
	offered := p.system.texts("Actions", resetAction, property+"@Redfish.AllowableValues")
	if info := p.system.link("Actions", resetAction, "@Redfish.ActionInfo"); len(offered) == 0 && info != "" {
		for _, parameter := range p.service.readOptional(ctx, info).list("Parameters") {
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
		return "", fmt.Errorf("the BMC does not offer %v, only %v", types, offered)
	}
	return types[i], nil
}

// bootStages are the stages of a boot in their order (DSP0268, ComputerSystem.BootProgress.LastState).
var bootStages = map[string]int{
	"PrimaryProcessorInitializationStarted": 1, "BusInitializationStarted": 2, "MemoryInitializationStarted": 3, "SecondaryProcessorInitializationStarted": 4,
	"PCIResourceConfigStarted": 5, "SystemHardwareInitializationComplete": 6, "SetupEntered": 7, "OSBootStarted": 8, "OSRunning": 9,
}

// postStages are the stages of the power-on self test of HPE servers (Oem.Hpe.PostState), whose BMCs do not record BootProgress.
var postStages = map[string]int{"PowerOff": 1, "Reset": 2, "InPost": 3, "InPostDiscoveryComplete": 4, "FinishedPost": 5}

// LastBoot reads the BMC's record of the last start of the server.
func (p *power) LastBoot(ctx context.Context) (bmc.LastBoot, error) {
	if err := p.system.refresh(ctx); err != nil {
		return bmc.LastBoot{}, err
	}
	at, err := time.Parse(time.RFC3339, p.system.text("LastResetTime"))
	if err != nil {
		at = time.Time{} // the BMC does not record it
	}
	return bmc.LastBoot{
		ResetAt: at, Progress: cmp.Or(bootStages[p.system.text("BootProgress", "LastState")], postStages[p.system.text("Oem", "Hpe", "PostState")]),
	}, nil
}
