package host

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
)

// The limits of an InspectionSummary, as in the API.
const (
	maxDiskGroups   = 16
	maxNICGroups    = 16
	maxGPUGroups    = 8
	maxSwitches     = 8
	maxSwitchBytes  = 64
	maxNotPurgeable = 8
	maxDiskBytes    = 64
	// maxSummary is the maximum size of an InspectionSummary as JSON, in bytes: every watcher of hosts gets it.
	maxSummary = 1024
)

// classGPU is the class of GPUs in a report.
const classGPU = "GPU"

// summarize returns what requirements of machines are compared with of a report. version is that of the report. Of too many groups it keeps those of the largest
// and fastest: a host whose groups are left out matches fewer machines.
func summarize(report *v1alpha1.BareMetalInspectionSpec, version reportVersion) *v1alpha1.InspectionSummary {
	s := &v1alpha1.InspectionSummary{
		ReportUID: version.uid, ReportGeneration: version.generation, ReceivedTime: report.ReceivedTime, CPU: report.CPU.Threads, MemoryBytes: report.Memory.Bytes,
	}
	disks, nics, gpus := map[v1alpha1.DiskGroup]int32{}, map[v1alpha1.NICGroup]int32{}, map[v1alpha1.GPUGroup]int32{}
	for _, d := range report.Disks {
		if d.SizeBytes > 0 && !d.Removable && !d.ReadOnly && d.Protected == "" && d.Transport != wire.TransportUSB {
			disks[v1alpha1.DiskGroup{SizeBytes: d.SizeBytes, Rotational: d.Rotational}]++
		}
	}
	for _, n := range report.NICs {
		group := v1alpha1.NICGroup{}
		if n.LinkUp {
			group.SpeedMbps = n.SpeedMbps
		}
		nics[group]++
		if l := n.Neighbor; l != nil {
			if name := controllers.Clip(cmp.Or(l.SystemName, l.ChassisID), maxSwitchBytes); name != "" && !slices.Contains(s.Switches, name) {
				s.Switches = append(s.Switches, name)
			}
		}
	}
	for _, d := range report.Devices {
		if d.Class == classGPU {
			gpus[v1alpha1.GPUGroup{Vendor: controllers.Clip(d.Vendor, 16), Device: controllers.Clip(d.Device, 16)}]++
		}
	}
	for group, count := range disks {
		group.Count = count
		s.Disks = append(s.Disks, group)
	}
	for group, count := range nics {
		group.Count = count
		s.NICs = append(s.NICs, group)
	}
	for group, count := range gpus {
		group.Count = count
		s.GPUs = append(s.GPUs, group)
	}
	s.NotPurgeable, s.NotPurgeableCount = notPurgeable(report.Disks)
	sortGroups(s)
	s.Disks, s.NICs = s.Disks[:min(len(s.Disks), maxDiskGroups)], s.NICs[:min(len(s.NICs), maxNICGroups)]
	s.GPUs, s.Switches = s.GPUs[:min(len(s.GPUs), maxGPUGroups)], s.Switches[:min(len(s.Switches), maxSwitches)]
	fit(s)
	return s
}

// notPurgeable returns the disks that cannot be purged, up to the limit of the API, and how many there are.
func notPurgeable(disks []wire.InspectedDisk) (some []v1alpha1.NotPurgeableDisk, count int32) {
	for i := range disks {
		if d := &disks[i]; cleaning.IsServerDisk(d) && d.EraseClass == wire.PolicyClear {
			disk := v1alpha1.NotPurgeableDisk{SerialNumber: controllers.Clip(d.SerialNumber, maxDiskBytes), WWN: controllers.Clip(d.WWN, maxDiskBytes)}
			if disk.SerialNumber == "" && disk.WWN == "" {
				disk.Name = controllers.Clip(d.Name, maxDiskBytes)
			}
			some, count = append(some, disk), count+1
		}
	}
	slices.SortFunc(some, func(a, b v1alpha1.NotPurgeableDisk) int {
		return cmp.Or(cmp.Compare(a.SerialNumber, b.SerialNumber), cmp.Compare(a.WWN, b.WWN), cmp.Compare(a.Name, b.Name))
	})
	return some[:min(len(some), maxNotPurgeable)], count
}

// fit shortens the lists of a summary until it is at most maxSummary bytes, NotPurgeable to half of them: NotPurgeableCount keeps how many disks there are.
func fit(s *v1alpha1.InspectionSummary) {
	for jsonSize(s) > maxSummary {
		if !dropLast(s) {
			return
		}
	}
}

// dropLast removes the last element of the list that takes most space, where NotPurgeable may take half of it. It returns false if there is nothing to remove.
func dropLast(s *v1alpha1.InspectionSummary) bool {
	lists := []struct {
		size int
		drop func()
	}{
		{jsonSize(s.Switches), func() { s.Switches = s.Switches[:len(s.Switches)-1] }},
		{jsonSize(s.GPUs), func() { s.GPUs = s.GPUs[:len(s.GPUs)-1] }},
		{jsonSize(s.NICs), func() { s.NICs = s.NICs[:len(s.NICs)-1] }},
		{jsonSize(s.Disks), func() { s.Disks = s.Disks[:len(s.Disks)-1] }},
	}
	largest := lists[0]
	for _, l := range lists[1:] {
		if l.size > largest.size {
			largest = l
		}
	}
	switch {
	case jsonSize(s.NotPurgeable) > maxSummary/2:
		s.NotPurgeable = s.NotPurgeable[:len(s.NotPurgeable)-1]
	case len(s.Switches)+len(s.GPUs)+len(s.NICs)+len(s.Disks) > 0:
		largest.drop()
	default:
		return false
	}
	return true
}

