// Package hardware reads the hardware of a server into a wire.Inspection: from the file systems /sys and /proc, by ioctls of network interfaces and disks, and
// from the BMC through the kernel's IPMI driver. It opens no disk for writing.
//
// What a server reports is not trusted: sizes are bounded, parsers are pure functions on bytes, and strings are cut and made valid UTF-8. Nothing that
// cannot be read fails the inventory: Problems names it.
package hardware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/drive"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent/printable"
)

// Source is where the hardware is read.
type Source struct {
	// Root is the folder below which /sys and /proc are: "/" on a server.
	Root string
	// Architecture is that of the processor, in the notation of Kubernetes (and Go).
	Architecture string
	// Links asks network drivers. Nil asks none.
	Links Links
	// Port returns the port of a disk with a name of the kernel, such as sda. Nil asks no disk.
	Port func(name string) drive.Port
	// BMC sends commands to the BMC. Nil sends none.
	BMC BMC
}

// Collect reads the hardware. disks are the disks that were found: Collect adds their health and erase methods. release is that of the agent. What cannot be
// read, or not before the end of ctx, is missing and named in Problems. The inventory is not yet trimmed (Trim).
func (s *Source) Collect(ctx context.Context, disks []wire.InspectedDisk, release string) wire.Inspection {
	c := &collector{Source: s}
	inv := wire.Inspection{AgentRelease: release, Disks: slices.Clone(disks)}
	tables := c.smbios()
	inv.System = tables.System
	inv.CPU = c.cpu(tables)
	inv.Memory = c.memory(tables)
	inv.NICs = c.nics()
	inv.Devices = c.devices()
	inv.TPMVersion = c.tpm()
	inv.FirmwareMode, inv.SecureBoot = c.firmware()
	inv.BMC = c.bmc(ctx)
	c.disks(ctx, inv.Disks)
	slices.Sort(c.problems) // disks answer in any order
	inv.Problems = c.problems
	return inv
}

// collector is one collection.
type collector struct {
	*Source

	problems []string
}

// maxProblems is the maximum number of problems that are recorded, and maxEntries the maximum number of entries of a folder that are read.
const (
	maxProblems = 64
	maxEntries  = 4096
)

// The maximum sizes of files, in bytes. An attribute in sysfs has at most one page.
const (
	maxAttribute = 4 << 10
	maxProcFile  = 16 << 20
	maxTables    = 1 << 20
)

func (c *collector) problemf(format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, printable.Line(fmt.Sprintf(format, args...), maxText))
	}
}

func (c *collector) path(elements ...string) string {
	return filepath.Join(append([]string{c.Root}, elements...)...)
}

// read reads a file. A file that is too large is cut.
func (c *collector) read(limit int64, elements ...string) ([]byte, error) {
	f, err := os.Open(c.path(elements...))
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	return io.ReadAll(io.LimitReader(f, limit))
}

// optional reads a file whose absence is no problem. It returns nil for an absent one, and for one that cannot be read.
func (c *collector) optional(limit int64, elements ...string) []byte {
	content, err := c.read(limit, elements...)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		c.problemf("%v", err)
	}
	return content
}

// attribute reads a file of sysfs. It returns "" for one that does not exist or has no value: the kernel answers EINVAL for the carrier of a link that is down.
func (c *collector) attribute(elements ...string) string {
	content, err := c.read(maxAttribute, elements...)
	if err != nil {
		return ""
	}
	return printable.Line(string(content), maxText)
}

// number reads a file of sysfs with a number, also a hexadecimal one with 0x. It returns false for one that does not exist or has no number.
func (c *collector) number(elements ...string) (int, bool) {
	n, err := strconv.ParseInt(c.attribute(elements...), 0, 0)
	return int(n), err == nil
}

// limited limits a number to those that an inspection can have.
func limited(n int) int32 { return int32(min(max(n, 0), math.MaxInt32)) } //nolint:gosec // it is limited

// entries returns the names of the entries of a folder that fulfil a condition, sorted. The absence of the folder is no problem.
func (c *collector) entries(keep func(name string) bool, elements ...string) []string {
	dir, err := os.Open(c.path(elements...))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			c.problemf("%v", err)
		}
		return nil
	}
	defer dir.Close() //nolint:errcheck // it was only read
	names, err := dir.Readdirnames(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		c.problemf("%v", err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !keep(name) })
	slices.Sort(names)
	return names
}

// numbered returns true for names of a prefix and a number, such as cpu12.
func numbered(prefix string) func(name string) bool {
	return func(name string) bool {
		digits, ok := strings.CutPrefix(name, prefix)
		return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
	}
}
