package class

import (
	"context"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// elsewhere is a namespace without hosts, for Clusters that only show the effects of their variables.
const elsewhere = "variables"

// networkWorkers is the MachineDeployment whose workers boot over the network.
const networkWorkers = "network-workers"

// checksum is the checksum of a file that is never fetched.
var checksum = "sha256:" + strings.Repeat("ab", 32)

// full has every variable of the ClusterClass. Its machines wait for hosts for ever.
func full() map[string]any {
	return map[string]any{
		"controlPlaneEndpoint":   map[string]any{"host": "192.0.2.9", "port": 7443},
		"images":                 map[string]any{site.KubernetesVersion: diskImage()},
		"dataSource":             "ConfigDrive",
		"controlPlaneRootDevice": map[string]any{"minSize": "100Gi", "rotational": false}, "workerRootDevice": map[string]any{"model": "PM9A3"},
		"commandLine": `quiet "dyndbg=file a.c +p"`, "persistence": "Ephemeral", "reportBootstrap": true, "cleaningPolicy": "Purge",
		"controlPlaneHosts": map[string]any{
			"hostSelector": map[string]any{"matchLabels": map[string]any{"role": "control-plane"}},
			"hardware":     map[string]any{"cpu": 8, "memory": "64Gi", "disk": "400Gi", "architecture": "amd64"}, "reuseHost": true,
		},
		"workerHosts": map[string]any{
			"hostSelector": map[string]any{"matchExpressions": []any{map[string]any{"key": "rack", "operator": "In", "values": []any{"a", "b"}}}},
			"preferences":  []any{map[string]any{"weight": 7, "hostSelector": map[string]any{"matchLabels": map[string]any{"disk": "nvme"}}}},
			"tolerations":  []any{map[string]any{"key": "gpu", "operator": "Exists"}},
		},
		"failureDomains":        []any{map[string]any{"name": "hall-1", "controlPlane": true}},
		"kubeVIP":               map[string]any{"interface": "eno1", "subnet": 24},
		"externalEtcdEndpoints": []any{"https://192.0.2.5:2379"},
		"controlPlaneMaxSurge":  0,
	}
}

// diskImage and networkBoot are images of the two kinds.
func diskImage() map[string]any {
	return map[string]any{"image": map[string]any{"url": "oci://192.0.2.1/debian:13", "checksum": checksum, "pullSecret": "registry"}}
}

func networkBoot() map[string]any {
	return map[string]any{"boot": map[string]any{
		"kernel":  map[string]any{"url": "http://192.0.2.1/kernel", "checksum": checksum},
		"initrds": []any{map[string]any{"url": "http://192.0.2.1/a?x=1&y=2", "checksum": checksum}, map[string]any{"url": "http://192.0.2.1/b", "checksum": checksum}},
	}}
}

// topologyOf returns a Cluster of the ClusterClass, which is in the other namespace.
func topologyOf(variables map[string]any) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: "full"}}
	topology := &cluster.Spec.Topology
	topology.ClassRef = clusterv1.ClusterClassRef{Name: "baremetal", Namespace: site.Namespace}
	topology.Version, topology.ControlPlane.Replicas = site.KubernetesVersion, new(int32(controlPlanes))
	topology.Workers.MachineDeployments = []clusterv1.MachineDeploymentTopology{
		{Class: "worker", Name: "workers", Replicas: new(int32(1))},
		{Class: "worker", Name: networkWorkers, Replicas: new(int32(1)), Variables: clusterv1.MachineDeploymentVariables{Overrides: []clusterv1.ClusterVariable{
			{Name: "images", Value: raw(map[string]any{site.KubernetesVersion: networkBoot()})},
		}}},
	}
	for name, value := range variables {
		topology.Variables = append(topology.Variables, clusterv1.ClusterVariable{Name: name, Value: raw(value)})
	}
	return cluster
}

