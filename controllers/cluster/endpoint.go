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

// reconcileEndpoint waits until a user sets the control plane endpoint. An endpoint of the Cluster is copied to the BareMetalCluster: the contract
// requires it there, and it cannot be changed afterwards. A provisioned cluster stays provisioned.
func reconcileEndpoint(infra *v1alpha1.BareMetalCluster, cluster *clusterv1.Cluster) {
	clusterEndpoint := v1alpha1.APIEndpoint{Host: cluster.Spec.ControlPlaneEndpoint.Host, Port: cluster.Spec.ControlPlaneEndpoint.Port}
	infraEndpoint := &infra.Spec.ControlPlaneEndpoint
	endpoint := metav1.Condition{Status: metav1.ConditionFalse}
	switch {
	case infraEndpoint.Host == "" && !cluster.Spec.ControlPlaneEndpoint.IsValid():
		endpoint.Reason = v1alpha1.ReasonEndpointMissing
		endpoint.Message = "Set spec.controlPlaneEndpoint to the address of the API server, which a load balancer or kube-vip provides"
	case infraEndpoint.Host == "" && !isHost(clusterEndpoint.Host):
		endpoint.Reason = v1alpha1.ReasonEndpointInvalid
		endpoint.Message = fmt.Sprintf("The Cluster's spec.controlPlaneEndpoint.host %q is neither a hostname nor an IP address: correct it there", clusterEndpoint.Host)
	case infraEndpoint.Host != "" && cluster.Spec.ControlPlaneEndpoint.IsValid() && *infraEndpoint != clusterEndpoint:
		endpoint.Reason = v1alpha1.ReasonEndpointMismatch
		endpoint.Message = fmt.Sprintf("The Cluster's spec.controlPlaneEndpoint is %s, but that of this BareMetalCluster is %s and cannot be changed: "+
			"set the Cluster's to %[2]s, or create a new Cluster", endpointText(clusterEndpoint), endpointText(*infraEndpoint))
	default:
		if infraEndpoint.Host == "" {
			*infraEndpoint = clusterEndpoint
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

// isHost is true for a host name or an IP address that the API accepts as the host of an endpoint.
func isHost(host string) bool {
	address, err := netip.ParseAddr(host)
	return hostname.MatchString(host) || err == nil && address.Zone() == "" && !address.Is4In6()
}

func endpointText(e v1alpha1.APIEndpoint) string {
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}
