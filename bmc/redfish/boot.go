package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// The methods to set a boot override (DSP0268, ComputerSystem.Boot). The method of the specification is first.
const (
	// methodPlain writes target, duration and mode to the system.
	methodPlain bmc.BootMethod = "Plain"
	// methodNoMode omits the mode: many BMCs refuse it if it cannot be changed.
	methodNoMode bmc.BootMethod = "NoMode"
	// methodSettings writes to the settings object (@Redfish.Settings), which takes effect at the next boot.
	methodSettings bmc.BootMethod = "Settings"
	// methodSettingsNoMode writes to the settings object without the mode.
	methodSettingsNoMode bmc.BootMethod = "SettingsNoMode"
	// methodContinuous overrides every boot, for BMCs that do not accept Once. The caller has to remove the override.
	methodContinuous bmc.BootMethod = "Continuous"
	// methodBootOrder puts the target first in the boot order, for BMCs without an override. The caller has to restore the order.
	methodBootOrder bmc.BootMethod = "BootOrder"
)

var methods = []bmc.BootMethod{methodPlain, methodNoMode, methodSettings, methodSettingsNoMode, methodContinuous}

// overrides sets what the system boots next: by its boot override or, without one, by its boot order.
type overrides struct {
	service *service
	system  *system
	order   bootOrder
}

var _ bmc.BootOverrider = &overrides{}

// BootMethods lists the methods. Those of the quirks are first.
func (o *overrides) BootMethods() []bmc.BootMethod {
	if o.order.inUse {
		return []bmc.BootMethod{methodBootOrder}
	}
	rest := slices.DeleteFunc(slices.Clone(methods), func(w bmc.BootMethod) bool { return slices.Contains(o.system.quirk.methods, w) })
	return append(slices.Clone(o.system.quirk.methods), rest...)
}

// targets are the Redfish names of the boot targets, in order of preference.
var targets = map[bmc.BootTarget][]schemas.BootSource{
	bmc.BootNone: {schemas.NoneBootSource},
	bmc.BootPXE:  {schemas.PxeBootSource},
	bmc.BootHTTP: {schemas.UefiHTTPBootSource},
	bmc.BootDisk: {schemas.HddBootSource},
	bmc.BootCD:   {schemas.CdBootSource, usbCD},
}

// usbCD is Supermicro's name of the virtual drive. It is not in DSP0268.
const usbCD schemas.BootSource = "UsbCd"

// errNoOverride means that the BMC cannot set what the server boots next.
var errNoOverride = errors.New("the BMC offers no boot override (BootSourceOverrideTarget), and no BootOrder with BootOptions to boot from it")

// offersOverride is true if a system, or its settings object, has a boot override or a list of its targets.
func offersOverride(system resource) bool {
	boot := system.object("Boot")
	return len(boot.texts("BootSourceOverrideTarget@Redfish.AllowableValues")) > 0 || boot.hasProperty("BootSourceOverrideTarget")
}

// bootSource reads the resource that has the boot override: the system or its settings object. It returns nil if neither does.
func (s *system) bootSource(ctx context.Context) resource {
	if offersOverride(s.resource) {
		return s.resource
	}
	if settings := s.service.readOptional(ctx, s.settings()); offersOverride(settings) {
		return settings
	}
	return nil
}

// allowedTargets returns the Redfish names of the targets that the BMC allows: those of the system and, unless these are enough, those of its settings object. AMI lists them
// there alone.
func (o *overrides) allowedTargets(ctx context.Context, enough func([]string) bool) []string {
	const property = "BootSourceOverrideTarget@Redfish.AllowableValues"
	allowed := o.system.texts("Boot", property)
	if enough(allowed) {
		return allowed
	}
	return unique(append(allowed, o.service.readOptional(ctx, o.system.settings()).texts("Boot", property)...))
}

