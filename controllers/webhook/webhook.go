// Package webhook refuses what the API's own validation rules (CEL) cannot detect: changes of templates, which only the topology controller may try in
// a dry run, and iPXE templates that cannot be rendered. It warns of changes of machines that have no effect. The handlers read only the request. They
// have no client, so they have no side effects and answer a dry run like any other request.
package webhook

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/cluster-api/util/topology"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// config/webhook restricts these rules to requests that change a field that the handlers read. So the controllers' own writes never depend on the
// webhook.
//
// +kubebuilder:webhookconfiguration:mutating=false,name=capbm-validating-webhook-configuration
// +kubebuilder:webhook:name=validation.baremetalclustertemplate.infrastructure.cluster.x-k8s.io,path=/validate-infrastructure-cluster-x-k8s-io-v1alpha1-baremetalclustertemplate,mutating=false,verbs=update,groups=infrastructure.cluster.x-k8s.io,resources=baremetalclustertemplates,versions=v1alpha1,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=capbm-webhook-service,serviceNamespace=capbm-system
// +kubebuilder:webhook:name=validation.baremetalmachine.infrastructure.cluster.x-k8s.io,path=/validate-infrastructure-cluster-x-k8s-io-v1alpha1-baremetalmachine,mutating=false,verbs=create;update,groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachines,versions=v1alpha1,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=capbm-webhook-service,serviceNamespace=capbm-system
// +kubebuilder:webhook:name=validation.baremetalmachinetemplate.infrastructure.cluster.x-k8s.io,path=/validate-infrastructure-cluster-x-k8s-io-v1alpha1-baremetalmachinetemplate,mutating=false,verbs=create;update,groups=infrastructure.cluster.x-k8s.io,resources=baremetalmachinetemplates,versions=v1alpha1,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=capbm-webhook-service,serviceNamespace=capbm-system

// SetupWithManager adds the handlers to the manager's webhook server.
func SetupWithManager(mgr ctrl.Manager) error {
	return errors.Join(
		ctrl.NewWebhookManagedBy(mgr, &v1alpha1.BareMetalMachine{}).WithValidator(machines{}).Complete(),
		ctrl.NewWebhookManagedBy(mgr, &v1alpha1.BareMetalMachineTemplate{}).WithValidator(machineTemplates{}).Complete(),
		ctrl.NewWebhookManagedBy(mgr, &v1alpha1.BareMetalClusterTemplate{}).WithValidator(clusterTemplates{}).Complete(),
	)
}

// TemplateSpec is the field of a template that other objects are created from.
func TemplateSpec() *field.Path { return field.NewPath("spec", "template", "spec") }

// Immutable refuses a change of the spec that other objects are created from. It allows the change in the topology controller's dry run, which only
// determines the effect of a change.
func Immutable(ctx context.Context, changed metav1.Object, before, after any) (field.ErrorList, error) {
	request, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	if topology.IsDryRunRequest(request, changed) || equality.Semantic.DeepEqual(before, after) {
		return nil, nil
	}
	return field.ErrorList{field.Forbidden(TemplateSpec(), "cannot be changed, because existing objects were created from it. "+
		"Create a template with another name, and change the references to this one")}, nil
}

// Invalid returns the errors as the answer of the API server, or nil if there are none.
func Invalid(kind schema.GroupKind, name string, list field.ErrorList) error {
	if len(list) == 0 {
		return nil
	}
	return apierrors.NewInvalid(kind, name, list)
}

func invalid(kind, name string, list field.ErrorList) error {
	return Invalid(v1alpha1.GroupVersion.WithKind(kind).GroupKind(), name, list)
}

// clusterTemplates validates BareMetalClusterTemplates.
type clusterTemplates struct{}

func (clusterTemplates) ValidateCreate(context.Context, *v1alpha1.BareMetalClusterTemplate) (admission.Warnings, error) {
	return nil, nil
}

func (clusterTemplates) ValidateUpdate(ctx context.Context, before, after *v1alpha1.BareMetalClusterTemplate) (admission.Warnings, error) {
	list, err := Immutable(ctx, after, before.Spec.Template.Spec, after.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	return nil, invalid("BareMetalClusterTemplate", after.Name, list)
}

func (clusterTemplates) ValidateDelete(context.Context, *v1alpha1.BareMetalClusterTemplate) (admission.Warnings, error) {
	return nil, nil
}
