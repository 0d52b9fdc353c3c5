package redfish

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Limits of a reading of the health. A BMC takes up to five seconds for a resource.
const (
	maxHealthRequests = 250
	maxHealthSensors  = 64
	maxVolumes        = 64
	maxSummaries      = 2
)

var _ bmc.HealthReader = &conn{}

// rollupOf returns the worse of the health of a resource and that of its parts (DSP0268, Status). Not every service reports the latter.
func rollupOf(r resource) bmc.Health {
	return bmc.Worst(healthOf(r), healthOf(resource{"Status": map[string]any{"Health": r.text("Status", "HealthRollup")}}))
}

// ReadHealth reads the summaries of the system, of its chassis and of its BMC: four requests. It reads the parts only if they are asked for, or if the summary has changed.
func (c *conn) ReadHealth(ctx context.Context, request bmc.HealthRequest) (bmc.HealthReading, error) {
	const op = "Read the health"
	if err := c.system.refresh(ctx); err != nil {
		return bmc.HealthReading{}, err
	}
	reading := bmc.HealthReading{Server: healthOf(c.system.resource), Rollup: rollupOf(c.system.resource)}
	boxes, allBoxes := c.summarizedChassis(ctx)
	managers, all := c.summarizedManagers(ctx)
	reading.Partial = !allBoxes || !all
	for _, box := range boxes {
		reading.Rollup = bmc.Worst(reading.Rollup, rollupOf(box))
	}
	for _, manager := range managers {
		reading.Rollup = bmc.Worst(reading.Rollup, healthOf(manager))
	}
	if err := c.service.unavailable(ctx); err != nil {
		return bmc.HealthReading{}, wrap(op, err)
	}
	if !request.WantsDetails(reading.Rollup) {
		return reading, nil
	}
	for _, manager := range managers {
		reading.Add(bmc.Part{Class: bmc.PartBMC, Name: manager.id(), Health: healthOf(manager)})
	}
	if len(managers) > 0 && all {
		reading.Read = append(reading.Read, bmc.PartBMC)
	}
	err := c.readParts(ctx, &reading)
	return reading, wrap(op, err)
}

// summarizedChassis reads the chassis that the system links to and that contain no other system. all is true if each chassis was read.
func (c *conn) summarizedChassis(ctx context.Context) (boxes []resource, all bool) {
	return c.summarized(ctx, c.system.links("Links", "Chassis"), c.system.isShared)
}

// summarized reads the resources at the paths, without those of other servers. all is true if each was read.
func (c *conn) summarized(ctx context.Context, paths []string, ofOther func(resource) bool) (read []resource, all bool) {
	paths = unique(paths)
	paths = paths[:min(len(paths), maxSummaries)]
	read = c.service.readAll(ctx, paths)
	all = len(read) == len(paths)
	return slices.DeleteFunc(read, ofOther), all
}

// summarizedManagers reads the managers that the system links to and that manage no other system. all is true if each manager was read.
func (c *conn) summarizedManagers(ctx context.Context) (managers []resource, all bool) {
	return c.summarized(ctx, c.system.links("Links", "ManagedBy"), func(manager resource) bool {
		return slices.ContainsFunc(manager.links("Links", "ManagerForServers"), func(path string) bool { return path != c.system.path })
	})
}

// isShared is true for a chassis that contains another system.
func (s *system) isShared(box resource) bool {
	return slices.ContainsFunc(box.links("Links", "ComputerSystems"), func(path string) bool { return path != s.path })
}

// partReader reads the parts of some classes.
type partReader struct {
	classes []bmc.PartClass
	read    func(context.Context) bool
}

// readParts reads the parts that are not healthy, with the functions that read the inventory, so that both agree. It ends when the time or the requests are used up.
func (c *conn) readParts(ctx context.Context, reading *bmc.HealthReading) error {
	c.service.cache = map[string]resource{c.system.path: c.system.resource}
	defer func() { c.service.cache = nil }()
	p := &parts{
		inspection: inspection{
			service: c.service, system: c.system, software: c.software, ownership: &ownership{service: c.service, system: c.system},
		},
		reading: reading,
	}
	for _, one := range []partReader{
		{[]bmc.PartClass{bmc.PartChassis}, p.addChassis},
		{[]bmc.PartClass{bmc.PartPowerSupply}, p.addPowerSupplies},
		{[]bmc.PartClass{bmc.PartDisk}, p.addDisks},
		{[]bmc.PartClass{bmc.PartMemory}, p.addMemory},
		{[]bmc.PartClass{bmc.PartCPU}, p.addCPUs},
		{[]bmc.PartClass{bmc.PartFan, bmc.PartTemperature, bmc.PartVoltage}, p.addSensors},
		{[]bmc.PartClass{bmc.PartVolume}, p.addVolumes},
		{[]bmc.PartClass{bmc.PartNIC}, p.addNICs},
	} {
		before := len(reading.Parts)
		complete := one.read(ctx)
		if err := c.service.unavailable(ctx); err != nil {
			reading.Parts = reading.Parts[:before]
			if outOfTime(ctx, err) {
				return nil
			}
			return err
		}
		if complete && len(reading.Parts) < bmc.MaxParts && c.service.requests <= maxHealthRequests {
			reading.Read = append(reading.Read, slices.DeleteFunc(one.classes, func(class bmc.PartClass) bool {
				return class == bmc.PartVoltage && p.voltagesOmitted && !hasClass(reading.Parts[before:], class)
			})...)
		} else {
			reading.Parts = reading.Parts[:before] // a class is reported as a whole: the earlier reading of it stays
		}
		if c.service.requests > maxHealthRequests {
			break
		}
	}
	return nil
}

