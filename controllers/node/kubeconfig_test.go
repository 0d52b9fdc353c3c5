package node_test

import (
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/cluster"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/node"
)

// TestTokenFileOfATenant: a kubeconfig Secret that names a file of the manager, such as the token of its ServiceAccount, makes it send nothing to the
// server in the Secret. The BareMetalCluster reports it until the Secret is corrected. Then the manager connects with the credentials in the Secret.
func TestTokenFileOfATenant(t *testing.T) {
	g := NewWithT(t)
	token := filepath.Join(t.TempDir(), "token")
	g.Expect(os.WriteFile(token, []byte("the manager's own token"), 0o600)).To(Succeed())
	var asked atomic.Int32
	var last atomic.Value
	tenant := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last.Store(r.Header.Get("Authorization"))
		asked.Add(1)
		http.NotFound(w, r)
	}))
	t.Cleanup(tenant.Close)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: tenant.Certificate().Raw})
	kubeconfig := func(user clientcmdapi.AuthInfo) []byte { return controllerstest.Kubeconfig(t, tenant.URL, ca, user) }
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		kubeconfigs, err := controllers.SetupKubeconfigs(ctx, mgr, controllerstest.Loopback)
		if err != nil {
			return err
		}
		clusters, err := node.NewClusterCache(ctx, mgr, kubeconfigs, "", controller.Options{})
		if err != nil {
			return err
		}
		t.Cleanup(controllerstest.UseShortConnectRetry(t, clusters))
		return (&cluster.Reconciler{Client: mgr.GetClient(), Kubeconfigs: kubeconfigs}).SetupWithManager(ctx, mgr, controller.Options{})
	})

	namespace := env.Namespace(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c-kubeconfig", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}},
		Data:       map[string][]byte{"value": kubeconfig(clientcmdapi.AuthInfo{TokenFile: token})},
	}
	env.Create(t, secret)
	claim := env.NewClaim(t, namespace, "c")
	infra := &v1alpha1.BareMetalCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: "c", UID: claim.Cluster.UID,
	}}}}
	env.Create(t, infra)
	controllerstest.Wait(t, env, infra, func(g Gomega, c *v1alpha1.BareMetalCluster) {
		g.Expect(conditions.GetReason(c, v1alpha1.KubeconfigAcceptedCondition)).To(Equal(v1alpha1.ReasonKubeconfigRefused))
		g.Expect(conditions.GetMessage(c, v1alpha1.KubeconfigAcceptedCondition)).To(ContainSubstring("users[\"u\"] has tokenFile"))
	})
	g.Expect(asked.Load()).To(BeZero(), "the tenant's server was asked")

	before := secret.DeepCopy()
	secret.Data["value"] = kubeconfig(clientcmdapi.AuthInfo{Token: "the tenant's own"})
	g.Expect(env.Client.Patch(t.Context(), secret, client.MergeFrom(before))).To(Succeed())
	controllerstest.Wait(t, env, infra, func(g Gomega, c *v1alpha1.BareMetalCluster) {
		g.Expect(conditions.Get(c, v1alpha1.KubeconfigAcceptedCondition)).To(BeNil())
	})
	g.Eventually(asked.Load).Should(BeNumerically(">", 0))
	g.Expect(last.Load()).To(Equal("Bearer the tenant's own"))
}
