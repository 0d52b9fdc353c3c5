// Package metrics counts and times what the controllers and the boot server decide, and counts hosts as the cache shows them. No label has a
// value that a user or somebody on the network can make up, but failure_domain, of which few are shown. docs/monitoring.md lists all metrics.
//
// A duration is observed by the process that made the transition which ends it, once that is written down, from the time that the API's
// objects record for its beginning. So a restart loses none that is under way, and repeats none.
package metrics

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// other stands for a reason that is none of the provider's own.
const other = "Other"

// What reasons there are. A metric shows all of its label's from the start, so that the first time counts as a rise.
var (
	bootFailures = []string{
		v1alpha1.ReasonBootSourceInvalid, v1alpha1.ReasonBootstrapDataInvalid, v1alpha1.ReasonBootTimedOut, v1alpha1.ReasonCommandLineTooLong,
		v1alpha1.ReasonSecondRequester, v1alpha1.ReasonStateLost, other,
	}
	bootProblems = []string{
		v1alpha1.ReasonArtifactUnavailable, v1alpha1.ReasonBootSourceInvalid, v1alpha1.ReasonBootstrapDataInvalid, v1alpha1.ReasonBootstrapDataUnavailable,
		v1alpha1.ReasonChecksumMismatch, v1alpha1.ReasonCommandLineTooLong, other,
	}
	quarantineReasons = []string{
		v1alpha1.ReasonBootTimedOut, v1alpha1.ReasonCleaningByHand, v1alpha1.ReasonCleaningFailed, v1alpha1.ReasonReleasedUnfenced,
		v1alpha1.ReasonRemediationFailed, v1alpha1.ReasonSecondRequester, other,
	}
	bootStages = []string{
		string(v1alpha1.StageDHCP), string(v1alpha1.StageLoader), string(v1alpha1.StageScript), string(v1alpha1.StageKernel), string(v1alpha1.StageData),
		string(v1alpha1.StageReportedIn), string(v1alpha1.StageNode), string(v1alpha1.StageBootstrapSucceeded), string(v1alpha1.StageBootstrapFailed),
	}
)

// reasonOrOther returns the reason, or other for one that is not in the list.
func reasonOrOther(reasons []string, reason string) string {
	if slices.Contains(reasons, reason) {
		return reason
	}
	return other
}

// How a claim, a release and a power cycle end, and what a token was for.
const (
	ClaimConflict = "conflict"
	claimClaimed  = "claimed"
	claimFailed   = "error"

	ReleasedFree        = "free"
	ReleasedQuarantined = "quarantined"
	ReleasedUnfenced    = "unfenced"

	CycleRecovered = "recovered"
	CycleTimedOut  = "timedout"

	TokenSeed   = "seed"
	TokenReport = "report"
)

// durationBuckets suits what takes from a second to an hour.
var durationBuckets = []float64{1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600}

// callBuckets suits calls of BMCs.
var callBuckets = []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}

func counters(name, help, label string, values ...string) *prometheus.CounterVec {
	c := promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}

func histogram(name, help string) prometheus.Histogram {
	return promauto.With(metrics.Registry).NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durationBuckets})
}

func histograms(name, help, label string, values ...string) *prometheus.HistogramVec {
	h := promauto.With(metrics.Registry).NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durationBuckets}, []string{label})
	for _, v := range values {
		h.WithLabelValues(v)
	}
	return h
}

