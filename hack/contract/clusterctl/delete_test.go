package clusterctl

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// describe checks what users see of a running cluster.
func (s *story) describe(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	g.Eventually(func(g Gomega) { // Cluster API counts replicas a moment after they exist
		out, err := s.source.Clusterctl(s.ctx, "describe", "cluster", site.ClusterName, "-n", site.Namespace)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(described(out)).To(HaveExactElements(
			"NAME REPLICAS AVAILABLE READY UP TO DATE STATUS REASON SINCE MESSAGE",
			"Cluster default/demo 3/3 3 3 3 True Available T",
			"├─BareMetalCluster default/demo True EndpointSet T",
			"├─KubeadmControlPlane default/demo-control-plane, v1.36.3 1/1 1 1 1 True Available T",
			"│ └─Machine default/demo-control-plane-x, v1.36.3 1 1 1 1 True Ready T",
			"└─Workers",
			"├─MachineDeployment default/demo-config-workers, v1.36.3 1/1 1 1 1 True Available T",
			MatchRegexp(`^│ └─Machine default/demo-config-workers-[a-z0-9]+-x, v1\.36\.3 1 1 1 1 True Ready T$`),
			"└─MachineDeployment default/demo-workers, v1.36.3 1/1 1 1 1 True Available T",
			MatchRegexp(`^└─Machine default/demo-workers-[a-z0-9]+-x, v1\.36\.3 1 1 1 1 True Ready T$`),
		), "what is well is not told at length:\n%s", out)
	}, time.Minute, time.Second).Should(Succeed())
	out, err := s.source.Clusterctl(s.ctx, "describe", "cluster", site.ClusterName, "-n", site.Namespace, "--show-conditions", "all", "--echo", "--grouping=false")
	g.Expect(err).NotTo(HaveOccurred())
	sections := map[string]int{}
	for _, kind := range []string{"BareMetalCluster", "BareMetalMachine", "BareMetalConfig"} {
		for _, section := range regexp.MustCompile(`(?m)─`+kind+` .*\n(?:[│ ]+[├└]─[A-Z][A-Za-z]+ +(?:True|False|Unknown) .*\n)+`).FindAllString(out, -1) {
			g.Expect(section).To(MatchRegexp(`─Ready +True `))
			g.Expect(section).To(MatchRegexp(`─Paused +False +NotPaused `))
			g.Expect(section).NotTo(ContainSubstring("Unknown"))
			sections[kind]++
		}
	}
	g.Expect(sections).To(Equal(map[string]int{"BareMetalCluster": 1, "BareMetalMachine": 3, "BareMetalConfig": 1}), out)
}

// described returns the lines of clusterctl describe without what differs each time.
func described(out string) []string {
	name := regexp.MustCompile(`(demo-(control-plane|(?:config-)?workers-[a-z0-9]+))-[a-z0-9]{5}\b`)
	since := regexp.MustCompile(` \d+(s|m|m\d+s)\b`)
	var lines []string
	for line := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
		line = since.ReplaceAllString(name.ReplaceAllString(line, "$1-x"), " T")
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return lines
}

// deleteCluster deletes the cluster. Nothing of it stays, and the hosts are free again.
func (s *story) deleteCluster(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	_, err := s.source.Kubectl(s.ctx, "-n", site.Namespace, "delete", "cluster", site.ClusterName, "--timeout=180s")
	g.Expect(err).NotTo(HaveOccurred())
	s.until(t, time.Minute, site.HostsIn(s.source, v1alpha1.PhaseAvailable, 5))
	for phase := range away {
		s.until(t, time.Minute, site.HostsIn(s.source, phase, 1))
	}
	for _, namespace := range []string{site.Namespace, flavorsNamespace} {
		s.until(t, time.Minute, empty(s.source, namespace))
	}
	for _, server := range s.lab.Rack.Servers() {
		g.Expect(server.On()).To(BeFalse(), "%s is still on", server.Name)
	}
	var hosts v1alpha1.BareMetalHostList
	g.Expect(s.source.Client.List(s.ctx, &hosts)).To(Succeed())
	for _, h := range hosts.Items {
		g.Expect(h.Spec.ConsumerRef).To(BeNil(), h.Name)
		g.Expect(h.Annotations).NotTo(HaveKey(v1alpha1.BlockMoveAnnotation), h.Name)
	}
	for host, boot := range s.records(t, s.source) {
		g.Expect(boot.ClaimID == "" || boot.VoidedTime != nil).To(BeTrue(), "the boot of %s is not void", host)
	}
}

