package metrics

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

var (
	bootsUnderWayDesc = prometheus.NewDesc("capbm_boots_under_way", "Hosts that boot, from the begin of an attempt to its end, by failure domain. These are what --boot-concurrency limits.",
		[]string{"failure_domain"}, nil)
	bootsWaitingDesc = prometheus.NewDesc("capbm_boots_waiting", "Hosts that wait to boot since as many of their failure domain boot already as may, by failure domain.",
		[]string{"failure_domain"}, nil)
)

// maxShownDomains is how many failure domains have a label value of their own. Users name them, so their number has no limit.
const maxShownDomains = 50

// bootCounts counts the hosts of a failure domain.
type bootCounts struct{ underWay, waiting int }

// countBoots counts the hosts that boot and those that wait to boot. The hosts without a failure domain are always shown. Of the other failure
// domains those with the highest counts are shown.
func countBoots(to chan<- prometheus.Metric, hosts []v1alpha1.BareMetalHost, records []v1alpha1.BareMetalBoot, settings lifecycle.Settings, now time.Time) {
	all := map[string]bootCounts{"": {}}
	byHost := make(map[client.ObjectKey]*v1alpha1.BareMetalBoot, len(records))
	for n := range records {
		byHost[client.ObjectKeyFromObject(&records[n])] = &records[n]
	}
	for n := range hosts {
		h := &hosts[n]
		domain := h.Spec.FailureDomain
		count := all[domain]
		view := lifecycle.View{Spec: h.Spec}
		if b := byHost[client.ObjectKeyFromObject(h)]; b != nil {
			view.Boot, view.WaitedAt = &b.Spec, controllers.WaitedAt(b)
		}
		switch c := conditions.Get(h, v1alpha1.BootedCondition); {
		case now.Before(view.BootsUntil(settings)):
			count.underWay++
		case c != nil && c.Reason == v1alpha1.ReasonWaitingForBootSlot:
			count.waiting++
		default:
			continue
		}
		all[domain] = count
	}
	for domain, count := range limitDomains(all) {
		to <- prometheus.MustNewConstMetric(bootsUnderWayDesc, prometheus.GaugeValue, float64(count.underWay), domain)
		to <- prometheus.MustNewConstMetric(bootsWaitingDesc, prometheus.GaugeValue, float64(count.waiting), domain)
	}
}

// limitDomains adds up the failure domains beyond maxShownDomains.
func limitDomains(all map[string]bootCounts) map[string]bootCounts {
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b].underWay+all[b].waiting, all[a].underWay+all[a].waiting), cmp.Compare(a, b))
	})
	limited := map[string]bootCounts{"": all[""]}
	for n, name := range names {
		count := all[name]
		switch {
		case name == "":
			continue
		case n >= maxShownDomains:
			name = other
		}
		limited[name] = bootCounts{limited[name].underWay + count.underWay, limited[name].waiting + count.waiting}
	}
	return limited
}