// variables shows the effect of each variable on the templates, and that bad values are refused.
func (s *suite) variables(ctx context.Context) {
	g := NewWithT(s.T)
	for _, v := range clusterClass(s.T).Spec.Variables {
		g.Expect(full()).To(HaveKey(v.Name), "this test leaves a variable out")
	}
	g.Expect(s.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: elsewhere}})).To(Succeed())
	_, err := s.Kubectl(ctx, "apply", "-n", site.Namespace, "-k", filepath.Join(root, "config", "templates", "clusterclasses", "baremetal"))
	g.Expect(err).NotTo(HaveOccurred())
	s.refused(ctx)
	cluster := topologyOf(full())
	g.Expect(s.Client.Create(ctx, cluster)).To(Succeed())
	g.Eventually(func(g Gomega) { s.made(ctx, g) }).WithTimeout(time.Minute).WithPolling(200 * time.Millisecond).Should(Succeed())

	g.Expect(s.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster)).To(Succeed())
	variable(&cluster.Spec.Topology, "controlPlaneEndpoint").Value = raw(map[string]any{"host": "192.0.2.10", "port": 7443})
	g.Expect(s.Client.Update(ctx, cluster)).To(MatchError(ContainSubstring("controlPlaneEndpoint cannot be changed")))

	g.Expect(s.Client.Delete(ctx, cluster)).To(Succeed())
	g.Eventually(func(g Gomega) {
		g.Expect(apierrors.IsNotFound(s.Client.Get(ctx, client.ObjectKeyFromObject(cluster), cluster))).To(BeTrue())
		for _, list := range []client.ObjectList{
			&v1alpha1.BareMetalClusterList{}, &v1alpha1.BareMetalMachineList{}, &v1alpha1.BareMetalMachineTemplateList{}, &clusterv1.MachineHealthCheckList{},
		} {
			g.Expect(s.Client.List(ctx, list, client.InNamespace(elsewhere))).To(Succeed())
			g.Expect(list).To(HaveField("Items", BeEmpty()), "the Cluster leaves something behind")
		}
	}).WithTimeout(2 * time.Minute).WithPolling(200 * time.Millisecond).Should(Succeed())
}

// refused: an error in a variable is returned when the Cluster is applied.
func (s *suite) refused(ctx context.Context) {
	for _, c := range []struct {
		name, message string
		change        func(map[string]any)
	}{
		{"no endpoint", `required variable "controlPlaneEndpoint" must be set`, func(v map[string]any) { delete(v, "controlPlaneEndpoint") }},
		{"no image", "spec.topology.variables[images].value: Invalid value", func(v map[string]any) { v["images"] = map[string]any{} }},
		{"neither kind", "exactly one of image and boot must be set", func(v map[string]any) {
			v["images"] = map[string]any{site.KubernetesVersion: map[string]any{}}
		}},
		{"both kinds", "exactly one of image and boot must be set", func(v map[string]any) {
			both := diskImage()
			maps.Copy(both, networkBoot())
			v["images"] = map[string]any{site.KubernetesVersion: both}
		}},
		{"an image that is a path", site.KubernetesVersion + ".image.url in body should match", func(v map[string]any) {
			v["images"] = map[string]any{site.KubernetesVersion: map[string]any{"image": map[string]any{"url": "/srv/disk.raw", "checksum": checksum}}}
		}},
		{"a kernel that is a path", site.KubernetesVersion + ".boot.kernel.url in body should match", func(v map[string]any) {
			v["images"] = map[string]any{site.KubernetesVersion: map[string]any{"boot": map[string]any{"kernel": map[string]any{"url": "/boot/vmlinuz", "checksum": checksum}}}}
		}},
		{"a checksum of no use", site.KubernetesVersion + ".image.checksum in body should match", func(v map[string]any) {
			v["images"] = map[string]any{site.KubernetesVersion: map[string]any{"image": map[string]any{"url": "http://192.0.2.1/", "checksum": "md5:1"}}}
		}},
		{"a data source without bootstrap data", `supported values: "NoCloud", "ConfigDrive"`, func(v map[string]any) { v["dataSource"] = "None" }},
		{"a disk with no hint", "spec.topology.variables[workerRootDevice]", func(v map[string]any) { v["workerRootDevice"] = map[string]any{} }},
		{"an unknown persistence", `supported values: "Installed", "Ephemeral"`, func(v map[string]any) { v["persistence"] = "Disk" }},
		{"a policy that is for hosts", `supported values: "Metadata", "Clear", "Purge"`, func(v map[string]any) { v["cleaningPolicy"] = "None" }},
		{"a surge of two", "spec.topology.variables[controlPlaneMaxSurge]", func(v map[string]any) { v["controlPlaneMaxSurge"] = 2 }},
		{"a misspelt field", `"hostSelector.matchLables" field(s) are not specified`, func(v map[string]any) {
			v["workerHosts"] = map[string]any{"hostSelector": map[string]any{"matchLables": map[string]any{"a": "b"}}}
		}},
		{"an etcd without TLS", "spec.topology.variables[externalEtcdEndpoints]", func(v map[string]any) { v["externalEtcdEndpoints"] = []any{"http://192.0.2.5"} }},
	} {
		s.Run(c.name, func(t *testing.T) {
			variables := full()
			c.change(variables)
			NewWithT(t).Expect(s.Client.Create(ctx, topologyOf(variables), client.DryRunAll)).To(MatchError(ContainSubstring(c.message)))
		})
	}
}

