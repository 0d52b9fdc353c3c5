package host

import (
	"context"
	"slices"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// inspect reads the capabilities of the BMC and the inventory of the server.
func (e *jobExecutor) inspect(ctx context.Context, j job, c bmc.Client) error {
	description, err := c.Describe(ctx)
	if err != nil {
		return err
	}
	inspecting, cancel := withReserve(ctx)
	defer cancel()
	inventory, err := c.Inspect(inspecting)
	if err != nil {
		return err
	}
	status := &v1alpha1.BMCStatus{
		Protocol: controllers.Clip(description.Protocol, controllers.MaxText), Quirks: controllers.ClipAll(description.Quirks),
	}
	status.PowerRestorePolicy = controllers.OneOf(description.PowerRestorePolicy, v1alpha1.RestoreAlwaysOn, v1alpha1.RestoreAlwaysOff, v1alpha1.RestoreLastState)
	for _, capability := range description.Capabilities[:min(len(description.Capabilities), controllers.MaxItems)] {
		status.Capabilities = append(status.Capabilities, controllers.Clip(string(capability), controllers.MaxText))
	}
	for _, warning := range bmc.CheckDescription(description) {
		status.Warnings = append(status.Warnings, controllers.Clip(warning.String(), maxWarning))
	}
	if j.wantsSecureBoot {
		status.SecureBoot = readSecureBootState(inspecting, c)
	}
	e.observations.updateByJob(j, func(h *hostObservation) { h.noteInventory(inventory, status, truncateToSecond(e.clock.Now())) })
	return nil
}

// readSecureBootState returns whether Secure Boot is enabled for the next boot; empty if the BMC does not say it.
func readSecureBootState(ctx context.Context, c bmc.Client) wire.SecureBoot {
	booter, err := bmc.As[bmc.SecureBooter](c, "Read Secure Boot")
	var state bmc.SecureBoot
	if err == nil {
		state, err = booter.SecureBoot(ctx)
	}
	switch {
	case err != nil:
		return "" // the inventory is complete without it
	case state.Next():
		return wire.SecureBootEnabled
	default:
		return wire.SecureBootDisabled
	}
}

// maxWarning is the maximum length of a warning in the status.
const maxWarning = 512

// powerReadReserve is the part of a job's time that is reserved for reading the power state at the end.
const powerReadReserve = 20 * time.Second

// withReserve returns a context whose deadline is earlier than that of ctx by the reserve for the power state.
func withReserve(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-powerReadReserve))
}

// missingForBoot lists the capabilities that the boots of a host need and the BMC lacks. The network as a boot device is not missing if another boot method replaces
// it, or if the host does not boot by PXE.
func missingForBoot(capabilities []string, spec *v1alpha1.BareMetalHostSpec, mediaURL string) []string {
	missing := missingForNetworkBoot(capabilities, spec.BootMode)
	wants := func(m v1alpha1.BootMethod) bool {
		return len(spec.BootMethods) == 0 || slices.Contains(spec.BootMethods, m)
	}
	medium := mediaURL != "" && slices.ContainsFunc(offeredMethods(capabilities), func(m v1alpha1.BootMethod) bool {
		return wants(m) && (m == v1alpha1.MethodVirtualMedia || m == v1alpha1.MethodUefiHTTP && spec.BootMode != v1alpha1.BootModeBIOS)
	})
	if medium || !wants(v1alpha1.MethodPXE) {
		missing = slices.DeleteFunc(missing, func(name string) bool { return name == string(bmc.CanBootPXE) })
	}
	return missing
}

// missingForNetworkBoot lists the capabilities that a network boot in the host's mode needs and the BMC lacks. Legacy firmware has no HTTP boot.
func missingForNetworkBoot(capabilities []string, mode v1alpha1.BootMode) []string {
	usable := make([]bmc.Capability, 0, len(capabilities))
	for _, capability := range capabilities {
		if mode != v1alpha1.BootModeBIOS || capability != string(bmc.CanBootHTTP) {
			usable = append(usable, bmc.Capability(capability))
		}
	}
	var names []string
	for _, missing := range bmc.MissingForNetworkBoot(usable) {
		names = append(names, string(missing))
	}
	return names
}
