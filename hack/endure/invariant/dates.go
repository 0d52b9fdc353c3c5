package invariant

import (
	"context"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// lookEvery is how often the API server is asked how far it is. A version is dated to about as much.
const lookEvery = time.Second

// look is how far the API server was when it was asked: with everything (revision), and with the objects of a kind (newest), of which there were so many.
type look struct {
	asked, answered  time.Time
	revision, newest string
	objects          int
}

// dates tells when the versions of a kind were written that a watch brings. On a busy machine the watch is seconds behind, and a version that it
// brings late must not be taken for one that was written late.
type dates struct {
	mu      sync.Mutex
	looks   []look    // by time
	seen    string    // the version up to which the watch brought everything
	objects int       // how many there are by then
	known   time.Time // up to when everything that was written is known
}

const mostLooks = 600

func (d *dates) looked(l look) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.looks = append(d.looks, l)
	d.looks = d.looks[max(0, len(d.looks)-mostLooks):]
	d.compare()
}

// brought tells that the watch brought everything up to a version, and how many objects there are by then.
func (d *dates) brought(version string, objects int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen, d.objects = version, objects
	d.compare()
}

// compare finds the last look at which there was nothing that the watch has not brought. A deletion is a version of no object that is there: until the
// watch brings something that was written after the look, it shows in their number.
func (d *dates) compare() {
	for _, l := range slices.Backward(d.looks) {
		if d.seen == "" || !l.asked.After(d.known) {
			return
		}
		if !older(d.seen, l.revision) || !older(d.seen, l.newest) && d.objects == l.objects {
			d.known = l.asked
			return
		}
	}
}

// of returns the stretch of time in which a version was written that came now.
func (d *dates) of(version string) span {
	d.mu.Lock()
	defer d.mu.Unlock()
	written := span{to: time.Now()}
	for _, l := range d.looks {
		if !older(l.revision, version) {
			written.to = l.answered
			break
		}
		written.from = l.asked
	}
	return written
}

// complete returns the time up to which everything that was written is known.
func (d *dates) complete() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}

// older is true where a version was written before another. What cannot be compared, as the empty version of a list without objects, is not.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// keepLooking looks until ctx ends. While the API server is away there is nothing to see.
func (d *dates) keepLooking(ctx context.Context, from client.Client, kind string) {
	for ctx.Err() == nil {
		if l, err := lookAt(ctx, from, kind); err == nil {
			d.looked(l)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
}

// lookAt reads the versions of all objects of a kind as the API server has them at this time, and not as they once were.
func lookAt(ctx context.Context, from client.Client, kind string) (look, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	l := look{asked: time.Now()}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
	if err := from.List(ctx, list); err != nil {
		return look{}, err
	}
	l.answered, l.revision, l.objects = time.Now(), list.ResourceVersion, len(list.Items)
	for _, item := range list.Items {
		if l.newest == "" || older(l.newest, item.ResourceVersion) {
			l.newest = item.ResourceVersion
		}
	}
	return l, nil
}
