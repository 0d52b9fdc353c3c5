package disk

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// Tree is where the kernel's view of the disks is. Tests have trees of their own.
type Tree struct {
	// Sys is sysfs, Dev the device nodes, and Proc procfs.
	Sys, Dev, Proc string
}

// Kernel is the tree of the running kernel.
var Kernel = Tree{Sys: "/sys", Dev: "/dev", Proc: "/proc"}

// notDisks are block devices that are no disks of their own: optical drives, floppies, the boot areas of eMMC, and the paths of an NVMe disk with several
// controllers (nvme0c1n1: the disk itself is nvme0n1). What the kernel makes itself (loop, ram, zram, md, dm, nbd) is below /devices/virtual.
var notDisks = regexp.MustCompile(`^(sr\d+|scd\d+|fd\d+|mtdblock.*|mmcblk\d+(boot\d+|rpmb|gp\d+)|nvme\d+c\d+n\d+|loop\d+|ram\d+|zram\d+|md.*|dm-\d+)$`)

// maxDisks bounds how many disks are read.
const maxDisks = 1024

// List returns the disks of a server, by name. It opens no disk: signatures are not among the facts. What a disk does not report is empty.
func List(ctx context.Context, t Tree) ([]Disk, error) {
	entries, err := os.ReadDir(filepath.Join(t.Sys, "block"))
	if err != nil {
		return nil, fmt.Errorf("cannot list the block devices: %w", err)
	}
	mounts, err := readMounts(t.Proc)
	if err != nil {
		return nil, err
	}
	links := readByPath(t.Dev)
	var all []Disk
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if notDisks.MatchString(e.Name()) || len(all) == maxDisks {
			continue
		}
		dir, err := filepath.EvalSymlinks(filepath.Join(t.Sys, "block", e.Name()))
		if err != nil {
			continue // it has just been removed
		}
		s := sysDisk{tree: t, name: e.Name(), dir: dir}
		if d, ok := s.read(mounts); ok {
			d.ByPath = cmp.Or(d.ByPath, links[d.Name])
			all = append(all, d)
		}
	}
	findPaths(all)
	slices.SortFunc(all, func(a, b Disk) int { return cmp.Or(compareAddresses(a.Name, b.Name), cmp.Compare(a.Name, b.Name)) })
	return all, nil
}

// sysDisk is the folder of a disk in sysfs.
type sysDisk struct {
	tree      Tree
	name, dir string
}

// attr returns an attribute, without the spaces around it, or nothing.
func (s sysDisk) attr(name string) string { return readText(filepath.Join(s.dir, name)) }

func (s sysDisk) number(name string) int64 {
	n, err := strconv.ParseInt(s.attr(name), 10, 64)
	if err != nil {
		return 0 // what is not there is unknown
	}
	return n
}

// sectorBytes returns an attribute that is the size of a sector.
func (s sysDisk) sectorBytes(name string) int32 {
	return int32(min(max(s.number(name), 0), math.MaxInt32)) //nolint:gosec // it is limited
}

func readText(name string) string {
	b, err := os.ReadFile(name) //nolint:gosec // below the folder of sysfs
	if err != nil {
		return "" // an attribute that is not there, or that the device does not answer
	}
	return text(b)
}

// virtualMedia are parts of models and vendors of what BMCs emulate. Most are USB disks as well.
var virtualMedia = regexp.MustCompile(`(?i)virtual (media|floppy|cd|hdisk|hdrive|usb)|remote media|vflash|file-(stor|cd) gadget|vmedia`)

