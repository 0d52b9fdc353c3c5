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

// maxDomains is how many failure domains are shown by name: people make them up, so there may be any number.
const maxDomains = 50

// bootCounts counts the hosts of a failure domain.
type bootCounts struct{ underWay, waiting int }

// countBoots counts who boots and who waits to. The hosts without a failure domain are shown from the start, of the others those with the most to do.
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
	for domain, count := range mergeDomains(all) {
		to <- prometheus.MustNewConstMetric(bootsUnderWayDesc, prometheus.GaugeValue, float64(count.underWay), domain)
		to <- prometheus.MustNewConstMetric(bootsWaitingDesc, prometheus.GaugeValue, float64(count.waiting), domain)
	}
}

// mergeDomains puts the failure domains together that are too many to be shown.
func mergeDomains(all map[string]bootCounts) map[string]bootCounts {
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b].underWay+all[b].waiting, all[a].underWay+all[a].waiting), cmp.Compare(a, b))
	})
	few := map[string]bootCounts{"": all[""]}
	for n, name := range names {
		count := all[name]
		switch {
		case name == "":
			continue
		case n >= maxDomains:
			name = other
		}
		few[name] = bootCounts{few[name].underWay + count.underWay, few[name].waiting + count.waiting}
	}
	return few
}
