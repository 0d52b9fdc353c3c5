package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/health"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// eventEntries are the events of the host, its machine and its boot.
func eventEntries(o *Objects) []Entry {
	entries := make([]Entry, 0, len(o.Events))
	for i := range o.Events {
		e := &o.Events[i]
		entry := Entry{
			Time: timeOf(e), Source: SourceEvent, What: e.Reason, Message: e.Message, By: cmp.Or(e.ReportingController, e.Source.Component), Warning: e.Type == corev1.EventTypeWarning,
			Count: e.Count,
		}
		if e.Series != nil {
			entry.Count = e.Series.Count
		}
		if e.InvolvedObject.Kind != why.KindHost {
			entry.Object = e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name
		} else if strings.HasPrefix(e.Reason, bmcLogPrefix) {
			entry.Source, entry.By = SourceBMC, "BMC"
			if e.Reason == reasonBMCLogEntry {
				entry.Time = e.EventTime.Time
			}
		}
		entries = append(entries, entry)
	}
	return entries
}

// reasonBMCLogEntry is the reason of the events that are entries of the logs of the BMC, and bmcLogPrefix is the prefix of the reasons of events about its logs.
const (
	reasonBMCLogEntry = "BMCLogEntry"
	bmcLogPrefix      = "BMCLog"
)

// bmcEntries are the entries of the logs of the BMC that the status of the host keeps, except those that are events. An entry without a time has no place in the time line.
func bmcEntries(h *v1alpha1.BareMetalHost, events []Entry) []Entry {
	if h == nil || h.Status.Health == nil {
		return nil
	}
	var entries []Entry
	for _, kept := range h.Status.Health.Log {
		e := at(kept.Time, SourceBMC, reasonBMCLogEntry, health.Text(kept))
		e.By, e.Warning = "BMC", true
		same := func(event Entry) bool {
			return event.Source == SourceBMC && event.Message == e.Message && event.Time.Equal(e.Time)
		}
		if !slices.ContainsFunc(events, same) {
			entries = append(entries, e)
		}
	}
	return entries
}

// timeOf returns when an event happened last.
func timeOf(e *corev1.Event) time.Time {
	times := []time.Time{e.CreationTimestamp.Time, e.FirstTimestamp.Time, e.EventTime.Time, e.LastTimestamp.Time}
	if e.Series != nil {
		times = append(times, e.Series.LastObservedTime.Time)
	}
	return slices.MaxFunc(times, time.Time.Compare)
}

// at returns an entry for a time that may be absent; without one its time is zero.
func at(t *metav1.Time, source Source, what, message string) Entry {
	e := Entry{Source: source, What: what, Message: message}
	if t != nil {
		e.Time = t.Time
	}
	return e
}

// bootEntries are the stages and the record of the last boot, and stages of earlier boots.
func bootEntries(b *v1alpha1.BareMetalBoot) []Entry {
	if b == nil {
		return nil
	}
	var entries []Entry
	stages := b.Status.Stages
	last := b.Spec.StartTime.Time
	for i := range stages {
		s := &stages[i]
		parts := []string{fmt.Sprintf("boot %d", s.Number)}
		for _, part := range []struct{ name, value string }{{"address", s.Address}, {"client", s.Client}} {
			if part.value != "" {
				parts = append(parts, part.name+" "+part.value)
			}
		}
		entries = append(entries, Entry{
			Time: s.Time.Time, Source: SourceBoot, What: string(s.Stage), Message: strings.Join(parts, ", "), Warning: slices.Contains(failedStages, s.Stage),
		})
		if s.Number == b.Spec.Number && s.Time.After(last) {
			last = s.Time.Time
		}
	}
	spec := &b.Spec
	number := fmt.Sprintf("boot %d", spec.Number)
	entries = append(entries, at(spec.PoweredOffTime, SourceBoot, "PoweredOff", number+": the server was off"),
		at(spec.PoweredOnTime, SourceBoot, "PoweredOn", number+": the server is powered on"), at(spec.VoidedTime, SourceBoot, "Voided", number+": its claim ended"))
	if !slices.ContainsFunc(stages, func(s v1alpha1.ObservedStage) bool {
		return s.Stage == v1alpha1.StageStarted && s.Number == spec.Number
	}) {
		entries = append(entries, Entry{
			Time: spec.StartTime.Time, Source: SourceBoot, What: string(v1alpha1.StageStarted),
			Message: strings.TrimSpace(fmt.Sprintf("%s, attempt %d, purpose %s %s", number, spec.Attempt, spec.Purpose, spec.MachineName)),
		})
	}
	if on := spec.PoweredOnTime; on != nil && on.After(last) {
		last = on.Time
	}
	if f := spec.Failure; f != nil { // the record has no time
		entries = append(entries, Entry{Time: last, Source: SourceBoot, What: f.Reason, Message: number + " failed after this: " + f.Message, Warning: true})
	}
	if p := b.Status.Problem; p != nil {
		entries = append(entries, Entry{Time: p.Time.Time, Source: SourceBoot, What: p.Reason, Message: fmt.Sprintf("boot %d: %s", p.Number, p.Message), Warning: true})
	}
	return entries
}

