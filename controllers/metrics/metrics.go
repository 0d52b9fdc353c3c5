// Package metrics counts and times what the controllers and the boot server do, and counts hosts as the cache shows them. Users and clients on the
// network cannot create label values, except those of failure_domain, of which only maxDomains are exported, and those of sensors, which a flag asks for. docs/reference/metrics.md lists all metrics.
//
// A duration is observed by the process that records its end, after the record was written. It starts at the time that the API objects record. So a restart
// of the process neither loses a duration nor observes it twice.
package metrics

import (
	"cmp"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// other replaces a reason that the provider does not have.
const other = "Other"

// The label values of each metric. They are exported from the start, so that the first event counts as an increase.
var (
	bootFailures = []string{
		v1alpha1.ReasonBootSourceInvalid, v1alpha1.ReasonBootstrapDataInvalid, v1alpha1.ReasonBootTimedOut, v1alpha1.ReasonCommandLineTooLong,
		v1alpha1.ReasonSecondRequester, v1alpha1.ReasonStateLost, wire.ReasonNoDiskMatches, wire.ReasonSeveralDisksMatch, wire.ReasonDiskProtected,
		wire.ReasonDiskTooSmall, wire.ReasonSectorSizeDiffers, wire.ReasonDataSourceOnOtherDisk, wire.ReasonNoBootLoader,
		wire.ReasonPartitionTableInvalid, wire.ReasonCommitUnknown, wire.ReasonPlanInvalid, wire.ReasonOtherServer, v1alpha1.ReasonDisksNotErased,
		v1alpha1.ReasonInspectionFailed, v1alpha1.ReasonSettingsNotApplied, other,
	}
	bootProblems = append([]string{
		v1alpha1.ReasonArtifactUnavailable, v1alpha1.ReasonBootSourceInvalid, v1alpha1.ReasonBootstrapDataInvalid, v1alpha1.ReasonBootstrapDataUnavailable,
		v1alpha1.ReasonChecksumMismatch, v1alpha1.ReasonCommandLineTooLong, v1alpha1.ReasonImageUnreachable, v1alpha1.ReasonImageUnauthorized,
		v1alpha1.ReasonImageNotFound, v1alpha1.ReasonImageFormatInvalid, v1alpha1.ReasonImageTooLarge, v1alpha1.ReasonImageInterrupted, v1alpha1.ReasonNoSpace,
		v1alpha1.ReasonSecondRequester, v1alpha1.ReasonAgentKeyMissing, v1alpha1.ReasonMediaRefused, v1alpha1.ReasonOtherDHCPServer, other,
	}, wire.AgentFailureReasons...)
	quarantineReasons = []string{
		v1alpha1.ReasonBootTimedOut, v1alpha1.ReasonCleaningByHand, v1alpha1.ReasonCleaningFailed, v1alpha1.ReasonDisksNotErased, v1alpha1.ReasonReleasedUnfenced,
		v1alpha1.ReasonRemediationFailed, v1alpha1.ReasonSecondRequester, v1alpha1.ReasonSettingsNotApplied, other,
	}
	bootStages = []string{
		string(v1alpha1.StageMedia), string(v1alpha1.StageDHCP), string(v1alpha1.StageLoader), string(v1alpha1.StageScript), string(v1alpha1.StageKernel), string(v1alpha1.StageAgent),
		string(v1alpha1.StageData), string(v1alpha1.StageCommitted), string(v1alpha1.StageAgentDone),
		string(v1alpha1.StageReportedIn), string(v1alpha1.StageNode), string(v1alpha1.StageBootstrapSucceeded), string(v1alpha1.StageBootstrapFailed),
	}
)

// reasonOrOther returns the reason, or other if the list does not contain it.
func reasonOrOther(reasons []string, reason string) string {
	if slices.Contains(reasons, reason) {
		return reason
	}
	return other
}

// The results of a claim, a release and a power cycle, and the purposes of a token.
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
	TokenAgent  = "agent"
)

// durationBuckets are the buckets, in seconds, of operations that take from a second to an hour.
var durationBuckets = []float64{1, 2, 5, 10, 20, 30, 60, 120, 180, 300, 600, 900, 1200, 1800, 3600}

