package remediation

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// remediate takes the next step for a machine: it hands it over, power-cycles its server, or leaves both alone.
func (r *Reconciler) remediate(ctx context.Context, s *scope) error {
	if s.remediation.Spec.HandOver != nil {
		return r.finishHandOver(ctx, s)
	}
	if r.lacksNetworkPlugin(ctx, s) {
		return r.abandon(ctx, s)
	}
	if message, quarantine := s.handOverReason(); message != "" {
		return r.handOver(ctx, s, message, quarantine)
	}
	if s.isIdle() {
		return r.abandon(ctx, s)
	}
	switch cycle := s.remediation.Spec.PowerCycle; {
	case cycle == nil && s.host.Spec.ProviderState.PowerHoldStartTime != nil, cycle != nil && recordsIdle(cycle):
		return r.resume(ctx, s)
	case cycle == nil:
		return r.startFirstCycle(ctx, s)
	case cycle.RecoveredTime != nil:
		return r.recovered(ctx, s)
	case cycle.OffTime == nil:
		return r.powerOff(ctx, s)
	case s.hasPowerHold(s.host):
		return r.powerOn(ctx, s)
	case s.host.Spec.ProviderState.PowerHoldStartTime != nil:
		return r.awaitPower(ctx, s)
	default:
		return r.awaitNode(ctx, s)
	}
}

// handOverReason returns why a power cycle cannot help the machine, empty if it can. quarantine is the reason for a quarantine of the host, empty
// unless the server is to blame.
func (s *scope) handOverReason() (message, quarantine string) {
	if s.host == nil {
		return "", ""
	}
	switch boot := s.view.Host.CurrentBoot(); s.state {
	case lifecycle.StateBootFailed:
		if boot.Failure.Reason != v1alpha1.ReasonStateLost && !lifecycle.IsPermanent(boot.Failure.Reason) {
			quarantine = boot.Failure.Reason
		}
		return "Its server did not boot: " + boot.Failure.Message, quarantine
	case lifecycle.StateLost:
		if boot == nil || boot.Failure == nil {
			return "", "" // the host controller has not recorded the failure yet
		}
		return "Its state is lost: " + boot.Failure.Message, ""
	case lifecycle.StateProvisioned, lifecycle.StatePowerHold:
	default:
		return "", ""
	}
	switch {
	case s.otherHolder() != "":
		return "", "" // someone works on the server: wait until they finish
	case s.infra.Spec.Persistence() == v1alpha1.PersistenceEphemeral:
		return "It runs from memory, so a power cycle would destroy it", ""
	case s.view.Observed.Furthest.Stage == v1alpha1.StageBootstrapFailed && !s.machine.Status.NodeRef.IsDefined(): // a Node shows that the failure was fixed
		return "Its operating system reported that the bootstrap failed, and bootstrap data runs only once", ""
	case s.retries() == 0:
		return "spec.retries is 0, so its server is not power-cycled", ""
	default:
		return "", ""
	}
}

// isIdle is true if nothing is to be done to the server now, and sets the status that says why.
func (s *scope) isIdle() bool {
	setIdle := func(reason, message string, args ...any) bool {
		s.setStatus(v1alpha1.RemediationIdle, reason, message, args...)
		return true
	}
	switch {
	case s.infra == nil:
		return setIdle(v1alpha1.ReasonMachineNotFound, "Machine %q has no BareMetalMachine: nothing is done", s.machine.Name)
	case s.host == nil && len(s.hosts) > 0:
		return setIdle(v1alpha1.ReasonHostNotReady, "Several hosts name BareMetalMachine %q in spec.consumerRef, and which of them runs it is not known: nothing is done. "+
			"Remove spec.consumerRef from all but one", s.infra.Name)
	case s.host == nil && s.infra.Spec.ProviderID == "":
		return setIdle(v1alpha1.ReasonWaitingForHost, "The machine waits for a free host, and a replacement would wait for the same host: nothing is done. "+
			"%s", conditions.GetMessage(s.infra, v1alpha1.HostClaimedCondition))
	case s.host == nil:
		return setIdle(v1alpha1.ReasonHostLost, "No BareMetalHost names BareMetalMachine %q in spec.consumerRef: nothing is done", s.infra.Name)
	}
	switch s.state {
	case lifecycle.StateMaintenance:
		return setIdle(v1alpha1.ReasonMaintenance, "BareMetalHost %q is in maintenance (%s): nothing is done until that ends", s.host.Name, s.host.Spec.Maintenance.Reason)
	case lifecycle.StateClaimed, lifecycle.StateBooting, lifecycle.StateReportedIn:
		return setIdle(v1alpha1.ReasonHostNotReady, "BareMetalHost %q is booting for the machine. Waiting until the boot succeeds or its attempts end", s.host.Name)
	case lifecycle.StateProvisioned, lifecycle.StatePowerHold:
	default:
		return setIdle(v1alpha1.ReasonHostNotReady, "BareMetalHost %q is %s: nothing is done to it", s.host.Name, s.state)
	}
	if other := s.otherHolder(); other != "" {
		return setIdle(v1alpha1.ReasonHostNotReady, "BareMetalHost %q is kept powered off by %s: nothing is done until that ends", s.host.Name, other)
	}
	return false
}