// bootTargets lists the targets that the BMC can boot from.
func (o *overrides) bootTargets(ctx context.Context) []bmc.BootTarget {
	var can []bmc.BootTarget
	if source := o.system.bootSource(ctx); source != nil {
		allowed := o.allowedTargets(ctx, hasAllTargets)
		for target := range targets {
			if _, err := o.target(source, allowed, bmc.BootOverride{Target: target, Mode: bmc.BootUEFI}); err == nil {
				can = append(can, target)
			}
		}
		return can
	}
	options, _ := o.order.options(ctx) // after an error, there is no target
	for _, option := range options {
		can = append(can, option.target)
	}
	return can
}

// hasAllTargets is true if names of all targets are allowed.
func hasAllTargets(allowed []string) bool {
	for target := range targets {
		if target != bmc.BootNone && !hasTarget(allowed, target) {
			return false
		}
	}
	return true
}

// hasTarget is true if a name of the target is allowed.
func hasTarget(allowed []string, target bmc.BootTarget) bool {
	return slices.ContainsFunc(targets[target], func(name schemas.BootSource) bool { return slices.Contains(allowed, string(name)) })
}

// target returns the first of the target's names that the BMC allows. If the BMC does not list its targets, it returns the first name,
// except for HTTP boot, which is newer than the list. A name of the quirks is preferred for CD, and replaces that for no override.
func (o *overrides) target(source resource, allowed []string, override bmc.BootOverride) (schemas.BootSource, error) {
	want := override.Target
	names, ok := targets[want]
	if !ok {
		return "", fmt.Errorf("there is no boot target %q", want)
	}
	switch {
	case want == bmc.BootCD && o.system.quirk.cd != "":
		names = unique(append([]schemas.BootSource{o.system.quirk.cd}, names...))
	case want == bmc.BootNone && o.system.quirk.home != "":
		names = []schemas.BootSource{o.system.quirk.home}
	case want == bmc.BootHTTP && override.Mode == bmc.BootUEFI && readOverride(source).Mode == bmc.BootLegacy:
		return names[0], nil // the BMC does not list it in the current mode, which the override changes
	}
	if want == bmc.BootNone || len(allowed) == 0 && want != bmc.BootHTTP {
		return names[0], nil
	}
	for _, name := range names {
		if slices.Contains(allowed, string(name)) {
			return name, nil
		}
	}
	return "", fmt.Errorf("the BMC does not offer the boot target %s, only %v", names[0], allowed)
}

// BootOverride reads the override.
func (o *overrides) BootOverride(ctx context.Context) (bmc.BootOverride, error) {
	if err := o.system.refresh(ctx); err != nil {
		return bmc.BootOverride{}, err
	}
	override := readOverride(o.system.resource)
	if o.order.detect(ctx) {
		override = o.order.read()
	} else if settings := o.system.settings(); override.Target == bmc.BootNone && settings != "" {
		// An override in the settings object is pending until the next boot.
		if pending := readOverride(o.service.readOptional(ctx, settings)); pending.Target != bmc.BootNone {
			override = pending
		}
	}
	return override, wrap("Read the boot override", o.service.unavailable(ctx))
}

// readOverride returns the override of a system or its settings object. An unknown target is returned with its Redfish name.
func readOverride(system resource) bmc.BootOverride {
	boot := system.object("Boot")
	override := bmc.BootOverride{Target: bmc.BootNone, Continuous: strings.EqualFold(boot.text("BootSourceOverrideEnabled"), "Continuous")}
	switch mode := boot.text("BootSourceOverrideMode"); {
	case strings.EqualFold(mode, string(schemas.UEFIBootSourceOverrideMode)):
		override.Mode = bmc.BootUEFI
	case strings.EqualFold(mode, string(schemas.LegacyBootSourceOverrideMode)):
		override.Mode = bmc.BootLegacy
	}
	target := boot.text("BootSourceOverrideTarget")
	if target == "" || strings.EqualFold(target, "None") || strings.EqualFold(boot.text("BootSourceOverrideEnabled"), "Disabled") {
		override.Continuous = false
		return override
	}
	override.Target = bmc.BootTarget(target)
	for known, names := range targets {
		if slices.ContainsFunc(names, func(n schemas.BootSource) bool { return strings.EqualFold(string(n), target) }) {
			override.Target = known
		}
	}
	if override.Target == bmc.BootHTTP {
		override.URI = bootURI(system)
	}
	return override
}