// callBuckets are the buckets, in seconds, of BMC calls.
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
		"Time from the creation of a host to its first inventory, in seconds. A healthy server that is off is then Available.")
	provisioning = histogram("capbm_machine_provisioning_duration_seconds",
		"Time from the claim of a host until its machine has the provider ID, in seconds.")
	release = histograms("capbm_host_release_duration_seconds",
		"Time from the deletion of a machine to the release of its host, in seconds, by result: free, quarantined, or unfenced (released without a power-off).",
		"result", ReleasedFree, ReleasedQuarantined, ReleasedUnfenced)
	cleaning = histogram("capbm_host_cleaning_duration_seconds",
		"Time from the confirmed power-off of a host that is being released to its release, in seconds.")
	powerCycle = histograms("capbm_remediation_power_cycle_duration_seconds",
		"Time from the start of a remediation's power cycle to its end, in seconds, by result: recovered (the Node is healthy again) or timedout.",
		"result", CycleRecovered, CycleTimedOut)
	stage = histograms("capbm_boot_stage_duration_seconds",
		"Time from the start of a boot attempt until a stage was observed, in seconds, by stage.", "stage", bootStages...)

	imageWrite = histogram("capbm_image_write_duration_seconds", "Time that an agent took to write an image to a disk, in seconds.")
	imageBytes = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "capbm_image_written_bytes_total", Help: "Bytes of images that agents wrote to disks, without holes.",
	})

	agentFailures = newAgentFailures()

	attempts = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "capbm_boot_attempts_total", Help: "Boot attempts that started.",
	})
	failures = counters("capbm_boot_failures_total", "Boot attempts that failed, by reason.", "reason", bootFailures...)
	problems = counters("capbm_boot_problems_total", "Problems that prevented the boot server from serving a boot, by reason.", "reason", bootProblems...)
	claims   = counters("capbm_claims_total",
		"Attempts to claim a host, by result: claimed, conflict (another client changed the host, so the attempt is repeated), error.",
		"result", claimClaimed, ClaimConflict, claimFailed)
	quarantines  = counters("capbm_quarantines_total", "Hosts that the provider put into quarantine, by reason.", "reason", quarantineReasons...)
	erasures     = newErasures()
	settingsRuns = counters("capbm_settings_runs_total", "Runs that changed the firmware settings of a host, by outcome: Applied, Refused or Withdrawn (nothing was changed), Failed.", "outcome", settingsOutcomes...)
	settingsRun  = histogram("capbm_settings_run_duration_seconds", "Time from the start of a run that changes the firmware settings of a host to its outcome, in seconds.")
	handovers    = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
		Name: "capbm_remediation_handovers_total", Help: "Machines that a remediation handed over for replacement.",
	})
	refusals = counters("capbm_tokens_refused_total", "Tokens that the boot server refused, by purpose: seed (bootstrap data), report, agent.", "purpose", TokenSeed, TokenReport, TokenAgent)

	calls = promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "capbm_bmc_calls_total",
		Help: "BMC calls, by driver (the scheme of the address), operation and outcome: Succeeded, Unauthorized, Unreachable, BadCertificate, NotFound, " +
			"Unsupported, Failed.",
	}, []string{"driver", "operation", "outcome"})
	callDuration = promauto.With(metrics.Registry).NewHistogramVec(prometheus.HistogramOpts{
		Name: "capbm_bmc_call_duration_seconds", Help: "Duration of BMC calls, in seconds, by driver and operation.", Buckets: callBuckets,
	}, []string{"driver", "operation"})
)

// BMCCall counts a BMC call. It is for bmc.PoolOptions.Observe.
func BMCCall(c bmc.Call) {
	outcome := "Succeeded"
	if c.Err != nil {
		outcome = string(bmc.KindOf(c.Err))
	}
	calls.WithLabelValues(c.Scheme, c.Operation, outcome).Inc()
	callDuration.WithLabelValues(c.Scheme, c.Operation).Observe(c.Took.Seconds())
}

// observe records a duration. The clocks of different machines may differ by some seconds, so it replaces a negative duration by 0.
func observe(to prometheus.Observer, took time.Duration) { to.Observe(max(0, took.Seconds())) }

// Registered records the duration of the registration of a host.
func Registered(took time.Duration) { observe(registration, took) }

// Claimed counts a claim that succeeded.
func Claimed() { claims.WithLabelValues(claimClaimed).Inc() }

// ClaimFailed counts a claim that failed.
func ClaimFailed(conflict bool) {
	if conflict {
		claims.WithLabelValues(ClaimConflict).Inc()
		return
	}
	claims.WithLabelValues(claimFailed).Inc()
}

// Provisioned records the duration from the claim of a host until it ran its machine.
func Provisioned(took time.Duration) { observe(provisioning, took) }

// BootStarted counts a boot attempt that started.
func BootStarted() { attempts.Inc() }

// BootFailed counts a boot attempt that failed.
func BootFailed(reason string) { failures.WithLabelValues(reasonOrOther(bootFailures, reason)).Inc() }

