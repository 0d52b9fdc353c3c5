package remediation

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// remediate helps a machine: it hands it over, power-cycles its server, or leaves both alone.
func (r *Reconciler) remediate(ctx context.Context, s *scope) error {
	if s.remediation.Spec.HandOver != nil {
		return r.finishHandOver(ctx, s)
	}
	if message, quarantine := s.handOverReason(); message != "" {
		return r.handOver(ctx, s, message, quarantine)
	}
	if s.isIdle() {
		return r.abandon(ctx, s)
	}
	switch cycle := s.remediation.Spec.PowerCycle; {
	case cycle == nil && s.host.Spec.PowerHoldSince != nil, cycle != nil && recordsIdle(cycle):
		return r.resume(ctx, s)
	case cycle == nil:
		return r.startFirstCycle(ctx, s)
	case cycle.RecoveredAt != nil:
		return r.recovered(ctx, s)
	case cycle.OffAt == nil:
		return r.powerOff(ctx, s)
	case s.hasPowerHold(s.host):
		return r.powerOn(ctx, s)
	case s.host.Spec.PowerHoldSince != nil:
		return r.awaitPower(ctx, s)
	default:
		return r.awaitNode(ctx, s)
	}
}

// handOverReason returns why no power cycle can help the machine, and for which reason the host is to be quarantined, if its server is to blame.
func (s *scope) handOverReason() (message, quarantine string) {
	if s.host == nil {
		return "", ""
	}
	switch boot := s.view.CurrentBoot(); s.state {
	case lifecycle.StateBootFailed:
		if boot.Failure.Reason != v1alpha1.ReasonStateLost && !lifecycle.IsPermanent(boot.Failure.Reason) {
			quarantine = boot.Failure.Reason
		}
		return "Its server did not boot: " + boot.Failure.Message, quarantine
	case lifecycle.StateLost:
		if boot == nil || boot.Failure == nil {
			return "", "" // the host controller is about to record it
		}
		return "What it was is gone: " + boot.Failure.Message, ""
	case lifecycle.StateProvisioned, lifecycle.StatePowerHold:
	default:
		return "", ""
	}
	switch {
	case s.otherHolder() != "":
		return "", "" // who works on the server is to be let finish
	case s.infra.Spec.Boot.Persistence == v1alpha1.PersistenceEphemeral:
		return "It runs from memory, so a power cycle would end it", ""
	case s.view.Furthest.Stage == v1alpha1.StageBootstrapFailed && !s.machine.Status.NodeRef.IsDefined(): // with a Node it was mended
		return "Its operating system told that its bootstrap data could not be carried out, which is not done again", ""
	case s.retries() == 0:
		return "spec.retries is 0, so its server is not power-cycled", ""
	default:
		return "", ""
	}
}

// isIdle is true when nothing is to be done to the server, or not now, and tells why.
func (s *scope) isIdle() bool {
	idle := func(reason, message string, args ...any) bool {
		s.setStatus(v1alpha1.RemediationIdle, reason, message, args...)
		return true
	}
	switch {
	case s.infra == nil:
		return idle(v1alpha1.ReasonMachineNotFound, "Machine %q has no BareMetalMachine: nothing is done", s.machine.Name)
	case s.host == nil && len(s.hosts) > 0:
		return idle(v1alpha1.ReasonHostNotReady, "Several hosts name BareMetalMachine %q in spec.consumerRef, and none is known to run it: nothing is done. "+
			"Remove spec.consumerRef from all but one", s.infra.Name)
	case s.host == nil && s.infra.Spec.ProviderID == "":
		return idle(v1alpha1.ReasonWaitingForHost, "The machine waits for a free host, and another machine would wait for the same: nothing is done. "+
			"%s", conditions.GetMessage(s.infra, v1alpha1.HostClaimedCondition))
	case s.host == nil:
		return idle(v1alpha1.ReasonHostLost, "No BareMetalHost names BareMetalMachine %q in spec.consumerRef: nothing is done", s.infra.Name)
	}
	switch s.state {
	case lifecycle.StateMaintenance:
		return idle(v1alpha1.ReasonMaintenance, "BareMetalHost %q is in maintenance (%s): it is left alone until that ends", s.host.Name, s.host.Spec.Maintenance.Reason)
	case lifecycle.StateWaiting, lifecycle.StateBooting, lifecycle.StateReported:
		return idle(v1alpha1.ReasonHostNotReady, "BareMetalHost %q boots for the machine, which has a time-out and attempts of its own: they are waited for", s.host.Name)
	case lifecycle.StateProvisioned, lifecycle.StatePowerHold:
	default:
		return idle(v1alpha1.ReasonHostNotReady, "BareMetalHost %q is %s: nothing is done to it", s.host.Name, s.state)
	}
	if other := s.otherHolder(); other != "" {
		return idle(v1alpha1.ReasonHostNotReady, "BareMetalHost %q is held off by %s: it is left alone until that ends", s.host.Name, other)
	}
	return false
}

