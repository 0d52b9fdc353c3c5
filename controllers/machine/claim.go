package machine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// reconcileClaim claims a host in two writes: first the machine records which version of which host it claims, then the host names the machine. So
// two processes that both lead for a moment claim the same host (docs/decisions/0004-claims-have-two-writes.md).
//
// Before the first write it lists the machine's hosts from the API server, since the cache may be behind. A machine that gets its finalizer with that write needs no such list.
// The list is slow: the API server's cache has to catch up with etcd.
func (r *Reconciler) reconcileClaim(ctx context.Context, s *scope) (bool, error) {
	if s.host != nil {
		return false, nil
	}
	if booted, err := r.bootedElsewhere(ctx, s); err != nil || booted {
		return true, err
	}
	host, err := r.chosenHost(ctx, s.machine)
	if err != nil {
		return true, err
	}
	isChosen := host != nil
	if !isChosen {
		var wait waitReason
		if host, wait, err = r.pick(ctx, s); err != nil {
			return true, err
		}
		if host == nil {
			s.setClaimed(metav1.ConditionFalse, wait.reason, wait.message)
			s.setBooted(metav1.ConditionFalse, v1alpha1.ReasonWaitingForHost, "The machine has no host yet")
			return true, nil
		}
	}
	claimed, err := r.claim(ctx, s, host, isChosen)
	if err != nil || len(claimed) > 0 {
		r.assumed.Drop(host, s.machine.Name)
		s.setHost(claimed)
		return err != nil, err
	}
	r.noHostBackoff.forget(client.ObjectKeyFromObject(s.machine))
	ctrl.LoggerFrom(ctx).Info("Claimed a host", "BareMetalHost", client.ObjectKeyFromObject(host))
	s.setHost([]v1alpha1.BareMetalHost{*host})
	s.setBooted(metav1.ConditionFalse, v1alpha1.ReasonPreparing, "The host was just claimed")
	return true, nil // the change of the host enqueues the machine again
}

// claim claims a host for a machine, after it recorded the choice if the machine has not recorded it. If the machine already has hosts, claim returns
// them and claims none.
func (r *Reconciler) claim(ctx context.Context, s *scope, host *v1alpha1.BareMetalHost, isChosen bool) (claimed []v1alpha1.BareMetalHost, err error) {
	_, choseBefore := claim.ChoiceOf(s.machine)
	isFirst := s.isNew && !choseBefore // the lock of the choice proves it
	if !isFirst {
		if claimed, err = claim.HostsOf(ctx, r.APIReader, s.machine.Namespace, s.machine.Name); err != nil || len(claimed) > 0 {
			return claimed, err
		}
	}
	if isChosen {
		err = r.writeFinalizer(ctx, s)
	} else {
		err = r.recordChoice(ctx, s, host)
	}
	if err == nil && isFirst {
		err = r.finalizerHolds(ctx, s.machine)
	}
	if err != nil {
		return nil, err
	}
	terms, err := r.terms(ctx, s.machine, host)
	if err != nil {
		return nil, err
	}
	err = claim.Claim(ctx, r.Client, host, terms)
	countClaim(err)
	if apierrors.IsConflict(err) {
		r.assumed.Lost(host)
	}
	return nil, err
}

// finalizerHolds returns an error if a machine is gone although its finalizer was just written. The API server looks for finalizers when a deletion begins, and deletes the object also
// if it gets one meanwhile (k8s.io/apiserver v0.36, Store.Delete). A host that such a machine claims would be orphaned.
func (r *Reconciler) finalizerHolds(ctx context.Context, m *v1alpha1.BareMetalMachine) error {
	live := &v1alpha1.BareMetalMachine{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(m), live); err != nil {
		return err
	}
	if live.UID != m.UID {
		return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("baremetalmachines").GroupResource(), m.Name)
	}
	return nil
}

// terms returns what the claim of a host records. The disks are those of the agent's report, which no cache has.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalinspections,verbs=get
func (r *Reconciler) terms(ctx context.Context, m *v1alpha1.BareMetalMachine, host *v1alpha1.BareMetalHost) (claim.Terms, error) {
	terms := claim.Terms{Machine: m.Name, CleaningPolicy: m.Spec.CleaningPolicy}
	if host.Spec.Inspection != v1alpha1.InspectionAgent && host.Spec.Inspection != v1alpha1.InspectionBoth {
		return terms, nil
	}
	report := &v1alpha1.BareMetalInspection{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(host), report); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return terms, fmt.Errorf("read the BareMetalInspection of host %s: %w", host.Name, err)
		}
		return terms, nil // with spec.inspection Both a host without a report may be available
	}
	terms.Disks = cleaning.Disks(&report.Spec)
	return terms, nil
}

