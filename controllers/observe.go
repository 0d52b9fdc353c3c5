package controllers

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// Consumer is the machine that has a host, and what belongs to it. What is not there is nil.
type Consumer struct {
	BareMetalMachine *v1alpha1.BareMetalMachine
	Machine          *clusterv1.Machine
	Cluster          *clusterv1.Cluster
}

// GetConsumer reads the machine that has a host. It returns nil for a free host. An error means that it is not known who has
// the host: nothing may be done to it then.
func GetConsumer(ctx context.Context, c client.Client, host *v1alpha1.BareMetalHost) (*Consumer, error) {
	if host.Spec.ConsumerRef == nil {
		return nil, nil //nolint:nilnil // nobody is a valid answer
	}
	consumer := &Consumer{}
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

// BootstrapSecretName returns the name of the Secret that holds the machine's bootstrap data, empty while there is none.
func (c *Consumer) BootstrapSecretName() string {
	if c == nil || c.Machine == nil {
		return ""
	}
	return ptr.Deref(c.Machine.Spec.Bootstrap.DataSecretName, "")
}

func (c *Consumer) view() *lifecycle.Consumer {
	if c == nil {
		return nil
	}
	m := c.BareMetalMachine
	if m == nil {
		return &lifecycle.Consumer{}
	}
	_, moved := m.Annotations[v1alpha1.DeleteForMoveAnnotation]
	return &lifecycle.Consumer{
		Found: true, Deleting: !m.DeletionTimestamp.IsZero(), DeletedForMove: moved && !m.DeletionTimestamp.IsZero(),
		ClusterFound: c.Cluster != nil, Paused: c.Cluster != nil && annotations.IsPaused(c.Cluster, m),
		ProviderID: m.Spec.ProviderID, BootstrapReady: c.BootstrapSecretName() != "", Persistence: m.Spec.Boot.Persistence,
	}
}

// View returns what is known of a host through the API. The host controller adds what is known through the BMC.
func View(host *v1alpha1.BareMetalHost, consumer *Consumer, now time.Time) lifecycle.View {
	_, moved := host.Annotations[v1alpha1.DeleteForMoveAnnotation]
	_, askNow := host.Annotations[v1alpha1.RetryBMCAnnotation]
	_, blocked := host.Annotations[v1alpha1.BlockMoveAnnotation]
	view := lifecycle.View{
		Now: now, Namespace: host.Namespace, Name: host.Name, Spec: host.Spec,
		Deleting: !host.DeletionTimestamp.IsZero(), DeletedForMove: moved && !host.DeletionTimestamp.IsZero(),
		Paused: annotations.HasPaused(host), AskNow: askNow, MoveBlocked: blocked, Consumer: consumer.view(),
	}
	if boot, status := host.Spec.Boot, host.Status.Boot; boot != nil && status != nil {
		latest := boot.StartedAt
		for _, s := range status.Sightings {
			if s.Time.Before(&boot.StartedAt) {
				continue
			}
			if stageRank(s.Stage) > stageRank(view.Furthest) {
				view.Furthest = s.Stage
			}
			if latest.Before(&s.Time) {
				latest = s.Time
			}
		}
		// A problem is over when the boot went on.
		if p := status.Problem; p != nil && !p.Time.Before(&latest) {
			view.Problem = &p.BootFailure
		}
	}
	return view
}

var stages = []v1alpha1.BootStage{
	v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageScript, v1alpha1.StageKernel, v1alpha1.StageSeed, v1alpha1.StageReportedIn,
}

// stageRank orders the stages of a boot. No stage ranks below the first.
func stageRank(stage v1alpha1.BootStage) int { return slices.Index(stages, stage) }
