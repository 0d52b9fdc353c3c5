package cluster

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

const (
	// maxFailureDomains is how many Cluster API takes.
	maxFailureDomains = 100
	// maxNamed is how many a message names.
	maxNamed = 10
)

// domainsChanged lets through what changes which failure domains the hosts have. Hosts change all the time otherwise.
func domainsChanged() predicate.Predicate {
	domain := func(o client.Object) string {
		if host, ok := o.(*v1alpha1.BareMetalHost); ok && host.DeletionTimestamp.IsZero() {
			return host.Spec.FailureDomain
		}
		return ""
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool { return domain(e.Object) != "" },
		UpdateFunc: func(e event.UpdateEvent) bool { return domain(e.ObjectOld) != domain(e.ObjectNew) },
		// What was seen last of a host that is gone may be older than the beginning of its deletion.
		DeleteFunc:  func(e event.DeleteEvent) bool { return domain(e.Object) != "" },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// clustersOfHost returns the clusters of a host's namespace: any of them may place machines on it.
func (r *Reconciler) clustersOfHost(ctx context.Context, o client.Object) []reconcile.Request {
	var clusters v1alpha1.BareMetalClusterList
	if err := r.Client.List(ctx, &clusters, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "List the clusters whose failure domains may have changed")
		return nil
	}
	var requests []reconcile.Request
	for i := range clusters.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&clusters.Items[i])})
	}
	return requests
}

// reconcileFailureDomains writes which failure domains there are: those of the hosts, and those of the spec.
func (r *Reconciler) reconcileFailureDomains(ctx context.Context, infra *v1alpha1.BareMetalCluster) error {
	var hosts v1alpha1.BareMetalHostList
	// They are only read, and there may be thousands: nobody needs a copy.
	if err := r.Client.List(ctx, &hosts, client.InNamespace(infra.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the hosts for their failure domains: %w", err)
	}
	found := discover(hosts.Items)
	domains, left := merge(infra.Spec.FailureDomains, found)
	infra.Status.FailureDomains = domains
	conditions.Set(infra, judge(infra.Spec.FailureDomains, found, left))
	return nil
}

// discover returns the failure domains that hosts stand in, by name. A host that is being deleted counts no more.
func discover(hosts []v1alpha1.BareMetalHost) []string {
	names := map[string]bool{}
	for i := range hosts {
		if h := &hosts[i]; h.Spec.FailureDomain != "" && h.DeletionTimestamp.IsZero() {
			names[h.Spec.FailureDomain] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// merge returns the failure domains for Cluster API, by name, and the names of those that were found and are too many. Which of those that
// are found may hold control planes nobody knows but the user: he says so in the spec.
func merge(declared []clusterv1.FailureDomain, found []string) (domains []clusterv1.FailureDomain, left []string) {
	byName := map[string]bool{}
	for _, d := range declared {
		d.ControlPlane = new(ptr.Deref(d.ControlPlane, false))
		domains, byName[d.Name] = append(domains, d), true
	}
	for _, name := range found {
		switch {
		case byName[name]:
		case len(domains) == maxFailureDomains:
			left = append(left, name)
		default:
			domains = append(domains, clusterv1.FailureDomain{Name: name, ControlPlane: new(false)})
		}
	}
	slices.SortFunc(domains, func(a, b clusterv1.FailureDomain) int { return cmp.Compare(a.Name, b.Name) })
	return domains, left
}

// judge tells what is wrong with the failure domains.
func judge(declared []clusterv1.FailureDomain, found, left []string) metav1.Condition {
	var empty, messages []string
	for _, d := range declared {
		if _, there := slices.BinarySearch(found, d.Name); !there {
			empty = append(empty, d.Name)
		}
	}
	c := metav1.Condition{Type: v1alpha1.FailureDomainsReadyCondition, Status: metav1.ConditionFalse}
	if len(empty) > 0 {
		c.Reason = v1alpha1.ReasonFailureDomainWithoutHosts
		there := "no host names one"
		if len(found) > 0 {
			there = "they are in " + list(found)
		}
		messages = append(messages, fmt.Sprintf("spec.failureDomains: no host of the namespace is in %s (%s): machines that are placed there wait for a host. "+
			"Correct the name, or set spec.failureDomain of the hosts", list(empty), there))
	}
	if len(left) > 0 {
		c.Reason = cmp.Or(c.Reason, v1alpha1.ReasonTooManyFailureDomains)
		messages = append(messages, fmt.Sprintf("Cluster API takes %d failure domains: left out are %s. Name those that matter in spec.failureDomains, "+
			"or make larger ones", maxFailureDomains, list(left)))
	}
	c.Message = strings.Join(messages, "; ")
	switch {
	case len(messages) > 0:
	case len(found) == 0:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonNoFailureDomains
	default:
		c.Status, c.Reason = metav1.ConditionTrue, v1alpha1.ReasonFailureDomainsFound
	}
	return c
}

// list names the first of the names, and counts the others.
func list(names []string) string {
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if more := len(names) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
