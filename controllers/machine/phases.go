package machine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// Each phase returns true if the later phases have to wait.

// reconcileHost finds the host of the machine. The cache may be behind when it shows none. So the API server is asked for a machine that had a host
// before; reconcileClaim asks it before a claim.
func (r *Reconciler) reconcileHost(ctx context.Context, s *scope) (bool, error) {
	var hosts v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, client.InNamespace(s.machine.Namespace), client.MatchingFields{controllers.ConsumerIndex: s.machine.Name}); err != nil {
		return false, err
	}
	if len(hosts.Items) == 0 {
		var err error
		if hosts.Items, err = r.hostsBehindCache(ctx, s.machine); err != nil {
			return false, err
		}
	}
	s.addresses = s.machine.Status.Addresses
	s.machine.Status.HostRef, s.machine.Status.FailureDomain, s.machine.Status.Addresses = nil, "", nil
	s.setHost(hosts.Items)
	return false, nil
}

// hostsBehindCache asks the API server for the hosts of a machine that has or claimed one before and for which the cache shows none. It reads the host that the machine names, and lists the
// hosts only if that one is not the machine's: while the API server is busy its cache is behind too, and then it reads all hosts from etcd for a list.
func (r *Reconciler) hostsBehindCache(ctx context.Context, m *v1alpha1.BareMetalMachine) ([]v1alpha1.BareMetalHost, error) {
	if name := r.hostMaybeClaimed(ctx, m); name != "" {
		var host v1alpha1.BareMetalHost
		err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: name}, &host)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("read the host of the machine: %w", err)
		}
		if err == nil && host.Spec.ConsumerRef != nil && host.Spec.ConsumerRef.Name == m.Name {
			return []v1alpha1.BareMetalHost{host}, nil
		}
	}
	if m.Spec.ProviderID == "" && m.Status.HostRef == nil {
		return nil, nil
	}
	return claim.HostsOf(ctx, r.APIReader, m.Namespace, m.Name)
}

// hostMaybeClaimed returns the name of the host that a machine had or chose; empty if the cache shows that it does not have what it chose. A machine whose status was lost, as after a restore,
// had the host that its provider ID names.
func (r *Reconciler) hostMaybeClaimed(ctx context.Context, m *v1alpha1.BareMetalMachine) string {
	if m.Status.HostRef != nil {
		return m.Status.HostRef.Name
	}
	if namespace, name := inventory.HostOf(m.Spec.ProviderID); namespace == m.Namespace {
		return name
	}
	choice, ok := claim.ChoiceOf(m)
	cached := &v1alpha1.BareMetalHost{}
	if !ok || r.Client.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: choice.Name}, cached) == nil && choice.Closed(cached) &&
		(cached.Spec.ConsumerRef == nil || cached.Spec.ConsumerRef.Name != m.Name) {
		return ""
	}
	return choice.Name
}

// setHost sets the host of the machine to the first by name of the hosts whose consumer it is. Usually there is at most one.
func (s *scope) setHost(hosts []v1alpha1.BareMetalHost) {
	if len(hosts) == 0 {
		return
	}
	s.host = firstByName(hosts)
	s.machine.Status.HostRef = &v1alpha1.HostReference{Name: s.host.Name}
	s.machine.Status.FailureDomain = s.host.Spec.FailureDomain
	s.setClaimed(metav1.ConditionTrue, v1alpha1.ReasonHostClaimed, "")
}

func (s *scope) setClaimed(status metav1.ConditionStatus, reason, message string) {
	conditions.Set(s.machine, metav1.Condition{Type: v1alpha1.HostClaimedCondition, Status: status, Reason: reason, Message: message})
}

func (s *scope) setBooted(status metav1.ConditionStatus, reason, message string) {
	conditions.Set(s.machine, metav1.Condition{Type: v1alpha1.HostBootedCondition, Status: status, Reason: reason, Message: message})
}

// setFailed records a failure that usually only a replacement fixes. Cluster API copies it to the Machine.
func (s *scope) setFailed(reason, message string) {
	s.machine.Status.FailureReason, s.machine.Status.FailureMessage = reason, message
}

