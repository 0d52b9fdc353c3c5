package controllers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// Consumer is the machine that has a host, with its owners. An object that does not exist is nil.
type Consumer struct {
	BareMetalMachine *v1alpha1.BareMetalMachine
	Machine          *clusterv1.Machine
	Cluster          *clusterv1.Cluster
}

// GetConsumer reads the machine that has a host. It returns nil for a free host. After an error the consumer of the host is unknown, and nothing may
// be done to the host.
func GetConsumer(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost) (*Consumer, error) {
	if host.Spec.ConsumerRef == nil {
		return nil, nil //nolint:nilnil // a free host is a valid answer
	}
	consumer := &Consumer{}
	if ns := host.Spec.ConsumerRef.Namespace; ns != "" && ns != host.Namespace {
		return consumer, nil // an admission policy refuses it; no machine of this namespace is meant
	}
	var machine v1alpha1.BareMetalMachine
	err := c.Get(ctx, types.NamespacedName{Namespace: host.Namespace, Name: host.Spec.ConsumerRef.Name}, &machine)
	if err != nil {
		return consumer, client.IgnoreNotFound(err)
	}
	consumer.BareMetalMachine = &machine
	if consumer.Machine, err = util.GetOwnerMachine(ctx, c, machine.ObjectMeta); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	name := machine.Labels[clusterv1.ClusterNameLabel]
	if name == "" && consumer.Machine != nil {
		name = consumer.Machine.Spec.ClusterName
	}
	if name == "" {
		return consumer, nil
	}
	if consumer.Cluster, err = util.GetClusterByName(ctx, c, host.Namespace, name); client.IgnoreNotFound(err) != nil {
		return nil, err
	}
	return consumer, nil
}

// BootstrapSecretName returns the name of the Secret with the machine's bootstrap data, empty while there is none.
func (c *Consumer) BootstrapSecretName() string {
	if c == nil || c.Machine == nil {
		return ""
	}
	return ptr.Deref(c.Machine.Spec.Bootstrap.DataSecretName, "")
}

// Objects returns the Machine and the BareMetalMachine, as far as they exist.
func (c *Consumer) Objects() []metav1.Object {
	var objects []metav1.Object
	if c != nil && c.Machine != nil {
		objects = append(objects, c.Machine)
	}
	if c != nil && c.BareMetalMachine != nil {
		objects = append(objects, c.BareMetalMachine)
	}
	return objects
}

