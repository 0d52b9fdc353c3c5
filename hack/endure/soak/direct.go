package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// directCluster is the Cluster of the machines that are created directly. Cluster API's managers see it and its Machines as paused. This provider does not,
// since it reads the pause from the Cluster's spec or from the BareMetalMachine.
const directCluster = `apiVersion: v1
kind: Namespace
metadata: {name: direct}
---
apiVersion: cluster.x-k8s.io/v1beta2
kind: Cluster
metadata: {name: direct, namespace: direct, annotations: {cluster.x-k8s.io/paused: "driven by hand"}}
spec:
  controlPlaneEndpoint: {host: 192.0.2.1, port: 6443}
  infrastructureRef: {apiGroup: infrastructure.cluster.x-k8s.io, kind: BareMetalCluster, name: direct}
`

// provisionDirectCluster sets the Cluster's infrastructure to provisioned, as Cluster API's managers would.
func (s *soak) provisionDirectCluster(ctx context.Context) error {
	return retry(ctx, "provision the Cluster", func(ctx context.Context) error {
		var cluster clusterv1.Cluster
		if err := s.client.Get(ctx, client.ObjectKey{Namespace: direct, Name: direct}, &cluster); err != nil {
			return err
		}
		before := cluster.DeepCopy()
		cluster.Status.Initialization.InfrastructureProvisioned = new(true)
		return s.client.Status().Patch(ctx, &cluster, client.MergeFrom(before))
	})
}

// machine is a Machine that the driver created directly.
type machine struct {
	name      string
	installed bool             // it runs from the disk
	image     bool             // an agent writes its disk
	cleaning  wire.ErasePolicy // of all disks at its release; if it is empty, only what the agent wrote is erased
	deleting  bool
	host      string // the only host that fits, if not empty
}

// retry repeats an action until it succeeds, since the API server may be away.
func retry(ctx context.Context, what string, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	for {
		attempt, end := context.WithTimeout(ctx, 10*time.Second)
		err := do(attempt)
		end()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(300 * time.Millisecond):
		}
	}
}

// create creates the objects of a machine as Cluster API does.
func (s *soak) create(ctx context.Context, m *machine) error {
	labels := map[string]string{clusterv1.ClusterNameLabel: direct}
	meta := metav1.ObjectMeta{Namespace: direct, Name: m.name, Labels: labels}
	boot, image, err := s.source(m)
	if err != nil {
		return err
	}
	secret := &corev1.Secret{
		ObjectMeta: *meta.DeepCopy(), Type: clusterv1.ClusterSecretType,
		StringData: map[string]string{"value": "#cloud-config\n# of " + m.name + "\n", "format": "cloud-config"},
	}
	handDriven := *meta.DeepCopy()
	handDriven.Annotations = map[string]string{clusterv1.PausedAnnotation: "driven by hand"}
	owner := &clusterv1.Machine{ObjectMeta: handDriven, Spec: clusterv1.MachineSpec{
		ClusterName:       direct,
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalMachine", Name: m.name},
		Bootstrap:         clusterv1.Bootstrap{DataSecretName: &m.name},
	}}
	for _, object := range []client.Object{secret, owner} {
		if err := retry(ctx, "create "+m.name, func(ctx context.Context) error {
			return client.IgnoreAlreadyExists(s.client.Create(ctx, object))
		}); err != nil {
			return err
		}
	}
	return retry(ctx, "create "+m.name, func(ctx context.Context) error {
		if err := s.client.Get(ctx, client.ObjectKeyFromObject(owner), owner); err != nil {
			return err
		}
		bare := &v1alpha1.BareMetalMachine{ObjectMeta: *meta.DeepCopy(), Spec: v1alpha1.BareMetalMachineSpec{Boot: boot, Image: image, CleaningPolicy: m.cleaning}}
		if m.host != "" {
			bare.Spec.HostSelector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"server": v1alpha1.LabelValue(m.host)}}
		}
		bare.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: m.name, UID: owner.UID}}
		return client.IgnoreAlreadyExists(s.client.Create(ctx, bare))
	})
}

// remove deletes a machine in the same order as Cluster API, and waits until it is gone.
func (s *soak) remove(ctx context.Context, m *machine) error {
	meta := metav1.ObjectMeta{Namespace: direct, Name: m.name}
	if err := retry(ctx, "delete "+m.name, func(ctx context.Context) error {
		return client.IgnoreNotFound(s.client.Delete(ctx, &v1alpha1.BareMetalMachine{ObjectMeta: meta}))
	}); err != nil {
		return err
	}
	for {
		err := s.client.Get(ctx, client.ObjectKey{Namespace: direct, Name: m.name}, &v1alpha1.BareMetalMachine{})
		if apierrors.IsNotFound(err) {
			break
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("machine %s is not gone: %w", m.name, ctx.Err())
		case <-time.After(time.Second):
		}
	}
	for _, object := range []client.Object{&clusterv1.Machine{ObjectMeta: meta}, &corev1.Secret{ObjectMeta: meta}} {
		if err := retry(ctx, "delete "+m.name, func(ctx context.Context) error {
			// Cluster API's managers do not reconcile this Machine, so their finalizer is removed here.
			noFinalizers := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			if err := s.client.Delete(ctx, object); err != nil {
				return client.IgnoreNotFound(err)
			}
			return client.IgnoreNotFound(s.client.Patch(ctx, object, noFinalizers))
		}); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.machines, m.name)
	return nil
}

// patch changes a host. A host that does not exist is ignored.
func (s *soak) patch(ctx context.Context, h *host, change func(*v1alpha1.BareMetalHost)) error {
	return retry(ctx, "patch "+h.Name, func(ctx context.Context) error {
		var live v1alpha1.BareMetalHost
		if err := s.client.Get(ctx, h.key(), &live); err != nil {
			return client.IgnoreNotFound(err)
		}
		before := live.DeepCopy()
		change(&live)
		return s.client.Patch(ctx, &live, client.MergeFrom(before))
	})
}