// reconcilePrerequisites waits for the cluster's infrastructure and for the bootstrap data. A machine whose Machine or Cluster is being deleted gets
// no host. Cluster API deletes the BareMetalMachine only after its hooks ran; until then the host would boot and join the cluster.
func (r *Reconciler) reconcilePrerequisites(_ context.Context, s *scope) (bool, error) {
	switch {
	case s.host != nil:
		return false, nil
	case s.machine.Spec.ProviderID != "":
		// A provisioned machine whose host is lost is not provisioned again: that would be a different machine.
		s.setClaimed(metav1.ConditionFalse, v1alpha1.ReasonHostLost, "The machine was provisioned, and no BareMetalHost names it in spec.consumerRef. "+
			"Restore the host, or delete the Machine to have it replaced")
		s.setFailed(v1alpha1.ReasonHostLost, conditions.GetMessage(s.machine, v1alpha1.HostClaimedCondition))
		return true, nil
	case !s.owner.DeletionTimestamp.IsZero(), !s.cluster.DeletionTimestamp.IsZero():
		s.setClaimed(metav1.ConditionFalse, v1alpha1.ReasonDeleting, "The Machine or its Cluster is being deleted: no host is claimed")
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		s.setClaimed(metav1.ConditionFalse, v1alpha1.ReasonWaitingForCluster, "Waiting for the cluster's infrastructure")
	case s.owner.Spec.Bootstrap.DataSecretName == nil:
		s.setClaimed(metav1.ConditionFalse, v1alpha1.ReasonWaitingForBootstrapData, "Waiting for the bootstrap provider to write the bootstrap data")
	default:
		return false, nil
	}
	s.setBooted(metav1.ConditionFalse, v1alpha1.ReasonWaitingForHost, "The machine has no host yet")
	return true, nil
}

// reconcileBoot reports how far the boot of the host is, and sets the provider ID once the host reported in.
func (r *Reconciler) reconcileBoot(ctx context.Context, s *scope) (bool, error) {
	m := s.machine
	cached, err := controllers.GetBoot(ctx, r.Client, client.ObjectKeyFromObject(s.host))
	if err != nil {
		return false, err
	}
	attempt := controllers.CurrentBoot(s.host, cached)
	if attempt != nil { // if the record of the boot is lost, the last known Node stays
		setNode(s, controllers.NodeOf(cached))
	}
	id := inventory.ProviderID(s.host.Namespace, s.host.Name, m.Name)
	if m.Spec.ProviderID == "" && attempt != nil && attempt.ReportedTime != nil {
		// The provider ID is permanent, and the cache may be behind. It may show the host and the boot of a deleted machine of the same name. The API
		// server shows that boot as void: it was voided before that machine could be deleted.
		live, err := controllers.GetBoot(ctx, r.APIReader, client.ObjectKeyFromObject(s.host))
		if err != nil {
			return false, err
		}
		if now := controllers.CurrentBoot(s.host, live); now == nil || now.ReportedTime == nil {
			return true, nil // the machine is enqueued when the cache shows the change
		}
		m.Spec.ProviderID = id
	}
	switch {
	case attempt != nil && attempt.Failure != nil:
		s.setFailed(attempt.Failure.Reason, attempt.Failure.Message)
		s.setBooted(metav1.ConditionFalse, attempt.Failure.Reason, attempt.Failure.Message)
	case m.Spec.ProviderID == id:
		s.setRunning()
	default:
		if c := conditions.Get(s.host, v1alpha1.BootedCondition); c != nil {
			s.setBooted(metav1.ConditionFalse, c.Reason, cmp.Or(progressOf(s.host, c.Reason), c.Message))
		} else {
			s.setBooted(metav1.ConditionFalse, v1alpha1.ReasonPreparing, "")
		}
	}
	if m.Spec.ProviderID == "" {
		return false, nil
	}
	m.Status.Initialization.Provisioned = new(true)
	if attempt == nil {
		m.Status.Addresses = s.addresses // the record of the boot is lost: keep the last known addresses
		return false, nil
	}
	m.Status.Addresses = addressesOf(m.Name, attempt, controllers.ObservedStage(cached, v1alpha1.StageNode))
	return false, nil
}

