package host

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// bootDevices makes servers boot by the method of their boots: it sets and clears the boot override, and inserts and ejects the boot medium.
type bootDevices struct {
	observations *observations
	mediaURLs    MediaURLs
	mediaToken   func(ctx context.Context, boot *v1alpha1.BareMetalBoot) (string, error) // nil offers no boot media
}

// overrideChoice is one combination of boot target and method to make a server boot from the network.
type overrideChoice struct {
	target bmc.BootTarget
	method bmc.BootMethod
}

// firmwareInterface returns the boot mode for requests to the BMC. BMCs have no boot mode for Secure Boot: it is a setting of the UEFI firmware.
func firmwareInterface(mode v1alpha1.BootMode) bmc.BootMode {
	if mode == v1alpha1.BootModeBIOS {
		return bmc.BootLegacy
	}
	return bmc.BootUEFI
}

// overrideChoices lists the combinations to try, the most likely first: PXE with each method of the driver. UEFI HTTP boot, if the BMC offers it, is the
// third, so that the usual three attempts include it.
func overrideChoices(methods []bmc.BootMethod, capabilities []string, mode bmc.BootMode) []overrideChoice {
	var list []overrideChoice
	if slices.Contains(capabilities, string(bmc.CanBootPXE)) || len(capabilities) == 0 {
		for _, method := range methods {
			list = append(list, overrideChoice{bmc.BootPXE, method})
		}
	}
	if mode != bmc.BootLegacy && slices.Contains(capabilities, string(bmc.CanBootHTTP)) && len(methods) > 0 {
		list = slices.Insert(list, min(2, len(list)), overrideChoice{bmc.BootHTTP, methods[0]})
	}
	return list
}

// orderChoices orders the choices for a boot attempt. If the last choice worked, or was made for the same boot, it comes first; otherwise it comes last,
// and the attempt starts with the choice after it. HTTP boot is one choice, whatever method the driver used.
func orderChoices(list []overrideChoice, last *v1alpha1.BootOverrideStatus, bootNumber int32) []overrideChoice {
	if len(list) == 0 {
		return []overrideChoice{{target: bmc.BootPXE}}
	}
	if last == nil || last.BootMethod != "" { // an override for a boot medium shows nothing about PXE
		return list
	}
	before := overrideChoice{bmc.BootTarget(last.Target), bmc.BootMethod(last.Method)}
	i := slices.IndexFunc(list, func(c overrideChoice) bool {
		return c.target == before.target && (c.method == before.method || c.target == bmc.BootHTTP)
	})
	switch {
	case i < 0:
		return list
	case last.Worked || last.Boot == bootNumber:
		return slices.Concat([]overrideChoice{before}, list[i+1:], list[:i])
	default:
		return slices.Concat(list[i+1:], list[:i+1])
	}
}

// setNetworkBoot instructs the server to boot by the method of its boot.
func (d *bootDevices) setNetworkBoot(ctx context.Context, j job, c bmc.Client) error {
	err := d.removeOldMedium(ctx, j, c)
	if err == nil {
		switch j.method {
		case v1alpha1.MethodUefiHTTP:
			err = d.setMediumURL(ctx, j, c)
		case v1alpha1.MethodVirtualMedia:
			err = d.insertMedium(ctx, j, c)
		default:
			err = d.setPXE(ctx, j, c)
		}
	}
	return d.noteMethodRefused(j, maskError(err))
}

// setPXE makes the network the next boot device. If the BMC answers a choice with an error, the next choice is tried immediately: the server has
// not booted, so no attempt is lost.
func (d *bootDevices) setPXE(ctx context.Context, j job, c bmc.Client) error {
	var refused error
	for _, chosen := range orderChoices(overrideChoices(c.BootMethods(), j.capabilities, j.mode), j.lastOverride, j.boot.Number) {
		err := d.setOverride(ctx, j, c, bmc.BootOverride{Target: chosen.target, Mode: j.mode}, chosen.method, "")
		if err == nil || !answeredByBMC(err) {
			return err
		}
		refused = cmp.Or(refused, err)
	}
	return refused
}

