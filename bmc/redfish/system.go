package redfish

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// findSystem reads the system that the URL names, or the only one there is, and looks up its quirks.
func (c *conn) findSystem(ctx context.Context) error {
	c.path = cleanLink(c.endpoint.URL.Path)
	if c.path == "" || c.path == "/" {
		system, err := c.onlySystem(ctx)
		if err != nil {
			return err
		}
		c.path, c.system = system.link("@odata.id"), system
	} else if err := c.refresh(ctx); err != nil {
		return err
	}
	c.quirk, c.quirks = quirksOf(c.vendor(), c.system.text("Model"), "")
	return nil
}

// onlySystem finds the one server among the members of the Systems collection, which also holds enclosures, accelerator
// baseboards, and links that lead nowhere.
func (c *conn) onlySystem(ctx context.Context) (resource, error) {
	root, err := c.get(ctx, "/redfish/v1")
	if err != nil {
		return nil, wrap("Read the service root", err)
	}
	collection := root.link("Systems")
	if collection == "" {
		collection = "/redfish/v1/Systems"
	}
	paths, _, err := c.collection(ctx, collection)
	if err != nil {
		return nil, wrap("List the systems", err)
	}
	var (
		servers []resource
		names   []string
		last    error
	)
	for _, path := range paths {
		system, err := c.get(ctx, path)
		if err != nil {
			last = errors.Join(wrap("Read system "+path, err), ctx.Err())
			if kind := bmc.KindOf(last); kind == bmc.Unauthorized || kind == bmc.Unreachable {
				return nil, last
			}
			continue
		}
		if isServer(system) {
			system["@odata.id"] = path
			servers, names = append(servers, system), append(names, path)
		}
	}
	switch {
	case len(servers) == 1:
		return servers[0], nil
	case len(servers) > 1:
		return nil, &bmc.Error{Kind: bmc.NotFound, Op: "Find the system", Err: fmt.Errorf(
			"the BMC manages %d systems: name one of them in the address: %s", len(names), strings.Join(names, ", "))}
	case last != nil:
		return nil, last
	default:
		return nil, &bmc.Error{Kind: bmc.NotFound, Op: "Find the system", Err: errors.New("the BMC manages no server")}
	}
}

// isServer tells servers from what else stands among the systems: a server has a power state or can be reset, and is of a type
// that boots an operating system.
func isServer(system resource) bool {
	switch schemas.SystemType(system.text("SystemType")) {
	case "", schemas.PhysicalSystemType, schemas.VirtualSystemType, schemas.OSSystemType, schemas.PhysicallyPartitionedSystemType,
		schemas.VirtuallyPartitionedSystemType, schemas.ComposedSystemType:
	default:
		return false
	}
	if id := system.id(); strings.HasPrefix(id, "HGX_") || id == "Bluefield" {
		return false // NVIDIA's accelerator baseboards and DPUs stand beside the host, or alone, as systems of their own
	}
	return system.text("PowerState") != "" || system.has("Actions", resetAction)
}

// refresh reads the system afresh.
func (c *conn) refresh(ctx context.Context) error {
	c.requests, c.bytes = 0, 0
	if bmc.KindOf(wrap("", c.fatal)) != bmc.Unauthorized {
		c.fatal = nil
	}
	system, err := c.get(ctx, c.path)
	if err != nil {
		return wrap("Read system "+c.path, err)
	}
	if len(system) == 0 {
		return &bmc.Error{Kind: bmc.Failed, Op: "Read system " + c.path, Err: errors.New("the BMC's answer is empty")}
	}
	c.system = system
	return nil
}

// managers returns the paths of the BMCs of the system.
func (c *conn) managers(ctx context.Context) []string {
	if paths := c.system.links("Links", "ManagedBy"); len(paths) > 0 {
		return paths
	}
	paths, _, _ := c.collection(ctx, "/redfish/v1/Managers") // without managers there is nothing to tell
	return paths
}

// readManager reads the BMC's own resource, once.
func (c *conn) readManager(ctx context.Context) resource {
	if c.manager != nil {
		return c.manager
	}
	for _, m := range c.all(ctx, c.managers(ctx)) {
		if c.manager == nil || c.manager.text("FirmwareVersion") == "" {
			c.manager = m
		}
	}
	if c.manager != nil {
		c.quirk, c.quirks = quirksOf(c.vendor(), c.system.text("Model"), c.manager.text("FirmwareVersion"))
	}
	return c.manager
}

// Describe tells what the BMC says of itself.
func (c *conn) Describe(ctx context.Context) (bmc.Description, error) {
	if err := c.refresh(ctx); err != nil {
		return bmc.Description{}, err
	}
	manager := c.readManager(ctx)
	description := bmc.Description{
		Protocol: strings.TrimSpace("Redfish " + c.api.Service.RedfishVersion), Vendor: c.vendor(), Model: c.system.text("Model"),
		FirmwareVersion: manager.text("FirmwareVersion"), Path: c.path, Quirks: c.quirks,
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
	for target, capability := range map[bmc.BootTarget]bmc.Capability{
		bmc.BootPXE: bmc.CanBootPXE, bmc.BootHTTP: bmc.CanBootHTTP, bmc.BootDisk: bmc.CanBootDisk, bmc.BootCD: bmc.CanBootCD,
	} {
		_, err := c.target(bmc.BootOverride{Target: target, Mode: bmc.BootUEFI})
		add(capability, err == nil && c.system.has("Boot"))
	}
	drives, err := c.drives(ctx)
	add(bmc.CanVirtualMedia, err == nil && slices.ContainsFunc(drives, c.isOptical))
	add(bmc.CanSecureBoot, c.try(ctx, c.system.link("SecureBoot")) != nil)
	add(bmc.CanSensors, len(c.sensorSources(ctx)) > 0)
	add(bmc.CanEventLog, c.logEntries(ctx) != "")
	add(bmc.CanClock, manager.text("DateTime") != "")
	// A capability that was not looked at in time is not missing.
	if err := c.ended(ctx); err != nil {
		return bmc.Description{}, wrap("Describe", err)
	}
	slices.Sort(description.Capabilities)
	return description, nil
}
