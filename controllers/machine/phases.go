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

// A phase returns true when the rest has to wait.

// reconcileHeld finds the host that the machine has. The cache may be behind when it knows of none: a machine that had one asks the API
// server, and so does whoever is about to claim one.
func (r *Reconciler) reconcileHeld(ctx context.Context, s *scope) (bool, error) {
	var held v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &held, client.InNamespace(s.machine.Namespace), client.MatchingFields{controllers.ConsumerIndex: s.machine.Name}); err != nil {
		return false, err
	}
	if len(held.Items) == 0 && (s.machine.Spec.ProviderID != "" || s.machine.Status.HostRef != nil) {
		var err error
		if held.Items, err = claim.HostsOf(ctx, r.APIReader, s.machine.Namespace, s.machine.Name); err != nil {
			return false, err
		}
	}
	s.addresses = s.machine.Status.Addresses
	s.machine.Status.HostRef, s.machine.Status.FailureDomain, s.machine.Status.Addresses = nil, "", nil
	s.hold(held.Items)
	return false, nil
}

// hold takes the first by name of the hosts that name the machine as their consumer. There is one at most.
func (s *scope) hold(hosts []v1alpha1.BareMetalHost) {
	if len(hosts) == 0 {
		return
	}
	s.host = firstOf(hosts)
	s.machine.Status.HostRef = &v1alpha1.HostReference{Name: s.host.Name}
	s.machine.Status.FailureDomain = s.host.Spec.FailureDomain
	s.claimed(metav1.ConditionTrue, v1alpha1.ReasonHostClaimed, "")
}

func (s *scope) claimed(status metav1.ConditionStatus, reason, message string) {
	conditions.Set(s.machine, metav1.Condition{Type: v1alpha1.HostClaimedCondition, Status: status, Reason: reason, Message: message})
}

func (s *scope) booted(status metav1.ConditionStatus, reason, message string) {
	conditions.Set(s.machine, metav1.Condition{Type: v1alpha1.HostBootedCondition, Status: status, Reason: reason, Message: message})
}

// failed records a failure that usually only a replacement fixes. Cluster API copies it to the Machine.
func (s *scope) failed(reason, message string) {
	s.machine.Status.FailureReason, s.machine.Status.FailureMessage = reason, message
}

// reconcilePrerequisites waits for what Cluster API makes first: the cluster's infrastructure, then the bootstrap data. A machine whose
// Machine or Cluster is being deleted gets no host: Cluster API deletes the machine only when hooks have run, and meanwhile it would boot and join.
func (r *Reconciler) reconcilePrerequisites(_ context.Context, s *scope) (bool, error) {
	switch {
	case s.host != nil:
		return false, nil
	case s.machine.Spec.ProviderID != "":
		// Without its host the machine is not provisioned anew: it would be another machine.
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonHostLost, "The machine was provisioned, and no BareMetalHost names it in spec.consumerRef. "+
			"Restore the host, or delete the Machine to have it replaced")
		s.failed(v1alpha1.ReasonHostLost, conditions.GetMessage(s.machine, v1alpha1.HostClaimedCondition))
		return true, nil
	case !s.owner.DeletionTimestamp.IsZero(), !s.cluster.DeletionTimestamp.IsZero():
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonDeleting, "The Machine or its Cluster is being deleted: no host is claimed")
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonWaitingForCluster, "Waiting for the cluster's infrastructure")
	case s.owner.Spec.Bootstrap.DataSecretName == nil:
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonWaitingForBootstrapData, "Waiting for the bootstrap provider to write the bootstrap data")
	default:
		return false, nil
	}
	s.booted(metav1.ConditionFalse, v1alpha1.ReasonWaitingForHost, "The machine has no host yet")
	return true, nil
}

// reconcileBoot tells how far the host is, and takes the provider ID once it reported in.
func (r *Reconciler) reconcileBoot(ctx context.Context, s *scope) (bool, error) {
	m := s.machine
	cached, err := controllers.GetBoot(ctx, r.Client, client.ObjectKeyFromObject(s.host))
	if err != nil {
		return false, err
	}
	attempt := controllers.CurrentBoot(s.host, cached)
	if attempt != nil { // what is known of the Node of a boot whose record is lost is the best there is
		setNode(s, controllers.NodeOf(cached))
	}
	id := inventory.ProviderID(s.host.Namespace, s.host.Name, m.Name)
	if m.Spec.ProviderID == "" && attempt != nil && attempt.ReportedAt != nil {
		// It is permanent, and the cache may be behind: it may show the host and the boot of a machine of the same name that is gone. The boot of that
		// claim is void, which was written before the machine could go.
		live, err := controllers.GetBoot(ctx, r.APIReader, client.ObjectKeyFromObject(s.host))
		if err != nil {
			return false, err
		}
		if now := controllers.CurrentBoot(s.host, live); now == nil || now.ReportedAt == nil {
			return true, nil // the cache will show it, and the machine is enqueued then
		}
		m.Spec.ProviderID = id
	}
	switch {
	case attempt != nil && attempt.Failure != nil:
		s.failed(attempt.Failure.Reason, attempt.Failure.Message)
		s.booted(metav1.ConditionFalse, attempt.Failure.Reason, attempt.Failure.Message)
	case m.Spec.ProviderID == id:
		// That the operating system is up stays true whatever became of it since; what is wrong with it is said beside.
		s.booted(metav1.ConditionTrue, v1alpha1.ReasonBooted, progressOf(s.host, v1alpha1.ReasonBootstrapFailed, v1alpha1.ReasonRestarted))
	default:
		if c := conditions.Get(s.host, v1alpha1.BootedCondition); c != nil {
			s.booted(metav1.ConditionFalse, c.Reason, cmp.Or(progressOf(s.host, c.Reason), c.Message))
		} else {
			s.booted(metav1.ConditionFalse, v1alpha1.ReasonPreparing, "")
		}
	}
	if m.Spec.ProviderID == "" {
		return false, nil
	}
	m.Status.Initialization.Provisioned = new(true)
	if attempt == nil {
		m.Status.Addresses = s.addresses // the record of the boot is lost, and what the machine had is the best there is
		return false, nil
	}
	m.Status.Addresses = addressesOf(m.Name, attempt, controllers.ObservedStage(cached, v1alpha1.StageNode))
	return false, nil
}

