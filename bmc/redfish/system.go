package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// findSystem reads the system that the URL names, or the only one, and finds its quirks.
func (c *conn) findSystem(ctx context.Context) error {
	c.path = cleanLink(c.endpoint.URL.Path)
	if c.path == "" || c.path == "/" {
		system, err := c.onlySystem(ctx)
		if err != nil {
			return err
		}
		c.path, c.system = system.link("@odata.id"), system
	} else if err := c.namedSystem(ctx); err != nil {
		return err
	}
	c.quirk, c.quirks = quirksOf(c.vendors(), c.system.text("Model"), "")
	c.usesBootOrder = c.hasBootOrder() && !offersOverride(c.system) && c.settings() == ""
	return nil
}

// namedSystem reads the system that the URL names. If the path is not a system, the error is NotFound and lists the systems.
func (c *conn) namedSystem(ctx context.Context) error {
	err := c.refresh(ctx)
	var what error
	switch {
	case err == nil && isSystem(c.system):
		return nil
	case err == nil:
		kind, _, _ := strings.Cut(strings.TrimPrefix(c.system.text("@odata.type"), "#"), ".")
		what = fmt.Errorf("%s is not a ComputerSystem with power control, but %s", c.path, cmp.Or(kind, "something else"))
	case bmc.KindOf(err) == bmc.NotFound:
		what = errors.Unwrap(err)
	default:
		return err
	}
	servers, _ := c.servers(ctx) // after an error, it returns the systems read so far
	var names []string
	for _, s := range servers {
		names = append(names, s.link("@odata.id"))
	}
	hint := "the BMC lists no system"
	if len(names) > 0 {
		hint = "name one of the BMC's systems in the address: " + strings.Join(names, ", ")
	}
	return &bmc.Error{Kind: bmc.NotFound, Op: "Read system " + c.path, Err: fmt.Errorf("%w: %s", what, hint)}
}

// systemPaths lists the members of the Systems collection.
func (c *conn) systemPaths(ctx context.Context) ([]string, error) {
	paths, _, err := c.collection(ctx, cmp.Or(c.root.link("Systems"), "/redfish/v1/Systems"))
	return paths, err
}

// servers reads the servers among the members of the Systems collection, which also holds enclosures, accelerator baseboards, and
// links that lead nowhere. The error is that of the last system that could not be read.
func (c *conn) servers(ctx context.Context) ([]resource, error) {
	paths, err := c.systemPaths(ctx)
	if err != nil {
		return nil, wrap("List the systems", err)
	}
	c.onlySystemListed = len(paths) == 1
	var (
		servers []resource
		last    error
	)
	for _, path := range paths {
		system, err := c.get(ctx, path)
		if err != nil {
			last = errors.Join(wrap("Read system "+path, err), ctx.Err())
			if kind := bmc.KindOf(last); kind == bmc.Unauthorized || kind == bmc.Unreachable {
				return servers, last
			}
			continue
		}
		if isServer(system) {
			servers = append(servers, system.at(path))
		}
	}
	return servers, last
}

// onlySystem finds the only server that the BMC manages.
func (c *conn) onlySystem(ctx context.Context) (resource, error) {
	servers, err := c.servers(ctx)
	if kind := bmc.KindOf(err); err != nil && (kind == bmc.Unauthorized || kind == bmc.Unreachable) {
		return nil, err
	}
	var names []string
	for _, s := range servers {
		names = append(names, s.link("@odata.id"))
	}
	switch {
	case len(servers) == 1:
		return servers[0], nil
	case len(servers) > 1:
		return nil, &bmc.Error{Kind: bmc.NotFound, Op: "Find the system", Err: fmt.Errorf(
			"the BMC manages %d systems: name one of them in the address: %s", len(names), strings.Join(names, ", "))}
	case err != nil:
		return nil, err
	default:
		return nil, &bmc.Error{Kind: bmc.NotFound, Op: "Find the system", Err: c.noServer(ctx)}
	}
}

// noServer describes a BMC without a server. It may have other systems, such as a DPU, which can be named in the address.
func (c *conn) noServer(ctx context.Context) error {
	paths, _ := c.systemPaths(ctx) // after an error, the list is empty
	if len(paths) == 0 {
		return errors.New("the BMC manages no server")
	}
	return fmt.Errorf("the BMC manages no server, only %s: to use one of them, name it in the address", strings.Join(paths, ", "))
}

// isSystem is true for a ComputerSystem with power control. Settings objects and templates for composition have the same type, but no power
// control.
func isSystem(r resource) bool {
	kind := strings.TrimPrefix(r.text("@odata.type"), "#")
	if kind != "" && !strings.HasPrefix(kind, "ComputerSystem.") {
		return false
	}
	return r.text("PowerState") != "" || r.object("Actions", resetAction) != nil
}

// isServer is true for a system that is a server: it has a power state or a reset action, and its type boots an operating system.
func isServer(system resource) bool {
	switch schemas.SystemType(system.text("SystemType")) {
	case "", schemas.PhysicalSystemType, schemas.VirtualSystemType, schemas.OSSystemType, schemas.PhysicallyPartitionedSystemType,
		schemas.VirtuallyPartitionedSystemType, schemas.ComposedSystemType:
	default:
		return false
	}
	if id := system.id(); strings.HasPrefix(id, "HGX_") || id == "Bluefield" {
		return false // NVIDIA lists accelerator baseboards and DPUs as separate systems, with or without the host
	}
	return isSystem(system)
}

// resetBudget resets the limits at the start of a call, and clears the fatal error of the previous call, unless a login was refused.
func (c *conn) resetBudget() {
	c.requests, c.bytes, c.cache = 0, 0, nil
	if bmc.KindOf(wrap("", c.fatal)) != bmc.Unauthorized {
		c.fatal = nil
	}
}

// refresh reads the system from the BMC.
func (c *conn) refresh(ctx context.Context) error {
	c.resetBudget()
	system, err := c.fetch(ctx, c.path)
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
	paths, _, _ := c.collection(ctx, cmp.Or(c.root.link("Managers"), "/redfish/v1/Managers")) // without managers the list is empty
	return paths
}

// readManager reads the manager that is the BMC of the system, once. Services may have further managers of enclosures, of accelerators
// and of other systems.
func (c *conn) readManager(ctx context.Context) resource {
	if c.manager != nil {
		return c.manager
	}
	linked := c.system.links("Links", "ManagedBy")
	var bmcs []resource
	for _, m := range c.readAll(ctx, c.managers(ctx)) {
		servers := m.links("Links", "ManagerForServers")
		switch kind := m.text("ManagerType"); {
		case kind == "AuxiliaryController", strings.HasPrefix(m.id(), "HGX_"): // the latter manages accelerators (NVIDIA)
		case len(linked) > 0, slices.Contains(servers, c.path):
			if c.manager == nil {
				c.manager = m
			}
		case len(servers) == 0 && (kind == "BMC" || kind == ""):
			bmcs = append(bmcs, m)
		}
	}
	if c.manager == nil && len(bmcs) == 1 {
		c.manager = bmcs[0]
	}
	if c.manager != nil {
		c.quirk, c.quirks = quirksOf(c.vendors(), c.system.text("Model"), c.manager.text("FirmwareVersion"))
	}
	return c.manager
}

// ownManagers reads the managers that the system links to or, without links, the one that readManager finds.
func (c *conn) ownManagers(ctx context.Context) []resource {
	if paths := c.system.links("Links", "ManagedBy"); len(paths) > 0 {
		return c.readAll(ctx, paths)
	}
	if m := c.readManager(ctx); m != nil {
		return []resource{m}
	}
	return nil
}