// recordsIdle is true of the record for a host that is left alone.
func recordsIdle(cycle *v1alpha1.PowerCycle) bool { return cycle.Attempt == 0 && cycle.OffAt == nil }

// abandon ends a power cycle that must not go on. It does not count. That the host is left alone is recorded, whether a power cycle was under way
// or not: afterwards nobody knows whether its server runs, boots or is dead, and it must not be cut while it boots.
func (r *Reconciler) abandon(ctx context.Context, s *scope) error {
	var host string
	cycle := s.remediation.Spec.PowerCycle
	switch {
	case s.host != nil:
		host = s.host.Name
	case cycle != nil:
		host = cycle.Host
	default:
		return nil
	}
	if cycle != nil && recordsIdle(cycle) && cycle.Host == host && (s.host == nil || !s.hasPowerHold(s.host)) {
		return nil
	}
	phase, reason, message := s.phase, s.reason, s.message
	if err := r.releasePowerHold(ctx, s); err != nil {
		return err
	}
	if done, err := r.removeTaint(ctx, s); err != nil || !done {
		return err
	}
	s.phase, s.reason, s.message = phase, reason, message
	return r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) {
		spec.PowerCycle = &v1alpha1.PowerCycle{Host: host, StartedAt: metav1.Now()}
	})
}

// resume gives a server that was left alone until now the time of a power cycle to come back by itself. Where it was held off it is powered on in
// that time.
func (r *Reconciler) resume(ctx context.Context, s *scope) error {
	now := metav1.Now()
	err := r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) {
		spec.PowerCycle = &v1alpha1.PowerCycle{Host: s.host.Name, StartedAt: now, OffAt: &now}
	})
	switch {
	case err != nil:
		return err
	case s.host.Spec.PowerHoldSince != nil:
		return r.awaitPower(ctx, s)
	default:
		return r.awaitNode(ctx, s)
	}
}

// awaitPower waits until a server that was held off is on again.
func (r *Reconciler) awaitPower(ctx context.Context, s *scope) error {
	s.setStatus(v1alpha1.RemediationPoweringOn, v1alpha1.ReasonPoweringOn, "%s: the server is being powered on", cycleTitle(s.remediation.Spec.PowerCycle))
	return r.awaitDeadline(ctx, s, "the server was not seen to come on"+s.bmcProblem())
}

// cycleTitle says which power cycle it is, for the beginning of a sentence.
func cycleTitle(cycle *v1alpha1.PowerCycle) string {
	if cycle.Attempt == 0 {
		return "No power cycle yet, since the host was left alone before"
	}
	return fmt.Sprintf("Power cycle %d", cycle.Attempt)
}

// startFirstCycle begins the first power cycle, unless the machine is not known to be ill: a remediation may outlive what it was made for, since a
// MachineHealthCheck deletes none while too many machines are unhealthy. What it says of the Machine may be as old.
func (r *Reconciler) startFirstCycle(ctx context.Context, s *scope) error {
	if conditions.IsFalse(s.machine, clusterv1.MachineHealthCheckSucceededCondition) {
		return r.startCycle(ctx, s, 1)
	}
	healthy, state, err := r.nodeHealth(ctx, s, time.Time{})
	switch {
	case healthy:
		state = "Its Node is Ready"
	case err == nil:
		return r.startCycle(ctx, s, 1)
	}
	s.setStatus(v1alpha1.RemediationIdle, v1alpha1.ReasonNodeHealthy, "No MachineHealthCheck finds the Machine unhealthy now: nothing is done. %s", state)
	s.requeueAfter = nodePollInterval
	return nil
}

// startCycle starts a power cycle.
func (r *Reconciler) startCycle(ctx context.Context, s *scope, attempt int32) error {
	last := s.remediation.Spec.PowerCycle.DeepCopy()
	err := r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) {
		spec.PowerCycle = &v1alpha1.PowerCycle{Attempt: attempt, Host: s.host.Name, StartedAt: metav1.Now()}
	})
	if err != nil {
		return err
	}
	if attempt > 1 {
		countCycle(last, metrics.CycleTimedOut)
	}
	r.event(s, corev1.EventTypeNormal, "RemediationStarted", "PowerCycle", "Power cycle %d of %d of BareMetalHost %s begins", attempt, s.retries(), s.host.Name)
	return r.powerOff(ctx, s)
}

