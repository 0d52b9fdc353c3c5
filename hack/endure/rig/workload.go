package rig

import (
	"context"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// ofProvider is the context key of a connection's provider: the provider that was started last when the connection was made. A halted provider has stopped
// before the next one starts.
type ofProvider struct{}

// serveWorkload serves the site's API server as the workload cluster's, through the gate of the provider that connects. Cluster API's clustercache makes
// these connections from a kubeconfig alone, so a transport cannot be passed to it.
func (s *Site) serveWorkload() {
	base, err := rest.TransportFor(s.Env.Config)
	NewWithT(s.t).Expect(err).NotTo(HaveOccurred())
	target, err := url.Parse(s.Env.Config.Host)
	NewWithT(s.t).Expect(err).NotTo(HaveOccurred())
	proxy := &httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     roundTripper(func(r *http.Request) (*http.Response, error) { return providerOf(r).wrap(base).RoundTrip(r) }),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	s.workload = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if providerOf(r) == nil {
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	s.workload.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, ofProvider{}, s.current.Load())
	}
	s.workload.StartTLS() // the provider refuses a server without TLS
	s.t.Cleanup(func() {
		s.workload.CloseClientConnections()
		s.workload.Close()
	})
}

func providerOf(r *http.Request) *Provider {
	p, _ := r.Context().Value(ofProvider{}).(*Provider)
	return p
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Workload writes the kubeconfig Secret of a cluster.
func (s *Site) Workload(t *testing.T, cluster string) {
	t.Helper()
	c := clientcmdapi.NewConfig()
	c.Clusters["c"] = &clientcmdapi.Cluster{
		Server: s.workload.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.workload.Certificate().Raw}),
	}
	c.AuthInfos["u"] = &clientcmdapi.AuthInfo{}
	c.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	c.CurrentContext = "x"
	content, err := clientcmd.Write(*c)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	secret := kubeconfig.GenerateSecretWithOwner(client.ObjectKey{Namespace: s.Namespace, Name: cluster}, content, metav1.OwnerReference{})
	secret.OwnerReferences = nil
	s.Env.Create(t, secret)
}

// register creates the Node of a system, or renews its heartbeat.
func (s *Site) register(ctx context.Context, life *Life) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: life.Machine}}
	if err := s.Env.Client.Create(ctx, node); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return s.Speak(ctx, life.Machine, corev1.ConditionTrue)
}

// Speak sets the conditions of a Node and the time of its heartbeat.
func (s *Site) Speak(ctx context.Context, name string, ready corev1.ConditionStatus) error {
	for {
		node := &corev1.Node{}
		if err := s.Env.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		now := metav1.NewTime(time.Now().Add(time.Second)) // times in the API have a resolution of one second
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: now, LastTransitionTime: now}}
		for _, server := range s.Servers() {
			if life := server.Last(); life != nil && life.Machine == name {
				node.Status.NodeInfo.SystemUUID = server.UUID
				node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: life.System.Address.String()}}
			}
		}
		if err := s.Env.Client.Status().Update(ctx, node); !apierrors.IsConflict(err) {
			return err
		}
	}
}
