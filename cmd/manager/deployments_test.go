package main

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	bootstrapFolder = "bootstrap/default"

	podAddress = "192.0.2.1" // flagsOf replaces $(POD_IP) by it
	loopback   = "127.0.0.1"
)

// TestDeployments: what each Deployment runs, with which account, and where it listens. In the node's network, health is at loopback, where the kubelet of
// the node reaches it. Nothing listens at all addresses, since some of them are in the networks of the servers.
func TestDeployments(t *testing.T) {
	for _, test := range []struct {
		folder, name, account string
		components            []string
		health                string
	}{
		{"default", managerName, "capbm-manager", []string{componentControllers}, podAddress},
		{"default", bootName, "capbm-boot", []string{componentBoot}, loopback},
		{"single-pod", managerName, "capbm-manager", []string{componentControllers, componentBoot}, loopback},
		{"additional-boot", "", "capbm-boot", []string{componentBoot}, loopback},
		{bootstrapFolder, "", "capbm-bootstrap-manager", []string{componentBootstrap}, podAddress},
	} {
		t.Run(test.folder+" "+test.name, func(t *testing.T) {
			g := NewWithT(t)
			var d appsv1.Deployment
			build(t, test.folder).get(t, "Deployment", test.name, &d)
			o, pod := flagsOf(t, &d), d.Spec.Template.Spec
			boots := slices.Contains(test.components, componentBoot)
			g.Expect(o.components).To(Equal(test.components))
			g.Expect(pod.ServiceAccountName).To(Equal(test.account))
			g.Expect(pod.HostNetwork).To(Equal(boots))
			strategy := appsv1.DeploymentStrategyType("") // the default, a rolling update
			if boots {
				strategy = appsv1.RecreateDeploymentStrategyType // two on one node would need the same ports
			}
			g.Expect(d.Spec.Strategy.Type).To(Equal(strategy))
			g.Expect(pod.Containers[0].Name).To(Equal("manager"))
			var added []corev1.Capability // the controllers need none
			if boots {
				added = []corev1.Capability{"NET_BIND_SERVICE"}
			}
			g.Expect(pod.Containers[0].SecurityContext.Capabilities).To(Equal(&corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: added}))
			g.Expect(pod.Containers[0].Resources.Limits.Memory().IsZero()).To(BeFalse())
			g.Expect(pod.Containers[0].Env).To(ContainElements(corev1.EnvVar{Name: "GOGC", Value: "40"}, corev1.EnvVar{
				Name: "GOMEMLIMIT", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}},
			}))

			listens(t, &d, "healthz", o.healthAddress, test.health)
			listens(t, &d, "metrics", o.metrics.BindAddress, podAddress)
			probed := ""
			if boots {
				probed = loopback // and the address of the Pod by default
			}
			for _, probe := range []*corev1.Probe{pod.Containers[0].ReadinessProbe, pod.Containers[0].LivenessProbe} {
				g.Expect(probe.HTTPGet.Host).To(Equal(probed))
				g.Expect(probe.HTTPGet.Port.StrVal).To(Equal("healthz"))
			}
		})
	}
}

// listens checks that an address has a host, and the port with a name.
func listens(t *testing.T, d *appsv1.Deployment, name, address, host string) {
	t.Helper()
	g := NewWithT(t)
	gotHost, gotPort, err := net.SplitHostPort(address)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(gotHost).To(Equal(host), name)
	g.Expect(gotPort).To(Equal(strconv.Itoa(ports(d)[name])), name)
}

// TestLoopbackByDefault: without flags nothing listens in the networks of the servers.
func TestLoopbackByDefault(t *testing.T) {
	g := NewWithT(t)
	o, err := parse("--components=controllers")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]string{o.healthAddress, o.metrics.BindAddress}).To(HaveEach(HavePrefix("127.0.0.1:")))
}

// TestSinglePod: the single Pod has all flags of the controllers and of the boot server, and the mounts of the boot server.
func TestSinglePod(t *testing.T) {
	g := NewWithT(t)
	var manager, boot, single appsv1.Deployment
	all := build(t, "default")
	all.get(t, "Deployment", managerName, &manager)
	all.get(t, "Deployment", bootName, &boot)
	build(t, "single-pod").get(t, "Deployment", "", &single)
	var webhooks corev1.Service
	build(t, "single-pod").get(t, "Service", "capbm-webhook-service", &webhooks)
	g.Expect(webhooks.Spec.PublishNotReadyAddresses).To(BeTrue(), "a boot address that is missing does not end the webhooks")
	own := single.Spec.Template.Spec
	for _, apart := range []corev1.PodSpec{manager.Spec.Template.Spec, boot.Spec.Template.Spec} {
		for _, arg := range apart.Containers[0].Args {
			flag, _, _ := strings.Cut(arg, "=")
			if slices.Contains([]string{"--components", "--health-addr", "--diagnostics-address"}, flag) {
				g.Expect(own.Containers[0].Args).To(ContainElement(HavePrefix(flag + "=")))
				continue
			}
			g.Expect(own.Containers[0].Args).To(ContainElement(arg))
		}
		g.Expect(own.Containers[1:]).To(ContainElements(apart.Containers[1:]))
		g.Expect(own.Volumes).To(ContainElements(apart.Volumes))
		g.Expect(own.Containers[0].VolumeMounts).To(ContainElements(apart.Containers[0].VolumeMounts))
	}
}

