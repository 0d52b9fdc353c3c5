package gateway

import (
	"context"
	"encoding/binary"
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

const (
	// maxAnswer is the maximum size of an answer, in bytes: the largest is the list of the resources of all groups. A list of Nodes may have manyNodes, which are 1,000 with
	// their images, and maxNode more for each Machine of the cluster; maxNodeList is the end of that. A client needs about five times as much while it decodes it.
	maxAnswer   = 4 << 20
	manyNodes   = 16 << 20
	maxNode     = 32 << 10
	maxNodeList = 128 << 20
	// maxEvent is the maximum size of a watch event, in bytes: etcd accepts objects of 1.5 MiB.
	maxEvent = 2 << 20
	// largeAnswer is where an answer needs a lane, so that many clusters together do not fill the memory, and largeAnswerTime how long it may take from there on.
	largeAnswer     = 256 << 10
	largeAnswerTime = time.Minute
	// bytesPerSecond and bytesAtOnce are how fast an API server may send. A cluster of 5,000 Nodes sends about 50 MiB at first, and then 200 KiB a second.
	bytesPerSecond = rate.Limit(4 << 20)
	bytesAtOnce    = 16 << 20
)

// largeAnswers are how many large answers are read at once. Each namespace has one, whatever the others do.
var largeAnswers = origin.Bounds{PerOrigin: 1, Guaranteed: 1, Shared: 1, Max: 2}

// bound bounds the body of an answer.
func (r *route) bound(answer *http.Response) error {
	request := answer.Request
	body := &boundedBody{ReadCloser: answer.Body, route: r, ctx: request.Context(), limit: maxAnswer}
	if what := request.URL.Query().Get("watch"); answer.StatusCode == http.StatusOK && (what == "true" || what == "1") {
		body.events = newEvents(answer.Header.Get("Content-Type"))
	} else if strings.HasSuffix(request.URL.Path, "/api/v1/nodes") {
		machines, err := r.gateway.opts.Machines(request.Context(), r.cluster)
		if err != nil {
			return fmt.Errorf("count the Machines of the cluster: %w", err)
		}
		body.limit = min(manyNodes+int64(machines)*maxNode, maxNodeList)
	}
	answer.Body = body
	return nil
}

// boundedBody is a body that ends with an error at its bounds. That refuses the cluster.
type boundedBody struct {
	io.ReadCloser

	route  *route
	ctx    context.Context //nolint:containedctx // of the request
	events *events         // nil for an answer that is no watch
	limit  int64
	read   int64
	leave  func() // ends a large answer; nil before it is one
}

// Read implements io.Reader.
func (b *boundedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if n == 0 {
		return n, err
	}
	if waited := b.route.bytes.WaitN(b.ctx, n); waited != nil {
		return 0, waited
	}
	if problem := b.check(p[:n]); problem != nil {
		if b.ctx.Err() == nil {
			b.route.refuse(problem)
		}
		return 0, problem
	}
	return n, err
}

func (b *boundedBody) check(p []byte) error {
	if b.events != nil {
		return b.events.check(p)
	}
	b.read += int64(len(p))
	switch {
	case b.read > b.limit:
		return fmt.Errorf("its server sent an answer of more than %d MiB", b.limit>>20)
	case b.read > largeAnswer && b.leave == nil:
		return b.enterLane()
	default:
		return nil
	}
}

func laneOf(cluster client.ObjectKey) origin.Lane { return origin.Lane{Namespace: cluster.Namespace} }

// enterLane waits for the turn of a large answer. The time of the answer counts from then on, also while the API server sends nothing.
func (b *boundedBody) enterLane() error {
	leave, err := b.route.gateway.lanes.Enter(b.ctx, laneOf(b.route.cluster))
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

// events checks the size of watch events. JSON has one event in a line (meta.k8s.io/v1, WatchEvent), and protobuf has its length in four bytes before it
// (k8s.io/apimachinery, protobuf.LengthDelimitedFramer).
type events struct {
	lines  bool
	prefix []byte // of the length of the next event, as far as it was read
	size   int64  // JSON: what was read of the event. Protobuf: what is left of it
}

func newEvents(contentType string) *events {
	kind, _, _ := mime.ParseMediaType(contentType) // a kind that is empty is not protobuf
	return &events{lines: kind != "application/vnd.kubernetes.protobuf"}
}

var errEvent = fmt.Errorf("its server sent a watch event of more than %d MiB", maxEvent>>20)

func (e *events) check(p []byte) error {
	if e.lines {
		return e.checkLines(p)
	}
	for len(p) > 0 {
		if e.size > 0 {
			n := min(e.size, int64(len(p)))
			e.size, p = e.size-n, p[n:]
			continue
		}
		n := min(4-len(e.prefix), len(p))
		e.prefix, p = append(e.prefix, p[:n]...), p[n:]
		if len(e.prefix) < 4 {
			continue
		}
		if e.size = int64(binary.BigEndian.Uint32(e.prefix)); e.size > maxEvent {
			return errEvent
		}
		e.prefix = e.prefix[:0]
	}
	return nil
}

func (e *events) checkLines(p []byte) error {
	for _, c := range p {
		if e.size++; c == '\n' {
			e.size = 0
		}
		if e.size > maxEvent {
			return errEvent
		}
	}
	return nil
}