// BootProblem counts a problem that prevented the boot server from serving a boot.
func BootProblem(reason string) { problems.WithLabelValues(reasonOrOther(bootProblems, reason)).Inc() }

// BootStage records the duration from the start of an attempt until a stage was observed. It ignores a stage that is not part of a boot.
func BootStage(seen v1alpha1.BootStage, took time.Duration) {
	if slices.Contains(bootStages, string(seen)) {
		observe(stage.WithLabelValues(string(seen)), took)
	}
}

// ImageWritten records that an agent wrote an image to a disk.
func ImageWritten(bytes int64, took time.Duration) {
	imageBytes.Add(float64(max(0, bytes)))
	observe(imageWrite, took)
}

// agentPurposes are the purposes of the boots of agents.
var agentPurposes = []string{string(v1alpha1.PurposeProvision), string(v1alpha1.PurposeClean), string(v1alpha1.PurposeInspect), string(v1alpha1.PurposeConfigure), other}

// erasurePolicies are the policies of erasures.
var erasurePolicies = []string{string(wire.PolicyMetadata), string(wire.PolicyClear), string(wire.PolicyPurge), other}

const (
	erasureSucceeded = "Succeeded"
	erasureFailed    = "Failed"
)

func newErasures() *prometheus.CounterVec {
	c := promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "capbm_erasures_total", Help: "Erasures of the disks of a host that the agent ended, by policy and outcome: Succeeded, Failed.",
	}, []string{"policy", "outcome"})
	for _, policy := range erasurePolicies {
		c.WithLabelValues(policy, erasureSucceeded)
		c.WithLabelValues(policy, erasureFailed)
	}
	return c
}

func newAgentFailures() *prometheus.CounterVec {
	c := promauto.With(metrics.Registry).NewCounterVec(prometheus.CounterOpts{
		Name: "capbm_agent_failures_total", Help: "Plans of agents that failed, by the purpose of the boot and the reason.",
	}, []string{"purpose", "reason"})
	for _, purpose := range agentPurposes {
		for _, reason := range wire.AgentFailureReasons {
			c.WithLabelValues(purpose, reason)
		}
	}
	return c
}

// AgentFailed counts a plan of an agent that failed. reason is one of wire.AgentFailureReasons.
func AgentFailed(purpose v1alpha1.BootPurpose, reason string) {
	agentFailures.WithLabelValues(reasonOrOther(agentPurposes, string(purpose)), reasonOrOther(wire.AgentFailureReasons, reason)).Inc()
}

// Released records the duration of the release of a host. result is one of ReleasedFree, ReleasedQuarantined and ReleasedUnfenced.
func Released(result string, took time.Duration) { observe(release.WithLabelValues(result), took) }

// Cleaned records the duration of the cleaning of a host.
func Cleaned(took time.Duration) { observe(cleaning, took) }

// Erased counts an erasure of the disks of a host that the agent ended. policy is that of the record of its boot.
func Erased(policy wire.ErasePolicy, ok bool) {
	outcome := erasureFailed
	if ok {
		outcome = erasureSucceeded
	}
	erasures.WithLabelValues(reasonOrOther(erasurePolicies, cmp.Or(string(policy), string(wire.PolicyMetadata))), outcome).Inc()
}

// settingsOutcomes are the outcomes of settings runs.
var settingsOutcomes = []string{string(v1alpha1.SettingsApplied), string(v1alpha1.SettingsRefused), string(v1alpha1.SettingsWithdrawn), string(v1alpha1.SettingsFailed)}

// SettingsRun counts a run that changed the firmware settings of a host.
func SettingsRun(outcome v1alpha1.SettingsOutcome) {
	settingsRuns.WithLabelValues(string(outcome)).Inc()
}

// SettingsRunTook records the duration of such a run.
func SettingsRunTook(took time.Duration) { observe(settingsRun, took) }

// Quarantined counts a host that the provider put into quarantine.
func Quarantined(reason string) {
	quarantines.WithLabelValues(reasonOrOther(quarantineReasons, reason)).Inc()
}

// PowerCycled records the duration of a remediation's power cycle. result is CycleRecovered or CycleTimedOut.
func PowerCycled(result string, took time.Duration) {
	observe(powerCycle.WithLabelValues(result), took)
}

// HandedOver counts a machine that a remediation handed over for replacement.
func HandedOver() { handovers.Inc() }

// TokenRefused counts a token that was refused. purpose is TokenSeed, TokenReport or TokenAgent.
func TokenRefused(purpose string) { refusals.WithLabelValues(purpose).Inc() }
