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
)

// sightingOwner owns what is seen of a boot in a host's status. Stages that are written together have an owner of their own, so that an apply need
// not know the others: an owner always applies the same stages, and so never takes any back.
const sightingOwner = "capbm-boot"

// NewSighting returns a stage that is seen now in the attempt that the host's spec records.
func NewSighting(host *v1alpha1.BareMetalHost, stage v1alpha1.BootStage) v1alpha1.Sighting {
	return SightingAt(host, stage, time.Now())
}

// SightingAt returns a stage that is seen at a time in the attempt that the host's spec records. Its time is not before the attempt began, also
// where this process's clock is behind: else it would count as one of an earlier attempt.
func SightingAt(host *v1alpha1.BareMetalHost, stage v1alpha1.BootStage, at time.Time) v1alpha1.Sighting {
	attempt := host.Spec.Boot
	now := metav1.NewTime(at)
	if now.Before(&attempt.StartedAt) {
		now = attempt.StartedAt
	}
	return v1alpha1.Sighting{Stage: stage, Attempt: attempt.Attempt, Time: now}
}

// Seen returns when and how a stage was seen in the attempt that the host's spec records, nil if the status does not show it. Numbers
// count anew for each machine, so the time tells as well which attempt a sighting is of.
func Seen(host *v1alpha1.BareMetalHost, stage v1alpha1.BootStage) *v1alpha1.Sighting {
	if host.Spec.Boot == nil || host.Status.Boot == nil {
		return nil
	}
	for i := range host.Status.Boot.Sightings {
		if s := &host.Status.Boot.Sightings[i]; s.Stage == stage && ofAttempt(*s, host.Spec.Boot) {
			return s
		}
	}
	return nil
}

// WaitedAt returns when the server of a host last stood in the line of its network, in the attempt that the host's spec records; zero if it did not.
func WaitedAt(host *v1alpha1.BareMetalHost) time.Time {
	if s := Seen(host, v1alpha1.StageWaiting); s != nil {
		return s.Time.Time
	}
	return time.Time{}
}

func ofAttempt(s v1alpha1.Sighting, attempt *v1alpha1.BootAttempt) bool {
	return s.Attempt == attempt.Attempt && !s.Time.Before(&attempt.StartedAt)
}

// ApplySighting writes stages of one attempt, each once, to the host's status, and nothing else.
func ApplySighting(ctx context.Context, c client.Client, host types.NamespacedName, seen ...v1alpha1.Sighting) error {
	var owner []string
	for _, s := range seen {
		owner = append(owner, strings.ToLower(string(s.Stage)))
	}
	slices.Sort(owner)
	return applyBoot(ctx, c, host, strings.Join(owner, "-"), v1alpha1.BootStatus{Sightings: seen})
}

// ApplyProblem writes what keeps a boot from being served to the host's status, and nothing else.
func ApplyProblem(ctx context.Context, c client.Client, host types.NamespacedName, p v1alpha1.BootProblem) error {
	return applyBoot(ctx, c, host, "problem", v1alpha1.BootStatus{Problem: &p})
}

func applyBoot(ctx context.Context, c client.Client, host types.NamespacedName, owner string, boot v1alpha1.BootStatus) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&boot)
	if err != nil {
		return fmt.Errorf("convert what was seen: %w", err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"boot": fields}}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BareMetalHost"))
	u.SetNamespace(host.Namespace)
	u.SetName(host.Name)
	return c.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(sightingOwner+"-"+owner), client.ForceOwnership)
}
