package class

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"
)

// sameAs has for the variables of clusterctl in kube-vip's manifest those of the ClusterClass.
var sameAs = map[string]string{
	"CONTROL_PLANE_ENDPOINT_HOST": "controlPlaneEndpoint.host", "CONTROL_PLANE_ENDPOINT_PORT": "controlPlaneEndpoint.port",
	"KUBE_VIP_IMAGE": "kubeVIP.image", "KUBE_VIP_INTERFACE": "kubeVIP.interface", "KUBE_VIP_SUBNET": "kubeVIP.subnet",
}

// operation is an operation of a JSON patch.
type operation struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	Value json.RawMessage `json:"value"`
}

// TestKubeVIPIsTheSame: kube-vip's manifest is in the component of the other flavours and in the ClusterClass. Neither can include the other, so this test
// compares them: the Pod, the commands that change it, and the defaults of its variables.
func TestKubeVIPIsTheSame(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(root, "config", "templates", "components", "kube-vip", "control-plane.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	variable := regexp.MustCompile(`\$\{(\w+)(?::=([^}]*))?\}`)
	defaults := map[string]string{}
	for _, found := range variable.FindAllStringSubmatch(string(content), -1) {
		g.Expect(sameAs).To(HaveKey(found[1]))
		defaults[sameAs[found[1]]] = strings.Trim(found[2], `"`)
	}
	g.Expect(defaults).To(HaveLen(len(sameAs)))
	var operations []operation
	// Here the value of each variable is its own name.
	g.Expect(yaml.UnmarshalStrict(variable.ReplaceAll(content, []byte("$1")), &operations)).To(Succeed())
	flavours := map[string]json.RawMessage{}
	for _, o := range operations {
		flavours[strings.TrimPrefix(o.Path, "/spec/kubeadmConfigSpec/")] = o.Value
	}
	class := clusterClass(t)
	ofClass := kubeVIPOfClass(t, class)
	for _, field := range []string{"preKubeadmCommands", "postKubeadmCommands"} {
		g.Expect(ofClass[field]).To(MatchJSON(flavours[field]), field)
	}
	g.Expect(manifest(t, ofClass["files"])).To(Equal(manifest(t, flavours["files"])))
	g.Expect(ofClass).To(HaveLen(3))
	g.Expect(flavours).To(HaveLen(3))
	for path, preset := range defaults {
		g.Expect(defaultOf(t, class, path)).To(Equal(preset), path)
	}
}

// kubeVIPOfClass returns the fields of a KubeadmConfigSpec that the patch "kubeVIP" of the ClusterClass sets. Their variables have the names of
// clusterctl's as values.
func kubeVIPOfClass(t *testing.T, class *clusterv1.ClusterClass) map[string]json.RawMessage {
	t.Helper()
	g := NewWithT(t)
	values := map[string]map[string]string{}
	for name, path := range sameAs {
		object, field, _ := strings.Cut(path, ".")
		if values[object] == nil {
			values[object] = map[string]string{}
		}
		values[object][field] = name
	}
	at := slices.IndexFunc(class.Spec.Patches, func(p clusterv1.ClusterClassPatch) bool { return p.Name == "kubeVIP" })
	g.Expect(at).To(BeNumerically(">=", 0))
	fields := map[string]json.RawMessage{}
	for _, definition := range class.Spec.Patches[at].Definitions {
		for _, patch := range definition.JSONPatches {
			field := strings.TrimPrefix(patch.Path, "/spec/template/spec/kubeadmConfigSpec/")
			if patch.Value != nil {
				fields[field] = patch.Value.Raw
				continue
			}
			parsed, err := template.New(field).Option("missingkey=error").Parse(patch.ValueFrom.Template)
			g.Expect(err).NotTo(HaveOccurred())
			var out strings.Builder
			g.Expect(parsed.Execute(&out, values)).To(Succeed())
			fields[field], err = yaml.YAMLToJSONStrict([]byte(out.String()))
			g.Expect(err).NotTo(HaveOccurred())
		}
	}
	return fields
}

// written is a file with a Pod.
type written struct {
	file bootstrapv1.File
	pod  corev1.Pod
}

// manifest decodes the only file of a list. The content is compared as a Pod, since quotation marks around values differ.
func manifest(t *testing.T, files json.RawMessage) written {
	t.Helper()
	g := NewWithT(t)
	var list []bootstrapv1.File
	g.Expect(yaml.UnmarshalStrict(files, &list)).To(Succeed())
	g.Expect(list).To(HaveLen(1))
	out := written{file: list[0]}
	g.Expect(yaml.UnmarshalStrict([]byte(list[0].Content), &out.pod)).To(Succeed())
	g.Expect(out.pod.Spec.Containers).To(HaveLen(1))
	out.file.Content = ""
	return out
}

// defaultOf returns the default of a variable of the ClusterClass, or of a field of a variable. Without a default it is "".
func defaultOf(t *testing.T, class *clusterv1.ClusterClass, path string) string {
	t.Helper()
	g := NewWithT(t)
	name, field, _ := strings.Cut(path, ".")
	at := slices.IndexFunc(class.Spec.Variables, func(v clusterv1.ClusterClassVariable) bool { return v.Name == name })
	g.Expect(at).To(BeNumerically(">=", 0), path)
	properties := class.Spec.Variables[at].Schema.OpenAPIV3Schema.Properties
	g.Expect(properties).To(HaveKey(field), path)
	preset := properties[field].Default
	if preset == nil {
		return ""
	}
	return strings.Trim(string(preset.Raw), `"`)
}
