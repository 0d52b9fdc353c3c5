package erasure_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

var requestNow = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)

// orderedHost returns a host that has booted three times, and a request for it that was created an hour ago and expires in an hour.
func orderedHost() (*v1alpha1.BareMetalHost, *v1alpha1.BareMetalErasureRequest) {
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "h", UID: "host-uid"}, Spec: v1alpha1.BareMetalHostSpec{ProviderState: v1alpha1.HostProviderState{Boots: 3}}}
	request := erasure.NewRequest(host, "SN1", wire.PolicyClear, requestNow.Add(time.Hour))
	request.Name, request.UID, request.CreationTimestamp = "order", "order-uid", metav1.NewTime(requestNow.Add(-time.Hour))
	return host, request
}

// carriedOut is the boot of the request of orderedHost.
func carriedOut(change func(*v1alpha1.BareMetalBootSpec)) *v1alpha1.BareMetalBootSpec {
	b := &v1alpha1.BareMetalBootSpec{
		Number: 4, Purpose: v1alpha1.PurposeClean, ClaimID: "order-uid", ErasureRequest: &v1alpha1.BootErasureRequest{Name: "order", SerialNumber: "SN1"},
	}
	change(b)
	return b
}

// TestRequestOutcome: a request is for the host as it was when the request was made. What came of it is read from records that outlive a status.
func TestRequestOutcome(t *testing.T) {
	at := metav1.NewTime(requestNow)
	record := v1alpha1.BareMetalErasure{ObjectMeta: metav1.ObjectMeta{Name: "h-4"}, Spec: v1alpha1.BareMetalErasureSpec{ClaimID: "order-uid"}}
	for name, c := range map[string]struct {
		change  func(*v1alpha1.BareMetalHost, *v1alpha1.BareMetalErasureRequest)
		boot    *v1alpha1.BareMetalBootSpec
		records []v1alpha1.BareMetalErasure
		noHost  bool
		serial  string // of the server
		want    string
	}{
		"it fits":                       {want: v1alpha1.ReasonHostWaits},
		"the host is gone":              {noHost: true, want: v1alpha1.ReasonHostNotFound},
		"another host of the same name": {change: func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalErasureRequest) { h.UID = "new" }, want: v1alpha1.ReasonHostRecreated},
		"it has booted since":           {change: func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalErasureRequest) { h.Spec.ProviderState.Boots = 4 }, want: v1alpha1.ReasonHostBooted},
		"it is older than the request":  {change: func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalErasureRequest) { h.Spec.ProviderState.Boots = 2 }, want: v1alpha1.ReasonHostBooted},
		"it has expired":                {change: func(_ *v1alpha1.BareMetalHost, r *v1alpha1.BareMetalErasureRequest) { r.Spec.ExpireTime = at }, want: v1alpha1.ReasonRequestExpired},
		"it was created seven days ago": {change: func(_ *v1alpha1.BareMetalHost, r *v1alpha1.BareMetalErasureRequest) {
			r.CreationTimestamp = metav1.NewTime(requestNow.Add(-erasure.MaxRequestLife))
		}, want: v1alpha1.ReasonRequestExpired},
		"it runs":                  {boot: carriedOut(func(*v1alpha1.BareMetalBootSpec) {}), want: v1alpha1.ReasonErasing},
		"it runs, and has expired": {boot: carriedOut(func(*v1alpha1.BareMetalBootSpec) {}), change: func(_ *v1alpha1.BareMetalHost, r *v1alpha1.BareMetalErasureRequest) { r.Spec.ExpireTime = at }, want: v1alpha1.ReasonErasing},
		"it failed": {boot: carriedOut(func(b *v1alpha1.BareMetalBootSpec) {
			b.VoidedTime, b.Failure = &at, &v1alpha1.BootFailure{Message: "disk S1"}
		}), want: v1alpha1.ReasonDisksNotErased},
		"it was given up before the server was on": {boot: carriedOut(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime, b.Attempt = &at, 1 }), change: func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalErasureRequest) {
			h.Spec.ProviderState.Boots = 4
		}, want: v1alpha1.ReasonHostWaits},
		"it was given up, and something else booted": {boot: carriedOut(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime, b.Attempt = &at, 1 }), change: func(h *v1alpha1.BareMetalHost, _ *v1alpha1.BareMetalErasureRequest) {
			h.Spec.ProviderState.Boots = 5
		}, want: v1alpha1.ReasonHostBooted},
		"it was interrupted after the power-on": {boot: carriedOut(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime, b.PoweredOnTime, b.Attempt = &at, &at, 1 }), want: v1alpha1.ReasonHostBooted},
		"no record of what the agent reported": {boot: carriedOut(func(b *v1alpha1.BareMetalBootSpec) {
			b.VoidedTime, b.AgentDoneTime, b.Erasure = &at, &at, &v1alpha1.ErasureReport{Disks: make([]v1alpha1.ErasedDisk, 1)}
		}), want: v1alpha1.ReasonDisksNotErased},
		"the serial number, in another form": {serial: " sn1", want: v1alpha1.ReasonHostWaits},
		"another serial number":              {serial: "SN2", want: v1alpha1.ReasonOtherSerialNumber},
		"no disk, nothing to record":         {boot: carriedOut(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime, b.AgentDoneTime = &at, &at }), want: v1alpha1.ReasonErased},
		"recorded":                           {records: []v1alpha1.BareMetalErasure{{}, record}, want: v1alpha1.ReasonErased},
		"recorded, and the host is gone":     {records: []v1alpha1.BareMetalErasure{record}, noHost: true, want: v1alpha1.ReasonErased},
		"the boot of another request":        {boot: carriedOut(func(b *v1alpha1.BareMetalBootSpec) { b.ClaimID = "other" }), want: v1alpha1.ReasonHostWaits},
		"a claim with the UID as claimID":    {boot: carriedOut(func(b *v1alpha1.BareMetalBootSpec) { b.ErasureRequest = nil }), want: v1alpha1.ReasonHostWaits},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			host, request := orderedHost()
			if c.change != nil {
				c.change(host, request)
			}
			if c.noHost {
				host = nil
			}
			got := erasure.Facts{Host: host, Boot: c.boot, SerialNumber: c.serial, Now: requestNow}.Outcome(request, c.records)
			g.Expect(got.Reason).To(Equal(c.want), got.Message)
			want := metav1.ConditionFalse
			if c.want == v1alpha1.ReasonErased {
				want = metav1.ConditionTrue
			}
			g.Expect(got.Status).To(Equal(want))
			g.Expect(got.Message).NotTo(BeEmpty())
		})
	}
}

