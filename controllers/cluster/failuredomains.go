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
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// maxFailureDomains is how many failure domains Cluster API accepts.
const maxFailureDomains = 100

// domainsChanged passes events that may change the failure domains of the hosts. Other changes of hosts are frequent.
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
		// The last observed version of a deleted host may be older than its deletion timestamp.
		DeleteFunc:  func(e event.DeleteEvent) bool { return domain(e.Object) != "" },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// clustersOfHost returns the clusters in a host's namespace: each of them may place machines on the host.
func (r *Reconciler) clustersOfHost(ctx context.Context, o client.Object) []reconcile.Request {
	var clusters v1alpha1.BareMetalClusterList
	if err := r.Client.List(ctx, &clusters, client.InNamespace(o.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the clusters whose failure domains may have changed")
		return nil
	}
	var requests []reconcile.Request
	for i := range clusters.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&clusters.Items[i])})
	}
	return requests
}

// reconcileFailureDomains writes the failure domains of the hosts and of the spec to the status.
func (r *Reconciler) reconcileFailureDomains(ctx context.Context, infra *v1alpha1.BareMetalCluster) error {
	var hosts v1alpha1.BareMetalHostList
	// The hosts are only read, and there may be thousands: a copy is not needed.
	if err := r.Client.List(ctx, &hosts, client.InNamespace(infra.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list the hosts for their failure domains: %w", err)
	}
	found := failureDomainsOf(hosts.Items)
	domains, excess := merge(infra.Spec.FailureDomains, found)
	infra.Status.FailureDomains = domains
	conditions.Set(infra, failureDomainsCondition(infra.Spec.FailureDomains, found, excess))
	return nil
}

// failureDomainsOf returns the failure domains of the hosts, sorted by name. A host under deletion does not count.
func failureDomainsOf(hosts []v1alpha1.BareMetalHost) []string {
	names := map[string]bool{}
	for i := range hosts {
		if h := &hosts[i]; h.Spec.FailureDomain != "" && h.DeletionTimestamp.IsZero() {
			names[h.Spec.FailureDomain] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// merge returns the failure domains for Cluster API, sorted by name, and the names of the found ones that exceed maxFailureDomains. Only the spec can
// allow a control plane in a failure domain.
func merge(declared []clusterv1.FailureDomain, found []string) (domains []clusterv1.FailureDomain, excess []string) {
	byName := map[string]bool{}
	for _, d := range declared {
		d.ControlPlane = new(ptr.Deref(d.ControlPlane, false))
		domains, byName[d.Name] = append(domains, d), true
	}
	for _, name := range found {
		switch {
		case byName[name]:
		case len(domains) == maxFailureDomains:
			excess = append(excess, name)
		default:
			domains = append(domains, clusterv1.FailureDomain{Name: name, ControlPlane: new(false)})
		}
	}
	slices.SortFunc(domains, func(a, b clusterv1.FailureDomain) int { return cmp.Compare(a.Name, b.Name) })
	return domains, excess
}

// failureDomainsCondition returns the condition FailureDomainsReady, with what is wrong with the failure domains.
func failureDomainsCondition(declared []clusterv1.FailureDomain, found, excess []string) metav1.Condition {
	var empty, messages []string
	for _, d := range declared {
		if _, there := slices.BinarySearch(found, d.Name); !there {
			empty = append(empty, d.Name)
		}
	}
	c := metav1.Condition{Type: v1alpha1.FailureDomainsReadyCondition, Status: metav1.ConditionFalse}
	if len(empty) > 0 {
		c.Reason = v1alpha1.ReasonFailureDomainWithoutHosts
		hosts := "no host has a spec.failureDomain"
		if len(found) > 0 {
			hosts = "the hosts are in " + inventory.ListNames(found)
		}
		messages = append(messages, fmt.Sprintf("spec.failureDomains: no host of the namespace is in %s (%s). Machines that are placed there wait for a host. "+
			"Correct the name, or set spec.failureDomain of the hosts", inventory.ListNames(empty), hosts))
	}
	if len(excess) > 0 {
		c.Reason = cmp.Or(c.Reason, v1alpha1.ReasonTooManyFailureDomains)
		messages = append(messages, fmt.Sprintf("Cluster API accepts %d failure domains, so these are left out: %s. List the relevant ones in spec.failureDomains, "+
			"or use fewer and larger failure domains", maxFailureDomains, inventory.ListNames(excess)))
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
