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

// The ways to set a boot override (DSP0268, ComputerSystem.Boot), the one that the specification means first.
const (
	// methodPlain writes target, duration and mode to the system.
	methodPlain bmc.BootMethod = "Plain"
	// methodNoMode leaves the mode as it is: many BMCs refuse it where it cannot be changed.
	methodNoMode bmc.BootMethod = "NoMode"
	// methodSettings writes to the settings object (@Redfish.Settings), which takes effect at the next boot.
	methodSettings bmc.BootMethod = "Settings"
	// methodSettingsNoMode does so without the mode.
	methodSettingsNoMode bmc.BootMethod = "SettingsNoMode"
	// methodContinuous overrides every boot, for BMCs that do not take Once: the override has to be taken back.
	methodContinuous bmc.BootMethod = "Continuous"
	// methodBootOrder puts the target first in the boot order, where the BMC has no override at all: the order has to be taken back.
	methodBootOrder bmc.BootMethod = "BootOrder"
)

var methods = []bmc.BootMethod{methodPlain, methodNoMode, methodSettings, methodSettingsNoMode, methodContinuous}

// BootMethods lists the ways, those that the table of quirks names first.
func (c *conn) BootMethods() []bmc.BootMethod {
	if c.usesBootOrder {
		return []bmc.BootMethod{methodBootOrder}
	}
	rest := slices.DeleteFunc(slices.Clone(methods), func(w bmc.BootMethod) bool { return slices.Contains(c.quirk.methods, w) })
	return append(slices.Clone(c.quirk.methods), rest...)
}

// targets names the boot targets as Redfish does, the best first.
var targets = map[bmc.BootTarget][]schemas.BootSource{
	bmc.BootNone: {schemas.NoneBootSource},
	bmc.BootPXE:  {schemas.PxeBootSource},
	bmc.BootHTTP: {schemas.UefiHTTPBootSource},
	bmc.BootDisk: {schemas.HddBootSource},
	bmc.BootCD:   {schemas.CdBootSource, usbCD},
}

// usbCD is what Supermicro calls the virtual drive; it is not in DSP0268.
const usbCD schemas.BootSource = "UsbCd"

// errNoOverride is why a BMC cannot be told what to boot next.
var errNoOverride = errors.New("the BMC offers no boot override (BootSourceOverrideTarget), and no BootOrder with BootOptions to boot from it")

// offersOverride is true for a system, or its settings object, that shows a boot override or the targets for one.
func offersOverride(system resource) bool {
	boot := system.object("Boot")
	return len(boot.texts("BootSourceOverrideTarget@Redfish.AllowableValues")) > 0 || boot.hasProperty("BootSourceOverrideTarget")
}

// bootSource reads the resource that shows the boot override: the system or its settings object. It is nil where neither does.
func (c *conn) bootSource(ctx context.Context) resource {
	if offersOverride(c.system) {
		return c.system
	}
	if settings := c.readOptional(ctx, c.settings()); offersOverride(settings) {
		return settings
	}
	return nil
}

// bootTargets lists the targets that the BMC can be told to boot from.
func (c *conn) bootTargets(ctx context.Context) []bmc.BootTarget {
	var can []bmc.BootTarget
	if source := c.bootSource(ctx); source != nil {
		for target := range targets {
			if _, err := c.target(source, bmc.BootOverride{Target: target, Mode: bmc.BootUEFI}); err == nil {
				can = append(can, target)
			}
		}
		return can
	}
	options, _ := c.bootOptions(ctx) // without any there is no target
	for _, o := range options {
		can = append(can, o.target)
	}
	return can
}

// target picks the first of the target's names that the BMC allows. One that does not tell gets the first, but HTTP boot, which
// is younger than the property. Where the table of quirks prefers a name, no other one will do.
func (c *conn) target(source resource, override bmc.BootOverride) (schemas.BootSource, error) {
	want := override.Target
	names, ok := targets[want]
	if !ok {
		return "", fmt.Errorf("there is no boot target %q", want)
	}
	switch {
	case want == bmc.BootCD && c.quirk.cd != "":
		names = []schemas.BootSource{c.quirk.cd}
	case want == bmc.BootNone && c.quirk.home != "":
		names = []schemas.BootSource{c.quirk.home}
	case want == bmc.BootHTTP && override.Mode == bmc.BootUEFI && readOverride(source).Mode == bmc.BootLegacy:
		return names[0], nil // it is not offered in the mode that will be changed with it
	}
	allowed := source.texts("Boot", "BootSourceOverrideTarget@Redfish.AllowableValues")
	if want == bmc.BootNone || len(allowed) == 0 && want != bmc.BootHTTP {
		return names[0], nil
	}
	for _, name := range names {
		if slices.Contains(allowed, string(name)) {
			return name, nil
		}
	}
	return "", fmt.Errorf("the BMC does not offer to boot from %s, but from %v", names[0], allowed)
}

// BootOverride reads the override.
func (c *conn) BootOverride(ctx context.Context) (bmc.BootOverride, error) {
	if err := c.refresh(ctx); err != nil {
		return bmc.BootOverride{}, err
	}
	override := readOverride(c.system)
	if c.detectBootOrder(ctx) {
		override = c.readOrder()
	} else if settings := c.settings(); override.Target == bmc.BootNone && settings != "" {
		// One that was written there shows there until the next boot.
		if pending := readOverride(c.readOptional(ctx, settings)); pending.Target != bmc.BootNone {
			override = pending
		}
	}
	return override, wrap("Read the boot override", c.unavailable(ctx))
}

