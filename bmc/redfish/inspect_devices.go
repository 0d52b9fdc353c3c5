package redfish

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// deviceInfo is a device with the data to recognize it in other resources.
type deviceInfo struct {
	bmc.Device

	// keys are the paths of its resources and functions, and its UUID. Entries with a common key are the same device.
	keys []string
	// accelerator is true for GPUs and other processors that are not CPUs. own is true if the accelerator itself was read, not only its PCIe
	// device.
	accelerator, own bool
	// title is the name of a PCIe device. It replaces the model of an accelerator that reports none.
	title string
	// vendor is the manufacturer by the vendor ID of a PCIe device, if it makes GPUs.
	vendor string
}

// deviceReader reads the devices into an inventory.
type deviceReader struct {
	service   *service
	system    *system
	ownership *ownership
	// processors are those that inspection.readCPU has read.
	processors listing
	inventory  *bmc.Inventory
	// functionReads counts the functions of PCIe devices that were read one by one.
	functionReads int
}

// readDevices is called after readCPU.
func (n *inspection) readDevices(ctx context.Context) bmc.Fact {
	r := &deviceReader{service: n.service, system: n.system, ownership: n.ownership, processors: n.processors, inventory: &n.inventory}
	return r.read(ctx)
}

// read reads the PCIe devices and the accelerators. Systems, chassis and processors list the same devices.
func (r *deviceReader) read(ctx context.Context) bmc.Fact {
	pcie, devices := r.pcieDevices(ctx)
	accelerators := r.accelerators(ctx)
	for _, p := range accelerators.members {
		devices = addDevice(devices, acceleratorOf(p))
	}
	graphics := r.service.list(ctx, r.system.link("GraphicsControllers"))
	for _, g := range graphics.members {
		if d := graphicsOf(g); !isAbsent(g) && inSlot(g) {
			devices = addDevice(devices, d)
		}
	}
	devices = withoutSecondNames(devices)
	sources := []listing{pcie, accelerators, graphics}
	if len(pcie.members) == 0 && r.service.unavailable(ctx) == nil {
		oem := r.oemDevices(ctx)
		devices = r.addOEMDevices(ctx, devices, oem)
		sources = append(sources, oem)
	}
	for i := range devices {
		d := &devices[i]
		if d.accelerator && d.Model == "" && !busAddress.MatchString(d.title) {
			d.Model = d.title
		}
		if d.Class != classBridge {
			r.inventory.Devices = append(r.inventory.Devices, d.Device)
		}
	}
	fact := r.deviceFact(sources, len(devices))
	if fact.State == bmc.FactKnown && len(r.inventory.Devices) == 0 {
		fact.State = bmc.FactAbsent // there are only bridges
	}
	return fact
}

// addOEMDevices adds the devices of a vendor's own collection.
func (r *deviceReader) addOEMDevices(ctx context.Context, devices []deviceInfo, oem listing) []deviceInfo {
	for _, d := range oem.members {
		if instances := d.links("DeviceInstances"); !isAbsent(d) && len(instances) > 0 { // a board without a PCI function is not a device
			devices = addDevice(devices, oemDevice(d, r.service.readOptional(ctx, instances[0])))
		}
	}
	return devices
}

// withoutSecondNames removes the GPUs that are known by their bus address alone, if GPUs of the same manufacturer were read as accelerators: no link joins the two.
func withoutSecondNames(devices []deviceInfo) []deviceInfo {
	isNamed := func(vendor string) func(deviceInfo) bool {
		return func(d deviceInfo) bool {
			made := strings.ToUpper(d.Manufacturer + " " + d.Model)
			return d.own && d.Class == classGPU && (strings.Contains(made, strings.ToUpper(vendor)) || vendor == gpuVendors[vendorAMD] && strings.Contains(made, "ADVANCED MICRO DEVICES"))
		}
	}
	var kept []deviceInfo
	for _, d := range devices {
		nameless := d.Class == classGPU && !d.own && d.Model == "" && d.Serial == "" && (d.title == "" || busAddress.MatchString(d.title))
		if !nameless || d.vendor == "" || !slices.ContainsFunc(devices, isNamed(d.vendor)) {
			kept = append(kept, d)
		}
	}
	return kept
}

