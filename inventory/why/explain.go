package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Explanation is why an object is as it is.
type Explanation struct {
	// Subject is the object that was asked about.
	Subject Ref
	// State says whether the object needs anything.
	State State
	// Wanted is what the object is for, as a sentence.
	Wanted string
	// At is the object that has the reason. It is Subject if the state is Done.
	At Ref
	// Reason is the word, such as WaitingForDHCP. It is empty if no condition has one.
	Reason string
	// WaitsFor is what has to happen or to end before the object is as wanted. It is empty if the state is Done, and only then.
	WaitsFor string
	// Since is when the wait began; zero if that is unknown.
	Since time.Time
	// Usual is how long such a wait usually takes at most; zero if there is no usual time.
	Usual time.Duration
	// Seen is what was last observed of the server; nil if nothing was.
	Seen *Seen
	// Message is the message of the condition, as one line. It may be empty.
	Message string
	// Cause is the likeliest cause. It is empty if the state is Done.
	Cause string
	// Do is what a person does about it. It may be empty.
	Do string
	// Command is the next command. It names only objects that were read.
	Command string
	// NoHost says why no host fits, for a machine or a template without one; nil otherwise, and if the hosts were not read.
	NoHost *NoHost
	// Notes are what should be corrected too, and does not prevent what is wanted, such as a part with a warning.
	Notes []string
	// Unread are the objects that belong to the chain and could not be read.
	Unread []Unread
}

// overdueFactor is how many times the usual time a wait takes before it counts as a fault.
const overdueFactor = 2

// Overdue is true for a wait that takes more than twice its usual time.
func (e *Explanation) Overdue(now time.Time) bool {
	return e.State == Waits && e.Usual > 0 && !e.Since.IsZero() && now.Sub(e.Since) > overdueFactor*e.Usual
}

// NeedsAction is true if a person has to act: for a fault, and for a wait that is overdue.
func (e *Explanation) NeedsAction(now time.Time) bool { return e.State == Fault || e.Overdue(now) }

// Compare orders explanations by what needs attention first: faults, then overdue waits, what is unknown, other waits, and what is done; within these the longest wait, then
// the name.
func Compare(a, b *Explanation, now time.Time) int {
	rank := func(e *Explanation) int {
		switch {
		case e.State == Fault:
			return 0
		case e.Overdue(now):
			return 1
		case e.State == Unknown:
			return 2
		case e.State == Waits:
			return 3
		default:
			return 4
		}
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Since.Compare(b.Since), cmp.Compare(a.Subject.Name, b.Subject.Name))
}

// Explain explains the object of a kind. kind is one of the constants, or the kind of the owner. It returns false if that object was not read.
func Explain(kind string, o *Objects) (Explanation, bool) {
	subject, ok := o.get(kind)
	if !ok {
		return Explanation{}, false
	}
	e := Explanation{
		Subject: subject.Ref, At: subject.Ref, State: Done, Wanted: o.wanted(&subject), Seen: o.lastSeen(), Unread: slices.Clone(o.Unread),
	}
	found := o.find(&subject)
	e.Notes = o.notes(&subject, found)
	if hidden := o.hidden(&subject); found == nil && hidden != nil {
		found = unreadFinding(subject.Ref, hidden)
	}
	if found == nil {
		e.Command = o.command(describeObject, subject.Ref)
		return e, true
	}
	e.State, e.At, e.Reason, e.Since, e.Usual = found.row.State, found.at, found.row.Reason, found.since, found.row.Usual
	e.WaitsFor = clean(cmp.Or(found.awaited, Plain(found.row.Means)))
	e.Message, e.Do, e.NoHost = clean(found.message), Plain(found.row.Do), found.noHost
	e.Cause = clean(cmp.Or(found.cause, found.row.Cause, causeInMessage))
	e.Command = cmp.Or(found.command, o.command(cmp.Or(found.row.Next, describeObject), found.at))
	return e, true
}

// wanted is what an object is for.
func (o *Objects) wanted(subject *object) string {
	name := subject.Name
	if !subject.meta.GetDeletionTimestamp().IsZero() {
		return fmt.Sprintf("%s %s is removed", subject.Kind, name)
	}
	switch subject.Kind {
	case KindHost:
		return wantedOfHost(o.Host)
	case KindBoot:
		return wantedOfBoot(o.Boot)
	case KindMachine, KindBareMetalMachine:
		return fmt.Sprintf("%s %s runs on a server", subject.Kind, name)
	case KindCluster, KindBareMetalCluster:
		return fmt.Sprintf("%s %s has an endpoint, and its machines run", subject.Kind, name)
	case KindConfig:
		return "The bootstrap data of BareMetalConfig " + name + " exists"
	case KindRemediation:
		return "The Node of Machine " + name + " is healthy again" // it has the name of the Machine
	case KindErasureRequest:
		return "The disks of BareMetalHost " + o.ErasureRequest.Spec.HostName + " are erased"
	case KindProfile:
		return fmt.Sprintf("The hosts of BareMetalProfile %s have its firmware settings", name)
	case KindSettings:
		return fmt.Sprintf("BareMetalHost %s has the firmware settings of its BareMetalProfile", name) // it has the name of the host
	case KindMachineTemplate:
		return "Hosts match BareMetalMachineTemplate " + name
	default:
		return fmt.Sprintf("The machines of %s %s run", subject.Kind, name)
	}
}

