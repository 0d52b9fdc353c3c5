package image

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/fit"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/retry"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/manifest"
)

// maxData bounds the data partition, and maxContent its content, in bytes.
const (
	maxData    = 1 << 30
	maxContent = 8 << 20
)

// loaders are the architectures in the names of boot loaders (UEFI specification, 3.5.1.1).
var loaders = map[string]string{"amd64": "x64", "arm64": "aa64"}

// labels are the labels of data sources. cloud-init takes them in lower and in upper case.
var labels = map[wire.DataSource]string{wire.DataSourceNoCloud: "cidata", wire.DataSourceConfigDrive: "config-2"}

// prepare refuses what cannot work. It writes nothing.
func (w *writer) prepare(ctx context.Context) error {
	w.meter.step(wire.StepWiping, 0)
	if err := w.checkPlan(); err != nil {
		return err
	}
	err := retry.Do(ctx, func(ctx context.Context) error {
		m, err := w.Source.Manifest(ctx)
		w.m = m
		return err
	})
	if err != nil {
		return err
	}
	if err := w.checkImage(); err != nil {
		return err
	}
	if err := w.readHead(ctx); err != nil {
		return err
	}
	if err := w.fit(w.Plan.DataSize); err != nil {
		return err
	}
	w.withhold()
	return nil
}

func (w *writer) hasData() bool { return w.Plan.DataSource != wire.DataSourceNone }

func (w *writer) checkPlan() error {
	label, known := labels[w.Plan.DataSource]
	switch unique, err := gpt.ParseGUID(w.Plan.PartitionGUID); {
	case err != nil:
		return failure.New(wire.ReasonPlanInvalid, "the plan has no valid partition GUID: %w", err)
	case !known && w.hasData():
		return failure.New(wire.ReasonPlanInvalid, "the data source %.20q is unknown", string(w.Plan.DataSource))
	case w.Plan.DataSize < 0 || w.Plan.DataSize > maxData || w.hasData() != (w.Plan.DataSize > 0):
		return failure.New(wire.ReasonPlanInvalid, "the data partition has %d bytes", w.Plan.DataSize)
	default:
		w.unique = unique
	}
	if !w.hasData() {
		return nil
	}
	for _, other := range w.Others {
		if other.Unreadable != "" {
			return failure.New(wire.ReasonDiskFailed, "whether the disk %s (%s) has a file system with the label %s is unknown: %s (the operating system might take its bootstrap data "+
				"from there: replace that disk, or remove it)", other.Name, describe(other), label, other.Unreadable)
		}
		for _, s := range other.Found {
			if strings.EqualFold(s.Label, label) {
				return failure.New(wire.ReasonDataSourceOnOtherDisk, "the disk %s (%s) has a file system (%s) with the label %s at byte %d: the operating system might take its bootstrap data from "+
					"there (erase that disk, or remove it)", other.Name, describe(other), s.Type, s.Label, s.Offset)
			}
		}
	}
	return nil
}

func (w *writer) checkImage() error {
	h := w.m.Header
	switch arch := loaders[w.Architecture]; {
	case h.SectorSize != w.Device.SectorSize():
		return failure.New(wire.ReasonSectorSizeDiffers, "the image is made for sectors of %d bytes, and the disk %s has sectors of %d (use an image that is made for them, or another disk)",
			h.SectorSize, w.Disk.Name, w.Device.SectorSize())
	case h.Size > w.Device.Size():
		return failure.New(wire.ReasonDiskTooSmall, "the image has %d bytes, and the disk %s has %d", h.Size, w.Disk.Name, w.Device.Size())
	case w.Firmware == wire.FirmwareUEFI && (arch == "" || !slices.Contains(h.EFILoaders, arch)):
		return failure.New(wire.ReasonNoBootLoader, `the server boots with UEFI on %s, and the image has no boot loader \EFI\BOOT\BOOT%s.EFI (it has: %s)`,
			w.Architecture, strings.ToUpper(arch), strings.Join(h.EFILoaders, ", "))
	case w.Firmware == wire.FirmwareBIOS && !h.BIOSLoader:
		return failure.New(wire.ReasonNoBootLoader, "the server boots with BIOS, and the image has no boot code in its first sector (set the server to UEFI, or use another image)")
	case w.Firmware != wire.FirmwareUEFI && w.Firmware != wire.FirmwareBIOS:
		return failure.New(wire.ReasonPlanInvalid, "the firmware %.20q is unknown", string(w.Firmware))
	default:
		return nil
	}
}

