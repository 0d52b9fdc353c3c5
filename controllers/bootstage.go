package controllers

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// stageOwner is the prefix of the field owners of a boot's status. Each set of stages that is written together has a field owner of its own, so an
// apply need not know the other stages. An owner always applies the same stages and so never removes one.
const stageOwner = "capbm-boot"

// NewStage returns a stage of a boot that is observed now.
func NewStage(boot *v1alpha1.BareMetalBoot, stage v1alpha1.BootStage) v1alpha1.ObservedStage {
	return NewStageAt(boot, stage, time.Now())
}

// NewStageAt returns a stage of a boot that is observed at the given time. The time of the stage is never before the start of the boot, even if the
// clock of this process is behind.
func NewStageAt(boot *v1alpha1.BareMetalBoot, stage v1alpha1.BootStage, at time.Time) v1alpha1.ObservedStage {
	now := metav1.NewTime(at)
	if now.Before(&boot.Spec.StartTime) {
		now = boot.Spec.StartTime
	}
	return v1alpha1.ObservedStage{Stage: stage, Number: boot.Spec.Number, Time: now}
}

// ObservedStage returns a stage of the current boot from the status, nil if the status does not show it.
func ObservedStage(boot *v1alpha1.BareMetalBoot, stage v1alpha1.BootStage) *v1alpha1.ObservedStage {
	if boot == nil || boot.Spec.Number == 0 {
		return nil
	}
	for i := range boot.Status.Stages {
		if s := &boot.Status.Stages[i]; s.Stage == stage && s.Number == boot.Spec.Number {
			return s
		}
	}
	return nil
}

// WaitedAt returns when the server of a boot last waited in the queue of its network, zero if it never did.
func WaitedAt(boot *v1alpha1.BareMetalBoot) time.Time {
	if s := ObservedStage(boot, v1alpha1.StageWaiting); s != nil {
		return s.Time.Time
	}
	return time.Time{}
}

// ApplyStages writes stages, each at most once, to the status of a boot. It also writes the furthest stage that is known, and what is awaited after
// it.
func ApplyStages(ctx context.Context, c client.Client, boot *v1alpha1.BareMetalBoot, observed ...v1alpha1.ObservedStage) error {
	_, err := applyStages(ctx, c, boot, observed)
	return err
}

func applyStages(ctx context.Context, c client.Client, boot *v1alpha1.BareMetalBoot, observed []v1alpha1.ObservedStage) (*v1alpha1.BareMetalBoot, error) {
	furthest := lastStage(boot)
	owner := make([]string, 0, len(observed))
	for _, s := range observed {
		owner = append(owner, strings.ToLower(string(s.Stage)))
		if lifecycle.StageRank(s.Stage) > lifecycle.StageRank(furthest) {
			furthest = s.Stage
		}
	}
	slices.Sort(owner)
	return applyBootStatus(ctx, c, client.ObjectKeyFromObject(boot), strings.Join(owner, "-"),
		v1alpha1.BareMetalBootStatus{Stage: furthest, Progress: lifecycle.AwaitedStage(&boot.Spec, furthest), Stages: observed})
}

// lastStage returns the furthest stage that the status of a boot shows, empty without one.
func lastStage(boot *v1alpha1.BareMetalBoot) v1alpha1.BootStage {
	var last v1alpha1.BootStage
	for _, s := range boot.Status.Stages {
		if s.Number == boot.Spec.Number && lifecycle.StageRank(s.Stage) > lifecycle.StageRank(last) {
			last = s.Stage
		}
	}
	return last
}

// ApplyNode writes the Node that the server of a boot runs to the status of the boot. A nil node records that there is none. stages holds the stage
// Node if the Node is that of the machine.
// Node and stage have one field owner, so they are always written together. The progress is written too: an apply of an owner without any field would
// leave status null.
func ApplyNode(ctx context.Context, c client.Client, boot *v1alpha1.BareMetalBoot, node *v1alpha1.ObservedNode, stages ...v1alpha1.ObservedStage) error {
	furthest := lastStage(boot)
	if len(stages) > 0 && lifecycle.StageRank(v1alpha1.StageNode) > lifecycle.StageRank(furthest) {
		furthest = v1alpha1.StageNode
	}
	_, err := applyBootStatus(ctx, c, client.ObjectKeyFromObject(boot), "node",
		v1alpha1.BareMetalBootStatus{Stage: furthest, Progress: lifecycle.AwaitedStage(&boot.Spec, furthest), Node: node, Stages: stages})
	return err
}

// NodeOf returns the Node that was observed in the current boot, nil if the status shows none.
func NodeOf(boot *v1alpha1.BareMetalBoot) *v1alpha1.ObservedNode {
	if boot == nil || boot.Status.Node == nil || boot.Status.Node.Number != boot.Spec.Number {
		return nil
	}
	return boot.Status.Node
}

// ApplyProblem writes to the status of a boot what keeps the boot server from serving it.
func ApplyProblem(ctx context.Context, c client.Client, boot types.NamespacedName, p v1alpha1.BootProblem) error {
	_, err := applyProblem(ctx, c, boot, p)
	return err
}

func applyProblem(ctx context.Context, c client.Client, boot types.NamespacedName, p v1alpha1.BootProblem) (*v1alpha1.BareMetalBoot, error) {
	return applyBootStatus(ctx, c, boot, "problem", v1alpha1.BareMetalBootStatus{Problem: &p})
}

// ApplyAgentProgress writes to the status of a boot what its agent does. The field owner differs from that of the stage Agent.
func ApplyAgentProgress(ctx context.Context, c client.Client, boot types.NamespacedName, p v1alpha1.AgentProgress) error {
	_, err := applyAgentProgress(ctx, c, boot, p)
	return err
}

func applyAgentProgress(ctx context.Context, c client.Client, boot types.NamespacedName, p v1alpha1.AgentProgress) (*v1alpha1.BareMetalBoot, error) {
	return applyBootStatus(ctx, c, boot, "agent-progress", v1alpha1.BareMetalBootStatus{Progress: Clip(lifecycle.AgentProgressText(&p), maxProgress), Agent: &p})
}

// ApplyImage writes to the status of a boot the state of its machine's image.
func ApplyImage(ctx context.Context, c client.Client, boot types.NamespacedName, image v1alpha1.ImageStatus) error {
	_, err := applyBootStatus(ctx, c, boot, "image", v1alpha1.BareMetalBootStatus{Image: &image})
	return err
}

// ApplyFailure writes to the status of a boot that it failed.
func ApplyFailure(ctx context.Context, c client.Client, boot types.NamespacedName, reason string) error {
	_, err := applyBootStatus(ctx, c, boot, "failure", v1alpha1.BareMetalBootStatus{Progress: Clip("failed: "+reason, maxProgress)})
	return err
}

// maxProgress is the maximum length of status.progress in bytes.
const maxProgress = 64

// applyBootStatus applies a part of the status of a boot, and returns the boot as the API server answered.
func applyBootStatus(
	ctx context.Context, c client.Client, boot types.NamespacedName, owner string, status v1alpha1.BareMetalBootStatus,
) (*v1alpha1.BareMetalBoot, error) {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return nil, fmt.Errorf("convert the status of a boot: %w", err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": fields}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BareMetalBoot"))
	u.SetNamespace(boot.Namespace)
	u.SetName(boot.Name)
	if err := c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(stageOwner+"-"+owner), client.ForceOwnership); err != nil {
		return nil, err
	}
	answer := &v1alpha1.BareMetalBoot{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, answer); err != nil {
		return nil, fmt.Errorf("convert a boot: %w", err)
	}
	return answer, nil
}