// made checks what the topology controller makes from the variables.
func (s *suite) made(ctx context.Context, g Gomega) {
	var clusters v1alpha1.BareMetalClusterList
	g.Expect(s.Client.List(ctx, &clusters, client.InNamespace(elsewhere))).To(Succeed())
	g.Expect(clusters.Items).To(HaveLen(1))
	g.Expect(clusters.Items[0].Spec).To(Equal(v1alpha1.BareMetalClusterSpec{
		ControlPlaneEndpoint: v1alpha1.APIEndpoint{Host: "192.0.2.9", Port: 7443},
		FailureDomains:       []clusterv1.FailureDomain{{Name: "hall-1", ControlPlane: new(true)}},
	}))

	var templates v1alpha1.BareMetalMachineTemplateList
	g.Expect(s.Client.List(ctx, &templates, client.InNamespace(elsewhere))).To(Succeed())
	g.Expect(templates.Items).To(HaveLen(3))
	for _, t := range templates.Items {
		spec := t.Spec.Template.Spec
		deployment, worker := t.Labels[clusterv1.ClusterTopologyMachineDeploymentNameLabel]
		madeOfImages(g, deployment, spec)
		g.Expect(spec.CleaningPolicy).To(Equal(wire.PolicyPurge))
		if worker {
			g.Expect(spec.HostSelector.MatchExpressions).To(Equal([]v1alpha1.HostSelectorRequirement{{Key: "rack", Operator: metav1.LabelSelectorOpIn, Values: []v1alpha1.LabelValue{"a", "b"}}}))
			g.Expect(spec.Preferences).To(HaveLen(1))
			g.Expect(spec.Preferences[0].Weight).To(BeEquivalentTo(7))
			g.Expect(spec.Preferences[0].HostSelector.MatchLabels).To(HaveKeyWithValue("disk", v1alpha1.LabelValue("nvme")))
			g.Expect(spec.Tolerations).To(Equal([]v1alpha1.HostToleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}))
			g.Expect(spec.ReuseHost).To(BeFalse())
			continue
		}
		g.Expect(spec.HostSelector.MatchLabels).To(HaveKeyWithValue("role", v1alpha1.LabelValue("control-plane")))
		g.Expect(spec.Hardware.CPU).To(BeEquivalentTo(8))
		g.Expect(spec.Hardware.Memory.String() + " " + spec.Hardware.Disk.String()).To(Equal("64Gi 400Gi"))
		g.Expect(spec.ReuseHost).To(BeTrue())
	}
	s.madeOfControlPlane(ctx, g)

	var checks clusterv1.MachineHealthCheckList
	g.Expect(s.Client.List(ctx, &checks, client.InNamespace(elsewhere))).To(Succeed())
	g.Expect(checks.Items).To(HaveLen(3))
	for _, c := range checks.Items {
		g.Expect(*c.Spec.Checks.NodeStartupTimeoutSeconds).To(And(BeNumerically(">=", 1800), BeNumerically("<=", 2400)))
		g.Expect(c.Spec.Remediation.TemplateRef.Kind).To(Equal("BareMetalRemediationTemplate"))
	}
}