// readHead fetches the first chunk, which has the partition table.
func (w *writer) readHead(ctx context.Context) error {
	first := w.chunk(0)
	w.head = make([]byte, first.Length)
	if !first.Hole {
		f := &fetcher{source: w.Source, free: make(chan []byte, 1), out: make(chan item, 1)}
		f.free <- w.head
		if err := f.fetch(ctx, []manifest.Chunk{first}); err != nil {
			return err
		}
	}
	const volumeDescriptor, iso = 0x8001, "CD001"
	switch {
	case isZero(w.head[:min(len(w.head), w.Device.SectorSize())]):
		return failure.New(wire.ReasonPartitionTableInvalid, "the first sector of the image is empty: it boots nothing")
	case len(w.head) > volumeDescriptor+len(iso) && string(w.head[volumeDescriptor:][:len(iso)]) == iso:
		// EDK2 boots the El Torito catalogue of a disk without a partition table (PartitionDxe, ElTorito.c): LBA 0 would not decide.
		return failure.New(wire.ReasonPartitionTableInvalid, "the image is an ISO 9660 image, and not that of a disk")
	default:
		return nil
	}
}

// chunk returns a chunk of the image.
func (w *writer) chunk(index int64) manifest.Chunk {
	for c := range w.m.All() {
		if c.Index == index {
			return c
		}
	}
	return manifest.Chunk{}
}

// fit computes the layout with a data partition of a size.
func (w *writer) fit(size int64) error {
	fits := map[manifest.Table]func(fit.Request) (*fit.Layout, error){manifest.GPT: fit.GPT, manifest.MBR: fit.MBR, manifest.NoTable: fit.None}
	layout, err := fits[w.m.Table](fit.Request{
		Head: w.head, ImageSize: w.m.Size, DiskSize: w.Device.Size(), Sector: w.Device.SectorSize(), DataSize: size, Unique: w.unique,
	})
	switch {
	case errors.Is(err, fit.ErrTooSmall):
		return failure.New(wire.ReasonDiskTooSmall, "the image does not fit the disk %s: %w", w.Disk.Name, err)
	case err != nil:
		return failure.New(wire.ReasonPartitionTableInvalid, "the partition table of the image cannot be used: %w", err)
	}
	w.layout = layout
	return nil
}

// span is a range of the disk.
type span struct{ offset, length int64 }

// zeroBlock is what isZero compares with.
var zeroBlock = make([]byte, 64<<10)

func isZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeroBlock))
		if !bytes.Equal(b[:n], zeroBlock[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

// wipe removes what was on the disk: its signatures, and the first and the last MiB, which have partition tables and superblocks.
func (w *writer) wipe(ctx context.Context) error {
	w.result.Warnings = append(w.result.Warnings, w.layout.Warnings...)
	found, err := disk.Signatures(w.Device, w.Device.Size(), w.Device.SectorSize())
	if err != nil {
		return w.diskFailed("read signatures", 0, err)
	}
	sector, size := int64(w.Device.SectorSize()), w.Device.Size()
	w.wiped = []span{{0, fit.Align}, {size - fit.Align, fit.Align}}
	for _, s := range found {
		from := s.Offset &^ (sector - 1)
		to := min((s.Offset+s.Length+sector-1)&^(sector-1), size)
		w.wiped = append(w.wiped, span{from, to - from})
	}
	for _, s := range w.wiped {
		if err := w.Device.ZeroRange(s.offset, s.length); err != nil {
			return w.diskFailed("zero", s.offset, err)
		}
	}
	if err := w.Device.Flush(); err != nil {
		return w.diskFailed("flush", 0, err)
	}
	for _, s := range w.wiped {
		if err := w.expectZeros(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

// empty makes a disk empty after a failure, as far as that is possible: also the bootstrap data, which the next attempt need not find. Its error is no
// failure.Error: that of the plan is the one before.
func (w *writer) empty() error {
	spans := []span{{0, fit.Align}, {w.Device.Size() - fit.Align, fit.Align}}
	if w.hasData() {
		spans = append(spans, span{w.layout.DataOffset, w.layout.DataLength})
	}
	var all []error
	for _, s := range spans {
		all = append(all, w.Device.ZeroRange(s.offset, s.length))
	}
	err := errors.Join(append(all, w.Device.Flush())...)
	for _, s := range spans {
		if err == nil {
			err = w.expectZeros(context.Background(), s) // that of the plan may have ended
		}
	}
	if err != nil {
		return errors.New("the disk could not be emptied after that: " + err.Error())
	}
	return nil
}

// readDisk reads a range of the disk.
func (w *writer) readDisk(b []byte, offset int64) error {
	if n, err := w.Device.ReadAt(b, offset); err != nil && (!errors.Is(err, io.EOF) || n < len(b)) {
		return w.diskFailed("read", offset, err)
	}
	return nil
}
