package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// flavors are the flavours of the release, as clusterctl's flag names them. The default has no name.
var flavors = []string{"", "ha", "external-loadbalancer", "network-boot", "ignition"}

// generateCluster lets clusterctl generate a cluster of a flavour into a file.
func (s *story) generateCluster(t *testing.T, name, namespace, flavor string) (string, error) {
	t.Helper()
	for name, value := range values {
		if _, set := os.LookupEnv(name); !set {
			t.Setenv(name, value)
		}
	}
	file := filepath.Join(t.TempDir(), "cluster.yaml")
	_, err := s.source.Clusterctl(s.ctx, "generate", "cluster", name, "--infrastructure", provider.Name, "--flavor", flavor, "--target-namespace", namespace,
		"--kubernetes-version", site.KubernetesVersion, "--control-plane-machine-count", "1", "--worker-machine-count", "2", "--write-to", file)
	return file, err
}

// dryRun applies a file in a dry run of the API server, with its CRDs and every webhook.
func (s *story) dryRun(file string) (string, error) {
	return s.source.Kubectl(s.ctx, "apply", "--dry-run=server", "-f", file)
}

// generate generates a cluster of every flavour, which the API server accepts.
func (s *story) generate(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	for _, flavor := range flavors {
		file, err := s.generateCluster(t, "prod", site.Namespace, flavor)
		g.Expect(err).NotTo(HaveOccurred(), flavor)
		out, err := s.dryRun(file)
		g.Expect(err).NotTo(HaveOccurred(), flavor)
		g.Expect(out).To(ContainSubstring("kubeadmcontrolplane.controlplane.cluster.x-k8s.io/prod-control-plane created"), flavor)
		g.Expect(out).NotTo(ContainSubstring("Warning"), flavor)
		checks := strings.Count(out, "machinehealthcheck.cluster.x-k8s.io/")
		g.Expect(checks).To(Equal(map[string]int{"ha": 2}[flavor]), out)
	}
}

// refuse uses variables that are wrong or missing. The error names the cause.
func (s *story) refuse(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	for _, c := range []struct{ flavor, variable, value, want string }{
		{"", "CONTROL_PLANE_ENDPOINT_HOST", "https://api.example", "must be a hostname or an IP address, not a URL and without a port"},
		{"", "CONTROL_PLANE_ENDPOINT_HOST", "", "set both host and port"},
		{"", "CONTROL_PLANE_ENDPOINT_PORT", "66443", "spec.controlPlaneEndpoint.port: Invalid value: 66443"},
		{"", "IMAGE_URL", "tftp://images.example/debian.qcow2", "must be an http://, https:// or oci:// URL"},
		{"", "IMAGE_CHECKSUM", "d41d8cd98f00b204e9800998ecf8427e", "must be sha256: with 64 or sha512: with 128 hexadecimal digits"},
		{"", "IMAGE_CHECKSUM", "", "spec.template.spec.image.checksum: Required value"},
		{"", "IMAGE_DATA_SOURCE", "Ignition", `supported values: "NoCloud", "ConfigDrive", "None"`},
		{"network-boot", "KERNEL_URL", "tftp://images.example/vmlinuz", "must be an http:// or https:// URL"},
		{"network-boot", "KERNEL_CHECKSUM", "d41d8cd98f00b204e9800998ecf8427e", "must be sha256: with 64 or sha512: with 128 hexadecimal digits"},
		{"network-boot", "KERNEL_CHECKSUM", "", "spec.template.spec.boot.kernel.checksum: Required value"},
		{"network-boot", "KERNEL_COMMAND_LINE", "console=ttyS0 ds=nocloud", "must not contain ds=...: the provider sets it"},
		{"network-boot", "BOOT_PERSISTENCE", "Forever", `supported values: "Installed", "Ephemeral"`},
		{"network-boot", "INITRD_URL", "images.example/initrd", "must be an http:// or https:// URL"},
		{"", "POD_CIDR", "10.244.0.0", "spec.clusterNetwork.pods.cidrBlocks"},
		{"ha", "CONTROL_PLANE_FAILURE_DOMAIN_2", "rack-1", `Duplicate value`},
		{"ha", "CONTROL_PLANE_FAILURE_DOMAIN_3", "", "spec.failureDomains[2].name: Required value"},
		{"ha", "NODE_STARTUP_TIMEOUT_SECONDS", "40m", "spec.checks.nodeStartupTimeoutSeconds"},
		{"external-loadbalancer", "IMAGE_URL", "images.example/debian.qcow2", "must be an http://, https:// or oci:// URL"},
		{"ignition", "BOOT_PERSISTENCE", "ephemeral", `supported values: "Installed", "Ephemeral"`},
	} {
		t.Run(fmt.Sprintf("%s %s=%s", c.flavor, c.variable, c.value), func(t *testing.T) {
			g := NewWithT(t)
			t.Setenv(c.variable, c.value)
			file, err := s.generateCluster(t, "prod", site.Namespace, c.flavor)
			if err == nil {
				_, err = s.dryRun(file)
			}
			g.Expect(err).To(MatchError(ContainSubstring(c.want)))
		})
	}
}

// flavorsNamespace is the namespace of clusters without hosts.
const flavorsNamespace = "flavors"

