package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// inspection reads the inventory of one server.
type inspection struct {
	*conn

	inventory bmc.Inventory
	// processors are the members of the Processors collection, including accelerators.
	processors listing
	// ownChassis are the chassis that contain only this system; nil until they are read. unreadChassis is a chassis that could not be read.
	ownChassis    []resource
	unreadChassis listing
	// notNICs are the MAC addresses and paths of interfaces that are not the server's own.
	notNICs map[string]bool
	// baseboards are the systems that are a part of this server; nil until they are read.
	baseboards []resource
	// functionReads counts the functions of PCIe devices that were read one by one.
	functionReads int
	// onlyServer is true if the BMC manages no other server; nil until it is read.
	onlyServer *bool
}

// Inspect reads the inventory, the most important parts first.
func (c *conn) Inspect(ctx context.Context) (bmc.Inventory, error) {
	if c.cache == nil { // no description precedes it
		if err := c.refreshForInspection(ctx); err != nil {
			return bmc.Inventory{}, err
		}
	}
	defer func() { c.cache = nil }()
	n := &inspection{conn: c}
	n.identity()
	for _, part := range []struct {
		name bmc.FactName
		read func(context.Context) bmc.Fact
	}{
		{bmc.FactBMCFirmwareVersion, n.readFirmware},
		{bmc.FactCPU, n.readCPU},
		{bmc.FactMemory, n.readMemory},
		{bmc.FactNICs, n.readNICs},
		{bmc.FactDisks, n.readDisks},
		{bmc.FactPowerSupplies, n.readPowerSupplies},
		{bmc.FactDevices, n.readDevices}, // by far the slowest, where each function of each device is a request
	} {
		fact := bmc.Fact{}
		if c.unavailable(ctx) == nil {
			fact = part.read(ctx)
		}
		if err := c.unavailable(ctx); err != nil {
			if !outOfTime(ctx, err) {
				return bmc.Inventory{}, wrap("Inspect", err)
			}
			fact.State, fact.TimedOut = bmc.FactUnknown, true
			fact.Message = "the inspection timed out before everything was read: the next inspection reads it again"
		}
		fact.Name = part.name
		n.inventory.SetFact(fact)
		if part.name == bmc.FactPowerSupplies {
			n.completeIdentity(ctx)
		}
	}
	return n.inventory, nil
}

// refreshForInspection reads the system and starts the cache. Every other call reads the system again and drops the cache. If the system
// links to several devices and the service supports it, the devices are read together with the system.
func (c *conn) refreshForInspection(ctx context.Context) error {
	devices := len(unique(c.system.links("PCIeDevices")))
	c.resetBudget()
	if devices > 2 && c.expand.query != "" && c.expand.resources {
		c.cache = map[string]resource{}
		if system, err := c.getExpanded(ctx, c.path, false); err == nil && isSystem(system) {
			c.system = system
			return nil
		}
	}
	if err := c.refresh(ctx); err != nil {
		return err
	}
	c.cache = map[string]resource{c.path: c.system}
	return nil
}

// outOfTime is true if an inspection ended because the BMC was too slow, and not because the BMC became unreachable, refused the login, or
// ctx was canceled.
func outOfTime(ctx context.Context, err error) bool {
	var network net.Error
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return false
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return true
	default:
		return errors.As(err, &network) && network.Timeout()
	}
}

// identity reads the properties of the system resource.
func (n *inspection) identity() {
	s, i := n.system, &n.inventory
	i.Manufacturer, i.Model, i.Health = dropPlaceholder(s.text("Manufacturer")), dropPlaceholder(s.text("Model")), healthOf(s)
	i.SerialNumber = serialNumber(s.text("SerialNumber"))
	if i.SerialNumber == "" && n.quirk.serialInSKU {
		i.SerialNumber = serialNumber(s.text("SKU"))
	}
	i.SystemUUID, i.FirmwareVersion = uuidOf(s.text("UUID")), dropPlaceholder(s.text("BiosVersion"))
	for name, value := range map[bmc.FactName]string{
		bmc.FactSerialNumber: i.SerialNumber, bmc.FactSystemUUID: i.SystemUUID, bmc.FactFirmwareVersion: i.FirmwareVersion,
	} {
		i.SetFact(n.fact(name, value))
	}
}

// fact is Known if the property of the system is not empty.
func (n *inspection) fact(name bmc.FactName, value string) bmc.Fact {
	fact := bmc.Fact{Name: name, State: bmc.FactKnown, Source: n.path}
	if value == "" {
		fact.State, fact.Message = bmc.FactUnknown, "the BMC gives none, or a placeholder"
	}
	return fact
}

