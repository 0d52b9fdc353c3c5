package main

import (
	"context"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

const deployment = site.ClusterName + "-workers"

func (s *soak) scale(ctx context.Context) bool {
	if s.whole < 3 {
		return false
	}
	replicas := int32(1 + s.operate.IntN(s.whole-2)) //nolint:gosec // a rack has some hundred servers
	s.task("scale", func() error { return s.scaleTo(ctx, replicas) })
	return true
}

func (s *soak) scaleTo(ctx context.Context, replicas int32) error {
	return retry(ctx, "scale", func(ctx context.Context) error {
		var md clusterv1.MachineDeployment
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: whole, Name: deployment}, &md); err != nil {
			return err
		}
		before := md.DeepCopy()
		md.Spec.Replicas = &replicas
		return s.client.Patch(ctx, &md, client.MergeFrom(before))
	})
}

// deleteWorker deletes a Machine of the MachineDeployment, which replaces it.
func (s *soak) deleteWorker(ctx context.Context) bool {
	h := s.pick("machine deleted", func(h *host, seen *v1alpha1.BareMetalHost) bool {
		return h.namespace == whole && seen.Spec.ConsumerRef != nil && !s.controlPlane(h)
	})
	if h == nil {
		return false
	}
	s.task("delete the Machine of "+h.Name, func() error {
		defer s.free(h)
		return s.deleteMachineOf(ctx, h)
	})
	return true
}

// deleteMachineOf deletes the Machine that has a host under the whole of Cluster API.
func (s *soak) deleteMachineOf(ctx context.Context, h *host) error {
	seen := s.checker.Host(h.id())
	if seen == nil || seen.Spec.ConsumerRef == nil {
		return nil
	}
	m := s.checker.Machine(whole + "/" + seen.Spec.ConsumerRef.Name)
	if m == nil || len(m.OwnerReferences) == 0 {
		return nil
	}
	return retry(ctx, "delete a Machine", func(ctx context.Context) error {
		return client.IgnoreNotFound(s.client.Delete(ctx, &clusterv1.Machine{ObjectMeta: objectMeta(client.ObjectKey{Namespace: whole, Name: m.OwnerReferences[0].Name})}))
	})
}
