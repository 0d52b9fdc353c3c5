package main

import (
	"strings"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// resourceName returns the name of an object as kubectl -o name prints it, for the kinds that this program explains.
func resourceName(kind, name string) string {
	group := clusterv1.GroupVersion.Group
	switch {
	case kind == why.KindConfig:
		group = bootstrapv1.GroupVersion.Group
	case strings.HasPrefix(kind, "BareMetal"):
		group = v1alpha1.GroupVersion.Group
	case strings.HasSuffix(kind, "ControlPlane"):
		group = clusterv1.GroupVersionControlPlane.Group
	}
	return strings.ToLower(kind) + "." + group + "/" + name
}