// nothingOf is nil if the names of no installed objects have a part that matches the expression.
func (s *story) nothingOf(expression string) func(context.Context) error {
	match := regexp.MustCompile(`(?m)^.*(` + expression + `).*$`)
	return func(ctx context.Context) error {
		out, err := s.source.Kubectl(ctx, "get", "-A", "-o", "name", "crd,namespaces,clusterroles,clusterrolebindings,validatingadmissionpolicies,validatingadmissionpolicybindings,"+
			"validatingwebhookconfigurations,mutatingwebhookconfigurations,deployments,services,configmaps,roles,rolebindings,serviceaccounts,leases")
		if err != nil {
			return err
		}
		if left := match.FindAllString(out, -1); len(left) > 0 {
			return fmt.Errorf("still there: %s", strings.Join(left, " "))
		}
		return nil
	}
}

// deleteBootstrap deletes the bootstrap provider with everything that it installed. The infrastructure provider stays, and so do the values of the configs: they
// belong to the user.
func (s *story) deleteBootstrap(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	const own = "capbm-bootstrap|baremetalconfig"
	g.Expect(s.nothingOf(own)(s.ctx)).To(MatchError(And(
		ContainSubstring("capbm-bootstrap-validating-webhook-configuration"), ContainSubstring("baremetalconfigtemplates.bootstrap.cluster.x-k8s.io"),
		ContainSubstring("clusterrole.rbac.authorization.k8s.io/capbm-bootstrap-system-manager"))))
	s.source.StopBootstrap()
	_, err := s.source.Clusterctl(s.ctx, "delete", "--bootstrap", provider.Name, "--include-crd", "--include-namespace")
	g.Expect(err).NotTo(HaveOccurred())
	s.until(t, time.Minute, s.nothingOf(own))
	out, err := s.source.Kubectl(s.ctx, "get", "providers.clusterctl.cluster.x-k8s.io", "-A")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).NotTo(ContainSubstring(provider.Bootstrap))
	g.Expect(out).To(And(ContainSubstring("bootstrap-kubeadm"), ContainSubstring(provider.Infrastructure)))
	g.Expect(s.source.Client.Get(s.ctx, inNamespace(site.JoinSecret), &corev1.Secret{})).To(Succeed())
	g.Expect(s.source.Client.Get(s.ctx, inNamespace(site.NodeLabels), &corev1.ConfigMap{})).To(Succeed())
	g.Expect(s.hosts(t, s.source, v1alpha1.PhaseAvailable)).To(HaveLen(5))
}

// deleteProvider deletes the hosts and then the provider with everything that it installed. clusterctl refuses while a record or a request of an erasure exists. The BMCs' Secrets
// belong to the user, and stay.
func (s *story) deleteProvider(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	given := s.commands()
	_, err := s.source.Kubectl(s.ctx, "-n", site.Namespace, "delete", "baremetalhosts", "--all", "--timeout=60s")
	g.Expect(err).NotTo(HaveOccurred())
	s.until(t, time.Minute, s.noBoots(s.source)) // the provider must run for it
	s.source.StopProvider()
	remove := []string{"delete", "--infrastructure", provider.Name, "--include-crd", "--include-namespace"}
	var records v1alpha1.BareMetalErasureList
	g.Expect(s.source.Client.List(s.ctx, &records)).To(Succeed())
	g.Expect(records.Items).To(HaveLen(1), "the record that was moved")
	_, err = s.source.Clusterctl(s.ctx, remove...)
	g.Expect(err).To(MatchError(ContainSubstring("found existing objects for provider CRDs")), "the record would be lost")
	_, err = s.source.Kubectl(s.ctx, "delete", "baremetalerasurerequests,baremetalerasures", "--all", "--all-namespaces", "--timeout=60s")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.source.Kubectl(s.ctx, "delete", "namespace", keyNamespace, "--timeout=60s") // the provider has its key in its own namespace
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.source.Clusterctl(s.ctx, remove...)
	g.Expect(err).NotTo(HaveOccurred())
	s.until(t, time.Minute, s.nothingOf("capbm|baremetal"))
	out, err := s.source.Kubectl(s.ctx, "get", "providers.clusterctl.cluster.x-k8s.io", "-A")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).NotTo(ContainSubstring("baremetal"))
	var secrets corev1.SecretList
	g.Expect(s.source.Client.List(s.ctx, &secrets, client.InNamespace(site.Namespace))).To(Succeed())
	g.Expect(secrets.Items).To(ContainElement(HaveField("Name", "server-1-bmc")))
	g.Expect(s.commands()).To(Equal(given), "a server that is unregistered was given a command")
}