// madeOfImages checks what the machines of a MachineDeployment, or those of the control plane, run.
func madeOfImages(g Gomega, deployment string, spec v1alpha1.BareMetalMachineSpec) {
	if deployment == networkWorkers {
		g.Expect(spec.Image).To(BeNil())
		g.Expect(spec.Boot).To(Equal(v1alpha1.BootSource{
			Kernel:      v1alpha1.Artifact{URL: "http://192.0.2.1/kernel", Checksum: checksum},
			Initrds:     []v1alpha1.Artifact{{URL: "http://192.0.2.1/a?x=1&y=2", Checksum: checksum}, {URL: "http://192.0.2.1/b", Checksum: checksum}},
			CommandLine: `quiet "dyndbg=file a.c +p"`, Persistence: v1alpha1.PersistenceEphemeral, ReportBootstrap: true,
		}))
		return
	}
	disk := &v1alpha1.RootDeviceHints{MinSize: new(resource.MustParse("100Gi")), Rotational: new(false)}
	if deployment != "" {
		disk = &v1alpha1.RootDeviceHints{Model: "PM9A3"}
	}
	g.Expect(spec.Boot).To(BeZero())
	g.Expect(spec.Image).To(Equal(&v1alpha1.Image{
		URL: "oci://192.0.2.1/debian:13", Checksum: checksum, PullSecret: "registry", RootDevice: disk, DataSource: wire.DataSourceConfigDrive, ReportBootstrap: true,
	}))
}

func (s *suite) madeOfControlPlane(ctx context.Context, g Gomega) {
	var kcps controlplanev1.KubeadmControlPlaneList
	g.Expect(s.Client.List(ctx, &kcps, client.InNamespace(elsewhere))).To(Succeed())
	g.Expect(kcps.Items).To(HaveLen(1))
	spec := kcps.Items[0].Spec
	g.Expect(spec.Rollout.Strategy.RollingUpdate.MaxSurge.IntValue()).To(BeZero())
	g.Expect(spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External).To(Equal(bootstrapv1.ExternalEtcd{
		Endpoints: []string{"https://192.0.2.5:2379"}, CAFile: "/etc/kubernetes/pki/etcd/ca.crt",
		CertFile: "/etc/kubernetes/pki/apiserver-etcd-client.crt", KeyFile: "/etc/kubernetes/pki/apiserver-etcd-client.key",
	}))
	g.Expect(spec.KubeadmConfigSpec.Files).To(HaveLen(1))
	file := spec.KubeadmConfigSpec.Files[0]
	g.Expect(file.Path).To(Equal("/etc/kubernetes/manifests/kube-vip.yaml"))
	var pod corev1.Pod
	g.Expect(yaml.UnmarshalStrict([]byte(file.Content), &pod)).To(Succeed())
	g.Expect(pod.Spec.Containers[0].Env).To(ContainElements(
		corev1.EnvVar{Name: "address", Value: "192.0.2.9"}, corev1.EnvVar{Name: "port", Value: "7443"},
		corev1.EnvVar{Name: "vip_interface", Value: "eno1"}, corev1.EnvVar{Name: "vip_subnet", Value: "24"},
	))
	g.Expect(spec.KubeadmConfigSpec.PreKubeadmCommands).To(ConsistOf(ContainSubstring("super-admin.conf")))
	g.Expect(spec.KubeadmConfigSpec.PostKubeadmCommands).To(ConsistOf(ContainSubstring("admin.conf")))
}
