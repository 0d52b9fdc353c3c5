package host

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestRunsOn: the system UUID decides, in either byte order. Without one the provider ID decides.
func TestRunsOn(t *testing.T) {
	const (
		uuid    = "4c4c4544-0042-3510-8056-b7c04f4d3790"
		swapped = "44454C4C-4200-1035-8056-B7C04F4D3790"
		another = "4c4c4544-0042-3510-8056-b7c04f4d3791"
		none    = "00000000-0000-0000-0000-000000000000"
		ours    = "baremetal://dc/h/m"
	)
	g := NewWithT(t)
	h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h"}}
	for _, c := range []struct {
		ofNode, ofHost, providerID string
		want                       bool
	}{
		{uuid, uuid, "", true},
		{swapped, uuid, "", true},
		{another, uuid, "", false},
		{another, uuid, ours, false}, // a host of another management cluster
		{uuid, "", ours, true},
		{"", uuid, ours, true},
		{none, none, ours, true},
		{none, none, "", false},
		{uuid, "", "baremetal://dc/other/m", false},
		{uuid, "", "baremetal://other/h/m", false},
		{uuid, "", "k3s://h", false},
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{ProviderID: c.providerID}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: c.ofNode}}}
		g.Expect(runsOn(node, h, &v1alpha1.Hardware{SystemUUID: c.ofHost})).To(Equal(c.want), "%+v", c)
	}
	g.Expect(runsOn(nil, h, &v1alpha1.Hardware{SystemUUID: uuid})).To(BeFalse())
	g.Expect(runsOn(&corev1.Node{Spec: corev1.NodeSpec{ProviderID: ours}}, h, nil)).To(BeTrue())
}
