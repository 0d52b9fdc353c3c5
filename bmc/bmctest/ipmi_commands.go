package bmctest

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/handlers"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// ipmiCommand handles a command.
type ipmiCommand func(s *ipmiState, request []byte) ([]byte, types.CompletionCode)

// ipmiCommands are the commands that go-ipmi v0.9.1 does not implement, or not completely.
var ipmiCommands = map[types.CommandKey]ipmiCommand{
	types.CommandGetChassisStatus.Key():     (*ipmiState).chassisStatus,
	types.CommandChassisControl.Key():       (*ipmiState).chassisControl,
	types.CommandSetSystemBootOptions.Key(): (*ipmiState).setBootOption,
	types.CommandGetSystemBootOptions.Key(): (*ipmiState).getBootOption,
	types.CommandGetSystemGUID.Key():        (*ipmiState).systemGUID,
	types.CommandGetSensorReading.Key():     (*ipmiState).sensorReading,
	types.CommandGetSELInfo.Key():           (*ipmiState).logInfo,
	types.CommandGetSELEntry.Key():          (*ipmiState).logEntry,
	types.CommandGetSELTime.Key():           (*ipmiState).logTime,
}

// ipmiRegistry contains the commands. All emulated BMCs share it.
var ipmiRegistry = sync.OnceValue(func() *handlers.Registry {
	registry := handlers.NewRegistry()
	registry.Use(func(next handlers.Handler) handlers.Handler {
		return handlers.HandlerFunc(func(ctx context.Context, h *handlers.HandlerContext, request []byte) ([]byte, types.CompletionCode, error) {
			if s, ok := h.BMC.HAL().(*ipmiState); ok && h.Command.ID != types.CommandCloseSession.ID && s.machine.faults.take(Busy503) {
				return nil, types.CodeNodeBusy, nil
			}
			return next.Handle(ctx, h, request)
		})
	})
	handlers.RegisterAllHandlers(registry)
	for key, command := range ipmiCommands {
		registry.RegisterFunc(types.Command{ID: key.ID, NetFn: key.NetFn},
			func(_ context.Context, h *handlers.HandlerContext, request []byte) ([]byte, types.CompletionCode, error) {
				s, ok := h.BMC.HAL().(*ipmiState)
				if !ok {
					return nil, types.CodeNotSupported, nil
				}
				answer, code := command(s, request)
				return answer, code, nil
			})
	}
	return registry
})

func (s *ipmiState) chassisStatus([]byte) ([]byte, types.CompletionCode) {
	m := s.machine
	status := &chassis.GetChassisStatusResponse{
		PowerIsOn: m.readsOn(), PowerFault: m.isUnhealthy(PartPowerSupply), CollingFanFault: m.isUnhealthy(PartFan), DriveFault: m.isUnhealthy(PartDisk),
	}
	return status.Pack(), types.CodeOK
}

// resetTypeOf returns the reset types of the chassis controls (IPMI 2.0, 28.3).
var resetTypeOf = map[chassis.ChassisControl]string{
	chassis.ChassisControlPowerDown: "ForceOff", chassis.ChassisControlPowerUp: "On", chassis.ChassisControlPowerCycle: "PowerCycle",
	chassis.ChassisControlHardReset: "ForceRestart", chassis.ChassisControlDiagnosticInterrupt: "Nmi",
	chassis.ChassisControlSoftShutdown: "GracefulShutdown",
}

func (s *ipmiState) chassisControl(request []byte) ([]byte, types.CompletionCode) {
	m := s.machine
	control := &chassis.ChassisControlRequest{}
	if control.Unpack(request) != nil {
		return nil, types.CodeRequestDataTruncated
	}
	kind, on := resetTypeOf[control.ChassisControl], m.On()
	soft := control.ChassisControl == chassis.ChassisControlSoftShutdown
	redundant := kind == "On" && on || kind == "ForceOff" && !on
	switch {
	case kind == "", soft && m.faults.on(NoGracefulShutdown):
		return nil, types.CodeRequestDataFieldInvalid
	case m.inTransition() && m.faults.on(BusyInTransition):
		return nil, types.CodeNodeBusy
	case soft && m.faults.on(ShutDownFails), redundant && m.faults.on(RedundantPowerIs5xx):
		return nil, types.CodeUnspecifiedError
	case redundant && m.faults.on(RedundantPowerIs4xx), !on && kind != "On" && kind != "ForceOff" && !soft:
		return nil, types.CodeNotSupported // in the present state
	}
	s.expireFlags()
	s.dropNext.Store(m.faults.take(RebootMidCall))
	m.reset(kind)
	return nil, types.CodeOK
}

// bootFlagsLast is how long boot flags are valid, unless their expiry is disabled (IPMI 2.0, table 28-14, parameter 3).
const bootFlagsLast = 60 * time.Second

