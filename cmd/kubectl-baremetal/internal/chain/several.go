package chain

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// severalMachines are the labels of the Machines of an object, for the kinds that have several.
var severalMachines = map[string]func(name string) client.MatchingLabels{
	why.KindCluster: func(name string) client.MatchingLabels {
		return client.MatchingLabels{clusterv1.ClusterNameLabel: name}
	},
	kindMachineDeployment: func(name string) client.MatchingLabels {
		return client.MatchingLabels{clusterv1.MachineDeploymentNameLabel: name}
	},
	kindMachineSet: func(name string) client.MatchingLabels {
		return client.MatchingLabels{clusterv1.MachineSetNameLabel: name}
	},
	kindKubeadmControlPlane: func(name string) client.MatchingLabels {
		return client.MatchingLabels{clusterv1.MachineControlPlaneNameLabel: name}
	},
}

// worst reads the machines with these labels, and then the rest of the chain of the machine that needs attention most. It returns how many machines there are, and how many
// are not as wanted.
func (r *reading) worst(ctx context.Context, labels client.MatchingLabels) (machines, unready int) {
	var list clusterv1.MachineList
	if !r.list(ctx, why.KindMachine, &list, labels) || len(list.Items) == 0 {
		return 0, 0
	}
	cluster := list.Items[0].Spec.ClusterName
	if r.objects.Cluster == nil && get(ctx, r, why.KindCluster, cluster, &r.objects.Cluster, &clusterv1.Cluster{}) {
		r.infrastructure(ctx)
	}
	infrastructure := r.bareMetalMachines(ctx, cluster)
	var first *why.Objects
	var firstExplanation *why.Explanation
	for i := range list.Items {
		o := r.objects // a copy: the chain of one machine
		o.Machine = &list.Items[i]
		o.BareMetalMachine = infrastructure[o.Machine.Spec.InfrastructureRef.Name]
		e, _ := why.Explain(why.KindMachine, &o)
		if e.State != why.Done {
			unready++
		}
		if first == nil || why.Compare(&e, firstExplanation, r.Now) < 0 {
			first, firstExplanation = &o, &e
		}
	}
	r.objects = *first
	r.belowMachine(ctx)
	if r.objects.Owner.Kind == "" {
		r.ownerOf(ctx, r.objects.Machine)
	}
	return len(list.Items), unready
}

// bareMetalMachines reads the BareMetalMachines of a Cluster, by name.
func (r *reading) bareMetalMachines(ctx context.Context, cluster string) map[string]*v1alpha1.BareMetalMachine {
	var list v1alpha1.BareMetalMachineList
	r.list(ctx, why.KindBareMetalMachine, &list, client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})
	byName := map[string]*v1alpha1.BareMetalMachine{}
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName
}

// list reads a list with one request, whatever its length. It returns false if it was not read.
func (r *reading) list(ctx context.Context, kind string, list client.ObjectList, labels client.MatchingLabels) bool {
	if r.err != nil {
		return false
	}
	r.requests++
	if err := access.List(ctx, r.Client, list, client.InNamespace(r.Namespace), labels); err != nil {
		r.unread(kind, "", err)
		return false
	}
	return true
}

// hosts reads all hosts of the namespace, for a machine or a template that no host fits. If they need more requests than an answer may have, it reads none.
func (r *reading) hosts(ctx context.Context) {
	if r.err != nil || !r.noHostFits() {
		return
	}
	var all []v1alpha1.BareMetalHost
	for token := ""; r.requests < MaxRequests; {
		list := &v1alpha1.BareMetalHostList{}
		r.requests++
		next, err := access.Page(ctx, r.Client, list, token, client.InNamespace(r.Namespace))
		if err != nil {
			r.unread(why.KindHost, "", err)
			return
		}
		all = append(all, list.Items...)
		if token = next; token == "" {
			r.objects.Hosts, r.objects.HostsRead = all, true
			return
		}
		if left := list.GetRemainingItemCount(); left != nil && *left > int64((MaxRequests-r.requests)*access.PageSize) {
			return // the pages that an answer may have would be read in vain
		}
	}
}

// noHostFits is true if the machine or the template says that it has no host because none fits.
func (r *reading) noHostFits() bool {
	if m := r.objects.BareMetalMachine; m != nil {
		c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.HostClaimedCondition)
		return c != nil && c.Reason == v1alpha1.ReasonNoHostFits
	}
	if t := r.objects.MachineTemplate; t != nil {
		c := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ReadyCondition)
		return c != nil && c.Reason == v1alpha1.ReasonNoHostMatches
	}
	return false
}
