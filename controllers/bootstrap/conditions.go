package bootstrap

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// problem is the reason why there is no bootstrap data.
type problem struct {
	reason, message string
	// failure is true if only the user can end the problem.
	failure bool
	// retry is true if no watch reports the end of the problem.
	retry bool
}

// currentProblem returns the problem that the status shows, nil for none.
func currentProblem(config *bootstrapv1.BareMetalConfig) *problem {
	condition := conditions.Get(config, bootstrapv1.DataSecretAvailableCondition)
	if condition == nil || condition.Status == metav1.ConditionTrue {
		return nil
	}
	return &problem{reason: condition.Reason, message: condition.Message, failure: config.Status.FailureReason != ""}
}

// writeStatus writes the result of a reconcile in one patch: the contract's fields and the conditions say the same at any time.
func (r *Reconciler) writeStatus(ctx context.Context, config *bootstrapv1.BareMetalConfig, p *problem) error {
	before := config.DeepCopy()
	setStatus(config, p)
	if equality.Semantic.DeepEqual(before.Status, config.Status) {
		return nil
	}
	if err := r.Client.Status().Patch(ctx, config, client.MergeFrom(before)); err != nil {
		return err
	}
	r.recordProblemEvent(before, config)
	return nil
}

// noDataError is an error that leaves a Machine without bootstrap data.
type noDataError struct{ error }

func (e noDataError) Unwrap() error { return e.error }

// reportError writes an error of the API server into the conditions if it leaves the Machine without bootstrap data. Conflicts and a Secret that was created
// meanwhile are no errors to a user: the next reconcile knows more. The first error stays, since each write causes a reconcile.
func (r *Reconciler) reportError(ctx context.Context, config *bootstrapv1.BareMetalConfig, err error) error {
	p := currentProblem(config)
	reported := p != nil && p.reason == bootstrapv1.ReasonRequestFailed && config.Status.ObservedGeneration == config.Generation
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || !errors.As(err, new(noDataError)) || reported {
		return nil
	}
	return r.writeStatus(ctx, config, &problem{reason: bootstrapv1.ReasonRequestFailed, message: "The API server refused a request, which is repeated: " + err.Error()})
}

// setStatus sets the result of a reconcile in the status: the problem, or that the bootstrap data exists.
func setStatus(config *bootstrapv1.BareMetalConfig, p *problem) {
	status := &config.Status
	condition := metav1.Condition{
		Type: bootstrapv1.DataSecretAvailableCondition, Status: metav1.ConditionTrue, Reason: bootstrapv1.ReasonDataSecretCreated, ObservedGeneration: config.Generation,
	}
	status.ObservedGeneration, status.FailureReason, status.FailureMessage = config.Generation, "", ""
	if p == nil {
		status.DataSecretName, status.Ready = config.Name, true
		status.Initialization.DataSecretCreated = new(true)
	} else {
		// Cluster API has read what is set here, and does not read it again: it is not taken back.
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, p.reason, controllers.Clip(p.message, controllers.MaxMessage)
		if p.failure {
			status.FailureReason, status.FailureMessage = condition.Reason, condition.Message
		}
	}
	conditions.Set(config, condition)
	condition.Type = bootstrapv1.ReadyCondition
	conditions.Set(config, condition)
}

// recordProblemEvent records a warning when a config has another problem than before. Waiting for the Cluster is no problem.
func (r *Reconciler) recordProblemEvent(before, after *bootstrapv1.BareMetalConfig) {
	p, was := currentProblem(after), currentProblem(before)
	if p == nil || was != nil && was.reason == p.reason ||
		p.reason == bootstrapv1.ReasonWaitingForInfrastructure || p.reason == bootstrapv1.ReasonWaitingForControlPlane {
		return
	}
	controllers.RecordEvent(r.Recorder, after, nil, corev1.EventTypeWarning, p.reason, "Render", "%s", p.message)
}
