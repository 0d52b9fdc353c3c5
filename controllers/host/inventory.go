package host

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/health"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// noteInventory records the inventory of a server. It keeps the inventory of another server aside until a user confirms it. The host then counts as not
// inspected, so a new process reads the inventory again.
//
// For facts that timed out, the earlier values stay, and the next inspection is due immediately. The status keeps the time of the last complete
// inspection.
func (h *hostObservation) noteInventory(read bmc.Inventory, status *v1alpha1.BMCStatus, now metav1.Time) {
	hardware := hardwareStatus(read)
	h.bmc.Inspected, h.bmc.Partial = true, read.Partial()
	late := func(f bmc.Fact) bool { return f.TimedOut && f.Name != bmc.FactDevices } // devices are read last, and slow BMCs never get to their end
	if !slices.ContainsFunc(read.Facts, late) {
		h.bmc.HealthReadAt = now.Time
	}
	if h.isOtherServer(hardware) {
		h.replacement, h.description = hardware, status
		return
	}
	status.InspectedTime = &now
	if read.Partial() {
		status.InspectedTime = nil
		if h.description != nil {
			status.InspectedTime = h.description.InspectedTime
		}
	}
	keepEarlierFacts(hardware, h.hardware, read.Facts)
	server := hardware.Health
	if h.health.Flapping() && h.hardware != nil && health.IsWorse(h.hardware.Health, server) {
		hardware.Health = h.hardware.Health // claims follow it
	}
	h.hardware, h.replacement, h.description = hardware, nil, status
	h.noteInventoryTime(read, now.Time)
	h.bmc.Health.Unsupported, h.bmc.Health.Failures = false, 0 // new firmware may offer it
	h.health.Logs.FindAgain()
	h.health.Update(h.inventoryHealth(server), now.Time)
}

// factOfClass are the facts of the inventory that have the parts of a class.
var factOfClass = map[v1alpha1.PartClass]bmc.FactName{
	v1alpha1.PartDisk: bmc.FactDisks, v1alpha1.PartMemory: bmc.FactMemory, v1alpha1.PartPowerSupply: bmc.FactPowerSupplies, v1alpha1.PartDevice: bmc.FactDevices,
}

// noteInventoryTime records when an inventory was read, and for the classes of which it could not read each part when they last were.
func (h *hostObservation) noteInventoryTime(read bmc.Inventory, now time.Time) {
	before := h.inventoryHealth("")
	var incomplete map[v1alpha1.PartClass]health.Incomplete
	for class, name := range factOfClass {
		fact := read.Fact(name)
		if fact.State == bmc.FactAbsent || fact.State == bmc.FactKnown && fact.Message == "" { // the message says what is missing
			continue
		}
		if incomplete == nil {
			incomplete = map[v1alpha1.PartClass]health.Incomplete{}
		}
		incomplete[class] = health.Incomplete{At: before.At(class), Kept: fact.TimedOut}
	}
	h.inventoryAt, h.inventoryIncomplete = now, incomplete
}

// keptMessage is the message of a fact whose value is from an earlier inspection.
const keptMessage = "from an earlier inspection: the last inspection could not read it"

// isKept is true for a fact whose value is from an earlier inspection. The server may have been replaced since.
func isKept(hardware *v1alpha1.Hardware, name bmc.FactName) bool {
	i := indexOfFact(hardware.Facts, name)
	return i >= 0 && hardware.Facts[i].Message == keptMessage
}

func indexOfFact(facts []v1alpha1.Fact, name bmc.FactName) int {
	return slices.IndexFunc(facts, func(f v1alpha1.Fact) bool { return f.Name == string(name) })
}

// keepEarlierFacts copies earlier values for facts that timed out. It does the same for facts that identify the server, if the BMC does not report them
// this time.
func keepEarlierFacts(read, before *v1alpha1.Hardware, facts []bmc.Fact) {
	if before == nil {
		return
	}
	for _, fact := range facts {
		i, at := indexOfFact(before.Facts, fact.Name), indexOfFact(read.Facts, fact.Name)
		identifies := fact.Name == bmc.FactSerialNumber || fact.Name == bmc.FactSystemUUID
		if i < 0 || at < 0 || before.Facts[i].State == v1alpha1.FactUnknown || !fact.TimedOut && (!identifies || fact.State == bmc.FactKnown) {
			continue
		}
		read.Facts[at] = before.Facts[i]
		read.Facts[at].Message = keptMessage
		switch fact.Name {
		case bmc.FactCPU:
			read.CPU, read.Architecture = before.CPU, before.Architecture
		case bmc.FactMemory:
			read.Memory, read.DIMMs = before.Memory, before.DIMMs
		case bmc.FactDisks:
			read.Disks = before.Disks
		case bmc.FactNICs:
			read.NICs = before.NICs
		case bmc.FactDevices:
			read.Devices = before.Devices
		case bmc.FactPowerSupplies:
			read.PowerSupplies = before.PowerSupplies
		case bmc.FactBMCFirmwareVersion:
			read.BMCFirmwareVersion = before.BMCFirmwareVersion
		case bmc.FactSerialNumber:
			read.SerialNumber = before.SerialNumber
		case bmc.FactSystemUUID:
			read.SystemUUID = before.SystemUUID
		case bmc.FactFirmwareVersion:
			read.FirmwareVersion = before.FirmwareVersion
		}
	}
}

// isOtherServer is true if an inventory belongs to another server than the known one.
func (h *hostObservation) isOtherServer(hardware *v1alpha1.Hardware) bool {
	if h.hardware != nil {
		return !inventory.SameHardware(h.hardware.SystemUUID, h.hardware.SerialNumber, hardware.SystemUUID, hardware.SerialNumber)
	}
	reported := controllers.HardwareIdentity(hardware)
	return h.bootedHardware != "" && reported != "" && reported != h.bootedHardware
}

// confirmReplacement accepts the inventory of another server if a user confirmed that server.
func (h *hostObservation) confirmReplacement(host *v1alpha1.BareMetalHost) {
	if r := h.replacement; r != nil && host.Annotations[v1alpha1.ConfirmServerAnnotation] == inventory.Fingerprint(r.SystemUUID, r.SerialNumber) {
		h.hardware, h.replacement, h.health = r, nil, health.Tracker{}
		h.bmc.InspectedTime = time.Time{} // the next inspection records it in the status
	}
}

// replacementView returns the other server that answers, and the known one; nil if no other server answers.
func (h *hostObservation) replacementView() *lifecycle.Replacement {
	if h.replacement == nil {
		return nil
	}
	view := &lifecycle.Replacement{Reported: inventory.ServerID{SystemUUID: h.replacement.SystemUUID, SerialNumber: h.replacement.SerialNumber}}
	if h.hardware != nil {
		view.Known = &inventory.ServerID{SystemUUID: h.hardware.SystemUUID, SerialNumber: h.hardware.SerialNumber}
	}
	return view
}

// knownHardware returns the hardware of a host as this process observed it, or otherwise as the status shows it.
func (o *observations) knownHardware(host *v1alpha1.BareMetalHost) *v1alpha1.Hardware {
	if hardware := o.get(client.ObjectKeyFromObject(host)).hardware; hardware != nil {
		return hardware
	}
	return host.Status.Hardware
}
