package erasure

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// MaxRequestLife is how long after its creation a BareMetalErasureRequest may begin. The admission policy capbm-system-erasurerequests refuses a longer one.
const MaxRequestLife = 7 * 24 * time.Hour

// Facts are what a request is compared with.
type Facts struct {
	// Host is the host that the request names; nil if it does not exist.
	Host *v1alpha1.BareMetalHost
	// Boot is the record of the last boot of the host; nil if it does not exist.
	Boot *v1alpha1.BareMetalBootSpec
	// SerialNumber is that of the host's server; empty if it is unknown.
	SerialNumber string
	// Now is the time.
	Now time.Time
}

// Unfit says why a request must not begin: a reason of the condition Erased, and a message. The reason is empty if the request fits. Whether the server may be erased
// now is the lifecycle's to decide.
func (f Facts) Unfit(r *v1alpha1.BareMetalErasureRequest) (reason, message string) {
	switch s, host := &r.Spec, f.Host; {
	case host == nil || host.Name != s.HostName || host.Namespace != r.Namespace:
		return v1alpha1.ReasonHostNotFound, fmt.Sprintf("There is no BareMetalHost %q in this namespace", s.HostName)
	case string(host.UID) != s.HostUID:
		return v1alpha1.ReasonHostRecreated, fmt.Sprintf("spec.hostUID is %s, and BareMetalHost %q has the UID %s: it was created again since the request was made. "+
			"If its disks are to be erased, create another request", s.HostUID, s.HostName, host.UID)
	case !f.countFits(r):
		return v1alpha1.ReasonHostBooted, fmt.Sprintf("spec.bootsBefore does not fit: BareMetalHost %q has the boot count %d. Its server was booted since the request was "+
			"made, and no record shows that this was for the request. If its disks are to be erased, create another request", s.HostName, host.Spec.ProviderState.Boots)
	case expired(r, f.Now):
		return v1alpha1.ReasonRequestExpired, "spec.expireTime has passed. The request is deleted"
	case f.SerialNumber != "" && !strings.EqualFold(strings.TrimSpace(f.SerialNumber), strings.TrimSpace(s.SerialNumber)):
		return v1alpha1.ReasonOtherSerialNumber, fmt.Sprintf("spec.serialNumber is %q, and that of the server is %q. If this is the server whose disks are to be erased, "+
			"create another request", s.SerialNumber, f.SerialNumber)
	default:
		return "", ""
	}
}

// countFits is true if the server has not booted since the request was made. A boot for the request that was given up before the server was powered on does not count.
func (f Facts) countFits(r *v1alpha1.BareMetalErasureRequest) bool {
	boots, b := f.Host.Spec.ProviderState.Boots, f.Boot
	ended := CarriedOutBy(r, b) && b.VoidedTime != nil
	if ended && b.PoweredOnTime == nil && b.Failure == nil && b.Attempt == 1 && b.Number >= boots {
		return true // it was given up
	}
	return r.Spec.BootsBefore != nil && *r.Spec.BootsBefore == boots && !ended
}

// expired is true for a request that must not begin any more. A lifetime that admission would refuse counts as over when the longest one is.
func expired(r *v1alpha1.BareMetalErasureRequest, now time.Time) bool { return !now.Before(Expiry(r)) }

// Expiry is the time from which a request does not begin.
func Expiry(r *v1alpha1.BareMetalErasureRequest) time.Time {
	latest := r.CreationTimestamp.Add(MaxRequestLife)
	if r.Spec.ExpireTime.Time.Before(latest) {
		return r.Spec.ExpireTime.Time
	}
	return latest
}

// CarriedOutBy is true if a boot carries out a request, or did so.
func CarriedOutBy(r *v1alpha1.BareMetalErasureRequest, boot *v1alpha1.BareMetalBootSpec) bool {
	return boot != nil && boot.ErasureRequest != nil && boot.ClaimID == string(r.UID)
}

