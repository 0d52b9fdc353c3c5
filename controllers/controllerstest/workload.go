package controllerstest

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Workload writes the kubeconfig Secret of a cluster: the API server of the tests also is its workload cluster.
func (e *Env) Workload(t *testing.T, namespace, cluster string) {
	t.Helper()
	e.WorkloadAt(t, namespace, cluster, Kubeconfig(t, e.Config.Host, e.Config.CAData,
		clientcmdapi.AuthInfo{ClientCertificateData: e.Config.CertData, ClientKeyData: e.Config.KeyData}))
}

// Kubeconfig returns the kubeconfig of a user of an API server.
func Kubeconfig(t *testing.T, server string, ca []byte, user clientcmdapi.AuthInfo) []byte {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: ca}
	config.AuthInfos["u"] = &user
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	content, err := clientcmd.Write(*config)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return content
}

// WorkloadAt writes the kubeconfig Secret of a cluster.
func (e *Env) WorkloadAt(t *testing.T, namespace, cluster string, content []byte) {
	t.Helper()
	secret := kubeconfig.GenerateSecretWithOwner(client.ObjectKey{Namespace: namespace, Name: cluster}, content, metav1.OwnerReference{})
	secret.OwnerReferences = nil
	e.Create(t, secret)
}

// UseShortConnectRetry makes a cluster cache retry connections every 100 ms. The returned function shuts the cluster cache down.
func UseShortConnectRetry(t *testing.T, clusters clustercache.ClusterCache) (shutdown func()) {
	t.Helper()
	configurable, ok := clusters.(interface {
		SetConnectionCreationRetryInterval(time.Duration)
		Shutdown()
	})
	NewWithT(t).Expect(ok).To(BeTrue())
	configurable.SetConnectionCreationRetryInterval(100 * time.Millisecond)
	return configurable.Shutdown
}