// chosenHost returns the host that the machine recorded as its choice, read from the API server, if a claim of it can still succeed. A process that
// led before may be about to make that claim, so the machine can have no other host. Otherwise it returns nil. Only the API server shows that a claim can succeed; that none can, the
// cache shows too.
func (r *Reconciler) chosenHost(ctx context.Context, m *v1alpha1.BareMetalMachine) (*v1alpha1.BareMetalHost, error) {
	choice, ok := claim.ChoiceOf(m)
	if !ok {
		return nil, nil //nolint:nilnil // no host is a valid answer
	}
	key, cached, host := client.ObjectKey{Namespace: m.Namespace, Name: choice.Name}, &v1alpha1.BareMetalHost{}, &v1alpha1.BareMetalHost{}
	if r.Client.Get(ctx, key, cached) == nil && choice.Closed(cached) {
		return nil, nil //nolint:nilnil // no host is a valid answer
	}
	switch err := r.APIReader.Get(ctx, key, host); {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read the host that the machine chose: %w", err)
	case err == nil && choice.Open(host):
		return host, nil
	default:
		return nil, nil //nolint:nilnil // no host is a valid answer
	}
}

// recordChoice records the choice of a machine, with the finalizer of a new one.
func (r *Reconciler) recordChoice(ctx context.Context, s *scope, host *v1alpha1.BareMetalHost) error {
	choose := func(m *v1alpha1.BareMetalMachine) { claim.Choose(m, host) }
	if err := r.writeMetadata(ctx, s, choose); err != nil {
		return err
	}
	s.machine.Annotations = maps.Clone(s.before.Annotations)
	return nil
}

// bootedElsewhere is true for a machine without a host for which a server was booted: someone cleared spec.consumerRef of the host, or the host is
// gone from the inventory. The machine claims no other host, since that server may have its bootstrap data.
func (r *Reconciler) bootedElsewhere(ctx context.Context, s *scope) (bool, error) {
	var boots v1alpha1.BareMetalBootList
	err := r.Client.List(ctx, &boots, client.InNamespace(s.machine.Namespace), client.MatchingFields{controllers.MachineIndex: s.machine.Name})
	if err != nil || len(boots.Items) == 0 {
		return false, err
	}
	boot := slices.MinFunc(boots.Items, func(a, b v1alpha1.BareMetalBoot) int { // the cache lists in no stable order
		return cmp.Or(cmp.Compare(bootRank(a), bootRank(b)), cmp.Compare(a.Name, b.Name))
	})
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(&boot), &v1alpha1.BareMetalHost{})
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	served := lifecycle.DataGiven(&boot.Spec)
	restore := fmt.Sprintf("Set spec.consumerRef of the host to {name: %s, claimID: %s}", s.machine.Name, boot.Spec.ClaimID)
	switch booted := fmt.Sprintf("BareMetalHost %q was booted for the machine", boot.Name); {
	case err != nil && !served && !boot.DeletionTimestamp.IsZero():
		s.setClaimed(metav1.ConditionFalse, v1alpha1.ReasonBootUnknown, booted+" and is gone from the inventory. Waiting until its BareMetalBoot is deleted")
	case err != nil && !served: // an orphaning deletion, or a backup tool that removed the owner, leaves the boot
		s.setClaimed(metav1.ConditionFalse, v1alpha1.ReasonBootUnknown, booted+" and is gone from the inventory: no other host is claimed, since the server may be booting. Power the "+
			"server off, then delete the BareMetalBoot")
	case err != nil:
		s.setClaimed(metav1.ConditionFalse, v1alpha1.ReasonHostLost, booted+", which got its bootstrap data, and is gone from the inventory: no other host is claimed. Delete the "+
			"Machine to have it replaced")
		s.setFailed(v1alpha1.ReasonHostLost, conditions.GetMessage(s.machine, v1alpha1.HostClaimedCondition))
	case served:
		s.setClaimed(metav1.ConditionFalse, v1alpha1.ReasonBootUnknown, booted+", which got its bootstrap data, and spec.consumerRef of the host does not name the machine any more: "+
			"no other host is claimed. "+restore+", or delete the Machine to have it replaced")
	default:
		s.setClaimed(metav1.ConditionFalse, v1alpha1.ReasonBootUnknown, booted+", and spec.consumerRef of the host does not name the machine any more: no other host is claimed, since "+
			"the server may be booting. "+restore+"; or power the server off, then delete the BareMetalBoot")
	}
	s.setBooted(metav1.ConditionFalse, v1alpha1.ReasonWaitingForHost, "The machine has no host")
	return true, nil
}

// bootRank orders boots: a boot that served its bootstrap data comes first.
func bootRank(boot v1alpha1.BareMetalBoot) int {
	if lifecycle.DataGiven(&boot.Spec) {
		return 0
	}
	return 1
}

// waitReason is why a machine gets no host now.
type waitReason struct{ reason, message string }

