package main

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

const (
	managerName = "capbm-controller-manager"
	bootName    = "capbm-boot"
)

// manifests are the output of kustomize for a folder of config, with the defaults of clusterctl's variables.
type manifests []unstructured.Unstructured

// built has the manifests of the folders that a test asked for: kustomize takes half a second for each.
var built = map[string]manifests{}

func build(t *testing.T, folder string) manifests {
	t.Helper()
	if built[folder] == nil {
		built[folder] = kustomize(t, folder)
	}
	own := make(manifests, len(built[folder]))
	for i := range own {
		own[i] = *built[folder][i].DeepCopy()
	}
	return own
}

func kustomize(t *testing.T, folder string) manifests {
	t.Helper()
	g := NewWithT(t)
	root := controllerstest.Root()
	content, err := exec.CommandContext(t.Context(), filepath.Join(root, ".cache", "bin", "kubectl"), "kustomize", filepath.Join(root, "config", folder)).Output()
	g.Expect(err).NotTo(HaveOccurred(), "make test builds kubectl")
	content = regexp.MustCompile(`\$\{[A-Z_]+:=([^}]*)\}`).ReplaceAll(content, []byte("$1"))
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	var all manifests
	for {
		var o unstructured.Unstructured
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return all
		}
		g.Expect(err).NotTo(HaveOccurred())
		all = append(all, o)
	}
}

// get returns the only object of a kind, with a name unless that is empty.
func (all manifests) get(t *testing.T, kind, name string, into any) {
	t.Helper()
	g := NewWithT(t)
	var found []unstructured.Unstructured
	for _, o := range all {
		if o.GetKind() == kind && (name == "" || o.GetName() == name) {
			found = append(found, o)
		}
	}
	g.Expect(found).To(HaveLen(1), "%s %s", kind, name)
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(found[0].Object, into)).To(Succeed())
}

// flagsOf parses the args of a Deployment's manager.
func flagsOf(t *testing.T, d *appsv1.Deployment) *options {
	t.Helper()
	return parseArgs(t, d.Spec.Template.Spec.Containers[0].Args)
}

func parseArgs(t *testing.T, of []string) *options {
	t.Helper()
	g := NewWithT(t)
	args := strings.Split(strings.ReplaceAll(strings.Join(of, "\n"), "$(POD_IP)", "192.0.2.1"), "\n")
	o := newOptions()
	g.Expect(o.flags().Parse(args)).To(Succeed())
	g.Expect(errors.Join(o.webhooks.check(), o.leader.check(), o.concurrency.check(), o.completeServing())).To(Succeed())
	return o
}

// configMaps returns the ConfigMaps with the files of --boot-config in their order, and which of them are optional.
func configMaps(t *testing.T, d *appsv1.Deployment) (names []string, optional []bool) {
	t.Helper()
	pod := d.Spec.Template.Spec
	for _, file := range flagsOf(t, d).bootConfig {
		for _, m := range pod.Containers[0].VolumeMounts {
			if m.MountPath != filepath.Dir(file) {
				continue
			}
			for _, v := range pod.Volumes {
				if v.Name == m.Name {
					names, optional = append(names, v.ConfigMap.Name), append(optional, ptr.Deref(v.ConfigMap.Optional, false))
				}
			}
		}
	}
	return names, optional
}

// TestBootConfigMaps: each process reads the ConfigMap that a user wrote before the one that clusterctl fills in. Each boot server has ConfigMaps of its own.
// clusterctl installs none of the former.
func TestBootConfigMaps(t *testing.T) {
	for _, test := range []struct{ folder, name, prefix string }{
		{"default", managerName, "capbm-boot-config"}, {"default", bootName, "capbm-boot-config"}, {"single-pod", managerName, "capbm-boot-config"},
		{"additional-boot", "", "capbm-boot-config-${CAPBM_BOOT_NAME}"},
	} {
		g := NewWithT(t)
		all := build(t, test.folder)
		var d appsv1.Deployment
		all.get(t, "Deployment", test.name, &d)
		names, optional := configMaps(t, &d)
		g.Expect(names).To(Equal([]string{test.prefix + "-custom", test.prefix}), test.folder)
		g.Expect(optional).To(Equal([]bool{true, false}), test.folder)
		for _, o := range all {
			if o.GetKind() == "ConfigMap" {
				g.Expect(o.GetName()).NotTo(HaveSuffix("-custom"))
			}
		}
	}
}

