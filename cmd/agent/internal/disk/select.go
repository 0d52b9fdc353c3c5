package disk

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/diskname"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// minSize is the size of the smallest disk that is selected without hints: 4 GiB.
const minSize = 4 << 30

// Protection is why no plan may touch a disk. The zero value is that of a disk that may be written to.
type Protection struct {
	// Why is a clause for messages.
	Why string
	// Excluded is true if a plan for all disks leaves the disk out: it is kept, or it is not a disk of the server. Such a plan fails on other protected disks.
	Excluded bool
}

// Protect returns why no plan may touch a disk. A disk that the plan names by serial number is protected only if it is kept, mounted, read-only or reached by
// several paths. keep are the disks that the plan keeps.
func Protect(d Disk, named bool, keep []wire.KeptDisk) Protection {
	hasShared := func(s Signature) bool { return slices.Contains(shared, s.Type) }
	at := slices.IndexFunc(d.Found, hasShared)
	switch {
	case slices.ContainsFunc(keep, d.isKept):
		return Protection{Why: "the host's spec.storage.keep names it", Excluded: true}
	case len(d.Mounted) > 0:
		return Protection{Why: "it is mounted at " + d.Mounted[0]}
	case d.ReadOnly:
		return Protection{Why: "it is read-only"}
	case len(d.Paths) > 0:
		return Protection{Why: fmt.Sprintf("it is the same disk as %s, and a plan would write through one of several paths: connect it by one path", strings.Join(d.Paths, " and "))}
	case named && (d.Unreadable == "" || len(keep) == 0): // what cannot be read may have a label to keep
		return Protection{}
	case d.VirtualMedia:
		return Protection{Why: "it is virtual media", Excluded: true}
	case d.Transport == wire.TransportUSB:
		return Protection{Why: "it is a USB disk", Excluded: true}
	case d.Removable:
		return Protection{Why: "it is removable", Excluded: true}
	case at >= 0:
		return Protection{Why: fmt.Sprintf("it has %s, which other servers may use", d.Found[at].Type), Excluded: d.Remote()}
	case d.Unreadable != "":
		return Protection{Why: "what is on it is unknown: " + d.Unreadable}
	case d.Zoned:
		return Protection{Why: "it is a host-managed zoned disk, which takes no random writes"}
	default:
		return Protection{}
	}
}

// Protected is the clause of Protect. want is the plan's selection.
func Protected(d Disk, want agent.RootDevice, keep []wire.KeptDisk) string {
	return Protect(d, diskname.SameSerial(want.SerialNumber, d.SerialNumber), keep).Why
}

// isKept is true for the disk that an entry names. Only a label is compared with the labels of partitions and file systems, which a tenant can write.
func (d Disk) isKept(keep wire.KeptDisk) bool {
	label := strings.TrimSpace(keep.Label)
	isLabel := func(s Signature) bool { return s.Label == label }
	return diskname.IsNamed(d.ID(), keep) ||
		label != "" && (slices.Contains(d.PartitionNames, label) || slices.ContainsFunc(d.Found, isLabel))
}

// unread are the signatures of volumes whose labels, or the labels of what is in them, are not read.
var unread = []string{
	"lvm2", "md", "luks", "zfs", "bcache", "bluestore", "ntfs", "exfat", "imsm", "ddf", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2", "udf", "hfsplus", "apfs", "erofs", "squashfs",
}

// MayBeKept returns why a disk may be one that the plan keeps: no disk has what an entry names, and of this disk it is unknown. It is empty for other disks. all are the
// disks of the server.
func MayBeKept(d Disk, all []Disk, keep []wire.KeptDisk) string {
	for _, k := range keep {
		why := d.unknown(k)
		if why != "" && !slices.ContainsFunc(all, func(other Disk) bool { return other.isKept(k) }) {
			return fmt.Sprintf("%s, and it might be %s, which the host's spec.storage.keep names and no disk is known to be: name the disk to keep by its serial number, "+
				"or remove the entry if that disk is gone", why, cmp.Or(k.SerialNumber, k.WWN, k.Label))
		}
	}
	return ""
}

// unknown is which fact is missing to compare a disk with an entry; empty if none is.
func (d Disk) unknown(keep wire.KeptDisk) string {
	at := slices.IndexFunc(d.Found, func(s Signature) bool { return slices.Contains(unread, s.Type) })
	switch {
	case keep.SerialNumber != "" && strings.TrimSpace(d.SerialNumber) == "":
		return "its serial number is unknown"
	case keep.WWN != "" && diskname.NormalWWN(d.WWN) == "":
		return "its WWN is unknown"
	case keep.Label != "" && at >= 0:
		return fmt.Sprintf("it has %s, whose labels are not read", d.Found[at].Type)
	case keep.Label != "" && d.hasUnreadTable():
		return "it has a GPT without a partition that can be read"
	default:
		return ""
	}
}

// hasUnreadTable is true for a disk with the header of a GPT and no known partition.
func (d Disk) hasUnreadTable() bool {
	isTable := func(s Signature) bool { return s.Type == "gpt" }
	return len(d.PartitionNames) == 0 && slices.ContainsFunc(d.Found, isTable) && !slices.ContainsFunc(d.Found, func(s Signature) bool { return s.Partition > 0 })
}

