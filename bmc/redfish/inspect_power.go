package redfish

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// readPowerSupplies reads the power supplies of the system's chassis. If the chassis list no power supplies, it reads those of an enclosure that contains only
// this system.
func (n *inspection) readPowerSupplies(ctx context.Context) bmc.Fact {
	read := listing{}
	for _, box := range n.ownership.readOwnChassis(ctx) {
		read = read.and(n.suppliesOf(ctx, box))
	}
	if read.source == "" {
		read = n.ownership.unreadChassis
	}
	if len(read.members) == 0 && n.service.unavailable(ctx) == nil {
		for _, box := range n.ownership.enclosure(ctx) {
			read = read.and(n.suppliesOf(ctx, box))
		}
	}
	serials := map[string]bool{}
	for _, r := range read.members {
		serial := serialNumber(r.text("SerialNumber"))
		if isAbsent(r) || !isSupply(r) || serials[serial] || isFan(r, read.members) {
			continue
		}
		serials[serial] = serial != ""
		n.inventory.PowerSupplies = append(n.inventory.PowerSupplies, bmc.PowerSupply{
			Name: cmp.Or(dropPlaceholder(r.text("Name")), r.id(), r.text("MemberId")), Model: dropPlaceholder(r.text("Model")),
			Watts: ratedWatts(r), Health: healthOf(r),
		})
	}
	n.supplies = read
	fact := read.fact(len(n.inventory.PowerSupplies))
	if fact.State == bmc.FactKnown && fact.Message == "" && n.ownership.unreadChassis.source != "" {
		fact.Message = n.ownership.unreadChassis.reason() // it may have others
	}
	return fact
}

// ratedWatts returns the rated output of a power supply: the largest of its input ranges, if it has no rating of its own.
func ratedWatts(supply resource) int {
	ranges := int64(0)
	for _, r := range supply.list("InputRanges") {
		ranges = max(ranges, r.count("OutputWattage"), r.count("CapacityWatts"))
	}
	return bounded32(cmp.Or(supply.count("PowerCapacityWatts"), ranges))
}

// isFan is true for a fan module in the bay of a power supply, as Supermicro lists it: it has neither a rating nor an input, and the power supplies beside it have a rating.
func isFan(r resource, all []resource) bool {
	hasRating := func(other resource) bool { return ratedWatts(other) > 0 }
	isDead := healthOf(r) != bmc.HealthOK // a power supply without an input
	return !hasRating(r) && !isDead && r.hasProperty("LineInputVoltage") && !r.has("LineInputVoltage") && slices.ContainsFunc(all, hasRating)
}

// isSupply is false for an entry that has only a name: the BMC cannot read that bay.
func isSupply(r resource) bool {
	return r.text("Status", "State") != "" || dropPlaceholder(r.text("Model")) != "" || serialNumber(r.text("SerialNumber")) != "" || r.count("PowerCapacityWatts") > 0
}

// suppliesOf reads the power supplies of a chassis: those of the power subsystem, or the older list of its Power.
func (n *inspection) suppliesOf(ctx context.Context, box resource) listing {
	link := box.link("PowerSubsystem")
	subsystem := n.service.readOptional(ctx, link)
	newer := n.service.list(ctx, subsystem.link("PowerSupplies"))
	if len(newer.members) > 0 {
		return newer
	}
	path := box.link("Power")
	switch {
	case path == "" && link != "" && subsystem == nil:
		return listing{source: link, err: errors.New("the power subsystem cannot be read")}
	case path == "", n.service.unavailable(ctx) != nil:
		return newer
	}
	power, err := n.service.get(ctx, path)
	if err != nil {
		return listing{source: path, err: err}
	}
	supplies := power.list("PowerSupplies")
	if len(supplies) == 0 && newer.source != "" {
		return newer
	}
	return listing{source: path, members: supplies, total: len(supplies), inconclusive: !power.has("PowerSupplies")}
}