// deviceFact returns the fact of the first source with devices or, without devices, of all sources. If all processors are CPUs, that does
// not prove that there are no devices. count includes the bridges.
func (r *deviceReader) deviceFact(sources []listing, count int) bmc.Fact {
	all := listing{}
	for _, source := range sources {
		if count > 0 && len(source.members) > 0 {
			return source.fact(count)
		}
		all = all.and(source)
	}
	if all.source == "" {
		all = r.ownership.unreadChassis
	}
	return all.fact(0)
}

// addDevice adds a device, or merges it with the same device. It may join two entries that were not known to be the same device. A serial number joins an accelerator with
// its PCIe device only: boards with several GPUs give all of them the serial number of the board.
func addDevice(devices []deviceInfo, d deviceInfo) []deviceInfo {
	isSame := func(known deviceInfo) bool {
		return slices.ContainsFunc(known.keys, func(key string) bool { return slices.Contains(d.keys, key) })
	}
	first := slices.IndexFunc(devices, isSame)
	if first < 0 {
		first = slices.IndexFunc(devices, func(known deviceInfo) bool {
			return known.Serial != "" && known.Serial == d.Serial && known.own != d.own
		})
	}
	if first < 0 {
		return append(devices, d)
	}
	devices[first].complete(d)
	for i := len(devices) - 1; i > first; i-- {
		if isSame(devices[i]) {
			devices[first].complete(devices[i])
			devices = slices.Delete(devices, i, i+1)
		}
	}
	return devices
}

// complete adds the data of another resource of the same device. The data of an accelerator precedes that of its PCIe device.
func (f *deviceInfo) complete(other deviceInfo) {
	first, second := *f, other
	if other.own && !f.own {
		first, second = other, *f
	}
	f.Name, f.Class = cmp.Or(first.Name, second.Name), cmp.Or(first.Class, second.Class)
	f.Manufacturer, f.Model = cmp.Or(first.Manufacturer, second.Manufacturer), cmp.Or(first.Model, second.Model)
	f.Serial, f.Firmware, f.Health = cmp.Or(first.Serial, second.Serial), cmp.Or(first.Firmware, second.Firmware), cmp.Or(first.Health, second.Health)
	f.title, f.accelerator, f.own = cmp.Or(f.title, other.title), f.accelerator || other.accelerator, f.own || other.own
	f.vendor = cmp.Or(f.vendor, other.vendor)
	f.keys = append(f.keys, other.keys...)
}

// describe reads the properties that all kinds of devices have.
func describe(d resource, more ...string) deviceInfo {
	f := deviceInfo{Device: bmc.Device{
		Name: cmp.Or(d.text("Name"), d.id()), Manufacturer: dropPlaceholder(d.text("Manufacturer")), Model: dropPlaceholder(d.text("Model")),
		Serial: serialNumber(d.text("SerialNumber")), Firmware: dropPlaceholder(d.text("FirmwareVersion")), Health: healthOf(d),
	}}
	uuid := uuidOf(d.text("UUID"))
	if uuid != "" {
		uuid = "UUID " + uuid
	}
	for _, key := range append(more, d.link("@odata.id"), uuid) {
		if key != "" {
			f.keys = append(f.keys, key)
		}
	}
	return f
}

// twinKey is a key with the Id of a PCIe device, because the system and its chassis list the device under different paths.
func twinKey(path string) string { return "PCIe device " + path[strings.LastIndex(path, "/")+1:] }

// deviceSource is where PCIe devices are listed.
type deviceSource int

const (
	ofSystem deviceSource = iota
	ofChassis
	besideSwitches // of a chassis with switches between its devices
)

