package erasure

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// MaxRequestLife is how long after its creation a BareMetalErasureRequest may begin. The admission policy capbm-system-erasurerequests refuses a longer one.
const MaxRequestLife = 7 * 24 * time.Hour

// Unfit says why a request must not begin on a host: a reason of the condition Erased, and a message. The reason is empty if the request fits. It compares what
// is in the two objects; whether the server is the right one, and may be erased now, is the lifecycle's to decide.
func Unfit(r *v1alpha1.BareMetalErasureRequest, host *v1alpha1.BareMetalHost, now time.Time) (reason, message string) {
	switch s := &r.Spec; {
	case host == nil || host.Name != s.HostName || host.Namespace != r.Namespace:
		return v1alpha1.ReasonHostNotFound, fmt.Sprintf("There is no BareMetalHost %q in this namespace", s.HostName)
	case string(host.UID) != s.HostUID:
		return v1alpha1.ReasonHostRecreated, fmt.Sprintf("spec.hostUID is %s, and BareMetalHost %q has the UID %s: it was created again since the request was made. "+
			"If its disks are to be erased, create another request", s.HostUID, s.HostName, host.UID)
	case s.BootsBefore == nil || *s.BootsBefore != host.Spec.ProviderState.Boots:
		return v1alpha1.ReasonHostBooted, fmt.Sprintf("spec.bootsBefore does not fit: BareMetalHost %q has the boot count %d. Its server was booted since the request was "+
			"made, and no record shows that this was for the request. If its disks are to be erased, create another request", s.HostName, host.Spec.ProviderState.Boots)
	case expired(r, now):
		return v1alpha1.ReasonRequestExpired, "spec.expireTime has passed. The request is deleted"
	default:
		return "", ""
	}
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

// Select returns the request that a host has to carry out: that of its open boot, also if it has expired meanwhile, or the oldest one that fits. It is nil if
// there is none. An open boot whose request was deleted has none either, although others may fit.
func Select(requests []v1alpha1.BareMetalErasureRequest, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBootSpec, now time.Time) *v1alpha1.BareMetalErasureRequest {
	open := boot != nil && boot.ErasureRequest != nil && boot.VoidedAt == nil && boot.Number >= host.Spec.ProviderState.Boots
	var selected *v1alpha1.BareMetalErasureRequest
	for i := range requests {
		r := &requests[i]
		reason, _ := Unfit(r, host, now)
		switch {
		case !r.DeletionTimestamp.IsZero():
		case open && !CarriedOutBy(r, boot):
		case !open && (reason != "" || CarriedOutBy(r, boot)): // it was carried out, or has failed
		case selected == nil || older(r, selected):
			selected = r
		}
	}
	return selected
}

func older(a, b *v1alpha1.BareMetalErasureRequest) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// Outcome returns the condition Erased of a request, without its time. host and boot are those that the request names; nil if they do not exist. records are
// those of the host.
func Outcome(
	r *v1alpha1.BareMetalErasureRequest, host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBootSpec, records []v1alpha1.BareMetalErasure, now time.Time,
) metav1.Condition {
	no := func(reason, message string) metav1.Condition {
		return metav1.Condition{Type: v1alpha1.ErasedCondition, Status: metav1.ConditionFalse, Reason: reason, Message: message, ObservedGeneration: r.Generation}
	}
	carriedOut := CarriedOutBy(r, boot)
	record := slices.IndexFunc(records, func(e v1alpha1.BareMetalErasure) bool { return e.Spec.ClaimID == string(r.UID) })
	unfit, why := Unfit(r, host, now)
	switch {
	case record >= 0:
		yes := no(v1alpha1.ReasonErased, fmt.Sprintf("BareMetalErasure %q has the record", records[record].Name))
		yes.Status = metav1.ConditionTrue
		return yes
	case carriedOut && boot.Failure != nil:
		return no(v1alpha1.ReasonDisksNotErased, boot.Failure.Message)
	case carriedOut && boot.VoidedAt == nil:
		return no(v1alpha1.ReasonErasing, cmp.Or(available(host), "The disks are being erased"))
	case carriedOut && boot.AgentDoneAt != nil: // a server without disks has nothing to prove
		yes := no(v1alpha1.ReasonErased, "The agent found no disk to erase")
		yes.Status = metav1.ConditionTrue
		return yes
	case unfit != "":
		return no(unfit, why)
	default:
		return no(v1alpha1.ReasonHostWaits, cmp.Or(available(host), "The host is about to be erased"))
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
func NewRequest(host *v1alpha1.BareMetalHost, serialNumber string, policy v1alpha1.CleaningPolicy, expireTime time.Time) *v1alpha1.BareMetalErasureRequest {
	boots := host.Spec.ProviderState.Boots
	return &v1alpha1.BareMetalErasureRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, GenerateName: host.Name + "-"},
		Spec: v1alpha1.BareMetalErasureRequestSpec{
			HostName: host.Name, HostUID: string(host.UID), SerialNumber: serialNumber, BootsBefore: &boots, Policy: policy, ExpireTime: metav1.NewTime(expireTime),
		},
	}
}
