package lifecycle

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/promise"
)

// wrongWithRequestedErasure says why no attempt to erase a free host may begin; "" if one may. A later attempt may begin with a server that is on.
func wrongWithRequestedErasure(v View, later bool) string {
	switch {
	case v.Host.Claimed():
		return "a machine has the host"
	case v.Erasure.Request == nil || v.Erasure.Request.SerialNumber != v.Erasure.SerialNumber:
		return "nobody requested that for this server"
	case v.Erasure.Machine != nil || v.Claims.UnrecordedConsumer != "" && !later:
		return "a machine has its provider ID"
	case v.Host.PausedCluster != "":
		return "the host may be moving"
	case v.Host.Spec.Power == v1alpha1.PowerOn || len(v.powerHolds()) > 0:
		return "its power is to be another one"
	case !later && (v.BMC.Power != v1alpha1.PowerOff || v.BMC.PowerAt.Sub(v.BMC.PowerSince) < DefaultSettings().ActiveInterval):
		return "it was not read as off twice"
	case v.Identity.hasConflict() || v.Identity.Replacement != nil:
		return "it may be another server"
	case v.Host.Deleting || v.Host.Spec.Quarantine != nil || v.Host.Spec.Maintenance != nil || v.Host.Spec.ExternallyProvisioned || v.Requests.Detached.Set || v.Host.Paused:
		return "it is out of service"
	default:
		return ""
	}
}

var (
	errNoKey    = errors.New("the key is missing")
	errUnproven = errors.New("a disk was not verified")
)

// recordErasure writes a BareMetalErasure.
func (w *world) recordErasure() ErasureRecord {
	if w.recordUnproven {
		return ErasureRecord{Outcome: RecordUnproven, Err: errUnproven}
	}
	if w.recordFails {
		return ErasureRecord{Outcome: RecordFailed, Err: errNoKey}
	}
	return ErasureRecord{Outcome: RecordWritten}
}

// erasureReport is the report of an agent that has erased a disk.
func erasureReport() *v1alpha1.ErasureReport {
	return &v1alpha1.ErasureReport{Disks: []v1alpha1.ErasedDisk{{}}}
}

// advanceRequestedErasure advances an erasure of a free host by one step. The agent powers the server off after its report.
func (w *world) advanceRequestedErasure(v View, b v1alpha1.BareMetalBootSpec) bool {
	switch {
	case BootFor(v, w.s) != BootAgent || !w.on || !w.fromNetwork || b.AgentRefusedTime != nil:
		return false
	case v.Observed.Furthest.Stage != v1alpha1.StageAgent:
		w.observe([]v1alpha1.BootStage{"", v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageAgent})
		return true
	case w.disk.step == agentStarts:
		w.notef("the agent begins to erase the disks: %q", b.CleaningPolicy)
		w.disk.step, w.disk.begun = agentGotData, true
		b.DataAddress = "192.0.2.1" // the boot server records to whom it gives the plan
		w.v.Host.Boot = &b
		if !cleaning.AllDisks(b.CleaningPolicy) {
			w.brokenf(promise.Command, "disks are erased with the policy %q", b.CleaningPolicy)
		}
		return true
	}
	w.notef("the agent has erased the disks")
	b.AgentDoneTime, b.WrittenDisks, b.Erasure = &metav1.Time{Time: v.Now}, nil, erasureReport()
	w.disk, w.installed = agentDisk{missing: w.disk.missing}, false
	w.v.Host.Boot = &b
	w.switchTo(false, 2*time.Second)
	return true
}

// newRequest makes a user create a BareMetalErasureRequest for the host as it is now.
func (w *world) newRequest(serial string, policy wire.ErasePolicy) {
	w.requests++
	name := fmt.Sprintf("order-%d", w.requests)
	w.v.Erasure.Request = &ErasureRequest{Name: name, UID: "uid-" + name, SerialNumber: serial, Policy: policy}
	w.bootsBefore = w.v.Host.Spec.ProviderState.Boots
}

// requestOf is what the host controller selects: the request of the open boot, or one that fits the count of boots.
func (w *world) requestOf(v View) *ErasureRequest {
	r, open, last := v.Erasure.Request, v.Host.RequestedErasureBoot(), v.Host.Boot
	own := r != nil && last != nil && last.ClaimID == r.UID
	givenUp := own && last.VoidedTime != nil && last.PoweredOnTime == nil && last.Failure == nil && last.Attempt == 1 && last.Number >= v.Host.Spec.ProviderState.Boots
	switch {
	case r == nil, open != nil && !own:
		return nil
	case open != nil, givenUp:
		return r
	case own || w.bootsBefore != v.Host.Spec.ProviderState.Boots:
		return nil
	default:
		return r
	}
}

// requestEvents are the events of BareMetalErasureRequests.
var requestEvents = []event{
	{name: "a BareMetalErasureRequest", weight: 8, when: func(w *world) bool { return isFree(w) && !w.v.Host.Deleting }, do: func(w *world, p uint64) {
		w.newRequest(choose(p, "SN1", "SN1", "SN1", "SN2"), choose(p/4, wire.PolicyClear, wire.PolicyPurge, wire.PolicyMetadata))
	}},
	{name: "the BareMetalErasureRequest is deleted", weight: 2, when: func(w *world) bool { return w.v.Erasure.Request != nil }, do: func(w *world, _ uint64) { w.v.Erasure.Request = nil }},
	{name: "the erasure of a free host goes on", weight: 12, when: func(w *world) bool {
		return isFree(w) && (w.requestOf(w.v) != nil || w.v.Host.RequestedErasureBoot() != nil)
	}, do: func(w *world, p uint64) {
		w.bmcRecovers()
		for range 10 + p%30 {
			w.reconcile()
			w.pass(5 * time.Second)
			w.advanceBoot()
		}
	}},
	{name: "a machine claims a host whose disks are erased", weight: 4, when: func(w *world) bool { return isFree(w) && w.v.Host.RequestedErasureBoot() != nil && w.inService() }, do: func(w *world, p uint64) {
		w.claim(p) // as a user can do by hand
	}},
	{name: "another serial number is read", weight: 1, when: always, do: func(w *world, p uint64) { w.v.Erasure.SerialNumber = choose(p, "SN1", "SN2", "") }},
	toggle("a machine of another namespace has the provider ID", 1, func(w *world) bool { return w.v.Erasure.Machine != nil },
		func(w *world, _ uint64) { w.v.Erasure.Machine = &types.NamespacedName{Namespace: "other", Name: "m-1"} }, func(w *world) { w.v.Erasure.Machine = nil }),
}
