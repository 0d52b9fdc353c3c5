package claim

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/cleaning"
)

// requirement is something that a machine can require of a host.
type requirement struct {
	// isUnmet is true for a host that does not meet it. It is called for each host of each claim, and allocates nothing.
	isUnmet func(host *v1alpha1.BareMetalHost, want *Want) bool
	// reason completes a sentence that begins with a number of hosts. It is only called for a host that does not meet the requirement.
	reason func(host *v1alpha1.BareMetalHost, want *Want) string
}

// requirements are all of them. A choice stops at the first that a host does not meet, and nearestMiss needs all of those.
var requirements = []requirement{
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool { return !w.Selector.Matches(labels.Set(h.Labels)) },
		always(excludedBySelector),
	},
	{
		isInOtherDomain,
		func(_ *v1alpha1.BareMetalHost, w *Want) string {
			return fmt.Sprintf("not in failure domain %q", w.FailureDomain)
		},
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool {
			return Architecture(h.Spec.Architecture) != Architecture(w.Hardware.Architecture)
		},
		func(_ *v1alpha1.BareMetalHost, w *Want) string {
			return fmt.Sprintf("of another architecture than %s", Architecture(w.Hardware.Architecture))
		},
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool { return CPU(h) < w.Hardware.CPU },
		func(_ *v1alpha1.BareMetalHost, w *Want) string {
			return fmt.Sprintf("with less than %d CPUs", w.Hardware.CPU)
		},
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool {
			return w.Hardware.Memory != nil && Memory(h) < w.Hardware.Memory.Value()
		},
		func(_ *v1alpha1.BareMetalHost, w *Want) string {
			return fmt.Sprintf("with less than %s memory", text(*w.Hardware.Memory))
		},
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool {
			return w.Hardware.Disk != nil && largestDisk(h) < w.Hardware.Disk.Value()
		},
		func(_ *v1alpha1.BareMetalHost, w *Want) string { return "without a disk of " + text(*w.Hardware.Disk) },
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool {
			return len(w.Hardware.Disks) > 0 && !disksSuffice(disks(h), w.Hardware.Disks)
		},
		always("without the disks that hardware.disks requires"),
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool {
			need := w.Hardware.NICs
			return need != nil && nics(h, need.MinSpeedMbps) < need.Count
		},
		func(_ *v1alpha1.BareMetalHost, w *Want) string {
			return fmt.Sprintf("with fewer than %d network interfaces of %d Mbit/s", w.Hardware.NICs.Count, w.Hardware.NICs.MinSpeedMbps)
		},
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool {
			need := w.Hardware.GPUs
			return need != nil && GPUs(h, *need) < need.Count
		},
		func(_ *v1alpha1.BareMetalHost, w *Want) string {
			return fmt.Sprintf("without the %d GPUs that hardware.gpus requires", w.Hardware.GPUs.Count)
		},
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool {
			return len(w.Hardware.Switches) > 0 && !connected(h, w.Hardware.Switches)
		},
		always("not connected to a switch of hardware.switches"),
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool {
			return w.Profile != "" && h.Status.SettingsProfile != w.Profile
		},
		func(_ *v1alpha1.BareMetalHost, w *Want) string {
			return fmt.Sprintf("without the firmware settings of BareMetalProfile %q (their condition SettingsConform says why)", w.Profile)
		},
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool {
			return w.CleaningPolicy == wire.PolicyPurge && h.Spec.CleaningPolicy != wire.PolicyManual && cleaning.NotPurgeable(&h.Spec, h.Status.Inspection).Any()
		},
		always("with a disk that cannot be purged, which cleaningPolicy requires"),
	},
	{
		func(h *v1alpha1.BareMetalHost, w *Want) bool { return repellingTaint(h, w) != nil },
		func(h *v1alpha1.BareMetalHost, w *Want) string {
			return fmt.Sprintf("with the taint %s, which tolerations do not name", taintString(*repellingTaint(h, w)))
		},
	},
}

func isInOtherDomain(host *v1alpha1.BareMetalHost, want *Want) bool {
	return want.FailureDomain != "" && host.Spec.FailureDomain != want.FailureDomain
}

// always returns the reason of a requirement that has the same text for all hosts and machines.
func always(reason string) func(*v1alpha1.BareMetalHost, *Want) string {
	return func(*v1alpha1.BareMetalHost, *Want) string { return reason }
}

// mismatchReason returns the first reason why a host does not meet the machine's requirements, or "".
func mismatchReason(host *v1alpha1.BareMetalHost, want *Want) string {
	for i := range requirements {
		if r := &requirements[i]; r.isUnmet(host, want) {
			return r.reason(host, want)
		}
	}
	return ""
}

// text formats a copy of a Quantity: Quantity.String caches its result in its receiver, which may be part of an object in the cache.
func text(q resource.Quantity) string { return q.String() }

func taintString(taint v1alpha1.HostTaint) string {
	if taint.Value == "" {
		return string(taint.Key)
	}
	return string(taint.Key) + "=" + string(taint.Value)
}

// repellingTaint returns the first taint that keeps the machine from the host; nil without one.
func repellingTaint(host *v1alpha1.BareMetalHost, want *Want) *v1alpha1.HostTaint {
	for i := range host.Spec.Taints {
		if taint := &host.Spec.Taints[i]; taint.Effect != v1alpha1.TaintPreferNoClaim && !tolerated(*taint, want.Tolerations) {
			return taint
		}
	}
	return nil
}

func tolerated(taint v1alpha1.HostTaint, tolerations []v1alpha1.HostToleration) bool {
	return slices.ContainsFunc(tolerations, func(t v1alpha1.HostToleration) bool {
		return t.Key == taint.Key && (t.Operator == corev1.TolerationOpExists || t.Value == taint.Value)
	})
}
