package boot

import (
	"cmp"
	"context"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/google/uuid"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// bootEntryPrefix is the prefix of the UEFI boot entries that agents write. An agent deletes the older entries with the prefix.
const bootEntryPrefix = "capbm: "

// agents answer the requests of agents: they give plans, images and data, and record what the agents report.
type agents struct {
	client      client.Client // writes the failures of agents
	log         logr.Logger
	clock       clock.PassiveClock
	settings    lifecycle.Settings
	guard       *agentGuard
	lookup      *lookup
	records     *bootRecords
	bootstrap   *bootstrapReader
	images      *imageStore
	inspections *inspections
	stages      *stageWriter
	events      *eventRecorder
	reports     *limiters        // of the failures and the inventories that the agent of a boot reports
	progress    *progressLimiter // of the writes of the progress of agents
	sent        *imagesSent
}

// Plan returns the plan of an agent. The first request binds the boot to the agent.
func (s *agents) Plan(ctx context.Context, r pxe.AgentRequest, hello agent.Hello) (agent.Plan, error) {
	var plan agent.Plan
	first := func(known *v1alpha1.BareMetalBootSpec) bool { return known.DataAddress == "" }
	a, err := s.guard.withAgent(ctx, r, false, first, func(a attempt) error {
		if a.boot.Spec.AgentDoneTime != nil {
			return refused("the agent of %s is done", r.Host)
		}
		var err error
		if a, err = s.confirmPlan(ctx, a); err != nil {
			return err
		}
		if err = s.checkServer(a, hello.Server); err == nil {
			plan, err = s.planFor(ctx, a, hello.Server)
		}
		return err
	})
	if err != nil {
		return agent.Plan{}, err
	}
	s.reportUnknownServer(a, hello.Server)
	s.stages.recordAgent(a.boot, r.From, hello)
	return plan, nil
}

// confirmPlan reads what a plan that writes to disks depends on from the API server: the cache may not have the last change of what is kept, or of who has the host.
func (s *agents) confirmPlan(ctx context.Context, a attempt) (attempt, error) {
	if a.boot.Spec.Purpose == v1alpha1.PurposeInspect || a.boot.Spec.Purpose == v1alpha1.PurposeConfigure { // neither writes to a disk
		return a, nil
	}
	now, err := s.lookup.liveAttemptOf(ctx, a.boot)
	if err != nil {
		return a, err
	}
	now.known = a.known
	if a.boot.Spec.Purpose == v1alpha1.PurposeProvision {
		return now, cmp.Or(s.guard.checkAgentBoot(now), requireMachine(now))
	}
	if lifecycle.BootFor(now.view, s.settings) != lifecycle.BootAgent {
		return now, refused("%s/%s is paused, or in maintenance, or not managed: no erasure begins", now.host.Namespace, now.host.Name)
	}
	return now, nil
}

// planFor returns the plan of a boot for an agent on a server.
func (s *agents) planFor(ctx context.Context, a attempt, server agent.Server) (agent.Plan, error) {
	plan := agent.Plan{
		Version: agent.Version,
		Title:   a.title(),
		Server:  agent.Server(expectedServer(a, inventory.ServerID(server))),
	}
	switch a.boot.Spec.Purpose {
	case v1alpha1.PurposeClean:
		plan.Purpose, plan.Clean = agent.Clean, cleanPlan(a)
		return plan, nil
	case v1alpha1.PurposeInspect:
		plan.Purpose, plan.Inspect = agent.Inspect, &agent.InspectPlan{LLDPSeconds: lldpSeconds}
		return plan, nil
	case v1alpha1.PurposeConfigure:
		plan.Purpose, plan.Configure = agent.Configure, &agent.ConfigurePlan{}
		return plan, nil
	case v1alpha1.PurposeProvision:
	}
	image := a.image()
	if image == nil {
		return plan, refused("BareMetalMachine %q does not exist, or has no spec.image", a.boot.Spec.MachineName)
	}
	info, err := s.images.prepareImage(ctx, a.host.Namespace, image)
	if err != nil {
		if reason, ok := imageReason(err); ok {
			a.recordProblem(s.stages, reason, err)
		}
		return plan, fmt.Errorf("%w: %w", pxe.ErrNotYet, err)
	}
	plan.Purpose, plan.Provision = agent.Provision, &agent.ProvisionPlan{
		Manifest: info.ManifestDigest, RootDevice: rootDevice(image.RootDevice, a.host.Spec.Storage), Keep: keptDisks(a.host.Spec.Storage),
		DataSource: image.DataSource, DataSize: agent.DataPartitionSize, PartitionGUID: partitionGUID(a.boot),
		BootEntry: bootEntryPrefix + a.boot.Spec.MachineName,
	}
	if plan.Provision.DataSource == wire.DataSourceNone {
		plan.Provision.DataSize = 0
	}
	switch {
	case a.boot.Spec.CommitAllowedTime != nil:
		setCommitted(plan.Provision, a.boot, a.boot.Spec.Number)
	case a.boot.Spec.CommittedNumber != 0:
		setCommitted(plan.Provision, a.boot, a.boot.Spec.CommittedNumber)
	}
	return plan, nil
}

// setCommitted names the disk of the boot that was allowed to make it bootable. Where the record of that disk is missing, no disk matches, and the agent writes
// to none.
func setCommitted(plan *agent.ProvisionPlan, boot *v1alpha1.BareMetalBoot, number int32) {
	plan.CommittedGUID = plan.PartitionGUID
	for _, w := range boot.Spec.WrittenDisks {
		if w.Number == number {
			plan.CommittedDisk, plan.CommittedGUID = w.Disk, cmp.Or(w.PartitionGUID, plan.CommittedGUID)
		}
	}
}

// partitionNamespace is the namespace of the GUIDs of data partitions (RFC 9562, section 5.5). It was chosen at random.
var partitionNamespace = uuid.MustParse("6f2c8a4e-0d1b-4c9f-9a53-2f7f0e1d8b66")

// partitionGUID returns the GUID of the data partition that a boot writes. It is the same for each plan of the boot, and writtenDisks records it for the next
// one. The number alone does not identify a boot: after a restored backup it is counted again from an older one, and disks have the partitions of later boots.
func partitionGUID(boot *v1alpha1.BareMetalBoot) string {
	return uuid.NewSHA1(partitionNamespace,
		fmt.Appendf(nil, "%s/%s/%s/%d/%d", boot.Namespace, boot.Name, boot.Spec.ClaimID, boot.Spec.Number, boot.Spec.StartTime.Unix())).String()
}

func keptDisks(s *v1alpha1.HostStorage) []wire.KeptDisk {
	if s == nil {
		return nil
	}
	return s.Keep
}

// rootDevice returns the hints of a machine, in which those of the host take precedence field by field.
func rootDevice(machine *v1alpha1.RootDeviceHints, storage *v1alpha1.HostStorage) agent.RootDevice {
	var out agent.RootDevice
	hints := []*v1alpha1.RootDeviceHints{machine, nil}
	if storage != nil {
		hints[1] = storage.RootDevice
	}
	for _, h := range hints {
		if h == nil {
			continue
		}
		override(&out.SerialNumber, h.SerialNumber)
		override(&out.WWN, h.WWN)
		override(&out.Model, h.Model)
		override(&out.Vendor, h.Vendor)
		if h.MinSize != nil {
			override(&out.MinSize, h.MinSize.Value())
		}
		override(&out.Rotational, h.Rotational)
		override(&out.HCTL, h.HCTL)
		override(&out.ByPath, h.ByPath)
		override(&out.Name, h.Name)
	}
	return out
}

// override sets a value unless the new one is the zero value.
func override[T comparable](value *T, with T) {
	if with != *new(T) {
		*value = with
	}
}

// Image opens the image of an agent's plan.
func (s *agents) Image(ctx context.Context, r pxe.AgentRequest) (*pxe.OpenedImage, error) {
	a, err := s.guard.cachedAgent(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case a.image() == nil:
		return nil, refused("the machine of %s has no image", r.Host)
	}
	opened, err := s.images.openImage(ctx, a.host, a.image())
	if err != nil {
		return nil, err
	}
	key := keyOf(a.boot)
	return &pxe.OpenedImage{
		Manifest: opened.Manifest, Data: opened.Data,
		Sent: func(n int64) { s.sent.add(key, n, opened.Info.DataBytes) },
	}, nil
}
