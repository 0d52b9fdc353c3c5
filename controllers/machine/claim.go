package machine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// reconcileClaim claims a host in two writes: the machine records which version of which host it claims, and then the host names the machine. So two
// processes that lead for a moment claim the same host (docs/decisions/0004-claims-have-two-writes.md).
//
// Before the first write it asks the API server whether the machine has a host: the cache may be behind. It need not ask for a machine that just got its
// finalizer, and that list takes a while: the API server's cache has to catch up with etcd.
func (r *Reconciler) reconcileClaim(ctx context.Context, s *scope) (bool, error) {
	if s.host != nil {
		return false, nil
	}
	if booted, err := r.bootedElsewhere(ctx, s); err != nil || booted {
		return true, err
	}
	host, err := r.chosen(ctx, s.machine)
	if err != nil {
		return true, err
	}
	isChosen := host != nil
	if !isChosen {
		var why waiting
		if host, why, err = r.pick(ctx, s); err != nil {
			return true, err
		}
		if host == nil {
			s.claimed(metav1.ConditionFalse, why.reason, why.message)
			s.booted(metav1.ConditionFalse, v1alpha1.ReasonWaitingForHost, "The machine has no host yet")
			return true, nil
		}
	}
	held, err := r.claim(ctx, s, host, isChosen)
	if err != nil || len(held) > 0 {
		r.assumed.Drop(host, s.machine.Name)
		s.hold(held)
		return err != nil, err
	}
	r.tellings.forget(client.ObjectKeyFromObject(s.machine))
	ctrl.LoggerFrom(ctx).Info("Claimed a host", "BareMetalHost", client.ObjectKeyFromObject(host))
	r.tellClaimed(s.machine, host)
	s.hold([]v1alpha1.BareMetalHost{*host})
	s.booted(metav1.ConditionFalse, v1alpha1.ReasonPreparing, "The host was just claimed")
	return true, nil // the host's own event goes on from here
}

// claim claims a host for a machine, after it recorded the choice if the machine does not have it yet. It returns the hosts that the machine has already,
// and claims none then.
func (r *Reconciler) claim(ctx context.Context, s *scope, host *v1alpha1.BareMetalHost, isChosen bool) (held []v1alpha1.BareMetalHost, err error) {
	if !s.isNew {
		if held, err = claim.HostsOf(ctx, r.APIReader, s.machine.Namespace, s.machine.Name); err != nil || len(held) > 0 {
			return held, err
		}
	}
	if !isChosen {
		if err := r.choose(ctx, s, host); err != nil {
			return nil, err
		}
	}
	err = claim.Claim(ctx, r.Client, host, s.machine.Name)
	countNotClaimed(err)
	return nil, err
}

// chosen returns the host that the machine recorded as its choice, as the API server has it, if a claim of it can still succeed: a process that led before
// may be about to make that claim, so the machine can have no other host. It returns nil otherwise.
func (r *Reconciler) chosen(ctx context.Context, m *v1alpha1.BareMetalMachine) (*v1alpha1.BareMetalHost, error) {
	choice, ok := claim.ChoiceOf(m)
	if !ok {
		return nil, nil //nolint:nilnil // none is a valid answer
	}
	host := &v1alpha1.BareMetalHost{}
	switch err := r.APIReader.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: choice.Name}, host); {
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read the host that the machine chose: %w", err)
	case err == nil && choice.Open(host):
		return host, nil
	default:
		return nil, nil //nolint:nilnil // none is a valid answer
	}
}

// choose records the choice of a machine. What this reconcile made of the machine otherwise is written at its end.
func (r *Reconciler) choose(ctx context.Context, s *scope, host *v1alpha1.BareMetalHost) error {
	written := s.before.DeepCopy()
	if err := r.wrote(written, claim.Choose(ctx, r.Client, written, host)); err != nil {
		return err
	}
	s.before = written
	s.machine.Annotations, s.machine.ResourceVersion = maps.Clone(written.Annotations), written.ResourceVersion
	return nil
}

