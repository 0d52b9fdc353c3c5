package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

var (
	clusterC = client.ObjectKey{Namespace: "dc", Name: "c"}
	local    = outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
)

// tenant is a gateway, and the API server of a cluster behind it.
type tenant struct {
	*Gateway

	config  []byte       // the kubeconfig of the tenant
	refused chan error   // why the cluster was refused
	bearer  chan string  // what the API server was sent
	client  *http.Client // through the gateway
	through *rest.Config // of the client
	server  *httptest.Server
}

func newTenant(t *testing.T, policy outbound.Policy, answer http.HandlerFunc) *tenant {
	t.Helper()
	g := NewWithT(t)
	n := &tenant{refused: make(chan error, 10), bearer: make(chan string, 100)}
	n.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case n.bearer <- r.Header.Get("Authorization"):
		default:
		}
		answer(w, r)
	}))
	n.server.EnableHTTP2 = true
	n.server.StartTLS()
	t.Cleanup(func() {
		n.server.CloseClientConnections()
		n.server.Close()
	})
	var err error
	n.Gateway, err = New(t.Context(), Options{
		Policy: policy, Log: logr.Discard(), Refused: func(_ client.ObjectKey, why error) { n.refused <- why },
		Machines: func(context.Context, client.ObjectKey) (int, error) { return 10, nil },
	})
	g.Expect(err).NotTo(HaveOccurred())
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- n.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		NewWithT(t).Eventually(ended).Should(Receive(BeNil()))
	})
	n.config = kubeconfigOf(g, n.server)
	n.connect(g)
	return n
}

func kubeconfigOf(g *WithT, server *httptest.Server) []byte {
	config := clientcmdapi.NewConfig()
	config.Clusters["c"] = &clientcmdapi.Cluster{
		Server: server.URL, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
	}
	config.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: "the tenant's"}
	config.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	config.CurrentContext = "x"
	content, err := clientcmd.Write(*config)
	g.Expect(err).NotTo(HaveOccurred())
	return content
}

func (n *tenant) connect(g *WithT) {
	content, err := n.Kubeconfig(clusterC, n.config)
	g.Expect(err).NotTo(HaveOccurred())
	n.through, err = clientcmd.RESTConfigFromKubeConfig(content)
	g.Expect(err).NotTo(HaveOccurred())
	n.client, err = rest.HTTPClientFor(n.through)
	g.Expect(err).NotTo(HaveOccurred())
}

// maxRead is more than any bound permits.
const maxRead = 64 << 20

// get returns the status, how much of the body arrived, and the error.
func (n *tenant) get(ctx context.Context, path string) (status int, length int64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.through.Host+path, http.NoBody)
	if err != nil {
		return 0, 0, err
	}
	answer, err := n.client.Do(request)
	if err != nil {
		return 0, 0, err
	}
	length, err = io.Copy(io.Discard, io.LimitReader(answer.Body, maxRead))
	return answer.StatusCode, length, errors.Join(err, answer.Body.Close())
}

func send(length int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := bytes.Repeat([]byte("x"), 1<<10)
		for sent := 0; sent < length; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
}

// TestWayThrough: the API server gets the tenant's credentials, and the client has only a token of the gateway, which ends with the way.
func TestWayThrough(t *testing.T) {
	g := NewWithT(t)
	n := newTenant(t, local, send(1<<20))
	g.Expect(n.through.BearerToken).NotTo(ContainSubstring("tenant"))
	status, length, err := n.get(t.Context(), "/api/v1/nodes")
	g.Expect([]any{status, length, err}).To(Equal([]any{200, int64(1 << 20), nil}))
	g.Expect(<-n.bearer).To(Equal("Bearer the tenant's"))
	old := *n
	n.connect(g)
	status, _, err = old.get(t.Context(), "/")
	g.Expect([]any{status, err}).To(Equal([]any{401, nil}), "a way that was replaced")
	status, _, _ = n.get(t.Context(), "/")
	g.Expect(status).To(Equal(200))
	n.End(clusterC)
	status, _, _ = n.get(t.Context(), "/")
	g.Expect(status).To(Equal(401), "the cluster is gone")
	g.Expect(n.refused).To(BeEmpty())
}

// TestEndless: an answer and a watch event without an end are cut off at their bounds, the cluster is refused, and so is every later request on its way.
func TestEndless(t *testing.T) {
	for name, c := range map[string]struct {
		path, kind string
		most       int64
		why        string
	}{
		"an answer":          {"/", "application/json", maxAnswer, "more than 4 MiB"},
		"a list of Nodes":    {"/api/v1/nodes", "application/json", manyNodes + 10*maxNode, "more than 16 MiB"},
		"an event":           {"/api/v1/nodes?watch=true", "application/json", maxEvent, "a watch event of more than 2 MiB"},
		"an event, protobuf": {"/api/v1/nodes?watch=true", "application/vnd.kubernetes.protobuf;stream=watch", 4, "a watch event of more than 2 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			n := newTenant(t, local, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				for chunk := bytes.Repeat([]byte("x"), 64<<10); r.Context().Err() == nil; {
					if _, err := w.Write(chunk); err != nil {
						return
					}
				}
			})
			n.unlimited()
			_, length, err := n.get(t.Context(), c.path)
			g.Expect(err).To(HaveOccurred(), "the client must not take it for a whole answer")
			g.Expect(length).To(BeNumerically("<=", c.most))
			g.Expect(n.refused).To(Receive(MatchError(ContainSubstring(c.why))))
			status, _, err := n.get(t.Context(), "/")
			g.Expect([]any{status, err}).To(Equal([]any{401, nil}))
		})
	}
}