// setRunning sets HostBooted of a provisioned machine. It stays True once the operating system was up, except while its server is off. The message reports what is wrong with
// the machine since then.
func (s *scope) setRunning() {
	switch c := conditions.Get(s.host, v1alpha1.BootedCondition); {
	case c != nil && c.Status == metav1.ConditionFalse && slices.Contains(offReasons, c.Reason), c != nil && slices.Contains(powerWarnings, c.Reason):
		s.setBooted(c.Status, c.Reason, c.Message)
	default:
		s.setBooted(metav1.ConditionTrue, v1alpha1.ReasonBooted, progressOf(s.host, v1alpha1.ReasonBootstrapFailed, v1alpha1.ReasonRestarted))
	}
}

// offReasons are the reasons of the host's condition Booted for a provisioned machine whose server is off, or is about to be.
var offReasons = []string{v1alpha1.ReasonPoweredOff, v1alpha1.ReasonPowerHold}

// powerWarnings are its reasons for one whose server is reported as off and counts as running.
var powerWarnings = []string{v1alpha1.ReasonPowerDisputed, v1alpha1.ReasonPowerUnconfirmed}

// progressOf returns the message of the host's condition BootProgress if it is not True for one of the reasons.
func progressOf(host *v1alpha1.BareMetalHost, reasons ...string) string {
	if c := conditions.Get(host, v1alpha1.BootProgressCondition); c != nil && c.Status != metav1.ConditionTrue && slices.Contains(reasons, c.Reason) {
		return c.Message
	}
	return ""
}

// reconcileDelete waits until the host controller has released the host; the deletion of the machine starts the release. While the cache still shows a host, waiting costs nothing.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) error {
	hosts, err := claim.HostsOf(ctx, r.Client, s.machine.Namespace, s.machine.Name)
	if err != nil {
		return err
	}
	if s.setHost(hosts); s.host == nil {
		if err := r.finishClaim(ctx, s); err != nil {
			return err
		}
	}
	if s.host == nil {
		controllerutil.RemoveFinalizer(s.machine, v1alpha1.MachineFinalizer)
		return nil
	}
	message := releaseMessage(s.host)
	setDeleting(s.machine, message)
	s.setBooted(metav1.ConditionFalse, v1alpha1.ReasonReleasing, message)
	return nil
}

// finishClaim claims the host that a machine under deletion recorded as its choice, if a claim can still succeed. Otherwise a process that led before
// could claim the host for a machine that no longer exists. The host is then released as usual. Only a list from the API server proves that the machine has no host. It comes after
// the look at the choice, so it shows a claim that closed the choice.
func (r *Reconciler) finishClaim(ctx context.Context, s *scope) error {
	host, err := r.chosenHost(ctx, s.machine)
	if err != nil {
		return err
	}
	hosts, err := claim.HostsOf(ctx, r.APIReader, s.machine.Namespace, s.machine.Name)
	if err != nil || len(hosts) > 0 || host == nil {
		s.setHost(hosts)
		return err
	}
	terms, err := r.terms(ctx, s.machine, host)
	if err != nil {
		return err
	}
	if err := claim.Claim(ctx, r.Client, host, terms); err != nil {
		return err
	}
	s.setHost([]v1alpha1.BareMetalHost{*host})
	return nil
}

// firstByName returns the first host by name.
func firstByName(hosts []v1alpha1.BareMetalHost) *v1alpha1.BareMetalHost {
	return new(slices.MinFunc(hosts, func(a, b v1alpha1.BareMetalHost) int { return cmp.Compare(a.Name, b.Name) }))
}

