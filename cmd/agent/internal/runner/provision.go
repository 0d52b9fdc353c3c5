package runner

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/disk"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/efi"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/failure"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/agent/internal/image"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image/gpt"
)

// Provisioner writes an image.
type Provisioner struct {
	Disks Disks
	// Source returns the source of the plan's image.
	Source func(plan agent.ProvisionPlan) image.Source
	// Firmware is how the server booted, Architecture that of the processor in the notation of Kubernetes.
	Firmware     wire.FirmwareMode
	Architecture string
	// Variables has the variables of UEFI. Nil writes no boot entry.
	Variables efi.Store
	Log       *slog.Logger
}

// firmwareTimeout is how long the firmware may take to write the boot entry.
const firmwareTimeout = 2 * time.Minute

// Run carries a plan out.
func (p *Provisioner) Run(ctx context.Context, plan *agent.Plan, report func(agent.Progress)) agent.Result {
	if plan.Provision == nil {
		return resultOf(failure.New(wire.ReasonPlanInvalid, "the plan has the purpose %s, and no image", plan.Purpose))
	}
	written, warnings, err := p.provision(ctx, *plan.Provision, report)
	result := resultOf(err)
	result.Written, result.Warnings = written, warnings
	if written != nil && written.Committed && err == nil {
		report(agent.Progress{Step: wire.StepBootEntry})
		result.Warnings = append(result.Warnings, p.writeBootEntry(ctx, plan.Provision.BootEntry, *written)...)
	}
	return result
}

// provision writes the image, unless an earlier attempt completed it. written is nil before a disk is selected.
func (p *Provisioner) provision(ctx context.Context, plan agent.ProvisionPlan, report func(agent.Progress)) (written *agent.Written, warnings []string, err error) {
	report(agent.Progress{Step: wire.StepSelecting})
	settled := settledFor
	if (plan.RootDevice.SerialNumber != "" || plan.RootDevice.WWN != "") && (plan.DataSource == "" || plan.DataSource == wire.DataSourceNone) { // only the same disk by another path matters
		settled = settledForKnown
	}
	var selected disk.Disk
	all, err := awaitDisks(ctx, p.Disks, p.Log, func(all []disk.Disk) (err error) {
		selected, err = disk.Select(all, plan.RootDevice, plan.Keep)
		return err
	}, settled)
	if err != nil {
		return nil, nil, err
	}
	p.Log.Info("Selected the disk", "name", selected.Name, "model", selected.Model, "serial", selected.SerialNumber, "size", selected.SizeBytes)
	if plan.CommittedGUID != "" {
		complete, err := p.findCommitted(all, selected, plan)
		if err != nil || complete != nil {
			return complete, nil, err
		}
	}
	unwritten := &agent.Written{Disk: selected.ID(), Name: selected.Name, Model: selected.Model}
	release, err := pinDisks(ctx, p.Disks, []disk.Disk{selected}, p.Log)
	defer release()
	if err != nil {
		return unwritten, nil, err
	}
	device, err := openDisk(p.Disks, selected)
	if err != nil {
		return unwritten, nil, err
	}
	result, err := image.Write(ctx, image.Options{
		Device: device, Disk: selected, Others: others(all, selected), Source: p.Source(plan), Plan: plan, Firmware: p.Firmware, Architecture: p.Architecture, Progress: report,
	})
	if closed := device.Close(); closed != nil && err == nil && !result.Committed {
		err = failure.New(wire.ReasonDiskFailed, "the disk %s cannot be closed: %w", selected.Name, closed)
	}
	return &result.Written, result.Warnings, err
}

func others(all []disk.Disk, selected disk.Disk) []disk.Disk {
	var out []disk.Disk
	for _, d := range all {
		if d.Name != selected.Name {
			out = append(out, d)
		}
	}
	return out
}

