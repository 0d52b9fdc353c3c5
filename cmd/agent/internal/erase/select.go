package erase

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/diskname"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// selection is which disks are erased, and what became of the others.
type selection struct {
	units   []*unit
	results []result
}

// selectDisks decides about all disks. The namespaces of an NVMe drive are one unit.
func selectDisks(plan agent.CleanPlan, all []disk.Disk) selection {
	var s selection
	ranges := map[string][]area{}
	refused := map[string]result{}
	for _, r := range plan.Ranges {
		s.place(plan, r, all, ranges, refused)
	}
	s.results = append(s.results, missing(plan, all)...)
	for _, d := range all {
		r, ok := refused[d.Name]
		if !ok {
			r = decide(d, all, plan)
		}
		u := s.unit(d)
		if r.Outcome == "" {
			u.targets = append(u.targets, &target{disk: d, ranges: ranges[d.Name]})
			continue
		}
		u.excluded = append(u.excluded, d)
		s.results = append(s.results, r)
	}
	s.units = slices.DeleteFunc(s.units, func(u *unit) bool { return len(u.targets) == 0 })
	return s
}

// namespaceName is the name of an NVMe namespace. The number before the n is the number of the controller. Where the kernel joins paths, it is the number of the
// subsystem.
var namespaceName = regexp.MustCompile(`^(nvme\d+)n\d+$`)

// unit returns the unit of a disk, which it adds if there is none.
func (s *selection) unit(d disk.Disk) *unit {
	key := d.Name
	if m := namespaceName.FindStringSubmatch(d.Name); m != nil {
		key = m[1]
	}
	for _, u := range s.units {
		if u.key == key {
			return u
		}
	}
	u := &unit{key: key}
	s.units = append(s.units, u)
	return u
}

// place finds the disk of a range. If the plan erases only the disks of its ranges, disks that cannot be told apart are refused: the provider wrote only one of them.
func (s *selection) place(plan agent.CleanPlan, r agent.DiskRange, all []disk.Disk, ranges map[string][]area, refused map[string]result) {
	var found []disk.Disk
	for _, d := range all {
		if d.Is(r.Disk) {
			found = append(found, d)
		}
	}
	switch {
	case r.Disk.SerialNumber == "" && r.Disk.WWN == "" && r.Disk.ByPath == "":
		s.results = append(s.results, failed(wire.DiskErasure{Disk: r.Disk}, wire.ReasonPlanInvalid, "a range of the plan names no disk"))
	case len(found) == 0:
		s.results = append(s.results, failed(wire.DiskErasure{Disk: r.Disk}, "", "it has bootstrap data and is not there: find it and erase it"))
	case len(found) > 1:
		why := fmt.Sprintf("%d disks match this, and only one of them has the bootstrap data", len(found))
		s.results = append(s.results, failed(wire.DiskErasure{Disk: r.Disk}, "", why))
		for _, d := range found {
			if OnlyWritten(plan) {
				refused[d.Name] = failed(identify(d), "", strings.TrimSuffix(why+", so it is not erased: "+disk.Protect(d, false, plan.Keep).Why, ": "))
			}
		}
	case r.Offset < 0 || r.Length < 0 || r.Length > found[0].SizeBytes || r.Offset > found[0].SizeBytes-r.Length:
		refused[found[0].Name] = failed(identify(found[0]), wire.ReasonPlanInvalid, fmt.Sprintf("the range of %d bytes at %d is not on the disk", r.Length, r.Offset))
	default:
		ranges[found[0].Name] = append(ranges[found[0].Name], area{r.Offset, r.Length})
	}
}

func failed(d wire.DiskErasure, reason, message string) result {
	d.Outcome, d.Message = agent.Failed, message
	return result{ErasedDisk: agent.ErasedDisk{DiskErasure: d}, reason: reason}
}

// missing returns the disks that the plan expects and that are not there.
func missing(plan agent.CleanPlan, all []disk.Disk) []result {
	var out []result
	for _, id := range plan.Expected {
		if !slices.ContainsFunc(all, func(d disk.Disk) bool { return d.Is(id) }) {
			out = append(out, failed(wire.DiskErasure{Disk: id}, "", "the server had it when the machine claimed it, and it is not there now: find it and erase it"))
		}
	}
	return out
}

// Absent is true if a disk that the plan names is not there yet: one that it expects, or one with bootstrap data.
func Absent(plan agent.CleanPlan, all []disk.Disk) bool {
	return len(missing(plan, all)) > 0 || slices.ContainsFunc(plan.Ranges, func(r agent.DiskRange) bool {
		return !slices.ContainsFunc(all, func(d disk.Disk) bool { return d.Is(r.Disk) })
	})
}

// unexpected is true for a disk that the server did not have, as far as the plan knows.
func unexpected(plan agent.CleanPlan, d disk.Disk) bool {
	return len(plan.Expected) > 0 && !slices.ContainsFunc(plan.Expected, d.Is)
}