// Select returns the request that a host has to carry out: that of its open boot, also if it has expired meanwhile, or the oldest one that fits. It returns nil
// if none fits, and while an open boot carries out a request that was deleted.
func (f Facts) Select(requests []v1alpha1.BareMetalErasureRequest) *v1alpha1.BareMetalErasureRequest {
	b := f.Boot
	open := b != nil && b.ErasureRequest != nil && b.VoidedTime == nil && b.Number >= f.Host.Spec.ProviderState.Boots
	var selected *v1alpha1.BareMetalErasureRequest
	for i := range requests {
		r := &requests[i]
		reason, _ := f.Unfit(r)
		switch {
		case !r.DeletionTimestamp.IsZero():
		case open && !CarriedOutBy(r, b):
		case !open && reason != "":
		case selected == nil || older(r, selected):
			selected = r
		}
	}
	return selected
}

func older(a, b *v1alpha1.BareMetalErasureRequest) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// Outcome returns the condition Erased of a request, without its time. records are those of the host.
func (f Facts) Outcome(r *v1alpha1.BareMetalErasureRequest, records []v1alpha1.BareMetalErasure) metav1.Condition {
	is := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ErasedCondition, Status: status, Reason: reason, Message: message, ObservedGeneration: r.Generation}
	}
	const no, yes = metav1.ConditionFalse, metav1.ConditionTrue
	carriedOut, b := CarriedOutBy(r, f.Boot), f.Boot
	record := slices.IndexFunc(records, func(e v1alpha1.BareMetalErasure) bool { return e.Spec.ClaimID == string(r.UID) })
	unfit, why := f.Unfit(r)
	switch {
	case record >= 0:
		return is(yes, v1alpha1.ReasonErased, fmt.Sprintf("BareMetalErasure %q has the record", records[record].Name))
	case carriedOut && b.Failure != nil:
		return is(no, v1alpha1.ReasonDisksNotErased, b.Failure.Message)
	case carriedOut && b.VoidedTime == nil:
		return is(no, v1alpha1.ReasonErasing, cmp.Or(available(f.Host), "The disks are being erased"))
	case carriedOut && b.AgentDoneTime != nil && (b.Erasure == nil || len(b.Erasure.Disks) == 0):
		return is(yes, v1alpha1.ReasonErased, "The agent found no disk to erase, so there is no record")
	case carriedOut && b.AgentDoneTime != nil:
		return is(no, v1alpha1.ReasonDisksNotErased, "The agent reported an erasure, and there is no BareMetalErasure: the report proves nothing, or the record was deleted")
	case unfit != "":
		return is(no, unfit, why)
	default:
		return is(no, v1alpha1.ReasonHostWaits, cmp.Or(available(f.Host), "The request waits for its host"))
	}
}

// available returns the message of a host's condition Available; empty for none.
func available(host *v1alpha1.BareMetalHost) string {
	if host == nil {
		return ""
	}
	for _, c := range host.Status.Conditions {
		if c.Type == v1alpha1.AvailableCondition && c.Status != metav1.ConditionTrue {
			return c.Message
		}
	}
	return ""
}

// NewRequest returns a request to erase the disks of a host's server as the host is now. It has no name but a prefix of one, which the API server completes.
func NewRequest(host *v1alpha1.BareMetalHost, serialNumber string, policy wire.ErasePolicy, expireTime time.Time) *v1alpha1.BareMetalErasureRequest {
	boots := host.Spec.ProviderState.Boots
	return &v1alpha1.BareMetalErasureRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, GenerateName: host.Name + "-"},
		Spec: v1alpha1.BareMetalErasureRequestSpec{
			HostName: host.Name, HostUID: string(host.UID), SerialNumber: serialNumber, BootsBefore: &boots, Policy: policy, ExpireTime: metav1.NewTime(expireTime),
		},
	}
}
