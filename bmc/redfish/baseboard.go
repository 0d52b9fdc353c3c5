package redfish

import (
	"context"
	"regexp"
	"slices"
	"strings"
)

// NVIDIA lists the board with the GPUs, and on Grace servers the CPUs and the memory, as a system of its own beside the server.

// readBaseboards reads the systems that are a part of this server and no servers, once.
func (o *ownership) readBaseboards(ctx context.Context) []resource {
	if o.system.onlySystemListed || o.baseboards != nil {
		return o.baseboards
	}
	o.baseboards = []resource{}
	paths, _ := o.system.systemPaths(ctx) // after an error, no other system is read
	for _, system := range o.service.readAll(ctx, paths) {
		if system.link("@odata.id") != o.system.path && o.isOnlyServer(ctx) {
			o.baseboards = append(o.baseboards, system)
		}
	}
	return o.baseboards
}

// boardPrefix is the prefix of the Ids of baseboards and of their parts.
const boardPrefix = "HGX_"

// isHostBoard is true for a baseboard, and false for a DPU, which is a computer with CPUs and memory of its own.
func isHostBoard(system resource) bool { return strings.HasPrefix(system.id(), boardPrefix) }

// boardCPUs lists the CPUs of the server's baseboards.
func (o *ownership) boardCPUs(ctx context.Context) listing {
	found := listing{}
	for _, board := range o.readBaseboards(ctx) {
		if isHostBoard(board) {
			of := o.service.list(ctx, board.link("Processors"))
			unread := of.total - len(of.members)
			of.members = slices.DeleteFunc(of.members, func(p resource) bool { return !isCPU(p) })
			of.total = len(of.members) + unread
			found = found.and(of)
		}
	}
	return found
}

// fromBaseboards lists a collection of the server's baseboards, if the system's own collection has no member.
func (o *ownership) fromBaseboards(ctx context.Context, own listing, name string) listing {
	if len(own.members) > 0 {
		return own
	}
	for _, board := range o.readBaseboards(ctx) {
		if isHostBoard(board) {
			own = own.and(o.service.list(ctx, board.link(name)))
		}
	}
	return own
}

// architectureName matches the name of an architecture in the place of a processor's model.
var architectureName = regexp.MustCompile(`(?i)^arm(v\d+)?([-_. ].*)?$`)

// productName returns the model of the CPUs by the baseboards, if the system gives only their architecture.
func (o *ownership) productName(ctx context.Context, model string) string {
	if model != "" && !architectureName.MatchString(model) {
		return model
	}
	for _, board := range o.readBaseboards(ctx) {
		if !isHostBoard(board) {
			continue
		}
		for _, p := range o.service.list(ctx, board.link("Processors")).members {
			if name := modelOf(p); isCPU(p) && !isAbsent(p) && name != "" && !architectureName.MatchString(name) {
				return name
			}
		}
	}
	return model
}

// partTypes are the types of chassis that are a part of a server: their serial numbers are those of parts.
var partTypes = []string{"Component", "Module", "Card", "Cartridge", "Row", "Zone", "Drawer", "Rack", "Pod", "StorageEnclosure"}

// serialElsewhere returns the serial number of the only outermost chassis of this system alone that has one or, if no chassis has, that of its baseboard, with its source. It
// returns none if a chassis could not be read: the next inspection would find another one.
func (o *ownership) serialElsewhere(ctx context.Context) (serial, source string) {
	own := o.readOwnChassis(ctx)
	if o.unreadChassis.source != "" {
		return "", ""
	}
	var candidates []resource
	for _, box := range own {
		outer := box.link("Links", "ContainedBy")
		inner := slices.ContainsFunc(own, func(other resource) bool { return other.link("@odata.id") == outer })
		systems := box.links("Links", "ComputerSystems")
		alone := len(systems) == 1 && systems[0] == o.system.path
		if serialNumber(box.text("SerialNumber")) != "" && alone && !inner && !slices.Contains(partTypes, box.text("ChassisType")) {
			candidates = append(candidates, box)
		}
	}
	if len(candidates) > 0 {
		if len(candidates) > 1 {
			return "", ""
		}
		return serialNumber(candidates[0].text("SerialNumber")), candidates[0].link("@odata.id")
	}
	for _, board := range o.readBaseboards(ctx) {
		if serial := serialNumber(board.text("SerialNumber")); serial != "" && isHostBoard(board) {
			return serial, board.link("@odata.id")
		}
	}
	return "", ""
}
