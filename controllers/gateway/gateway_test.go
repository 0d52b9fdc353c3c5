package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
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

// TestRoute: the API server gets the tenant's credentials, and the client has only a token of the gateway, which ends with the route.
func TestRoute(t *testing.T) {
	g := NewWithT(t)
	n := newTenant(t, local, send(1<<20))
	g.Expect(n.through.BearerToken).NotTo(ContainSubstring("tenant"))
	status, length, err := n.get(t.Context(), "/api/v1/nodes")
	g.Expect([]any{status, length, err}).To(Equal([]any{200, int64(1 << 20), nil}))
	g.Expect(<-n.bearer).To(Equal("Bearer the tenant's"))
	old := *n
	n.connect(g)
	status, _, err = old.get(t.Context(), "/")
	g.Expect([]any{status, err}).To(Equal([]any{401, nil}), "a route that was replaced")
	status, _, _ = n.get(t.Context(), "/")
	g.Expect(status).To(Equal(200))
	n.End(clusterC)
	status, _, _ = n.get(t.Context(), "/")
	g.Expect(status).To(Equal(401), "the cluster is gone")
	g.Expect(n.refused).To(BeEmpty())
}

// TestEndless: an answer and a watch event without an end are cut off at their bounds, the cluster is refused, and so is every later request on its route.
func TestEndless(t *testing.T) {
	for name, c := range map[string]struct {
		path, kind string
		most       int64
		why        string
	}{
		"an answer":               {"/", "application/json", anyAnswer.bytes, "an answer of more than 4 MiB"},
		"a list of Nodes":         {"/api/v1/nodes", "application/json", nodeList(NodesOf(10)).bytes, "an answer of more than 19 MiB"},
		"an event":                {"/api/v1/nodes?watch=true", "application/json", anyEvent.bytes, "a watch event of more than 2 MiB"},
		"an event in binary form": {"/api/v1/nodes?watch=true", "application/vnd.kubernetes.protobuf;stream=watch", anyEvent.bytes, "a watch event of more than 2 MiB"},
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
		leave, err := n.largeAnswerLimiter.Enter(soon, limitKeyOf(clusterC))
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
	leave, err := n.largeAnswerLimiter.Enter(t.Context(), limitKeyOf(clusterC))
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

// TestRedirect: a client would follow a redirect past the gateway, with its token.
func TestRedirect(t *testing.T) {
	for _, code := range []int{301, 302, 303, 307, 308} {
		g := NewWithT(t)
		asked := make(chan string, 10)
		elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.Header.Get("Authorization") }))
		t.Cleanup(elsewhere.Close)
		n := newTenant(t, local, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, code) })
		status, _, err := n.get(t.Context(), "/api/v1/nodes")
		g.Expect([]any{status, err}).To(Equal([]any{401, nil}))
		g.Expect(asked).To(BeEmpty())
		g.Expect(n.refused).To(Receive(MatchError("its server redirects requests")))
	}
}

// TestOnlyJSON: the API server is asked for JSON, and another form reaches no decoder. A list in a watch is refused, so that the client lists.
func TestOnlyJSON(t *testing.T) {
	g := NewWithT(t)
	accepted := make(chan string, 10)
	n := newTenant(t, local, func(w http.ResponseWriter, r *http.Request) {
		accepted <- r.Header.Get("Accept")
		w.Header()["Content-Type"] = nil // a client takes it for the form that it prefers
		_, _ = w.Write([]byte("k8s"))
	})
	for sent, want := range map[string]string{
		"": "application/json", "application/vnd.kubernetes.protobuf": "application/json", "application/vnd.kubernetes.protobuf,application/json": "application/json",
		"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/cbor,application/json": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json",
	} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.through.Host+"/api", http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		request.Header.Set("Accept", sent)
		answer, err := n.client.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(answer.Header.Get("Content-Type")).To(Equal("text/plain"))
		g.Expect(answer.Body.Close()).To(Succeed())
		g.Expect(<-accepted).To(Equal(want))
	}
	status, _, err := n.get(t.Context(), "/api/v1/nodes?watch=true&sendInitialEvents=true")
	g.Expect([]any{status, err}).To(Equal([]any{422, nil}))
	g.Expect(accepted).To(BeEmpty())
}