// unlimited lets the API server send as fast as it can.
func (n *tenant) unlimited() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.byCluster[clusterC].bytes = rate.NewLimiter(rate.Inf, 0)
}

// TestLargeAnswers: a second namespace reads its large answer while another one has all the places that it can have, and an answer that does not go on keeps no place.
func TestLargeAnswers(t *testing.T) {
	g := NewWithT(t)
	n := newTenant(t, local, func(w http.ResponseWriter, r *http.Request) {
		send(1<<20)(w, r)
		if r.URL.Path == "/stalls" {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stalled := make(chan error, 3)
	for range 3 {
		go func() {
			_, _, err := n.get(ctx, "/stalls")
			stalled <- err
		}()
	}
	for range 3 {
		<-n.bearer
	}
	busy := func() error {
		soon, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		leave, err := n.lanes.Enter(soon, laneOf(clusterC))
		if err == nil {
			leave()
		}
		return err
	}
	g.Eventually(busy, 20*time.Second).Should(MatchError(context.DeadlineExceeded), "the namespace has its place")
	other, err := n.Kubeconfig(client.ObjectKey{Namespace: "other", Name: "c"}, n.config)
	g.Expect(err).NotTo(HaveOccurred())
	m := *n
	m.through, err = clientcmd.RESTConfigFromKubeConfig(other)
	g.Expect(err).NotTo(HaveOccurred())
	m.client, err = rest.HTTPClientFor(m.through)
	g.Expect(err).NotTo(HaveOccurred())
	_, length, err := m.get(t.Context(), "/")
	g.Expect([]any{length, err}).To(Equal([]any{int64(1 << 20), nil}))
	n.End(clusterC)
	for range 3 {
		g.Eventually(stalled, 20*time.Second).Should(Receive(HaveOccurred()))
	}
	leave, err := n.lanes.Enter(t.Context(), laneOf(clusterC))
	g.Expect(err).NotTo(HaveOccurred())
	leave()
}

// TestRefusedAddress: an API server whose address is not permitted is not connected to, and the reason does not have the address.
func TestRefusedAddress(t *testing.T) {
	g := NewWithT(t)
	n := newTenant(t, outbound.Policy{}, send(1))
	status, _, _ := n.get(t.Context(), "/")
	g.Expect(status).To(Equal(http.StatusUnauthorized))
	g.Expect(n.bearer).To(BeEmpty())
	g.Expect(n.refused).To(Receive(And(MatchError(ContainSubstring("does not permit")), MatchError(Not(ContainSubstring("127.0.0.1"))))))
}

// TestPropertyEvents: whatever the pieces in which events arrive, exactly those that are too large are refused.
func TestPropertyEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := rapid.Bool().Draw(t, "JSON")
		sizes := rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 3, 1000, maxEvent - 1, maxEvent, maxEvent + 1}), 1, 4).Draw(t, "sizes")
		kind := "application/vnd.kubernetes.protobuf;stream=watch"
		if lines {
			kind = "application/json;stream=watch"
		}
		var stream []byte
		tooLarge := false
		for _, size := range sizes {
			content := []byte(strings.Repeat("x", size))
			if lines {
				content = append(content, '\n')
				tooLarge = tooLarge || size > maxEvent
			} else {
				content = append(binary.BigEndian.AppendUint32(nil, uint32(size)), content...)
				tooLarge = tooLarge || size > maxEvent
			}
			stream = append(stream, content...)
		}
		e := newEvents(kind)
		var err error
		for piece := rapid.SampledFrom([]int{1000, 4096, 1 << 20}).Draw(t, "piece"); len(stream) > 0 && err == nil; {
			n := min(piece, len(stream))
			err = e.check(stream[:n])
			stream = stream[n:]
		}
		if (err != nil) != tooLarge {
			t.Fatalf("%v, and an event is too large: %t", err, tooLarge)
		}
	})
}

// TestUpgrade: the gateway is no way to other protocols.
func TestUpgrade(t *testing.T) {
	g := NewWithT(t)
	n := newTenant(t, local, func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode("never") })
	recorder := httptest.NewRecorder()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/v1/namespaces/d/pods/p/exec", http.NoBody)
	request.Header.Set("Authorization", "Bearer "+n.through.BearerToken)
	request.Header.Set("Upgrade", "websocket")
	n.ServeHTTP(recorder, request)
	g.Expect(recorder.Code).To(Equal(http.StatusBadRequest))
	g.Expect(n.bearer).To(BeEmpty())
}
