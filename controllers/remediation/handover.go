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

// maxMessage is what the API lets the message of a hand-over and of a quarantine be.
const maxMessage = 4096

// handOver decides that the machine is to be replaced. It is recorded before anything of it is done.
func (r *Reconciler) handOver(ctx context.Context, s *scope, message, quarantine string) error {
	err := r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) {
		spec.HandOver = &v1alpha1.HandOver{At: metav1.Now(), Message: controllers.Clip(message, maxMessage), Quarantine: quarantine}
	})
	if err != nil {
		return err
	}
	metrics.HandedOver()
	if quarantine == v1alpha1.ReasonRemediationFailed {
		countCycle(s.remediation.Spec.PowerCycle, metrics.CycleTimedOut)
	}
	r.event(s, corev1.EventTypeWarning, "RemediationHandedOver", "HandOver", "The machine is handed over to be replaced. %s", message)
	return r.finishHandOver(ctx, s)
}

// finishHandOver does what was decided. The quarantine comes first: once the owner is told, the host may be released, and claimed, any moment.
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
	// The server may run again, and the Machine stay for long. That it cannot be taken off yet must keep nothing else waiting.
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

// quarantine keeps the host from being offered again, if its server is to blame.
func (r *Reconciler) quarantine(ctx context.Context, s *scope) error {
	over := s.remediation.Spec.HandOver
	if over.Quarantine == "" || over.QuarantinedAt != nil || s.host == nil {
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
			h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: over.Quarantine, Message: controllers.Clip(message, maxMessage), Since: &over.At}
		})
		if err != nil {
			return err
		}
		metrics.Quarantined(over.Quarantine)
		controllers.RecordEvent(r.Recorder, host, s.remediation, corev1.EventTypeWarning, controllers.EventQuarantined, "Quarantine", "%s: %s", over.Quarantine, message)
		r.event(s, corev1.EventTypeWarning, "HostQuarantined", "Quarantine", "BareMetalHost %s is put into quarantine (%s): it is not offered again until a person clears it", host.Name, over.Quarantine)
	}
	return r.record(ctx, s, func(spec *v1alpha1.BareMetalRemediationSpec) { spec.HandOver.QuarantinedAt = new(metav1.Now()) })
}

// requestReplacement tells the Machine's owner to replace it, as a MachineHealthCheck without a template would. MachineSets and control planes look at
// two conditions for that. The first the MachineHealthCheck wrote when it made the remediation, and it never writes it again while there is
// one: what a move lost of it is put back. Where it says that the Machine is healthy the remediation is about to be deleted.
func (r *Reconciler) requestReplacement(ctx context.Context, s *scope) error {
	healthy := conditions.Get(s.machine, clusterv1.MachineHealthCheckSucceededCondition)
	told := conditions.Get(s.machine, clusterv1.MachineOwnerRemediatedCondition)
	if healthy != nil && healthy.Status == metav1.ConditionTrue || healthy != nil && told != nil && told.Status == metav1.ConditionFalse {
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
	if told == nil || told.Status == metav1.ConditionTrue {
		conditions.Set(machine, metav1.Condition{
			Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
			Reason: clusterv1.MachineOwnerRemediatedWaitingForRemediationReason, Message: message,
		})
	}
	return helper.Patch(ctx, machine)
}