// readOverride reads the override out of a system or its settings object. A target that is none of ours is returned as it is.
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
	for ours, names := range targets {
		if slices.ContainsFunc(names, func(n schemas.BootSource) bool { return strings.EqualFold(string(n), target) }) {
			override.Target = ours
		}
	}
	if uri := boot.text("HttpBootUri"); override.Target == bmc.BootHTTP && uri != "None" {
		override.URI = uri
	}
	return override
}

// SetBootOverride sets the override in the way given, and where the BMC refuses or ignores that, in the next one. Where it seems to
// ignore all of them, the result is that of the last one: it is what may stand unseen, and what comes after it is to be tried next.
func (c *conn) SetBootOverride(ctx context.Context, want bmc.BootOverride, method bmc.BootMethod) (bmc.BootResult, error) {
	const op = "Set the boot override"
	if err := c.refresh(ctx); err != nil {
		return bmc.BootResult{}, err
	}
	source := c.bootSource(ctx)
	if source == nil && c.unavailable(ctx) == nil {
		result, err := c.setOrder(ctx, want)
		return result, wrap(op, err)
	}
	name, err := c.target(source, want)
	if err := c.unavailable(ctx); err != nil {
		return bmc.BootResult{}, wrap(op, err)
	}
	if err != nil {
		return bmc.BootResult{}, &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: err}
	}
	c.readManager(ctx) // its firmware's version may have an entry in the table
	methods := c.BootMethods()
	if i := slices.Index(methods, method); i >= 0 {
		methods = slices.Concat(methods[i:], methods[:i])
	}
	var (
		doubted *bmc.BootResult
		refusal error
	)
	for i, method := range methods {
		if method == methodContinuous && i > 0 && doubted != nil {
			break // an override that is not shown may be pending all the same: it must not become one for ever
		}
		result, err := c.setOverride(ctx, want, name, method)
		switch {
		case errors.Is(err, errNotApplicable):
		case err != nil && !refused(err):
			return bmc.BootResult{}, wrap(op, err)
		case err != nil:
			c.quirk.settings = c.quirk.settings || hasMessageID(err, "OperationSupportedInFutureStateURI")
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

// errNotApplicable means that a way makes no sense for this BMC or this override.
var errNotApplicable = errors.New("no such way here")

// setOverride sets the override in one way and reads it back.
func (c *conn) setOverride(ctx context.Context, want bmc.BootOverride, name schemas.BootSource, method bmc.BootMethod) (bmc.BootResult, error) {
	path, boot, err := c.overrideRequest(want, name, method)
	if err != nil {
		return bmc.BootResult{}, err
	}
	if err := c.patch(ctx, path, map[string]any{"Boot": boot}); err != nil {
		return bmc.BootResult{}, err
	}
	after, err := c.get(ctx, path)
	if err != nil {
		return bmc.BootResult{}, err
	}
	got := readOverride(after)
	if want.Target == bmc.BootNone && slices.Contains(targets[got.Target], c.quirk.home) {
		got = bmc.BootOverride{Target: bmc.BootNone, Mode: got.Mode}
	}
	result := bmc.BootResult{Method: method, ReadBack: &got, Lasts: !want.Continuous && want.Target != bmc.BootNone && got.Continuous}
	result.Doubt = doubt(want, got)
	return result, nil
}

// overrideRequest returns what is written in one way, and to which resource.
func (c *conn) overrideRequest(want bmc.BootOverride, name schemas.BootSource, method bmc.BootMethod) (string, map[string]any, error) {
	path := c.path
	if method == methodSettings || method == methodSettingsNoMode {
		path = c.settings()
	}
	mode := want.Mode
	if mode == "" && c.quirk.keepMode {
		mode = readOverride(c.system).Mode
	}
	boot := map[string]any{"BootSourceOverrideTarget": name, "BootSourceOverrideEnabled": schemas.OnceBootSourceOverrideEnabled}
	switch {
	case want.Target == bmc.BootNone && c.quirk.home == "":
		boot["BootSourceOverrideEnabled"] = schemas.DisabledBootSourceOverrideEnabled
	case want.Target == bmc.BootNone, want.Continuous, method == methodContinuous:
		boot["BootSourceOverrideEnabled"] = schemas.ContinuousBootSourceOverrideEnabled
	}
	withMode := mode != "" && method != methodNoMode && method != methodSettingsNoMode
	if withMode {
		boot["BootSourceOverrideMode"] = schemas.BootSourceOverrideMode(mode)
	}
	if want.Target == bmc.BootNone && c.quirk.disableOnly {
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

// settings returns the path of the settings object (DSP0266, 9.10), or "".
func (c *conn) settings() string {
	if path := c.system.link("@Redfish.Settings", "SettingsObject"); path != "" {
		return path
	}
	if c.quirk.settings {
		return c.path + "/SD"
	}
	return ""
}

// doubt says how what was read back differs from what was wanted. That an override for one boot reads as one for all is no
// doubt but BootResult.Lasts.
func doubt(want, got bmc.BootOverride) string {
	switch {
	case got.Target != want.Target:
		return fmt.Sprintf("the BMC took the target %s and says %s", want.Target, got.Target)
	case want.Continuous && !got.Continuous:
		return "the BMC took an override for every boot and says that it is for one"
	case want.Mode != "" && got.Mode != "" && got.Mode != want.Mode && want.Target != bmc.BootNone:
		return fmt.Sprintf("the BMC was told the mode %s and says %s", want.Mode, got.Mode)
	default:
		return ""
	}
}
