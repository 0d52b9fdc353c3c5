package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestTransition: a server that powers on or off is neither on nor off. It gets no command before the transition had time to end, and a command ends a
// transition that hangs.
func TestTransition(t *testing.T) {
	powersOn := func(v *View) { v.BMC.Power, v.BMC.PowerSince = v1alpha1.PoweringOn, v.Now.Add(-2*time.Second) }
	powersOff := func(v *View) { v.BMC.Power, v.BMC.PowerSince = v1alpha1.PoweringOff, v.Now.Add(-2*time.Second) }
	hangs := func(v *View) { v.BMC.PowerSince = v.Now.Add(-time.Hour) }
	asked := func(v *View) { v.BMC.FirstShutDownAt = v.Now.Add(-time.Hour) }
	notPoweredOn := func(v *View) { v.Host.Boot.PoweredOnTime = nil }
	wanted := func(power v1alpha1.PowerState) func(*View) {
		return func(v *View) { v.Host.Spec.Power = power }
	}
	for name, c := range map[string]struct {
		view View
		want Action
	}{
		"free, powers on":                               {freeView(powersOn), Nothing},
		"free, powers off":                              {freeView(powersOff), Nothing},
		"shall be off, powers off":                      {freeView(wanted(v1alpha1.PowerOff), powersOff), Nothing},
		"shall be off, hangs":                           {freeView(wanted(v1alpha1.PowerOff), powersOff, hangs), ShutDown},
		"shall be off, hangs, was asked":                {freeView(wanted(v1alpha1.PowerOff), powersOff, hangs, asked), ForceOff},
		"shall be on, powers off":                       {freeView(wanted(v1alpha1.PowerOn), powersOff), Nothing},
		"shall be on, powers on":                        {freeView(wanted(v1alpha1.PowerOn), powersOn), Nothing},
		"claimed, powers off":                           {claimedView(powersOff), Nothing},
		"claimed, powers on":                            {claimedView(powersOn), Nothing},
		"boots, is to be off, powers off":               {bootingView(notPoweredOff, notPoweredOn, powersOff), Nothing},
		"boots, is to be off, hangs":                    {bootingView(notPoweredOff, notPoweredOn, powersOff, hangs), ForceOff},
		"boots, was off, powers on without a command":   {bootingView(notPoweredOn, netbootSet, powersOn), Nothing},
		"boots, was off, powers off again":              {bootingView(notPoweredOn, netbootSet, powersOff), Nothing},
		"boots, powers on":                              {bootingView(netbootSet, powersOn), Nothing},
		"is released, powers off":                       {claimedView(provisioned, deleting, powersOff), Nothing},
		"is released, powers on":                        {claimedView(provisioned, deleting, powersOn), Nothing},
		"is released, hangs, was asked":                 {claimedView(provisioned, deleting, powersOff, hangs, asked), ForceOff},
		"is held, powers off":                           {claimedView(provisioned, powerHeld, powerHoldSince, powersOff), Nothing},
		"was held, powers on":                           {claimedView(provisioned, powerHoldSince, powersOn, hangs), Nothing},
		"was held, powers off":                          {claimedView(provisioned, powerHoldSince, powersOff, hangs), Nothing},
		"is held off, somebody switched it on":          {claimedView(provisioned, powerHeld, powerHeldOff, powersOn), RecordPowerHold},
		"is held off, somebody switched it on and off":  {claimedView(provisioned, powerHeld, powerHeldOff, powersOff), RecordPowerHold},
		"ran from memory, powers off, and is not off":   {claimedView(provisioned, ephemeral, powersOff, hangs), Nothing},
		"is cleaned, powers on, so it is not off again": {claimedView(deleting, cleaningBegan, powersOn), RecordCleaning},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(c.view, DefaultSettings())
			g.Expect(step.Action).To(Equal(c.want), "%+v", step)
			if !c.view.Host.Claimed() {
				g.Expect(step.Phase).To(Equal(v1alpha1.PhaseUnavailable))
				g.Expect(step.Reason).To(Equal(v1alpha1.ReasonPowerChanging))
			}
			if step.Action == Nothing && step.State != StateProvisioned {
				g.Expect(step.RequeueAt).To(BeTemporally("<=", c.view.Now.Add(time.Minute)), "it is read again soon")
			}
		})
	}
}
