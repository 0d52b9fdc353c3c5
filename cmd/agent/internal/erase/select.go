package erase

import (
	"errors"
	"fmt"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// task is a disk with the ranges of the plan.
type task struct {
	disk   Disk
	ranges []Area
}

// selectDisks returns the disks that the plan means. Problems are of disks that are missing, that cannot be told apart, and of a disk that must not be touched.
func selectDisks(plan agent.CleanPlan, disks []Disk, result *Result) ([]*task, []problem) {
	var todo []*task
	var problems []problem
	for _, r := range plan.Ranges {
		d, p := find(r.Disk, disks)
		if p == nil {
			p = checkRange(r, d)
		}
		if p != nil {
			problems = append(problems, *p)
			if d.Name == "" {
				d.ID = r.Disk
			}
			result.Outcomes = append(result.Outcomes, Outcome{Disk: d, Err: errors.New(p.message)})
			continue
		}
		t := taskOf(&todo, d)
		if r.Length > 0 { // a disk without bootstrap data is only made unbootable
			t.ranges = append(t.ranges, Area{Offset: r.Offset, Length: r.Length})
		}
	}
	if !plan.AllDisks {
		return todo, problems
	}
	for _, d := range disks {
		if d.Protected != "" {
			result.Warnings = append(result.Warnings, fmt.Sprintf("%s was not erased: %.256s", name(d), d.Protected))
			continue
		}
		taskOf(&todo, d)
	}
	return todo, problems
}

// taskOf returns the task of a disk, which it adds if there is none.
func taskOf(todo *[]*task, d Disk) *task {
	for _, t := range *todo {
		if t.disk.Name == d.Name {
			return t
		}
	}
	t := &task{disk: d}
	*todo = append(*todo, t)
	return t
}

// find returns the only disk with an ID.
func find(id agent.DiskID, disks []Disk) (Disk, *problem) {
	if id.Serial == "" && id.WWN == "" && id.ByPath == "" {
		return Disk{}, &problem{agent.ReasonPlanInvalid, "a range of the plan names no disk"}
	}
	var found []Disk
	var others []string
	for _, d := range disks {
		if disk.SameID(id, d.ID, d.ByPathAlias) {
			found = append(found, d)
		} else {
			others = append(others, name(d))
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		others = append(others[:min(len(others), maxMessage)], "no other")
		return Disk{}, &problem{agent.ReasonEraseFailed, fmt.Sprintf(
			"the disk with the %s and %d bytes has bootstrap data and is not there: find it and erase it; there are: %s", describe(id), id.Size, strings.Join(others, ", "))}
	default:
		var message strings.Builder
		fmt.Fprintf(&message, "%d disks have the %s: none of them was erased, because only one has bootstrap data", len(found), describe(id))
		for _, d := range found {
			if d.Protected != "" {
				fmt.Fprintf(&message, "; %s: %.256s", name(d), d.Protected)
			}
		}
		return Disk{}, &problem{agent.ReasonEraseFailed, message.String()}
	}
}

func checkRange(r agent.DiskRange, d Disk) *problem {
	if d.Protected != "" {
		return &problem{agent.ReasonProtectedDisk, fmt.Sprintf("%s has bootstrap data and must not be touched: %.256s", name(d), d.Protected)}
	}
	if r.Offset < 0 || r.Length < 0 || r.Length > d.ID.Size || r.Offset > d.ID.Size-r.Length {
		return &problem{agent.ReasonPlanInvalid, fmt.Sprintf("%s: the range of %d bytes at %d is not on the disk, which has %d bytes", name(d), r.Length, r.Offset, d.ID.Size)}
	}
	return nil
}
