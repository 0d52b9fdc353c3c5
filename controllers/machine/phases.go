package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// A phase returns true when the rest has to wait.

// reconcileHeld finds the host that the machine has. The cache may be behind when it knows of none: reconcileClaim asks the API
// server then.
func (r *Reconciler) reconcileHeld(ctx context.Context, s *scope) (bool, error) {
	var held v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &held, client.InNamespace(s.machine.Namespace), client.MatchingFields{controllers.ConsumerIndex: s.machine.Name}); err != nil {
		return false, err
	}
	s.hold(held.Items)
	return false, nil
}

// hold takes the first by name of the hosts that name the machine as their consumer. There is one at most.
func (s *scope) hold(hosts []v1alpha1.BareMetalHost) {
	if len(hosts) == 0 {
		return
	}
	s.host = new(slices.MinFunc(hosts, func(a, b v1alpha1.BareMetalHost) int { return cmp.Compare(a.Name, b.Name) }))
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

// reconcilePrerequisites waits for what Cluster API makes first: the cluster's infrastructure, then the bootstrap data.
func (r *Reconciler) reconcilePrerequisites(_ context.Context, s *scope) (bool, error) {
	switch {
	case s.host != nil:
		return false, nil
	case s.machine.Spec.ProviderID != "":
		// Without its host the machine is not provisioned anew: it would be another machine.
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonHostLost,
			"The machine was provisioned, and no BareMetalHost names it in spec.consumerRef. Restore the host, or delete the Machine")
		return true, nil
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

// reconcileClaim claims a host.
func (r *Reconciler) reconcileClaim(ctx context.Context, s *scope) (bool, error) {
	if s.host != nil {
		return false, nil
	}
	held, err := claim.Held(ctx, r.APIReader, s.machine.Namespace, s.machine.Name)
	if err != nil {
		return true, err
	}
	if len(held) > 0 {
		s.hold(held)
		return false, nil
	}
	s.machine.Status.HostRef, s.machine.Status.FailureDomain = nil, ""
	host, why, err := r.pick(ctx, s)
	if err != nil {
		return true, err
	}
	if host == nil {
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonNoHostFits, why)
		s.booted(metav1.ConditionFalse, v1alpha1.ReasonWaitingForHost, "The machine has no host yet")
		return true, nil
	}
	if !r.assumed.Take(host, s.machine.Name) {
		return true, conflict(host)
	}
	if err := claim.Claim(ctx, r.Client, host, s.machine.Name); err != nil {
		r.assumed.Drop(host)
		return true, err
	}
	ctrl.LoggerFrom(ctx).Info("Claimed a host", "BareMetalHost", client.ObjectKeyFromObject(host))
	s.hold([]v1alpha1.BareMetalHost{*host})
	s.booted(metav1.ConditionFalse, v1alpha1.ReasonPreparing, "The host was just claimed")
	return true, nil // the host's own event goes on from here
}

// pick chooses among the free hosts. If none fits it looks at all, to say what excluded how many.
func (r *Reconciler) pick(ctx context.Context, s *scope) (host *v1alpha1.BareMetalHost, why string, err error) {
	want, err := wantOf(s)
	if err != nil {
		return nil, "", err
	}
	var tally claim.Tally
	here := client.InNamespace(s.machine.Namespace)
	for _, which := range [][]client.ListOption{{here, client.MatchingFields{controllers.FreeIndex: "true"}}, {here}} {
		var hosts v1alpha1.BareMetalHostList
		if err := r.Client.List(ctx, &hosts, which...); err != nil {
			return nil, "", err
		}
		host, tally = claim.Pick(hosts.Items, want, func(h *v1alpha1.BareMetalHost) bool { return r.assumed.Taken(h, s.machine.Name) })
		if host != nil {
			return host, "", nil
		}
	}
	return nil, tally.String(), nil
}

// conflict is the error of a claim that another reconcile was faster with.
func conflict(host *v1alpha1.BareMetalHost) error {
	return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("baremetalhosts").GroupResource(), host.Name, errors.New("claimed by another machine"))
}

func wantOf(s *scope) (claim.Want, error) {
	want := claim.Want{Selector: labels.Everything(), FailureDomain: s.owner.Spec.FailureDomain, Hardware: s.machine.Spec.Hardware}
	selector := s.machine.Spec.HostSelector
	if selector == nil {
		return want, nil
	}
	converted := &metav1.LabelSelector{MatchLabels: map[string]string{}}
	for key, value := range selector.MatchLabels {
		converted.MatchLabels[key] = string(value)
	}
	for _, e := range selector.MatchExpressions {
		requirement := metav1.LabelSelectorRequirement{Key: e.Key, Operator: e.Operator}
		for _, value := range e.Values {
			requirement.Values = append(requirement.Values, string(value))
		}
		converted.MatchExpressions = append(converted.MatchExpressions, requirement)
	}
	var err error
	want.Selector, err = metav1.LabelSelectorAsSelector(converted)
	return want, err
}

// reconcileBoot tells how far the host is, and takes the provider ID once it reported in.
func (r *Reconciler) reconcileBoot(_ context.Context, s *scope) (bool, error) {
	m, attempt := s.machine, s.host.Spec.Boot
	id := inventory.ProviderID(s.host.Namespace, s.host.Name, m.Name)
	if m.Spec.ProviderID == "" && attempt != nil && attempt.ReportedAt != nil {
		m.Spec.ProviderID = id
	}
	m.Status.FailureReason, m.Status.FailureMessage = "", ""
	switch {
	case attempt != nil && attempt.Failure != nil:
		m.Status.FailureReason, m.Status.FailureMessage = attempt.Failure.Reason, attempt.Failure.Message
		s.booted(metav1.ConditionFalse, attempt.Failure.Reason, attempt.Failure.Message)
	case m.Spec.ProviderID == id:
		s.booted(metav1.ConditionTrue, v1alpha1.ReasonBooted, "")
	default:
		if c := conditions.Get(s.host, v1alpha1.BootedCondition); c != nil {
			s.booted(metav1.ConditionFalse, c.Reason, c.Message)
		} else {
			s.booted(metav1.ConditionFalse, v1alpha1.ReasonPreparing, "")
		}
	}
	if m.Spec.ProviderID == "" {
		return false, nil
	}
	m.Status.Initialization.Provisioned, m.Status.Ready = new(true), true
	m.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineHostName, Address: m.Name}}
	if attempt != nil && attempt.SeedAddress != "" {
		m.Status.Addresses = append(m.Status.Addresses, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: attempt.SeedAddress})
	}
	return false, nil
}

// reconcileDelete waits until the host controller has released the host: what starts it is the machine's deletion. Whether a
// host is still held the API server says, not the cache.
func (r *Reconciler) reconcileDelete(ctx context.Context, s *scope) error {
	held, err := claim.Held(ctx, r.APIReader, s.machine.Namespace, s.machine.Name)
	if err != nil {
		return err
	}
	if len(held) == 0 {
		controllerutil.RemoveFinalizer(s.machine, v1alpha1.MachineFinalizer)
		return nil
	}
	s.hold(held)
	message := fmt.Sprintf("Waiting for BareMetalHost %q to be released", s.host.Name)
	if c := conditions.Get(s.host, v1alpha1.BootedCondition); c != nil && c.Status != metav1.ConditionTrue {
		message += ": " + strings.TrimSpace(c.Message)
	}
	conditions.Set(s.machine, metav1.Condition{
		Type: v1alpha1.DeletingCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonWaitingForRelease, Message: message,
	})
	s.booted(metav1.ConditionFalse, v1alpha1.ReasonReleasing, message)
	return nil
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