// read reads the facts. It returns false for what is no disk, such as a card reader without a card. A disk whose size the kernel does not know is one: it has sectors of
// 520 bytes, or does not answer.
func (s sysDisk) read(mounts map[string][]string) (Disk, bool) {
	relative, err := filepath.Rel(s.tree.Sys, s.dir)
	virtual := err != nil || strings.HasPrefix(relative, "devices/virtual/") && !strings.Contains(relative, "/nvme-subsystem/")
	size := s.number("size")
	kind := s.attr("device/type")
	isSCSI := strings.Contains(s.dir, "/target")
	// SCSI types: 0 disk, 14 simplified disk, 20 zoned disk (SPC-5, table 151).
	if virtual || s.attr("hidden") == "1" || size < 0 || size > 1<<53 || isSCSI && kind != "" && !slices.Contains([]string{"0", "14", "20"}, kind) {
		return Disk{}, false
	}
	d := Disk{Node: filepath.Join(s.tree.Dev, s.name)}
	d.Name = s.name
	d.SizeBytes = size * 512 // in sectors of 512 bytes, whatever the disk's are (Documentation/ABI/stable/sysfs-block)
	d.LogicalSectorBytes, d.PhysicalSectorBytes = s.sectorBytes("queue/logical_block_size"), s.sectorBytes("queue/physical_block_size")
	d.Rotational, d.Removable, d.ReadOnly = s.attr("queue/rotational") == "1", s.attr("removable") == "1", s.attr("ro") == "1"
	d.Zoned = s.attr("queue/zoned") == "host-managed"
	d.Transport = s.transport()
	if size == 0 && (d.Removable || d.Transport == wire.TransportUSB || d.Transport == "") {
		return Disk{}, false
	}
	s.identify(&d)
	d.VirtualMedia = virtualMedia.MatchString(d.Vendor + " " + d.Model)
	if isSCSI {
		if device, err := filepath.EvalSymlinks(filepath.Join(s.dir, "device")); err == nil {
			d.HCTL = filepath.Base(device)
		}
	}
	d.ByPath, d.ByPathAlias = s.byPath()
	d.Holders = s.holders(s.dir)
	for _, number := range s.numbers(s.dir, 0) {
		d.Mounted = append(d.Mounted, mounts[number]...)
	}
	return d, true
}

// transport is how the disk is connected, from its place in the tree.
func (s sysDisk) transport() wire.DiskTransport {
	switch dir := s.dir; {
	case strings.Contains(dir, "/usb"):
		return wire.TransportUSB
	case strings.Contains(dir, "/nvme"):
		if kind := s.attr("device/transport"); kind != "" && kind != "pcie" {
			return wire.TransportNVMeOverFabrics
		}
		return wire.TransportNVMe
	case strings.Contains(dir, "/ata"):
		return wire.TransportSATA
	case strings.Contains(dir, "/end_device-"):
		return wire.TransportSAS
	case strings.Contains(dir, "/rport-"):
		return wire.TransportFibreChannel
	case strings.Contains(dir, "/session"):
		return wire.TransportISCSI
	case strings.Contains(dir, "/target"):
		return wire.TransportSCSI
	case strings.Contains(dir, "/virtio"):
		return wire.TransportVirtio
	case strings.Contains(dir, "/mmc"):
		return wire.TransportMMC
	default:
		return ""
	}
}

// parts returns the folders of the partitions.
func parts(dir string) []string {
	found, err := filepath.Glob(filepath.Join(dir, "*", "partition"))
	if err != nil {
		return nil
	}
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found
}

// holders returns the names of what holds a disk or its partitions: md127, dm-0 (and the name of the device-mapper device).
func (s sysDisk) holders(dir string) []string {
	var all []string
	for _, d := range append([]string{dir}, parts(dir)...) {
		entries, err := os.ReadDir(filepath.Join(d, "holders"))
		if err != nil {
			continue
		}
		for _, e := range entries {
			name := e.Name()
			if dm := readText(filepath.Join(s.tree.Sys, "block", name, "dm", "name")); dm != "" {
				name += " (" + dm + ")"
			}
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// numbers returns the device numbers of a disk, its partitions, and what holds them.
func (s sysDisk) numbers(dir string, depth int) []string {
	const maxDepth = 8
	if depth > maxDepth {
		return nil
	}
	var all []string
	for _, d := range append([]string{dir}, parts(dir)...) {
		if number := readText(filepath.Join(d, "dev")); number != "" {
			all = append(all, number)
		}
		entries, err := os.ReadDir(filepath.Join(d, "holders"))
		if err != nil {
			continue
		}
		for _, e := range entries {
			all = append(all, s.numbers(filepath.Join(s.tree.Sys, "block", e.Name()), depth+1)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// readMounts returns the mount points by device number, from mountinfo (proc(5)).
func readMounts(proc string) (map[string][]string, error) {
	b, err := os.ReadFile(filepath.Join(proc, "self", "mountinfo")) //nolint:gosec // below the folder of procfs
	if err != nil {
		return nil, fmt.Errorf("cannot read the mounts, which are protected: %w", err)
	}
	mounts := map[string][]string{}
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			mounts[fields[2]] = append(mounts[fields[2]], fields[4])
		}
	}
	return mounts, nil
}

// readByPath returns the names in by-path by kernel name, where a udev has made them.
func readByPath(dev string) map[string]string {
	links := map[string]string{}
	entries, err := os.ReadDir(filepath.Join(dev, "disk", "by-path"))
	if err != nil {
		return links // there is no udev in the ramdisk
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dev, "disk", "by-path", e.Name())); err == nil {
			links[filepath.Base(to)] = e.Name()
		}
	}
	return links
}
