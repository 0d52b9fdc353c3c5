package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/common/expfmt"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	all "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// store is a cache that returns its own objects, like the cache of controller-runtime with UnsafeDisableDeepCopy.
type store struct {
	client.Reader

	t                      *testing.T
	hosts, boots, machines []runtime.Object
	err                    error
}

func (s *store) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	NewWithT(s.t).Expect(opts).To(ContainElement(client.UnsafeDisableDeepCopy), "a scrape copies nothing")
	switch list.(type) {
	case *v1alpha1.BareMetalHostList:
		return errors.Join(s.err, apimeta.SetList(list, s.hosts))
	case *v1alpha1.BareMetalBootList:
		return errors.Join(s.err, apimeta.SetList(list, s.boots))
	}
	return errors.Join(s.err, apimeta.SetList(list, s.machines))
}

func host(n int, phase v1alpha1.HostPhase, bmcReason, quarantine string) runtime.Object {
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: fmt.Sprintf("host-%d", n)}}
	h.Status.Phase = phase
	status := metav1.ConditionTrue
	if bmcReason != "" {
		status = metav1.ConditionFalse
	}
	h.Status.Conditions = []metav1.Condition{{Type: v1alpha1.BMCReadyCondition, Status: status, Reason: bmcReason}}
	if quarantine != "" {
		h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: quarantine}
	}
	return h
}

func waiting(reason string, deleted time.Duration) runtime.Object {
	m := &v1alpha1.BareMetalMachine{}
	m.Status.Conditions = []metav1.Condition{{Type: v1alpha1.HostClaimedCondition, Status: metav1.ConditionFalse, Reason: reason}}
	if deleted > 0 {
		m.DeletionTimestamp = &metav1.Time{Time: time.Now().Add(-deleted)}
	}
	return m
}

func inventory(t *testing.T, s *store, leads bool) *metrics.Inventory {
	t.Helper()
	pool := bmc.NewPool(nil, bmc.PoolOptions{})
	t.Cleanup(pool.Close)
	elected := make(chan struct{})
	if leads {
		close(elected)
	}
	return &metrics.Inventory{Client: s, Leads: elected, Pool: pool, Log: logr.Discard()}
}

// TestInventory: hosts and machines are counted by phase and reason, and a reason that the provider does not have counts as Other.
func TestInventory(t *testing.T) {
	g := NewWithT(t)
	s := &store{t: t, hosts: []runtime.Object{
		host(1, v1alpha1.PhaseAvailable, "", ""), host(2, v1alpha1.PhaseAvailable, v1alpha1.ReasonBMCUnreachable, ""), host(3, "", v1alpha1.ReasonBMCUnreachable, ""),
		host(4, v1alpha1.PhaseQuarantined, "", v1alpha1.ReasonReleasedUnfenced), host(5, v1alpha1.PhaseQuarantined, "", "anna's word"),
	}, machines: []runtime.Object{
		waiting(v1alpha1.ReasonNoHostFits, 0), waiting(v1alpha1.ReasonNoHostFits, 0), waiting(v1alpha1.ReasonNoHostFits, time.Hour), waiting(v1alpha1.ReasonHostLost, time.Minute),
	}}
	waits := host(6, v1alpha1.PhaseCleaning, "", "").(*v1alpha1.BareMetalHost)
	waits.Status.Conditions = append(waits.Status.Conditions, metav1.Condition{
		Type: v1alpha1.BootedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonErasureNotRecorded,
	})
	s.hosts = append(s.hosts, waits)
	g.Expect(prometheus.NewRegistry().Register(inventory(t, s, true))).To(Succeed())
	text, err := testutil.CollectAndFormat(inventory(t, s, true), expfmt.TypeTextPlain, "capbm_hosts", "capbm_hosts_bmc_not_ready", "capbm_hosts_quarantined",
		"capbm_hosts_erasure_not_recorded", "capbm_machines_without_host", "capbm_machines_deleting_oldest_seconds", "capbm_bmc_jobs")
	g.Expect(err).NotTo(HaveOccurred())
	for _, line := range []string{
		`capbm_hosts{phase="Available"} 2`, `capbm_hosts{phase="Registering"} 1`, `capbm_hosts{phase="Quarantined"} 2`, `capbm_hosts{phase="Booting"} 0`,
		`capbm_hosts_bmc_not_ready{reason="Unreachable"} 2`, `capbm_hosts_bmc_not_ready{reason="CredentialsRefused"} 0`,
		`capbm_hosts_quarantined{reason="ReleasedUnfenced"} 1`, `capbm_hosts_quarantined{reason="Other"} 1`,
		`capbm_hosts_erasure_not_recorded 1`, `capbm_machines_without_host{reason="NoHostFits"} 2`, `capbm_machines_without_host{reason="HostLost"} 0`, `capbm_machines_deleting_oldest_seconds 360`,
		`capbm_bmc_jobs{state="waiting"} 0`,
	} {
		g.Expect("\n" + string(text)).To(ContainSubstring("\n" + line))
	}
	g.Expect(string(text)).NotTo(Or(ContainSubstring("anna"), ContainSubstring("host-")))

	problems, err := testutil.CollectAndLint(inventory(t, s, true))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(problems).To(BeEmpty())
	g.Expect(testutil.CollectAndCount(inventory(t, s, false))).To(BeZero(), "one that does not lead tells nothing")
	s.err = errors.New("no cache")
	g.Expect(testutil.CollectAndCount(inventory(t, s, true))).To(BeZero(), "what is not known is not told, and the other metrics are")
}

