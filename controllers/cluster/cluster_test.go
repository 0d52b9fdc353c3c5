package cluster_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/cluster"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

func TestCluster(t *testing.T) {
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		return (&cluster.Reconciler{Client: mgr.GetClient()}).SetupWithManager(ctx, mgr, controller.Options{})
	})
	namespace := env.Namespace(t)
	owner := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: "c",
		}},
	}
	env.Create(t, owner)
	infra := &v1alpha1.BareMetalCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"},
		Spec:       v1alpha1.BareMetalClusterSpec{FailureDomains: []clusterv1.FailureDomain{{Name: "rack-1", ControlPlane: new(true)}}},
	}
	env.Create(t, infra)
	controllerstest.Modify(t, env, infra, func(c *v1alpha1.BareMetalCluster) {
		c.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: owner.UID}}
	})
	controllerstest.Wait(t, env, infra, func(g Gomega, c *v1alpha1.BareMetalCluster) {
		g.Expect(conditions.GetReason(c, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonEndpointMissing))
		g.Expect(c.Status.FailureDomains).To(HaveLen(1))
		g.Expect(c.Status.Initialization.Provisioned).To(BeNil())
	})
	controllerstest.Modify(t, env, infra, func(c *v1alpha1.BareMetalCluster) {
		c.Spec.ControlPlaneEndpoint = v1alpha1.APIEndpoint{Host: "192.0.2.1", Port: 6443}
	})
	controllerstest.Wait(t, env, infra, func(g Gomega, c *v1alpha1.BareMetalCluster) {
		g.Expect(conditions.IsTrue(c, v1alpha1.ReadyCondition)).To(BeTrue())
		g.Expect(c.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
		g.Expect(c.Status.Ready).To(BeTrue())
	})
}
