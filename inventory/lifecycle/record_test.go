package lifecycle

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestBootUnknown: when it is unknown what a server got for its claim, nothing is done and nothing is served.
func TestBootUnknown(t *testing.T) {
	stray := func(v *View) { recordOfOtherClaim(v); voided(v) }
	claimedLate := func(v *View) { v.Host.Spec.ConsumerRef.BootsBefore = v.Host.Spec.ProviderState.Boots }
	for name, test := range map[string]struct {
		view   View
		remedy string // empty if it is known
	}{
		"never booted":                            {claimedView(), ""},
		"never booted, no record":                 {claimedView(noRecord), ""},
		"booting":                                 {bootingView(), ""},
		"the former claim ended":                  {bootingView(stray), ""},
		"of another claim, from before the claim": {bootingView(recordOfOtherClaim, claimedLate, func(v *View) { v.Host.Boot.Number = 0 }), ""},
		"missing, not booted since the claim":     {bootingView(noRecord, claimedLate), ""},
		"from before the host, and the claim":     {bootingView(stray, claimedLate, func(v *View) { v.Host.Boot.Number = 0 }), ""},
		"this claim's, from before the host, as the host says before the claim": {bootingView(claimedLate, func(v *View) { v.Host.Boot.Number = 0 }), "Restore the BareMetalBoot from a backup"},
		"missing":                           {bootingView(noRecord), "Restore the BareMetalBoot from a backup"},
		"from before the host, this claim":  {bootingView(func(v *View) { v.Host.Spec.ProviderState.Boots = 2 }), "Restore the BareMetalBoot from a backup"},
		"from before the host, void":        {bootingView(stray, func(v *View) { v.Host.Spec.ProviderState.Boots = 2 }), "Restore the BareMetalBoot from a backup"},
		"of another claim":                  {bootingView(recordOfOtherClaim), "Correct spec.consumerRef"},
		"of this claim, which ended":        {bootingView(voided), "Correct spec.consumerRef"},
		"no claimID, never booted":          {claimedView(noClaimID), "Restore spec.consumerRef.claimID"},
		"no claimID, no record":             {claimedView(noClaimID, noRecord), "Restore spec.consumerRef.claimID"},
		"no claimID, the former is void":    {bootingView(stray, noClaimID), "Restore spec.consumerRef.claimID"},
		"missing, a machine in memory runs": {bootingView(noRecord, provisioned, ephemeral), "Restore the BareMetalBoot from a backup"},
		"missing, an installed one runs":    {bootingView(noRecord, provisioned), ""},
		"missing, to be released":           {bootingView(noRecord, deleting), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(test.view, DefaultSettings())
			if test.remedy == "" {
				g.Expect(step.State).NotTo(Equal(StateBootUnknown))
				return
			}
			g.Expect(step.State).To(Equal(StateBootUnknown))
			g.Expect(step.Phase).To(Equal(v1alpha1.PhaseBootUnknown))
			g.Expect(step.Action.Commands()).To(BeFalse())
			g.Expect(step.Boot).To(BeNil())
			g.Expect(step.Message).To(And(ContainSubstring(test.remedy), HaveSuffix(", or delete the Machine to have it replaced")))
			g.Expect(BootFor(test.view, DefaultSettings())).To(Equal(BootNothing))
		})
	}
}

// TestNumberAfterUncountedBoot: the boot after one that was recorded, and ended before spec.providerState.boots counted it, has a number of its own.
func TestNumberAfterUncountedBoot(t *testing.T) {
	uncounted := func(v *View) {
		v.Host.Boot, v.Host.Spec.ProviderState.Boots = &v1alpha1.BareMetalBootSpec{Number: 7, Attempt: 1, Purpose: v1alpha1.PurposeProvision}, 6
		recordOfOtherClaim(v)
		voided(v)
	}
	for name, v := range map[string]View{
		"of a machine":     claimedView(uncounted),
		"of an inspection": freeView(byAgent, inspectionRequested, uncounted),
		"of an erasure":    freeView(toErase, uncounted),
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(v, DefaultSettings())
			g.Expect(step.Action).To(Equal(RecordBoot), step.Message)
			g.Expect(step.Boot.Number).To(Equal(int32(8)))
		})
	}
}