// TestBoots: booting and waiting hosts are counted by failure domain, and only maxDomains are exported by name.
func TestBoots(t *testing.T) {
	g := NewWithT(t)
	s := &store{t: t}
	add := func(domain string, change func(*v1alpha1.BareMetalHost, *v1alpha1.BareMetalBoot)) {
		h, b := &v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalBoot{}
		h.Name = fmt.Sprintf("h-%d", len(s.hosts))
		h.Spec.FailureDomain, h.Spec.ConsumerRef, b.Name = domain, &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}, h.Name
		change(h, b)
		s.hosts, s.boots = append(s.hosts, h), append(s.boots, b)
	}
	begun := func(ago time.Duration) func(*v1alpha1.BareMetalHost, *v1alpha1.BareMetalBoot) {
		return func(h *v1alpha1.BareMetalHost, b *v1alpha1.BareMetalBoot) {
			h.Spec.ProviderState.Boots = 1
			b.Spec = v1alpha1.BareMetalBootSpec{Number: 1, Attempt: 1, ClaimID: "c", StartTime: metav1.NewTime(time.Now().Add(-ago))}
		}
	}
	waits := func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalBoot) {
		h.Status.Conditions = []metav1.Condition{{Type: v1alpha1.BootedCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonWaitingForBootSlot}}
	}
	collect := func() string {
		i := inventory(t, s, true)
		i.Settings = lifecycle.DefaultSettings()
		text, err := testutil.CollectAndFormat(i, expfmt.TypeTextPlain, "capbm_boots_under_way", "capbm_boots_waiting")
		g.Expect(err).NotTo(HaveOccurred())
		return "\n" + string(text)
	}
	g.Expect(collect()).To(And(ContainSubstring("\ncapbm_boots_under_way{failure_domain=\"\"} 0"), ContainSubstring("\ncapbm_boots_waiting{failure_domain=\"\"} 0")))
	for range 3 {
		add("rack-1", begun(time.Minute))
		add("rack-1", waits)
	}
	add("rack-1", begun(24*time.Hour))
	add("rack-1", func(h *v1alpha1.BareMetalHost, b *v1alpha1.BareMetalBoot) {
		begun(0)(h, b)
		b.Spec.ReportedTime = new(metav1.Now())
	})
	add("", begun(0))
	for n := range 100 {
		add(fmt.Sprintf("made-up-%03d", n), waits)
	}
	text := collect()
	for _, line := range []string{
		`capbm_boots_under_way{failure_domain="rack-1"} 3`, `capbm_boots_waiting{failure_domain="rack-1"} 3`, `capbm_boots_under_way{failure_domain=""} 1`,
		`capbm_boots_waiting{failure_domain="made-up-000"} 1`, `capbm_boots_waiting{failure_domain="Other"} 52`,
	} {
		g.Expect(text).To(ContainSubstring("\n" + line))
	}
	g.Expect(strings.Count(text, "\ncapbm_boots_waiting{")).To(BeNumerically("<=", 52))
}

