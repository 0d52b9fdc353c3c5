package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/cluster-api/util/kubeconfig"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// nodesLiveHere makes the management cluster the workload cluster of the machines that are created directly. Their Nodes are objects there, and the driver
// writes their heartbeats.
func (s *soak) nodesLiveHere(ctx context.Context) error {
	if s.kills == 0 {
		return nil
	}
	content, err := os.ReadFile(s.plane.Kubeconfig)
	if err != nil {
		return err
	}
	secret := kubeconfig.GenerateSecretWithOwner(client.ObjectKey{Namespace: direct, Name: direct}, content, metav1.OwnerReference{})
	secret.OwnerReferences = nil
	return s.client.Create(ctx, secret)
}

// remediationOf returns the remediation of the machine of a host.
func remediationOf(h *host) *v1alpha1.BareMetalRemediation {
	return &v1alpha1.BareMetalRemediation{ObjectMeta: metav1.ObjectMeta{
		Namespace: direct, Name: machineOf(h), Labels: map[string]string{clusterv1.ClusterNameLabel: direct},
	}}
}

// beginRemediate makes the Node of a machine unhealthy, as a MachineHealthCheck sees it.
func (s *soak) beginRemediate(ctx context.Context, h *host) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machineOf(h)}, Spec: corev1.NodeSpec{ProviderID: inventory.ProviderID(direct, h.Name, machineOf(h))}}
	if err := s.client.Create(ctx, node); client.IgnoreAlreadyExists(err) != nil {
		return err
	}
	if err := errors.Join(s.speak(ctx, h, corev1.ConditionUnknown), s.findHealthy(ctx, h, metav1.ConditionFalse)); err != nil {
		return err
	}
	s.mu.Lock()
	h.failedLife, h.healthySince = h.life, false
	s.mu.Unlock()
	var machine clusterv1.Machine
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: direct, Name: machineOf(h)}, &machine); err != nil {
		return err
	}
	remediation := remediationOf(h)
	remediation.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: machine.Name, UID: machine.UID}}
	return s.client.Create(ctx, remediation)
}

// remediated renews the Node's heartbeat once its server was switched on again. It ends the remediation as a MachineHealthCheck does for a healthy Node,
// and returns true when the remediation is gone and the server runs.
func (s *soak) remediated(ctx context.Context, h *host) (bool, error) {
	remediation := remediationOf(h)
	if err := s.client.Get(ctx, client.ObjectKeyFromObject(remediation), remediation); err != nil {
		seen := s.checker.Host(h.id())
		well := apierrors.IsNotFound(err) && seen.Status.Phase == v1alpha1.PhaseProvisioned && seen.Spec.ProviderState.PowerHoldStartTime == nil && len(seen.Spec.PowerHolds) == 0 && h.On()
		return well, client.IgnoreNotFound(err)
	}
	s.mu.Lock()
	cameOn := h.life > h.failedLife && !h.healthySince
	h.healthySince = h.healthySince || cameOn
	s.mu.Unlock()
	if cameOn {
		return false, s.speak(ctx, h, corev1.ConditionTrue)
	}
	if remediation.Status.Phase != v1alpha1.RemediationRecovered || !remediation.DeletionTimestamp.IsZero() {
		return false, nil
	}
	if remediation.Status.Attempt != 1 {
		return false, fmt.Errorf("it took %d power cycles", remediation.Status.Attempt)
	}
	return false, errors.Join(s.findHealthy(ctx, h, metav1.ConditionTrue), client.IgnoreNotFound(s.client.Delete(ctx, remediation)))
}

// speak sets the conditions of a machine's Node and the time of its heartbeat.
func (s *soak) speak(ctx context.Context, h *host, ready corev1.ConditionStatus) error {
	return retry(ctx, "write the conditions of a Node", func(ctx context.Context) error {
		node := &corev1.Node{}
		if err := s.client.Get(ctx, client.ObjectKey{Name: machineOf(h)}, node); err != nil {
			return err
		}
		now := metav1.NewTime(time.Now().Add(time.Second)) // times in the API have a resolution of one second
		if seen := s.checker.Host(h.id()); seen != nil && seen.Status.Hardware != nil {
			node.Status.NodeInfo.SystemUUID = seen.Status.Hardware.SystemUUID
		}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastHeartbeatTime: now, LastTransitionTime: now}}
		return s.client.Status().Update(ctx, node)
	})
}

// findHealthy records what a MachineHealthCheck finds about a machine.
func (s *soak) findHealthy(ctx context.Context, h *host, healthy metav1.ConditionStatus) error {
	return retry(ctx, "write what a MachineHealthCheck finds", func(ctx context.Context) error {
		var machine clusterv1.Machine
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: direct, Name: machineOf(h)}, &machine); err != nil {
			return err
		}
		machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: machineOf(h)}
		conditions.Set(&machine, metav1.Condition{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: healthy, Reason: "Driver"})
		return s.client.Status().Update(ctx, &machine)
	})
}