// TestDeleteDuringBoot: an unclaimed host with a boot in flight is removed once its server is off and its boot voided, unless the provider must not
// command it.
func TestDeleteDuringBoot(t *testing.T) {
	leaving := []func(*View){unclaimed, beingDeleted, moveFree}
	for name, test := range map[string]struct {
		changes []func(*View)
		action  Action
	}{
		"on":                                 {[]func(*View){poweredOn}, ForceOff},
		"off, read once":                     {[]func(*View){justOff}, Nothing},
		"off":                                {nil, RecordBoot},
		"its machine waits, read long ago":   {[]func(*View){bootMachinePending, stale}, ReadPower},
		"its machine waits, the BMC is away": {[]func(*View){bootMachinePending, bmcDown}, Nothing},
		"its machine waits, read before a command": {[]func(*View){bootMachinePending, commanded(CommandForceOff, 0)}, ReadPower},
		"its machine waits, the BMC is busy":       {[]func(*View){bootMachinePending, stale, func(v *View) { v.BMC.Busy = true }}, Nothing},
		"off, and its machine waits":               {[]func(*View){bootMachinePending}, Forget},
		"on, and its machine waits":                {[]func(*View){poweredOn, bootMachinePending}, ForceOff},
		"off, void":                                {[]func(*View){voided}, Forget},
		"never powered off":                        {[]func(*View){poweredOn, notPoweredOff}, Forget},
		"maintenance":                              {[]func(*View){poweredOn, maintenance}, Forget},
		"externally provisioned":                   {[]func(*View){poweredOn, external}, Forget},
		"on, and it reported in":                   {[]func(*View){poweredOn, reported}, Forget},
		"on, and a machine may run there":          {[]func(*View){poweredOn, machineInNamespace}, Forget},
		"another claim's":                          {[]func(*View){poweredOn, recordOfOtherClaim}, ForceOff},
		"no boot yet":                              {[]func(*View){poweredOn, oldRecord}, Forget},
		"no record":                                {[]func(*View){poweredOn, noRecord}, Forget},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(bootingView(append(leaving, test.changes...)...), DefaultSettings())
			g.Expect(step.State).To(Equal(StateDeleting))
			g.Expect(step.Action).To(Equal(test.action))
			if test.action == RecordBoot {
				g.Expect(step.Boot.VoidedTime).NotTo(BeNil())
			}
		})
	}
}

// TestCurrentBootIsOfTheClaim: the record of a host boot is not the boot of a claim, also if a person gave it the claimID of one.
func TestCurrentBootIsOfTheClaim(t *testing.T) {
	for name, test := range map[string]struct {
		boot    v1alpha1.BareMetalBootSpec
		current bool
	}{
		"provision": {v1alpha1.BareMetalBootSpec{Purpose: v1alpha1.PurposeProvision}, true},
		"release":   {v1alpha1.BareMetalBootSpec{Purpose: v1alpha1.PurposeClean}, true},
		"inspect":   {v1alpha1.BareMetalBootSpec{Purpose: v1alpha1.PurposeInspect}, false},
		"configure": {v1alpha1.BareMetalBootSpec{Purpose: v1alpha1.PurposeConfigure}, false},
		"erasure":   {v1alpha1.BareMetalBootSpec{Purpose: v1alpha1.PurposeClean, ErasureRequest: &v1alpha1.BootErasureRequest{Name: "r"}}, false},
	} {
		h := Host{Boot: &test.boot}
		h.Spec.ConsumerRef, h.Boot.ClaimID = &v1alpha1.ConsumerReference{ClaimID: "c"}, "c"
		if is := h.CurrentBoot() != nil; is != test.current {
			t.Errorf("%s: %v", name, is)
		}
	}
}