// pick chooses a free host, or returns why no host fits. A returned host is assumed to belong to the machine until the assumption is dropped.
func (r *Reconciler) pick(ctx context.Context, s *scope) (*v1alpha1.BareMetalHost, waitReason, error) {
	want, err := claim.WantOf(&s.machine.Spec)
	if err != nil {
		return nil, waitReason{}, err
	}
	want.FailureDomain = s.owner.Spec.FailureDomain
	if r.WatchFilter != "" { // other managers choose among the same hosts
		want.Start = s.machine.Name
	}
	if s.machine.Spec.ReuseHost {
		want.Reuse = claim.Owner(s.owner, s.machine)
	}
	released, former, err := r.formerHosts(ctx, s, want)
	if err != nil {
		return nil, waitReason{}, err
	}
	candidates := func(yield func(*v1alpha1.BareMetalHost) bool) {
		for i := range released {
			if !yield(&released[i]) {
				return
			}
		}
		if former != "" {
			return
		}
		for host := range r.hosts.freeInNamespace(s.machine.Namespace) {
			if !claim.LastOwnedBy(host, want.Reuse) && !yield(host) {
				return
			}
		}
	}
	if host, _ := r.assumed.Pick(candidates, want, s.machine.Name); host != nil {
		return host.DeepCopy(), waitReason{}, nil
	}
	if former != "" {
		s.requeueAfter = formerHostCheckInterval // the wait may end by time alone, without an event
		return nil, waitReason{v1alpha1.ReasonWaitingForFormerHost, fmt.Sprintf(
			"Waiting for BareMetalHost %q, which a machine of %s is releasing: spec.reuseHost asks for a host of that owner", former, want.Reuse)}, nil
	}
	// No host fits. The diagnosis counts what excluded how many hosts. Events of hosts enqueue the machine when one becomes available. So the
	// periodic requeue only refreshes the diagnosis, and finds a host that another machine assumed and did not claim.
	due, requeueAfter := r.noHostBackoff.due(s.machine, want.FailureDomain, time.Now())
	s.requeueAfter = requeueAfter
	if !due {
		return nil, waitReason{v1alpha1.ReasonNoHostFits, conditions.GetMessage(s.machine, v1alpha1.HostClaimedCondition)}, nil
	}
	diagnosis := claim.Diagnose(slices.Values(r.hosts.inNamespace(s.machine.Namespace)), want)
	return nil, waitReason{v1alpha1.ReasonNoHostFits, diagnosis.String()}, nil
}

// How long a machine waits for a former host of its owner, and how often it checks whether the wait is over.
const (
	// formerHostTimeout is how long after its release a host is expected to become available, and how long its BMC may be not ready meanwhile.
	formerHostTimeout       = 5 * time.Minute
	formerHostCheckInterval = time.Minute
)

// formerHosts returns the free hosts that machines of the same owner had last, and the name of a host that such a machine is releasing, empty if
// there is none. The free hosts are objects of the cache. A host that the machine could not claim, such as one in maintenance or quarantine, is not
// waited for. Neither is a host whose BMC has been not ready for too long, since its return is unpredictable.
//
// A host must not be missed while its machine releases it. So both lists are read from the cache, the free hosts last. The event handlers that fill
// Reconciler.hosts may run later.
func (r *Reconciler) formerHosts(ctx context.Context, s *scope, want claim.Want) (released []v1alpha1.BareMetalHost, former string, err error) {
	if want.Reuse == "" {
		return nil, "", nil
	}
	var machines clusterv1.MachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(s.machine.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, "", err
	}
	var names []string
	now := time.Now()
	await := func(host *v1alpha1.BareMetalHost) {
		if claim.Eligible(host, want) == "" && !bmcNotReadyTooLong(host, now) {
			names = append(names, host.Name)
		}
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.DeletionTimestamp.IsZero() || claim.Owner(m) != want.Reuse {
			continue
		}
		var hosts v1alpha1.BareMetalHostList
		if err := r.Client.List(ctx, &hosts, client.InNamespace(m.Namespace), client.MatchingFields{controllers.ConsumerIndex: m.Spec.InfrastructureRef.Name}); err != nil {
			return nil, "", err
		}
		for j := range hosts.Items {
			await(&hosts.Items[j])
		}
	}
	var free v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &free, client.InNamespace(s.machine.Namespace), client.MatchingFields{controllers.LastOwnerIndex: want.Reuse},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, "", err
	}
	for i := range free.Items {
		if host := &free.Items[i]; justReleased(host, now) {
			await(host)
		}
	}
	if len(names) > 0 {
		former = slices.Min(names)
	}
	return free.Items, former, nil
}

// justReleased is true for a free host that is about to become available. Its status does not show its release yet, or its power is being changed,
// which the server need not obey.
func justReleased(host *v1alpha1.BareMetalHost, now time.Time) bool {
	if last := host.Spec.ProviderState.LastConsumer; last == nil || now.Sub(last.ReleaseTime.Time) >= formerHostTimeout {
		return false
	}
	switch conditions.GetReason(host, v1alpha1.AvailableCondition) {
	case v1alpha1.ReasonClaimed, v1alpha1.ReasonPowerChanging:
		return true
	default:
		return false
	}
}

// bmcNotReadyTooLong is true for a host whose BMC has been not ready for formerHostTimeout.
func bmcNotReadyTooLong(host *v1alpha1.BareMetalHost, now time.Time) bool {
	c := conditions.Get(host, v1alpha1.BMCReadyCondition)
	return c != nil && c.Status == metav1.ConditionFalse && now.Sub(c.LastTransitionTime.Time) >= formerHostTimeout
}