var failedStages = []v1alpha1.BootStage{v1alpha1.StageBootstrapFailed, v1alpha1.StageRestarted, v1alpha1.StageNodeLost}

// hostEntries are the times in the host.
func hostEntries(h *v1alpha1.BareMetalHost) []Entry {
	if h == nil {
		return nil
	}
	state := &h.Spec.ProviderState
	entries := []Entry{
		at(&h.CreationTimestamp, SourceHost, "Created", "the object was created"),
		at(h.DeletionTimestamp, SourceHost, "Deleted", "the deletion of the object was requested"),
		at(state.PowerHoldStartTime, SourceHost, "PowerHold", "a power hold, or a power-on, began"),
		at(state.PowerHoldOffTime, SourceHost, "PowerHoldOff", "the server was off because of a power hold"),
		at(state.CleaningStartTime, SourceHost, "Cleaning", "the cleaning after a release began"),
		at(h.Status.PoweredOffTime, SourceHost, "PoweredOff", "the server is off although the provider did not power it off"),
	}
	if c := state.LastConsumer; c != nil {
		entries = append(entries, at(&c.ReleaseTime, SourceHost, "Released", strings.TrimSpace("BareMetalMachine "+c.Name+" "+c.Owner)))
	}
	if q := h.Spec.Quarantine; q != nil {
		e := at(q.StartTime, SourceHost, "Quarantine", q.Reason+": "+q.Message)
		e.Warning = true
		entries = append(entries, e)
	}
	if op := h.Status.LastOperation; op != nil {
		e := at(&op.StartTime, SourceHost, op.Name, "operation of the BMC, in progress: "+op.Message)
		if op.EndTime != nil {
			e = at(op.EndTime, SourceHost, op.Name, strings.TrimSuffix(fmt.Sprintf("operation of the BMC: %s: %s", op.Outcome, op.Message), ": "))
		}
		e.By, e.Warning = "BMC", op.Outcome == v1alpha1.OperationFailed
		entries = append(entries, e)
	}
	if b := h.Status.BMC; b != nil {
		entries = append(entries, at(b.InspectedTime, SourceInspection, "Inventory", "the inventory was read through the BMC"))
	}
	for i := range h.Status.Conditions {
		c := &h.Status.Conditions[i]
		row, known := why.Lookup(why.KindHost, c.Reason)
		message := strings.TrimSuffix(c.Reason+": "+c.Message, ": ")
		if c.Status != metav1.ConditionTrue { // its reason may be newer than its status
			message = "now " + message
		}
		entries = append(entries, Entry{
			Time: c.LastTransitionTime.Time, Source: SourceCondition, What: c.Type + "=" + string(c.Status), Message: message,
			Warning: known && row.State == why.Fault,
		})
	}
	return entries
}

func inspectionEntries(i *v1alpha1.BareMetalInspection) []Entry {
	if i == nil {
		return nil
	}
	received := i.Spec.ReceivedTime
	e := at(&received, SourceInspection, "Report", fmt.Sprintf("the agent reported the hardware in boot %d", i.Spec.BootNumber))
	e.By = "agent"
	return []Entry{e}
}

// erasureEntries are the recorded erasures of the host, and the requests to erase.
func erasureEntries(o *Objects) []Entry {
	var entries []Entry
	for i := range o.Erasures {
		r := &o.Erasures[i]
		erased := 0
		for d := range r.Spec.Report.Disks {
			if r.Spec.Report.Disks[d].Outcome == wire.Erased {
				erased++
			}
		}
		started, ended := r.Spec.Report.StartTime, r.Spec.Report.EndTime
		entries = append(entries, at(&started, SourceErasure, "Erasing", fmt.Sprintf("policy %s, boot %d", r.Spec.Report.Policy, r.Spec.BootNumber)),
			at(&ended, SourceErasure, "Erased", fmt.Sprintf("%d of %d disks, policy %s; the record is BareMetalErasure %s", erased, len(r.Spec.Report.Disks), r.Spec.Report.Policy, r.Name)))
	}
	for i := range o.Requests {
		r := &o.Requests[i]
		requested := at(&r.CreationTimestamp, SourceErasure, "Requested", fmt.Sprintf("BareMetalErasureRequest %s: policy %s", r.Name, r.Spec.Policy))
		requested.By = r.Annotations[v1alpha1.RequestedByAnnotation]
		entries = append(entries, requested)
		for c := range r.Status.Conditions {
			condition := &r.Status.Conditions[c]
			entries = append(entries, Entry{
				Time: condition.LastTransitionTime.Time, Source: SourceErasure, What: condition.Reason, Object: why.KindErasureRequest + "/" + r.Name, Message: condition.Message,
			})
		}
	}
	return entries
}
