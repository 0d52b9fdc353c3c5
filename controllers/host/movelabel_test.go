package host_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestMoveLabelIsRestored: the label that makes `clusterctl move` include a BMC's Secret is restored after a user removes it.
func TestMoveLabelIsRestored(t *testing.T) {
	defer start(t)()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	labelled := func(g Gomega, s *corev1.Secret) { g.Expect(s.Labels).To(HaveKey(v1alpha1.MoveLabel)) }
	controllerstest.Wait(t, env, server.Secret, labelled)
	controllerstest.Modify(t, env, server.Secret, func(s *corev1.Secret) { delete(s.Labels, v1alpha1.MoveLabel) })
	controllerstest.Wait(t, env, server.Secret, labelled)
}