// namedRanges returns the ranges of a plan that name a disk.
func namedRanges(d disk.Disk, plan agent.CleanPlan) []agent.DiskRange {
	return slices.DeleteFunc(slices.Clone(plan.Ranges), func(r agent.DiskRange) bool { return !d.Is(r.Disk) })
}

// provenRanges returns the ranges of a plan that are on a disk. On a disk of a storage system, which other servers may use, they are only those whose bootstrap data is
// there: a client with the token of a boot can name any disk as the one that it writes.
func provenRanges(d disk.Disk, plan agent.CleanPlan) []agent.DiskRange {
	return slices.DeleteFunc(namedRanges(d, plan), func(r agent.DiskRange) bool { return d.Remote() && !d.HasData(r) })
}

// IsQuick is true for a plan that takes seconds: that of the policy Metadata.
func IsQuick(plan agent.CleanPlan) bool { return plan.Policy == wire.PolicyMetadata }

// OnlyWritten is true for a plan that erases only the disks of its ranges, which the provider wrote.
func OnlyWritten(plan agent.CleanPlan) bool {
	return plan.Policy == wire.PolicyMetadata && !plan.AllDisks
}

// decide returns the result of a disk that the plan does not erase. One without an outcome is erased, or is unreadable: what its drive says decides then.
func decide(d disk.Disk, all []disk.Disk, plan agent.CleanPlan) result {
	is, named, proven := identify(d), namedRanges(d, plan), provenRanges(d, plan)
	bySerial := slices.ContainsFunc(proven, func(r agent.DiskRange) bool { return diskname.SameSerial(r.Disk.SerialNumber, d.SerialNumber) })
	judged := d
	if plan.Policy != wire.PolicyMetadata {
		judged.Unreadable = "" // it may be locked, or a sanitize operation may be in progress: its drive is asked first
	}
	p := disk.Protect(judged, bySerial, plan.Keep)
	permanent := "" // the reason of what another attempt does not change: a drive may answer later, and Metadata asks no drive
	if IsQuick(plan) && len(proven) > 0 {
		permanent = wire.ReasonDiskProtected
	}
	switch {
	case OnlyWritten(plan) && len(named) == 0:
		return excluded(d, cmp.Or(p.Why, "the policy erases only the disks that the provider wrote"))
	case p.Why != "" && len(proven) > 0:
		return failed(is, wire.ReasonDiskProtected, "it has bootstrap data and must not be touched: "+p.Why)
	case p.Excluded:
		return excluded(d, p.Why)
	case d.Remote() && len(named) == 0:
		return excluded(d, "it is a disk of a storage system (by "+string(d.Transport)+")")
	case d.Remote() && len(proven) == 0:
		return failed(is, wire.ReasonDiskProtected, fmt.Sprintf("it is a disk of a storage system (by %s), and has no partition with the bootstrap data of this server: if this server used it, "+
			"erase it by hand, and name it in spec.storage.keep", d.Transport))
	case unexpected(plan, d):
		return failed(is, permanent, "the server did not have it when the machine claimed it: remove it, or inspect the server again if it belongs to it")
	case p.Why != "":
		return failed(is, permanent, p.Why)
	case IsQuick(plan) && plan.AllDisks && d.Unreadable != "":
		return failed(is, permanent, "it cannot be read: "+d.Unreadable)
	case len(d.Holders) > 0:
		// The ramdisk has no modules of md and of the device mapper, so nothing can be taken apart here that another system would find again.
		return failed(is, wire.ReasonDiskBusy, "it is held by "+strings.Join(d.Holders, ", ")+", which the agent does not take apart")
	}
	if why := disk.MayBeKept(d, all, plan.Keep); why != "" {
		return failed(is, permanent, why)
	}
	return result{ErasedDisk: agent.ErasedDisk{DiskErasure: is}}
}

// assembled are the signatures by which the next system may assemble or mount what is on a disk that is left out.
var assembled = []string{"md", "lvm2", "zfs", "imsm", "ddf", "bcache", "btrfs"}

// excluded returns the result of a disk that is left out, with warnings of what the next system may take from it.
func excluded(d disk.Disk, why string) result {
	r := result{ErasedDisk: agent.ErasedDisk{DiskErasure: identify(d)}}
	r.Outcome, r.Message = wire.LeftOut, why
	for _, s := range d.Found {
		text := ""
		switch {
		case slices.Contains(assembled, s.Type):
			text = fmt.Sprintf("it has %s, which the next system may assemble", s.Type)
		case slices.ContainsFunc(disk.DataLabels, func(l string) bool { return strings.EqualFold(l, s.Label) }):
			text = fmt.Sprintf("it has a file system with the label %s, which the next system may take for its configuration", s.Label)
		}
		if text != "" && !slices.Contains(r.Warnings, text) {
			r.Warnings = append(r.Warnings, text)
		}
	}
	return r
}