var (
	registration = histogram("capbm_host_registration_duration_seconds",
		"From the creation of a host to its first inventory. A server that is off and well is Available from then on.")
	provisioning = histogram("capbm_machine_provisioning_duration_seconds",
		"From the claim of a host to the moment when its machine got the provider ID.")
	release = histograms("capbm_host_release_duration_seconds",
		"From the deletion of the machine to the release of its host, by what became of the host: free, quarantined, or unfenced (let go without a power-off).",
		"result", ReleasedFree, ReleasedQuarantined, ReleasedUnfenced)
	cleaning = histogram("capbm_host_cleaning_duration_seconds",
		"From the confirmed power-off of a host that is released to its release.")
	powerCycle = histograms("capbm_remediation_power_cycle_duration_seconds",
		"From the begin of a remediation's power cycle until the Node was healthy again (recovered), or it was given up (timedout).",
		"result", CycleRecovered, CycleTimedOut)
	stage = histograms("capbm_boot_stage_duration_seconds",
		"From the begin of a boot attempt until a stage of it was seen.", "stage", bootStages...)

	attempts = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "capbm_boot_attempts_total", Help: "Boot attempts that began.",
	})
	failures = counters("capbm_boot_failures_total", "Boot attempts that failed, by the reason.", "reason", bootFailures...)
	problems = counters("capbm_boot_problems_total", "What kept the boot server from serving a boot, by the reason.", "reason", bootProblems...)
	claims   = counters("capbm_claims_total",
		"Tries to claim a host, by how they ended: claimed, conflict (somebody else wrote to the host, so another try follows), error.",
		"result", claimClaimed, ClaimConflict, claimFailed)
	quarantines = counters("capbm_quarantines_total", "Hosts that the provider put into quarantine, by the reason.", "reason", quarantineReasons...)
	handovers   = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "capbm_remediation_handovers_total", Help: "Machines that a remediation handed over to be replaced.",
	})
	refusals = counters("capbm_tokens_refused_total", "Tokens that opened nothing, by what they were shown for: seed, report.", "purpose", TokenSeed, TokenReport)

	calls = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "capbm_bmc_calls_total",
		Help: "Calls of BMCs, by driver (the scheme of the address), operation and outcome: Succeeded, Unauthorized, Unreachable, BadCertificate, NotFound, " +
			"Unsupported, Failed.",
	}, []string{"driver", "operation", "outcome"})
	callDuration = promauto.With(metrics.Registry).NewHistogramVec(prometheus.HistogramOpts{
		Name: "capbm_bmc_call_duration_seconds", Help: "How long calls of BMCs took, by driver and operation.", Buckets: callBuckets,
	}, []string{"driver", "operation"})
)

// BMCCall counts a call of a BMC. It is for bmc.PoolOptions.Observe.
func BMCCall(c bmc.Call) {
	outcome := "Succeeded"
	if c.Err != nil {
		outcome = string(bmc.KindOf(c.Err))
	}
	calls.WithLabelValues(c.Scheme, c.Operation, outcome).Inc()
	callDuration.WithLabelValues(c.Scheme, c.Operation).Observe(c.Took.Seconds())
}

// observe notes a duration. Clocks of different machines may disagree by some seconds.
func observe(to prometheus.Observer, took time.Duration) { to.Observe(max(0, took.Seconds())) }

// Registered notes how long the registration of a host took.
func Registered(took time.Duration) { observe(registration, took) }

// Claimed counts a try to claim a host that succeeded.
func Claimed() { claims.WithLabelValues(claimClaimed).Inc() }

// NotClaimed counts a try to claim a host that failed.
func NotClaimed(conflict bool) {
	if conflict {
		claims.WithLabelValues(ClaimConflict).Inc()
		return
	}
	claims.WithLabelValues(claimFailed).Inc()
}

// Provisioned notes how long it took from the claim of a host until it ran its machine.
func Provisioned(took time.Duration) { observe(provisioning, took) }

// BootBegan counts a boot attempt that began.
func BootBegan() { attempts.Inc() }

// BootFailed counts a boot attempt that failed.
func BootFailed(reason string) { failures.WithLabelValues(reasonOrOther(bootFailures, reason)).Inc() }

// BootProblem counts what kept the boot server from serving a boot.
func BootProblem(reason string) { problems.WithLabelValues(reasonOrOther(bootProblems, reason)).Inc() }

// BootStage notes how long after the begin of its attempt a stage was seen. What is no stage of a boot is left out.
func BootStage(seen v1alpha1.BootStage, took time.Duration) {
	if slices.Contains(bootStages, string(seen)) {
		observe(stage.WithLabelValues(string(seen)), took)
	}
}

// Released notes how long the release of a host took. result is one of ReleasedFree, ReleasedQuarantined, ReleasedUnfenced.
func Released(result string, took time.Duration) { observe(release.WithLabelValues(result), took) }

// Cleaned notes how long the cleaning of a host took.
func Cleaned(took time.Duration) { observe(cleaning, took) }

// Quarantined counts a host that the provider put into quarantine.
func Quarantined(reason string) {
	quarantines.WithLabelValues(reasonOrOther(quarantineReasons, reason)).Inc()
}

// PowerCycled notes how long a remediation's power cycle took. result is CycleRecovered or CycleTimedOut.
func PowerCycled(result string, took time.Duration) {
	observe(powerCycle.WithLabelValues(result), took)
}

// HandedOver counts a machine that a remediation handed over.
func HandedOver() { handovers.Inc() }

// TokenRefused counts a token that opened nothing. purpose is TokenSeed or TokenReport.
func TokenRefused(purpose string) { refusals.WithLabelValues(purpose).Inc() }