// addPCIeDevices adds PCIe devices.
func (r *deviceReader) addPCIeDevices(ctx context.Context, devices []deviceInfo, found []resource, from deviceSource) []deviceInfo {
	for _, d := range found {
		if isAbsent(d) {
			continue
		}
		f, twin := r.pcieDevice(ctx, d), twinKey(d.link("@odata.id"))
		if from == besideSwitches && f.Class == "" {
			continue // it is a switch, which need not have a class
		}
		isTwin := func(known deviceInfo) bool { return slices.Contains(known.keys, twin) }
		if from == ofSystem || slices.ContainsFunc(devices, isTwin) {
			f.keys = append(f.keys, twin)
		}
		devices = addDevice(devices, f)
	}
	return devices
}

// pcieDevices reads the PCIe devices that the system links to, and those of its chassis.
func (r *deviceReader) pcieDevices(ctx context.Context) (listing, []deviceInfo) {
	var (
		read    listing
		devices []deviceInfo
	)
	take := func(of listing, from deviceSource) {
		read, devices = read.and(of), r.addPCIeDevices(ctx, devices, of.members, from)
	}
	paths := unique(r.system.links("PCIeDevices"))
	if collection := r.system.link("PCIeDevices"); collection != "" {
		take(r.service.list(ctx, collection), ofSystem)
	} else if r.system.has("PCIeDevices") {
		if len(paths) > 2 {
			_, _ = r.service.getExpanded(ctx, r.system.path, false) // after an error, they are read one by one
		}
		slices.Sort(paths)
		take(listing{source: r.system.path, members: r.service.readAll(ctx, paths), total: len(paths)}, ofSystem)
	}
	for _, box := range r.ownership.readOwnChassis(ctx) {
		from := ofChassis
		if len(box.links("Links", "Switches")) > 0 {
			from = besideSwitches
		}
		links := unique(box.links("Links", "PCIeDevices"))
		isNew := func(path string) bool { return !slices.Contains(paths, path) }
		switch collection := box.link("PCIeDevices"); {
		case r.service.unavailable(ctx) != nil, len(links) > 0 && !slices.ContainsFunc(links, isNew):
		case collection != "":
			take(r.service.list(ctx, collection), from)
		case len(links) > 0:
			take(listing{source: box.link("@odata.id"), members: r.service.readAll(ctx, links), total: len(links)}, from)
		}
	}
	return read, devices
}

// switchName matches the names of switches and ports between GPUs, which have the vendor ID of the GPUs.
var switchName = regexp.MustCompile(`(?i)switch|bridge|root`)

// maxFunctions is how many functions a PCIe device has at most, without virtual ones.
const maxFunctions = 8