// bootedElsewhere is true for a machine that has no host and for which a server was booted: somebody cleared the host's spec.consumerRef, or the host is gone
// from the inventory. It claims no other host, since that server may have its bootstrap data.
func (r *Reconciler) bootedElsewhere(ctx context.Context, s *scope) (bool, error) {
	var boots v1alpha1.BareMetalBootList
	err := r.Client.List(ctx, &boots, client.InNamespace(s.machine.Namespace), client.MatchingFields{controllers.MachineIndex: s.machine.Name})
	if err != nil || len(boots.Items) == 0 {
		return false, err
	}
	boot := slices.MinFunc(boots.Items, func(a, b v1alpha1.BareMetalBoot) int { // the cache lists in an order that changes
		return cmp.Or(cmp.Compare(rankOf(a), rankOf(b)), cmp.Compare(a.Name, b.Name))
	})
	err = r.Client.Get(ctx, client.ObjectKeyFromObject(&boot), &v1alpha1.BareMetalHost{})
	if client.IgnoreNotFound(err) != nil {
		return false, err
	}
	served := boot.Spec.DataServedAt != nil
	restore := fmt.Sprintf("Set spec.consumerRef of the host to {name: %s, claimID: %s}", s.machine.Name, boot.Spec.ClaimID)
	switch booted := fmt.Sprintf("BareMetalHost %q was booted for the machine", boot.Name); {
	case err != nil && !served && !boot.DeletionTimestamp.IsZero():
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonBootUnknown, booted+" and is gone from the inventory. Waiting until its BareMetalBoot is deleted")
	case err != nil && !served: // nobody deletes the boot where the garbage collector was told not to, or a backup tool removed its owner
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonBootUnknown, booted+" and is gone from the inventory: no other host is claimed, since the server may be booting. Power the "+
			"server off, then delete the BareMetalBoot")
	case err != nil:
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonHostLost, booted+", which got its bootstrap data, and is gone from the inventory: no other host is claimed. Delete the "+
			"Machine to have it replaced")
		s.failed(v1alpha1.ReasonHostLost, conditions.GetMessage(s.machine, v1alpha1.HostClaimedCondition))
	case served:
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonBootUnknown, booted+", which got its bootstrap data, and spec.consumerRef of the host does not name the machine any more: "+
			"no other host is claimed. "+restore+", or delete the Machine to have it replaced")
	default:
		s.claimed(metav1.ConditionFalse, v1alpha1.ReasonBootUnknown, booted+", and spec.consumerRef of the host does not name the machine any more: no other host is claimed, since "+
			"the server may be booting. "+restore+"; or power the server off, then delete the BareMetalBoot")
	}
	s.booted(metav1.ConditionFalse, v1alpha1.ReasonWaitingForHost, "The machine has no host")
	return true, nil
}

// rankOf orders boots: those in which the bootstrap data was served say more.
func rankOf(boot v1alpha1.BareMetalBoot) int {
	if boot.Spec.DataServedAt != nil {
		return 0
	}
	return 1
}

// waiting is why a machine gets no host now.
type waiting struct{ reason, message string }

// pick chooses among the free hosts, and returns why there is none. The host that it returns is assumed to be the machine's until it is
// dropped.
func (r *Reconciler) pick(ctx context.Context, s *scope) (*v1alpha1.BareMetalHost, waiting, error) {
	want, err := claim.WantOf(&s.machine.Spec)
	if err != nil {
		return nil, waiting{}, err
	}
	want.FailureDomain = s.owner.Spec.FailureDomain
	if s.machine.Spec.ReuseHost {
		want.Reuse = claim.Owner(s.owner, s.machine)
	}
	had, former, err := r.comingBack(ctx, s, want)
	if err != nil {
		return nil, waiting{}, err
	}
	candidates := func(yield func(*v1alpha1.BareMetalHost) bool) {
		for i := range had {
			if !yield(&had[i]) {
				return
			}
		}
		if former != "" {
			return
		}
		for host := range r.free.in(s.machine.Namespace) {
			if !claim.LastOwnedBy(host, want.Reuse) && !yield(host) {
				return
			}
		}
	}
	if host, _ := r.assumed.Pick(candidates, want, s.machine.Name); host != nil {
		return host.DeepCopy(), waiting{}, nil
	}
	if former != "" {
		s.again = lookAgain // what ends the wait may be the time alone
		return nil, waiting{v1alpha1.ReasonWaitingForFormerHost, fmt.Sprintf(
			"Waiting for BareMetalHost %q, which a machine of %s gives back, as reuseHost wants it", former, want.Reuse)}, nil
	}
	// None fits: look at all, to say what excluded how many. The cache tells of hosts that fit by their events, so to look again is for what it
	// tells, and for a host that another machine was about to claim and did not.
	due, again := r.tellings.due(s.machine, want.FailureDomain, time.Now())
	s.again = again
	if !due {
		return nil, waiting{v1alpha1.ReasonNoHostFits, conditions.GetMessage(s.machine, v1alpha1.HostClaimedCondition)}, nil
	}
	tally, err := r.exclusions(ctx, s.machine.Namespace, want)
	return nil, waiting{v1alpha1.ReasonNoHostFits, tally}, err
}

