package metrics

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

var (
	hostsDesc = prometheus.NewDesc("capbm_hosts", "Hosts, by phase.", []string{"phase"}, nil)
	bmcsDesc  = prometheus.NewDesc("capbm_hosts_bmc_not_ready", "Hosts whose condition BMCReady is False, by its reason.",
		[]string{"reason"}, nil)
	quarantineDesc = prometheus.NewDesc("capbm_hosts_quarantined", "Hosts in quarantine, by reason.", []string{"reason"}, nil)
	unrecordedDesc = prometheus.NewDesc("capbm_hosts_erasure_not_recorded", "Hosts whose disks are erased, and that are not released because the BareMetalErasure cannot be written.",
		nil, nil)
	powerDesc = prometheus.NewDesc("capbm_hosts_power_wrong",
		"Hosts with a machine on disk whose server is off although the provider did not power it off (PoweredOff), or that the BMC reports as off although its Node is Ready "+
			"(PowerDisputed) or without a Node that could confirm it (PowerUnconfirmed).",
		[]string{"reason"}, nil)
	unhealthyDesc = prometheus.NewDesc("capbm_hosts_unhealthy",
		"Hosts with a part of a class that is not healthy, by the class and the worst severity. Hosts in maintenance are not counted.", []string{"part", "severity"}, nil)
	heldDesc     = prometheus.NewDesc("capbm_hosts_unhealthy_in_maintenance", "Hosts in maintenance with a part that is not healthy: their alerts are withheld.", nil, nil)
	waitingDesc  = prometheus.NewDesc("capbm_machines_without_host", "Machines without a host, by the reason of the condition HostClaimed.", []string{"reason"}, nil)
	deletingDesc = prometheus.NewDesc("capbm_machines_deleting_oldest_seconds",
		"Age of the oldest machine deletion that has not finished, in seconds. 0 if no machine is being deleted.", nil, nil)
	jobsDesc = prometheus.NewDesc("capbm_bmc_jobs",
		"BMC jobs, by state: waiting for a slot, running, and slow. Slow jobs are running too, but have returned their slot.", []string{"state"}, nil)
)

// The label values are exported from the start, even if their count is 0.
var (
	phases = []string{
		string(v1alpha1.PhaseRegistering), string(v1alpha1.PhaseAvailable), string(v1alpha1.PhaseUnavailable), string(v1alpha1.PhaseClaimed),
		string(v1alpha1.PhaseBooting), string(v1alpha1.PhaseProvisioned), string(v1alpha1.PhaseBootFailed), string(v1alpha1.PhaseStateLost),
		string(v1alpha1.PhaseReleasing), string(v1alpha1.PhaseCleaning), string(v1alpha1.PhaseExternallyProvisioned), string(v1alpha1.PhaseMaintenance),
		string(v1alpha1.PhaseInspecting), string(v1alpha1.PhaseConfiguring), string(v1alpha1.PhaseQuarantined), string(v1alpha1.PhaseOrphaned), string(v1alpha1.PhaseDeleting), string(v1alpha1.PhaseDetached),
		string(v1alpha1.PhasePowerHold), string(v1alpha1.PhaseBootUnknown), other,
	}
	bmcReasons = []string{
		v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsNotLabeled, v1alpha1.ReasonCredentialsNotForBMC, v1alpha1.ReasonCredentialsRefused,
		v1alpha1.ReasonBMCUnreachable, v1alpha1.ReasonCertificateInvalid, v1alpha1.ReasonNotPermitted, v1alpha1.ReasonBMCConflict, v1alpha1.ReasonServerReplaced, v1alpha1.ReasonHardwareConflict,
		v1alpha1.ReasonSystemNotFound, v1alpha1.ReasonBMCUnsupported, v1alpha1.ReasonBMCError, other,
	}
	powerReasons   = []string{v1alpha1.ReasonPoweredOff, v1alpha1.ReasonPowerDisputed, v1alpha1.ReasonPowerUnconfirmed}
	waitingReasons = []string{
		v1alpha1.ReasonNoHostFits, v1alpha1.ReasonWaitingForFormerHost, v1alpha1.ReasonWaitingForCluster, v1alpha1.ReasonWaitingForBootstrapData,
		v1alpha1.ReasonHostLost, v1alpha1.ReasonDeleting, other,
	}
)

// Inventory counts hosts and machines as the cache shows them at the time of a scrape, and the jobs for their BMCs. Only the leader exports these metrics,
// so the sum over all managers is correct.
type Inventory struct {
	// Client reads from the cache.
	Client client.Reader
	// Leads is closed when this process becomes the leader.
	Leads <-chan struct{}
	// Pool runs the BMC jobs.
	Pool *bmc.Pool
	// Settings are those of the host controller. They determine how long a boot counts as in progress.
	Settings lifecycle.Settings
	Log      logr.Logger
}