// recordsIdle is true for a record that the host was left alone, without a power cycle.
func recordsIdle(cycle *v1alpha1.PowerCycle) bool { return cycle.Attempt == 0 && cycle.OffTime == nil }

// abandon ends a power cycle that must not continue, and does not count it. It records that the host is left alone even if no power cycle was in
// progress. Afterwards it is unknown whether the server runs, boots or is dead, and a booting server must not be powered off.
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
		spec.PowerCycle = &v1alpha1.PowerCycle{Host: host, StartTime: metav1.Now()}
	})
}

// resume gives a server that was left alone the time of a power cycle to recover without one. A server that was kept powered off is powered on in
// that time.
func (r *Reconciler) resume(ctx context.Context, s *scope) error {
	now := metav1.Now()
	err := r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) {
		spec.PowerCycle = &v1alpha1.PowerCycle{Host: s.host.Name, StartTime: now, OffTime: &now}
	})
	switch {
	case err != nil:
		return err
	case s.host.Spec.ProviderState.PowerHoldStartTime != nil:
		return r.awaitPower(ctx, s)
	default:
		return r.awaitNode(ctx, s)
	}
}

// awaitPower waits until a server that was kept powered off is on again.
func (r *Reconciler) awaitPower(ctx context.Context, s *scope) error {
	s.setStatus(v1alpha1.RemediationPoweringOn, v1alpha1.ReasonPoweringOn, "%s: the server is being powered on", cycleTitle(s.remediation.Spec.PowerCycle))
	return r.awaitDeadline(ctx, s, "the server did not power on"+s.bmcProblem())
}

// cycleTitle names the power cycle at the start of a sentence.
func cycleTitle(cycle *v1alpha1.PowerCycle) string {
	if cycle.Attempt == 0 {
		return "No power cycle yet, since the host was left alone before"
	}
	return fmt.Sprintf("Power cycle %d", cycle.Attempt)
}

// startFirstCycle starts the first power cycle, unless the machine may be healthy. A remediation may outlive its cause: a MachineHealthCheck deletes
// no remediation while too many machines are unhealthy. Its condition on the Machine may be as old.
func (r *Reconciler) startFirstCycle(ctx context.Context, s *scope) error {
	if conditions.IsFalse(s.machine, clusterv1.MachineHealthCheckSucceededCondition) {
		return r.startCycle(ctx, s, 1, "")
	}
	healthy, state, err := r.nodeHealth(ctx, s, time.Time{})
	switch {
	case healthy:
		state = "Its Node is Ready"
	case err == nil:
		return r.startCycle(ctx, s, 1, "")
	}
	s.setStatus(v1alpha1.RemediationIdle, v1alpha1.ReasonNodeHealthy, "No MachineHealthCheck finds the Machine unhealthy now: nothing is done. %s", state)
	s.requeueAfter = nodePollInterval
	return nil
}

// startCycle records a new power cycle and starts it. timedOut is the message of the cycle before, empty unless that timed out. The record may be refused because the
// cache is behind: an event before it would be repeated.
func (r *Reconciler) startCycle(ctx context.Context, s *scope, attempt int32, timedOut string) error {
	last := s.remediation.Spec.PowerCycle.DeepCopy()
	err := r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) {
		spec.PowerCycle = &v1alpha1.PowerCycle{Attempt: attempt, Host: s.host.Name, StartTime: metav1.Now()}
	})
	if err != nil {
		return err
	}
	if attempt > 1 {
		countCycle(last, metrics.CycleTimedOut)
	}
	if timedOut != "" {
		r.event(s, corev1.EventTypeWarning, "RemediationTimedOut", "PowerCycle", "%s", timedOut)
	}
	r.event(s, corev1.EventTypeNormal, "RemediationStarted", "PowerCycle", "Started power cycle %d of %d of BareMetalHost %s", attempt, s.retries(), s.host.Name)
	return r.powerOff(ctx, s)
}

