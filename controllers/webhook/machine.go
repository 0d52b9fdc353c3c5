package webhook

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/ipxe"
)

// machines validates BareMetalMachines.
type machines struct{}

// ValidateCreate accepts a machine that has booted before, because `clusterctl move` and a restore from a backup create it again.
func (machines) ValidateCreate(_ context.Context, m *v1alpha1.BareMetalMachine) (admission.Warnings, error) {
	if m.Spec.ProviderID != "" {
		return nil, nil
	}
	return nil, invalid("BareMetalMachine", m.Name, checkBoot(m.Spec.Boot, field.NewPath("spec")))
}

// ValidateUpdate validates only what changed. So a machine that became invalid after an update of the provider can still be written and deleted. It warns
// of changes that have no effect.
func (machines) ValidateUpdate(_ context.Context, before, after *v1alpha1.BareMetalMachine) (admission.Warnings, error) {
	warnings := ineffectiveChanges(before, &after.Spec)
	// It is no CEL rule, because the rule would apply to templates too, which Cluster API's topology controller changes in a dry run.
	if !equality.Semantic.DeepEqual(before.Spec.Image, after.Spec.Image) {
		return warnings, invalid("BareMetalMachine", after.Name, field.ErrorList{field.Forbidden(field.NewPath("spec", "image"),
			"it cannot be changed: change the template of the Machine, so that Cluster API replaces the Machine")})
	}
	if equality.Semantic.DeepEqual(before.Spec.Boot, after.Spec.Boot) {
		return warnings, nil
	}
	return warnings, invalid("BareMetalMachine", after.Name, checkBoot(after.Spec.Boot, field.NewPath("spec")))
}

// fieldsReadOnce are the fields of a machine that the provider stops reading: after the claim those that select a host, and after the boot those of what
// the host boots. The other fields of spec.boot stay in effect: persistence is what a restart means.
var fieldsReadOnce = []struct {
	name  string
	until func(*v1alpha1.BareMetalMachine) bool
	value func(*v1alpha1.BareMetalMachineSpec) any
}{
	{"hostSelector", claimed, func(s *v1alpha1.BareMetalMachineSpec) any { return s.HostSelector }},
	{"hardware", claimed, func(s *v1alpha1.BareMetalMachineSpec) any { return s.Hardware }},
	{"preferences", claimed, func(s *v1alpha1.BareMetalMachineSpec) any { return s.Preferences }},
	{"tolerations", claimed, func(s *v1alpha1.BareMetalMachineSpec) any { return s.Tolerations }},
	{"reuseHost", claimed, func(s *v1alpha1.BareMetalMachineSpec) any { return s.ReuseHost }},
	{"cleaningPolicy", claimed, func(s *v1alpha1.BareMetalMachineSpec) any { return s.CleaningPolicy }},
	{"profile", claimed, func(s *v1alpha1.BareMetalMachineSpec) any { return s.Profile }},
	{"boot.kernel", booted, func(s *v1alpha1.BareMetalMachineSpec) any { return s.Boot.Kernel }},
	{"boot.initrds", booted, func(s *v1alpha1.BareMetalMachineSpec) any { return s.Boot.Initrds }},
	{"boot.commandLine", booted, func(s *v1alpha1.BareMetalMachineSpec) any { return s.Boot.CommandLine }},
	{"boot.ipxeTemplate", booted, func(s *v1alpha1.BareMetalMachineSpec) any { return s.Boot.IPXETemplate }},
	{"boot.reportBootstrap", booted, func(s *v1alpha1.BareMetalMachineSpec) any { return s.Boot.ReportBootstrap }},
}

func claimed(m *v1alpha1.BareMetalMachine) bool { return m.Status.HostRef != nil || booted(m) }

func booted(m *v1alpha1.BareMetalMachine) bool { return m.Spec.ProviderID != "" }

// ineffectiveChanges returns a warning for each change that has no effect. Such a change is not refused, because other clients write whole objects, and
// Cluster API may try it.
func ineffectiveChanges(before *v1alpha1.BareMetalMachine, after *v1alpha1.BareMetalMachineSpec) admission.Warnings {
	var all admission.Warnings
	for _, f := range fieldsReadOnce {
		if f.until(before) && !equality.Semantic.DeepEqual(f.value(&before.Spec), f.value(after)) {
			all = append(all, fmt.Sprintf("spec.%s: the change has no effect, because the machine already has its host. Change the template of the Machine, "+
				"so that Cluster API replaces the Machine", f.name))
		}
	}
	return all
}

func (machines) ValidateDelete(context.Context, *v1alpha1.BareMetalMachine) (admission.Warnings, error) {
	return nil, nil
}

// machineTemplates validates BareMetalMachineTemplates.
type machineTemplates struct{}

func (machineTemplates) ValidateCreate(_ context.Context, t *v1alpha1.BareMetalMachineTemplate) (admission.Warnings, error) {
	return nil, invalid("BareMetalMachineTemplate", t.Name, checkBoot(t.Spec.Template.Spec.Boot, TemplateSpec()))
}

// ValidateUpdate validates what changed, also in a dry run of the topology controller. So the user of a ClusterClass that creates an invalid template
// gets the error immediately.
func (machineTemplates) ValidateUpdate(ctx context.Context, before, after *v1alpha1.BareMetalMachineTemplate) (admission.Warnings, error) {
	was, is := before.Spec.Template.Spec, after.Spec.Template.Spec
	list, err := Immutable(ctx, after, was, is)
	if err != nil {
		return nil, err
	}
	if !equality.Semantic.DeepEqual(was.Boot, is.Boot) {
		list = append(list, checkBoot(is.Boot, TemplateSpec())...)
	}
	return nil, invalid("BareMetalMachineTemplate", after.Name, list)
}

func (machineTemplates) ValidateDelete(context.Context, *v1alpha1.BareMetalMachineTemplate) (admission.Warnings, error) {
	return nil, nil
}

// checkBoot renders the iPXE template with values like those of a boot.
func checkBoot(boot v1alpha1.BootSource, spec *field.Path) field.ErrorList {
	if boot.IPXETemplate == "" {
		return nil
	}
	_, err := ipxe.Template(boot.IPXETemplate, sampleValues(boot))
	if err == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(spec.Child("boot", "ipxeTemplate"), field.OmitValueType{},
		fmt.Sprintf("%v. `kubectl explain baremetalmachine.spec.boot.ipxeTemplate` describes what it can contain", err))}
}

// sampleValues returns values like those of a boot: as many initrds as the machine has, and a kernel if it has one. All other values are always set.
func sampleValues(boot v1alpha1.BootSource) ipxe.Values {
	const server = "http://192.0.2.1:8480/"
	v := ipxe.Values{
		Title: "namespace/host for machine, boot attempt 1", MAC: "52:54:00:12:34:56", Hostname: "machine",
		CommandLine: boot.CommandLine + " ds=nocloud;s=" + server + "seed/", SeedURL: server + "seed/", SelfURL: server + "script",
	}
	if boot.Kernel.URL != "" {
		v.Kernel = server + "kernel"
	}
	for i := range boot.Initrds {
		v.Initrds = append(v.Initrds, fmt.Sprintf("%sinitrd/%d", server, i))
	}
	return v
}
