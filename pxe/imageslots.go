package pxe

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

const (
	// maxImageAnswers is how many ranges of images are sent at once. An agent requests one range of 16 MiB after the other, so this many agents receive at once. The
	// requests of others wait in their order for imageSlotWait. A request of a host or namespace that has all its places does not wait: it is refused at once, and the
	// agent asks again. What else a server asks for never waits for these.
	maxImageAnswers = 64
	// maxImageAnswersPerHost is how many of them one host has: the connection of a lost answer may last a minute longer than its agent waits.
	maxImageAnswersPerHost = 4
	// maxImageAnswersPerNamespace leaves some for the hosts of other namespaces.
	maxImageAnswersPerNamespace = 48
	// imageAnswerTime is how long one answer may take. A range of 16 MiB then needs 56 KB/s; the agent continues with what it has. A client that reads
	// slowly would otherwise hold its place, and the space of an image that was evicted, for days.
	imageAnswerTime = 5 * time.Minute
	// imageSlotWait is how long a request waits for its turn. The agent then asks again, and its request timeout is longer.
	imageSlotWait = 10 * time.Second
)

// imageSent counts what agents received of images.
var imageSent = promauto.With(metrics.Registry).NewCounter(prometheus.CounterOpts{
	Name: "capbm_image_sent_bytes_total", Help: "Bytes of images that the boot server sent to agents, including repeated ranges.",
})

// errImageSlots means that too many ranges of images are sent at the moment.
var errImageSlots = errors.New("the boot server sends as many images as it may")

// imageSlots bound the ranges of images that are sent at once.
type imageSlots struct {
	all  *semaphore.Weighted
	wait time.Duration

	mu     sync.Mutex
	places map[string]int // taken by a host, and by its namespace
}

func newImageSlots(all int64, wait time.Duration) *imageSlots {
	return &imageSlots{all: semaphore.NewWeighted(all), wait: wait, places: map[string]int{}}
}

// enter waits for the turn of a host, whose request has a valid token. The error is errImageSlots if the turn does not come. Call leave at the end.
func (s *imageSlots) enter(ctx context.Context, host string) (leave func(), err error) {
	if !s.enterHost(host) {
		return nil, errImageSlots
	}
	ctx, cancel := context.WithTimeout(ctx, s.wait)
	defer cancel()
	if s.all.Acquire(ctx, 1) != nil {
		s.leaveHost(host)
		return nil, errImageSlots
	}
	return func() {
		s.all.Release(1)
		s.leaveHost(host)
	}, nil
}

func (s *imageSlots) enterHost(host string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, _, _ := strings.Cut(host, "/")
	if s.places[host] >= maxImageAnswersPerHost || s.places[namespace] >= maxImageAnswersPerNamespace {
		return false
	}
	s.places[host]++
	s.places[namespace]++
	return true
}

func (s *imageSlots) leaveHost(host string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	namespace, _, _ := strings.Cut(host, "/")
	for _, name := range []string{host, namespace} {
		if s.places[name]--; s.places[name] == 0 {
			delete(s.places, name)
		}
	}
}
