package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=patch

const (
	// nodeReturnTimeout is how long a Node may take to become Ready after a power hold, a power cycle or a maintenance, before MachineHealthChecks judge its Machine again. A
	// server needs some minutes to start.
	nodeReturnTimeout = 10 * time.Minute
	// nodeSilenceDelay is how long Kubernetes may take to notice that a Node is not Ready (40 to 55 seconds), and this provider to record it. Until then a Node that shows no
	// change proves nothing.
	nodeSilenceDelay = 2 * time.Minute
)

// reconcileSkipRemediation keeps MachineHealthChecks from the Machine while a person or a program keeps its server off, power-cycles it or works on it, and until its Node is
// Ready after that. The annotation has no owner, so its value shows that the provider set it: the provider does not touch one that a user set. The value also has the time when
// that ended, because nothing else records it.
func (r *Reconciler) reconcileSkipRemediation(ctx context.Context, s *scope) error {
	if s.owner == nil || !s.owner.DeletionTimestamp.IsZero() {
		return nil
	}
	value, set := s.owner.Annotations[clusterv1.MachineSkipRemediationAnnotation]
	mark, own := strings.CutPrefix(value, v1alpha1.SkipRemediationValuePrefix)
	deleted := !s.machine.DeletionTimestamp.IsZero() // by hand: its Machine stays
	wanted := !deleted && s.host != nil && isKeptDown(s.host)
	switch {
	case set && !own, !set && !wanted:
		return nil
	case wanted:
		return r.setSkipRemediation(ctx, s, v1alpha1.SkipRemediationValuePrefix+s.host.Name)
	case deleted || s.host == nil:
		return r.setSkipRemediation(ctx, s, "")
	}
	name, text, hasEnded := strings.Cut(mark, "/")
	if !hasEnded {
		return r.setSkipRemediation(ctx, s, v1alpha1.SkipRemediationValuePrefix+name+"/"+time.Now().UTC().Format(time.RFC3339))
	}
	ended, err := time.Parse(time.RFC3339, text)
	if err != nil { // a user wrote it: the wait is over
		return r.setSkipRemediation(ctx, s, "")
	}
	wait, err := r.awaitsNode(ctx, s, ended)
	if err != nil || wait > 0 {
		s.requeueAfter = wait
		return err
	}
	return r.setSkipRemediation(ctx, s, "")
}

// isKeptDown is true if a person or a program keeps a server off, power-cycles it or works on it. A remediation does so because of a MachineHealthCheck, which must go on
// counting the Machine: otherwise its limit would permit one more.
func isKeptDown(host *v1alpha1.BareMetalHost) bool {
	for annotation := range host.Annotations {
		for _, prefix := range []string{v1alpha1.PowerHoldPrefix, v1alpha1.ForcePowerHoldPrefix, v1alpha1.PowerCyclePrefix} {
			if strings.HasPrefix(annotation, prefix) {
				return true
			}
		}
	}
	ofOthers := func(hold v1alpha1.PowerHold) bool {
		return !strings.HasPrefix(hold.Holder, v1alpha1.RemediationHolderPrefix)
	}
	return host.Spec.Maintenance != nil || slices.ContainsFunc(host.Spec.PowerHolds, ofOthers)
}

// setSkipRemediation writes the annotation; an empty value removes it. The optimistic lock ensures that a user did not set or change the annotation meanwhile.
func (r *Reconciler) setSkipRemediation(ctx context.Context, s *scope, value string) error {
	if s.owner.Annotations[clusterv1.MachineSkipRemediationAnnotation] == value {
		return nil
	}
	after := s.owner.DeepCopy()
	if value == "" {
		delete(after.Annotations, clusterv1.MachineSkipRemediationAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&after.ObjectMeta, clusterv1.MachineSkipRemediationAnnotation, value)
	}
	if err := r.Client.Patch(ctx, after, client.MergeFromWithOptions(s.owner, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("change the annotation %s of Machine %s: %w", clusterv1.MachineSkipRemediationAnnotation, s.owner.Name, err)
	}
	return nil
}

// awaitsNode returns how long MachineHealthChecks must still be kept from a Machine after the end of what kept its server down: zero if its Node became Ready since, or had enough
// time.
func (r *Reconciler) awaitsNode(ctx context.Context, s *scope, ended time.Time) (time.Duration, error) {
	boot, err := controllers.GetBoot(ctx, r.Client, client.ObjectKeyFromObject(s.host))
	if err != nil {
		return 0, err
	}
	node := controllers.NodeOf(boot)
	passed := time.Since(ended)
	isReady := node == nil || node.Readiness == "" || node.Readiness == v1alpha1.NodeReady
	returned := node != nil && node.Readiness == v1alpha1.NodeReady && node.ReadinessTime != nil && !node.ReadinessTime.Time.Before(ended)
	switch {
	case returned, passed >= nodeReturnTimeout:
		return 0, nil
	case isReady:
		return max(0, nodeSilenceDelay-passed), nil
	default:
		return nodeReturnTimeout - passed, nil
	}
}