var _ prometheus.Collector = &Inventory{}

// Describe implements prometheus.Collector.
func (i *Inventory) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{hostsDesc, bmcsDesc, quarantineDesc, unrecordedDesc, powerDesc, unhealthyDesc, heldDesc, waitingDesc, deletingDesc, jobsDesc, bootsUnderWayDesc, bootsWaitingDesc, agentsStalledDesc} {
		to <- d
	}
}

// listTimeout is how long a scrape waits for a cache that has not started yet.
const listTimeout = 5 * time.Second

// Collect implements prometheus.Collector.
func (i *Inventory) Collect(to chan<- prometheus.Metric) {
	select {
	case <-i.Leads:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	// These lists hold the objects of the cache, so nothing may write to them.
	var hosts v1alpha1.BareMetalHostList
	if err := i.Client.List(ctx, &hosts, client.UnsafeDisableDeepCopy); err != nil {
		i.Log.Error(err, "Failed to list hosts for the metrics")
		return
	}
	var machines v1alpha1.BareMetalMachineList
	if err := i.Client.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		i.Log.Error(err, "Failed to list machines for the metrics")
		return
	}
	var boots v1alpha1.BareMetalBootList
	if err := i.Client.List(ctx, &boots, client.UnsafeDisableDeepCopy); err != nil {
		i.Log.Error(err, "Failed to list boots for the metrics")
		return
	}
	now := time.Now()
	countHosts(to, hosts.Items)
	countBoots(to, hosts.Items, boots.Items, i.Settings, now)
	countMachines(to, machines.Items, now)
	load := i.Pool.Load()
	for state, n := range map[string]int{"waiting": load.Waiting, "running": load.Running, "slow": load.Slow} {
		to <- prometheus.MustNewConstMetric(jobsDesc, prometheus.GaugeValue, float64(n), state)
	}
}

// gaugeTally counts by label value: the known values, and all others as other.
type gaugeTally struct {
	known []string
	count map[string]int
}

func newTally(reasons []string) gaugeTally { return gaugeTally{reasons, map[string]int{}} }

func (t gaugeTally) add(reason string) { t.count[reasonOrOther(t.known, reason)]++ }

func (t gaugeTally) send(to chan<- prometheus.Metric, desc *prometheus.Desc) {
	for _, k := range t.known {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(t.count[k]), k)
	}
}

func countHosts(to chan<- prometheus.Metric, hosts []v1alpha1.BareMetalHost) {
	phase, notReady, quarantined := newTally(phases), newTally(bmcReasons), newTally(quarantineReasons)
	power, unhealthy := newTally(powerReasons), partTally{}
	unrecorded := 0
	for n := range hosts {
		h := &hosts[n]
		if h.Status.Phase == "" {
			phase.add(string(v1alpha1.PhaseRegistering))
		} else {
			phase.add(string(h.Status.Phase))
		}
		if c := conditions.Get(h, v1alpha1.BMCReadyCondition); c != nil && c.Status == metav1.ConditionFalse {
			notReady.add(c.Reason)
		}
		if q := h.Spec.Quarantine; q != nil {
			quarantined.add(q.Reason)
		}
		switch reason := conditions.GetReason(h, v1alpha1.BootedCondition); reason {
		case v1alpha1.ReasonErasureNotRecorded:
			unrecorded++
		case v1alpha1.ReasonPoweredOff, v1alpha1.ReasonPowerDisputed, v1alpha1.ReasonPowerUnconfirmed:
			power.add(reason)
		}
		unhealthy.add(h)
	}
	phase.send(to, hostsDesc)
	notReady.send(to, bmcsDesc)
	quarantined.send(to, quarantineDesc)
	power.send(to, powerDesc)
	unhealthy.send(to)
	to <- prometheus.MustNewConstMetric(unrecordedDesc, prometheus.GaugeValue, float64(unrecorded))
}

func countMachines(to chan<- prometheus.Metric, machines []v1alpha1.BareMetalMachine, now time.Time) {
	waiting := newTally(waitingReasons)
	var oldest time.Duration
	for n := range machines {
		m := &machines[n]
		if m.DeletionTimestamp != nil {
			oldest = max(oldest, now.Sub(m.DeletionTimestamp.Time))
			continue
		}
		if c := conditions.Get(m, v1alpha1.HostClaimedCondition); c != nil && c.Status == metav1.ConditionFalse {
			waiting.add(c.Reason)
		}
	}
	waiting.send(to, waitingDesc)
	to <- prometheus.MustNewConstMetric(deletingDesc, prometheus.GaugeValue, oldest.Seconds())
}
