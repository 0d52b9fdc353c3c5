package cluster

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// reconcileEndpoint waits for somebody to say where the API server is reached. What the Cluster says is copied to the BareMetalCluster: so the
// endpoint stands where the contract wants it, and cannot change any more. Once provisioned a cluster stays so.
func reconcileEndpoint(infra *v1alpha1.BareMetalCluster, cluster *clusterv1.Cluster) {
	theirs := v1alpha1.APIEndpoint{Host: cluster.Spec.ControlPlaneEndpoint.Host, Port: cluster.Spec.ControlPlaneEndpoint.Port}
	ours := &infra.Spec.ControlPlaneEndpoint
	endpoint := metav1.Condition{Status: metav1.ConditionFalse}
	switch {
	case ours.Host == "" && !cluster.Spec.ControlPlaneEndpoint.IsValid():
		endpoint.Reason = v1alpha1.ReasonEndpointMissing
		endpoint.Message = "Set spec.controlPlaneEndpoint to the address that a load balancer or kube-vip holds for the API server"
	case ours.Host == "" && !isHost(theirs.Host):
		endpoint.Reason = v1alpha1.ReasonEndpointInvalid
		endpoint.Message = fmt.Sprintf("The Cluster's spec.controlPlaneEndpoint.host %q is neither a hostname nor an IP address: correct it there", theirs.Host)
	case ours.Host != "" && cluster.Spec.ControlPlaneEndpoint.IsValid() && *ours != theirs:
		endpoint.Reason = v1alpha1.ReasonEndpointMismatch
		endpoint.Message = fmt.Sprintf("The Cluster's spec.controlPlaneEndpoint is %s, and that of this BareMetalCluster is %s, which cannot be changed: "+
			"set the Cluster's to %[2]s, or make a new Cluster", text(theirs), text(*ours))
	default:
		if ours.Host == "" {
			*ours = theirs
		}
		endpoint.Status, endpoint.Reason = metav1.ConditionTrue, v1alpha1.ReasonEndpointSet
		infra.Status.Initialization.Provisioned = new(true)
	}
	for _, kind := range []string{v1alpha1.ControlPlaneEndpointSetCondition, v1alpha1.ReadyCondition} {
		endpoint.Type = kind
		conditions.Set(infra, endpoint)
	}
}

var hostname = regexp.MustCompile("^[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?$")

// isHost is true for what the API takes for the host of an endpoint.
func isHost(host string) bool {
	address, err := netip.ParseAddr(host)
	return hostname.MatchString(host) || err == nil && address.Zone() == "" && !address.Is4In6()
}

func text(e v1alpha1.APIEndpoint) string {
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}