// TestScanner: what is small on the wire and large in memory is refused, whatever the lines are.
func TestScanner(t *testing.T) {
	few := bounds{bytes: 1000, items: 10, values: 100}
	list := func(n int) string { return `{"items":[` + strings.TrimSuffix(strings.Repeat("{},", n), ",") + `]}` }
	for name, c := range map[string]struct {
		text   string
		stream bool
		want   string // in the error; empty for none
	}{
		"a list":                    {list(11), false, ""},
		"a long list":               {list(12), false, "a list of more than 10 elements"},
		"commas in texts":           {`{"items":["` + strings.Repeat(",", 500) + `\",` + strings.Repeat(",", 100) + `"]}`, false, ""},
		"many values below a list":  {`{"items":[{"a":[` + strings.Repeat("1,", 100) + `1]}]}`, false, "more than 100 values"},
		"values in lines":           {`{"type":"ADDED","object":{"a":[` + strings.Repeat("\n1,", 100), true, "a watch event with more than 100 values"},
		"blanks without an end":     {strings.Repeat("\n", 1001), true, "a watch event of more than"},
		"digits without an end":     {strings.Repeat("1", 1001), true, "a watch event of more than"},
		"a text without an end":     {`{"a":"` + strings.Repeat("\n{}\n", 250), true, "a watch event of more than"},
		"events":                    {strings.Repeat(list(3)+"\n", 100), true, ""},
		"answers in one":            {strings.Repeat(list(3)+"\n", 100), false, "a list of more than"},
		"more ends than beginnings": {`{}}`, true, "not JSON"},
		"deep":                      {strings.Repeat("[", 300), false, "more than 100 values"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			whole, bytewise := scanner{most: few, stream: c.stream}, scanner{most: few, stream: c.stream}
			ended, err := whole.scan([]byte(c.text))
			var slow error
			count := 0
			for i := 0; i < len(c.text) && slow == nil; i++ {
				var n int
				n, slow = bytewise.scan([]byte{c.text[i]})
				count += n
			}
			g.Expect(slow == nil).To(Equal(err == nil))
			g.Expect(count).To(Equal(ended))
			if c.want == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(c.want)))
		})
	}
}

// TestPropertyScanner: a stream of values is framed as a JSON decoder frames it, and each value within the bounds passes.
func TestPropertyScanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		most, count := int64(0), rapid.IntRange(1, 5).Draw(t, "values")
		for i := range count {
			content, err := json.MarshalIndent(drawValue(t, 4), "", rapid.SampledFrom([]string{"", " "}).Draw(t, "indent"))
			if err != nil {
				t.Fatal(err)
			}
			stream = append(append(stream, content...), '\n')
			most = max(most, int64(len(content)+min(i, 1))) // the end of the line before counts, too
		}
		exact := scanner{most: bounds{bytes: most, items: 1 << 20, values: 1 << 20}, stream: true}
		if n, err := exact.scan(stream); err != nil || n != count {
			t.Fatalf("%d values, want %d: %v", n, count, err)
		}
		short := scanner{most: bounds{bytes: most - 1, items: 1 << 20, values: 1 << 20}, stream: true}
		if _, err := short.scan(stream); err == nil {
			t.Fatal("a value that is too large passes")
		}
	})
}

// drawValue draws an object.
func drawValue(t *rapid.T, depth int) map[string]any {
	value := map[string]any{}
	for i := range rapid.IntRange(0, 4).Draw(t, "fields") {
		name := rapid.String().Draw(t, "name") + strconv.Itoa(i)
		switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
		case kind == 0 && depth > 0:
			value[name] = drawValue(t, depth-1)
		case kind == 1 && depth > 0:
			value[name] = []any{drawValue(t, depth-1), rapid.String().Draw(t, "text")}
		default:
			value[name] = rapid.String().Draw(t, "text")
		}
	}
	return value
}

// TestUpgrade: the gateway passes no other protocols.
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
