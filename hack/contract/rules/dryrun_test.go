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

func (s *suite) dryRun(t *testing.T) {
	s.immutableExceptDryRun(t, side, func() client.Object {
		template := &v1alpha1.BareMetalMachineTemplate{ObjectMeta: meta(side, "unchanging")}
		template.APIVersion, template.Kind = v1alpha1.GroupVersion.String(), "BareMetalMachineTemplate"
		template.Spec.Template.Spec = s.machineSpec(t)
		return template
	}, func(o client.Object) {
		o.(*v1alpha1.BareMetalMachineTemplate).Spec.Template.Spec.Boot.CommandLine = "console=ttyS1"
	})
}

// immutableExceptDryRun shows that a template is immutable, except for the topology controller, which tries changes by server-side apply. It says so in an
// annotation, in a request that changes nothing.
func (s *suite) immutableExceptDryRun(t *testing.T, namespace string, template func() client.Object, change func(client.Object)) {
	t.Helper()
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	g.Expect(c.Create(ctx, template())).To(Succeed())
	created := template()
	s.get(t, namespace, created.GetName(), created)

	changed := func(annotations map[string]string) client.Object {
		o := template()
		o.SetAnnotations(annotations)
		change(o)
		return o
	}
	apply := func(o client.Object, options ...client.ApplyOption) error {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		g.Expect(err).NotTo(HaveOccurred())
		delete(content, "status")
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(&unstructured.Unstructured{Object: content}), append(options, client.FieldOwner("capi-topology"), client.ForceOwnership)...)
	}
	topology := map[string]string{clusterv1.TopologyDryRunAnnotation: ""}
	g.Expect(apply(changed(topology), client.DryRunAll)).To(Succeed(), "the topology controller tries a change")
	for what, err := range map[string]error{
		"a change":                   apply(changed(nil)),
		"a dry run by somebody else": apply(changed(nil), client.DryRunAll),
		"a change that says that it is for dry run": apply(changed(topology)),
	} {
		g.Expect(err).To(MatchError(ContainSubstring("cannot be changed")), what)
	}
	now := template()
	s.get(t, namespace, created.GetName(), now)
	g.Expect(now.GetGeneration()).To(Equal(created.GetGeneration()), "the spec is what it was")
	g.Expect(c.Patch(ctx, now, merge(`{"metadata":{"labels":{"mine":"yes"}}}`))).To(Succeed(), "its metadata can be changed")
}
