package main

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
)

// pollInterval is the time between two reads of a host that is waited for.
const pollInterval = 2 * time.Second

// awaitAll waits until the provider has done what was asked, and prints the power of each server then. It returns the number of hosts of which it was not done in time.
func (c *change) awaitAll(ctx context.Context, hosts []planned) (failed int) {
	ctx, cancel := context.WithTimeout(ctx, c.wait)
	defer cancel()
	for _, one := range hosts {
		if one.plan.Reached == nil {
			continue
		}
		last, reached := c.await(ctx, one.host, one.plan.Reached)
		name := terminal.Line(last.Name)
		view.Printf(c.streams.ErrOut, "%s: phase %s, power %s\n", name, terminal.Line(string(last.Status.Phase)), orUnknown(string(last.Status.Power)))
		if !reached {
			failed++
			view.Printf(c.streams.ErrOut, "kubectl baremetal: %s: not done after %s: kubectl baremetal why %s -n %s says what it waits for\n", name, c.wait, name, terminal.Line(last.Namespace))
		}
	}
	return failed
}

// await reads a host until it is as wanted, or ctx ends. It returns the last state that was read. An error of a read is not the end: the API server may restart.
func (c *change) await(ctx context.Context, host *v1alpha1.BareMetalHost, reached func(*v1alpha1.BareMetalHost) bool) (*v1alpha1.BareMetalHost, bool) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for {
		if reached(host) {
			return host, true
		}
		select {
		case <-ctx.Done():
			return host, false
		case <-ticker.C:
		}
		fresh := &v1alpha1.BareMetalHost{}
		if err := access.Get(ctx, c.cluster.Client, client.ObjectKeyFromObject(host), fresh); err == nil {
			host = fresh
		}
	}
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return terminal.Line(text)
}