// Select returns the disk that a plan means. Protected disks are not candidates.
//
// With hints exactly one candidate must match them all. Without any it is the smallest candidate with at least 4 GiB; of several with that size the first by
// by-path name, and then by kernel name, so that a server with two equal disks gets the same one in each boot. The error is a failure that lists all disks.
func Select(disks []Disk, want agent.RootDevice, keep []wire.KeptDisk) (Disk, error) {
	hinted := want != (agent.RootDevice{})
	var matching, candidates []Disk
	reasons := make([]string, len(disks))
	for i, d := range disks {
		if reasons[i] = mismatch(d, want); reasons[i] == "" && !hinted && d.SizeBytes < minSize {
			reasons[i] = "it is smaller than 4 GiB"
		}
		if reasons[i] != "" {
			continue
		}
		matching = append(matching, d)
		if reasons[i] = cmp.Or(Protected(d, want, keep), MayBeKept(d, disks, keep)); reasons[i] == "" {
			candidates = append(candidates, d)
		}
	}
	switch {
	case len(matching) == 0:
		return Disk{}, failure.New(wire.ReasonNoDiskMatches, "no disk matches %s. %s", hints(want), list(disks, reasons))
	case len(candidates) == 0:
		return Disk{}, failure.New(wire.ReasonDiskProtected, "the disks that match %s are protected. To use one that is not kept, name it by its serial number. %s", hints(want), list(disks, reasons))
	case len(candidates) > 1 && hinted:
		return Disk{}, failure.New(wire.ReasonSeveralDisksMatch, "%d disks match %s: add a hint, such as the serial number. %s", len(candidates), hints(want), list(disks, reasons))
	}
	return slices.MinFunc(candidates, func(a, b Disk) int {
		return cmp.Or(cmp.Compare(a.SizeBytes, b.SizeBytes), compareAddresses(a.ByPath, b.ByPath), compareAddresses(a.Name, b.Name), cmp.Compare(a.Name, b.Name))
	}), nil
}

// compareAddresses compares names with their numbers as numbers: nvme2n1 is before nvme10n1. A disk without a name is last.
func compareAddresses(a, b string) int {
	if (a == "") != (b == "") {
		return cmp.Compare(len(b), len(a))
	}
	for a != "" && b != "" {
		x, y := leading(a), leading(b)
		a, b = a[len(x):], b[len(y):]
		if isDigit(x[0]) && isDigit(y[0]) {
			x, y = strings.TrimLeft(x, "0"), strings.TrimLeft(y, "0")
			if c := cmp.Compare(len(x), len(y)); c != 0 {
				return c
			}
		}
		if c := cmp.Compare(x, y); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// leading returns the digits at the start of a text. If the text starts with another character, it returns all characters before the first digit.
func leading(s string) string {
	n := 1
	for n < len(s) && isDigit(s[n]) == isDigit(s[0]) {
		n++
	}
	return s[:n]
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// mismatch returns the first hint that a disk does not match, as a reason.
func mismatch(d Disk, want agent.RootDevice) string {
	contains := func(text, part string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(part)) }
	checks := []struct {
		hint string
		ok   bool
	}{
		{"serial", want.SerialNumber == "" || diskname.SameSerial(want.SerialNumber, d.SerialNumber)},
		{"wwn", want.WWN == "" || diskname.SameWWN(want.WWN, d.WWN)},
		{"model", contains(d.Model, want.Model)},
		{"vendor", contains(d.Vendor, want.Vendor)},
		{"minimum size", d.SizeBytes >= want.MinSize},
		{"rotational", want.Rotational == nil || *want.Rotational == d.Rotational},
		{"hctl", want.HCTL == "" || want.HCTL == d.HCTL},
		{"by-path", want.ByPath == "" || isByPath(d, want.ByPath)},
		{"name", want.Name == "" || strings.TrimPrefix(want.Name, "/dev/") == d.Name},
	}
	for _, c := range checks {
		if !c.ok {
			return "its " + c.hint + " differs"
		}
	}
	return ""
}

func isByPath(d Disk, want string) bool {
	want = strings.TrimPrefix(want, "/dev/disk/by-path/")
	return want == d.ByPath || want == d.ByPathAlias
}

// hints describes a selection.
func hints(want agent.RootDevice) string {
	var all []string
	for _, h := range []struct{ name, value string }{
		{"serial", want.SerialNumber},
		{"wwn", want.WWN},
		{"model", want.Model},
		{"vendor", want.Vendor},
		{"hctl", want.HCTL},
		{"byPath", want.ByPath},
		{"name", want.Name},
	} {
		if h.value != "" {
			all = append(all, fmt.Sprintf("%s %.100q", h.name, h.value))
		}
	}
	if want.MinSize != 0 {
		all = append(all, fmt.Sprintf("at least %d bytes", want.MinSize))
	}
	if want.Rotational != nil {
		all = append(all, fmt.Sprintf("rotational %t", *want.Rotational))
	}
	if len(all) == 0 {
		return "the default (the smallest disk with at least 4 GiB)"
	}
	return "the hints " + strings.Join(all, ", ")
}

// list describes all disks, each with the reason why it is not used.
func list(disks []Disk, reasons []string) string {
	if len(disks) == 0 {
		return "The server has no disks: check the controller's mode, and whether its driver is known"
	}
	lines := make([]string, len(disks))
	for i, d := range disks {
		lines[i] = fmt.Sprintf("%s (%.1f GB, model %s, serial %s, wwn %s, by-path %s): %s", d.Name, float64(d.SizeBytes)/1e9, cmp.Or(d.Model, "unknown"),
			cmp.Or(d.SerialNumber, "unknown"), cmp.Or(d.WWN, "unknown"), cmp.Or(d.ByPath, "unknown"), cmp.Or(reasons[i], "matches"))
	}
	return "The disks are: " + strings.Join(lines, "; ")
}
