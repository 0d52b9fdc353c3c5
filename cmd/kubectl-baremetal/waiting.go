package main

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// announceErasures names the requests to erase the disks of hosts that wait for their return to service: a person may have forgotten them.
func (c *change) announceErasures(ctx context.Context, todo []planned) {
	if !slices.ContainsFunc(todo, func(one planned) bool { return one.plan.Service }) {
		return
	}
	var requests []v1alpha1.BareMetalErasureRequest
	err := access.Pages(ctx, c.cluster.Client, func() *v1alpha1.BareMetalErasureRequestList { return &v1alpha1.BareMetalErasureRequestList{} }, func(l *v1alpha1.BareMetalErasureRequestList) {
		requests = append(requests, l.Items...)
	}, client.InNamespace(c.cluster.Namespace))
	if err != nil {
		view.Printf(c.streams.ErrOut, "kubectl baremetal: it is unknown whether an erasure of the disks waits: %s\n", terminal.Line(err.Error()))
		return
	}
	for _, one := range todo {
		if !one.plan.Service {
			continue
		}
		if request := c.waitingErasure(ctx, one.host, requests); request != nil {
			view.Printf(c.streams.ErrOut, "  - BareMetalErasureRequest %s: ALL DATA on the disks of %s is erased (%s) when nothing else keeps the host from it.\n",
				terminal.Line(request.Name), terminal.Line(one.host.Name), request.Spec.Policy)
		}
	}
}

// waitingErasure returns the request that a host has to carry out, or to continue; nil without one.
func (c *change) waitingErasure(ctx context.Context, host *v1alpha1.BareMetalHost, requests []v1alpha1.BareMetalErasureRequest) *v1alpha1.BareMetalErasureRequest {
	facts, boot := erasure.Facts{Host: host, Now: c.now()}, &v1alpha1.BareMetalBoot{}
	if access.Get(ctx, c.cluster.Client, client.ObjectKeyFromObject(host), boot) == nil {
		facts.Boot = &boot.Spec
	}
	if host.Status.Hardware != nil {
		facts.SerialNumber = host.Status.Hardware.SerialNumber
	}
	return facts.Select(requests)
}
