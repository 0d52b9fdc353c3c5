package host

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// The metadata of BareMetalInspections is cached, and their data is not: it is read from the API server when a report is new, or when the BMC reports other
// hardware.
//
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=baremetalinspections,verbs=get;list;watch;patch

// agentReports reads what agents reported in BareMetalInspections, and keeps hosts the owners of their reports.
type agentReports struct {
	client       client.Client
	apiReader    client.Reader
	metadata     client.Reader // the cache
	observations *observations
}

// agentReport is what this process knows of the report of an agent. The zero value is no report.
type agentReport struct {
	version  reportVersion      // of the report
	hardware *v1alpha1.Hardware // what the report was compared with
	summary  *v1alpha1.InspectionSummary
	// compared is false if the report was only known from the status, and contradictions is then unknown.
	compared       bool
	contradictions []string
}

// observeInspection adds to the view what is known of the inspection by the agent, and reads a new report.
func (r *agentReports) observeInspection(ctx context.Context, host *v1alpha1.BareMetalHost, view *lifecycle.View) error {
	key := client.ObjectKeyFromObject(host)
	if !inspectedByAgent(host) {
		r.observations.update(key, func(h *hostObservation) { h.report = agentReport{} })
		return nil
	}
	if !view.Host.Claimed() {
		var err error
		if view.Host.PausedCluster, err = controllers.PausedCluster(ctx, r.client, host.Namespace); err != nil {
			return err
		}
	}
	metadata, err := r.reportMetadata(ctx, key)
	if err != nil {
		return err
	}
	if metadata == nil {
		r.observations.update(key, func(h *hostObservation) { h.report = agentReport{} })
		return nil
	}
	view.Inspection.Reported = true
	version, observed := versionOf(metadata), r.observations.get(key)
	if observed.report.version == version && observed.report.hardware == observed.hardware {
		return nil
	}
	if s := host.Status.Inspection; observed.report.version == (reportVersion{}) && s != nil && version == (reportVersion{s.ReportUID, s.ReportGeneration}) {
		r.observations.update(key, func(h *hostObservation) {
			h.report = agentReport{version: version, hardware: observed.hardware, summary: s.DeepCopy()}
		})
		return nil
	}
	report := &v1alpha1.BareMetalInspection{}
	if err := r.apiReader.Get(ctx, key, report); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("read the host's BareMetalInspection: %w", err)) // the cache shows soon that it is gone
	}
	version = versionOf(report)
	summary := summarize(&report.Spec, version)
	r.observations.update(key, func(h *hostObservation) {
		h.report = agentReport{
			version: version, hardware: observed.hardware, summary: summary, compared: true,
			contradictions: contradictions(host, observed.hardware, &report.Spec),
		}
	})
	return nil
}

// inspectedByAgent is true for a host whose spec.inspection asks for the agent.
func inspectedByAgent(host *v1alpha1.BareMetalHost) bool {
	return host.Spec.Inspection == v1alpha1.InspectionAgent || host.Spec.Inspection == v1alpha1.InspectionBoth
}

// reportVersion identifies a version of a report. The zero value is that of none.
type reportVersion struct {
	uid        string
	generation int64
}

func versionOf(report client.Object) reportVersion {
	return reportVersion{string(report.GetUID()), report.GetGeneration()}
}

// reportMetadata reads the metadata of the host's report from the cache. It returns nil if there is no report, or if it is being deleted.
func (r *agentReports) reportMetadata(ctx context.Context, key client.ObjectKey) (*metav1.PartialObjectMetadata, error) {
	metadata := &metav1.PartialObjectMetadata{}
	metadata.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BareMetalInspection"))
	switch err := r.metadata.Get(ctx, key, metadata); {
	case apierrors.IsNotFound(err):
		return nil, nil //nolint:nilnil // a missing report is a valid answer
	case err != nil:
		return nil, fmt.Errorf("read the metadata of the host's BareMetalInspection: %w", err)
	case !metadata.DeletionTimestamp.IsZero():
		return nil, nil //nolint:nilnil // as above
	}
	return metadata, nil
}

// ensureReportOwner makes the host the owner of its report again: backup tools remove references, and a report without owner would stay when the host is deleted.
func (r *agentReports) ensureReportOwner(ctx context.Context, host *v1alpha1.BareMetalHost) error {
	if !inspectedByAgent(host) {
		return nil
	}
	metadata, err := r.reportMetadata(ctx, client.ObjectKeyFromObject(host))
	if err != nil || metadata == nil || slices.ContainsFunc(metadata.OwnerReferences, func(o metav1.OwnerReference) bool { return o.UID == host.UID }) {
		return err
	}
	before := metadata.DeepCopy()
	metadata.OwnerReferences = []metav1.OwnerReference{controllers.OwnedByHost(host)}
	return client.IgnoreNotFound(r.client.Patch(ctx, metadata, client.MergeFrom(before)))
}

// setInspection sets the condition InspectionConsistent. It leaves the condition as it is if the report is only known from the status.
func setInspection(host *v1alpha1.BareMetalHost, view lifecycle.View, report agentReport) {
	condition := metav1.Condition{Type: v1alpha1.InspectionConsistentCondition, Status: metav1.ConditionFalse, ObservedGeneration: host.Generation}
	switch failure := view.Host.InspectionFailure(); {
	case failure != nil:
		condition.Reason, condition.Message = failure.Reason, controllers.Clip(failure.Message, controllers.MaxMessage)
	case report.version == (reportVersion{}):
		conditions.Delete(host, condition.Type)
		return
	case !report.compared:
		return
	case len(report.contradictions) > 0:
		condition.Reason, condition.Message = v1alpha1.ReasonInspectionContradicts, controllers.Clip(joined(report.contradictions), controllers.MaxMessage)
	default:
		condition.Status, condition.Reason = metav1.ConditionTrue, v1alpha1.ReasonInspectionConsistent
	}
	conditions.Set(host, condition)
}