// TestAccounts: each account has the roles of its process and no others. The single Pod has one account with both.
func TestAccounts(t *testing.T) {
	boot := []string{"ClusterRole capbm-system-boot", "Role capbm-boot"}
	manager := []string{"ClusterRole capbm-system-manager", "Role capbm-manager"}
	for folder, want := range map[string]map[string][]string{
		"default":       {"capbm-manager": manager, "capbm-boot": boot},
		"single-pod":    {"capbm-manager": slices.Concat(boot, manager, []string{"ClusterRole capbm-system-boot-data"}), "capbm-boot": boot},
		bootstrapFolder: {"capbm-bootstrap-manager": {"ClusterRole capbm-bootstrap-system-manager", "Role capbm-bootstrap-manager"}},
	} {
		g := NewWithT(t)
		all := build(t, folder)
		bound := map[string][]string{}
		for _, o := range all {
			if o.GetKind() != "RoleBinding" && o.GetKind() != "ClusterRoleBinding" {
				continue
			}
			var b rbacv1.ClusterRoleBinding // a RoleBinding has the same fields
			g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &b)).To(Succeed())
			for _, s := range b.Subjects {
				g.Expect(s.Kind).To(Equal(rbacv1.ServiceAccountKind))
				bound[s.Name] = append(bound[s.Name], b.RoleRef.Kind+" "+b.RoleRef.Name)
			}
		}
		g.Expect(slices.Collect(maps.Keys(bound))).To(ConsistOf(slices.Collect(maps.Keys(want))), folder)
		for account, roles := range want {
			g.Expect(bound[account]).To(ConsistOf(roles), "%s: %s", folder, account)
			all.get(t, "ServiceAccount", account, &corev1.ServiceAccount{})
		}
	}
}

// TestClusterWideNames: clusterctl deletes cluster-wide objects whose names start with the namespace of the provider, and no others.
func TestClusterWideNames(t *testing.T) {
	g := NewWithT(t)
	seen := 0
	for folder, prefix := range map[string]string{"default": "capbm-system-", "single-pod": "capbm-system-", bootstrapFolder: "capbm-bootstrap-system-"} {
		for _, o := range build(t, folder) {
			if slices.Contains([]string{"ClusterRole", "ClusterRoleBinding", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}, o.GetKind()) {
				seen++
				g.Expect(o.GetName()).To(HavePrefix(prefix), o.GetKind())
			}
			g.Expect(o.GetLabels()).To(HaveKey("cluster.x-k8s.io/provider"), "%s %s", o.GetKind(), o.GetName())
		}
	}
	g.Expect(seen).To(BeNumerically(">", 10))
}

// TestPodSecurity: the API server accepts the controllers' Pod in a namespace with the Pod Security level restricted. It accepts the Pod of the boot
// server, which needs the node's network, in the installed namespace. The bootstrap provider's namespace has the level restricted.
func TestPodSecurity(t *testing.T) {
	g := NewWithT(t)
	const level = "pod-security.kubernetes.io/enforce"
	installed := func(folder string) string {
		var namespace corev1.Namespace
		build(t, folder).get(t, "Namespace", "", &namespace)
		return namespace.Labels[level]
	}
	g.Expect(installed(bootstrapFolder)).To(Equal("restricted"))
	for _, test := range []struct{ folder, name, level, says string }{
		{"default", managerName, "restricted", ""},
		{"default", bootName, installed("default"), ""},
		{"default", bootName, "restricted", "host namespaces (hostNetwork=true)"},
		{bootstrapFolder, "", "restricted", ""},
	} {
		namespace := &unstructured.Unstructured{}
		namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		namespace.SetGenerateName("security-")
		namespace.SetLabels(map[string]string{level: test.level})
		env.Create(t, namespace)
		env.Create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.GetName(), Name: "default"}})
		var d appsv1.Deployment
		build(t, test.folder).get(t, "Deployment", test.name, &d)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace.GetName(), Name: "p"}, Spec: d.Spec.Template.Spec}
		pod.Spec.ServiceAccountName = "default"
		err := env.Client.Create(t.Context(), pod, client.DryRunAll)
		if test.says == "" {
			g.Expect(err).NotTo(HaveOccurred(), test.name)
			continue
		}
		g.Expect(err).To(MatchError(And(ContainSubstring("forbidden"), ContainSubstring(test.says))))
	}
}
