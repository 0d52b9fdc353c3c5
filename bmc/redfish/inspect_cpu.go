package redfish

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// readCPU reads the processors. The system's summary completes missing values; on some BMCs it also counts accelerators.
func (n *inspection) readCPU(ctx context.Context) bmc.Fact {
	n.processors = n.service.list(ctx, n.system.link("Processors"))
	i, processors := &n.inventory, n.processors
	if !slices.ContainsFunc(processors.members, isCPU) {
		if board := n.ownership.boardCPUs(ctx); len(board.members) > 0 {
			processors = board
		}
	}
	cpus(i, processors.members)
	fact := processors.fact(i.CPUSockets)
	summary := n.system.object("ProcessorSummary")
	sockets := bounded32(summary.count("Count"))
	if i.CPUSockets == 0 && sockets > 0 && len(n.processors.members) == 0 {
		i.CPUSockets = sockets
		fact = bmc.Fact{State: bmc.FactKnown, Source: n.system.path}
	}
	i.CPUModel = n.ownership.productName(ctx, i.CPUModel)
	if i.CPUSockets > 0 && i.CPUSockets == sockets { // otherwise the summary counts other processors too
		i.CPUModel = cmp.Or(i.CPUModel, modelOf(summary))
		i.CPUCores = cmp.Or(i.CPUCores, bounded32(summary.count("CoreCount")))
		i.CPUThreads = cmp.Or(i.CPUThreads, bounded32(summary.count("LogicalProcessorCount")))
	}
	if i.CPUSockets > 0 && i.Architecture == "" {
		i.Architecture = architectureByName(i.CPUModel)
	}
	return fact
}

// cpus adds up the values of the processors.
func cpus(i *bmc.Inventory, processors []resource) {
	var sockets, cores, threads int64
	for _, p := range processors {
		if !isCPU(p) || isAbsent(p) {
			continue
		}
		sockets, cores, threads = sockets+1, cores+p.count("TotalCores"), threads+p.count("TotalThreads")
		i.CPUModel = cmp.Or(i.CPUModel, modelOf(p))
		i.Architecture = cmp.Or(i.Architecture, architectureOf(p))
	}
	i.CPUSockets, i.CPUCores, i.CPUThreads = bounded32(sockets), bounded32(cores), bounded32(threads)
}

// modelOf returns the model of a processor without the padding spaces of the brand string (CPUID). AMI writes it as EffectiveFamily, where others write a number.
func modelOf(processor resource) string {
	model := dropPlaceholder(strings.Join(strings.Fields(processor.text("Model")), " "))
	if family := strings.Join(strings.Fields(processor.text("ProcessorId", "EffectiveFamily")), " "); model == "" && strings.Contains(family, " ") {
		model = dropPlaceholder(family)
	}
	return model
}

func isCPU(processor resource) bool {
	kind := processor.text("ProcessorType")
	return kind == "" || strings.EqualFold(kind, "CPU")
}

// isAccelerator is true for a processor that is neither a CPU nor a part of one (DSP0268, Processor.ProcessorType).
func isAccelerator(processor resource) bool {
	return !isCPU(processor) && !slices.Contains([]string{"Core", "Thread", "Partition"}, processor.text("ProcessorType"))
}

func bounded32(n int64) int { return int(max(0, min(n, 1<<20))) }

// architectureOf returns the architecture from the instruction set, or from the vendor in the CPUID.
func architectureOf(processor resource) string {
	set := strings.ToUpper(cmp.Or(processor.text("InstructionSet"), processor.text("ProcessorArchitecture")))
	if strings.EqualFold(set, "OEM") {
		set = strings.ToUpper(processor.text("ProcessorArchitecture"))
	}
	vendor := processor.text("ProcessorId", "VendorId")
	switch {
	case strings.Contains(set, "X86"), slices.Contains([]string{"GenuineIntel", "AuthenticAMD", "HygonGenuine"}, vendor):
		return "amd64"
	case set == "ARM-A64", set == "ARM":
		return "arm64"
	default:
		return ""
	}
}

// architectureByName returns the architecture of a processor by its model.
func architectureByName(model string) string {
	switch name := strings.ToLower(model); {
	case architectureName.MatchString(model), strings.Contains(name, "grace"), strings.Contains(name, "ampere"), strings.Contains(name, "neoverse"):
		return "arm64"
	case strings.Contains(name, "xeon"), strings.Contains(name, "epyc"):
		return "amd64"
	default:
		return ""
	}
}

// memoryManufacturers are manufacturers by their JEDEC identification codes (JEP106), as Cisco writes them.
var memoryManufacturers = map[string]string{"0xce00": "Samsung", "0xad00": "Hynix", "0x2c00": "Micron"}

// memoryManufacturer returns the manufacturer of a memory module.
func memoryManufacturer(text string) string {
	return cmp.Or(memoryManufacturers[strings.ToLower(text)], dropPlaceholder(text))
}

// isGPUMemory is true for the memory of an accelerator, which some services list beside that of the server.
func isGPUMemory(module resource) bool {
	onBoard := strings.Contains(module.link("@odata.id"), "/"+boardPrefix)
	return strings.HasPrefix(module.id(), "GPU_") || onBoard && strings.HasPrefix(strings.ToUpper(module.text("MemoryDeviceType")), "HBM")
}

// readMemory reads the memory modules and, if these are incomplete, the system's summary.
func (n *inspection) readMemory(ctx context.Context) bmc.Fact {
	modules := n.ownership.fromBaseboards(ctx, n.service.list(ctx, n.system.link("Memory")), "Memory")
	i := &n.inventory
	n.modules = modules
	sized, whole, serials := int64(0), modules.complete(), map[string]bool{}
	sortByPath(modules.members)
	for _, m := range modules.members {
		size, serial, health := min(m.count("CapacityMiB"), math.MaxInt32), serialNumber(m.text("SerialNumber")), healthOf(m)
		switch {
		case isAbsent(m), serials[serial], isGPUMemory(m):
		case size == 0 && (health == "" || health == bmc.HealthOK):
			whole = false // the size of this module is unknown
		default:
			whole = whole && size > 0 // firmware that disables a failed module may give it no size
			serials[serial] = serial != ""
			i.DIMMs = append(i.DIMMs, bmc.DIMM{
				Name: m.id(), Manufacturer: memoryManufacturer(m.text("Manufacturer")), PartNumber: dropPlaceholder(m.text("PartNumber")), SerialNumber: serial,
				SizeMiB: size, Health: health,
			})
			if !isPersistent(m) {
				sized += size
			}
		}
	}
	summary := memoryMiB(n.system.resource)
	if whole && sized > 0 || summary == 0 {
		i.MemoryMiB = sized
		return modules.fact(bounded32(sized))
	}
	i.MemoryMiB = summary
	fact := bmc.Fact{State: bmc.FactKnown, Source: n.system.path}
	if modules.source != "" && !modules.isRead() {
		fact.Message = "of the modules: " + modules.reason()
	}
	return fact
}

// isPersistent is true for modules that keep their content without power (DSP0268, Memory.MemoryType).
func isPersistent(module resource) bool {
	kind := strings.ToUpper(module.text("MemoryType"))
	return strings.Contains(kind, "NVDIMM") || strings.Contains(kind, "OPTANE")
}

func memoryMiB(system resource) int64 {
	gib, _ := system.number("MemorySummary", "TotalSystemMemoryGiB")
	if gib <= 0 || gib > 1<<40 {
		return 0
	}
	return int64(math.Round(gib * 1024))
}
