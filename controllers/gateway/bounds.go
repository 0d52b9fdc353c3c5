package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/origin"
)

// The maximum sizes of an answer. A client needs about as much memory for its bytes as they are, and up to a kilobyte for each "{}" of three bytes: so elements of its lists and
// values are counted as well (see scanner).
var (
	// largest is the list of the resources of all groups of a cluster with hundreds of CustomResourceDefinitions.
	anyAnswer = bounds{bytes: 4 << 20, items: 5000, values: 400_000}
	// etcd accepts objects of 1.5 MiB. A Node has up to 2,000 values.
	anyEvent = bounds{bytes: 2 << 20, items: 5000, values: 20_000}
)

// nodeList are the bounds of a list of Nodes: those that a cluster may have. A Node with its images has up to 32 KiB and 1,000 values.
func nodeList(nodes int) bounds {
	return bounds{bytes: min(4<<20+int64(nodes)*maxNode, maxNodeList), items: nodes, values: 100_000 + nodes*1000}
}

const (
	maxNode     = 16 << 10 // on average
	maxNodeList = 128 << 20
	// largeAnswer and manyValues are where an answer needs a slot, so that many clusters together do not fill the memory, and largeAnswerTime how long it may take from there on.
	largeAnswer     = 256 << 10
	manyValues      = 20_000
	largeAnswerTime = time.Minute
	// bytesPerSecond and bytesAtOnce are how fast an API server may send, and costOfEvent what an event counts beside its bytes: a client keeps more than it is sent. A cluster of
	// 5,000 Nodes sends about 50 MiB at first, and then 200 KiB and 20 events a second.
	bytesPerSecond = rate.Limit(4 << 20)
	bytesAtOnce    = 16 << 20
	costOfEvent    = 2 << 10
)

// NodesOf is how many Nodes a cluster may have: twice its Machines, for those that are being replaced, and many more that Cluster API did not make.
func NodesOf(machines int) int { return 2*machines + 1000 }

// largeAnswers are how many large answers are read at once. Each namespace has one, whatever the others do.
var largeAnswers = origin.Bounds{PerOrigin: 1, Guaranteed: 1, Shared: 1, Max: 2}

// bound bounds the body of an answer. A redirect would lead the client past the gateway, and only JSON is counted.
func (r *route) bound(answer *http.Response) error {
	request := answer.Request
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")) // a kind that is empty is not JSON
	switch {
	case answer.StatusCode >= 300 && answer.StatusCode < 400 && answer.StatusCode != http.StatusNotModified:
		r.refuse(errors.New("its server redirects requests"))
		return errRedirect
	case kind != "application/json" && kind != "text/plain":
		answer.Header.Set("Content-Type", "text/plain") // the client decodes it as nothing
	}
	body := &boundedBody{ReadCloser: answer.Body, route: r, ctx: request.Context(), scanner: scanner{most: anyAnswer}}
	switch watch := request.URL.Query().Get("watch"); {
	case answer.StatusCode == http.StatusOK && (watch == "true" || watch == "1"):
		body.scanner = scanner{most: anyEvent, stream: true}
	case strings.HasSuffix(request.URL.Path, "/api/v1/nodes"):
		machines, err := r.gateway.opts.Machines(request.Context(), r.cluster)
		if err != nil {
			return fmt.Errorf("count the Machines of the cluster: %w", err)
		}
		body.scanner.most = nodeList(NodesOf(machines))
	}
	answer.Body = body
	return nil
}

var errRedirect = errors.New("the API server redirects the request")

// boundedBody is a body that ends with an error at its bounds. That refuses the cluster.
type boundedBody struct {
	io.ReadCloser

	route   *route
	ctx     context.Context //nolint:containedctx // of the request
	scanner scanner
	leave   func() // ends a large answer; nil before it is one
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n == 0 {
		return n, err
	}
	events, problem := b.scanner.scan(p[:n])
	if problem != nil {
		b.route.refuse(problem)
		return 0, problem
	}
	if waiting := b.throttle(n + events*costOfEvent); waiting != nil { // the client is gone, or the route has ended
		return 0, waiting
	}
	return n, err
}

// throttle waits until the API server may have sent so much.
func (b *boundedBody) throttle(cost int) error {
	for ; cost > 0; cost -= bytesAtOnce {
		if err := b.route.bytes.WaitN(b.ctx, min(cost, bytesAtOnce)); err != nil {
			return err
		}
	}
	if s := &b.scanner; !s.stream && b.leave == nil && (s.read > largeAnswer || s.values > manyValues) {
		return b.awaitSlot()
	}
	return nil
}

func limitKeyOf(cluster client.ObjectKey) origin.LimitKey {
	return origin.LimitKey{Namespace: cluster.Namespace}
}

// awaitSlot waits for the slot of a large answer. The time of the answer counts from then on, also while the API server sends nothing.
func (b *boundedBody) awaitSlot() error {
	leave, err := b.route.gateway.largeAnswerLimiter.Enter(b.ctx, limitKeyOf(b.route.cluster))
	if err != nil {
		return err
	}
	late := time.AfterFunc(largeAnswerTime, func() {
		b.route.refuse(fmt.Errorf("its server took more than %s for an answer of more than %d KiB", largeAnswerTime, largeAnswer>>10))
	})
	b.leave = func() {
		late.Stop()
		leave()
	}
	return nil
}

// Close implements io.Closer.
func (b *boundedBody) Close() error {
	if b.leave != nil {
		b.leave()
		b.leave = nil
	}
	return b.ReadCloser.Close()
}
