package main

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

func objectMeta(key client.ObjectKey) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}
}

// actAsOperator does what an operator does about hosts that wait for one. It replaces machines that are lost, as a MachineHealthCheck does. It ends with
// ctx.
func (s *soak) actAsOperator(ctx context.Context) {
	waiting := map[string]int{} // in seconds
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		for _, h := range s.all() {
			what, do := s.intervention(h)
			if what == "" {
				delete(waiting, h.Name)
				continue
			}
			if waiting[h.Name]++; waiting[h.Name] != 4 { // operators react after a while
				if waiting[h.Name] > 60 {
					delete(waiting, h.Name)
				}
				continue
			}
			s.report.done(what)
			s.checker.Note(h.id(), "operator: "+what)
			s.task(what+" "+h.Name, func() error { return do(context.WithoutCancel(ctx)) })
		}
	}
}

// intervention returns what an operator does about a host, if anything.
func (s *soak) intervention(h *host) (string, func(context.Context) error) {
	seen := s.checker.Host(h.id())
	s.mu.Lock()
	busy := h.busy != "" || h.faulty
	s.mu.Unlock()
	if seen == nil || busy {
		return "", nil
	}
	switch phase := seen.Status.Phase; {
	case phase == v1alpha1.PhaseStateLost, phase == v1alpha1.PhaseBootFailed, phase == v1alpha1.PhaseProvisioned && !seen.DeletionTimestamp.IsZero():
		return "lost machine replaced", func(ctx context.Context) error { return s.replace(ctx, h, seen) }
	case phase == v1alpha1.PhaseQuarantined:
		return "quarantine ended", func(ctx context.Context) error {
			if err := s.endQuarantine(h); err != nil { //nolint:contextcheck // nothing runs on it
				return err
			}
			return s.patch(ctx, h, func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil })
		}
	case waitsFor(seen, v1alpha1.ReasonPoweredOn):
		return "running server switched off", func(context.Context) error {
			s.switchOff(h) //nolint:contextcheck // nothing runs on it
			return nil
		}
	case waitsFor(seen, v1alpha1.ReasonCapabilityMissing):
		return "BMC retried", func(ctx context.Context) error { return s.patch(ctx, h, annotate(v1alpha1.RetryBMCAnnotation, "anna")) }
	}
	return "", nil
}

// switchOff switches a server off by hand.
func (s *soak) switchOff(h *host) {
	s.checker.PowerLost(h.id(), "switched off by hand")
	h.SetPower(false)
}

// waitsFor is true for a host that is stuck for a reason.
func waitsFor(h *v1alpha1.BareMetalHost, reason string) bool {
	return slices.ContainsFunc(h.Status.Conditions, func(c metav1.Condition) bool { return c.Status == metav1.ConditionFalse && c.Reason == reason })
}

// replace deletes the machine of a host.
func (s *soak) replace(ctx context.Context, h *host, seen *v1alpha1.BareMetalHost) error {
	if h.namespace == whole {
		return s.deleteMachineOf(ctx, h)
	}
	if seen.Spec.ConsumerRef == nil {
		return nil
	}
	s.mu.Lock()
	m := s.machines[seen.Spec.ConsumerRef.Name]
	s.mu.Unlock()
	if m != nil {
		s.deleteMachine(ctx, m)
	}
	return nil
}
