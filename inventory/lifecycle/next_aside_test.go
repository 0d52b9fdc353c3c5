package lifecycle

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// nextAside are hosts with which the provider does nothing.
var nextAside = map[string]nextCase{
	"a move takes the host away": {claimedView(func(v *View) { v.Host.Deleting, v.Host.DeletedForMove = true, true }), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"a free host is deleted":     {freeView(func(v *View) { v.Host.Deleting = true }), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"a paused host is not deleted": {
		freeView(func(v *View) { v.Host.Deleting, v.Host.Paused = true, true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused,
	},
	"the cluster is paused": {claimedView(func(v *View) { v.Consumer.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused},
	"the cluster is paused after the boot, by a move that waits": {
		bootingView(poweredOn, func(v *View) {
			v.Consumer.Paused, v.Host.Boot.ReportedTime = true, &metav1.Time{Time: noon}
		}), StatePaused, AllowMove, "", v1alpha1.ReasonPaused,
	},
	"in maintenance after the boot, and a move waits": {
		bootingView(provisioned, poweredOn, func(v *View) { v.Host.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "fan"} }),
		StateMaintenance, AllowMove, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance,
	},
	"in maintenance in mid-boot: a move waits": {
		bootingView(poweredOn, func(v *View) { v.Host.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "fan"} }),
		StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance,
	},
	"nobody is there: a move waits": {
		bootingView(poweredOn, func(v *View) { v.Consumer.Found = false }), StateOrphaned, Nothing, v1alpha1.PhaseOrphaned, v1alpha1.ReasonConsumerNotFound,
	},
	"the machine is deleted by a move": {
		claimedView(deleting, poweredOn, func(v *View) { v.Consumer.DeletedForMove = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused,
	},
	"the machine is not there": {
		claimedView(poweredOn, func(v *View) { v.Consumer.Found = false }), StateOrphaned, Nothing, v1alpha1.PhaseOrphaned, v1alpha1.ReasonConsumerNotFound,
	},
	"the machine is not there in mid-boot": {
		bootingView(func(v *View) { v.Consumer.Found = false }), StateOrphaned, Nothing, v1alpha1.PhaseOrphaned, v1alpha1.ReasonConsumerNotFound,
	},
	"the cluster is not there": {
		claimedView(deleting, poweredOn, func(v *View) { v.Consumer.ClusterFound = false }), StateOrphaned, Nothing, v1alpha1.PhaseOrphaned, v1alpha1.ReasonClusterNotFound,
	},
	"the machine runs elsewhere": {
		claimedView(func(v *View) { v.Consumer.ProviderID = "baremetal://dc/other/m" }), StateOrphaned, Nothing, v1alpha1.PhaseOrphaned, v1alpha1.ReasonConsumerNotFound,
	},
	"maintenance":                 {freeView(maintenance), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
	"maintenance stops a boot":    {bootingView(maintenance), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
	"maintenance stops a release": {claimedView(maintenance, deleting, poweredOn), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
	"externally provisioned":      {freeView(external, poweredOn), StateExternallyProvisioned, Nothing, v1alpha1.PhaseExternallyProvisioned, v1alpha1.ReasonExternallyProvisioned},
	"paused before the boot counts": {
		bootingView(uncounted, moveFree, func(v *View) { v.Consumer.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused,
	},
	"deleted while it boots, off": {bootingView(unclaimed, moveFree, beingDeleted), StateDeleting, RecordBoot, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting},
	"deleted while it boots, on":  {bootingView(unclaimed, moveFree, beingDeleted, poweredOn), StateDeleting, ForceOff, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting},
	"deleted while it boots, medium": {
		bootingView(unclaimed, moveFree, beingDeleted, func(v *View) { v.BMC.MediaInserted = true }), StateDeleting, EjectMedia, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting,
	},
	"deleted while it boots, void":  {bootingView(unclaimed, moveFree, beingDeleted, poweredOn, voided), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"detached while it boots":       {bootingView(unclaimed, moveFree, beingDeleted, poweredOn, detached), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"its namespace goes, no Secret": {bootingView(unclaimed, namespaceGone, poweredOn, noSecret), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"detached, force-release":       {claimedView(provisioned, poweredOn, releaseUnfencedRequested, func(v *View) { v.Requests.Detached = by("anna") }), StateDetached, Nothing, v1alpha1.PhaseDetached, v1alpha1.ReasonDetached},
	"detached":                      {claimedView(provisioned, poweredOn, detached), StateDetached, Nothing, v1alpha1.PhaseDetached, v1alpha1.ReasonDetached},
	"detached and released":         {claimedView(provisioned, poweredOn, detached, deleting), StateDetached, Nothing, v1alpha1.PhaseDetached, v1alpha1.ReasonDetached},
	"detached and deleted":          {claimedView(provisioned, poweredOn, detached, func(v *View) { v.Host.Deleting = true }), StateDeleting, Forget, v1alpha1.PhaseDeleting, ""},
	"goes with its namespace, its Secret went first": {
		claimedView(provisioned, poweredOn, deleting, noSecret, namespaceGone), StateDeleting, Forget, v1alpha1.PhaseDeleting, "",
	},
	"goes with its namespace, its machine went first": {
		claimedView(poweredOn, namespaceGone, func(v *View) { v.Consumer.Found = false }), StateDeleting, Forget, v1alpha1.PhaseDeleting, "",
	},
	"a power cycle in maintenance": {claimedView(provisioned, poweredOn, cycle, maintenance), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
	"held, and in maintenance":     {claimedView(provisioned, poweredOn, forceHeld, powerHoldSince, maintenance), StateMaintenance, Nothing, v1alpha1.PhaseMaintenance, v1alpha1.ReasonMaintenance},
	"held, and paused":             {claimedView(provisioned, poweredOn, forceHeld, func(v *View) { v.Host.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused},
	"release: paused in mid-boot": {
		bootingView(deleting, poweredOn, func(v *View) { v.Consumer.Paused = true }), StatePaused, Nothing, "", v1alpha1.ReasonPaused,
	},
}