func wantedOfHost(host *v1alpha1.BareMetalHost) string {
	switch {
	case host.Spec.ConsumerRef != nil:
		return fmt.Sprintf("BareMetalHost %s runs BareMetalMachine %s", host.Name, host.Spec.ConsumerRef.Name)
	case host.Spec.ExternallyProvisioned:
		return "Something other than the provider runs BareMetalHost " + host.Name
	default:
		return "A machine can claim BareMetalHost " + host.Name
	}
}

func wantedOfBoot(boot *v1alpha1.BareMetalBoot) string {
	switch boot.Spec.Purpose {
	case v1alpha1.PurposeClean:
		return fmt.Sprintf("The disks of BareMetalHost %s are erased", boot.Name)
	case v1alpha1.PurposeInspect:
		return fmt.Sprintf("The hardware of BareMetalHost %s is read", boot.Name)
	case v1alpha1.PurposeConfigure:
		return fmt.Sprintf("BareMetalHost %s restarts with new firmware settings", boot.Name)
	case v1alpha1.PurposeProvision:
		return fmt.Sprintf("BareMetalHost %s boots BareMetalMachine %s", boot.Name, boot.Spec.MachineName)
	default: // it was not booted yet
		return fmt.Sprintf("BareMetalHost %s boots when a machine has it", boot.Name)
	}
}

// notes are what the checks of the host found, except what the explanation is about.
func (o *Objects) notes(subject *object, explained *finding) []string {
	host, ok := o.get(KindHost)
	if !ok || subject.Kind == KindCluster || subject.isOwner {
		return nil
	}
	var notes []string
	for _, kind := range slices.Concat(hostChecks, hostNotes) {
		found := conditionFinding(&host, host.condition(kind))
		if found != nil && (explained == nil || found.row.Reason != explained.row.Reason) {
			notes = append(notes, clean(found.row.Reason+": "+cmp.Or(found.message, Plain(found.row.Means))))
		}
	}
	if q := o.Host.Spec.Quarantine; q != nil && o.Host.Spec.ConsumerRef != nil {
		notes = append(notes, clean(fmt.Sprintf("Quarantine %s, which counts when the machine has released the host: %s", q.Reason, q.Message)))
	}
	if b := o.Boot; b != nil && b.Spec.Attempt > 1 && inProgress(&b.Spec) {
		notes = append(notes, fmt.Sprintf("This is attempt %d of the boot: the one before it failed", b.Spec.Attempt))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Host.Annotations)) {
		if strings.HasPrefix(name, v1alpha1.PowerCyclePrefix) || strings.HasPrefix(name, v1alpha1.PowerOnPrefix) {
			notes = append(notes, clean(fmt.Sprintf("The provider has not done yet what the annotation %s requests: %s", name, o.Host.Annotations[name])))
		}
	}
	return append(notes, o.erasureNotes(explained)...)
}

// erasureNotes are the requests to erase the host that wait. The conditions of a host do not show them while it is in quarantine or in maintenance.
func (o *Objects) erasureNotes(explained *finding) []string {
	if explained != nil && (explained.row.Reason == v1alpha1.ReasonErasurePending || explained.row.Reason == v1alpha1.ReasonErasing) {
		return nil // the explanation is about it
	}
	var notes []string
	for i := range o.ErasureRequests {
		request := &o.ErasureRequests[i]
		at := object{Ref: Ref{Kind: KindErasureRequest, Name: request.Name}, conditions: request.Status.Conditions}
		found := conditionFinding(&at, at.condition(v1alpha1.ErasedCondition))
		if request.Spec.HostName != o.Host.Name || request.Spec.HostUID != string(o.Host.UID) || found == nil || found.row.Reason != v1alpha1.ReasonHostWaits {
			continue
		}
		notes = append(notes, clean(fmt.Sprintf("%s %s erases its disks (%s) when the host is ready, unless it expires before, at %s",
			KindErasureRequest, request.Name, request.Spec.Policy, request.Spec.ExpireTime.UTC().Format(time.RFC3339))))
	}
	return notes
}
