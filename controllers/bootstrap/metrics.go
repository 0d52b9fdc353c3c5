package bootstrap

import (
	"cmp"
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
)

var configsDesc = prometheus.NewDesc("capbm_bootstrap_configs",
	"BareMetalConfigs, by the reason of the condition DataSecretAvailable.", []string{"reason"}, nil)

// notReconciled is the label value for configs without the condition, which wait for their Machine.
const notReconciled = "WaitingForMachine"

// reasons are the label values. They are exported from the start, even if their count is 0.
var reasons = []string{
	bootstrapv1.ReasonDataSecretCreated, bootstrapv1.ReasonWaitingForInfrastructure, bootstrapv1.ReasonWaitingForControlPlane, bootstrapv1.ReasonClusterNotFound,
	bootstrapv1.ReasonOwnerUnsupported, bootstrapv1.ReasonUserDataMissing, bootstrapv1.ReasonValueMissing, bootstrapv1.ReasonSecretNotLabeled,
	bootstrapv1.ReasonTemplateInvalid, bootstrapv1.ReasonUserDataInvalid, bootstrapv1.ReasonDataTooLarge, bootstrapv1.ReasonSecretConflict,
	bootstrapv1.ReasonRequestFailed, notReconciled,
}

// Metrics counts configs as the cache shows them at the time of a scrape. Only the leader exports them, so the sum over all processes is correct.
type Metrics struct {
	// Client reads from the cache.
	Client client.Reader
	// Leads is closed when this process becomes the leader.
	Leads <-chan struct{}
	Log   logr.Logger
}

var _ prometheus.Collector = &Metrics{}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { to <- configsDesc }

// listTimeout is how long a scrape waits for a cache that has not started yet.
const listTimeout = 5 * time.Second

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	select {
	case <-m.Leads:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), listTimeout)
	defer cancel()
	var configs bootstrapv1.BareMetalConfigList
	if err := m.Client.List(ctx, &configs, client.UnsafeDisableDeepCopy); err != nil {
		m.Log.Error(err, "Failed to count the configs")
		return
	}
	counts := map[string]int{}
	for i := range configs.Items {
		counts[cmp.Or(conditions.GetReason(&configs.Items[i], bootstrapv1.DataSecretAvailableCondition), notReconciled)]++
	}
	for _, reason := range reasons {
		to <- prometheus.MustNewConstMetric(configsDesc, prometheus.GaugeValue, float64(counts[reason]), reason)
	}
}
