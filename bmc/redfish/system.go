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

// system is the ComputerSystem of a connection, with its BMC and its deviations. The capabilities find their resources by its links.
type system struct {
	resource // as last read

	service *service
	path    string
	quirk   quirk
	quirks  []string // names of the entries that quirk is made of
	manager resource // nil until it is asked for
	// onlySystemListed is true if the Systems collection was read and lists only this system.
	onlySystemListed bool
}

// resetCache drops the resources that were read.
func (s *system) resetCache() { s.resource, s.manager = nil, nil }

// find reads the system that the URL names, or the only one, and finds its quirks.
func (s *system) find(ctx context.Context) error {
	s.path = cleanLink(s.service.endpoint.URL.Path)
	if s.path == "" || s.path == "/" {
		system, err := s.onlySystem(ctx)
		if err != nil {
			return err
		}
		s.path, s.resource = system.link("@odata.id"), system
	} else if err := s.namedSystem(ctx); err != nil {
		return err
	}
	s.quirk, s.quirks = quirksOf(s.vendors(), s.text("Model"), "")
	return nil
}

// namedSystem reads the system that the URL names. If the path is not a system, the error is NotFound and lists the systems.
func (s *system) namedSystem(ctx context.Context) error {
	err := s.refresh(ctx)
	var what error
	switch {
	case err == nil && isSystem(s.resource):
		return nil
	case err == nil:
		kind, _, _ := strings.Cut(strings.TrimPrefix(s.text("@odata.type"), "#"), ".")
		what = fmt.Errorf("%s is not a ComputerSystem with power control, but %s", s.path, cmp.Or(kind, "something else"))
	case bmc.KindOf(err) == bmc.NotFound:
		what = errors.Unwrap(err)
	default:
		return err
	}
	servers, _ := s.servers(ctx) // after an error, it returns the systems read so far
	var names []string
	for _, server := range servers {
		names = append(names, server.link("@odata.id"))
	}
	hint := "the BMC lists no system"
	if len(names) > 0 {
		hint = "name one of the BMC's systems in the address: " + strings.Join(names, ", ")
	}
	return &bmc.Error{Kind: bmc.NotFound, Op: "Read system " + s.path, Err: fmt.Errorf("%w: %s", what, hint)}
}

// systemPaths lists the members of the Systems collection.
func (s *system) systemPaths(ctx context.Context) ([]string, error) {
	paths, _, err := s.service.collection(ctx, s.service.root.systems)
	return paths, err
}

// servers reads the servers among the members of the Systems collection, which also holds enclosures, accelerator baseboards, and
// links that lead nowhere. The error is that of the last system that could not be read.
func (s *system) servers(ctx context.Context) ([]resource, error) {
	paths, err := s.systemPaths(ctx)
	if err != nil {
		return nil, wrap("List the systems", err)
	}
	s.onlySystemListed = len(paths) == 1
	var (
		servers []resource
		last    error
	)
	for _, path := range paths {
		system, err := s.service.get(ctx, path)
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
func (s *system) onlySystem(ctx context.Context) (resource, error) {
	servers, err := s.servers(ctx)
	if kind := bmc.KindOf(err); err != nil && (kind == bmc.Unauthorized || kind == bmc.Unreachable) {
		return nil, err
	}
	var names []string
	for _, server := range servers {
		names = append(names, server.link("@odata.id"))
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
		return nil, &bmc.Error{Kind: bmc.NotFound, Op: "Find the system", Err: s.noServer(ctx)}
	}
}

// noServer describes a BMC without a server. It may have other systems, such as a DPU, which can be named in the address.
func (s *system) noServer(ctx context.Context) error {
	paths, _ := s.systemPaths(ctx) // after an error, the list is empty
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

// refresh reads the system from the BMC.
func (s *system) refresh(ctx context.Context) error {
	s.service.resetBudget()
	system, err := s.service.fetch(ctx, s.path)
	if err != nil {
		return wrap("Read system "+s.path, err)
	}
	if len(system) == 0 {
		return &bmc.Error{Kind: bmc.Failed, Op: "Read system " + s.path, Err: errors.New("the BMC's answer is empty")}
	}
	s.resource = system
	return nil
}

// refreshForInspection reads the system and starts the cache. Every other call reads the system again and drops the cache. If the system
// links to several devices and the service supports it, the devices are read together with the system.
func (s *system) refreshForInspection(ctx context.Context) error {
	devices := len(unique(s.links("PCIeDevices")))
	s.service.resetBudget()
	if devices > 2 && s.service.expand.query != "" && s.service.expand.resources {
		s.service.cache = map[string]resource{}
		if system, err := s.service.getExpanded(ctx, s.path, false); err == nil && isSystem(system) {
			s.resource = system
			return nil
		}
	}
	if err := s.refresh(ctx); err != nil {
		return err
	}
	s.service.cache = map[string]resource{s.path: s.resource}
	return nil
}

// settings returns the path of the settings object, also if the system does not link to it; "" if it has no settings object.
func (s *system) settings() string {
	if path := s.settingsObject(); path != "" {
		return path
	}
	if s.quirk.settings {
		return s.path + "/SD"
	}
	return ""
}

// vendors returns the manufacturer of the system and the vendor of the service.
func (s *system) vendors() []string { return []string{s.vendor(), s.service.root.vendor} }

// vendor returns the manufacturer of the system or, if the system does not report it, of the service.
func (s *system) vendor() string {
	if v := s.text("Manufacturer"); v != "" {
		return v
	}
	return s.service.root.vendor
}

// chassis reads the chassis that contain the system.
func (s *system) chassis(ctx context.Context) []resource {
	collection := s.service.root.chassis
	paths := s.links("Links", "Chassis")
	if len(paths) == 0 || s.service.cache != nil && s.service.expand.query != "" {
		all, _, _ := s.service.collection(ctx, collection) // with $expand, one request reads all chassis
		if len(paths) == 0 {
			return slices.DeleteFunc(s.service.readAll(ctx, all), s.belongsToOthers)
		}
	}
	return s.service.readAll(ctx, paths)
}

// belongsToOthers is true for a chassis that contains only other systems.
func (s *system) belongsToOthers(box resource) bool {
	systems := box.links("Links", "ComputerSystems")
	return len(systems) > 0 && !slices.Contains(systems, s.path)
}
