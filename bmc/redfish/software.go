package redfish

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// software reads the software inventory of the service (DSP0268, UpdateService.FirmwareInventory).
type software struct{ service *service }

// managerVersion returns the version of a manager's firmware and, if the manager does not have it, the entry of the software inventory that has.
func (s *software) managerVersion(ctx context.Context, manager resource) (version, source string) {
	if version = dropPlaceholder(manager.text("FirmwareVersion")); version != "" || manager == nil {
		return version, ""
	}
	if software := s.entryOf(ctx, manager); software != nil {
		return dropPlaceholder(software.text("Version")), software.link("@odata.id")
	}
	return "", ""
}

// entryOf reads the entry of a manager in the software inventory: the one that it links to as active, or the one with its Id.
func (s *software) entryOf(ctx context.Context, manager resource) resource {
	path := manager.link("Links", "ActiveSoftwareImage")
	if path == "" {
		update := s.service.readOptional(ctx, s.service.root.updates)
		paths, _, _ := s.service.collection(ctx, update.link("FirmwareInventory")) // after an error, the list is empty
		for _, candidate := range paths {
			if strings.EqualFold(candidate[strings.LastIndex(candidate, "/")+1:], manager.id()) {
				path = candidate
			}
		}
	}
	if software := s.service.readOptional(ctx, path); software != nil {
		return software.at(path)
	}
	return nil
}

// hostFirmware matches the names of the firmware of the host's CPUs in the software inventory. boardFirmware
// matches the firmware of NVIDIA's Grace. Its version has dots if it is a version of UEFI.
var (
	hostFirmware  = regexp.MustCompile(`(?i)^(system )?(bios|uefi)( firmware)?$`)
	boardFirmware = regexp.MustCompile(`^HGX_FW_CPU_0$`)
	// otherImage matches the Ids of images that do not run.
	otherImage = regexp.MustCompile(`(?i)previous|available|backup|golden|staging|pending|alternate|secondary`)
)

// maxSoftware is how many entries of the software inventory are read. A server with accelerators has some dozens.
const maxSoftware = 128

// firmwareElsewhere returns the version of the firmware by the software inventory, with its source.
func (s *software) firmwareElsewhere(ctx context.Context) (version, source string) {
	update := s.service.readOptional(ctx, s.service.root.updates)
	paths, _, _ := s.service.collection(ctx, update.link("FirmwareInventory")) // after an error, the list is empty
	entries := slices.DeleteFunc(s.service.readAll(ctx, paths[:min(len(paths), maxSoftware)]), func(r resource) bool {
		return dropPlaceholder(r.text("Version")) == "" || otherImage.MatchString(r.id())
	})
	for _, matches := range []func(resource) bool{
		func(r resource) bool { return hostFirmware.MatchString(r.id()) },
		func(r resource) bool { return hostFirmware.MatchString(r.text("Name")) },
		func(r resource) bool {
			return boardFirmware.MatchString(r.id()) && strings.Contains(r.text("Version"), ".")
		},
	} {
		if at := slices.IndexFunc(entries, matches); at >= 0 {
			return dropPlaceholder(entries[at].text("Version")), entries[at].link("@odata.id")
		}
	}
	return "", ""
}
