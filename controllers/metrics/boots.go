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
	bootsUnderWayDesc = prometheus.NewDesc("capbm_boots_under_way", "Hosts that are booting, from the start of an attempt to its end, by failure domain. --boot-concurrency limits them.",
		[]string{"failure_domain"}, nil)
	bootsWaitingDesc = prometheus.NewDesc("capbm_boots_waiting", "Hosts that wait for a boot slot because --boot-concurrency hosts of their failure domain are booting, by failure domain.",
		[]string{"failure_domain"}, nil)
	agentsStalledDesc = prometheus.NewDesc("capbm_agents_stalled", "Agents that were given a plan, have not ended it, and have reported no progress for five minutes.", nil, nil)
)

// maxAgentSilence is how long an agent may report no progress. It reports every few seconds.
const maxAgentSilence = 5 * time.Minute

// maxDomains is the maximum number of failure domains that are exported by name. Users choose the names, so their number has no limit.
const maxDomains = 50

// bootCounts are the counts of one failure domain.
type bootCounts struct{ underWay, waiting int }

// countBoots counts the hosts that boot and the hosts that wait for a boot slot. Hosts without a failure domain are exported from the start. Of the
// failure domains, those with the highest counts are exported by name.
func countBoots(to chan<- prometheus.Metric, hosts []v1alpha1.BareMetalHost, records []v1alpha1.BareMetalBoot, settings lifecycle.Settings, now time.Time) {
	all := map[string]bootCounts{"": {}}
	byHost := make(map[client.ObjectKey]*v1alpha1.BareMetalBoot, len(records))
	for n := range records {
		byHost[client.ObjectKeyFromObject(&records[n])] = &records[n]
	}
	stalled := 0
	for n := range hosts {
		h := &hosts[n]
		domain := h.Spec.FailureDomain
		count := all[domain]
		view := lifecycle.View{Host: lifecycle.Host{Spec: h.Spec}}
		if b := byHost[client.ObjectKeyFromObject(h)]; b != nil {
			view.Host.Boot, view.Observed.WaitedAt, view.Observed.AgentAt = &b.Spec, controllers.WaitedAt(b), controllers.AgentAt(b)
		}
		if isStalled(view, now.Before(view.BootsUntil(settings)), now) {
			stalled++
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
	to <- prometheus.MustNewConstMetric(agentsStalledDesc, prometheus.GaugeValue, float64(stalled))
	for domain, count := range mergeDomains(all) {
		to <- prometheus.MustNewConstMetric(bootsUnderWayDesc, prometheus.GaugeValue, float64(count.underWay), domain)
		to <- prometheus.MustNewConstMetric(bootsWaitingDesc, prometheus.GaugeValue, float64(count.waiting), domain)
	}
}

// isStalled is true for an agent that has reported progress and has stopped doing so.
func isStalled(view lifecycle.View, boots bool, now time.Time) bool {
	return boots && view.Host.Boot.Agent && view.Host.Boot.AgentDoneTime == nil && !view.Observed.AgentAt.IsZero() && now.Sub(view.Observed.AgentAt) > maxAgentSilence
}

// mergeDomains merges the failure domains beyond maxDomains into other.
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
