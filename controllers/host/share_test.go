package host

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestShareInventory: an inventory is in memory once, after a change, after a restart and for a new object of the same name. One that differs from that of the cache is kept.
func TestShareInventory(t *testing.T) {
	g := NewWithT(t)
	cached := func(uid, serial string) *v1alpha1.BareMetalHost {
		return &v1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", UID: "u"},
			Status:     v1alpha1.BareMetalHostStatus{Hardware: &v1alpha1.Hardware{SystemUUID: uid, SerialNumber: serial, Disks: []v1alpha1.Disk{}}},
		}
	}
	o, first := newObservations(), cached("1", "s")
	key := client.ObjectKeyFromObject(first)
	o.share(first)
	o.update(key, func(h *hostObservation) { h.initFromStatus(first.DeepCopy(), nil, time.Now()) })
	g.Expect(o.get(key).hardware).To(BeIdenticalTo(first.Status.Hardware), "after a restart")

	read := &v1alpha1.Hardware{SystemUUID: "1", SerialNumber: "other"}
	o.update(key, func(h *hostObservation) { h.hardware, h.report.hardware = read, read })
	o.share(first)
	g.Expect(o.get(key).hardware).To(BeIdenticalTo(read), "the status is not written yet")

	written := cached("1", "other")
	o.share(written)
	g.Expect(o.get(key).hardware).To(BeIdenticalTo(written.Status.Hardware))
	g.Expect(o.get(key).report.hardware).To(BeIdenticalTo(written.Status.Hardware), "the report of the agent is not compared again")

	erased := cached("1", "other")
	erased.Status.Hardware = nil
	o.share(erased)
	g.Expect(o.get(key).hardware).To(BeIdenticalTo(written.Status.Hardware), "the status is restored from it")

	again := cached("2", "s")
	again.UID = "new"
	o.share(again)
	stale := again.DeepCopy()
	stale.Status.Hardware.SerialNumber = "of an older version"
	o.update(key, func(h *hostObservation) { h.initFromStatus(stale, nil, time.Now()) })
	g.Expect(o.get(key).hardware).To(Equal(stale.Status.Hardware))
}
