package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// Versions are the versions of the lists, from which a watch continues.
type Versions struct{ Hosts, Boots, Machines string }

// Read lists the hosts, their boots and their machines: one list for each kind, in pages, at the same time. The options restrict the hosts only by their namespace and labels; the
// other kinds are read for all hosts of the namespace. An error means that the hosts could not be read. Other kinds that could not be read are in Objects.Unread.
func Read(ctx context.Context, c client.Reader, namespace string, hosts ...client.ListOption) (*Objects, Versions, error) {
	o, versions := &Objects{}, Versions{}
	in := client.InNamespace(namespace) // empty for all namespaces
	var errs [3]error
	var wg sync.WaitGroup
	wg.Go(func() {
		errs[0] = access.Pages(ctx, c, func() *v1alpha1.BareMetalHostList { return &v1alpha1.BareMetalHostList{} }, func(l *v1alpha1.BareMetalHostList) {
			o.Hosts, versions.Hosts = append(o.Hosts, l.Items...), l.ResourceVersion
		}, append(hosts, in)...)
	})
	wg.Go(func() {
		errs[1] = access.Pages(ctx, c, func() *v1alpha1.BareMetalBootList { return &v1alpha1.BareMetalBootList{} }, func(l *v1alpha1.BareMetalBootList) {
			o.Boots, versions.Boots = append(o.Boots, l.Items...), l.ResourceVersion
		}, in)
	})
	wg.Go(func() {
		errs[2] = access.Pages(ctx, c, func() *v1alpha1.BareMetalMachineList { return &v1alpha1.BareMetalMachineList{} }, func(l *v1alpha1.BareMetalMachineList) {
			o.Machines, versions.Machines = append(o.Machines, l.Items...), l.ResourceVersion
		}, in)
	})
	wg.Wait()
	if err := hostsError(errs[0], namespace); err != nil {
		return nil, versions, err
	}
	for i, kind := range []string{why.KindBoot, why.KindBareMetalMachine} {
		err := errs[i+1]
		cause := access.Cause(err)
		if err != nil && cause == "" {
			return nil, versions, fmt.Errorf("list objects of the kind %s: %w", kind, err)
		}
		if err != nil {
			o.Unread = append(o.Unread, why.Unread{Kind: kind, Cause: cause})
		}
	}
	return o, versions, nil
}

// hostsError explains why the hosts could not be read.
func hostsError(err error, namespace string) error {
	switch access.Cause(err) {
	case why.NotPermitted:
		if namespace == "" {
			return errors.New("listing BareMetalHosts in all namespaces is not permitted: use -n NAMESPACE, or ask for the ClusterRole capbm-system-viewer")
		}
		return fmt.Errorf("listing BareMetalHosts in the namespace %q is not permitted: use -n NAMESPACE, or ask for the ClusterRole capbm-system-viewer", namespace)
	case why.NotInstalled:
		return errors.New("the cluster does not have the kind BareMetalHost: is it the management cluster, with the provider installed?")
	default:
		return err
	}
}

// ReadNamed reads the hosts with these names in one namespace, and their boots and machines. An error means that a host could not be read, also because it does not exist.
func ReadNamed(ctx context.Context, c client.Reader, namespace string, names []string) (*Objects, error) {
	o := &Objects{}
	for _, name := range names {
		key := client.ObjectKey{Namespace: namespace, Name: name}
		var host v1alpha1.BareMetalHost
		if err := access.Get(ctx, c, key, &host); err != nil {
			return nil, HostError(err, key)
		}
		o.Hosts = append(o.Hosts, host)
		if err := also(ctx, c, o, why.KindBoot, key, &o.Boots); err != nil {
			return nil, err
		}
		if ref := host.Spec.ConsumerRef; ref != nil {
			if err := also(ctx, c, o, why.KindBareMetalMachine, client.ObjectKey{Namespace: namespace, Name: ref.Name}, &o.Machines); err != nil {
				return nil, err
			}
		}
	}
	return o, nil
}

// also reads an object that belongs to a host, and appends it to a list. An object that may not be read is recorded in o.
func also[T any, P interface {
	*T
	client.Object
}](ctx context.Context, c client.Reader, o *Objects, kind string, key client.ObjectKey, list *[]T) error {
	var object T
	err := access.Get(ctx, c, key, P(&object))
	cause := access.Cause(err)
	switch {
	case err == nil:
		*list = append(*list, object)
	case cause == "":
		return fmt.Errorf("read %s %s: %w", kind, key.Name, err)
	case cause != why.NotFound:
		o.Unread = append(o.Unread, why.Unread{Kind: kind, Name: key.Name, Cause: cause})
	}
	return nil
}

// HostError explains why one host could not be read.
func HostError(err error, key client.ObjectKey) error {
	switch access.Cause(err) {
	case why.NotFound:
		return fmt.Errorf("there is no BareMetalHost %q in the namespace %q: kubectl baremetal status lists them", key.Name, key.Namespace)
	case why.NotPermitted:
		return fmt.Errorf("reading BareMetalHost %q in the namespace %q is not permitted: ask for the ClusterRole capbm-system-viewer", key.Name, key.Namespace)
	case why.NotInstalled:
		return hostsError(err, key.Namespace)
	default:
		return err
	}
}
