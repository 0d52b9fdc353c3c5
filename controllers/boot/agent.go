package boot

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// bootEntryPrefix is the prefix of the UEFI boot entries that agents write. An agent deletes the older entries with the prefix.
const bootEntryPrefix = "capbm: "

// errNoConfirmation is why an agent that got no plan yet is refused.
var errNoConfirmation = errors.New("the agent has not asked for its plan from this address")

// withAgent is withToken for a request of an agent. It refuses an agent whose boot is over, and a client that is not the server.
func (b *Booter) withAgent(ctx context.Context, r pxe.AgentRequest, live bool, change func(attempt) error) (attempt, error) {
	read := b.attemptOf
	if live {
		read = b.liveAttemptOf
	}
	return b.withToken(ctx, presentedToken{r.Host, r.Token, forAgent, r.From}, read, func(a attempt) error {
		if err := b.checkAgentBoot(a); err != nil {
			return err
		}
		if !hasKey(&a.boot.Spec, r) {
			if _, err := b.admit(ctx, a, "", r.From, true); err != nil {
				return err
			}
			if err := b.enrol(ctx, a, r); err != nil {
				return err
			}
		}
		if err := b.checkVersion(a.boot, r); err != nil {
			return err
		}
		return change(a)
	})
}

// checkVersion refuses an agent of another version of the protocol, also after it has its plan: it may misread the answer, and the boot server the request. The attempt
// fails, and the next one boots the agent that is installed now.
func (b *Booter) checkVersion(boot *v1alpha1.BareMetalBoot, r pxe.AgentRequest) error {
	if r.Version == agent.Version {
		return nil
	}
	err := fmt.Errorf("%w: the agent has protocol version %d, and the boot server has %d: install kernel and ramdisk of the same release", pxe.ErrVersion, r.Version, agent.Version)
	b.recordProblem(boot, v1alpha1.ReasonVersionDiffers, err)
	return err
}

// checkAgentBoot returns nil while the agent of a boot is served. After the permission to make the disk bootable that is so until the boot is reported or has
// failed, whatever else happened to the host: the result says whether the disk is complete. An erasure that has begun is reported whatever else happened, too.
func (b *Booter) checkAgentBoot(a attempt) error {
	boot := &a.boot.Spec
	boots := lifecycle.BootFor(a.view, b.Settings) == lifecycle.BootAgent || a.view.ErasureRuns(b.Settings) ||
		!mayBind(a) && boot.ReportedTime == nil && boot.Failure == nil && a.view.CurrentBoot() != nil
	if !boot.Agent || boot.AgentRefusedTime != nil || !boots {
		return refused("the boot of %s/%s is over, or runs no agent", a.host.Namespace, a.host.Name)
	}
	return nil
}

// cachedAgent is withAgent for a request that changes nothing and is answered from the cache: an agent makes many of them. Only an agent without a key
// whose address changed needs the API server.
func (b *Booter) cachedAgent(ctx context.Context, r pxe.AgentRequest) (attempt, error) {
	namespace, name, _ := strings.Cut(r.Host, "/")
	boot, err := b.bootOf(ctx, types.NamespacedName{Namespace: namespace, Name: name})
	if err != nil {
		return attempt{}, err
	}
	if boot == nil {
		boot = &v1alpha1.BareMetalBoot{} // takes as long as for an existing boot
	}
	switch {
	case !b.opens(r.Token, forAgent, boot):
		return attempt{}, refused("the token is not that of the current boot of %s", r.Host)
	case boot.Spec.DataAddress == "":
		return attempt{}, fmt.Errorf("%w: %w", pxe.ErrNotYet, errNoConfirmation) // the cache may be behind
	case !isAgent(&boot.Spec, r):
		return b.withAgent(ctx, r, false, func(attempt) error { return nil })
	}
	a, err := b.attemptOf(ctx, boot)
	if err != nil {
		if client.IgnoreNotFound(err) == nil {
			err = refused("host %s does not exist", r.Host)
		}
		return attempt{}, err
	}
	return a, b.checkAgentBoot(a)
}

