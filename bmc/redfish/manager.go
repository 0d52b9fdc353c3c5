package redfish

import (
	"context"
	"slices"
	"strings"
)

// managers returns the paths of the BMCs of the system.
func (s *system) managers(ctx context.Context) []string {
	if paths := s.links("Links", "ManagedBy"); len(paths) > 0 {
		return paths
	}
	paths, _, _ := s.service.collection(ctx, s.service.root.managers) // without managers the list is empty
	return paths
}

// readManager reads the manager that is the BMC of the system, once. Services may have further managers of enclosures, of accelerators
// and of other systems.
func (s *system) readManager(ctx context.Context) resource {
	if s.manager != nil {
		return s.manager
	}
	linked := s.links("Links", "ManagedBy")
	var bmcs []resource
	for _, m := range s.service.readAll(ctx, s.managers(ctx)) {
		servers := m.links("Links", "ManagerForServers")
		switch kind := m.text("ManagerType"); {
		case kind == "AuxiliaryController", strings.HasPrefix(m.id(), "HGX_"): // the latter manages accelerators (NVIDIA)
		case len(linked) > 0, slices.Contains(servers, s.path):
			if s.manager == nil {
				s.manager = m
			}
		case len(servers) == 0 && (kind == "BMC" || kind == ""):
			bmcs = append(bmcs, m)
		}
	}
	if s.manager == nil && len(bmcs) == 1 {
		s.manager = bmcs[0]
	}
	if s.manager != nil {
		s.quirk, s.quirks = quirksOf(s.vendors(), s.text("Model"), s.manager.text("FirmwareVersion"))
	}
	return s.manager
}

// ownManagers reads the managers that the system links to or, without links, the one that readManager finds.
func (s *system) ownManagers(ctx context.Context) []resource {
	if paths := s.links("Links", "ManagedBy"); len(paths) > 0 {
		return s.service.readAll(ctx, paths)
	}
	if m := s.readManager(ctx); m != nil {
		return []resource{m}
	}
	return nil
}
