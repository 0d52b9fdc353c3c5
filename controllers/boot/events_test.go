package boot_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// eventReasons returns the reasons of the events about objects of a kind, in their order. It fails if one is repeated.
func eventReasons(g Gomega, namespace, kind string) []string {
	var all eventsv1.EventList
	g.Expect(env.Client.List(context.Background(), &all, client.InNamespace(namespace))).To(Succeed())
	recorded := slices.DeleteFunc(all.Items, func(e eventsv1.Event) bool { return e.Regarding.Kind != kind })
	slices.SortFunc(recorded, func(a, b eventsv1.Event) int { return cmp.Compare(a.EventTime.UnixNano(), b.EventTime.UnixNano()) })
	for i := range recorded {
		g.Expect(recorded[i].Series).To(BeNil(), recorded[i].Reason)
		g.Expect(recorded[i].Regarding.UID).NotTo(BeEmpty())
		g.Expect(recorded[i].Note).NotTo(BeEmpty())
	}
	return reasons(eventsv1.EventList{Items: recorded})
}

// expectEvents checks that each event was recorded once, and in the given orders. Several controllers record events independently, so there is no order
// of all events.
func expectEvents(g Gomega, got, want []string, orders ...[]string) {
	g.Expect(got).To(ConsistOf(want))
	for _, order := range orders {
		g.Expect(slices.DeleteFunc(slices.Clone(got), func(reason string) bool { return !slices.Contains(order, reason) })).To(Equal(order))
	}
}

// count returns the value of a counter, or how many times a histogram observed, with some label values.
func count(t *testing.T, name string, labels map[string]string) float64 {
	t.Helper()
	families, err := metrics.Registry.Gather()
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, family := range families {
		for _, m := range family.GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			if family.GetName() != name || !maps.Equal(have, labels) {
				continue
			}
			if h := m.GetHistogram(); h != nil {
				return float64(h.GetSampleCount())
			}
			return m.GetCounter().GetValue()
		}
	}
	t.Fatalf("there is no metric %s%v", name, labels)
	return 0
}

// lifeMetrics increase by one in the life of a host.
func lifeMetrics(t *testing.T) map[string]float64 {
	t.Helper()
	counts := map[string]float64{}
	for _, stage := range []v1alpha1.BootStage{
		v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageData, v1alpha1.StageReportedIn,
	} {
		counts["stage "+string(stage)] = count(t, "capbm_boot_stage_duration_seconds", map[string]string{"stage": string(stage)})
	}
	for _, name := range []string{
		"capbm_host_registration_duration_seconds", "capbm_machine_provisioning_duration_seconds", "capbm_host_cleaning_duration_seconds",
		"capbm_boot_attempts_total",
	} {
		counts[name] = count(t, name, nil)
	}
	counts["claims"] = count(t, "capbm_claims_total", map[string]string{"result": "claimed"})
	counts["releases"] = count(t, "capbm_host_release_duration_seconds", map[string]string{"result": "free"})
	return counts
}

// TestEventsOfLife: the events of a host, and those of its machine, are complete, in order, and each is recorded once. The metrics count each of them once.
func TestEventsOfLife(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	before := lifeMetrics(t)
	l.server("h", func(ctx context.Context, system *pxetest.System) {
		NewWithT(t).Expect(system.Report(ctx)).To(Succeed())
	})
	claim := l.claim("m", kernel)
	provisioned(t, claim)
	// It is recorded right after the write, which the test sees too.
	g.Eventually(func(g Gomega) {
		g.Expect(eventReasons(g, l.namespace, "BareMetalHost")).To(ContainElement("Provisioned"))
	}, "30s").Should(Succeed())
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	env.Gone(t, claim.BareMetalMachine)

	want := []string{
		"Registered", "PreflightWarnings", // of the registration
		"BootStarted", "BootstrapDataServed", "Provisioned", // of the boot
		"Released",
	}
	g.Eventually(func(g Gomega) {
		expectEvents(g, eventReasons(g, l.namespace, "BareMetalHost"), want,
			[]string{"Registered", "BootStarted", "BootstrapDataServed", "Provisioned", "Released"})
	}, "30s").Should(Succeed())
	g.Eventually(func(g Gomega) {
		told := eventReasons(g, l.namespace, "BareMetalMachine")
		// The machine may have been created before there was a host to claim.
		g.Expect(slices.DeleteFunc(told, func(reason string) bool { return reason == "NoHostFits" })).To(BeEmpty())
	}, "30s").Should(Succeed())
	g.Eventually(func(g Gomega) {
		for what, n := range lifeMetrics(t) {
			g.Expect(n-before[what]).To(BeEquivalentTo(1), what)
		}
	}, "30s").Should(Succeed())
}

