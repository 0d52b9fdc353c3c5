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

// choice is one way to make a server boot from the network.
type choice struct {
	target bmc.BootTarget
	way    bmc.BootMethod
}

// firmwareInterface is what a BMC is asked for. BMCs know no boot mode with Secure Boot: it is a setting of UEFI firmware.
func firmwareInterface(mode v1alpha1.BootMode) bmc.BootMode {
	if mode == v1alpha1.BootModeLegacy {
		return bmc.BootLegacy
	}
	return bmc.BootUEFI
}

// choices lists what to try, the likeliest first: the ways that the driver knows, and as the third UEFI HTTP boot where it is
// offered, so that the usual three attempts come to it.
func choices(ways []bmc.BootMethod, capabilities []string, mode bmc.BootMode) []choice {
	var list []choice
	if slices.Contains(capabilities, string(bmc.CanBootPXE)) || len(capabilities) == 0 {
		for _, way := range ways {
			list = append(list, choice{bmc.BootPXE, way})
		}
	}
	if mode != bmc.BootLegacy && slices.Contains(capabilities, string(bmc.CanBootHTTP)) && len(ways) > 0 {
		list = slices.Insert(list, min(2, len(list)), choice{bmc.BootHTTP, ways[0]})
	}
	return list
}

// choose orders the choices for this attempt: first what worked the last time, the same again for the same attempt, and otherwise what
// comes after it; then the others. HTTP boot is one choice, whatever way the driver came to.
func choose(list []choice, last *v1alpha1.BootOverrideStatus, boot int32) []choice {
	if len(list) == 0 {
		return []choice{{target: bmc.BootPXE}}
	}
	if last == nil {
		return list
	}
	before := choice{bmc.BootTarget(last.Target), bmc.BootMethod(last.Method)}
	i := slices.IndexFunc(list, func(c choice) bool {
		return c.target == before.target && (c.way == before.way || c.target == bmc.BootHTTP)
	})
	switch {
	case i < 0:
		return list
	case last.Worked || last.Boot == boot:
		return slices.Concat([]choice{before}, list[i+1:], list[:i])
	default:
		return slices.Concat(list[i+1:], list[:i+1])
	}
}

// setNetworkBoot makes the network the next boot device. A BMC that answers with an error is told in the next way at once, for nothing
// was booted that could come to the network.
func (r *Reconciler) setNetworkBoot(ctx context.Context, j job, c bmc.Client) error {
	var refused error
	for _, chosen := range choose(choices(c.BootMethods(), j.capabilities, j.mode), j.override, j.boot) {
		result, err := c.SetBootOverride(ctx, bmc.BootOverride{Target: chosen.target, Mode: j.mode}, chosen.way)
		if err != nil && !answered(err) {
			return err
		}
		tried := &v1alpha1.BootOverrideStatus{
			Boot: j.boot, Target: string(chosen.target), Method: string(cmp.Or(result.Method, chosen.way)),
			Warning: controllers.Clip(result.Doubt, controllers.MaxText), Persistent: result.Lasts,
		}
		if err != nil {
			tried.Warning = controllers.Clip(err.Error(), controllers.MaxText)
			refused = cmp.Or(refused, err)
		}
		r.learn(j, func(h *hostFacts) {
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

// noteOf says how the override was set, for a person who waits for the boot.
func noteOf(o *v1alpha1.BootOverrideStatus) string {
	note := fmt.Sprintf(". It was told to boot from %s by way %q", o.Target, o.Method)
	if o.Warning != "" {
		note += ", which is doubtful: " + o.Warning
	}
	return note
}

// takeBack takes a boot override back: one that shows, and one that may stand although it does not show. set is true when the provider
// set one.
func takeBack(ctx context.Context, c bmc.Client, way bmc.BootMethod, set, mayHide bool) error {
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
	o := ptr.Deref(j.override, v1alpha1.BootOverrideStatus{})
	err := takeBack(ctx, c, bmc.BootMethod(o.Method), true, o.Warning != "")
	if err != nil && !answered(err) {
		return err
	}
	r.learn(j, func(h *hostFacts) { h.tookBack(err) })
	return refuse(err)
}

// tookBack notes that an override is gone, or that the BMC will not have it so and is not asked again.
func (h *hostFacts) tookBack(err error) {
	h.bmc.OverrideSet = false
	if err == nil {
		h.changeOverride(func(o *v1alpha1.BootOverrideStatus) { o.Persistent = false })
	}
}

// cleanUp brings a BMC back to what a free host's is: no override, nothing in the virtual drives. One that the provider set is taken
// back even if it does not show: it would hold for the next machine. A BMC that does not take the
// override back is not asked for ever, and the operation's outcome says so: what stands makes the server ask the boot server, which gives it nothing. An
// image that stays in a drive is another matter: it may hold what the last machine knew. How often a BMC refuses to eject it is counted.
func (r *Reconciler) cleanUp(ctx context.Context, j job, c bmc.Client) error {
	set := j.override != nil
	back := takeBack(ctx, c, bmc.BootMethod(ptr.Deref(j.override, v1alpha1.BootOverrideStatus{}).Method), set, set)
	var eject error
	if media, ok := c.(bmc.VirtualMedia); ok && bmc.KindOf(back) != bmc.Unauthorized { // one refused login is enough
		if eject = media.EjectMedia(ctx); bmc.KindOf(eject) == bmc.Unsupported {
			eject = nil // where there is no virtual drive nothing is in it
		}
	}
	switch { // the first error tells the kind
	case back != nil && !answered(back):
		return errors.Join(back, eject)
	case eject != nil && !answered(eject):
		return errors.Join(eject, back)
	}
	r.learn(j, func(h *hostFacts) {
		h.tookBack(back)
		if eject == nil {
			h.bmc.CleanedAt, h.bmc.CleanUpFailures, h.bmc.CleanUpError = r.Clock.Now(), 0, ""
			return
		}
		h.bmc.CleanUpFailures++
		h.bmc.CleanUpTriedAt = r.Clock.Now()
		h.bmc.CleanUpError = controllers.Clip(eject.Error(), controllers.MaxText)
	})
	if eject == nil {
		r.tellJob(j, controllers.EventCleaned, "Release", "The boot override is taken back, and the virtual drives are empty")
	}
	return refuse(errors.Join(back, eject))
}

// answered is true for an error that is the BMC's answer: asking again gets the same.
func answered(err error) bool {
	kind := bmc.KindOf(err)
	return kind == bmc.Failed || kind == bmc.Unsupported || kind == bmc.NotFound
}