// bootstrapData runs what the real bootstrap provider makes for the first control plane server of the flavours with kube-vip.
func (s *story) bootstrapData(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	_, err := s.source.Kubectl(s.ctx, "create", "namespace", flavorsNamespace)
	g.Expect(err).NotTo(HaveOccurred())
	names := map[string]string{"": "plain", "ignition": "flatcar"}
	for flavor, name := range names {
		file, err := s.generateCluster(t, name, flavorsNamespace, flavor)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = s.source.Kubectl(s.ctx, "apply", "-f", file)
		g.Expect(err).NotTo(HaveOccurred())
	}
	cloudConfig := s.dataOf(t, flavorsNamespace, "plain", nil)
	expectKubeVIP(t, runCloudConfig(t, string(cloudConfig.Data["value"])), "init", superAdmin)

	ignition := s.dataOf(t, flavorsNamespace, "flatcar", nil)
	g.Expect(string(ignition.Data["format"])).To(Equal("ignition"))
	metadata := map[string]string{"/etc/capbm/metadata": "CAPBM_PROVIDER_ID=baremetal://default/server-1/prod\n"}
	expectKubeVIP(t, runIgnition(t, string(ignition.Data["value"]), metadata), "init", superAdmin)
	// For a server that joins only the kubeadm configuration and the command with its path differ.
	metadata["/etc/kubeadm.yml"] = "---\nkind: JoinConfiguration\nnodeRegistration:\n  kubeletExtraArgs:\n  - name: provider-id\n    value: '@PROVIDER_ID@'\n"
	expectKubeVIP(t, runIgnition(t, string(ignition.Data["value"]), metadata), "init", admin)

	_, err = s.source.Kubectl(s.ctx, "-n", flavorsNamespace, "delete", "cluster", "--all", "--wait=false") // deleteCluster checks that they are gone
	g.Expect(err).NotTo(HaveOccurred())
}

// dataOf waits for the bootstrap data of a cluster's control plane machine that is not one of the known ones.
func (s *story) dataOf(t *testing.T, namespace, cluster string, known []string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	s.until(t, time.Minute, func(ctx context.Context) error {
		var machines clusterv1.MachineList
		if err := s.source.Client.List(ctx, &machines, client.InNamespace(namespace),
			client.MatchingLabels{clusterv1.ClusterNameLabel: cluster}, client.HasLabels{clusterv1.MachineControlPlaneLabel}); err != nil {
			return err
		}
		for _, m := range machines.Items {
			if name := m.Spec.Bootstrap.DataSecretName; name != nil && !slices.Contains(known, m.Name) {
				return s.source.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: *name}, secret)
			}
		}
		return errors.New("no machine has bootstrap data")
	})
	return secret
}

// join runs what the real bootstrap provider makes for a second control plane server, which gets no host. kube-vip has there the credentials of a server
// that joins.
func (s *story) join(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	var machines clusterv1.MachineList
	g.Expect(s.source.Client.List(s.ctx, &machines, client.InNamespace(site.Namespace), client.HasLabels{clusterv1.MachineControlPlaneLabel})).To(Succeed())
	g.Expect(machines.Items).To(HaveLen(1))
	_, err := s.source.Kubectl(s.ctx, "-n", site.Namespace, "scale", "kubeadmcontrolplane", site.ClusterName+"-control-plane", "--replicas=2")
	g.Expect(err).NotTo(HaveOccurred())
	secret := s.dataOf(t, site.Namespace, site.ClusterName, []string{machines.Items[0].Name})
	expectKubeVIP(t, runCloudConfig(t, string(secret.Data["value"])), "join", admin)

	_, err = s.source.Kubectl(s.ctx, "-n", site.Namespace, "annotate", "machine", secret.Name, clusterv1.DeleteMachineAnnotation+"=")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.source.Kubectl(s.ctx, "-n", site.Namespace, "scale", "kubeadmcontrolplane", site.ClusterName+"-control-plane", "--replicas=1")
	g.Expect(err).NotTo(HaveOccurred())
	s.settle(t, s.source, 5)
}

// empty is nil if nothing of a cluster is left in a namespace.
func empty(p *plane.Plane, namespace string) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, kinds := range []string{
			"clusters,machines,machinesets,machinedeployments,machinehealthchecks,kubeadmcontrolplanes,kubeadmconfigs,kubeadmconfigtemplates",
			"baremetalconfigs,baremetalconfigtemplates,baremetalclusters,baremetalmachines,baremetalmachinetemplates,baremetalremediations,baremetalremediationtemplates",
		} {
			out, err := p.Kubectl(ctx, "-n", namespace, "get", kinds, "-o", "name")
			if err != nil {
				return err
			}
			if out != "" {
				return fmt.Errorf("still there: %s", strings.Join(strings.Fields(out), " "))
			}
		}
		var secrets corev1.SecretList
		if err := p.Client.List(ctx, &secrets, client.InNamespace(namespace), client.HasLabels{clusterv1.ClusterNameLabel}); err != nil {
			return err
		}
		for _, secret := range secrets.Items {
			if !etcdSecret.MatchString(secret.Name) {
				return fmt.Errorf("still there: secret %s", secret.Name)
			}
		}
		return nil
	}
}

// etcdSecret matches the Secrets of an external etcd, which belong to the user.
var etcdSecret = regexp.MustCompile(`-(etcd|apiserver-etcd-client)$`)
