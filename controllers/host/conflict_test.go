package host_test

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestManyWithOneMAC: what is told of hosts with the same MAC address names the others in an order that stays, so that nothing is written for
// nothing.
func TestManyWithOneMAC(t *testing.T) {
	defer start(t)()
	namespace := env.Namespace(t)
	names := []string{"a", "b", "c", "d", "e", "f"}
	var servers []*controllerstest.Server
	for _, name := range names {
		server := controllerstest.NewServer(t, namespace, name, 0x71, bmctest.Options{})
		register(t, server)
		servers = append(servers, server)
	}
	want := namespace + "/" + strings.Join(names[1:], ", "+namespace+"/") + ":"
	wait(t, servers[0], func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetMessage(h, v1alpha1.VerifiedCondition)).To(ContainSubstring(want))
	})
	for _, domain := range names {
		controllerstest.Modify(t, env, servers[0].Host, func(h *v1alpha1.BareMetalHost) { h.Spec.FailureDomain = domain })
		wait(t, servers[0], func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(h.Status.ObservedGeneration).To(Equal(h.Generation))
		})
		NewWithT(t).Expect(conditions.GetMessage(servers[0].Host, v1alpha1.VerifiedCondition)).To(ContainSubstring(want))
	}
}
