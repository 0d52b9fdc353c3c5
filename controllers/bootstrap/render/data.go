package render

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/usertemplate"
)

// Data is the data of a template. The description of spec.userData lists it for users.
type Data struct {
	Cluster Cluster
	Machine Machine
	Values  map[string]string
	Taints  []string
}

// Cluster is what a template knows of the Cluster.
type Cluster struct {
	Name, Namespace        string
	ControlPlaneEndpoint   Endpoint
	PodCIDRs, ServiceCIDRs []string
	ServiceDomain          string
}

// Endpoint is the address of the Cluster's API server.
type Endpoint struct {
	Host string
	Port int32
}

// Machine is what a template knows of the Machine.
type Machine struct {
	Name, Version, FailureDomain string
	ControlPlane                 bool
	Labels                       map[string]string
}

// DataOf returns the data of the templates for a Machine.
func DataOf(cluster *clusterv1.Cluster, machine *clusterv1.Machine, values map[string]string) Data {
	network, endpoint := cluster.Spec.ClusterNetwork, cluster.Spec.ControlPlaneEndpoint
	d := Data{
		Cluster: Cluster{
			Name: cluster.Name, Namespace: cluster.Namespace, ControlPlaneEndpoint: Endpoint{endpoint.Host, endpoint.Port},
			PodCIDRs: network.Pods.CIDRBlocks, ServiceCIDRs: network.Services.CIDRBlocks, ServiceDomain: network.ServiceDomain,
		},
		Machine: Machine{
			Name: machine.Name, Version: machine.Spec.Version, FailureDomain: machine.Spec.FailureDomain,
			ControlPlane: util.IsControlPlaneMachine(machine), Labels: machine.Labels,
		},
		Values: values,
	}
	if !d.Machine.ControlPlane {
		d.Taints = []string{bootstrapv1.UninitializedTaint}
	}
	return d
}

// sampleOf returns data with the values of a spec, to check templates before there is a Machine.
func sampleOf(spec *bootstrapv1.BareMetalConfigSpec) Data {
	d := Data{Values: map[string]string{}}
	for _, v := range spec.Values {
		d.Values[v.Name] = ptr.Deref(v.Value, "")
	}
	return d
}

const (
	// maxTemplate is the maximum size of a template in bytes. The CRD has the same limit for spec.userData.
	maxTemplate = 256 << 10
	// MaxData is the maximum size of bootstrap data in bytes: that of a Secret, less some room for the key format.
	MaxData = 1<<20 - 64
	// maxRange is over how many labels, networks or taints a template may range. Machines of today have up to 20 labels.
	maxRange = 64
	// maxWork and maxCommandWork are how many nodes of the user data, and of a command, are executed. A config with 64 commands takes 50 ms at most.
	maxWork, maxCommandWork = 500_000, 8_000
	// maxTime is how long a template may take on a busy machine.
	maxTime = 2 * time.Second
)

func language(name string, work int) usertemplate.Language {
	return usertemplate.Language{
		Name: name, Left: "<%", Right: "%>", TextFunctions: true,
		Ranges:      []string{".Cluster.PodCIDRs", ".Cluster.ServiceCIDRs", ".Machine.Labels", ".Taints"},
		MaxTemplate: maxTemplate, MaxResult: MaxData, MaxRange: maxRange, MaxWork: work, MaxTime: maxTime,
	}
}

// userDataLanguage is the language of the user data. commandLanguage is the language of the command with an index.
func userDataLanguage() usertemplate.Language { return language("user data", maxWork) }

func commandLanguage(i int) usertemplate.Language {
	return language(fmt.Sprintf("command %d", i+1), maxCommandWork)
}