// bootURI returns the URI of UEFI HTTP boot, or "". sushy-tools 2.2 writes the text None for none.
func bootURI(system resource) string {
	if uri := system.text("Boot", "HttpBootUri"); uri != "None" {
		return uri
	}
	return ""
}

// SetBootOverride sets the override with the method given and, if the BMC refuses or ignores that, with the next one. If the BMC seems to
// ignore all methods, the result is that of the last method: its override may be set although it is not shown, and the caller
// continues with the method after it.
func (o *overrides) SetBootOverride(ctx context.Context, want bmc.BootOverride, method bmc.BootMethod) (bmc.BootResult, error) {
	const op = "Set the boot override"
	if err := o.system.refresh(ctx); err != nil {
		return bmc.BootResult{}, err
	}
	o.service.masker.hideURL(want.URI)
	source := o.system.bootSource(ctx)
	if source == nil && o.service.unavailable(ctx) == nil {
		result, err := o.order.set(ctx, want)
		return result, wrap(op, err)
	}
	allowed := o.allowedTargets(ctx, func(allowed []string) bool { return want.Target == bmc.BootNone || hasTarget(allowed, want.Target) })
	name, err := o.target(source, allowed, want)
	if err := o.service.unavailable(ctx); err != nil {
		return bmc.BootResult{}, wrap(op, err)
	}
	if err != nil {
		return bmc.BootResult{}, &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: err}
	}
	o.system.readManager(ctx) // its firmware's version may have an entry in the table
	methods := o.BootMethods()
	if i := slices.Index(methods, method); i >= 0 {
		methods = slices.Concat(methods[i:], methods[:i])
	}
	var (
		doubted *bmc.BootResult
		refusal error
	)
	for i, method := range methods {
		if method == methodContinuous && i > 0 && doubted != nil {
			break // an override that is not shown may be pending: it must not become permanent
		}
		result, err := o.setOverride(ctx, want, name, method)
		switch {
		case errors.Is(err, errNotApplicable):
		case err != nil && !refused(err):
			return bmc.BootResult{}, wrap(op, err)
		case err != nil:
			o.system.quirk.settings = o.system.quirk.settings || hasMessageID(err, "OperationSupportedInFutureStateURI")
			refusal = cmp.Or(refusal, err)
		case result.Doubt == "":
			return result, nil
		default:
			doubted = &result
		}
	}
	if doubted != nil {
		return *doubted, nil
	}
	return bmc.BootResult{}, wrap(op, refusal)
}

// errNotApplicable means that a method does not apply to this BMC or this override.
var errNotApplicable = errors.New("the method does not apply")

// setOverride sets the override with one method and reads it back.
func (o *overrides) setOverride(ctx context.Context, want bmc.BootOverride, name schemas.BootSource, method bmc.BootMethod) (bmc.BootResult, error) {
	path, boot, err := o.overrideRequest(want, name, method)
	if err != nil {
		return bmc.BootResult{}, err
	}
	if err := o.service.patch(ctx, path, map[string]any{"Boot": boot}); err != nil {
		return bmc.BootResult{}, err
	}
	after, err := o.service.get(ctx, path)
	if err != nil {
		return bmc.BootResult{}, err
	}
	if uri := bootURI(after); want.Target == bmc.BootNone && want.URI == "" && uri != "" {
		o.service.masker.hideURL(uri)
		if err := o.removeURI(ctx, path); err != nil {
			return bmc.BootResult{}, err
		}
	}
	got := readOverride(after)
	if want.Target == bmc.BootNone && slices.Contains(targets[got.Target], o.system.quirk.home) {
		got = bmc.BootOverride{Target: bmc.BootNone, Mode: got.Mode}
	}
	result := bmc.BootResult{Method: method, ReadBack: &got, Lasts: !want.Continuous && want.Target != bmc.BootNone && got.Continuous}
	result.Doubt = doubt(want, got)
	return result, nil
}