// grubRefuses are the characters that GRUB cannot hand to a kernel as they are.
const grubRefuses = `"'\`

func (c *Consumer) view() *lifecycle.Consumer {
	if c == nil {
		return nil
	}
	m := c.BareMetalMachine
	if m == nil {
		return &lifecycle.Consumer{}
	}
	return &lifecycle.Consumer{
		Found: true, Deleting: !m.DeletionTimestamp.IsZero(), DeletedForMove: MovedAway(m),
		DeletingSince: ptr.Deref(m.DeletionTimestamp, metav1.Time{}).Time,
		OwnerDeleting: c.Machine != nil && !c.Machine.DeletionTimestamp.IsZero() || c.Cluster != nil && !c.Cluster.DeletionTimestamp.IsZero(),
		ClusterFound:  c.Cluster != nil, Paused: c.Cluster != nil && annotations.IsPaused(c.Cluster, m),
		ProviderID: m.Spec.ProviderID, BootstrapReady: c.BootstrapSecretName() != "", Persistence: m.Spec.Persistence(), Image: m.Spec.Image != nil,
		NeedsIPXE: m.Spec.Image == nil && (m.Spec.Boot.IPXETemplate != "" || strings.ContainsAny(m.Spec.Boot.CommandLine, grubRefuses)),
	}
}

// GetBoot reads the BareMetalBoot of a host, which has the host's name. It returns nil if there is none.
func GetBoot(ctx context.Context, c client.Reader, host types.NamespacedName) (*v1alpha1.BareMetalBoot, error) {
	boot := &v1alpha1.BareMetalBoot{}
	switch err := c.Get(ctx, host, boot); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // a missing boot is a valid answer
	case err != nil:
		return nil, fmt.Errorf("read the host's BareMetalBoot: %w", err)
	default:
		return boot, nil
	}
}

// View returns the view of a host that the API objects give. boot is nil if there is none. The host controller adds what the BMC reports.
func View(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, consumer *Consumer, now time.Time) lifecycle.View {
	_, retryNow := host.Annotations[v1alpha1.RetryBMCAnnotation]
	_, blocked := host.Annotations[v1alpha1.BlockMoveAnnotation]
	view := lifecycle.View{
		Now: now,
		Host: lifecycle.Host{
			Namespace: host.Namespace, Name: host.Name, Spec: host.Spec, Deleting: !host.DeletionTimestamp.IsZero(), DeletedForMove: MovedAway(host),
			Paused: annotations.HasPaused(host), MoveBlocked: blocked,
		},
		Consumer: consumer.view(),
		Requests: lifecycle.Requests{
			Detached: annotation(host, v1alpha1.DetachedAnnotation), ReleaseUnfenced: annotation(host, v1alpha1.ReleaseUnfencedAnnotation),
			PowerOffProvider: annotation(host, v1alpha1.PowerOffProviderAnnotation), Power: powerRequests(host),
			Inspect: annotation(host, v1alpha1.InspectAnnotation).Set, RetryBMC: retryNow, SettingsEnded: annotation(host, v1alpha1.SettingsEndedAnnotation),
		},
		PowerLoss: lifecycle.PowerLoss{Restore: host.Status.PowerRestore, PoweredOffTime: ptr.Deref(host.Status.PoweredOffTime, metav1.Time{}).Time},
	}
	if boot == nil {
		return view
	}
	view.Host.Boot, view.Host.BootDeleting, view.Observed.WaitedAt = &boot.Spec, !boot.DeletionTimestamp.IsZero(), WaitedAt(boot)
	view.Host.BootHasForeignFinalizer = view.Host.BootDeleting && !controllerutil.ContainsFinalizer(boot, v1alpha1.BootFinalizer)
	for _, s := range boot.Status.Stages {
		switch {
		case s.Number != boot.Spec.Number || s.Stage == v1alpha1.StageStarted:
			continue
		case s.Stage == v1alpha1.StageRestarted:
			view.Observed.RestartedAt = s.Time.Time
		case s.Stage == v1alpha1.StageNodeLost:
			view.Observed.NodeLostAt = s.Time.Time
		case lifecycle.StageRank(s.Stage) > lifecycle.StageRank(view.Observed.Furthest.Stage):
			view.Observed.Furthest = s
		}
		if s.Stage == v1alpha1.StageMedia {
			view.Observed.Media = s
		}
	}
	if view.Host.CurrentBoot() != nil { // after the claim ended, the Node of its boot is no longer that of the host
		view.Observed.Node = NodeOf(boot)
	}
	if p := Problem(boot); p != nil {
		view.Observed.Problem = &p.BootFailure
	}
	if view.Observed.AgentAt = AgentAt(boot); !view.Observed.AgentAt.IsZero() {
		view.Observed.Agent = boot.Status.Agent
	}
	view.Observed.Image = imageOf(host, boot, consumer)
	return view
}

// imageOf returns the state of the consumer's image at the boot server. The status may still show the image of an earlier machine, which may have been the same.
func imageOf(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot, consumer *Consumer) lifecycle.Image {
	status, claim := boot.Status.Image, host.Spec.ConsumerRef
	if consumer == nil || consumer.BareMetalMachine == nil || claim == nil || status == nil || status.ClaimID != claim.ClaimID {
		return lifecycle.Image{}
	}
	if image := consumer.BareMetalMachine.Spec.Image; image == nil || image.Checksum != status.Checksum {
		return lifecycle.Image{}
	}
	return lifecycle.Image{Ready: status.Ready, Reason: status.Reason, Message: status.Message}
}

// AgentAt returns when the agent of a boot last reported progress; zero before.
func AgentAt(boot *v1alpha1.BareMetalBoot) time.Time {
	if p := boot.Status.Agent; p != nil && p.Number == boot.Spec.Number {
		return p.Time.Time
	}
	return time.Time{}
}

// OwnedByHost returns the reference to a host in the objects that it owns. It does not block the deletion of the host.
func OwnedByHost(host *v1alpha1.BareMetalHost) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "BareMetalHost", Name: host.Name, UID: host.UID, BlockOwnerDeletion: new(false),
	}
}

// Problem returns what keeps the boot server from serving a boot, nil if nothing does. A stage that was observed after the problem ends it.
func Problem(boot *v1alpha1.BareMetalBoot) *v1alpha1.BootProblem {
	p := boot.Status.Problem
	if p == nil || p.Number != boot.Spec.Number || p.Time.Before(&boot.Spec.StartTime) {
		return nil
	}
	for _, s := range boot.Status.Stages {
		if s.Number == boot.Spec.Number && s.Stage != v1alpha1.StageStarted && p.Time.Before(&s.Time) {
			return nil
		}
	}
	return p
}

// CurrentBoot returns the last boot of the host's claim, nil if there is none.
func CurrentBoot(host *v1alpha1.BareMetalHost, boot *v1alpha1.BareMetalBoot) *v1alpha1.BareMetalBootSpec {
	if boot == nil {
		return nil
	}
	return lifecycle.Host{Spec: host.Spec, Boot: &boot.Spec}.CurrentBoot()
}

// annotation returns a request of a user.
func annotation(host *v1alpha1.BareMetalHost, name string) lifecycle.Annotation {
	value, ok := host.Annotations[name]
	return lifecycle.Annotation{Set: ok, Value: Clip(strings.TrimSpace(value), MaxText)}
}

// powerRequests returns the power requests in the annotations of a host, sorted by annotation.
func powerRequests(host *v1alpha1.BareMetalHost) lifecycle.PowerRequests {
	var r lifecycle.PowerRequests
	reason := func(name string) string { return cmp.Or(annotation(host, name).Value, lifecycle.NoReason) } // a power hold has one
	for _, name := range slices.Sorted(maps.Keys(host.Annotations)) {
		soft, isSoft := strings.CutPrefix(name, v1alpha1.PowerHoldPrefix)
		hard, isHard := strings.CutPrefix(name, v1alpha1.ForcePowerHoldPrefix)
		switch {
		case isSoft:
			r.Holds = append(r.Holds, v1alpha1.PowerHold{Holder: soft, Reason: reason(name)})
		case isHard:
			r.Holds = append(r.Holds, v1alpha1.PowerHold{Holder: hard, Reason: reason(name), Force: true})
		case strings.HasPrefix(name, v1alpha1.PowerCyclePrefix):
			r.Cycles = append(r.Cycles, name)
		case strings.HasPrefix(name, v1alpha1.PowerOnPrefix):
			r.On = append(r.On, name)
		default:
			continue
		}
		r.All = append(r.All, name)
	}
	return r
}