// powerOff sets the power hold. It fences the Node once the power-off is confirmed.
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
	if s.host.Spec.ProviderState.PowerHoldOffTime == nil {
		return r.awaitDeadline(ctx, s, "its BMC did not confirm the power-off, so its Node has no out-of-service taint"+s.bmcProblem())
	}
	if done, err := r.fence(ctx, s); err != nil || !done {
		return err
	}
	err := r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) { spec.PowerCycle.OffTime = new(metav1.Now()) })
	if err != nil {
		return err
	}
	if s.notFenced != nil {
		r.event(s, corev1.EventTypeWarning, "NodeNotFenced", "Taint", "The server is off, but its Node cannot be read or given the out-of-service taint: %s. The power cycle continues without the taint", s.notFenced)
	}
	return r.powerOn(ctx, s)
}

// checkCurrent returns a conflict if the API server has a newer version of the remediation. The cache may show a host without its power hold before
// it shows that the remediation released that hold. Setting the hold again would power the server off twice.
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

// powerOn releases the power hold: the host controller then powers the server on.
func (r *Reconciler) powerOn(ctx context.Context, s *scope) error {
	s.setStatus(v1alpha1.RemediationPoweringOn, v1alpha1.ReasonPoweringOn, "%s: the server was off and is being powered on", cycleTitle(s.remediation.Spec.PowerCycle))
	return r.changeHost(ctx, s.host, s.removePowerHold)
}

// nodePollInterval is how often an awaited Node is checked. A change of its readiness also triggers a reconcile.
const nodePollInterval = 10 * time.Second

// awaitNode waits until the Node is healthy. The MachineHealthCheck deletes the remediation when it finds the Machine healthy. While it still finds
// the Machine unhealthy the deadline stays.
func (r *Reconciler) awaitNode(ctx context.Context, s *scope) error {
	cycle := s.remediation.Spec.PowerCycle
	off := cycle.OffTime.Time
	if cycle.Attempt == 0 {
		off = time.Time{} // the server may have run all the time, and a kubelet sends a heartbeat only every five minutes
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
		return r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) { spec.PowerCycle.RecoveredTime = new(metav1.Now()) })
	}
	return r.awaitDeadline(ctx, s, "the Node is Ready, but the MachineHealthCheck still finds the Machine unhealthy: "+
		conditions.GetMessage(s.machine, clusterv1.MachineHealthCheckSucceededCondition))
}

// bmcProblem describes what is wrong with the host's BMC, empty if nothing is.
func (s *scope) bmcProblem() string {
	if c := conditions.Get(s.host, v1alpha1.BMCReadyCondition); c != nil && c.Status != metav1.ConditionTrue {
		return fmt.Sprintf(" (BMC: %s: %s)", c.Reason, controllers.Clip(c.Message, controllers.MaxText))
	}
	return ""
}

// changeHost patches a host's spec with an optimistic lock: the change was decided for this version of the host.
func (r *Reconciler) changeHost(ctx context.Context, host *v1alpha1.BareMetalHost, change func(*v1alpha1.BareMetalHost)) error {
	changed := host.DeepCopy()
	change(changed)
	return r.Client.Patch(ctx, changed, client.MergeFromWithOptions(host, client.MergeFromWithOptimisticLock{}))
}

// removePowerHold removes the remediation's power hold from a host object.
func (s *scope) removePowerHold(h *v1alpha1.BareMetalHost) {
	h.Spec.PowerHolds = slices.DeleteFunc(h.Spec.PowerHolds, func(hold v1alpha1.PowerHold) bool { return hold.Holder == s.holder() })
	if len(h.Spec.PowerHolds) == 0 {
		h.Spec.PowerHolds = nil
	}
}

// releasePowerHold removes the power hold from the recorded host. It reads the host from the API server: the cache may not show the hold yet. Without
// a record it uses the host that has the hold.
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

// keepsPoweredOff is true if the Machine is being deleted while its server is off and its Node has the taint. Releasing the hold would power the
// server on although its volumes may be attached elsewhere. The release of the host, which follows, overrides the hold and removes it.
func (s *scope) keepsPoweredOff() bool {
	deleting := s.machine != nil && s.cluster != nil && !s.machine.DeletionTimestamp.IsZero()
	return deleting && s.host != nil && s.hasPowerHold(s.host) && s.remediation.Spec.TaintedNode != ""
}

// end undoes what the remediation did and removes its finalizer. The deletion of the Machine ends the remediation too, and deletes the Node.
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