// readFirmware reads the version of the BMC's firmware from its manager, or from the software inventory.
func (n *inspection) readFirmware(ctx context.Context) bmc.Fact {
	manager := n.readManager(ctx)
	fact := bmc.Fact{Source: manager.link("@odata.id")}
	if paths := n.system.links("Links", "ManagedBy"); manager == nil && len(paths) > 0 {
		fact.Source = paths[0]
	}
	version, source := n.managerVersion(ctx, manager)
	fact.Source = cmp.Or(source, fact.Source)
	n.inventory.BMCFirmwareVersion = version
	found := n.fact("", version)
	found.Source = fact.Source
	return found
}

// managerVersion returns the version of a manager's firmware and, if the manager does not have it, the entry of the software inventory that has.
func (c *conn) managerVersion(ctx context.Context, manager resource) (version, source string) {
	if version = dropPlaceholder(manager.text("FirmwareVersion")); version != "" || manager == nil {
		return version, ""
	}
	if software := c.softwareOf(ctx, manager); software != nil {
		return dropPlaceholder(software.text("Version")), software.link("@odata.id")
	}
	return "", ""
}

// softwareOf reads the entry of a manager in the software inventory: the one that it links to as active, or the one with its Id.
func (c *conn) softwareOf(ctx context.Context, manager resource) resource {
	path := manager.link("Links", "ActiveSoftwareImage")
	if path == "" {
		update := c.readOptional(ctx, c.root.link("UpdateService"))
		paths, _, _ := c.collection(ctx, update.link("FirmwareInventory")) // after an error, the list is empty
		for _, candidate := range paths {
			if strings.EqualFold(candidate[strings.LastIndex(candidate, "/")+1:], manager.id()) {
				path = candidate
			}
		}
	}
	if software := c.readOptional(ctx, path); software != nil {
		return software.at(path)
	}
	return nil
}

// listing is a collection with its members, as far as they could be read.
type listing struct {
	// source is the path of the collection; empty if the BMC does not offer it.
	source  string
	members []resource
	// total counts the members that the collection lists.
	total int
	// err is the error of reading the collection.
	err error
	// inconclusive is true if the members do not prove that there is no such part.
	inconclusive bool
}

// list reads a collection and its members. A path of "" means that the BMC does not offer it.
func (c *conn) list(ctx context.Context, path string) listing {
	l := listing{source: path}
	if path == "" {
		return l
	}
	paths, inline, err := c.collection(ctx, path)
	l.members, l.total, l.err = c.readAll(ctx, paths), len(unique(paths)), err
	for _, member := range inline { // some services contain members in full, and do not have them at their own paths
		path := member.link("@odata.id")
		if len(l.members) < l.total && !slices.ContainsFunc(l.members, func(r resource) bool { return r.link("@odata.id") == path }) {
			l.members = append(l.members, member)
		}
	}
	return l
}

// complete is true if the collection and each of its members was read.
func (l listing) complete() bool {
	return l.source != "" && l.err == nil && !l.inconclusive && len(l.members) == l.total
}

// and adds another listing of parts of the same kind.
func (l listing) and(other listing) listing {
	if l.source == "" || len(l.members) == 0 && len(other.members) > 0 {
		l.source = cmp.Or(other.source, l.source)
	}
	l.members, l.total = append(l.members, other.members...), l.total+other.total
	l.err, l.inconclusive = cmp.Or(l.err, other.err), l.inconclusive || other.inconclusive
	return l
}

// fact returns the state of the fact, given the number of parts in the listing. It is Absent if every slot for a part is empty.
func (l listing) fact(parts int) bmc.Fact {
	fact := bmc.Fact{State: bmc.FactKnown, Source: l.source}
	unread := l.total - len(l.members)
	occupied := slices.ContainsFunc(l.members, func(r resource) bool { return !isAbsent(r) })
	switch {
	case parts > 0 && unread > 0:
		fact.Message = fmt.Sprintf("%d of %d resources could not be read", unread, l.total)
	case parts > 0:
	case l.complete() && !occupied:
		fact.State = bmc.FactAbsent
	default:
		fact.State, fact.Message = bmc.FactUnknown, l.reason()
	}
	return fact
}

// reason is the message of an unknown fact.
func (l listing) reason() string {
	switch {
	case l.source == "":
		return "the BMC does not offer it"
	case l.err != nil:
		return wrap("Read "+l.source, l.err).Error()
	case len(l.members) < l.total:
		return fmt.Sprintf("%d of %d resources could not be read", l.total-len(l.members), l.total)
	default:
		return "the resources that the BMC lists contain too little information"
	}
}

// isAbsent is true for the empty slot of a part.
func isAbsent(r resource) bool { return strings.EqualFold(r.text("Status", "State"), "Absent") }

// unique returns the texts without duplicates.
func unique[T comparable](texts []T) []T {
	seen := map[T]bool{}
	var once []T
	for _, t := range texts {
		if !seen[t] {
			seen[t], once = true, append(once, t)
		}
	}
	return once
}