// setOverride sets a boot override, and records how that ended. doubt, if not empty, says what else may keep the server from booting by it.
func (d *bootDevices) setOverride(ctx context.Context, j job, c bmc.Client, override bmc.BootOverride, method bmc.BootMethod, doubt string) error {
	result, err := c.SetBootOverride(ctx, override, method)
	if err != nil && !answeredByBMC(err) {
		return err
	}
	tried := &v1alpha1.BootOverrideStatus{
		Boot: j.boot.Number, Target: controllers.OneOf(override.Target, v1alpha1.TargetPXE, v1alpha1.TargetHTTP, v1alpha1.TargetCD), Method: string(cmp.Or(result.Method, method)),
		Warning: controllers.Clip(maskMedia(cmp.Or(result.Doubt, doubt)), controllers.MaxText), Persistent: result.Lasts,
	}
	if j.method != v1alpha1.MethodPXE {
		tried.BootMethod = j.method
	}
	if err != nil {
		tried.Warning = controllers.Clip(maskMedia(err.Error()), controllers.MaxText)
	}
	d.observations.updateByJob(j, func(h *hostObservation) {
		h.override, h.bmc.OverrideSet = tried, true // the BMC may have set it although it answered with an error
		if err == nil {
			h.bmc.NetworkBootNumber, h.bmc.NetworkBootSetAt = j.boot.Number, j.decidedAt // the job may end after the next attempt began, and is not for it
		}
	})
	return err
}

// clearOverrideIfNeeded reads the boot override and clears it, after the job was confirmed. It does nothing if the BMC reports no override, unless mayHide is true: the override
// may be set without being reported. set is true if the provider set an override.
func (j job) clearOverrideIfNeeded(ctx context.Context, c bmc.Client, method bmc.BootMethod, set, mayHide bool) error {
	const op = "Clear the boot override"
	current, err := c.BootOverride(ctx)
	switch {
	case err == nil && current.Target == bmc.BootNone && !mayHide, bmc.KindOf(err) == bmc.Unsupported && err != nil && !set:
		return nil
	case err != nil && bmc.KindOf(err) != bmc.Unsupported:
		return err
	}
	if j.confirm != nil {
		if err := j.confirm(ctx); err != nil {
			return err
		}
	}
	result, err := c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone}, method)
	if err == nil && result.Doubt != "" {
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: errors.New(result.Doubt)}
	}
	return err
}

// clearBootOverride clears an override that has done its work, unless the BMC cleared it. It trusts a BMC that reports no override and set it without
// doubt, so that it does not write to a working BMC while the server boots. A refusal is not retried: the boot server also decides what a host boots.
func (d *bootDevices) clearBootOverride(ctx context.Context, j job, c bmc.Client) error {
	override := ptr.Deref(j.lastOverride, v1alpha1.BootOverrideStatus{})
	err := j.clearOverrideIfNeeded(ctx, c, bmc.BootMethod(override.Method), true, override.Warning != "")
	if err != nil && !answeredByBMC(err) {
		return err
	}
	d.observations.updateByJob(j, func(h *hostObservation) { h.noteOverrideCleared(err) })
	return asFinal(err)
}

// noteOverrideCleared records that an override is gone, or that the BMC refuses to clear it and is not asked again.
func (h *hostObservation) noteOverrideCleared(err error) {
	h.bmc.OverrideSet = false
	if err == nil {
		h.updateOverride(func(o *v1alpha1.BootOverrideStatus) { o.Persistent = false })
	}
}

// answeredByBMC is true for an error that is the BMC's answer: a retry would get the same answer. A job that could not be confirmed has asked the BMC nothing.
func answeredByBMC(err error) bool {
	if errors.Is(err, errOutdated) || errors.Is(err, errRecheckFailed) {
		return false
	}
	kind := bmc.KindOf(err)
	return kind == bmc.Failed || kind == bmc.Unsupported || kind == bmc.NotFound
}
