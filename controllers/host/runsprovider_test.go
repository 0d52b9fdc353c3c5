package host_test

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
)

// TestOwnNode: the Node of the process is read by its name. A Node that does not exist, or may not be read, is unknown. Any other failure is an error.
func TestOwnNode(t *testing.T) {
	g := NewWithT(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	there := fake.NewClientBuilder().WithObjects(node).Build()
	failing := func(err error) client.Reader {
		return interceptor.NewClient(there, interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return err
			},
		})
	}
	nodes := schema.GroupResource{Resource: "nodes"}
	for name, c := range map[string]struct {
		reader client.Reader
		node   string
		want   string
		fails  bool
	}{
		"there":         {there, "n", "n", false},
		"no name":       {failing(apierrors.NewInternalError(context.Canceled)), "", "", false},
		"not there":     {there, "other", "", false},
		"not allowed":   {failing(apierrors.NewForbidden(nodes, "n", nil)), "n", "", false},
		"no API server": {failing(apierrors.NewServiceUnavailable("down")), "n", "", true},
	} {
		got, err := host.OwnNode(t.Context(), c.reader, c.node)
		g.Expect(err != nil).To(Equal(c.fails), name)
		if c.want == "" {
			g.Expect(got).To(BeNil(), name)
		} else {
			g.Expect(got.Name).To(Equal(c.want), name)
		}
	}
}

// TestOwnServer: the server that the provider runs on stays on although spec.power is Off, until a user allows the power-off.
func TestOwnServer(t *testing.T) {
	g := NewWithT(t)
	const uuid = "4c4c4544-0042-3510-8056-b7c04f4d3790"
	node := &corev1.Node{Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: "44454C4C-4200-1035-8056-B7C04F4D3790"}}} // in the other byte order
	defer startReconciler(t, &host.Reconciler{Settings: controllerstest.Settings(), Node: node})()
	server := controllerstest.NewServer(t, env.Namespace(t), "h", bmctest.Options{UUID: uuid})
	server.SetPower(true)
	server.Host.Spec.Power = v1alpha1.PowerOff
	register(t, server)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetReason(h, v1alpha1.RunsProviderCondition)).To(Equal(v1alpha1.ReasonRunsProvider))
		g.Expect(conditions.GetReason(h, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonRunsProvider))
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseUnavailable))
	})
	g.Expect(server.On()).To(BeTrue())

	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.PowerOffProviderAnnotation: "anna: the rack moves"}
	})
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOff))
		g.Expect(conditions.GetReason(h, v1alpha1.RunsProviderCondition)).To(Equal(v1alpha1.ReasonPowerOffAllowed))
		g.Expect(conditions.GetMessage(h, v1alpha1.RunsProviderCondition)).To(ContainSubstring("anna: the rack moves"))
	})
}
