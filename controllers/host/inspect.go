package host

import (
	"context"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// inspect reads what the BMC can do and what the server is made of.
func (r *Reconciler) inspect(ctx context.Context, j job, c bmc.Client) error {
	description, err := c.Describe(ctx)
	if err != nil {
		return err
	}
	inspecting, cancel := withReserve(ctx, powerReadReserve)
	defer cancel()
	inventory, err := c.Inspect(inspecting)
	if err != nil {
		return err
	}
	status := &v1alpha1.BMCStatus{
		Protocol: controllers.Clip(description.Protocol, controllers.MaxText), Quirks: controllers.ClipAll(description.Quirks),
	}
	for _, capability := range description.Capabilities[:min(len(description.Capabilities), controllers.MaxItems)] {
		status.Capabilities = append(status.Capabilities, controllers.Clip(string(capability), controllers.MaxText))
	}
	r.updateObservation(j, func(h *hostObservation) { h.noteInventory(inventory, status, truncateToSecond(r.Clock.Now())) })
	return nil
}

// powerReadReserve is what an inspection leaves of the time of its job, for the power state that is read after it.
const powerReadReserve = 20 * time.Second

// withReserve returns a context that ends so long before ctx does.
func withReserve(ctx context.Context, reserve time.Duration) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-reserve))
}

// lacking lists what a boot over the network in the host's mode needs and the BMC does not offer. Legacy firmware knows no HTTP boot.
func lacking(capabilities []string, mode v1alpha1.BootMode) []string {
	can := make([]bmc.Capability, 0, len(capabilities))
	for _, capability := range capabilities {
		if mode != v1alpha1.BootModeLegacy || capability != string(bmc.CanBootHTTP) {
			can = append(can, bmc.Capability(capability))
		}
	}
	return lacks(can)
}

// lacks lists what a boot over the network needs and the BMC does not offer.
func lacks(can []bmc.Capability) []string {
	var names []string
	for _, missing := range bmc.MissingForNetworkBoot(can) {
		names = append(names, string(missing))
	}
	return names
}