// releaseMessage describes what a machine under deletion waits for. The host's condition Ready says what its release waits for, and what ends that
// wait.
func releaseMessage(host *v1alpha1.BareMetalHost) string {
	message := fmt.Sprintf("Waiting for BareMetalHost %q to be released", host.Name)
	if c := conditions.Get(host, v1alpha1.ReadyCondition); c != nil && c.Status != metav1.ConditionTrue && c.Message != "" {
		message += ": " + strings.TrimSpace(c.Message)
	}
	return controllers.Clip(message, controllers.MaxMessage)
}

func setDeleting(m *v1alpha1.BareMetalMachine, message string) {
	conditions.Set(m, metav1.Condition{
		Type: v1alpha1.DeletingCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWaitingForRelease, Message: message,
	})
}

// writeDeleting writes what the deletion of a machine waits for, in a reconcile that does nothing else.
func (r *Reconciler) writeDeleting(ctx context.Context, m *v1alpha1.BareMetalMachine, message string) error {
	before := m.DeepCopy()
	setDeleting(m, message)
	setReady(m, nil)
	_, err := r.write(ctx, before, m)
	return err
}

// setNode sets what is known about the machine's Node.
func setNode(s *scope, node *v1alpha1.ObservedNode) {
	s.machine.Status.NodeName = ""
	if node != nil && node.Mismatch == nil {
		s.machine.Status.NodeName = node.Name
	}
	controllers.SetNodeMatched(s.machine, node, s.owner.Spec.Version)
}

// setPhase sets the phase of the machine, and copies the last operation of its host if that failed: others succeed with each boot, and the host shows them. A server that
// has booted is Provisioned at once: its host writes that later, and a second status of the machine would say nothing else.
func setPhase(m *v1alpha1.BareMetalMachine, host *v1alpha1.BareMetalHost) {
	m.Status.LastOperation = nil
	switch {
	case host == nil && m.Status.FailureReason == v1alpha1.ReasonHostLost:
		m.Status.Phase = v1alpha1.MachineHostLost
		return
	case host == nil:
		m.Status.Phase = v1alpha1.MachinePending
		return
	}
	if controllers.WithoutProgress(host.Status.LastOperation) != nil {
		m.Status.LastOperation = host.Status.LastOperation
	}
	switch phase := host.Status.Phase; {
	case slices.Contains([]v1alpha1.HostPhase{"", v1alpha1.PhaseRegistering, v1alpha1.PhaseAvailable, v1alpha1.PhaseUnavailable}, phase): // the host's status does not show the claim yet
		m.Status.Phase = string(v1alpha1.PhaseClaimed)
	case phase == v1alpha1.PhaseBooting && conditions.IsTrue(m, v1alpha1.HostBootedCondition):
		m.Status.Phase = string(v1alpha1.PhaseProvisioned)
	default:
		m.Status.Phase = string(phase)
	}
}

// setReady derives the condition Ready from the other conditions. The first step that is not done determines it. Maintenance of the host comes last: its server may run, and
// must not be relied on.
func setReady(m *v1alpha1.BareMetalMachine, host *v1alpha1.BareMetalHost) {
	ready := metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReadyCondition}
	for _, kind := range []string{v1alpha1.HostBootedCondition, v1alpha1.HostClaimedCondition} { // in reverse order: the earlier step overwrites the later one
		switch c := conditions.Get(m, kind); {
		case c == nil:
			ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, v1alpha1.ReasonWaitingForHost, ""
		case c.Status != metav1.ConditionTrue:
			ready.Status, ready.Reason, ready.Message = c.Status, c.Reason, c.Message
		}
	}
	if ready.Status == metav1.ConditionTrue && host != nil && host.Spec.Maintenance != nil {
		ready.Status, ready.Reason = metav1.ConditionFalse, v1alpha1.ReasonMaintenance
		ready.Message = controllers.Clip(fmt.Sprintf("BareMetalHost %q is in maintenance: %s", host.Name, host.Spec.Maintenance.Reason), controllers.MaxMessage)
	}
	if c := conditions.Get(m, v1alpha1.DeletingCondition); c != nil && c.Status == metav1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, c.Reason, c.Message
	}
	conditions.Set(m, ready)
}
