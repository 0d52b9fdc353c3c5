package pxe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// maxImageAnswers is how many ranges of images are sent at once. An agent requests one range of 16 MiB after the other, so this many agents receive at once.
	maxImageAnswers = 64
	// maxImageAnswersPerNamespace leaves some for the hosts of other namespaces.
	maxImageAnswersPerNamespace = 48
	// maxDataAnswers is how many answers with bootstrap data are made and sent at once. Each is in memory, with up to 4 MiB, until its client has received it.
	maxDataAnswers = 64
	// maxDataAnswersPerNamespace leaves some for the hosts of other namespaces, also beside two that have all of theirs.
	maxDataAnswersPerNamespace = 28
	// maxAnswersPerHost is how many of either one host has: the connection of a lost answer may last a minute longer than its client waits.
	maxAnswersPerHost = 4
	// imageAnswerTime is how long one answer may take. A range of 16 MiB then needs 56 KB/s; the agent continues with what it has. A client that reads
	// slowly would otherwise hold its slot, and the space of an image that was evicted, for days.
	imageAnswerTime = 5 * time.Minute
	// answerSlotWait is how long a request waits for a slot. The agent then asks again, and its request timeout is longer.
	answerSlotWait = 10 * time.Second
)

// imageSent counts what agents received of images.
var imageSent = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
	Name: "capbm_image_sent_bytes_total", Help: "Bytes of images that the boot server sent to agents, including repeated ranges.",
})

// errAnswerSlots means that too many large answers are sent at the moment.
var errAnswerSlots = errors.New("the boot server sends as many answers of this kind as it may")

// answerSlots bound the large answers that are sent at once. Requests wait in their order for a slot. A request of a host or namespace that has all its slots does not
// wait: it is refused at once, and the client asks again.
type answerSlots struct {
	all *semaphore.Weighted
	*hostSlots
}

func newAnswerSlots(all int64, perNamespace int) *answerSlots {
	return &answerSlots{semaphore.NewWeighted(all), newHostSlots(maxAnswersPerHost, perNamespace)}
}

// enter waits for a slot for a host. The error is ErrNotYet and errAnswerSlots if none becomes free. Call leave when the answer is sent.
func (s *answerSlots) enter(ctx context.Context, host string) (leave func(), err error) {
	if !s.hostSlots.enter(host) {
		return nil, fmt.Errorf("%w: %w", ErrNotYet, errAnswerSlots)
	}
	ctx, cancel := context.WithTimeout(ctx, answerSlotWait)
	defer cancel()
	if s.all.Acquire(ctx, 1) != nil {
		s.leave(host)
		return nil, fmt.Errorf("%w: %w", ErrNotYet, errAnswerSlots)
	}
	return func() {
		s.all.Release(1)
		s.leave(host)
	}, nil
}