// exclusions tells what keeps how many hosts from a machine. One machine after the other looks at them: each list of 10,000 takes 7 MB.
func (r *Reconciler) exclusions(ctx context.Context, namespace string, want claim.Want) (string, error) {
	r.telling.Lock()
	defer r.telling.Unlock()
	var all v1alpha1.BareMetalHostList // the cache's own objects, to which nothing is written
	if err := r.Client.List(ctx, &all, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return "", err
	}
	_, tally := claim.Pick(claim.Each(all.Items), want, func(*v1alpha1.BareMetalHost) bool { return true })
	return tally.String(), nil
}

// How long a machine waits for its owner's host, and how often it looks at the time.
const (
	// backWithin is how long after its release a host is expected to be offered, and how long its BMC may be silent in the midst of it.
	backWithin = 5 * time.Minute
	lookAgain  = time.Minute
)

// comingBack returns the free hosts that the owner had whose hosts the machine wants again, the cache's own objects; and the name of a host that is being
// given back by a machine of that owner, empty if there is none. A host that it could not claim then, such as one in maintenance or in quarantine, is none to
// wait for; nor is one whose BMC has been silent for long, since nobody knows when it is back.
//
// A host must not be missed while it goes from one to the other. So both are looked for in the cache, the free ones last: its handlers, which know the free
// hosts too, are told later.
func (r *Reconciler) comingBack(ctx context.Context, s *scope, want claim.Want) (had []v1alpha1.BareMetalHost, former string, err error) {
	if want.Reuse == "" {
		return nil, "", nil
	}
	var machines clusterv1.MachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(s.machine.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, "", err
	}
	var names []string
	now := time.Now()
	note := func(host *v1alpha1.BareMetalHost) {
		if claim.Eligible(host, want) == "" && !silent(host, now) {
			names = append(names, host.Name)
		}
	}
	for i := range machines.Items {
		m := &machines.Items[i]
		if m.DeletionTimestamp.IsZero() || claim.Owner(m) != want.Reuse {
			continue
		}
		var held v1alpha1.BareMetalHostList
		if err := r.Client.List(ctx, &held, client.InNamespace(m.Namespace), client.MatchingFields{controllers.ConsumerIndex: m.Spec.InfrastructureRef.Name}); err != nil {
			return nil, "", err
		}
		for j := range held.Items {
			note(&held.Items[j])
		}
	}
	var free v1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &free, client.InNamespace(s.machine.Namespace), client.MatchingFields{controllers.LastOwnerIndex: want.Reuse},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil, "", err
	}
	for i := range free.Items {
		if host := &free.Items[i]; justReleased(host, now) {
			note(host)
		}
	}
	if len(names) > 0 {
		former = slices.Min(names)
	}
	return free.Items, former, nil
}

// justReleased is true for a free host that is on its way to be offered: its status has not followed its release yet, or its power is
// being brought to what the spec says, which a server need not obey.
func justReleased(host *v1alpha1.BareMetalHost, now time.Time) bool {
	if last := host.Spec.LastConsumer; last == nil || now.Sub(last.ReleasedAt.Time) >= backWithin {
		return false
	}
	switch conditions.GetReason(host, v1alpha1.AvailableCondition) {
	case v1alpha1.ReasonClaimed, v1alpha1.ReasonPowerChanging:
		return true
	default:
		return false
	}
}

// silent is true for a host whose BMC could not be used for long.
func silent(host *v1alpha1.BareMetalHost, now time.Time) bool {
	c := conditions.Get(host, v1alpha1.BMCReadyCondition)
	return c != nil && c.Status == metav1.ConditionFalse && now.Sub(c.LastTransitionTime.Time) >= backWithin
}