// removeURI removes the URI of UEFI HTTP boot, which some BMCs keep with a removed override: a later override without a URI would boot from it. A BMC that
// refuses the removal keeps a URI that is of no use, because the boot server serves it for one boot only.
func (o *overrides) removeURI(ctx context.Context, path string) error {
	var err error
	for _, none := range []any{nil, ""} { // DSP0268 allows null; some BMCs take only texts
		if err = o.service.patch(ctx, path, map[string]any{"Boot": map[string]any{"HttpBootUri": none}}); err == nil || !refused(err) {
			return err
		}
	}
	return nil
}

// overrideRequest returns the path and the Boot property of one method.
func (o *overrides) overrideRequest(want bmc.BootOverride, name schemas.BootSource, method bmc.BootMethod) (string, map[string]any, error) {
	path := o.system.path
	if method == methodSettings || method == methodSettingsNoMode {
		path = o.system.settings()
	}
	mode := want.Mode
	if mode == "" && o.system.quirk.keepMode {
		mode = readOverride(o.system.resource).Mode
	}
	boot := map[string]any{"BootSourceOverrideTarget": name, "BootSourceOverrideEnabled": schemas.OnceBootSourceOverrideEnabled}
	switch {
	case want.Target == bmc.BootNone && o.system.quirk.home == "":
		boot["BootSourceOverrideEnabled"] = schemas.DisabledBootSourceOverrideEnabled
	case want.Target == bmc.BootNone, want.Continuous, method == methodContinuous:
		boot["BootSourceOverrideEnabled"] = schemas.ContinuousBootSourceOverrideEnabled
	}
	withMode := mode != "" && method != methodNoMode && method != methodSettingsNoMode && (!o.system.quirk.omitMode || mode != readOverride(o.system.resource).Mode)
	if withMode {
		boot["BootSourceOverrideMode"] = schemas.BootSourceOverrideMode(mode)
	}
	if want.Target == bmc.BootNone && o.system.quirk.disableOnly {
		delete(boot, "BootSourceOverrideTarget")
	}
	if want.URI != "" {
		boot["HttpBootUri"] = want.URI
	}
	pointless := (method == methodNoMode || method == methodSettingsNoMode) && mode == "" || method == methodContinuous && (want.Continuous || want.Target == bmc.BootNone)
	if path == "" || pointless {
		return "", nil, errNotApplicable
	}
	return path, boot, nil
}

// doubt describes how the override that was read back differs from the wanted one. An override for one boot that reads as one for every
// boot is not a doubt: BootResult.Lasts reports it.
func doubt(want, got bmc.BootOverride) string {
	switch {
	case got.Target != want.Target:
		return fmt.Sprintf("the BMC accepted the target %s and reports %s", want.Target, got.Target)
	case want.Continuous && !got.Continuous:
		return "the BMC accepted an override for every boot and reports one for the next boot"
	case want.Mode != "" && got.Mode != "" && got.Mode != want.Mode && want.Target != bmc.BootNone:
		return fmt.Sprintf("the BMC accepted the mode %s and reports %s", want.Mode, got.Mode)
	case want.Target == bmc.BootHTTP && want.URI != "" && got.URI == "": // no text contains the URI, because a part of it is a token
		return "the BMC accepted the boot URI and reports none"
	case want.Target == bmc.BootHTTP && want.URI != "" && got.URI != want.URI:
		return "the BMC accepted the boot URI and reports another one"
	default:
		return ""
	}
}
