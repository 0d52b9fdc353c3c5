package why

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// finding is why something is not as wanted.
type finding struct {
	at      Ref
	row     Row
	message string
	since   time.Time
	awaited string // replaces the meaning of the row; empty for none
	cause   string // replaces the cause of the row; empty for none
	command string // replaces the command of the row; empty for none
	noHost  *NoHost
}

// finder returns what is not as wanted in one part of the chain; nil if nothing is.
type finder func(*Objects) *finding

// chain are the finders for a machine and everything above it, in the order in which a machine needs its objects. The first finding counts.
var chain = []finder{
	(*Objects).paused, (*Objects).clusterFinding, (*Objects).deletionFinding, (*Objects).claimFinding, (*Objects).hostFinding, (*Objects).bootFinding,
	(*Objects).machineBootFinding, (*Objects).nodeFinding,
}

// find returns why the subject is not as wanted; nil if it is.
func (o *Objects) find(subject *object) *finding {
	var finders []finder
	switch subject.Kind {
	case KindHost, KindBoot:
		finders = []finder{(*Objects).hostPaused, (*Objects).hostFinding, (*Objects).bootFinding, checkFinding(hostChecks...)}
	case KindConfig, KindBareMetalCluster, KindRemediation, KindMachineTemplate, KindProfile:
		finders = []finder{readyOf(subject)}
	case KindSettings:
		finders = []finder{conditionOf(subject, v1alpha1.SettingsConformCondition)}
	case KindErasureRequest:
		finders = []finder{conditionOf(subject, v1alpha1.ErasedCondition)}
	case KindMachine, KindBareMetalMachine: // a part that fails can stop the machine, and what else the checks of the server find cannot
		finders = slices.Concat(chain, []finder{checkFinding(v1alpha1.HardwareHealthyCondition)})
	default: // the Cluster or an owner, of which this is one machine
		finders = slices.Concat(chain, []finder{availableOf(subject)})
	}
	for _, find := range finders {
		if found := find(o); found != nil {
			return found
		}
	}
	return nil
}

func readyOf(subject *object) finder { return conditionOf(subject, v1alpha1.ReadyCondition) }

// conditionOf returns a finder for one condition of the subject.
func conditionOf(subject *object, kind string) finder {
	return func(o *Objects) *finding {
		c := subject.condition(kind)
		if c == nil {
			return unreported(subject)
		}
		found := conditionFinding(subject, c)
		if found != nil && subject.Kind == KindMachineTemplate && c.Reason == v1alpha1.ReasonNoHostMatches {
			found.addHosts(o, &o.MachineTemplate.Spec.Template.Spec)
		}
		if found != nil && subject.Kind == KindRemediation {
			found.since = later(found.since, o.Remediation.Status.StartTime)
		}
		return found
	}
}

// conditionFinding returns what a condition says that is not as wanted; nil if nothing is. Some conditions are True and report a problem.
func conditionFinding(at *object, c *metav1.Condition) *finding {
	if c == nil {
		return nil
	}
	row, ok := Lookup(at.Kind, c.Reason)
	if ok && row.State == Done || !ok && c.Status == metav1.ConditionTrue {
		return nil
	}
	if !ok {
		row = unknownReason(c)
	}
	return &finding{at: at.Ref, row: row, message: c.Message, since: c.LastTransitionTime.Time}
}

// unknownReason explains a reason of Cluster API, or of another version of the provider.
func unknownReason(c *metav1.Condition) Row {
	state := Waits
	if c.Status == metav1.ConditionFalse {
		state = Fault
	}
	return Row{
		Reason: c.Reason, State: state, Means: fmt.Sprintf("The condition %s is %s", c.Type, c.Status), Next: describeObject, Cause: causeInMessage,
	}
}

// causeInMessage is the cause where the table has no cause.
const causeInMessage = "the message of the condition has the cause"

// unreported explains an object without conditions.
func unreported(at *object) *finding {
	return &finding{at: at.Ref, since: at.since(), row: Row{
		State: Waits, Means: "The provider has not reported on this object yet", Usual: time.Minute, Next: managerLog,
		Cause: "the manager does not run, or the object does not have its watch label",
	}}
}

// unreadFinding says that an object was not read that may have the cause.
func unreadFinding(at Ref, unread *Unread) *finding {
	return &finding{at: at, row: Row{
		State: Unknown, Means: fmt.Sprintf("%s: %s", unread.Kind, unread.Cause), Next: describeObject,
		Do: "Ask for the role that permits it, or ask a person who has it", Cause: "it is unknown, since not all objects could be read",
	}}
}

// hidden returns an object that was not read and that the state of the subject depends on; nil without one. An object that does not exist hides nothing: another one says so.
func (o *Objects) hidden(subject *object) *Unread {
	at := slices.IndexFunc(o.Unread, func(u Unread) bool { return u.Cause != NotFound })
	dependsOnMachine := subject.Kind == KindCluster || subject.Kind == KindMachine || subject.isOwner
	if at < 0 || !dependsOnMachine || o.BareMetalMachine != nil {
		return nil
	}
	return &o.Unread[at]
}

