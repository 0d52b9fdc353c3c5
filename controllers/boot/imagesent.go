package boot

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/lru"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
)

// dataDelay is how long after its power-on a server is started by then, even by firmware that takes its time. An agent of a boot medium gets the bootstrap data earlier only
// if this process has sent it as many bytes as the image has data.
const dataDelay = 15 * time.Minute

// imagesSent counts what the agents of the last boots were sent of their images. The zero value is not ready to use.
type imagesSent struct {
	mu    sync.Mutex
	boots *lru.Cache // from attemptKey to *imageSent
}

// imageSent is what an agent was sent of its image, and the data of that without its holes, which no agent downloads, in bytes.
type imageSent struct{ sent, data int64 }

func newImagesSent() *imagesSent { return &imagesSent{boots: lru.New(maxProgressBoots)} }

// add counts that an agent was sent n bytes of an image with data bytes.
func (s *imagesSent) add(key attemptKey, n, data int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	image := &imageSent{}
	if known, ok := s.boots.Get(key); ok {
		image = known.(*imageSent) //nolint:forcetypeassert // nothing else is put in
	}
	image.sent, image.data = image.sent+n, data
	s.boots.Add(key, image)
}

// whole is true for an agent that was sent as many bytes as its image has data.
func (s *imagesSent) whole(key attemptKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known, ok := s.boots.Get(key)
	if !ok {
		return false
	}
	image := known.(*imageSent) //nolint:forcetypeassert // nothing else is put in
	return image.sent >= image.data
}

// awaitImage returns an error that matches pxe.ErrNotYet for an agent of a boot medium whose bootstrap data must wait. Others may have read the medium. If one of them
// presents the token first, the agent of the server comes while the image is sent, its key is the second one, and the attempt ends before the bootstrap data is given out
// (decision 0034).
func (s *agents) awaitImage(a attempt) error {
	boot := &a.boot.Spec
	if !lifecycle.UsesMedium(boot) || boot.DataServedTime != nil || s.sent.whole(keyOf(a.boot)) {
		return nil
	}
	if on := boot.PoweredOnTime; on != nil && s.clock.Since(on.Time) >= dataDelay {
		return nil
	}
	return fmt.Errorf("%w: the agent of %s/%s gets the bootstrap data once this boot server has sent it the image, or %s after the power-on", pxe.ErrNotYet,
		a.host.Namespace, a.host.Name, dataDelay)
}
