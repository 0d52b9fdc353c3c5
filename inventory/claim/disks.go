package claim

import (
	"cmp"
	"slices"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// diskGroup is a number of equal disks. rotational is nil if it is unknown.
type diskGroup struct {
	count      int32
	size       int64
	rotational *bool
}

// disks returns the disks of a host.
func disks(host *v1alpha1.BareMetalHost) []diskGroup {
	var all []diskGroup
	if f := found(host); f != nil && len(f.Disks) > 0 {
		for i := range f.Disks {
			all = append(all, diskGroup{f.Disks[i].Count, f.Disks[i].SizeBytes, &f.Disks[i].Rotational})
		}
		return all
	}
	if r := reported(host); r != nil {
		for i := range r.Disks {
			all = append(all, diskGroup{1, r.Disks[i].Size.Value(), r.Disks[i].Rotational})
		}
	}
	return all
}

// disksSuffice is true if each requirement can be met by disks of its own.
//
// It gives the smallest disk away first. The requirements that it could meet can also be met by every larger disk of its kind, so only the kind matters for the
// choice: a requirement for one kind comes before one for any kind, which has more disks left.
func disksSuffice(groups []diskGroup, need []v1alpha1.DiskRequirement) bool {
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b diskGroup) int { return cmp.Compare(a.size, b.size) })
	left := make([]int32, len(need))
	for i := range need {
		left[i] = max(need[i].Count, 1)
	}
	for _, group := range groups {
		for _, anyKind := range []bool{false, true} {
			for i := range need {
				if (need[i].Rotational == nil) == anyKind && meets(group, need[i]) {
					used := min(group.count, left[i])
					group.count, left[i] = group.count-used, left[i]-used
				}
			}
		}
	}
	return !slices.ContainsFunc(left, func(n int32) bool { return n > 0 })
}

// meets is true for disks that meet a requirement.
func meets(group diskGroup, need v1alpha1.DiskRequirement) bool {
	return (need.MinSize == nil || group.size >= need.MinSize.Value()) &&
		(need.Rotational == nil || group.rotational != nil && *group.rotational == *need.Rotational)
}
