package main

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
)

// pollInterval is the time between two reads of the hosts that are waited for.
const pollInterval = 2 * time.Second

// awaitAll waits until the provider has done what was asked, and prints the power of each server then. It returns the number of hosts of which it failed, or was not done in time: each is
// read once more after that time. An interrupt ends it, and no host counts as failed then.
func (c *change) awaitAll(ctx context.Context, hosts []planned) (failed int) {
	pending := slices.DeleteFunc(slices.Clone(hosts), func(one planned) bool { return one.plan.Reached == nil })
	deadline, ticker := time.NewTimer(c.wait), time.NewTicker(pollInterval)
	defer deadline.Stop()
	defer ticker.Stop()
	for over := false; ; {
		pending = slices.DeleteFunc(pending, func(one planned) bool {
			if !one.plan.Reached(one.host) {
				return false
			}
			c.printPower(one.host)
			if err := one.outcome(); err != nil {
				failed++
				view.Printf(c.streams.ErrOut, "kubectl baremetal: %s: %s\n", terminal.Line(one.host.Name), err)
			}
			return true
		})
		if len(pending) == 0 || over {
			break
		}
		select {
		case <-ctx.Done():
			return 0
		case <-deadline.C:
			over = true
		case <-ticker.C:
		}
		c.readAgain(ctx, pending)
	}
	for _, one := range pending {
		c.printPower(one.host)
		name := terminal.Line(one.host.Name)
		view.Printf(c.streams.ErrOut, "kubectl baremetal: %s: not done after %s: kubectl baremetal why %s -n %s says what it waits for\n", name, c.wait, name, terminal.Line(one.host.Namespace))
	}
	return failed + len(pending)
}

// readAgain reads hosts again. After an error they stay as they were read before: the API server may restart.
func (c *change) readAgain(ctx context.Context, hosts []planned) {
	for i := range hosts {
		fresh := &v1alpha1.BareMetalHost{}
		err := access.Get(ctx, c.cluster.Client, client.ObjectKeyFromObject(hosts[i].host), fresh)
		switch {
		case err == nil:
			hosts[i].host = fresh
		case access.Cause(err) == "":
			return // the API server does not answer
		}
	}
}

func (c *change) printPower(host *v1alpha1.BareMetalHost) {
	bmc := ""
	if reason := bmcProblem(host); reason != "" { // the power is that of the last answer
		bmc = ", BMC not ready: " + reason
	}
	view.Printf(c.streams.ErrOut, "%s: phase %s, power %s%s\n", terminal.Line(host.Name), terminal.Line(string(host.Status.Phase)), orUnknown(string(host.Status.Power)), bmc)
}

// bmcProblem returns the reason for which the BMC of a host is not ready; empty if it is.
func bmcProblem(host *v1alpha1.BareMetalHost) string {
	if ready := meta.FindStatusCondition(host.Status.Conditions, v1alpha1.BMCReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
		return terminal.Line(ready.Reason)
	}
	return ""
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return terminal.Line(text)
}
