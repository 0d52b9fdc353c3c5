package timeline

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/fleet"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// KindEvent is the kind of Kubernetes events, in Objects.Unread.
const KindEvent = "Event"

// Read reads what remembers the past of a host. An error means that the host could not be read, or that the API server does not answer. A host that does not exist any more
// still has erasures and, for a time, events: only if it has neither is that an error.
func Read(ctx context.Context, c client.Reader, key client.ObjectKey) (*Objects, error) {
	o := &Objects{}
	host := &v1alpha1.BareMetalHost{}
	hostErr := access.Get(ctx, c, key, host)
	switch access.Cause(hostErr) {
	case why.NotFound:
	default:
		if hostErr != nil {
			return nil, fleet.HostError(hostErr, key)
		}
		o.Host = host
	}
	boot, inspection := &v1alpha1.BareMetalBoot{}, &v1alpha1.BareMetalInspection{}
	read, err := o.get(ctx, c, why.KindBoot, key, boot)
	if err != nil {
		return nil, err
	}
	if read {
		o.Boot = boot
	}
	if read, err = o.get(ctx, c, "BareMetalInspection", key, inspection); err != nil {
		return nil, err
	}
	if read {
		o.Inspection = inspection
	}
	settings := &v1alpha1.BareMetalSettings{}
	if read, err = o.get(ctx, c, why.KindSettings, key, settings); err != nil {
		return nil, err
	}
	if read {
		o.Settings = settings
	}
	if err := o.lists(ctx, c, key); err != nil {
		return nil, err
	}
	if o.Host == nil && len(o.Events)+len(o.Erasures) == 0 {
		return nil, fleet.HostError(hostErr, key)
	}
	return o, nil
}

// lists reads the lists of records and events.
func (o *Objects) lists(ctx context.Context, c client.Reader, key client.ObjectKey) error {
	in := client.InNamespace(key.Namespace)
	err := access.Pages(ctx, c, func() *v1alpha1.BareMetalErasureList { return &v1alpha1.BareMetalErasureList{} }, func(l *v1alpha1.BareMetalErasureList) {
		o.Erasures = append(o.Erasures, l.Items...)
	}, in, client.MatchingLabels{v1alpha1.ErasureHostLabel: erasure.HostLabel(key.Name)})
	if err := o.unread("BareMetalErasure", "", err); err != nil {
		return err
	}
	o.Erasures = slices.DeleteFunc(o.Erasures, func(r v1alpha1.BareMetalErasure) bool { return r.Spec.HostName != key.Name })
	err = access.Pages(ctx, c, func() *v1alpha1.BareMetalErasureRequestList { return &v1alpha1.BareMetalErasureRequestList{} }, func(l *v1alpha1.BareMetalErasureRequestList) {
		o.Requests = append(o.Requests, l.Items...)
	}, in)
	if err := o.unread(why.KindErasureRequest, "", err); err != nil {
		return err
	}
	o.Requests = slices.DeleteFunc(o.Requests, func(r v1alpha1.BareMetalErasureRequest) bool { return r.Spec.HostName != key.Name })
	names := []string{key.Name} // of the host, its boot and its inspection
	if o.Host != nil && o.Host.Spec.ConsumerRef != nil {
		names = append(names, o.Host.Spec.ConsumerRef.Name) // usually that of the Machine, too
	}
	return o.eventsOf(ctx, c, in, slices.Compact(names))
}

// eventsOf reads the events of objects with these names. Those of one name are not permitted either if those of another one are not.
func (o *Objects) eventsOf(ctx context.Context, c client.Reader, in client.InNamespace, names []string) error {
	for _, name := range names {
		err := access.Pages(ctx, c, func() *corev1.EventList { return &corev1.EventList{} }, func(l *corev1.EventList) {
			for _, e := range l.Items {
				if slices.Contains(kinds, e.InvolvedObject.Kind) {
					o.Events = append(o.Events, e)
				}
			}
		}, in, client.MatchingFields{"involvedObject.name": name})
		if unread := o.unread(KindEvent, "", err); unread != nil || err != nil {
			return unread
		}
	}
	return nil
}

// kinds are the kinds whose events belong to a server. Other objects may have the same name.
var kinds = []string{why.KindHost, why.KindBoot, "BareMetalInspection", why.KindBareMetalMachine, why.KindMachine, why.KindErasureRequest}

// get reads an object that may be absent. It returns false if it was not read.
func (o *Objects) get(ctx context.Context, c client.Reader, kind string, key client.ObjectKey, into client.Object) (bool, error) {
	err := access.Get(ctx, c, key, into)
	if access.Cause(err) == why.NotFound {
		return false, nil
	}
	return err == nil, o.unread(kind, key.Name, err)
}

// unread records what may not be read. It returns an error that is not about that.
func (o *Objects) unread(kind, name string, err error) error {
	cause := access.Cause(err)
	switch {
	case err == nil:
		return nil
	case cause == "":
		return fmt.Errorf("read the kind %s: %w", kind, err)
	default:
		o.Unread = append(o.Unread, why.Unread{Kind: kind, Name: name, Cause: cause})
		return nil
	}
}
