package host

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// choice is one way to make a server boot from the network.
type choice struct {
	target bmc.BootTarget
	way    bmc.Way
}

// choices lists what to try, the likeliest first: the ways that the driver knows, and as the third UEFI HTTP boot where it is
// offered, so that the usual three attempts come to it.
func choices(ways []bmc.Way, capabilities []string, mode bmc.BootMode) []choice {
	var list []choice
	if slices.Contains(capabilities, string(bmc.CanBootPXE)) || len(capabilities) == 0 {
		for _, way := range ways {
			list = append(list, choice{bmc.BootPXE, way})
		}
	}
	if mode == bmc.BootUEFI && slices.Contains(capabilities, string(bmc.CanBootHTTP)) && len(ways) > 0 {
		list = slices.Insert(list, min(2, len(list)), choice{bmc.BootHTTP, ways[0]})
	}
	return list
}

// choose picks what to try in this attempt: what worked the last time, the same again for the same attempt, and otherwise what
// comes after it.
func choose(list []choice, last *v1alpha1.BootOverrideStatus, attempt int32) choice {
	if len(list) == 0 {
		return choice{target: bmc.BootPXE}
	}
	if last == nil {
		return list[0]
	}
	i := slices.Index(list, choice{bmc.BootTarget(last.Target), bmc.Way(last.Way)})
	if i >= 0 && !last.Worked && last.Attempt != attempt {
		i++
	}
	return list[max(i, 0)%len(list)]
}

// setNetworkBoot makes the network the next boot device.
func (r *Reconciler) setNetworkBoot(ctx context.Context, j job, c bmc.Client) error {
	chosen := choose(choices(c.BootWays(), j.capabilities, j.mode), j.override, j.attempt)
	result, err := c.SetBootOverride(ctx, bmc.BootOverride{Target: chosen.target, Mode: j.mode}, chosen.way)
	if err != nil {
		return err
	}
	override := &v1alpha1.BootOverrideStatus{
		Attempt: j.attempt, Target: string(chosen.target), Way: string(result.Way), Doubt: result.Doubt, Lasts: result.Lasts,
	}
	r.learn(j, func(h *hostFacts) {
		h.override = override
		h.bmc.NetworkBootSetAt, h.bmc.OverrideLasts, h.bmc.OverrideNote = time.Now(), result.Lasts, noteOf(override)
	})
	return nil
}

// noteOf says how the override was set, for a person who waits for the boot.
func noteOf(o *v1alpha1.BootOverrideStatus) string {
	note := fmt.Sprintf(". It was told to boot from %s by way %q", o.Target, o.Way)
	if o.Doubt != "" {
		note += ", which is doubtful: " + o.Doubt
	}
	return note
}

// clearBootOverride takes back an override that would hold for every boot. It is not tried for ever: what a host boots is
// decided by the boot server as well.
func (r *Reconciler) clearBootOverride(ctx context.Context, j job, c bmc.Client) error {
	_, err := c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone}, bmc.Way(overrideWay(j.override)))
	if err == nil || answered(err) {
		r.learn(j, func(h *hostFacts) {
			h.bmc.OverrideLasts = false
			if h.override = j.override.DeepCopy(); h.override != nil {
				h.override.Lasts = false
			}
		})
	}
	return err
}

func overrideWay(o *v1alpha1.BootOverrideStatus) string {
	if o == nil {
		return ""
	}
	return o.Way
}

// cleanUp brings a BMC back to what a free host's is: no override, nothing in the virtual drives. A BMC that refuses is not
// asked for ever; the operation's outcome says that it did.
func (r *Reconciler) cleanUp(ctx context.Context, j job, c bmc.Client) error {
	err := clearOverrideIfSet(ctx, c)
	if media, ok := c.(bmc.VirtualMedia); ok && err == nil {
		err = media.EjectMedia(ctx)
	}
	if err == nil || answered(err) {
		r.learn(j, func(h *hostFacts) { h.bmc.CleanedAt, h.bmc.OverrideLasts = time.Now(), false })
	}
	if bmc.KindOf(err) == bmc.Unsupported {
		return nil
	}
	return err
}

// clearOverrideIfSet leaves a BMC that has no override alone, and one that cannot tell.
func clearOverrideIfSet(ctx context.Context, c bmc.Client) error {
	override, err := c.BootOverride(ctx)
	if err != nil || override.Target == bmc.BootNone {
		if bmc.KindOf(err) == bmc.Unsupported {
			return nil
		}
		return err
	}
	_, err = c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone}, "")
	return err
}

// answered is true for an error that is the BMC's answer: asking again gets the same.
func answered(err error) bool {
	kind := bmc.KindOf(err)
	return kind == bmc.Failed || kind == bmc.Unsupported || kind == bmc.NotFound
}