func ports(d *appsv1.Deployment) map[string]int {
	byName := map[string]int{}
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		byName[p.Name] = int(p.ContainerPort)
	}
	return byName
}

// TestWebhookManifests: the webhooks' configuration, Service, certificate and flags fit together.
func TestWebhookManifests(t *testing.T) {
	for _, folder := range []string{"default", "single-pod"} {
		t.Run(folder, func(t *testing.T) { webhookManifests(t, build(t, folder)) })
	}
}

func webhookManifests(t *testing.T, all manifests) {
	t.Helper()
	g := NewWithT(t)
	var deployment appsv1.Deployment
	var service corev1.Service
	var certificate struct {
		Metadata struct {
			Name      string `json:"name"`
			Namespace string `json:"namespace"`
		} `json:"metadata"`
		Spec struct {
			DNSNames   []string `json:"dnsNames"`
			SecretName string   `json:"secretName"`
		} `json:"spec"`
	}
	all.get(t, "Deployment", managerName, &deployment)
	all.get(t, "Service", "", &service)
	all.get(t, "Certificate", "", &certificate)
	o := flagsOf(t, &deployment)
	pod := deployment.Spec.Template
	g.Expect(pod.Spec.Containers[0].Args).To(ContainElement("--webhook-host=$(POD_IP)"))
	g.Expect(ports(&deployment)).To(HaveKeyWithValue("webhook-server", o.webhooks.port))
	g.Expect(o.webhooks.port).NotTo(BeElementOf(9440, 9441, 9445, 8443, 8444), "the other ports of the node's network, which a single Pod has")
	g.Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(pod.Labels))).To(BeTrue())
	g.Expect(service.Spec.Ports[0].TargetPort.StrVal).To(Equal("webhook-server"))
	g.Expect(certificate.Spec.DNSNames).To(ContainElement(service.Name + "." + service.Namespace + ".svc"))
	mounted := map[string]string{}
	for _, m := range pod.Spec.Containers[0].VolumeMounts {
		mounted[m.Name] = m.MountPath
	}
	for _, v := range pod.Spec.Volumes {
		if v.Secret != nil && v.Secret.SecretName == certificate.Spec.SecretName {
			g.Expect(mounted).To(HaveKeyWithValue(v.Name, o.webhooks.certDir))
			g.Expect(v.Secret.Optional).To(BeNil(), "the Pod waits for its certificate")
			delete(mounted, v.Name)
		}
	}
	g.Expect(mounted).NotTo(ContainElement(o.webhooks.certDir))
	for _, configuration := range all {
		if configuration.GetKind() == "ValidatingWebhookConfiguration" {
			g.Expect(configuration.GetAnnotations()).To(HaveKeyWithValue("cert-manager.io/inject-ca-from",
				certificate.Metadata.Namespace+"/"+certificate.Metadata.Name))
			hooks, _, err := unstructured.NestedSlice(configuration.Object, "webhooks")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(hooks).To(HaveEach(HaveKeyWithValue("clientConfig", HaveKeyWithValue("service", And(
				HaveKeyWithValue("name", service.Name), HaveKeyWithValue("namespace", service.Namespace))))))
		}
	}
}

// TestBootManifests: a boot server has no webhooks, and their Service does not select it.
func TestBootManifests(t *testing.T) {
	g := NewWithT(t)
	var boot, another appsv1.Deployment
	var service corev1.Service
	all := build(t, "default")
	all.get(t, "Service", "", &service)
	all.get(t, "Deployment", bootName, &boot)
	build(t, "additional-boot").get(t, "Deployment", "", &another)
	for _, d := range []*appsv1.Deployment{&boot, &another} {
		g.Expect(ports(d)).NotTo(HaveKey("webhook-server"))
		g.Expect(d.Spec.Template.Spec.Containers[0].Args).NotTo(ContainElement(ContainSubstring("webhook")))
		g.Expect(labels.SelectorFromSet(service.Spec.Selector).Matches(labels.Set(d.Spec.Template.Labels))).To(BeFalse())
	}
	selector, err := metav1.LabelSelectorAsSelector(boot.Spec.Selector)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(selector.Matches(labels.Set(another.Spec.Template.Labels))).To(BeFalse(), "each Deployment has Pods of its own")
}
