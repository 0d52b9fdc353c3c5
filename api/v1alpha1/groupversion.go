package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: "infrastructure.cluster.x-k8s.io", Version: "v1alpha1"}

var schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

// AddToScheme registers the types of this package with a scheme.
var AddToScheme = schemeBuilder.AddToScheme

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&BareMetalHost{}, &BareMetalHostList{},
		&BareMetalBoot{}, &BareMetalBootList{},
		&BareMetalInspection{}, &BareMetalInspectionList{},
		&BareMetalErasure{}, &BareMetalErasureList{},
		&BareMetalErasureRequest{}, &BareMetalErasureRequestList{},
		&BareMetalProfile{}, &BareMetalProfileList{},
		&BareMetalSettings{}, &BareMetalSettingsList{},
		&BareMetalMachine{}, &BareMetalMachineList{},
		&BareMetalMachineTemplate{}, &BareMetalMachineTemplateList{},
		&BareMetalCluster{}, &BareMetalClusterList{},
		&BareMetalClusterTemplate{}, &BareMetalClusterTemplateList{},
		&BareMetalRemediation{}, &BareMetalRemediationList{},
		&BareMetalRemediationTemplate{}, &BareMetalRemediationTemplateList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
