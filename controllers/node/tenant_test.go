package node_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/cluster"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/node"
)

// maxHeap is what the heap of this process may grow by while a tenant attacks. An API server without a bound sends a gigabyte in three seconds.
const maxHeap = 100 << 20

// startLeader runs the node, machine and cluster controllers in a manager that has to be elected.
func startLeader(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	namespace := env.Namespace(t)
	mgr, err := ctrl.NewManager(env.Config, ctrl.Options{
		Scheme: env.Scheme, Logger: env.Log, Metrics: metricsserver.Options{BindAddress: "0"}, LeaderElection: true, LeaderElectionID: namespace, LeaderElectionNamespace: namespace,
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	g.Expect(controllers.AddIndexes(ctx, mgr)).To(Succeed())
	kubeconfigs, err := controllers.SetupKubeconfigs(ctx, mgr, controllerstest.Loopback)
	g.Expect(err).NotTo(HaveOccurred())
	skip := controller.Options{SkipNameValidation: new(true), MaxConcurrentReconciles: 4}
	clusters, err := node.NewClusterCache(ctx, mgr, kubeconfigs, "", skip)
	g.Expect(err).NotTo(HaveOccurred())
	shutdown := controllerstest.UseShortConnectRetry(t, clusters)
	g.Expect((&machine.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}).SetupWithManager(ctx, mgr, skip)).To(Succeed())
	g.Expect((&cluster.Reconciler{Client: mgr.GetClient(), Kubeconfigs: kubeconfigs}).SetupWithManager(ctx, mgr, skip)).To(Succeed())
	g.Expect((&node.Reconciler{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clusters: clusters, Kubeconfigs: kubeconfigs,
	}).SetupWithManager(ctx, mgr, skip)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		shutdown()
		NewWithT(t).Eventually(done, time.Minute).Should(Receive(BeNil()))
	})
	g.Eventually(mgr.Elected(), time.Minute).Should(BeClosed())
}

// hostileAPIServer is a workload cluster whose administrator answers requests for Nodes himself. Everything else is that of a real API server.
func hostileAPIServer(t *testing.T, answer http.HandlerFunc) *httptest.Server {
	t.Helper()
	g := NewWithT(t)
	target, err := url.Parse(env.Config.Host)
	g.Expect(err).NotTo(HaveOccurred())
	transport, err := rest.TransportFor(env.Config)
	g.Expect(err).NotTo(HaveOccurred())
	forward := &httputil.ReverseProxy{Transport: transport, FlushInterval: -1, Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/v1/nodes" {
			answer(w, r)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s
}

// peak returns the growth of the live heap since the call, at its highest: what each garbage collection left. What a busy machine has not collected yet does not count.
func peak(t *testing.T) func() uint64 {
	t.Helper()
	read := func() uint64 {
		live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(live)
		return live[0].Value.Uint64()
	}
	runtime.GC()
	start := read()
	var most atomic.Uint64
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go func() {
		for tick := time.NewTicker(20 * time.Millisecond); ctx.Err() == nil; <-tick.C {
			most.Store(max(most.Load(), read()))
		}
	}()
	return func() uint64 { return most.Load() - min(start, most.Load()) }
}

// TestEndlessNodes: what the API server of a tenant sends ends in a condition of his BareMetalCluster, whether it is a list without an end, or one new Node after the other, and
// whether or not a machine of the cluster runs. It needs a bounded heap, and the Nodes of another tenant are found meanwhile.
func TestEndlessNodes(t *testing.T) {
	startLeader(t)
	sample := func(i int) string {
		content, _ := json.Marshal(corev1.Node{ //nolint:errchkjson // it can be encoded
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n-%d", i), UID: "u", ResourceVersion: strconv.Itoa(i + 1)},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: strings.Repeat("a", 2000)}}},
		})
		return string(content)
	}
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		why    string
		noHost bool
	}{
		"a list without an end": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[` + sample(0)))
			for i := 0; r.Context().Err() == nil; i++ {
				if _, err := w.Write([]byte("," + sample(i))); err != nil {
					return
				}
			}
		}, "a list of more than 1002 elements", false},
		"events without an end": {events(sample), "Machines may have", false},
		"small events of a cluster without a host": {events(func(i int) string {
			return `{"kind":"Node","apiVersion":"v1","metadata":{"name":"` + strconv.Itoa(i) + `"}}`
		}), "Machines may have", true},
	} {
		t.Run(name, func(t *testing.T) {
			testEndlessNodes(t, c.answer, c.why, c.noHost)
		})
	}
}

// events answers a list with no Node, and a watch with one new Node after the other.
func events(sample func(int) string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Query().Get("watch") == "" {
			_, _ = w.Write([]byte(`{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`))
			return
		}
		for i := 0; r.Context().Err() == nil; i++ {
			if _, err := w.Write([]byte(`{"type":"ADDED","object":` + sample(i) + "}\n")); err != nil {
				return
			}
		}
	}
}

func testEndlessNodes(t *testing.T, answer http.HandlerFunc, why string, noHost bool) {
	t.Helper()
	g := NewWithT(t)
	var asked atomic.Int32
	s := hostileAPIServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		answer(w, r)
	})
	growth := peak(t)
	victim := preparePair(t)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	env.WorkloadAt(t, victim.host.Namespace, victim.host.Spec.ConsumerRef.Name, controllerstest.Kubeconfig(t, s.URL, ca, clientcmdapi.AuthInfo{Token: "t"}))
	if noHost {
		victim.claim = env.NewClaim(t, victim.host.Namespace, victim.host.Spec.ConsumerRef.Name)
	} else {
		victim.create(t)
	}
	infra := &v1alpha1.BareMetalCluster{ObjectMeta: metav1.ObjectMeta{
		Namespace: victim.host.Namespace, Name: victim.claim.Cluster.Spec.InfrastructureRef.Name, OwnerReferences: []metav1.OwnerReference{{
			APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: victim.claim.Cluster.Name, UID: victim.claim.Cluster.UID,
		}},
	}}
	env.Create(t, infra)
	controllerstest.Wait(t, env, infra, func(g Gomega, b *v1alpha1.BareMetalCluster) {
		g.Expect(conditions.GetReason(b, v1alpha1.KubeconfigAcceptedCondition)).To(Equal(v1alpha1.ReasonKubeconfigRefused))
		g.Expect(conditions.GetMessage(b, v1alpha1.KubeconfigAcceptedCondition)).To(ContainSubstring(why))
	})
	newPair(t).adopted(t)
	before := asked.Load()
	g.Expect(before).To(BeNumerically(">", 0))
	newPair(t).adopted(t)
	g.Expect(asked.Load()).To(Equal(before), "a refused cluster is not asked again")
	t.Logf("the heap grew by %d MiB", growth()>>20)
	g.Expect(growth()).To(BeNumerically("<", maxHeap))
}
