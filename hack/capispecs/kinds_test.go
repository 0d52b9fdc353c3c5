package capispecs

import (
	"strings"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
)

// The framework compares the owner references and finalizers of all objects of a namespace whose kinds belong to a provider, and of its Secrets and ConfigMaps, with maps
// by kind. A kind without an entry fails the spec.
type (
	ownerMap     = map[string]func(types.NamespacedName, []metav1.OwnerReference) error
	finalizerMap = map[string]func(types.NamespacedName) []string
)

// ref is an owner reference as the framework compares it: without a name.
func ref(apiVersion, kind string, controller bool) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: apiVersion, Kind: kind, Controller: &controller}
}

// oneOf accepts one of several single owners.
func oneOf(owners ...metav1.OwnerReference) func(types.NamespacedName, []metav1.OwnerReference) error {
	var possible [][]metav1.OwnerReference
	for _, owner := range owners {
		possible = append(possible, []metav1.OwnerReference{owner})
	}
	return func(_ types.NamespacedName, got []metav1.OwnerReference) error {
		return framework.HasOneOfExactOwners(got, possible...)
	}
}

func noOwner(_ types.NamespacedName, got []metav1.OwnerReference) error {
	return framework.HasExactOwners(got)
}

// ownersOfOurs returns the owners of each kind of this provider. A topology controls the objects that it creates.
func ownersOfOurs(topology bool) ownerMap {
	core := clusterv1.GroupVersion.String()
	cluster, class, machine := ref(core, "Cluster", false), ref(core, "ClusterClass", false), ref(core, "Machine", true)
	host := ref(v1alpha1.GroupVersion.String(), "BareMetalHost", false)
	return ownerMap{
		"BareMetalHost": noOwner, "BareMetalBoot": oneOf(host), "BareMetalInspection": oneOf(host),
		// A proof outlives its host, and a request expires.
		"BareMetalErasure": noOwner, "BareMetalErasureRequest": noOwner,
		"BareMetalProfile": noOwner, "BareMetalSettings": oneOf(host),
		"BareMetalCluster": oneOf(ref(core, "Cluster", topology)), "BareMetalClusterTemplate": oneOf(class),
		"BareMetalMachine": oneOf(machine), "BareMetalMachineTemplate": oneOf(cluster, class),
		// A template of remediations is for all MachineHealthChecks of a namespace.
		"BareMetalRemediation": oneOf(machine), "BareMetalRemediationTemplate": noOwner,
		"BareMetalConfig": oneOf(machine), "BareMetalConfigTemplate": oneOf(cluster, class),
	}
}

// ownersOfKubernetes returns the owners of Secrets and ConfigMaps. The framework's own map does not know those of users: the credentials of BMCs, and the values of
// BareMetalConfigs.
func ownersOfKubernetes() ownerMap {
	owned := oneOf(ref(controlplanev1.GroupVersion.String(), "KubeadmControlPlane", true), ref(kubeadmv1.GroupVersion.String(), "KubeadmConfig", true),
		ref(bootstrapv1.GroupVersion.String(), "BareMetalConfig", true))
	return ownerMap{
		"Secret": func(name types.NamespacedName, got []metav1.OwnerReference) error {
			if strings.HasSuffix(name.Name, "-bmc") || strings.HasSuffix(name.Name, joinSuffix) {
				return noOwner(name, got)
			}
			return owned(name, got)
		},
		"ConfigMap": noOwner,
	}
}

// finalizersOfOurs returns the finalizers of each kind of this provider.
func finalizersOfOurs() finalizerMap {
	finalizers := finalizerMap{}
	for kind, want := range map[string][]string{
		"BareMetalHost": {v1alpha1.HostFinalizer}, "BareMetalBoot": {v1alpha1.BootFinalizer}, "BareMetalInspection": nil,
		"BareMetalErasure": nil, "BareMetalErasureRequest": nil,
		"BareMetalProfile": nil, "BareMetalSettings": nil,
		"BareMetalCluster": nil, "BareMetalClusterTemplate": nil,
		"BareMetalMachine": {v1alpha1.MachineFinalizer}, "BareMetalMachineTemplate": nil,
		"BareMetalRemediation": {v1alpha1.RemediationFinalizer}, "BareMetalRemediationTemplate": nil,
		"BareMetalConfig": nil, "BareMetalConfigTemplate": nil,
	} {
		finalizers[kind] = func(types.NamespacedName) []string { return want }
	}
	return finalizers
}

// expectResilience removes all owner references and finalizers of a namespace, and changes the API versions of the former: Cluster API and this provider restore them. Then
// nothing may be written.
func expectResilience(proxy framework.ClusterProxy, namespace, cluster string, topology bool) {
	filter := clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster)
	owners := []ownerMap{
		framework.CoreOwnerReferenceAssertion, framework.KubeadmBootstrapOwnerReferenceAssertions,
		framework.KubeadmControlPlaneOwnerReferenceAssertions(topology), ownersOfOurs(topology), ownersOfKubernetes(),
	}
	ginkgo.By("Checking that owner references are resilient")
	framework.ValidateOwnerReferencesResilience(ctx, proxy, namespace, cluster, filter, owners...)
	ginkgo.By("Checking that owner references are updated to the correct API version")
	framework.ValidateOwnerReferencesOnUpdate(ctx, proxy, namespace, cluster, filter, owners...)
	ginkgo.By("Checking that finalizers are resilient")
	core := framework.CoreFinalizersAssertionWithLegacyClusters
	if topology {
		core = framework.CoreFinalizersAssertionWithClassyClusters
	}
	framework.ValidateFinalizersResilience(ctx, proxy, namespace, cluster, filter, core, framework.KubeadmControlPlaneFinalizersAssertion, finalizersOfOurs())
	ginkgo.By("Checking that resourceVersions are stable")
	framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
		ClusterProxy: proxy, Namespace: namespace, OwnerGraphFilterFunction: filter,
		WaitToBecomeStable: shared.config.GetIntervals("quick-start", "wait-resource-versions-become-stable"),
		WaitToRemainStable: shared.config.GetIntervals("quick-start", "wait-resource-versions-remain-stable"),
	})
}

// The maps have each kind of this provider: the objects of a spec show only those kinds that it has.
var _ = ginkgo.Describe("The maps of owners and finalizers", ginkgo.Label("kinds", ci, nightly), func() {
	ginkgo.It("have an entry for each kind of this provider", func() {
		owners, finalizers, kinds := ownersOfOurs(false), finalizersOfOurs(), 0
		for _, name := range []string{provider.Infrastructure, provider.Bootstrap} {
			var crds apiextensionsv1.CustomResourceDefinitionList
			Expect(shared.proxy.GetClient().List(ctx, &crds, client.MatchingLabels{clusterv1.ProviderNameLabel: name})).To(Succeed())
			for _, crd := range crds.Items {
				kinds++
				Expect(owners).To(HaveKey(crd.Spec.Names.Kind))
				Expect(finalizers).To(HaveKey(crd.Spec.Names.Kind))
			}
		}
		Expect(kinds).To(Equal(len(owners)), "a map has a kind that does not exist")
	})
})
