// Package gateway is between the provider's clients of workload clusters and the API servers of these clusters. A tenant chooses the API server of his cluster, so neither
// its address nor its answers are trusted. The clients read a whole answer before they decode it, keep every object that they are sent, and connect to wherever a kubeconfig
// says. The gateway connects only to permitted addresses, follows no redirect, and bounds the bytes and values of an answer and of a watch event, the rate, and the number of
// large answers at once.
//
// It is an HTTPS proxy on the loopback interface, because Cluster API's cluster cache takes a kubeconfig and nothing else (v1.14.2, controllers/clustercache: no option for a
// transport or a dialer; no upstream issue found). Delete it when the cluster cache takes a function that wraps its rest.Config, and keep the bounds.
package gateway

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// Options are those of a Gateway.
type Options struct {
	// Policy says which addresses API servers may have.
	Policy outbound.Policy
	// Machines returns the number of Machines of a cluster, which bounds its Nodes and the size of their list.
	Machines func(ctx context.Context, cluster client.ObjectKey) (int, error)
	// Refused is called when the gateway ends the connections of a cluster because of what its API server does.
	Refused func(cluster client.ObjectKey, why error)
	Log     logr.Logger
}

// Gateway passes requests on to the API servers of workload clusters.
type Gateway struct {
	opts     Options
	listener net.Listener
	identity identity
	quiet    slog.Handler // for what a tenant's API server can cause at any rate
	// largeAnswerLimiter limits how many large answers are read at once.
	largeAnswerLimiter *origin.FairLimiter

	mu        sync.Mutex
	byToken   map[string]*route
	byCluster map[client.ObjectKey]*route
}

// route leads to the API server of a cluster.
type route struct {
	cluster client.ObjectKey
	token   string
	proxy   *httputil.ReverseProxy
	bytes   *rate.Limiter
	gateway *Gateway

	ctx  context.Context //nolint:containedctx // ends the requests of the route
	stop context.CancelCauseFunc
}

const (
	// loopback is where the gateway listens.
	loopback = "127.0.0.1"
	// lifetime is the lifetime of the gateway's certificate. It is longer than a process runs.
	lifetime = 10 * 365 * 24 * time.Hour
	// headerTimeout is how long an API server may take to begin an answer. A list of all Nodes takes seconds.
	headerTimeout = 30 * time.Second
	// dialTimeout is how long a connection to an API server may take, and as long again its TLS handshake.
	dialTimeout = 10 * time.Second
	// maxConnections is how many connections are open to one API server.
	maxConnections = 8
	// maxHeader is the maximum size of the header of an answer, in bytes.
	maxHeader = 64 << 10
)

// identity is the certificate of a process, and its key, which never leaves it: other containers of the Pod share the loopback interface, and may listen there.
type identity struct {
	pair tls.Certificate
	pem  []byte
}

var identityOfProcess = sync.OnceValues(func() (identity, error) {
	certificate, key, err := cert.GenerateSelfSignedCertKeyWithOptions(cert.SelfSignedCertKeyOptions{Host: loopback, MaxAge: lifetime})
	if err != nil {
		return identity{}, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	return identity{pair, certificate}, err
})

// errUnknownToken is the answer to a client whose route has ended. Cluster API's cluster cache drops its connection and all that it has kept after the code 401.
var errUnknownToken = errors.New("the kubeconfig of this connection is not used any more")

// New returns a gateway that listens on the loopback interface. Start serves.
func New(ctx context.Context, o Options) (*Gateway, error) {
	own, err := identityOfProcess()
	if err != nil {
		return nil, fmt.Errorf("make the certificate of the gateway: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", net.JoinHostPort(loopback, "0"))
	if err != nil {
		return nil, fmt.Errorf("listen for the clients of workload clusters: %w", err)
	}
	return &Gateway{
		opts: o, listener: listener, identity: own, largeAnswerLimiter: origin.NewFairLimiter(largeAnswers), quiet: logr.ToSlogHandler(o.Log.V(2)),
		byToken: map[string]*route{}, byCluster: map[client.ObjectKey]*route{},
	}, nil
}

// NeedLeaderElection is false: only a leader asks.
func (g *Gateway) NeedLeaderElection() bool { return false }

// Start serves until ctx ends.
func (g *Gateway) Start(ctx context.Context) error {
	web := &http.Server{
		Handler: g, ReadHeaderTimeout: dialTimeout, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx }, ErrorLog: slog.NewLogLogger(g.quiet, slog.LevelInfo),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{g.identity.pair}, MinVersion: tls.VersionTLS13},
	}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	if err := web.ServeTLS(g.listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the clients of workload clusters: %w", err)
	}
	return nil
}

// Kubeconfig returns a kubeconfig for the route through the gateway to the API server of a cluster. It ends an earlier route. The content is a kubeconfig that was checked: it
// names no file, no program and no proxy.
func (g *Gateway) Kubeconfig(cluster client.ObjectKey, content []byte) ([]byte, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil {
		return nil, errors.New("it has no current context, or a user with several ways to authenticate") // the error may quote it
	}
	r, err := g.newRoute(cluster, config)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	g.remove(cluster, errUnknownToken)
	g.byToken[r.token], g.byCluster[cluster] = r, r
	g.mu.Unlock()
	through := clientcmdapi.NewConfig()
	through.Clusters["c"] = &clientcmdapi.Cluster{Server: "https://" + g.listener.Addr().String(), CertificateAuthorityData: g.identity.pem}
	through.AuthInfos["u"] = &clientcmdapi.AuthInfo{Token: r.token}
	through.Contexts["x"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "u"}
	through.CurrentContext = "x"
	return clientcmd.Write(*through)
}

