package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// overrideChoice is one way to make a server boot from the network.
type overrideChoice struct {
	target bmc.BootTarget
	method bmc.BootMethod
}

// firmwareInterface is what a BMC is asked for. BMCs know no boot mode with Secure Boot: it is a setting of UEFI firmware.
func firmwareInterface(mode v1alpha1.BootMode) bmc.BootMode {
	if mode == v1alpha1.BootModeLegacy {
		return bmc.BootLegacy
	}
	return bmc.BootUEFI
}

// overrideChoices lists what to try, the likeliest first: the ways that the driver knows, and as the third UEFI HTTP boot where it is
// offered, so that the usual three attempts come to it.
func overrideChoices(ways []bmc.BootMethod, capabilities []string, mode bmc.BootMode) []overrideChoice {
	var list []overrideChoice
	if slices.Contains(capabilities, string(bmc.CanBootPXE)) || len(capabilities) == 0 {
		for _, way := range ways {
			list = append(list, overrideChoice{bmc.BootPXE, way})
		}
	}
	if mode != bmc.BootLegacy && slices.Contains(capabilities, string(bmc.CanBootHTTP)) && len(ways) > 0 {
		list = slices.Insert(list, min(2, len(list)), overrideChoice{bmc.BootHTTP, ways[0]})
	}
	return list
}

// orderChoices orders the choices for this attempt: first what worked the last time, the same again for the same attempt, and otherwise what
// comes after it; then the others. HTTP boot is one choice, whatever way the driver came to.
func orderChoices(list []overrideChoice, last *v1alpha1.BootOverrideStatus, boot int32) []overrideChoice {
	if len(list) == 0 {
		return []overrideChoice{{target: bmc.BootPXE}}
	}
	if last == nil {
		return list
	}
	before := overrideChoice{bmc.BootTarget(last.Target), bmc.BootMethod(last.Method)}
	i := slices.IndexFunc(list, func(c overrideChoice) bool {
		return c.target == before.target && (c.method == before.method || c.target == bmc.BootHTTP)
	})
	switch {
	case i < 0:
		return list
	case last.Worked || last.Boot == boot:
		return slices.Concat([]overrideChoice{before}, list[i+1:], list[:i])
	default:
		return slices.Concat(list[i+1:], list[:i+1])
	}
}

// setNetworkBoot makes the network the next boot device. A BMC that answers with an error is told in the next way at once, for nothing
// was booted that could come to the network.
func (r *Reconciler) setNetworkBoot(ctx context.Context, j job, c bmc.Client) error {
	var refused error
	for _, chosen := range orderChoices(overrideChoices(c.BootMethods(), j.capabilities, j.mode), j.lastOverride, j.bootNumber) {
		result, err := c.SetBootOverride(ctx, bmc.BootOverride{Target: chosen.target, Mode: j.mode}, chosen.method)
		if err != nil && !answeredByBMC(err) {
			return err
		}
		tried := &v1alpha1.BootOverrideStatus{
			Boot: j.bootNumber, Target: string(chosen.target), Method: string(cmp.Or(result.Method, chosen.method)),
			Doubt: controllers.Clip(result.Doubt, controllers.MaxText), Lasts: result.Lasts,
		}
		if err != nil {
			tried.Doubt = controllers.Clip(err.Error(), controllers.MaxText)
			refused = cmp.Or(refused, err)
		}
		r.updateObservation(j, func(h *hostObservation) {
			h.override, h.bmc.OverrideSet = tried, true // also an answer that is an error may have come after it was done
			if err == nil {
				h.bmc.NetworkBootSetAt = r.Clock.Now()
			}
		})
		if err == nil {
			return nil
		}
	}
	return refused
}

// overrideNote says how the override was set, for a person who waits for the boot.
func overrideNote(o *v1alpha1.BootOverrideStatus) string {
	note := fmt.Sprintf(". It was told to boot from %s by way %q", o.Target, o.Method)
	if o.Doubt != "" {
		note += ", which is doubtful: " + o.Doubt
	}
	return note
}

// clearOverride takes a boot override back: one that shows, and one that may stand although it does not show. set is true when the provider
// set one.
func clearOverride(ctx context.Context, c bmc.Client, way bmc.BootMethod, set, mayHide bool) error {
	const op = "Take the boot override back"
	now, err := c.BootOverride(ctx)
	switch {
	case err == nil && now.Target == bmc.BootNone && !mayHide, bmc.KindOf(err) == bmc.Unsupported && err != nil && !set:
		return nil
	case err != nil && bmc.KindOf(err) != bmc.Unsupported:
		return err
	}
	result, err := c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone}, way)
	if err == nil && result.Doubt != "" {
		return &bmc.Error{Kind: bmc.Failed, Op: op, Err: errors.New(result.Doubt)}
	}
	return err
}

// clearBootOverride takes an override back that did its work, unless the BMC did so itself. What shows is believed, so that a BMC that
// works is not written to while its server boots. It is not tried for ever: what a host boots is decided by the boot server as well.
func (r *Reconciler) clearBootOverride(ctx context.Context, j job, c bmc.Client) error {
	o := ptr.Deref(j.lastOverride, v1alpha1.BootOverrideStatus{})
	err := clearOverride(ctx, c, bmc.BootMethod(o.Method), true, o.Doubt != "")
	if err != nil && !answeredByBMC(err) {
		return err
	}
	r.updateObservation(j, func(h *hostObservation) { h.noteOverrideCleared(err) })
	return asFinal(err)
}

// noteOverrideCleared notes that an override is gone, or that the BMC will not have it so and is not asked again.
func (h *hostObservation) noteOverrideCleared(err error) {
	h.bmc.OverrideSet = false
	if err == nil {
		h.updateOverride(func(o *v1alpha1.BootOverrideStatus) { o.Lasts = false })
	}
}

// answeredByBMC is true for an error that is the BMC's answer: asking again gets the same.
func answeredByBMC(err error) bool {
	kind := bmc.KindOf(err)
	return kind == bmc.Failed || kind == bmc.Unsupported || kind == bmc.NotFound
}
