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

// readInterval is how often the revision of the API server is read. It is also the precision of the time of a write.
const readInterval = time.Second

// reading is the state of the API server at one time: its revision, the newest version of the objects of a kind, and the number of these objects.
type reading struct {
	asked, answered  time.Time
	revision, newest string
	objects          int
}

// dates finds out when the versions were written that a watch delivers. On a busy machine the watch is seconds behind. A version that is delivered late
// must not count as written late.
type dates struct {
	mu       sync.Mutex
	readings []reading // by time
	seen     string    // the version up to which the watch delivered everything
	objects  int       // the number of objects at that version
	known    time.Time // all writes up to this time are known
}

const maxReadings = 600

func (d *dates) add(l reading) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.readings = append(d.readings, l)
	d.readings = d.readings[max(0, len(d.readings)-maxReadings):]
	d.compare()
}

// delivered records that the watch delivered everything up to a version, and the number of objects at that version.
func (d *dates) delivered(version string, objects int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen, d.objects = version, objects
	d.compare()
}

// compare finds the last reading that has nothing that the watch has not delivered. A deletion is not the version of an existing object: until the watch
// delivers a later write, only the number of objects shows it.
func (d *dates) compare() {
	for _, l := range slices.Backward(d.readings) {
		if d.seen == "" || !l.asked.After(d.known) {
			return
		}
		if !older(d.seen, l.revision) || !older(d.seen, l.newest) && d.objects == l.objects {
			d.known = l.asked
			return
		}
	}
}

// of returns the period in which a version was written that was just delivered.
func (d *dates) of(version string) span {
	d.mu.Lock()
	defer d.mu.Unlock()
	written := span{to: time.Now()}
	for _, l := range d.readings {
		if !older(l.revision, version) {
			written.to = l.answered
			break
		}
		written.from = l.asked
	}
	return written
}

// complete returns the time up to which all writes are known.
func (d *dates) complete() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.known
}

// older is true if a version was written before another. Versions that cannot be compared, such as the empty version of a list without objects, are not
// older.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// poll reads until ctx ends. It skips the times when the API server does not answer.
func (d *dates) poll(ctx context.Context, from client.Client, kind string) {
	for ctx.Err() == nil {
		if l, err := readVersions(ctx, from, kind); err == nil {
			d.add(l)
		}
		select {
		case <-ctx.Done():
		case <-time.After(readInterval):
		}
	}
}

// readVersions returns the versions of all objects of a kind at this time, and not from a cache.
func readVersions(ctx context.Context, from client.Client, kind string) (reading, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	l := reading{asked: time.Now()}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(kind + "List"))
	if err := from.List(ctx, list); err != nil {
		return reading{}, err
	}
	l.answered, l.revision, l.objects = time.Now(), list.ResourceVersion, len(list.Items)
	for _, item := range list.Items {
		if l.newest == "" || older(l.newest, item.ResourceVersion) {
			l.newest = item.ResourceVersion
		}
	}
	return l, nil
}
