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
	hostsDesc = prometheus.NewDesc("capbm_hosts", "Hosts by their phase.", []string{"phase"}, nil)
	bmcsDesc  = prometheus.NewDesc("capbm_hosts_bmc_not_ready", "Hosts whose BMC did not do what it was last asked for, by the reason of the condition BMCReady.",
		[]string{"reason"}, nil)
	quarantineDesc = prometheus.NewDesc("capbm_hosts_quarantined", "Hosts in quarantine, by the reason.", []string{"reason"}, nil)
	waitingDesc    = prometheus.NewDesc("capbm_machines_without_host", "Machines that have no host, by the reason of the condition HostClaimed.", []string{"reason"}, nil)
	deletingDesc   = prometheus.NewDesc("capbm_machines_deleting_oldest_seconds",
		"How long ago the machine was deleted whose deletion has waited longest; 0 when none waits.", nil, nil)
	jobsDesc = prometheus.NewDesc("capbm_bmc_jobs",
		"Jobs for BMCs: waiting for their turn, running, and slow ones among the running, which gave their slot away.", []string{"state"}, nil)
)

// What is counted is shown from the start, also where it is none: phases, and the reasons of conditions.
var (
	phases = []string{
		string(v1alpha1.PhaseRegistering), string(v1alpha1.PhaseAvailable), string(v1alpha1.PhaseUnavailable), string(v1alpha1.PhaseClaimed),
		string(v1alpha1.PhaseBooting), string(v1alpha1.PhaseProvisioned), string(v1alpha1.PhaseBootFailed), string(v1alpha1.PhaseStateLost),
		string(v1alpha1.PhaseReleasing), string(v1alpha1.PhaseCleaning), string(v1alpha1.PhaseExternallyProvisioned), string(v1alpha1.PhaseMaintenance),
		string(v1alpha1.PhaseQuarantined), string(v1alpha1.PhaseOrphaned), string(v1alpha1.PhaseDeleting), string(v1alpha1.PhaseDetached),
		string(v1alpha1.PhasePowerHold), string(v1alpha1.PhaseBootUnknown), other,
	}
	bmcReasons = []string{
		v1alpha1.ReasonCredentialsMissing, v1alpha1.ReasonCredentialsNotLabeled, v1alpha1.ReasonCredentialsNotForBMC, v1alpha1.ReasonCredentialsRefused,
		v1alpha1.ReasonBMCUnreachable, v1alpha1.ReasonCertificateInvalid, v1alpha1.ReasonNotPermitted, v1alpha1.ReasonBMCConflict, v1alpha1.ReasonServerReplaced, v1alpha1.ReasonHardwareConflict,
		v1alpha1.ReasonSystemNotFound, v1alpha1.ReasonBMCUnsupported, v1alpha1.ReasonBMCError, other,
	}
	waitingReasons = []string{
		v1alpha1.ReasonNoHostFits, v1alpha1.ReasonWaitingForFormerHost, v1alpha1.ReasonWaitingForCluster, v1alpha1.ReasonWaitingForBootstrapData,
		v1alpha1.ReasonHostLost, v1alpha1.ReasonDeleting, other,
	}
)

// Inventory counts hosts and machines as the cache shows them at the moment of a scrape, and the jobs for their BMCs. Of several managers only
// the one that leads tells: the sum over all processes is right.
type Inventory struct {
	// Client reads from the cache.
	Client client.Reader
	// Leads is closed when this process leads.
	Leads <-chan struct{}
	// Pool is where the jobs are.
	Pool *bmc.Pool
	// Settings are those of the host controller: they say how long a boot counts.
	Settings lifecycle.Settings
	Log      logr.Logger
}

var _ prometheus.Collector = &Inventory{}

// Describe implements prometheus.Collector.
func (i *Inventory) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{hostsDesc, bmcsDesc, quarantineDesc, waitingDesc, deletingDesc, jobsDesc, bootsUnderWayDesc, bootsWaitingDesc} {
		to <- d
	}
}

// listTimeout is how long a scrape waits for a cache that is not there yet.
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
	// Nothing is written to what these lists hold: they are the cache's own objects.
	var hosts v1alpha1.BareMetalHostList
	if err := i.Client.List(ctx, &hosts, client.UnsafeDisableDeepCopy); err != nil {
		i.Log.Error(err, "List the hosts for the metrics")
		return
	}
	var machines v1alpha1.BareMetalMachineList
	if err := i.Client.List(ctx, &machines, client.UnsafeDisableDeepCopy); err != nil {
		i.Log.Error(err, "List the machines for the metrics")
		return
	}
	var boots v1alpha1.BareMetalBootList
	if err := i.Client.List(ctx, &boots, client.UnsafeDisableDeepCopy); err != nil {
		i.Log.Error(err, "Failed to list the boots for the metrics")
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

// gaugeTally counts what is known of, and the rest.
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
	phase, silent, quarantined := newTally(phases), newTally(bmcReasons), newTally(quarantineReasons)
	for n := range hosts {
		h := &hosts[n]
		if h.Status.Phase == "" {
			phase.add(string(v1alpha1.PhaseRegistering))
		} else {
			phase.add(string(h.Status.Phase))
		}
		if c := conditions.Get(h, v1alpha1.BMCReadyCondition); c != nil && c.Status == metav1.ConditionFalse {
			silent.add(c.Reason)
		}
		if q := h.Spec.Quarantine; q != nil {
			quarantined.add(q.Reason)
		}
	}
	phase.send(to, hostsDesc)
	silent.send(to, bmcsDesc)
	quarantined.send(to, quarantineDesc)
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