// findCommitted looks for the disk that an earlier attempt was allowed to make bootable. It returns that disk if it is complete, and nil if it is the selected disk
// and has no partition table: then no operating system has booted from it, and it may be written again. Anything else is a failure.
func (p *Provisioner) findCommitted(all []disk.Disk, selected disk.Disk, plan agent.ProvisionPlan) (*agent.Written, error) {
	var empty bool
	for _, d := range all {
		state, err := p.stateOf(d, plan.CommittedGUID)
		switch {
		case state == image.Complete:
			p.Log.Info("An earlier attempt completed the disk", "name", d.Name, "serial", d.SerialNumber)
			return &agent.Written{Disk: d.ID(), Name: d.Name, Model: d.Model, Committed: true}, nil
		case d.Is(plan.CommittedDisk) && err != nil:
			return nil, failure.New(wire.ReasonDiskFailed, "the disk %s (serial number %s), which an earlier attempt wrote, cannot be read: %w", d.Name, d.SerialNumber, err)
		case d.Is(plan.CommittedDisk):
			empty = state == image.Empty && d.Name == selected.Name
		}
	}
	if !empty {
		return nil, failure.New(wire.ReasonCommitUnknown, "an earlier attempt was allowed to make the disk with serial number %q bootable, and that disk is neither complete nor empty, "+
			"is not there, or is not the selected one (%s): the machine may have booted (delete the Machine to have it replaced)", plan.CommittedDisk.SerialNumber, selected.Name)
	}
	return nil, nil //nolint:nilnil // nothing is complete
}

// stateOf reads what the attempt with a partition GUID left on a disk.
func (p *Provisioner) stateOf(d disk.Disk, guid string) (image.State, error) {
	opened, err := p.Disks.Read(d)
	if err != nil {
		return image.Unknown, err
	}
	state, err := image.ReadState(opened, d.SizeBytes, d.Sector(), guid)
	return state, errors.Join(err, opened.Close())
}

// loaders are the names of the boot loaders at the fallback path (UEFI specification, 3.5.1.1).
var loaders = map[string]string{"amd64": "X64", "arm64": "AA64"}

// writeBootEntry makes the disk the first boot device of UEFI. It returns warnings: without an entry, firmware boots the fallback path, if its order does.
func (p *Provisioner) writeBootEntry(ctx context.Context, description string, written agent.Written) []string {
	if p.Firmware != wire.FirmwareUEFI || p.Variables == nil {
		return nil
	}
	loader, err := p.findLoader(ctx, written.Name)
	if err != nil {
		return []string{"no UEFI boot entry was written: " + err.Error()}
	}
	ctx, cancel := context.WithTimeout(ctx, firmwareTimeout)
	defer cancel()
	result := efi.Install(ctx, p.Variables, description, *loader)
	p.Log.Info("Wrote the UEFI boot entry", "entry", result.Entry, "warnings", strings.Join(result.Warnings, ". "))
	return result.Warnings
}

// findLoader returns the boot loader of the first EFI system partition of a disk.
func (p *Provisioner) findLoader(ctx context.Context, name string) (*efi.Loader, error) {
	all, err := p.Disks.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, d := range all {
		if d.Name != name {
			continue
		}
		opened, err := p.Disks.Read(d)
		if err != nil {
			return nil, err
		}
		table, err := gpt.Read(opened, 1, d.SizeBytes, d.Sector())
		if err := errors.Join(err, opened.Close()); err != nil {
			return nil, err
		}
		for _, part := range table.Partitions() {
			if part.EFISystem() {
				return &efi.Loader{
					Partition: uint32(part.Number), Start: part.First, Size: part.Last - part.First + 1, //nolint:gosec // at most a few hundred
					GUID: uuid.MustParse(part.GUID.String()), Path: `\EFI\BOOT\BOOT` + loaders[p.Architecture] + `.EFI`,
				}, nil
			}
		}
	}
	return nil, errors.New("the disk has no EFI system partition")
}