// progressOf returns what the host's condition BootProgress says if it does so for one of the reasons.
func progressOf(host *v1alpha1.BareMetalHost, reasons ...string) string {
	if c := conditions.Get(host, v1alpha1.BootProgressCondition); c != nil && c.Status != metav1.ConditionTrue && slices.Contains(reasons, c.Reason) {
		return c.Message
	}
	return ""
}

// reconcileDelete waits until the host controller has released the host: what starts it is the machine's deletion. That no host is held any more
// the API server says, not the cache; to wait for one that is released by now takes no more than until the cache shows it.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) error {
	for _, reader := range []client.Reader{r.Client, r.APIReader} {
		held, err := claim.HostsOf(ctx, reader, s.machine.Namespace, s.machine.Name)
		if err != nil {
			return err
		}
		if s.hold(held); s.host != nil {
			break
		}
	}
	if s.host == nil {
		if err := r.finishClaim(ctx, s); err != nil {
			return err
		}
	}
	if s.host == nil {
		controllerutil.RemoveFinalizer(s.machine, v1alpha1.MachineFinalizer)
		return nil
	}
	message := waitsForRelease(s.host)
	setDeleting(s.machine, message)
	s.booted(metav1.ConditionFalse, v1alpha1.ReasonReleasing, message)
	return nil
}

// finishClaim claims the host that a machine which is being deleted chose, if a claim of it can still succeed: a process that led before would otherwise
// claim it for a machine that is gone. The host is released then as any other.
func (r *Reconciler) finishClaim(ctx context.Context, s *scope) error {
	host, err := r.chosen(ctx, s.machine)
	if err != nil || host == nil {
		return err
	}
	if err := claim.Claim(ctx, r.Client, host, s.machine.Name); err != nil {
		return err
	}
	s.hold([]v1alpha1.BareMetalHost{*host})
	return nil
}

// firstOf returns the first by name of hosts.
func firstOf(hosts []v1alpha1.BareMetalHost) *v1alpha1.BareMetalHost {
	return new(slices.MinFunc(hosts, func(a, b v1alpha1.BareMetalHost) int { return cmp.Compare(a.Name, b.Name) }))
}

// waitsForRelease tells what a machine that is being deleted waits for. The host's Ready says what its release waits for, and what ends that.
func waitsForRelease(host *v1alpha1.BareMetalHost) string {
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

// tellDeleting says what the deletion of a machine waits for of which nothing else is done now.
func (r *Reconciler) tellDeleting(ctx context.Context, m *v1alpha1.BareMetalMachine, message string) error {
	before := m.DeepCopy()
	setDeleting(m, message)
	setReady(m)
	_, err := r.write(ctx, before, m)
	return err
}

// setNode writes what is known of the machine's Node.
func setNode(s *scope, node *v1alpha1.ObservedNode) {
	s.machine.Status.NodeName = ""
	if node != nil && node.Mismatch == nil {
		s.machine.Status.NodeName = node.Name
	}
	controllers.SetNodeMatched(s.machine, node, s.owner.Spec.Version)
}

// setPhase summarises where the machine is. What was done last to its host is shown beside.
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
	m.Status.LastOperation = host.Status.LastOperation
	switch phase := host.Status.Phase; phase {
	case "", v1alpha1.PhaseRegistering, v1alpha1.PhaseAvailable, v1alpha1.PhaseUnavailable: // its status does not show the claim yet
		m.Status.Phase = string(v1alpha1.PhaseClaimed)
	default:
		m.Status.Phase = string(phase)
	}
}

// setReady summarises, in the order in which things happen.
func setReady(m *v1alpha1.BareMetalMachine) {
	ready := metav1.Condition{Type: v1alpha1.ReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReadyCondition}
	for _, kind := range []string{v1alpha1.HostBootedCondition, v1alpha1.HostClaimedCondition} { // the earlier one speaks last
		switch c := conditions.Get(m, kind); {
		case c == nil:
			ready.Status, ready.Reason, ready.Message = metav1.ConditionUnknown, v1alpha1.ReasonWaitingForHost, ""
		case c.Status != metav1.ConditionTrue:
			ready.Status, ready.Reason, ready.Message = c.Status, c.Reason, c.Message
		}
	}
	if c := conditions.Get(m, v1alpha1.DeletingCondition); c != nil && c.Status == metav1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, c.Reason, c.Message
	}
	conditions.Set(m, ready)
}