// pcieDevice describes a PCIe device. Its first function determines its class.
func (r *deviceReader) pcieDevice(ctx context.Context, d resource) deviceInfo {
	functions := unique(d.links("Links", "PCIeFunctions"))
	if collection := d.link("PCIeFunctions"); len(functions) == 0 && collection != "" {
		if functions = r.functionsBelow(collection); len(functions) == 0 && r.mayReadFunctions() {
			functions, _, _ = r.service.collection(ctx, collection) // a device without functions has no class
		}
	}
	f := describe(d, functions...)
	f.title = dropPlaceholder(d.text("Name"))
	first := resource(nil)
	slices.SortFunc(functions, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	for _, path := range functions[:min(len(functions), maxFunctions)] {
		function := r.readFunction(ctx, path)
		if function == nil {
			break // the others cannot be read either
		}
		if first == nil || function.count("FunctionId") < first.count("FunctionId") {
			first = function
		}
		if first.count("FunctionId") == 0 {
			break // each device has a function 0, and functions are usually in order
		}
	}
	f.Class, f.vendor = classOf(first, inSlot(d)), gpuVendors[first.code("VendorId")]
	if f.Class == "" && f.vendor == gpuVendors[vendorNVIDIA] && !switchName.MatchString(d.id()+" "+f.Name+" "+f.Model) {
		f.Class = classGPU // Cisco writes no class at all. NVIDIA's network controllers have the vendor ID of Mellanox
	}
	if vendor := dropPlaceholder(d.text("Oem", "Supermicro", "GPUVendor")); vendor != "" { // its functions have the vendor ID 0
		f.Class, f.Manufacturer, f.vendor = classGPU, cmp.Or(f.Manufacturer, vendor), vendor
	}
	f.accelerator = f.Class == classGPU
	return f
}

// readFunction reads a function of a PCIe device, as long as there are not too many of them: each is a request, unless it was read together with its device.
func (r *deviceReader) readFunction(ctx context.Context, path string) resource {
	if r.service.cache[path] == nil {
		if !r.mayReadFunctions() {
			return nil
		}
		r.functionReads++
	}
	return r.service.readOptional(ctx, path)
}

// mayReadFunctions limits how many functions are read one by one: a service that expands resources must not need more than a hundred requests.
func (r *deviceReader) mayReadFunctions() bool {
	if c := r.service.expand; c.query != "" && (c.members || c.resources) {
		return r.functionReads < 24
	}
	return r.functionReads < 512
}

// functionsBelow returns the paths of the functions in a collection, as far as the system links to them: then the collection need not be read.
func (r *deviceReader) functionsBelow(collection string) []string {
	return slices.DeleteFunc(unique(r.system.links("PCIeFunctions")), func(path string) bool { return !strings.HasPrefix(path, collection+"/") })
}

// accelerators returns the processors that are not CPUs, including those of accelerator baseboards, which NVIDIA lists as separate systems.
func (r *deviceReader) accelerators(ctx context.Context) listing {
	read := listing{}
	take := func(processors listing) {
		others := slices.DeleteFunc(slices.Clone(processors.members), func(p resource) bool { return !isAccelerator(p) || isAbsent(p) })
		if len(others) > 0 {
			read = read.and(listing{source: processors.source, members: others, total: len(others)})
		}
	}
	take(r.processors)
	for _, board := range r.ownership.readBaseboards(ctx) {
		take(r.service.list(ctx, board.link("Processors")))
	}
	return read
}

// acceleratorOf describes a processor that is not a CPU. The BMC may also list it as a PCIe device.
func acceleratorOf(p resource) deviceInfo {
	keys := p.links("Links", "PCIeFunctions")
	if device := p.link("Links", "PCIeDevice"); device != "" {
		keys = append(keys, device, twinKey(device))
	}
	f := describe(p, keys...)
	if f.Name == "Processor" { // the default of DSP0268 tells nothing
		f.Name = p.id()
	}
	f.Firmware = cmp.Or(f.Firmware, dropPlaceholder(p.text("FPGA", "FirmwareVersion")))
	f.Class, f.accelerator, f.own = p.text("ProcessorType"), true, true
	if strings.EqualFold(f.Class, classGPU) {
		f.Class = classGPU
	}
	return f
}

// graphicsOf describes a graphics controller.
func graphicsOf(g resource) deviceInfo {
	f := describe(g, append(g.links("Links", "Processors"), g.link("Links", "PCIeDevice"))...)
	f.Class, f.accelerator = classGPU, true
	f.Firmware = cmp.Or(f.Firmware, dropPlaceholder(g.text("BiosVersion")))
	return f
}

// oemDevices reads the OEM collection of devices in HPE's chassis, for services without PCIeDevices.
func (r *deviceReader) oemDevices(ctx context.Context) listing {
	read := listing{}
	for _, box := range r.ownership.readOwnChassis(ctx) {
		instances := r.system.link("Oem", "Hpe", "Links", "PCIDevices")
		if list := box.link("Oem", "Hpe", "Links", "Devices"); list != "" {
			if instances != "" {
				_, _, _ = r.service.collection(ctx, instances) // after an error, they are read one by one
			}
			read = read.and(r.service.list(ctx, list))
		}
	}
	return read
}

// oemDevice describes a device of HPE's collection. Its PCI function determines its class, because HPE also lists the switches between GPUs
// as GPUs.
func oemDevice(d, function resource) deviceInfo {
	f := describe(d)
	f.title, f.Firmware = dropPlaceholder(d.text("Name")), dropPlaceholder(d.text("FirmwareVersion", "Current", "VersionString"))
	f.Class = classOf(function, strings.Contains(d.text("Location"), "Slot"))
	f.accelerator = f.Class == classGPU
	return f
}
