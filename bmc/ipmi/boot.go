package ipmi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/bougou/go-ipmi/pkg/command/chassis"
	"github.com/bougou/go-ipmi/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// The methods to set a boot override with the boot flags (IPMI 2.0, table 28-14, parameter 5). The method of the specification is first.
const (
	// methodFlags sets device, duration and firmware interface.
	methodFlags bmc.BootMethod = "Flags"
	// methodNoMode omits the EFI flag. Some firmware refuses or ignores flags with it (bmc-toolbox/bmclib#209).
	methodNoMode bmc.BootMethod = "FlagsWithoutMode"
	// methodContinuous overrides every boot, for firmware that ignores flags for one boot (os-autoinst-distri-opensuse#17788,
	// JetSki#110). The caller has to remove the override.
	methodContinuous bmc.BootMethod = "FlagsContinuous"
)

var methods = []bmc.BootMethod{methodFlags, methodNoMode, methodContinuous}

// BootMethods lists the methods. Those of the quirks are first.
func (c *conn) BootMethods() []bmc.BootMethod {
	if c.quirk == nil {
		return slices.Clone(methods)
	}
	rest := slices.DeleteFunc(slices.Clone(methods), func(w bmc.BootMethod) bool { return slices.Contains(c.quirk.methods, w) })
	return append(slices.Clone(c.quirk.methods), rest...)
}

// devices are the boot device selectors.
var devices = map[bmc.BootTarget]types.BootDeviceSelector{
	bmc.BootNone: types.BootDeviceSelectorNoOverride,
	bmc.BootPXE:  types.BootDeviceSelectorForcePXE,
	bmc.BootDisk: types.BootDeviceSelectorForceHardDrive,
	bmc.BootCD:   types.BootDeviceSelectorForceCDROM,
}

// targetOf returns the boot target of a boot device selector. An unknown selector is returned with the name in the specification.
func targetOf(device types.BootDeviceSelector) bmc.BootTarget {
	switch device {
	case types.BootDeviceSelectorForceHardDriveSafe, types.BootDeviceSelectorForceRemoteHardDrive:
		return bmc.BootDisk
	case types.BootDeviceSelectorForceRemoteCDROM:
		return bmc.BootCD
	default:
	}
	for target, d := range devices {
		if d == device {
			return target
		}
	}
	return bmc.BootTarget(device.String())
}

// BootOverride reads the boot flags. Flags that are marked as not valid are no override.
func (c *conn) BootOverride(ctx context.Context) (bmc.BootOverride, error) {
	flags, err := c.bootFlags(ctx)
	if err != nil {
		return bmc.BootOverride{}, err
	}
	return overrideOf(flags), nil
}

func overrideOf(flags *types.BootOptionParam_BootFlags) bmc.BootOverride {
	override := bmc.BootOverride{Target: targetOf(flags.BootDeviceSelector), Continuous: flags.Persist, Mode: bmc.BootLegacy}
	if flags.BIOSBootType == types.BIOSBootTypeEFI {
		override.Mode = bmc.BootUEFI
	}
	if !flags.BootFlagsValid || override.Target == bmc.BootNone {
		return bmc.BootOverride{Target: bmc.BootNone}
	}
	return override
}

func (c *conn) bootFlags(ctx context.Context) (*types.BootOptionParam_BootFlags, error) {
	const op = "Read the boot flags"
	param := &chassis.GetSystemBootOptionsParamResponse{}
	request := &chassis.GetSystemBootOptionsParamRequest{ParamSelector: types.BootOptionParamSelector_BootFlags}
	if err := c.do(ctx, op, request, param); err != nil {
		return nil, paramError(err)
	}
	flags := &types.BootOptionParam_BootFlags{}
	err := decode(op, func() error { return flags.Unpack(param.ParamData[:min(5, len(param.ParamData))]) })
	// A parameter that is marked invalid contains the previous value (observed by openSUSE on a Supermicro: os-autoinst-distri-opensuse#17794).
	flags.BootFlagsValid = flags.BootFlagsValid && !param.ParameterInValid
	return flags, err
}

// paramError makes the completion code "parameter not supported" (80h, IPMI 2.0, 28.12) Unsupported.
func paramError(err error) error {
	var e *bmc.Error
	if code, ok := codeOf(err); ok && code == types.CodeParameterNotSupported && errors.As(err, &e) {
		e.Kind = bmc.Unsupported
	}
	return err
}

// SetBootOverride sets the boot flags with the method given and, if the BMC refuses or does not show them, with the next one. If it shows
// the flags of no method, the first method that it accepted is set again. Flags that are read back are only a hint: BMCs show flags
// that the firmware ignores, and mark flags invalid that the firmware obeys (ipmi_sim).
func (c *conn) SetBootOverride(ctx context.Context, want bmc.BootOverride, method bmc.BootMethod) (bmc.BootResult, error) {
	const op = "Set the boot override"
	if _, ok := devices[want.Target]; !ok {
		return bmc.BootResult{}, &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: fmt.Errorf("IPMI has no flag for the boot target %q", want.Target)}
	}
	if err := c.findQuirks(ctx); err != nil {
		return bmc.BootResult{}, err
	}
	var (
		best, last *bmc.BootResult
		refused    error
	)
	for i, method := range c.methodsFor(want, method) {
		if method == methodContinuous && i > 0 && best != nil {
			break // flags that the BMC does not show may be set: they must not become permanent
		}
		result, err := c.setWithMethod(ctx, op, want, method)
		switch {
		case err != nil && !isRefusal(err):
			return bmc.BootResult{}, err
		case err != nil && refused == nil:
			refused = err
		case err != nil:
		case result.Doubt == "":
			return result, nil
		default:
			last = &result
			if best == nil {
				best = &result
			}
		}
	}
	switch {
	case best == nil:
		return bmc.BootResult{}, refused
	case best != last:
		return c.setWithMethod(ctx, op, want, best.Method)
	default:
		return *best, nil
	}
}