// TestSelectRequest: the host controller gets the oldest request that fits. While a boot carries out a request, it gets that one or none.
func TestSelectRequest(t *testing.T) {
	g := NewWithT(t)
	host, old := orderedHost()
	_, young := orderedHost()
	young.Name, young.UID, young.CreationTimestamp = "a-young", "young-uid", metav1.NewTime(requestNow.Add(-time.Minute))
	both := []v1alpha1.BareMetalErasureRequest{*young, *old}
	selected := func(requests []v1alpha1.BareMetalErasureRequest, boot *v1alpha1.BareMetalBootSpec) string {
		if r := (erasure.Facts{Host: host, Boot: boot, Now: requestNow}).Select(requests); r != nil {
			return r.Name
		}
		return ""
	}
	runs := carriedOut(func(*v1alpha1.BareMetalBootSpec) {})
	over := carriedOut(func(b *v1alpha1.BareMetalBootSpec) {
		b.VoidedTime, b.PoweredOnTime = &metav1.Time{Time: requestNow}, &metav1.Time{Time: requestNow}
	})
	g.Expect(selected(both, nil)).To(Equal("order"))
	g.Expect(selected(both[:1], nil)).To(Equal("a-young"))
	host.Spec.ProviderState.Boots = 4
	g.Expect(selected(both, runs)).To(Equal("order"), "the count has risen, and the erasure goes on")
	both[1].Spec.ExpireTime = metav1.NewTime(requestNow)
	g.Expect(selected(both, runs)).To(Equal("order"), "an erasure that has begun does not expire")
	g.Expect(selected(both[:1], runs)).To(BeEmpty(), "its request was deleted")
	g.Expect(selected(both, over)).To(BeEmpty())
	host.Spec.ProviderState.Boots = 3
	both[1].Spec.ExpireTime = metav1.NewTime(requestNow.Add(time.Hour))
	g.Expect(selected(both[1:], over)).To(BeEmpty(), "a backup of the host brings the count back, and the boot says that the request was carried out")
	both[0].DeletionTimestamp = &metav1.Time{Time: requestNow}
	g.Expect(selected(both[:1], nil)).To(BeEmpty())
}

// TestPropertyRequestBeginsOnce: a request that is selected without a boot of its own names the host's UID and its count of boots, and has not expired.
func TestPropertyRequestBeginsOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		host, r := orderedHost()
		host.Spec.ProviderState.Boots = rapid.Int32Range(2, 4).Draw(t, "boots")
		host.UID = types.UID(rapid.SampledFrom([]string{"host-uid", "other"}).Draw(t, "UID"))
		r.Spec.ExpireTime = metav1.NewTime(requestNow.Add(time.Duration(rapid.IntRange(-2, 200).Draw(t, "hours")) * time.Hour))
		r.CreationTimestamp = metav1.NewTime(requestNow.Add(-time.Duration(rapid.IntRange(0, 200).Draw(t, "age")) * time.Hour))
		if (erasure.Facts{Host: host, Now: requestNow}).Select([]v1alpha1.BareMetalErasureRequest{*r}) == nil {
			return
		}
		if host.Spec.ProviderState.Boots != 3 || host.UID != "host-uid" || !requestNow.Before(r.Spec.ExpireTime.Time) || requestNow.Sub(r.CreationTimestamp.Time) >= 7*24*time.Hour {
			t.Fatalf("%+v begins on a host with the UID %s and %d boots", r.Spec, host.UID, host.Spec.ProviderState.Boots)
		}
	})
}