// End ends the route to the API server of a cluster, and all requests on it.
func (g *Gateway) End(cluster client.ObjectKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.remove(cluster, errUnknownToken)
}

// remove ends the route of a cluster. g.mu is held.
func (g *Gateway) remove(cluster client.ObjectKey, why error) {
	if r := g.byCluster[cluster]; r != nil {
		r.stop(why)
		delete(g.byToken, r.token)
		delete(g.byCluster, cluster)
	}
}

func (g *Gateway) newRoute(cluster client.ObjectKey, config *rest.Config) (*route, error) {
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, errors.New("its server is not the URL of an API server")
	}
	secure, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, errors.New("its certificates or keys are not valid")
	}
	var token [32]byte
	_, _ = rand.Read(token[:]) // it never fails
	r := &route{cluster: cluster, token: base64.RawURLEncoding.EncodeToString(token[:]), gateway: g, bytes: rate.NewLimiter(bytesPerSecond, bytesAtOnce)}
	transport := &http.Transport{
		TLSClientConfig: secure, TLSHandshakeTimeout: dialTimeout, ForceAttemptHTTP2: true, MaxConnsPerHost: maxConnections, IdleConnTimeout: time.Minute,
		ResponseHeaderTimeout: headerTimeout, MaxResponseHeaderBytes: maxHeader,
		HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}, // as client-go: an API server that failed over does not reset connections
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			return outbound.Dial(ctx, dialTimeout, g.opts.Policy.Check, network, address)
		},
	}
	authenticated, err := rest.HTTPWrappersForConfig(config, transport)
	if err != nil {
		return nil, errors.New("its credentials are not valid")
	}
	r.ctx, r.stop = context.WithCancelCause(context.Background())
	context.AfterFunc(r.ctx, transport.CloseIdleConnections)
	r.proxy = &httputil.ReverseProxy{
		Transport: authenticated, FlushInterval: -1, ModifyResponse: r.bound, ErrorHandler: r.failed, ErrorLog: slog.NewLogLogger(g.quiet, slog.LevelInfo),
		Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(base)
			p.Out.Header.Del("Authorization")
			p.Out.Header.Del("Accept-Encoding") // the transport decompresses: the bounds count what the client gets
			p.Out.Header.Set("Accept", acceptJSON(p.Out.Header.Get("Accept")))
		},
	}
	return r, nil
}

// ServeHTTP passes a request on.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	token, _ := strings.CutPrefix(request.Header.Get("Authorization"), "Bearer ")
	g.mu.Lock()
	r := g.byToken[token]
	g.mu.Unlock()
	switch {
	case r == nil:
		http.Error(w, errUnknownToken.Error(), http.StatusUnauthorized)
		return
	case request.Header.Get("Upgrade") != "":
		http.Error(w, "connections are not upgraded", http.StatusBadRequest)
		return
	case request.URL.Query().Get("sendInitialEvents") != "": // a list in a watch, which has no end that can be bounded: the client lists instead
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Invalid","message":"lists are not streamed","code":422}`)
		return
	}
	ctx, cancel := context.WithCancelCause(request.Context())
	defer cancel(nil)
	defer context.AfterFunc(r.ctx, func() { cancel(context.Cause(r.ctx)) })() //nolint:contextcheck // the end of the route ends the request, too
	r.proxy.ServeHTTP(w, request.WithContext(ctx))
}

// acceptJSON removes the binary forms from a list of media types: only JSON is bounded.
func acceptJSON(accept string) string {
	kinds := slices.DeleteFunc(strings.Split(accept, ","), func(kind string) bool { return !strings.HasPrefix(strings.TrimSpace(kind), "application/json") })
	if len(kinds) == 0 {
		return "application/json"
	}
	return strings.Join(kinds, ",")
}

// failed answers a request that the API server did not answer.
func (r *route) failed(w http.ResponseWriter, request *http.Request, err error) {
	r.gateway.opts.Log.V(1).Info("A request to a workload cluster failed", "Cluster", r.cluster, "path", request.URL.Path, "error", err.Error())
	if _, ok := errors.AsType[*outbound.RefusedError](err); ok {
		// The address to which the name resolves here may be internal, so the user who named it does not see it.
		r.refuse(errors.New("its server has an address that the configuration does not permit (clusters in the configuration file of the provider)"))
	}
	code := http.StatusBadGateway
	if r.ctx.Err() != nil {
		code = http.StatusUnauthorized
	}
	http.Error(w, "the API server of the workload cluster does not answer", code)
}

// refuse ends the route because of what the API server does.
func (r *route) refuse(why error) {
	g := r.gateway
	g.mu.Lock()
	current := g.byToken[r.token] == r
	if current {
		g.remove(r.cluster, why)
	}
	g.mu.Unlock()
	if current {
		g.opts.Refused(r.cluster, why)
	}
}