// methodsFor lists the methods to try, starting with first. It omits methods that would send the same flags again.
func (c *conn) methodsFor(want bmc.BootOverride, first bmc.BootMethod) []bmc.BootMethod {
	list := c.BootMethods()
	if i := slices.Index(list, first); i >= 0 {
		list = slices.Concat(list[i:], list[:i])
	}
	return slices.DeleteFunc(list, func(w bmc.BootMethod) bool {
		switch {
		case want.Target == bmc.BootNone:
			return w != methodFlags
		case w == first:
			return false
		case w == methodNoMode:
			return want.Mode != bmc.BootUEFI
		default:
			return w == methodContinuous && want.Continuous
		}
	})
}

func (c *conn) setWithMethod(ctx context.Context, op string, want bmc.BootOverride, method bmc.BootMethod) (bmc.BootResult, error) {
	flags := &types.BootOptionParam_BootFlags{
		// Valid flags without a device still select the firmware interface (ipmitool#304), so invalid flags remove an override.
		BootFlagsValid: want.Target != bmc.BootNone, BootDeviceSelector: devices[want.Target],
		Persist:      want.Target != bmc.BootNone && (want.Continuous || method == methodContinuous),
		BIOSBootType: types.BIOSBootType(want.Target != bmc.BootNone && want.Mode == bmc.BootUEFI && method != methodNoMode),
	}
	if err := c.writeFlags(ctx, op, flags); err != nil {
		return bmc.BootResult{}, err
	}
	result := bmc.BootResult{Method: method, Lasts: flags.Persist && !want.Continuous}
	read, err := c.bootFlags(ctx)
	if err != nil {
		if bmc.KindOf(err) == bmc.Unreachable {
			return result, err
		}
		result.Doubt = "the boot flags cannot be read back: " + err.Error()
		return result, nil
	}
	override := overrideOf(read)
	result.Lasts = result.Lasts || read.BootFlagsValid && read.Persist && !want.Continuous && want.Target != bmc.BootNone
	result.ReadBack, result.Doubt = &override, doubt(flags, read, want.Mode != "" && method != methodNoMode)
	return result, nil
}

// doubt describes how the flags that were read differ from those that were set. Flags for the next boot that are read as flags for every
// boot are not a doubt: BootResult.Lasts reports them.
func doubt(set, read *types.BootOptionParam_BootFlags, withMode bool) string {
	var differs []string
	switch {
	case !set.BootFlagsValid && !read.BootFlagsValid, !set.BootFlagsValid && read.BootDeviceSelector == set.BootDeviceSelector:
		return ""
	case set.BootFlagsValid && !read.BootFlagsValid:
		return "the BMC reports that the boot flags are not valid"
	case targetOf(read.BootDeviceSelector) != targetOf(set.BootDeviceSelector):
		differs = append(differs, fmt.Sprintf("the device is %q", read.BootDeviceSelector))
	case set.Persist && !read.Persist:
		differs = append(differs, "the flags are for the next boot, not for every boot")
	}
	if withMode && read.BIOSBootType != set.BIOSBootType {
		differs = append(differs, fmt.Sprintf("the mode is %q", read.BIOSBootType))
	}
	return strings.Join(differs, ", ")
}

// The values of parameter 0, Set In Progress.
const (
	setComplete   = 0x00
	setInProgress = 0x01
	commitWrite   = 0x02
)

// writeFlags writes the boot flags as ipmitool does, within Set In Progress and with Boot Info Acknowledge. First it disables the timeout
// of 60 s after which a BMC drops the flags, because large servers take longer to boot (RackHD/on-tasks#493). Only the flags are
// mandatory, so refusals of the other parameters are not errors.
func (c *conn) writeFlags(ctx context.Context, op string, flags *types.BootOptionParam_BootFlags) error {
	for _, optional := range []struct {
		param types.BootOptionParamSelector
		data  []byte
	}{
		{types.BootOptionParamSelector_BMCBootFlagValidBitClear, []byte{0x08}}, // 1b: do not clear on the timeout
		{types.BootOptionParamSelector_SetInProgress, []byte{setInProgress}},
		{types.BootOptionParamSelector_BootInfoAcknowledge, []byte{0x01, 0x01}}, // the firmware's bit, and its mask
	} {
		if err := ignoreOptional(c.writeParam(ctx, op, optional.param, optional.data)); err != nil {
			return err
		}
	}
	err := c.writeParam(ctx, op, types.BootOptionParamSelector_BootFlags, flags.Pack())
	if err != nil && bmc.KindOf(err) == bmc.Unreachable {
		return err
	}
	done := []byte{commitWrite, setComplete}
	if err != nil {
		done = []byte{setComplete}
	}
	for _, state := range done {
		if err := ignoreOptional(c.writeParam(ctx, op, types.BootOptionParamSelector_SetInProgress, []byte{state})); err != nil {
			return err
		}
	}
	return err
}

// writeParam writes a boot option parameter (IPMI 2.0, 28.12).
func (c *conn) writeParam(ctx context.Context, op string, param types.BootOptionParamSelector, data []byte) error {
	return paramError(c.do(ctx, op, &chassis.SetSystemBootOptionsParamRequest{ParamSelector: param, ParamData: data}, nil))
}
