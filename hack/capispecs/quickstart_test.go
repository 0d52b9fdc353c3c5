package capispecs

import (
	"context"
	"path/filepath"
	"regexp"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// The flavour specs-kinds has a control plane in one failure domain, two MachineDeployments in another one, and health checks. The hosts of the namespace have a boot, an
// inspection, and a proof of an erasure: nearly every kind of this provider.
var _ = ginkgo.Describe("QuickStartSpec", ginkgo.Label("quick-start", ci, nightly), func() {
	e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
		return e2e.QuickStartSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               new(flavorKinds),
			PostNamespaceCreated: withEveryKind,
			ControlPlaneWaiters:  clusterctl.ControlPlaneWaiters{WaitForControlPlaneInitialized: writeJoinSecret},
			PostMachinesProvisioned: func(proxy framework.ClusterProxy, namespace, cluster string) {
				Eventually(func(g Gomega) { expectFailureDomains(g, namespace) }).Should(Succeed())
				Eventually(func(g Gomega) { expectErased(g, namespace) }).Should(Succeed())
				expectResilience(proxy, namespace, cluster, false)
			},
		}
	})
})

var _ = ginkgo.Describe("QuickStartSpec with a ClusterClass", ginkgo.Label("quick-start-topology", nightly), func() {
	e2e.QuickStartSpec(ctx, func() e2e.QuickStartSpecInput {
		return e2e.QuickStartSpecInput{
			E2EConfig: shared.config, ClusterctlConfigPath: shared.lab.Repository.Config, BootstrapClusterProxy: shared.proxy, ArtifactFolder: artifacts,
			Flavor:               new(flavorTopology),
			PostNamespaceCreated: withHosts(2),
			PostMachinesProvisioned: func(proxy framework.ClusterProxy, namespace, cluster string) {
				expectResilience(proxy, namespace, cluster, true)
			},
		}
	})
})

// rooms are the failure domains of the hosts of QuickStartSpec. The hosts with the first names are not in that of the control plane, so that a claim that ignores the failure
// domain gets a wrong host.
var rooms = []string{"room-b", "room-b", "room-a", "room-c"}

// withEveryKind registers hosts in failure domains. The last one, which no machine gets, is inspected by the agent, and its disks are erased by a request.
func withEveryKind(proxy framework.ClusterProxy, namespace string) {
	withHosts(len(rooms), func(number int, host *v1alpha1.BareMetalHost) {
		host.Spec.FailureDomain = rooms[number]
		if number == len(rooms)-1 {
			host.Spec.Inspection = v1alpha1.InspectionAgent
		}
	})(proxy, namespace)
	for _, host := range hosts(Default, namespace) {
		if host.Spec.Inspection == v1alpha1.InspectionAgent {
			request := erasure.NewRequest(&host, host.Status.Hardware.SerialNumber, wire.PolicyMetadata, time.Now().Add(time.Hour))
			Expect(proxy.GetClient().Create(ctx, request)).To(Succeed())
		}
	}
}

// expectErased expects that the disks of a host were erased by the request, and that the host is offered again.
func expectErased(g Gomega, namespace string) {
	var requests v1alpha1.BareMetalErasureRequestList
	g.Expect(shared.proxy.GetClient().List(ctx, &requests, client.InNamespace(namespace))).To(Succeed())
	g.Expect(requests.Items).To(HaveLen(1))
	g.Expect(conditions.GetReason(&requests.Items[0], v1alpha1.ErasedCondition)).To(Equal(v1alpha1.ReasonErased))
	g.Expect(free(g, namespace)).To(ContainElement(requests.Items[0].Spec.HostName))
}

// expectFailureDomains expects that each machine runs in the failure domain that its owner demands. The framework compares only the specs of Machines with each other.
func expectFailureDomains(g Gomega, namespace string) {
	var machines clusterv1.MachineList
	g.Expect(shared.proxy.GetClient().List(ctx, &machines, client.InNamespace(namespace))).To(Succeed())
	g.Expect(machines.Items).NotTo(BeEmpty())
	for _, m := range machines.Items {
		g.Expect(m.Spec.FailureDomain).NotTo(BeEmpty(), m.Name)
		g.Expect(m.Status.FailureDomain).To(Equal(m.Spec.FailureDomain), m.Name)
	}
}

// joinSuffix is what the name of the Secret with the join token ends with, after the name of the cluster.
const joinSuffix = "-join"

// joinCommand is what kubeadm prints.
var joinCommand = regexp.MustCompile(`--token (\S+) --discovery-token-ca-cert-hash (\S+)`)

// writeJoinSecret waits for the first control plane machine as the framework does, and then does what an operator does for BareMetalConfigs: it creates a join token, and
// writes it into the Secret that they refer to.
func writeJoinSecret(ctx context.Context, input clusterctl.ApplyCustomClusterTemplateAndWaitInput, result *clusterctl.ApplyCustomClusterTemplateAndWaitResult) {
	c := input.ClusterProxy.GetClient()
	result.ControlPlane = framework.DiscoveryAndWaitForControlPlaneInitialized(ctx, framework.DiscoveryAndWaitForControlPlaneInitializedInput{
		Lister: c, Cluster: result.Cluster,
	}, input.WaitForControlPlaneIntervals...)
	workload := input.ClusterProxy.GetWorkloadCluster(ctx, input.Namespace, input.ClusterName)
	defer workload.Dispose(ctx)
	out, err := proc.Run(ctx, nil, filepath.Join(shared.lab.Bin, "kubeadm"), "token", "create", "--print-join-command", "--kubeconfig="+workload.GetKubeconfigPath())
	Expect(err).NotTo(HaveOccurred())
	command := joinCommand.FindStringSubmatch(out)
	Expect(command).To(HaveLen(3), "kubeadm printed no token: "+out)
	Expect(c.Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: input.Namespace, Name: input.ClusterName + joinSuffix, Labels: map[string]string{bootstrapv1.ValueSecretLabel: ""},
		},
		Data: map[string][]byte{"token": []byte(command[1]), "caCertHash": []byte(command[2])},
	})).To(Succeed())
}
