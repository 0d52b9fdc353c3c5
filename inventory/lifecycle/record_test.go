package lifecycle

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestBootUnknown: in which cases it is not known what a server was given for its claim. Nothing is done then, and nothing is served.
func TestBootUnknown(t *testing.T) {
	stray := func(v *View) { othersRecord(v); voided(v) }
	for name, test := range map[string]struct {
		view    View
		unknown bool
	}{
		"never booted":                      {claimedView(), false},
		"never booted, no record":           {claimedView(noRecord), false},
		"booting":                           {bootingView(), false},
		"the former claim ended":            {bootingView(stray), false},
		"missing":                           {bootingView(noRecord), true},
		"from before the host, this claim":  {bootingView(func(v *View) { v.Spec.Boots = 2 }), true},
		"from before the host, void":        {bootingView(stray, func(v *View) { v.Spec.Boots = 2 }), true},
		"of another claim":                  {bootingView(othersRecord), true},
		"of this claim, which ended":        {bootingView(voided), true},
		"no claimID, never booted":          {claimedView(noClaimID), true},
		"no claimID, no record":             {claimedView(noClaimID, noRecord), true},
		"no claimID, the former is void":    {bootingView(stray, noClaimID), true},
		"missing, a machine in memory runs": {bootingView(noRecord, provisioned, ephemeral), true},
		"missing, an installed one runs":    {bootingView(noRecord, provisioned), false},
		"missing, to be released":           {bootingView(noRecord, deleting), false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(test.view, DefaultSettings())
			if !test.unknown {
				g.Expect(step.State).NotTo(Equal(StateBootUnknown))
				return
			}
			g.Expect(step.State).To(Equal(StateBootUnknown))
			g.Expect(step.Phase).To(Equal(v1alpha1.PhaseBootUnknown))
			g.Expect(step.Action.Commands()).To(BeFalse())
			g.Expect(step.Boot).To(BeNil())
			g.Expect(step.Message).To(ContainSubstring("Restore the BareMetalBoot"))
			g.Expect(BootFor(test.view, DefaultSettings())).To(Equal(BootNothing))
		})
	}
}

// TestLeaveInABoot: a host that boots for nobody is let go when its server is off and its boot void, unless it must get no command.
func TestLeaveInABoot(t *testing.T) {
	leaving := []func(*View){nobodys, beingDeleted, moveFree}
	for name, test := range map[string]struct {
		changes []func(*View)
		action  Action
	}{
		"on":                     {[]func(*View){poweredOn}, ForceOff},
		"off, read once":         {[]func(*View){justOff}, Nothing},
		"off":                    {nil, RecordBoot},
		"off, void":              {[]func(*View){voided}, Forget},
		"never powered off":      {[]func(*View){poweredOn, notPoweredOff}, Forget},
		"maintenance":            {[]func(*View){poweredOn, maintenance}, Forget},
		"externally provisioned": {[]func(*View){poweredOn, external}, Forget},
		"another claim's":        {[]func(*View){poweredOn, othersRecord}, ForceOff},
		"no boot yet":            {[]func(*View){poweredOn, oldRecord}, Forget},
		"no record":              {[]func(*View){poweredOn, noRecord}, Forget},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			step := Next(bootingView(append(leaving, test.changes...)...), DefaultSettings())
			g.Expect(step.State).To(Equal(StateLeaving))
			g.Expect(step.Action).To(Equal(test.action))
			if test.action == RecordBoot {
				g.Expect(step.Boot.VoidedAt).NotTo(BeNil())
			}
		})
	}
}
