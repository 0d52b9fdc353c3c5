package bootstrap

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap/render"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/webhook"
)

// config/bootstrap/webhook restricts these rules to requests that change the spec. So what Cluster API writes to the metadata never depends on the webhook.
//
// +kubebuilder:webhookconfiguration:mutating=false,name=capbm-bootstrap-validating-webhook-configuration
// +kubebuilder:webhook:name=validation.baremetalconfig.bootstrap.cluster.x-k8s.io,path=/validate-bootstrap-cluster-x-k8s-io-v1alpha1-baremetalconfig,mutating=false,verbs=create;update,groups=bootstrap.cluster.x-k8s.io,resources=baremetalconfigs,versions=v1alpha1,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=capbm-bootstrap-webhook-service,serviceNamespace=capbm-bootstrap-system
// +kubebuilder:webhook:name=validation.baremetalconfigtemplate.bootstrap.cluster.x-k8s.io,path=/validate-bootstrap-cluster-x-k8s-io-v1alpha1-baremetalconfigtemplate,mutating=false,verbs=create;update,groups=bootstrap.cluster.x-k8s.io,resources=baremetalconfigtemplates,versions=v1alpha1,failurePolicy=fail,matchPolicy=Equivalent,sideEffects=None,admissionReviewVersions=v1,timeoutSeconds=10,serviceName=capbm-bootstrap-webhook-service,serviceNamespace=capbm-bootstrap-system

// SetupWebhooks adds the handlers to the manager's webhook server.
func SetupWebhooks(mgr ctrl.Manager) error {
	return errors.Join(
		ctrl.NewWebhookManagedBy(mgr, &bootstrapv1.BareMetalConfig{}).WithValidator(configs{}).Complete(),
		ctrl.NewWebhookManagedBy(mgr, &bootstrapv1.BareMetalConfigTemplate{}).WithValidator(templates{}).Complete(),
	)
}

func kind(name string) schema.GroupKind { return bootstrapv1.GroupVersion.WithKind(name).GroupKind() }

// configs validates BareMetalConfigs.
type configs struct{}

// ValidateCreate accepts a config that has a Machine already, because `clusterctl move` and a restore from a backup create it again.
func (configs) ValidateCreate(_ context.Context, c *bootstrapv1.BareMetalConfig) (admission.Warnings, error) {
	if util.HasOwner(c.OwnerReferences, clusterv1.GroupVersion.String(), []string{"Machine"}) {
		return nil, nil
	}
	return render.Warnings(&c.Spec), webhook.Invalid(kind(configKind), c.Name, render.Check(&c.Spec, field.NewPath("spec")))
}

// ValidateUpdate validates a changed spec, and warns of a change that has no effect.
func (configs) ValidateUpdate(_ context.Context, before, after *bootstrapv1.BareMetalConfig) (admission.Warnings, error) {
	if equality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil, nil
	}
	warnings := admission.Warnings(render.Warnings(&after.Spec))
	if before.Status.DataSecretName != "" {
		warnings = append(warnings, "spec: the change has no effect, because the bootstrap data of the Machine was rendered. Change the template of the Machine, "+
			"so that Cluster API replaces the Machine")
	}
	return warnings, webhook.Invalid(kind(configKind), after.Name, render.Check(&after.Spec, field.NewPath("spec")))
}

func (configs) ValidateDelete(context.Context, *bootstrapv1.BareMetalConfig) (admission.Warnings, error) {
	return nil, nil
}

// templates validates BareMetalConfigTemplates.
type templates struct{}

func (templates) ValidateCreate(_ context.Context, t *bootstrapv1.BareMetalConfigTemplate) (admission.Warnings, error) {
	return render.Warnings(&t.Spec.Template.Spec), webhook.Invalid(kind("BareMetalConfigTemplate"), t.Name, render.Check(&t.Spec.Template.Spec, webhook.TemplateSpec()))
}

// ValidateUpdate validates a changed spec, also in a dry run of the topology controller. So the user of a ClusterClass that creates an invalid template gets
// the error immediately.
func (templates) ValidateUpdate(ctx context.Context, before, after *bootstrapv1.BareMetalConfigTemplate) (admission.Warnings, error) {
	was, is := before.Spec.Template.Spec, after.Spec.Template.Spec
	list, err := webhook.Immutable(ctx, after, was, is)
	if err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(was, is) {
		list = append(list, render.Check(&is, webhook.TemplateSpec())...)
	}
	return render.Warnings(&is), webhook.Invalid(kind("BareMetalConfigTemplate"), after.Name, list)
}

func (templates) ValidateDelete(context.Context, *bootstrapv1.BareMetalConfigTemplate) (admission.Warnings, error) {
	return nil, nil
}