// powerOff has the server switched off, and fences its Node when that is confirmed.
func (r *Reconciler) powerOff(ctx context.Context, s *scope) error {
	cycle := s.remediation.Spec.PowerCycle
	s.setStatus(v1alpha1.RemediationPoweringOff, v1alpha1.ReasonPoweringOff, "Power cycle %d: the server is being powered off%s", cycle.Attempt, s.bmcProblem())
	if !s.hasPowerHold(s.host) {
		if err := r.checkCurrent(ctx, s); err != nil {
			return err
		}
		return r.changeHost(ctx, s.host, func(h *v1alpha1.BareMetalHost) {
			h.Spec.PowerHolds = append(h.Spec.PowerHolds, v1alpha1.PowerHold{
				Holder: s.holder(), Reason: fmt.Sprintf("Machine %s is unhealthy: power cycle %d", s.machine.Name, cycle.Attempt), Force: true,
			})
		})
	}
	if s.host.Spec.PowerHoldOffAt == nil {
		return r.awaitDeadline(ctx, s, "its BMC did not confirm that it is off, so nothing shows that it is, and its Node has no out-of-service taint"+s.bmcProblem())
	}
	if done, err := r.fence(ctx, s); err != nil || !done {
		return err
	}
	err := r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) { spec.PowerCycle.OffAt = new(metav1.Now()) })
	if err != nil {
		return err
	}
	return r.powerOn(ctx, s)
}

// checkCurrent returns a conflict unless the remediation is as the API server has it. The cache may show a host without its hold before it shows that
// the remediation took it back: the hold would come again, and with it a second power-off.
func (r *Reconciler) checkCurrent(ctx context.Context, s *scope) error {
	live := &v1alpha1.BareMetalRemediation{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.remediation), live); err != nil {
		return err
	}
	if live.UID != s.remediation.UID || live.ResourceVersion != s.remediation.ResourceVersion {
		return conflictError("baremetalremediations", live)
	}
	return nil
}

// powerOn takes the hold back: the host controller switches the server on then.
func (r *Reconciler) powerOn(ctx context.Context, s *scope) error {
	s.setStatus(v1alpha1.RemediationPoweringOn, v1alpha1.ReasonPoweringOn, "%s: the server was off and is being powered on", cycleTitle(s.remediation.Spec.PowerCycle))
	return r.changeHost(ctx, s.host, s.removePowerHold)
}

// nodePollInterval is how often a Node is looked at that is awaited. A change of its readiness is seen at once.
const nodePollInterval = 10 * time.Second

// awaitNode waits until the Node is healthy. The remediation is over when it is gone: the MachineHealthCheck deletes it when it finds the
// Machine healthy, and as long as it says the contrary the time runs on.
func (r *Reconciler) awaitNode(ctx context.Context, s *scope) error {
	cycle := s.remediation.Spec.PowerCycle
	off := cycle.OffAt.Time
	if cycle.Attempt == 0 {
		off = time.Time{} // it may have run all the time, and a kubelet speaks every five minutes
	}
	healthy, state, _ := r.nodeHealth(ctx, s, off)
	if !healthy {
		s.setStatus(v1alpha1.RemediationWaiting, v1alpha1.ReasonWaitingForNode, "%s: the server is on. %s", cycleTitle(cycle), state)
		return r.awaitDeadline(ctx, s, state)
	}
	if done, err := r.removeTaint(ctx, s); err != nil || !done {
		return err
	}
	s.setRecovered()
	if !conditions.IsFalse(s.machine, clusterv1.MachineHealthCheckSucceededCondition) {
		return r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) { spec.PowerCycle.RecoveredAt = new(metav1.Now()) })
	}
	return r.awaitDeadline(ctx, s, "the Node is Ready, but the MachineHealthCheck still finds the Machine unhealthy: "+
		conditions.GetMessage(s.machine, clusterv1.MachineHealthCheckSucceededCondition))
}

// recovered leaves a machine alone whose Node came back, unless the MachineHealthCheck found it unhealthy since: it deletes no remediation while
// too many machines are unhealthy.
func (r *Reconciler) recovered(ctx context.Context, s *scope) error {
	c := conditions.Get(s.machine, clusterv1.MachineHealthCheckSucceededCondition)
	if c != nil && c.Status == metav1.ConditionFalse && c.LastTransitionTime.After(s.remediation.Spec.PowerCycle.RecoveredAt.Time) {
		return r.startCycle(ctx, s, 1)
	}
	s.setRecovered()
	return nil
}

func (s *scope) setRecovered() {
	how := "The Node is healthy again, without a power cycle"
	if cycle := s.remediation.Spec.PowerCycle; cycle.Attempt > 0 {
		how = fmt.Sprintf("Power cycle %d helped: the Node is healthy again", cycle.Attempt)
	}
	s.setStatus(v1alpha1.RemediationRecovered, v1alpha1.ReasonRecovered, "%s", how)
}

