package v1alpha1_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// TestBootIsWrittenOnce: within a boot, the fields about what was served and for which claim are immutable. The number never decreases.
func TestBootIsWrittenOnce(t *testing.T) {
	namespace := env.Namespace(t)
	then, later := metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)), metav1.NewTime(time.Date(2026, 1, 1, 12, 0, 1, 0, time.UTC))
	full := func() *v1alpha1.BareMetalBoot {
		return &v1alpha1.BareMetalBoot{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "h-"},
			Spec: v1alpha1.BareMetalBootSpec{
				Number: 3, Attempt: 1, Purpose: v1alpha1.PurposeProvision, ClaimID: "c", MachineName: "m", StartTime: then, PoweredOffTime: &then, PoweredOnTime: &then,
				Identity: &v1alpha1.HostIdentity{BootMACAddresses: []string{"52:54:00:00:00:01"}, BMC: "192.0.2.9"}, AgentKey: strings.Repeat("k", 43), AgentDoneTime: &then, AgentSecureBoot: wire.SecureBootEnabled, AgentRefusedTime: &then,
				Erasure:  &v1alpha1.ErasureReport{Policy: wire.PolicyMetadata, StartTime: then, EndTime: then, AgentRelease: "v1"},
				DHCPTime: &then, ScriptAddress: "192.0.2.1", DataAddress: "192.0.2.1", DataServedTime: &then, CommitAllowedTime: &then,
				Failure: &v1alpha1.BootFailure{Reason: "R", Message: "m"}, VoidedTime: &then,
			},
		}
	}
	type spec = *v1alpha1.BareMetalBootSpec
	for what, c := range map[string]struct {
		change func(spec)
		says   string
	}{
		"the number falls":           {func(b spec) { b.Number = 2 }, "number must not decrease"},
		"the number disappears":      {func(b spec) { b.Number = 0 }, "number must not decrease"},
		"another purpose":            {func(b spec) { b.Purpose = "Clean" }, "must not change within a boot"},
		"no purpose":                 {func(b spec) { b.Purpose = "" }, "must not change within a boot"},
		"another claim":              {func(b spec) { b.ClaimID = "d" }, "must not change within a boot"},
		"no claim":                   {func(b spec) { b.ClaimID = "" }, "must not change within a boot"},
		"another machine":            {func(b spec) { b.MachineName = "n" }, "must not change within a boot"},
		"another request":            {func(b spec) { b.ErasureRequest = &v1alpha1.BootErasureRequest{Name: "r", SerialNumber: "s"} }, "must not change within a boot"},
		"another policy":             {func(b spec) { b.CleaningPolicy = wire.PolicyClear }, "must not change within a boot"},
		"another method":             {func(b spec) { b.Method = v1alpha1.MethodVirtualMedia }, "must not change within a boot"},
		"another identity":           {func(b spec) { b.Identity = nil }, "are immutable once they are set"},
		"another key":                {func(b spec) { b.AgentKey = "" }, "are immutable once they are set"},
		"the agent not done":         {func(b spec) { b.AgentDoneTime = nil }, "are immutable once they are set"},
		"another Secure Boot":        {func(b spec) { b.AgentSecureBoot = wire.SecureBootDisabled }, "are immutable once they are set"},
		"no Secure Boot":             {func(b spec) { b.AgentSecureBoot = "" }, "are immutable once they are set"},
		"the agent not refused":      {func(b spec) { b.AgentRefusedTime = nil }, "are immutable once they are set"},
		"no erasure":                 {func(b spec) { b.Erasure = nil }, "are immutable once they are set"},
		"another client":             {func(b spec) { b.ScriptAddress = "192.0.2.2" }, "are immutable once they are set"},
		"another system":             {func(b spec) { b.DataAddress = "192.0.2.2" }, "are immutable once they are set"},
		"no system":                  {func(b spec) { b.DataAddress = "" }, "are immutable once they are set"},
		"the data served later":      {func(b spec) { b.DataServedTime = &later }, "are immutable once they are set"},
		"the data not served":        {func(b spec) { b.DataServedTime = nil }, "are immutable once they are set"},
		"the commit later":           {func(b spec) { b.CommitAllowedTime = &later }, "are immutable once they are set"},
		"no commit":                  {func(b spec) { b.CommitAllowedTime = nil }, "are immutable once they are set"},
		"another failure":            {func(b spec) { b.Failure = &v1alpha1.BootFailure{Reason: "S", Message: "m"} }, "are immutable once they are set"},
		"no failure":                 {func(b spec) { b.Failure = nil }, "are immutable once they are set"},
		"void later":                 {func(b spec) { b.VoidedTime = &later }, "are immutable once they are set"},
		"not void":                   {func(b spec) { b.VoidedTime = nil }, "are immutable once they are set"},
		"an unknown purpose":         {func(b spec) { b.Number, b.Purpose = 4, "Dance" }, "spec.purpose"},
		"a failure without a reason": {func(b spec) { b.Number, b.Failure = 4, &v1alpha1.BootFailure{Message: "m"} }, "spec.failure.reason"},
	} {
		t.Run(what, func(t *testing.T) {
			boot := full()
			env.Create(t, boot)
			c.change(&boot.Spec)
			err := env.Client.Update(t.Context(), boot)
			NewWithT(t).Expect(err).To(MatchError(ContainSubstring(c.says)))
		})
	}
	t.Run("the next boot", func(t *testing.T) {
		boot := full()
		env.Create(t, boot)
		boot.Spec = v1alpha1.BareMetalBootSpec{Number: 4, Attempt: 1, ClaimID: "d", MachineName: "n", StartTime: later}
		NewWithT(t).Expect(env.Client.Update(t.Context(), boot)).To(Succeed())
	})
	t.Run("a boot that is served step by step", func(t *testing.T) {
		g, whole := NewWithT(t), full()
		boot := &v1alpha1.BareMetalBoot{ObjectMeta: whole.ObjectMeta}
		env.Create(t, boot)
		for _, step := range []func(spec){
			func(b spec) {
				b.Number, b.Purpose, b.ClaimID, b.MachineName, b.StartTime = 1, v1alpha1.PurposeProvision, "c", "m", then
			},
			func(b spec) { b.PoweredOffTime = &then },
			func(b spec) { b.PoweredOnTime = &then },
			func(b spec) { b.DHCPTime, b.ScriptAddress = &then, "192.0.2.1" },
			func(b spec) { b.DataAddress, b.DataServedTime = "192.0.2.2", &then },
			func(b spec) { b.ReportedTime, b.ReportAddress = &then, "192.0.2.3" },
			func(b spec) { b.VoidedTime = &then },
		} {
			step(&boot.Spec)
			g.Expect(env.Client.Update(t.Context(), boot)).To(Succeed())
		}
	})
}