func (s *ipmiState) expireFlags() {
	s.mu.Lock()
	expired := !s.noExpiry && !s.flagsSet.IsZero() && time.Since(s.flagsSet) > bootFlagsLast
	s.mu.Unlock()
	if expired {
		s.machine.mu.Lock()
		s.machine.next = bmc.BootOverride{Target: bmc.BootNone}
		s.machine.mu.Unlock()
	}
}

func (s *ipmiState) setBootOption(request []byte) ([]byte, types.CompletionCode) {
	if len(request) < 1 {
		return nil, types.CodeRequestDataTruncated
	}
	data := request[1:]
	switch types.BootOptionParamSelector(request[0] & 0x7f) {
	case types.BootOptionParamSelector_SetInProgress, types.BootOptionParamSelector_BootInfoAcknowledge:
		return nil, types.CodeOK
	case types.BootOptionParamSelector_BMCBootFlagValidBitClear:
		param := &types.BootOptionParam_BMCBootFlagValidBitClear{}
		if param.Unpack(data) != nil {
			return nil, types.CodeRequestDataTruncated
		}
		s.mu.Lock()
		s.noExpiry = param.DontClearOnCommandReceivedTimeout
		s.mu.Unlock()
		return nil, types.CodeOK
	case types.BootOptionParamSelector_BootFlags:
		flags := &types.BootOptionParam_BootFlags{}
		if flags.Unpack(data) != nil {
			return nil, types.CodeRequestDataTruncated
		}
		return nil, s.setFlags(flags)
	default:
		return nil, types.CodeParameterNotSupported
	}
}

// bootDevices are the devices that the firmware supports.
var bootDevices = map[types.BootDeviceSelector]bmc.BootTarget{
	types.BootDeviceSelectorNoOverride: bmc.BootNone, types.BootDeviceSelectorForcePXE: bmc.BootPXE,
	types.BootDeviceSelectorForceHardDrive: bmc.BootDisk, types.BootDeviceSelectorForceCDROM: bmc.BootCD,
}

func (s *ipmiState) setFlags(flags *types.BootOptionParam_BootFlags) types.CompletionCode {
	m := s.machine
	boot := bmc.BootOverride{Target: bmc.BootNone}
	if flags.BootFlagsValid {
		target, ok := bootDevices[flags.BootDeviceSelector]
		if !ok {
			return types.CodeRequestDataFieldInvalid
		}
		boot = bmc.BootOverride{Target: target, Continuous: flags.Persist, Mode: bmc.BootLegacy}
		if flags.BIOSBootType == types.BIOSBootTypeEFI {
			boot.Mode = bmc.BootUEFI
		}
	}
	efi := boot.Mode == bmc.BootUEFI
	switch {
	case efi && m.faults.on(RefusesBootMode):
		return types.CodeRequestDataFieldInvalid
	case m.faults.on(IgnoresOverride), efi && m.faults.on(IgnoresOverrideWithMode),
		boot.Target != bmc.BootNone && !boot.Continuous && m.faults.on(IgnoresOnce):
		return types.CodeOK
	}
	m.override(boot)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.flagsSet = time.Now()
	return types.CodeOK
}

func (s *ipmiState) getBootOption(request []byte) ([]byte, types.CompletionCode) {
	if len(request) < 1 {
		return nil, types.CodeRequestDataTruncated
	}
	selector := request[0] & 0x7f
	if types.BootOptionParamSelector(selector) != types.BootOptionParamSelector_BootFlags {
		return nil, types.CodeParameterNotSupported
	}
	s.expireFlags()
	boot := s.machine.Override()
	flags := &types.BootOptionParam_BootFlags{
		BootFlagsValid: boot.Target != bmc.BootNone && !s.machine.faults.on(OverrideReadsInvalid),
		Persist:        boot.Continuous || boot.Target != bmc.BootNone && s.machine.faults.on(OnceReadsContinuous),
		BIOSBootType:   types.BIOSBootType(boot.Mode == bmc.BootUEFI),
	}
	for device, target := range bootDevices {
		if target == boot.Target {
			flags.BootDeviceSelector = device
		}
	}
	return append([]byte{0x01, selector}, flags.Pack()...), types.CodeOK
}

func (s *ipmiState) systemGUID([]byte) ([]byte, types.CompletionCode) {
	guid := s.machine.guid()
	switch {
	case s.machine.faults.on(PartsAre501):
		return nil, types.CodeInvalidCommand
	case s.machine.faults.on(SwappedGUID):
		guid = s.machine.swappedGUID()
	}
	return guid[:], types.CodeOK
}

func (s *ipmiState) logTime([]byte) ([]byte, types.CompletionCode) {
	return binary.LittleEndian.AppendUint32(nil, uint32(s.machine.now().Unix())), types.CodeOK //nolint:gosec // until 2106
}
