package redfish

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Describe returns the BMC's protocol, model and capabilities. It caches the resources for an inspection in the same job.
func (c *conn) Describe(ctx context.Context) (bmc.Description, error) {
	if err := c.system.refreshForInspection(ctx); err != nil {
		return bmc.Description{}, err
	}
	manager := c.system.readManager(ctx)
	version, _ := c.software.managerVersion(ctx, manager)
	description := bmc.Description{
		Protocol: strings.TrimSpace("Redfish " + c.service.root.version), Vendor: c.system.vendor(), Model: c.system.text("Model"),
		FirmwareVersion: version, Path: c.system.path, Quirks: c.system.quirks,
		Capabilities: []bmc.Capability{bmc.CanInventory},
	}
	add := func(capability bmc.Capability, can bool) {
		if can {
			description.Capabilities = append(description.Capabilities, capability)
		}
	}
	for capability, command := range commands {
		_, err := c.resetType(ctx, command)
		add(capability, err == nil)
	}
	boots := c.bootTargets(ctx)
	for target, capability := range map[bmc.BootTarget]bmc.Capability{
		bmc.BootPXE: bmc.CanBootPXE, bmc.BootHTTP: bmc.CanBootHTTP, bmc.BootDisk: bmc.CanBootDisk, bmc.BootCD: bmc.CanBootCD,
	} {
		add(capability, slices.Contains(boots, target))
	}
	drives, err := c.drives(ctx)
	add(bmc.CanVirtualMedia, err == nil && slices.ContainsFunc(drives, isOptical))
	add(bmc.CanSecureBoot, hasSwitch(c.service.readOptional(ctx, c.system.link("SecureBoot"))))
	add(bmc.CanBIOSSettings, hasAttributes(c.service.readOptional(ctx, c.system.link("Bios"))))
	add(bmc.CanSensors, slices.ContainsFunc(c.sensorSources(ctx), func(path string) bool { return c.service.readOptional(ctx, path) != nil }))
	add(bmc.CanEventLog, slices.ContainsFunc(c.findLogs(ctx), func(log bmc.LogSource) bool { return c.service.readOptional(ctx, log.Name) != nil }))
	clock := c.clock(ctx)
	at, err := parseTime(clock.text("DateTime"), clock.text("DateTimeLocalOffset"))
	add(bmc.CanClock, err == nil)
	if err == nil {
		description.ClockAhead = new(time.Until(at))
	}
	if policy := c.system.text("PowerRestorePolicy"); slices.Contains(restorePolicies, policy) {
		description.PowerRestorePolicy = policy
	}
	sessions, _, _ := c.service.collection(ctx, c.service.root.sessions) // after an error, the list is empty
	description.OpenSessions = len(sessions)
	// A capability that could not be read is not necessarily missing.
	if err := c.service.unavailable(ctx); err != nil {
		c.service.cache = nil
		return bmc.Description{}, wrap("Describe", err)
	}
	slices.Sort(description.Capabilities)
	return description, nil
}

// restorePolicies are the values of PowerRestorePolicy (DSP0268, ComputerSystem).
var restorePolicies = []string{"AlwaysOn", "AlwaysOff", "LastState"}