// awaitDeadline waits on, unless the power cycle has taken too long: then the next one begins, or the machine is handed over. what says what was
// missing.
func (r *Reconciler) awaitDeadline(ctx context.Context, s *scope, what string) error {
	if left := time.Until(s.deadline()); left > 0 {
		s.requeueAfter = min(nodePollInterval, left)
		return nil
	}
	cycle := s.remediation.Spec.PowerCycle
	if cycle.Attempt < s.retries() {
		r.event(s, corev1.EventTypeWarning, "RemediationTimedOut", "PowerCycle", "%s: not well within %s: %s", cycleTitle(cycle), s.timeout(), what)
		return r.startCycle(ctx, s, cycle.Attempt+1)
	}
	quarantine := v1alpha1.ReasonRemediationFailed
	if s.phase == v1alpha1.RemediationRecovered && annotations.HasRemediateMachine(s.machine) {
		quarantine = "" // a person wants the Machine replaced, and the server is well
	}
	return r.handOver(ctx, s, fmt.Sprintf("Its server was power-cycled %d times, with %s for each, which did not help: %s", cycle.Attempt, s.timeout(), what), quarantine)
}

// bmcProblem tells what is wrong with the host's BMC.
func (s *scope) bmcProblem() string {
	if c := conditions.Get(s.host, v1alpha1.BMCReadyCondition); c != nil && c.Status != metav1.ConditionTrue {
		return fmt.Sprintf(" (BMC: %s: %s)", c.Reason, controllers.Clip(c.Message, controllers.MaxText))
	}
	return ""
}

// changeHost writes to a host's spec with an optimistic lock. What was decided holds for this version of the host.
func (r *Reconciler) changeHost(ctx context.Context, host *v1alpha1.BareMetalHost, change func(*v1alpha1.BareMetalHost)) error {
	changed := host.DeepCopy()
	change(changed)
	return r.Client.Patch(ctx, changed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
}

// removePowerHold takes the remediation's hold out of a host.
func (s *scope) removePowerHold(h *v1alpha1.BareMetalHost) {
	h.Spec.PowerHolds = slices.DeleteFunc(h.Spec.PowerHolds, func(hold v1alpha1.PowerHold) bool { return hold.Holder == s.holder() })
	if len(h.Spec.PowerHolds) == 0 {
		h.Spec.PowerHolds = nil
	}
}

// releasePowerHold takes the hold out of the host that the record names, as the API server has it: the cache may not show the hold yet. Without a
// record it is the host that is seen to have the hold.
func (r *Reconciler) releasePowerHold(ctx context.Context, s *scope) error {
	var name string
	switch cycle := s.remediation.Spec.PowerCycle; {
	case cycle != nil:
		name = cycle.Host
	case s.host != nil && s.hasPowerHold(s.host):
		name = s.host.Name
	default:
		return nil
	}
	host := &v1alpha1.BareMetalHost{}
	if err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: s.remediation.Namespace, Name: name}, host); err != nil {
		return client.IgnoreNotFound(err)
	}
	if !s.hasPowerHold(host) {
		return nil
	}
	return r.changeHost(ctx, host, s.removePowerHold)
}

// keepsPoweredOff is true when the server of a Machine that is being deleted is off, with the taint on its Node, and has the host: it would be switched
// on with volumes that are attached elsewhere by now. The release of the host, which follows, wins over the hold and removes it.
func (s *scope) keepsPoweredOff() bool {
	deleting := s.machine != nil && s.cluster != nil && !s.machine.DeletionTimestamp.IsZero()
	return deleting && s.host != nil && s.hasPowerHold(s.host) && s.remediation.Spec.TaintedNode != ""
}

// end takes back what the remediation did, and lets it go. A Machine that is being deleted ends it too, and takes its Node along.
func (r *Reconciler) end(ctx context.Context, s *scope) error {
	if !s.keepsPoweredOff() {
		if err := r.releasePowerHold(ctx, s); err != nil {
			return err
		}
	}
	if s.machine == nil || s.cluster == nil || !s.machine.DeletionTimestamp.IsZero() || !s.cluster.DeletionTimestamp.IsZero() {
		if s.remediation.DeletionTimestamp.IsZero() && s.remediation.Spec.HandOver == nil {
			s.setStatus(v1alpha1.RemediationIdle, v1alpha1.ReasonMachineDeleting, "The Machine is being deleted, which ends the remediation")
		}
		return controllers.RemoveFinalizer(ctx, r.Client, s.remediation, v1alpha1.RemediationFinalizer)
	}
	if done, err := r.removeTaint(ctx, s); err != nil || !done {
		return err
	}
	s.phase = ""
	return controllers.RemoveFinalizer(ctx, r.Client, s.remediation, v1alpha1.RemediationFinalizer)
}
