package main

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/rack"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// workers is how many objects are written at once.
const workers = 16

// each calls do for every number below n, several at once, and returns the errors.
func each(n int, do func(i int) error) error {
	var (
		wait     sync.WaitGroup
		mu       sync.Mutex
		problems []error
	)
	next := make(chan int)
	for range workers {
		wait.Go(func() {
			for i := range next {
				if err := do(i); err != nil {
					mu.Lock()
					problems = append(problems, err)
					mu.Unlock()
				}
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wait.Wait()
	return errors.Join(problems[:min(len(problems), 5)]...)
}

// createCluster creates the Cluster of all machines. Its infrastructure is provisioned for this provider; no other manager runs.
func (f *fleet) createCluster(ctx context.Context) error {
	if err := f.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: namespace},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "192.0.2.1", Port: 6443},
			InfrastructureRef:    clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: namespace},
		},
	}
	if err := f.client.Create(ctx, cluster); err != nil {
		return err
	}
	cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	return f.client.Status().Update(ctx, cluster)
}

// labels give the nth object to one of the managers that share the hosts.
func (f *fleet) labels(n int) map[string]string {
	if f.options.managers == 1 {
		return map[string]string{}
	}
	return map[string]string{clusterv1.WatchLabel: strconv.Itoa(n % f.options.managers)}
}

// boots is the label of the hosts that are claimed and booted. The machines of the others are adopted.
const boots = "boots"

func (f *fleet) register(ctx context.Context, n int) error {
	s := f.servers[n]
	secret, host := s.Objects(namespace)
	host.Labels = f.labels(n)
	if n < f.boots {
		host.Labels[boots] = "true"
	} else {
		s.SetPower(true) // its machine runs already
		host.Spec.Power = v1alpha1.PowerOn
	}
	if err := f.client.Create(ctx, secret); err != nil {
		return err
	}
	f.watch.began("BareMetalHost created", s.Name)
	return f.client.Create(ctx, host)
}

// createMachine creates the nth machine with its bootstrap data as Cluster API does. A machine with a host is adopted: it runs there.
func (f *fleet) createMachine(ctx context.Context, name string, n int, host *rack.Server) error {
	owner, err := f.createOwner(ctx, name, n)
	if err != nil {
		return err
	}
	return f.createBareMetalMachine(ctx, owner, n, host)
}

// createOwner creates the Machine of the nth machine and its bootstrap data. The Secret has an owner, as one of a bootstrap provider has: the provider labels only a
// Secret without an owner for clusterctl.
func (f *fleet) createOwner(ctx context.Context, name string, n int) (*clusterv1.Machine, error) {
	meta := f.machineMeta(name, n)
	secret := &corev1.Secret{
		ObjectMeta: *meta.DeepCopy(), Type: clusterv1.ClusterSecretType,
		StringData: map[string]string{"value": "#cloud-config\n# " + strings.Repeat("as much as kubeadm's ", 300) + "\n", "format": "cloud-config"},
	}
	owner := &clusterv1.Machine{ObjectMeta: meta, Spec: clusterv1.MachineSpec{
		ClusterName: namespace, Bootstrap: clusterv1.Bootstrap{DataSecretName: &name},
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalMachine", Name: name},
	}}
	if err := f.client.Create(ctx, owner); err != nil {
		return nil, err
	}
	secret.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(owner, clusterv1.GroupVersion.WithKind("Machine"))}
	return owner, f.client.Create(ctx, secret)
}

func (f *fleet) machineMeta(name string, n int) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: f.labels(n)}
	meta.Labels[clusterv1.ClusterNameLabel] = namespace
	return meta
}

// createBareMetalMachine creates the BareMetalMachine of the nth machine.
func (f *fleet) createBareMetalMachine(ctx context.Context, owner *clusterv1.Machine, n int, host *rack.Server) error {
	bare := &v1alpha1.BareMetalMachine{ObjectMeta: f.machineMeta(owner.Name, n), Spec: v1alpha1.BareMetalMachineSpec{Boot: f.lab.Rack.Image("")}}
	bare.Spec.Boot.Persistence = v1alpha1.PersistenceInstalled
	bare.Spec.HostSelector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{boots: "true"}}
	for key, value := range f.labels(n) {
		bare.Spec.HostSelector.MatchLabels[key] = v1alpha1.LabelValue(value)
	}
	bare.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: owner.Name, UID: owner.UID}}
	if host != nil {
		bare.Spec.ProviderID = inventory.ProviderID(namespace, host.Name, owner.Name)
		claim := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"consumerRef":{"name":"`+owner.Name+`","claimID":"`+string(owner.UID)+`"}}}`))
		if err := f.client.Patch(ctx, &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: host.Name}}, claim); err != nil {
			return err
		}
	} else {
		f.watch.began("Machine created", owner.Name)
	}
	return f.client.Create(ctx, bare)
}

// deleteMachine deletes a BareMetalMachine, which Cluster API deletes first, too.
func (f *fleet) deleteMachine(ctx context.Context, name string) error {
	return client.IgnoreNotFound(f.client.Delete(ctx, &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
}
