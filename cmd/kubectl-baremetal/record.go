package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/plan"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// recordRequest writes an event that says who asks for a change, and why. What ends a maintenance or a quarantine leaves nothing in the host that could say it, so it is written
// before the change, and the change is not made if it cannot be written.
func recordRequest(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost, reason, action string, r plan.Requester) error {
	if err := c.Create(ctx, requestEvent(host, reason, action, r), client.FieldOwner(access.Owner)); err != nil {
		return fmt.Errorf("nothing was changed: the event that says who asks for it could not be written: %w", err)
	}
	return nil
}

// requestEvent is the event of a request of a person.
func requestEvent(host *v1alpha1.BareMetalHost, reason, action string, r plan.Requester) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: host.Namespace, GenerateName: host.Name + "-"},
		EventTime:           metav1.NewMicroTime(r.Now.Time),
		ReportingController: access.Owner, ReportingInstance: access.Owner,
		Action: action, Reason: reason, Type: corev1.EventTypeNormal, Note: r.Text(),
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: why.KindHost, Namespace: host.Namespace, Name: host.Name, UID: host.UID, ResourceVersion: host.ResourceVersion,
		},
	}
}