// jsonSize is the size of a value as JSON.
func jsonSize(v any) int {
	content, err := json.Marshal(v)
	if err != nil {
		return 0 // numbers, times and texts can be encoded
	}
	return len(content)
}

// sortGroups gives the groups of a summary an order, so that equal reports have equal summaries.
func sortGroups(s *v1alpha1.InspectionSummary) {
	slices.SortFunc(s.Disks, func(a, b v1alpha1.DiskGroup) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), compareBools(a.Rotational, b.Rotational))
	})
	slices.SortFunc(s.NICs, func(a, b v1alpha1.NICGroup) int { return cmp.Compare(b.SpeedMbps, a.SpeedMbps) })
	slices.SortFunc(s.GPUs, func(a, b v1alpha1.GPUGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Vendor, b.Vendor), cmp.Compare(a.Device, b.Device))
	})
	slices.Sort(s.Switches)
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// maxMemoryDifference is the part of the memory, as one in so many, by which two reports may differ: firmware reserves memory, and BMCs round.
const maxMemoryDifference = 8

// contradictions returns how a report contradicts what the BMC reports and what the spec says, as clauses. Unknown facts contradict nothing. hardware is nil if
// the BMC reported none.
func contradictions(host *v1alpha1.BareMetalHost, hardware *v1alpha1.Hardware, report *v1alpha1.BareMetalInspectionSpec) []string {
	var all []string
	differs := func(what, bmc, agent string, differ bool) {
		if bmc != "" && agent != "" && differ {
			all = append(all, fmt.Sprintf("%s is %q, and the agent found %q", what, bmc, agent))
		}
	}
	architecture := string(claim.Architecture(host.Spec.Architecture))
	differs("spec.architecture", architecture, report.CPU.Architecture, architecture != report.CPU.Architecture)
	for _, mac := range host.Spec.BootMACAddresses {
		if !slices.ContainsFunc(report.NICs, func(n wire.InspectedNIC) bool { return n.MACAddress == mac }) && len(report.NICs) > 0 {
			all = append(all, fmt.Sprintf("spec.bootMACAddresses has %s, and the agent found no interface with it", mac))
		}
	}
	all = append(all, bmcContradiction(host, report.BMC)...)
	if hardware == nil {
		return all
	}
	system := report.System
	differs("the system UUID in the BMC", hardware.SystemUUID, system.SystemUUID, !inventory.SameHardware(hardware.SystemUUID, "", system.SystemUUID, ""))
	differs("the serial number in the BMC", hardware.SerialNumber, system.SerialNumber, !strings.EqualFold(strings.TrimSpace(hardware.SerialNumber), strings.TrimSpace(system.SerialNumber)))
	if a, b := hardware.CPU.Threads, report.CPU.Threads; a > 0 && b > 0 && a != b {
		all = append(all, fmt.Sprintf("the BMC reports %d logical processors, and the agent found %d", a, b))
	}
	if a, b := hardware.Memory.Value(), report.Memory.Bytes; a > 0 && b > 0 && max(a, b)-min(a, b) > max(a, b)/maxMemoryDifference {
		all = append(all, fmt.Sprintf("the BMC reports %d MiB of memory, and the agent found %d MiB", a>>20, b>>20))
	}
	return append(all, missingDisks(hardware.Disks, report.Disks)...)
}

// bmcContradiction compares the address of the BMC in the spec with what the server knows of its BMC. A host name contradicts nothing.
func bmcContradiction(host *v1alpha1.BareMetalHost, found *wire.InspectedBMC) []string {
	address, err := url.Parse(host.Spec.BMC.Address)
	if err != nil || found == nil || found.Address == "" && found.Address6 == "" {
		return nil
	}
	want, err := netip.ParseAddr(address.Hostname())
	if err != nil {
		return nil
	}
	for _, text := range []string{found.Address, found.Address6} {
		if got, err := netip.ParseAddr(text); err == nil && got.WithZone("") == want.WithZone("") {
			return nil
		}
	}
	return []string{fmt.Sprintf("spec.bmc.address is %s, and the server says that its BMC has %s", want, strings.Trim(found.Address+" "+found.Address6, " "))}
}

// missingDisks returns the disks that the BMC reports and the agent did not find. Where the agent found a disk that the BMC does not report, or that has no
// serial number, a controller may show its drives as other disks, and nothing follows.
func missingDisks(reported []v1alpha1.Disk, found []wire.InspectedDisk) []string {
	serials := map[string]bool{}
	for _, d := range reported {
		serials[strings.ToLower(d.SerialNumber)] = true
	}
	seen := map[string]bool{}
	for _, d := range found {
		switch {
		case d.Removable || d.Transport == wire.TransportUSB:
			continue
		case d.SerialNumber == "" || !serials[strings.ToLower(d.SerialNumber)]:
			return nil
		}
		seen[strings.ToLower(d.SerialNumber)] = true
	}
	var missing []string
	for _, d := range reported {
		if d.SerialNumber != "" && !seen[strings.ToLower(d.SerialNumber)] {
			missing = append(missing, fmt.Sprintf("the BMC reports disk %q (%s), and the agent did not find it", d.SerialNumber, d.Name))
		}
	}
	return missing
}

// joined makes one sentence of clauses.
func joined(clauses []string) string {
	text := strings.Join(clauses, "; ")
	return strings.ToUpper(text[:1]) + text[1:]
}
