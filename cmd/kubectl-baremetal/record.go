package main

import (
	"context"
	"io"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/plan"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// record writes an event that says who asked for a change, and why. What ends a maintenance or a quarantine leaves nothing in the host that could say it. The change counts
// also if the event cannot be written.
func (c *change) record(ctx context.Context, one *planned) {
	recordRequest(ctx, c.cluster.Client, c.streams.ErrOut, one.host, one.plan.Event, c.action, c.requester)
}

func recordRequest(ctx context.Context, c client.Client, errOut io.Writer, host *v1alpha1.BareMetalHost, reason, action string, r plan.Requester) {
	event := requestEvent(host, reason, action, r)
	if err := c.Create(ctx, event, client.FieldOwner(access.Owner)); err != nil {
		view.Printf(errOut, "kubectl baremetal: the event that says who asked for the change of %s could not be written: %s\n",
			terminal.Line(host.Name), terminal.Line(err.Error()))
	}
}

// requestEvent is the event of a request of a person.
func requestEvent(host *v1alpha1.BareMetalHost, reason, action string, r plan.Requester) *eventsv1.Event {
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: host.Namespace, GenerateName: host.Name + "."},
		EventTime:           metav1.NewMicroTime(r.Now.Time),
		ReportingController: access.Owner, ReportingInstance: access.Owner,
		Action: action, Reason: reason, Type: corev1.EventTypeNormal, Note: r.Text(),
		Regarding: corev1.ObjectReference{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: why.KindHost, Namespace: host.Namespace, Name: host.Name, UID: host.UID, ResourceVersion: host.ResourceVersion,
		},
	}
}
