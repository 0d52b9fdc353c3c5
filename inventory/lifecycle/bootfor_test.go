package lifecycle

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

func TestBootFor(t *testing.T) {
	for name, test := range map[string]struct {
		view View
		want Boot
	}{
		"free":                      {freeView(), BootNothing},
		"claimed":                   {claimedView(), BootNothing},
		"booting":                   {bootingView(), BootNetwork},
		"booting, not powered off":  {bootingView(notPoweredOff, notPoweredOn), BootAfterPowerOn},
		"booting, not powered on":   {bootingView(notPoweredOn), BootAfterPowerOn},
		"booting, not counted":      {bootingView(uncounted), BootNothing},
		"booting, record missing":   {bootingView(noRecord), BootNothing},
		"booting, another's record": {bootingView(recordOfOtherClaim), BootNothing},
		"booting, late":             {bootingView(expired), BootNothing},
		"booting, late, in line":    {bootingView(expired, func(v *View) { v.Observed.WaitedAt = noon.Add(-29 * time.Minute) }), BootNetwork},
		"late after it waited":      {bootingView(expired, func(v *View) { v.Observed.WaitedAt = noon.Add(-30 * time.Minute) }), BootNothing},
		"booting, paused":           {bootingView(func(v *View) { v.Consumer.Paused = true }), BootNetwork},
		"booting, machine gone":     {bootingView(func(v *View) { v.Consumer.Found = false }), BootNothing},
		"booting, machine deleted":  {bootingView(deleting), BootNothing},
		"booting, maintenance":      {bootingView(maintenance), BootNothing},
		"seeded, installed":         {bootingView(seeded), BootDisk},
		"seeded, from memory":       {bootingView(seeded, ephemeral), BootNothing},
		"provisioned, installed":    {claimedView(provisioned), BootDisk},
		"provisioned, from memory":  {claimedView(provisioned, ephemeral, poweredOn), BootNothing},
		"state lost":                {claimedView(provisioned, ephemeral), BootNothing},
		"boot failed":               {bootingView(func(v *View) { v.Host.Boot.Failure = &v1alpha1.BootFailure{} }), BootNothing},
		"externally provisioned":    {freeView(external), BootNothing},
		"reported in, from memory":  {bootingView(ephemeral, func(v *View) { v.Host.Boot.ReportedTime = &metav1.Time{Time: noon} }), BootNothing},
		"agent":                     {bootingView(bootsAgent, poweredOn), BootAgent},
		"agent, not powered on":     {bootingView(bootsAgent, notPoweredOn), BootAfterPowerOn},
		"agent, with the data":      {bootingView(bootsAgent, seeded, commitAllowed), BootAgent},
		"agent, done":               {bootingView(bootsAgent, seeded, commitAllowed, agentDone), BootDisk},
		"agent, late":               {bootingView(bootsAgent, expired), BootNothing},
		"inspecting":                {inspectingView(), BootAgent},
		"inspecting, not on":        {inspectingView(notPoweredOn), BootAfterPowerOn},
		"inspecting, not counted":   {inspectingView(uncounted), BootNothing},
		"inspecting, done":          {inspectingView(agentDone), BootNothing},
		"inspecting, late":          {inspectingView(expired), BootNothing},
		"inspecting, claimed":       {inspectingView(claimedDuringInspection), BootNothing},
		"inspecting, provisioned":   {inspectingView(claimedDuringInspection, provisioned), BootDisk},
		"inspecting, void":          {inspectingView(func(v *View) { v.Host.Boot.VoidedTime = at(0) }), BootNothing},
		"inspecting, not wanted":    {inspectingView(func(v *View) { v.Host.Spec.Inspection = "" }), BootNothing},
		"inspecting, quarantined":   {inspectingView(quarantined), BootNothing},
		"erasing":                   {erasingView(), BootAgent},
		"erasing, not powered on":   {erasingView(notPoweredOn), BootAfterPowerOn},
		"erasing, not counted":      {erasingView(uncounted), BootNothing},
		"erasing, done":             {erasingView(agentDone), BootNothing},
		"erasing, failed":           {erasingView(func(v *View) { v.Host.Boot.Failure = &v1alpha1.BootFailure{} }), BootNothing},
		"erasing, void":             {erasingView(func(v *View) { v.Host.Boot.VoidedTime = at(0) }), BootNothing},
		"erasing, late":             {erasingView(expired), BootNothing},
		"erasing, move forgot it":   {erasingView(func(v *View) { v.Consumer.Deleting, v.Consumer.ProviderID = false, "" }), BootNothing},
		"reported in, installed":    {bootingView(func(v *View) { v.Host.Boot.ReportedTime = &metav1.Time{Time: noon} }), BootDisk},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(BootFor(test.view, DefaultSettings())).To(Equal(test.want))
		})
	}
}
