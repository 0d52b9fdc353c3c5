package remediation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/patch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
)

// maxMessage is the maximum length of the message of a hand-over and of a quarantine.
const maxMessage = 4096

// handOver records that the machine is to be replaced before it starts the hand-over.
func (r *Reconciler) handOver(ctx context.Context, s *scope, message, quarantine string) error {
	err := r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) {
		spec.HandOver = &v1alpha1.HandOver{Time: metav1.Now(), Message: controllers.Clip(message, maxMessage), Quarantine: quarantine}
	})
	if err != nil {
		return err
	}
	metrics.HandedOver()
	if quarantine == v1alpha1.ReasonRemediationFailed {
		countCycle(s.remediation.Spec.PowerCycle, metrics.CycleTimedOut)
	}
	r.event(s, corev1.EventTypeWarning, "RemediationHandedOver", "HandOver", "Handed the machine over to be replaced. %s", message)
	return r.finishHandOver(ctx, s)
}

// finishHandOver carries out a recorded hand-over. The quarantine comes first: once the owner knows of the hand-over, the host may be released and
// claimed at any moment.
func (r *Reconciler) finishHandOver(ctx context.Context, s *scope) error {
	over := s.remediation.Spec.HandOver
	if err := r.releasePowerHold(ctx, s); err != nil {
		return err
	}
	if err := r.quarantine(ctx, s); err != nil {
		return err
	}
	if err := r.requestReplacement(ctx, s); err != nil {
		return err
	}
	// The server may run again, and the Machine may remain for long. A taint that cannot be removed yet must not delay the rest.
	if _, err := r.removeTaint(ctx, s); err != nil {
		return err
	}
	message := "The machine is to be replaced. " + over.Message
	if metav1.GetControllerOf(s.machine) == nil {
		message = "The Machine has no owner that replaces it: delete it. " + over.Message
	}
	s.setStatus(v1alpha1.RemediationHandedOver, v1alpha1.ReasonHandedOver, "%s", message)
	return nil
}

// quarantine keeps the host from being claimed again, if its server is to blame.
func (r *Reconciler) quarantine(ctx context.Context, s *scope) error {
	over := s.remediation.Spec.HandOver
	if over.Quarantine == "" || over.QuarantinedTime != nil || s.host == nil {
		return nil
	}
	host := &v1alpha1.BareMetalHost{}
	if err := r.APIReader.Get(ctx, client.ObjectKeyFromObject(s.host), host); err != nil {
		return err
	}
	if ref := host.Spec.ConsumerRef; ref == nil || ref.Name != s.infra.Name {
		return nil
	}
	if host.Spec.Quarantine == nil {
		message := fmt.Sprintf("Machine %s was handed over to be replaced. %s", s.machine.Name, over.Message)
		err := r.changeHost(ctx, host, func(h *v1alpha1.BareMetalHost) {
			h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: over.Quarantine, Message: controllers.Clip(message, maxMessage), StartTime: &over.Time}
		})
		if err != nil {
			return err
		}
		metrics.Quarantined(over.Quarantine)
		controllers.RecordEvent(r.Recorder, host, s.remediation, corev1.EventTypeWarning, controllers.EventQuarantined, "Quarantine", "%s: %s", over.Quarantine, message)
		r.event(s, corev1.EventTypeWarning, "HostQuarantined", "Quarantine", "Put BareMetalHost %s into quarantine (%s): no machine can claim it until a user clears spec.quarantine", host.Name, over.Quarantine)
	}
	return r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) { spec.HandOver.QuarantinedTime = new(metav1.Now()) })
}

// requestReplacement asks the Machine's owner to replace it, as a MachineHealthCheck without a template does. MachineSets and control planes read two
// conditions for that. The MachineHealthCheck wrote the first one when it created the remediation, and does not write it again while a remediation
// exists. After a move lost the condition, requestReplacement restores it. If the condition says that the Machine is healthy, the remediation is
// about to be deleted.
func (r *Reconciler) requestReplacement(ctx context.Context, s *scope) error {
	healthy := conditions.Get(s.machine, clusterv1.MachineHealthCheckSucceededCondition)
	remediated := conditions.Get(s.machine, clusterv1.MachineOwnerRemediatedCondition)
	if healthy != nil && healthy.Status == metav1.ConditionTrue || healthy != nil && remediated != nil && remediated.Status == metav1.ConditionFalse {
		return nil
	}
	machine := s.machine.DeepCopy()
	helper, err := patch.NewHelper(machine, r.Client)
	if err != nil {
		return err
	}
	message := controllers.Clip(fmt.Sprintf("BareMetalRemediation %s: %s", s.remediation.Name, s.remediation.Spec.HandOver.Message), controllers.MaxMessage)
	if healthy == nil {
		conditions.Set(machine, metav1.Condition{
			Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse, Reason: clusterv1.MachineHealthCheckUnhealthyNodeReason, Message: message,
		})
	}
	if remediated == nil || remediated.Status == metav1.ConditionTrue {
		conditions.Set(machine, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: message,
		})
	}
	return helper.Patch(ctx, machine)
}