// hasClass is true if one of the parts has a class.
func hasClass(parts []bmc.Part, class bmc.PartClass) bool {
	return slices.ContainsFunc(parts, func(p bmc.Part) bool { return p.Class == class })
}

// parts reads the parts of one server that are not healthy. Its methods return whether each part of the class was read: a part that was not does not count as healthy.
type parts struct {
	inspection

	reading *bmc.HealthReading
	// voltagesOmitted is true if a chassis has too many sensors, so that its voltages were not read.
	voltagesOmitted bool
}

func (p *parts) addChassis(ctx context.Context) bool {
	for _, box := range p.ownership.readOwnChassis(ctx) {
		p.reading.Add(bmc.Part{
			Class: bmc.PartChassis, Name: box.id(), Model: dropPlaceholder(box.text("Model")), SerialNumber: serialNumber(box.text("SerialNumber")), Health: healthOf(box),
		})
	}
	return p.readsAllChassis(ctx)
}

// readsAllChassis is true if each chassis of the server was read.
func (p *parts) readsAllChassis(ctx context.Context) bool {
	return len(p.ownership.readOwnChassis(ctx)) > 0 && p.ownership.unreadChassis.source == ""
}

func (p *parts) addPowerSupplies(ctx context.Context) bool {
	fact := p.readPowerSupplies(ctx)
	for _, s := range p.inventory.PowerSupplies {
		p.reading.Add(bmc.Part{Class: bmc.PartPowerSupply, Name: s.Name, Model: s.Model, Health: s.Health})
	}
	return fact.State != bmc.FactUnknown && p.supplies.isRead() && p.readsAllChassis(ctx)
}

func (p *parts) addDisks(ctx context.Context) bool {
	fact := p.readDisks(ctx)
	for _, d := range p.inventory.Disks {
		p.reading.Add(bmc.Part{Class: bmc.PartDisk, Name: d.Name, Model: d.Model, SerialNumber: d.SerialNumber, Health: d.Health})
	}
	return fact.State != bmc.FactUnknown && p.drives.isRead()
}

func (p *parts) addMemory(ctx context.Context) bool {
	fact := p.readMemory(ctx)
	for _, d := range p.inventory.DIMMs {
		p.reading.Add(bmc.Part{Class: bmc.PartMemory, Name: d.Name, Model: d.PartNumber, SerialNumber: d.SerialNumber, Health: d.Health})
	}
	return fact.State != bmc.FactUnknown && p.modules.isRead()
}

func (p *parts) addCPUs(ctx context.Context) bool {
	found := p.service.list(ctx, p.system.link("Processors"))
	for _, cpu := range found.members {
		if isCPU(cpu) && !isAbsent(cpu) {
			p.reading.Add(bmc.Part{Class: bmc.PartCPU, Name: cpu.id(), Model: modelOf(cpu), SerialNumber: serialNumber(cpu.text("SerialNumber")), Health: healthOf(cpu)})
		}
	}
	return found.isRead()
}

// addVolumes adds the volumes of RAID controllers. A raw device is a disk once more.
func (p *parts) addVolumes(ctx context.Context) bool {
	storage := p.service.list(ctx, p.system.link("Storage"))
	read := 0
	for _, controller := range storage.members {
		path := controller.link("Volumes")
		if path == "" {
			continue
		}
		paths, _, err := p.service.collection(ctx, path)
		if err != nil || read+len(paths) > maxVolumes {
			return false
		}
		read += len(paths)
		volumes := p.service.readAll(ctx, paths)
		if len(volumes) < len(unique(paths)) {
			return false
		}
		for _, v := range volumes {
			if !isAbsent(v) && v.text("VolumeType") != "RawDevice" {
				p.reading.Add(bmc.Part{Class: bmc.PartVolume, Name: cmp.Or(dropPlaceholder(v.text("Name")), v.id()), Health: healthOf(v)})
			}
		}
	}
	return storage.isRead()
}

// linkDown are the values of LinkStatus of an interface without a cable. Some BMCs give such an interface a warning, and it is not unhealthy.
var linkDown = []string{"LinkDown", "NoLink"}

func (p *parts) addNICs(ctx context.Context) bool {
	found := p.service.list(ctx, p.system.link("EthernetInterfaces"))
	for _, nic := range found.members {
		enabled := strings.EqualFold(nic.text("Status", "State"), "Enabled")
		if enabled && !slices.Contains(linkDown, nic.text("LinkStatus")) {
			p.reading.Add(bmc.Part{Class: bmc.PartNIC, Name: nic.id(), Model: macOfInterface(nic), Health: healthOf(nic)})
		}
	}
	return found.isRead()
}
