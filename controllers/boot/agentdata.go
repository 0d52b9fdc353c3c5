package boot

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// maxWrittenDisks is the maximum number of written disks that a boot records, as in the API.
const maxWrittenDisks = 16

// Data records where the bootstrap data will be, and returns it. Host, machine and Cluster are read from the API server: the disk gets the data of the machine that has the
// host now.
func (s *agents) Data(ctx context.Context, r pxe.AgentRequest, where agent.DataRequest, base string) (seed.DataPartition, error) {
	written, err := writtenDisk(where)
	if err != nil {
		return seed.DataPartition{}, err
	}
	var partition seed.DataPartition
	var first bool
	always := func(*v1alpha1.BareMetalBootSpec) bool { return true }
	a, err := s.guard.withAgent(ctx, r, true, always, func(a attempt) error {
		if err := provisioning(a); err != nil {
			return err
		}
		if err := s.awaitImage(a); err != nil {
			return err
		}
		bootstrap, err := s.bootstrap.readBootstrapData(ctx, a)
		if err != nil {
			a.recordProblem(s.stages, bootstrapReason(err), err)
			return err
		}
		if partition, err = seed.Partition(s.bootstrap.seedData(a, bootstrap), a.image().DataSource, base, where.SectorSize); err != nil {
			err = invalidDataError{err}
			a.recordProblem(s.stages, bootstrapReason(err), err)
			return err
		}
		if first = a.boot.Spec.DataServedTime == nil; first {
			now := metav1.NewTime(s.clock.Now())
			a.boot.Spec.DataServedTime = &now
		}
		written.Number, written.PartitionGUID = a.boot.Spec.Number, partitionGUID(a.boot)
		return recordWritten(&a.boot.Spec, written)
	})
	if err != nil {
		return seed.DataPartition{}, err
	}
	if first {
		s.events.recordServedEvent(a, r.From)
	}
	s.stages.recordStage(a.boot, v1alpha1.StageData, r.From, where.Name)
	return partition, nil
}

// provisioning returns nil for a boot that writes an image and whose agent is not done.
func provisioning(a attempt) error {
	if a.boot.Spec.Purpose != v1alpha1.PurposeProvision || a.boot.Spec.AgentDoneTime != nil || lifecycle.StateOf(a.view) != lifecycle.StateBooting ||
		a.image() == nil {
		return refused("the boot of %s/%s writes no image, or is over", a.host.Namespace, a.host.Name)
	}
	return requireMachine(a)
}

// writtenDisk converts the request of an agent for the record of the boot.
func writtenDisk(where agent.DataRequest) (v1alpha1.WrittenDisk, error) {
	written, err := identifiedDisk(where.Disk)
	switch {
	case err != nil:
		return written, err
	case where.Offset <= 0 || where.Disk.SizeBytes-agent.DataPartitionSize < where.Offset:
		return v1alpha1.WrittenDisk{}, refused("the agent names an impossible place for the bootstrap data")
	case where.SectorSize != 512 && where.SectorSize != 4096:
		return v1alpha1.WrittenDisk{}, refused("the agent names the sector size %d", where.SectorSize)
	}
	written.DataOffset, written.DataLength = where.Offset, agent.DataPartitionSize
	return written, nil
}

// replaceWritten replaces the record of an earlier boot that wrote the same place. It keeps that of the boot whose commit an agent has to check.
func replaceWritten(boot *v1alpha1.BareMetalBootSpec, written v1alpha1.WrittenDisk) bool {
	at := slices.IndexFunc(boot.WrittenDisks, func(w v1alpha1.WrittenDisk) bool {
		return w.Disk == written.Disk && w.DataOffset == written.DataOffset && w.DataLength == written.DataLength && w.Number != boot.CommittedNumber
	})
	if at < 0 {
		return false
	}
	boot.WrittenDisks = slices.Clone(boot.WrittenDisks)
	boot.WrittenDisks[at] = written
	return true
}

// identifiedDisk returns the record of a disk that an agent names.
func identifiedDisk(id wire.DiskIdentity) (v1alpha1.WrittenDisk, error) {
	switch {
	case id.SerialNumber == "" && id.WWN == "" && id.ByPath == "":
		return v1alpha1.WrittenDisk{}, refused("the agent names no disk")
	case len(id.SerialNumber) > 256 || len(id.WWN) > 256 || len(id.ByPath) > 256 || id.SizeBytes <= 0:
		return v1alpha1.WrittenDisk{}, refused("the agent names an impossible disk")
	}
	return v1alpha1.WrittenDisk{Disk: id}, nil
}

// recordWritten adds a disk to those that the release erases. A record that is full is an error, because no disk may be forgotten.
func recordWritten(boot *v1alpha1.BareMetalBootSpec, written v1alpha1.WrittenDisk) error {
	known := func(w v1alpha1.WrittenDisk) bool {
		return w == written || written.DataLength == 0 && w.Disk == written.Disk && w.Number == written.Number
	}
	switch {
	case slices.ContainsFunc(boot.WrittenDisks, known):
		return nil
	case replaceWritten(boot, written):
		return nil
	case len(boot.WrittenDisks) >= maxWrittenDisks:
		return fmt.Errorf("the boot already names %d written disks that were not erased: erase the disks of the server, then recreate its BareMetalHost", maxWrittenDisks)
	}
	boot.WrittenDisks = append(slices.Clone(boot.WrittenDisks), written)
	return nil
}

// Commit allows the agent to make a disk bootable, and records the disk, which may have no bootstrap data. From then on the bootstrap data counts as used until
// an agent has checked the disk.
func (s *agents) Commit(ctx context.Context, r pxe.AgentRequest, request agent.CommitRequest) error {
	written, err := identifiedDisk(request.Disk)
	if err != nil {
		return err
	}
	permits := func(known *v1alpha1.BareMetalBootSpec) bool { return known.CommitAllowedTime == nil }
	a, err := s.guard.withAgent(ctx, r, true, permits, func(a attempt) error {
		if err := provisioning(a); err != nil {
			return err
		}
		boot, now := &a.boot.Spec, metav1.NewTime(s.clock.Now())
		if boot.DataServedTime == nil {
			if a.image().DataSource != wire.DataSourceNone {
				return refused("the agent of %s did not get the bootstrap data", r.Host)
			}
			boot.DataServedTime = &now // without bootstrap data, the commit is the point from which a Node of the server is looked for
		}
		if boot.CommitAllowedTime == nil {
			boot.CommitAllowedTime = &now
		}
		written.Number, written.PartitionGUID = boot.Number, partitionGUID(a.boot)
		return recordWritten(boot, written)
	})
	if err != nil {
		return err
	}
	s.stages.recordStage(a.boot, v1alpha1.StageCommitted, r.From, "")
	return nil
}