// TestEventsOfFailures: failures of a boot, and actions of operators on a host, have events too.
func TestEventsOfFailures(t *testing.T) {
	g := NewWithT(t)
	l := startOff(t)
	failed := count(t, "capbm_boot_failures_total", map[string]string{"reason": "SecondRequester"})
	refused := count(t, "capbm_tokens_refused_total", map[string]string{"purpose": "seed"})
	unfenced := count(t, "capbm_quarantines_total", map[string]string{"reason": "ReleasedUnfenced"})
	systems := make(chan *pxetest.System, 1)
	s := l.server("h", func(_ context.Context, system *pxetest.System) { systems <- system })
	claim := l.claim("m", kernel)
	system := await(t, systems)
	url, err := system.SeedURL()
	g.Expect(err).NotTo(HaveOccurred())
	l.person("127.0.81.200").refused("/seed/" + l.namespace + "/h/" + token(t, url) + "/user-data")
	seized(t, claim)
	controllerstest.Modify(t, env, s.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.DetachedAnnotation: "anna looks at it"}
	})
	controllerstest.Wait(t, env, s.Host, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseDetached)) })
	controllerstest.Modify(t, env, s.Host, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	controllerstest.Wait(t, env, s.Host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseBootFailed))
	})
	g.Expect(s.Misbehave(bmctest.Down, -1)).To(Succeed())
	controllerstest.Wait(t, env, s.Host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.IsFalse(h, v1alpha1.BMCReadyCondition)).To(BeTrue())
	})
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	controllerstest.Modify(t, env, s.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.ReleaseUnfencedAnnotation: "anna pulled its plug"}
	})
	env.Gone(t, claim.BareMetalMachine)
	controllerstest.Wait(t, env, s.Host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseQuarantined))
	})
	controllerstest.Modify(t, env, s.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil })

	want := []string{
		"Registered", "PreflightWarnings", "BootStarted", "BootstrapDataServed", "BootFailed", "BootRequestRefused", "Detached", "Reattached", "BMCNotReady",
		"ReleasedUnfenced", "QuarantineEnded",
	}
	g.Eventually(func(g Gomega) {
		expectEvents(g, eventReasons(g, l.namespace, "BareMetalHost"), want,
			[]string{"Registered", "BootStarted", "Detached", "Reattached", "BMCNotReady", "ReleasedUnfenced", "QuarantineEnded"},
			[]string{"BootStarted", "BootstrapDataServed", "BootFailed", "BootRequestRefused", "Detached"})
	}, "30s").Should(Succeed())
	var all eventsv1.EventList
	g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(l.namespace))).To(Succeed())
	g.Expect(all.Items).To(ContainElements(
		And(HaveField("Reason", "ReleasedUnfenced"), HaveField("Note", ContainSubstring("anna pulled its plug"))),
		And(HaveField("Reason", "Detached"), HaveField("Note", ContainSubstring("anna looks at it"))),
	))
	g.Expect(count(t, "capbm_boot_failures_total", map[string]string{"reason": "SecondRequester"}) - failed).To(BeEquivalentTo(1))
	g.Expect(count(t, "capbm_tokens_refused_total", map[string]string{"purpose": "seed"}) - refused).To(BeEquivalentTo(1))
	g.Expect(count(t, "capbm_quarantines_total", map[string]string{"reason": "ReleasedUnfenced"}) - unfenced).To(BeEquivalentTo(1))
}

// TestEventsDocs: docs/reference/events.md lists exactly the events that exist.
func TestEventsDocs(t *testing.T) {
	g := NewWithT(t)
	source, err := os.ReadFile("../events.go")
	g.Expect(err).NotTo(HaveOccurred())
	page, err := os.ReadFile("../../docs/reference/events.md")
	g.Expect(err).NotTo(HaveOccurred())
	var want, listed []string
	for _, found := range regexp.MustCompile(`(?m)^\tEvent\w+ += "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		if found[1] != controllers.EventBootStage {
			want = append(want, found[1])
		}
	}
	for _, stage := range []v1alpha1.BootStage{v1alpha1.StageBootstrapFailed, v1alpha1.StageRestarted} {
		want = append(want, fmt.Sprint(controllers.EventBootStage, stage))
	}
	want = append(want, v1alpha1.ReasonAddressConflict, v1alpha1.ReasonReservationUnused, v1alpha1.ReasonNoAddress)
	section := regexp.MustCompile(`(?s)\n## Events\n(.*?)\n## `).FindStringSubmatch(string(page))
	g.Expect(section).To(HaveLen(2))
	for _, row := range regexp.MustCompile("(?m)^\\| (`\\w+`(?:, `\\w+`)*) \\|").FindAllStringSubmatch(section[1], -1) {
		for _, name := range regexp.MustCompile("`(\\w+)`").FindAllStringSubmatch(row[1], -1) {
			listed = append(listed, name[1])
		}
	}
	g.Expect(listed).To(ConsistOf(want))
}
