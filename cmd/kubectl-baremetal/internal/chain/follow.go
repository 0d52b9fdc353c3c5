package chain

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// follow reads what belongs to the object that was asked about.
func (r *reading) follow(ctx context.Context, kind string) {
	o := &r.objects
	switch kind {
	case why.KindHost:
		r.boot(ctx, o.Host.Name)
		r.machineOfHost(ctx)
		r.erasureRequests(ctx)
	case why.KindBoot:
		get(ctx, r, why.KindHost, o.Boot.Name, &o.Host, &v1alpha1.BareMetalHost{})
		r.machineOfHost(ctx)
	case why.KindMachine:
		r.aroundMachine(ctx)
		r.belowMachine(ctx)
	case why.KindBareMetalMachine:
		r.machineOf(ctx, o.BareMetalMachine)
		r.aroundMachine(ctx)
		r.belowMachine(ctx)
	case why.KindCluster:
		r.infrastructure(ctx)
	case why.KindErasureRequest:
		get(ctx, r, why.KindHost, o.ErasureRequest.Spec.HostName, &o.Host, &v1alpha1.BareMetalHost{})
		r.boot(ctx, o.ErasureRequest.Spec.HostName)
	case why.KindSettings:
		get(ctx, r, why.KindHost, o.Settings.Name, &o.Host, &v1alpha1.BareMetalHost{}) // it has the name of the host
	case why.KindRemediation:
		get(ctx, r, why.KindMachine, o.Remediation.Name, &o.Machine, &clusterv1.Machine{}) // it has the name of the Machine
	default: // the others explain themselves, and owners follow with their machines
	}
}

// boot reads the record of the boot of a host, which has its name.
func (r *reading) boot(ctx context.Context, host string) {
	get(ctx, r, why.KindBoot, host, &r.objects.Boot, &v1alpha1.BareMetalBoot{})
}

// erasureRequests reads the requests to erase hosts. They are few: one that was carried out or that expired is removed.
func (r *reading) erasureRequests(ctx context.Context) {
	if list := (&v1alpha1.BareMetalErasureRequestList{}); r.list(ctx, why.KindErasureRequest, list, nil) {
		r.objects.ErasureRequests = list.Items
	}
}

// machineOfHost reads the machine that has the host, for the commands of the explanation.
func (r *reading) machineOfHost(ctx context.Context) {
	o := &r.objects
	if o.Host == nil || o.Host.Spec.ConsumerRef == nil {
		return
	}
	if get(ctx, r, why.KindBareMetalMachine, o.Host.Spec.ConsumerRef.Name, &o.BareMetalMachine, &v1alpha1.BareMetalMachine{}) {
		r.machineOf(ctx, o.BareMetalMachine)
	}
}

// machineOf reads the Machine that owns a BareMetalMachine.
func (r *reading) machineOf(ctx context.Context, m *v1alpha1.BareMetalMachine) {
	for _, owner := range m.OwnerReferences {
		if owner.Kind == why.KindMachine {
			get(ctx, r, why.KindMachine, owner.Name, &r.objects.Machine, &clusterv1.Machine{})
			return
		}
	}
}

// aroundMachine reads what is above and beside a Machine.
func (r *reading) aroundMachine(ctx context.Context) {
	o := &r.objects
	if o.Machine == nil {
		return
	}
	if get(ctx, r, why.KindCluster, o.Machine.Spec.ClusterName, &o.Cluster, &clusterv1.Cluster{}) {
		r.infrastructure(ctx)
	}
	r.ownerOf(ctx, o.Machine)
}

// infrastructure reads the BareMetalCluster of the Cluster.
func (r *reading) infrastructure(ctx context.Context) {
	o := &r.objects
	if ref := o.Cluster.Spec.InfrastructureRef; ref.Kind == why.KindBareMetalCluster {
		get(ctx, r, ref.Kind, ref.Name, &o.BareMetalCluster, &v1alpha1.BareMetalCluster{})
	}
}

// ownerOf reads the MachineDeployment of a Machine, or otherwise its controller.
func (r *reading) ownerOf(ctx context.Context, m *clusterv1.Machine) {
	controller := metav1.GetControllerOf(m)
	switch deployment := m.Labels[clusterv1.MachineDeploymentNameLabel]; {
	case deployment != "":
		r.owner(ctx, kindMachineDeployment, deployment, "")
	case controller != nil:
		r.owner(ctx, controller.Kind, controller.Name, controller.APIVersion)
	}
}

// belowMachine reads the bootstrap config, the BareMetalMachine, the host and the boot of a Machine, unless they were read already.
func (r *reading) belowMachine(ctx context.Context) {
	o := &r.objects
	if o.Machine != nil {
		if ref := o.Machine.Spec.Bootstrap.ConfigRef; ref.Kind == why.KindConfig && o.Config == nil {
			r.start(ctx, why.KindConfig, ref.Name)
		}
		if ref := o.Machine.Spec.InfrastructureRef; ref.Kind == why.KindBareMetalMachine && o.BareMetalMachine == nil {
			r.start(ctx, ref.Kind, ref.Name)
		}
	}
	if o.BareMetalMachine == nil || o.BareMetalMachine.Status.HostRef == nil {
		return
	}
	host := o.BareMetalMachine.Status.HostRef.Name
	get(ctx, r, why.KindHost, host, &o.Host, &v1alpha1.BareMetalHost{})
	r.boot(ctx, host)
}
