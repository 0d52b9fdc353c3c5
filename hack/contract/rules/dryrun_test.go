package rules

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// dryRun shows that a template is immutable, but for the topology controller, which tries changes out by server-side apply. It says so in an
// annotation, in a request that changes nothing.
func (s *suite) dryRun(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	template := &v1alpha1.BareMetalMachineTemplate{ObjectMeta: meta(side, "unchanging")}
	template.Spec.Template.Spec = s.machineSpec(t)
	g.Expect(c.Create(ctx, template)).To(Succeed())

	change := func(annotations map[string]string) *v1alpha1.BareMetalMachineTemplate {
		changed := &v1alpha1.BareMetalMachineTemplate{ObjectMeta: meta(side, "unchanging"), Spec: *template.Spec.DeepCopy()}
		changed.APIVersion, changed.Kind = v1alpha1.GroupVersion.String(), "BareMetalMachineTemplate"
		changed.Annotations = annotations
		changed.Spec.Template.Spec.Boot.CommandLine = "console=ttyS1"
		return changed
	}
	apply := func(o client.Object, options ...client.ApplyOption) error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		g.Expect(err).NotTo(HaveOccurred())
		delete(content, "status")
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content}), append(options, client.FieldOwner("capi-topology"), client.ForceOwnership)...)
	}
	topology := map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
	g.Expect(apply(change(topology), client.DryRunAll)).To(Succeed(), "the topology controller tries a change out")
	for what, err := range map[string]error{
		"a change":                   apply(change(nil)),
		"a dry run by somebody else": apply(change(nil), client.DryRunAll),
		"a change that says that it is for dry run": apply(change(topology)),
	} {
		g.Expect(err).To(MatchError(ContainSubstring("cannot be changed")), what)
	}
	var now v1alpha1.BareMetalMachineTemplate
	s.get(t, side, "unchanging", &now)
	g.Expect(now.Spec).To(Equal(template.Spec))
	g.Expect(c.Patch(ctx, &now, merge(`{"metadata":{"labels":{"mine":"yes"}}}`))).To(Succeed(), "its metadata can be changed")
}
