package redfish

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// NVIDIA lists the board with the GPUs, and on Grace servers the CPUs and the memory, as a system of its own beside the server.

// readBaseboards reads the systems that are a part of this server and no servers, once.
func (n *inspection) readBaseboards(ctx context.Context) []resource {
	if n.onlySystemListed || n.baseboards != nil {
		return n.baseboards
	}
	n.baseboards = []resource{}
	paths, _ := n.systemPaths(ctx) // after an error, no other system is read
	for _, system := range n.readAll(ctx, paths) {
		if system.link("@odata.id") != n.path && n.isOnlyServer(ctx) {
			n.baseboards = append(n.baseboards, system)
		}
	}
	return n.baseboards
}

// boardPrefix is the prefix of the Ids of baseboards and of their parts.
const boardPrefix = "HGX_"

// isHostBoard is true for a baseboard, and false for a DPU, which is a computer with CPUs and memory of its own.
func isHostBoard(system resource) bool { return strings.HasPrefix(system.id(), boardPrefix) }

// boardCPUs lists the CPUs of the server's baseboards.
func (n *inspection) boardCPUs(ctx context.Context) listing {
	found := listing{}
	for _, board := range n.readBaseboards(ctx) {
		if isHostBoard(board) {
			of := n.list(ctx, board.link("Processors"))
			unread := of.total - len(of.members)
			of.members = slices.DeleteFunc(of.members, func(p resource) bool { return !isCPU(p) })
			of.total = len(of.members) + unread
			found = found.and(of)
		}
	}
	return found
}

// fromBaseboards lists a collection of the server's baseboards, if the system's own collection has no member.
func (n *inspection) fromBaseboards(ctx context.Context, own listing, name string) listing {
	if len(own.members) > 0 {
		return own
	}
	for _, board := range n.readBaseboards(ctx) {
		if isHostBoard(board) {
			own = own.and(n.list(ctx, board.link(name)))
		}
	}
	return own
}

// architectureName matches the name of an architecture in the place of a processor's model.
var architectureName = regexp.MustCompile(`(?i)^arm(v\d+)?([-_. ].*)?$`)

// productName returns the model of the CPUs by the baseboards, if the system gives only their architecture.
func (n *inspection) productName(ctx context.Context, model string) string {
	if model != "" && !architectureName.MatchString(model) {
		return model
	}
	for _, board := range n.readBaseboards(ctx) {
		if !isHostBoard(board) {
			continue
		}
		for _, p := range n.list(ctx, board.link("Processors")).members {
			if name := modelOf(p); isCPU(p) && !isAbsent(p) && name != "" && !architectureName.MatchString(name) {
				return name
			}
		}
	}
	return model
}

// partTypes are the types of chassis that are a part of a server: their serial numbers are those of parts.
var partTypes = []string{"Component", "Module", "Card", "Cartridge", "Row", "Zone", "Drawer", "Rack", "Pod", "StorageEnclosure"}

// completeIdentity reads the serial number and the version of the firmware elsewhere, if the system does not report them.
func (n *inspection) completeIdentity(ctx context.Context) {
	i := &n.inventory
	if i.SerialNumber == "" && n.unavailable(ctx) == nil {
		serial, source := n.serialElsewhere(ctx)
		n.setKnown(bmc.FactSerialNumber, &i.SerialNumber, serial, source)
	}
	if i.FirmwareVersion == "" && n.unavailable(ctx) == nil && n.isOnlyServer(ctx) {
		version, source := n.firmwareElsewhere(ctx)
		n.setKnown(bmc.FactFirmwareVersion, &i.FirmwareVersion, version, source)
	}
}

func (n *inspection) setKnown(name bmc.FactName, field *string, value, source string) {
	if value != "" {
		*field = value
		n.inventory.SetFact(bmc.Fact{Name: name, State: bmc.FactKnown, Source: source})
	}
}

// serialElsewhere returns the serial number of the only outermost chassis of this system alone that has one or, if no chassis has, that of its baseboard, with its source. It
// returns none if a chassis could not be read: the next inspection would find another one.
func (n *inspection) serialElsewhere(ctx context.Context) (serial, source string) {
	own := n.readOwnChassis(ctx)
	if n.unreadChassis.source != "" {
		return "", ""
	}
	var candidates []resource
	for _, box := range own {
		outer := box.link("Links", "ContainedBy")
		inner := slices.ContainsFunc(own, func(other resource) bool { return other.link("@odata.id") == outer })
		systems := box.links("Links", "ComputerSystems")
		alone := len(systems) == 1 && systems[0] == n.path
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
	for _, board := range n.readBaseboards(ctx) {
		if serial := serialNumber(board.text("SerialNumber")); serial != "" && isHostBoard(board) {
			return serial, board.link("@odata.id")
		}
	}
	return "", ""
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
func (n *inspection) firmwareElsewhere(ctx context.Context) (version, source string) {
	update := n.readOptional(ctx, n.root.link("UpdateService"))
	paths, _, _ := n.collection(ctx, update.link("FirmwareInventory")) // after an error, the list is empty
	entries := slices.DeleteFunc(n.readAll(ctx, paths[:min(len(paths), maxSoftware)]), func(r resource) bool {
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