// paused returns the first object of the chain that is paused.
func (o *Objects) paused() *finding {
	if c := o.Cluster; c != nil && c.Spec.Paused != nil && *c.Spec.Paused {
		at, _ := o.get(KindCluster)
		return pausedFinding(&at, "spec.paused of the Cluster is true")
	}
	for _, one := range o.objects() {
		if found := annotatedPause(&one); found != nil {
			return found
		}
	}
	return nil
}

// hostPaused is paused for a host, whose condition also says that its machine or its Cluster is paused.
func (o *Objects) hostPaused() *finding {
	host, ok := o.get(KindHost)
	if !ok {
		return nil
	}
	if c := host.condition(clusterv1.PausedCondition); c != nil && c.Status == metav1.ConditionTrue {
		found := pausedFinding(&host, c.Message)
		found.since = c.LastTransitionTime.Time
		return found
	}
	return annotatedPause(&host)
}

func annotatedPause(at *object) *finding {
	if _, ok := at.meta.GetAnnotations()[clusterv1.PausedAnnotation]; !ok {
		return nil
	}
	return pausedFinding(at, "The object has the annotation "+clusterv1.PausedAnnotation)
}

func pausedFinding(at *object, message string) *finding {
	row, _ := Lookup(KindHost, v1alpha1.ReasonPaused)
	return &finding{at: at.Ref, row: row, message: message}
}

// clusterFinding returns why the infrastructure of the cluster is not ready, while the machine has no host. Later the endpoint is not what the machine waits for.
func (o *Objects) clusterFinding() *finding {
	at, ok := o.get(KindBareMetalCluster)
	if m := o.BareMetalMachine; !ok || m != nil && m.Status.HostRef != nil {
		return nil
	}
	return readyOf(&at)(o)
}

// availableOf returns a finder for the condition Available of the Cluster or an owner, as Cluster API sets it. It counts if no machine of the chain has the cause.
func availableOf(subject *object) finder {
	return func(*Objects) *finding {
		c := subject.condition(clusterv1.AvailableCondition)
		if c == nil || c.Status == metav1.ConditionTrue {
			return nil
		}
		return conditionFinding(subject, c)
	}
}

// deletionFinding returns what the deletion of the machine waits for.
func (o *Objects) deletionFinding() *finding {
	if at, ok := o.get(KindBareMetalMachine); ok && !at.meta.GetDeletionTimestamp().IsZero() {
		if host := o.hostFinding(); host != nil && host.row.Reason != v1alpha1.ReasonReleasing && host.row.Reason != v1alpha1.ReasonCleaning {
			return host
		}
		if found := conditionFinding(&at, at.condition(v1alpha1.DeletingCondition)); found != nil {
			return found
		}
		row, _ := Lookup(KindBareMetalMachine, v1alpha1.ReasonWaitingForRelease)
		return &finding{at: at.Ref, row: row, since: at.meta.GetDeletionTimestamp().Time}
	}
	at, ok := o.get(KindMachine)
	if !ok || at.meta.GetDeletionTimestamp().IsZero() {
		return nil
	}
	row, _ := Lookup(KindBareMetalMachine, v1alpha1.ReasonDeleting)
	found := &finding{at: at.Ref, row: row, since: at.meta.GetDeletionTimestamp().Time}
	if c := at.condition(clusterv1.MachineDeletingCondition); c != nil {
		found.message = c.Message // Cluster API drains the Node first
	}
	return found
}

// claimFinding returns why the machine has no host.
func (o *Objects) claimFinding() *finding {
	at, ok := o.get(KindBareMetalMachine)
	if !ok {
		return nil
	}
	c := at.condition(v1alpha1.HostClaimedCondition)
	if c == nil {
		return unreported(&at)
	}
	found := conditionFinding(&at, c)
	if found == nil {
		return nil
	}
	switch config, ok := o.get(KindConfig); {
	case c.Reason == v1alpha1.ReasonWaitingForBootstrapData && ok:
		if inner := readyOf(&config)(o); inner != nil {
			return inner
		}
	case c.Reason == v1alpha1.ReasonNoHostFits:
		found.addHosts(o, &o.BareMetalMachine.Spec)
	}
	return found
}

// machineBootFinding returns what the machine says of its host's boot. It counts if the host was not read.
func (o *Objects) machineBootFinding() *finding {
	at, ok := o.get(KindBareMetalMachine)
	if !ok || o.Host != nil {
		return nil
	}
	found := conditionFinding(&at, at.condition(v1alpha1.HostBootedCondition))
	if found != nil {
		o.addStage(found)
	}
	return found
}

// nodeFinding returns what is wrong with the Node of a machine that has booted.
func (o *Objects) nodeFinding() *finding {
	if at, ok := o.get(KindBareMetalMachine); ok {
		if found := conditionFinding(&at, at.condition(v1alpha1.NodeMatchedCondition)); found != nil {
			return found
		}
	}
	at, ok := o.get(KindMachine)
	if !ok {
		return nil
	}
	kind := clusterv1.MachineNodeHealthyCondition
	if o.BareMetalMachine == nil { // only Cluster API says how far the machine is
		kind = clusterv1.ReadyCondition
	}
	if c := at.condition(kind); c == nil || c.Status != metav1.ConditionTrue {
		return conditionFinding(&at, c)
	}
	return nil
}