// TestStalledAgents: an agent that ran and reports nothing any more is counted until its boot ends.
func TestStalledAgents(t *testing.T) {
	g := NewWithT(t)
	s := &store{t: t}
	add := func(silent time.Duration, change func(*v1alpha1.BareMetalBoot)) {
		h, b := &v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalBoot{}
		h.Name = fmt.Sprintf("h-%d", len(s.hosts))
		h.Spec.ConsumerRef, h.Spec.ProviderState.Boots, b.Name = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}, 1, h.Name
		b.Spec = v1alpha1.BareMetalBootSpec{Number: 1, Attempt: 1, ClaimID: "c", Agent: true, StartTime: metav1.NewTime(time.Now().Add(-20 * time.Minute))}
		b.Status.Agent = &v1alpha1.AgentProgress{Number: 1, Time: metav1.NewTime(time.Now().Add(-silent))}
		change(b)
		s.hosts, s.boots = append(s.hosts, h), append(s.boots, b)
	}
	add(10*time.Minute, func(*v1alpha1.BareMetalBoot) {})
	add(time.Minute, func(*v1alpha1.BareMetalBoot) {})
	add(10*time.Minute, func(b *v1alpha1.BareMetalBoot) { b.Spec.AgentDoneTime = new(metav1.Now()) })
	add(10*time.Minute, func(b *v1alpha1.BareMetalBoot) { b.Spec.VoidedTime = new(metav1.Now()) })
	add(10*time.Minute, func(b *v1alpha1.BareMetalBoot) { b.Status.Agent.Number = 0 })
	add(10*time.Minute, func(b *v1alpha1.BareMetalBoot) { b.Status.Agent = nil })
	i := inventory(t, s, true)
	i.Settings = lifecycle.DefaultSettings()
	text, err := testutil.CollectAndFormat(i, expfmt.TypeTextPlain, "capbm_agents_stalled")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).To(ContainSubstring("\ncapbm_agents_stalled 1"))
}

// TestPhases: the metric has every phase of a host.
func TestPhases(t *testing.T) {
	g := NewWithT(t)
	for _, phase := range []v1alpha1.HostPhase{
		v1alpha1.PhaseRegistering, v1alpha1.PhaseInspecting, v1alpha1.PhaseAvailable, v1alpha1.PhaseUnavailable, v1alpha1.PhaseClaimed, v1alpha1.PhaseBooting, v1alpha1.PhaseProvisioned,
		v1alpha1.PhaseBootFailed, v1alpha1.PhaseStateLost, v1alpha1.PhaseReleasing, v1alpha1.PhaseCleaning, v1alpha1.PhaseExternallyProvisioned,
		v1alpha1.PhaseMaintenance, v1alpha1.PhaseQuarantined, v1alpha1.PhaseOrphaned, v1alpha1.PhaseDeleting, v1alpha1.PhaseDetached, v1alpha1.PhasePowerHold,
	} {
		text, err := testutil.CollectAndFormat(inventory(t, &store{t: t, hosts: []runtime.Object{host(1, phase, "", "")}}, true), expfmt.TypeTextPlain, "capbm_hosts")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(text)).To(ContainSubstring(fmt.Sprintf("capbm_hosts{phase=%q} 1", phase)))
	}
}

// TestReasons: an unknown reason adds no series, and every known reason is exported before its first event.
func TestReasons(t *testing.T) {
	g := NewWithT(t)
	series := func() int {
		n, err := testutil.GatherAndCount(all.Registry, "capbm_boot_failures_total", "capbm_boot_problems_total", "capbm_quarantines_total", "capbm_boot_stage_duration_seconds",
			"capbm_claims_total", "capbm_tokens_refused_total", "capbm_host_release_duration_seconds", "capbm_remediation_power_cycle_duration_seconds")
		g.Expect(err).NotTo(HaveOccurred())
		return n
	}
	before := series()
	g.Expect(before).To(BeNumerically(">", 30))
	metrics.BootFailed("anna's word")
	metrics.BootProblem(strings.Repeat("x", 99))
	metrics.Quarantined("bob's word")
	metrics.BootStage("Restarted", time.Second)
	metrics.BootStage(v1alpha1.StageData, -time.Second)
	metrics.ClaimFailed(true)
	metrics.Released(metrics.ReleasedUnfenced, time.Second)
	g.Expect(series()).To(Equal(before))
	families, err := all.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	var text strings.Builder
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&text, family)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(text.String()).To(ContainSubstring(`capbm_boot_failures_total{reason="Other"} 1`))
	g.Expect(text.String()).To(ContainSubstring(`capbm_boot_stage_duration_seconds_sum{stage="Data"} 0`), "clocks may differ: no duration is negative")
}