// Plan returns the plan of an agent. The first request binds the boot to the agent.
func (b *Booter) Plan(ctx context.Context, r pxe.AgentRequest, hello agent.Hello) (agent.Plan, error) {
	var plan agent.Plan
	a, err := b.withAgent(ctx, r, false, func(a attempt) error {
		if a.boot.Spec.AgentDoneTime != nil {
			return refused("the agent of %s is done", r.Host)
		}
		var err error
		if a.boot.Spec.Purpose == v1alpha1.PurposeClean { // the cache may not have the last change of what is kept
			if a, err = b.liveAttemptOf(ctx, a.boot); err != nil {
				return err
			}
			if lifecycle.BootFor(a.view, b.Settings) != lifecycle.BootAgent {
				return refused("%s is paused, or in maintenance, or not managed: no erasure begins", r.Host)
			}
		}
		if err = b.checkServer(a, hello.Server); err == nil {
			plan, err = b.planFor(ctx, a, hello.Server)
		}
		return err
	})
	if err != nil {
		return agent.Plan{}, err
	}
	b.reportUnknownServer(a, hello.Server)
	b.recordAgent(a.boot, r.From, hello)
	return plan, nil
}

// planFor returns the plan of a boot for an agent on a server.
func (b *Booter) planFor(ctx context.Context, a attempt, server agent.Server) (agent.Plan, error) {
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
	case v1alpha1.PurposeProvision:
	}
	image := a.image()
	if image == nil {
		return plan, refused("BareMetalMachine %q does not exist, or has no spec.image", a.boot.Spec.MachineName)
	}
	info, err := b.prepareImage(ctx, a.host.Namespace, image)
	if err != nil {
		if reason, ok := imageReason(err); ok {
			b.recordProblem(a.boot, reason, err)
		}
		return plan, fmt.Errorf("%w: %w", pxe.ErrNotYet, err)
	}
	plan.Purpose, plan.Provision = agent.Provision, &agent.ProvisionPlan{
		Manifest: info.ManifestDigest, RootDevice: rootDevice(image.RootDevice, a.host.Spec.Storage), Keep: keptDisks(a.host.Spec.Storage),
		DataSource: agent.DataSource(image.DataSource), DataSize: agent.DataPartitionSize, PartitionGUID: partitionGUID(a.boot),
		BootEntry: bootEntryPrefix + a.boot.Spec.MachineName,
	}
	if plan.Provision.DataSource == agent.None {
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
			plan.CommittedDisk, plan.CommittedGUID = diskID(w.Disk), cmp.Or(w.PartitionGUID, plan.CommittedGUID)
		}
	}
}

func diskID(d v1alpha1.DiskIdentity) agent.DiskID {
	return agent.DiskID{Serial: d.SerialNumber, WWN: d.WWN, ByPath: d.ByPath, Size: d.SizeBytes}
}

// partitionNamespace is the namespace of the GUIDs of data partitions (RFC 9562, section 5.5). It was chosen at random.
var partitionNamespace = uuid.MustParse("6f2c8a4e-0d1b-4c9f-9a53-2f7f0e1d8b66")

// partitionGUID returns the GUID of the data partition that a boot writes. It is the same for each plan of the boot, and writtenDisks records it for the next
// one. The number alone does not identify a boot: after a restored backup it is counted again from an older one, and disks have the partitions of later boots.
func partitionGUID(boot *v1alpha1.BareMetalBoot) string {
	return uuid.NewSHA1(partitionNamespace,
		fmt.Appendf(nil, "%s/%s/%s/%d/%d", boot.Namespace, boot.Name, boot.Spec.ClaimID, boot.Spec.Number, boot.Spec.StartTime.Unix())).String()
}

func keptDisks(s *v1alpha1.HostStorage) []agent.KeptDisk {
	if s == nil {
		return nil
	}
	var kept []agent.KeptDisk
	for _, k := range s.Keep {
		kept = append(kept, agent.KeptDisk{Serial: k.SerialNumber, WWN: k.WWN, Label: k.Label})
	}
	return kept
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
		override(&out.Serial, h.SerialNumber)
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
func (b *Booter) Image(ctx context.Context, r pxe.AgentRequest) (*pxe.OpenedImage, error) {
	a, err := b.cachedAgent(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case a.image() == nil:
		return nil, refused("the machine of %s has no image", r.Host)
	}
	opened, err := b.openImage(ctx, a.host, a.image())
	if err != nil {
		return nil, err
	}
	key := keyOf(a.boot)
	return &pxe.OpenedImage{
		Manifest: opened.Manifest, Data: opened.Data,
		Sent: func(n int64) { b.imagesSent.add(key, n, opened.Info.DataBytes) },
	}, nil
}

// recordAgentEvent records an event of an agent's boot.
func (b *Booter) recordAgentEvent(boot *v1alpha1.BareMetalBoot, warning bool, reason, note string, args ...any) {
	kind := corev1.EventTypeNormal
	if warning {
		kind = corev1.EventTypeWarning
	}
	b.recordEvent(boot, kind, reason, "Boot", note, args...)
}
