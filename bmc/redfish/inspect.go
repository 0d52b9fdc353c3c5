package redfish

import (
	"cmp"
	"context"
	"errors"
	"net"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// inspection reads the inventory of one server. nicReader and deviceReader read the parts with a state of their own.
type inspection struct {
	service   *service
	system    *system
	software  software
	ownership *ownership

	inventory bmc.Inventory
	// processors are the members of the Processors collection, including accelerators.
	processors listing
	// modules, drives and supplies are what was read of the memory modules, the drives and the power supplies.
	modules, drives, supplies listing
}

// Inspect reads the inventory, the most important parts first.
func (c *conn) Inspect(ctx context.Context) (bmc.Inventory, error) {
	if c.service.cache == nil { // no description precedes it
		if err := c.system.refreshForInspection(ctx); err != nil {
			return bmc.Inventory{}, err
		}
	}
	defer func() { c.service.cache = nil }()
	n := &inspection{
		service: c.service, system: c.system, software: c.software,
		ownership: &ownership{service: c.service, system: c.system},
	}
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
		if c.service.unavailable(ctx) == nil {
			fact = part.read(ctx)
		}
		if err := c.service.unavailable(ctx); err != nil {
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
	s, i := n.system.resource, &n.inventory
	i.Manufacturer, i.Model, i.Health = dropPlaceholder(s.text("Manufacturer")), dropPlaceholder(s.text("Model")), healthOf(s)
	i.SerialNumber = serialNumber(s.text("SerialNumber"))
	if i.SerialNumber == "" && n.system.quirk.serialInSKU {
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
	fact := bmc.Fact{Name: name, State: bmc.FactKnown, Source: n.system.path}
	if value == "" {
		fact.State, fact.Message = bmc.FactUnknown, "the BMC gives none, or a placeholder"
	}
	return fact
}

// completeIdentity reads the serial number and the version of the firmware elsewhere, if the system does not report them.
func (n *inspection) completeIdentity(ctx context.Context) {
	i := &n.inventory
	if i.SerialNumber == "" && n.service.unavailable(ctx) == nil {
		serial, source := n.ownership.serialElsewhere(ctx)
		n.setKnown(bmc.FactSerialNumber, &i.SerialNumber, serial, source)
	}
	if i.FirmwareVersion == "" && n.service.unavailable(ctx) == nil && n.ownership.isOnlyServer(ctx) {
		version, source := n.software.firmwareElsewhere(ctx)
		n.setKnown(bmc.FactFirmwareVersion, &i.FirmwareVersion, version, source)
	}
}

func (n *inspection) setKnown(name bmc.FactName, field *string, value, source string) {
	if value != "" {
		*field = value
		n.inventory.SetFact(bmc.Fact{Name: name, State: bmc.FactKnown, Source: source})
	}
}

// readFirmware reads the version of the BMC's firmware from its manager, or from the software inventory.
func (n *inspection) readFirmware(ctx context.Context) bmc.Fact {
	manager := n.system.readManager(ctx)
	fact := bmc.Fact{Source: manager.link("@odata.id")}
	if paths := n.system.links("Links", "ManagedBy"); manager == nil && len(paths) > 0 {
		fact.Source = paths[0]
	}
	version, source := n.software.managerVersion(ctx, manager)
	fact.Source = cmp.Or(source, fact.Source)
	n.inventory.BMCFirmwareVersion = version
	found := n.fact("", version)
	found.Source = fact.Source
	return found
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