// TestScrapeOfMany: a scrape of 10,000 hosts takes less than two seconds.
func TestScrapeOfMany(t *testing.T) {
	const n = 10_000
	s := &store{t: t}
	for i := range n {
		s.hosts = append(s.hosts, host(i, v1alpha1.PhaseProvisioned, "", ""))
	}
	for range n / 2 {
		s.machines = append(s.machines, waiting(v1alpha1.ReasonNoHostFits, 0))
	}
	i := inventory(t, s, true)
	best := time.Hour
	for range 5 {
		start := time.Now()
		testutil.CollectAndCount(i)
		best = min(best, time.Since(start))
	}
	allocations := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		b.ReportAllocs()
		for b.Loop() {
			testutil.CollectAndCount(i)
		}
	})
	t.Logf("%d hosts and %d machines: %s a scrape, %d KiB, %d allocations", n, n/2, best, allocations.AllocedBytesPerOp()>>10, allocations.AllocsPerOp())
	NewWithT(t).Expect(best).To(BeNumerically("<", 2*time.Second))
}

// TestUnhealthy: a host counts once for each class of its unhealthy parts, with the worst severity, and apart while it is in maintenance.
func TestUnhealthy(t *testing.T) {
	g := NewWithT(t)
	with := func(n int, parts ...v1alpha1.UnhealthyPart) *v1alpha1.BareMetalHost {
		h := host(n, v1alpha1.PhaseAvailable, "", "").(*v1alpha1.BareMetalHost)
		h.Status.Health = &v1alpha1.HealthStatus{Parts: parts}
		return h
	}
	disk := func(name string, health wire.Health) v1alpha1.UnhealthyPart {
		return v1alpha1.UnhealthyPart{Class: v1alpha1.PartDisk, Name: name, Health: health}
	}
	fan := v1alpha1.UnhealthyPart{Class: v1alpha1.PartFan, Health: wire.HealthWarning}
	held := with(4, fan)
	held.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "a new fan"}
	s := &store{t: t, hosts: []runtime.Object{
		with(1, disk("1", wire.HealthWarning), disk("2", wire.HealthCritical), fan), with(2, disk("1", wire.HealthWarning)), with(3), held, host(5, v1alpha1.PhaseAvailable, "", ""),
	}}
	text, err := testutil.CollectAndFormat(inventory(t, s, true), expfmt.TypeTextPlain, "capbm_hosts_unhealthy", "capbm_hosts_unhealthy_in_maintenance")
	g.Expect(err).NotTo(HaveOccurred())
	for _, line := range []string{
		`capbm_hosts_unhealthy{part="Disk",severity="Critical"} 1`, `capbm_hosts_unhealthy{part="Disk",severity="Warning"} 1`, `capbm_hosts_unhealthy{part="Fan",severity="Warning"} 1`,
		`capbm_hosts_unhealthy{part="PowerSupply",severity="Critical"} 0`, `capbm_hosts_unhealthy_in_maintenance 1`,
	} {
		g.Expect("\n" + string(text)).To(ContainSubstring("\n" + line))
	}
	g.Expect(string(text)).NotTo(ContainSubstring("host-"), "no series for a host")
}

// TestSensorMetrics: each sensor is a series, and one that Prometheus does not take is omitted.
func TestSensorMetrics(t *testing.T) {
	g := NewWithT(t)
	sensors := &metrics.Sensors{Log: logr.Discard(), Each: func(do func(string, string, metrics.Sensor)) {
		do("dc", "h", metrics.Sensor{Kind: metrics.KindInlet, Name: "Inlet", Unit: "Cel", Value: 21})
		do("dc", "h", metrics.Sensor{Kind: "Fan", Name: "\xff", Unit: "RPM", Value: 1})
	}}
	text, err := testutil.CollectAndFormat(sensors, expfmt.TypeTextPlain, "capbm_sensor_reading")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(text)).To(ContainSubstring(`capbm_sensor_reading{host="h",kind="InletTemperature",namespace="dc",sensor="Inlet",unit="Cel"} 21`))
	g.Expect(testutil.CollectAndCount(sensors)).To(Equal(1))
}
