package clusterctl

import (
	"encoding/json"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// values are values for the variables of the templates.
var values = map[string]string{
	"CLUSTER_NAME": "prod", "KUBERNETES_VERSION": "v1.36.3", "CONTROL_PLANE_MACHINE_COUNT": "1", "WORKER_MACHINE_COUNT": "2",
	"CONTROL_PLANE_ENDPOINT_HOST": "192.0.2.20",
	"IMAGE_URL":                   "http://images.example/debian.qcow2", "IMAGE_CHECKSUM": "sha256:" + strings.Repeat("2", 64),
	"KERNEL_URL": "http://images.example/vmlinuz", "KERNEL_CHECKSUM": "sha256:" + strings.Repeat("0", 64),
	"INITRD_URL": "http://images.example/initrd", "INITRD_CHECKSUM": "sha256:" + strings.Repeat("1", 64),
	"CONTROL_PLANE_FAILURE_DOMAIN_1": "rack-1", "CONTROL_PLANE_FAILURE_DOMAIN_2": "rack-2", "CONTROL_PLANE_FAILURE_DOMAIN_3": "rack-3",
}

// The files with kube-vip's credentials.
const (
	admin      = "/etc/kubernetes/admin.conf"
	superAdmin = "/etc/kubernetes/super-admin.conf"
)

// TestKubeVIP runs what Cluster API's bootstrap provider makes from the templates. kube-vip has the credentials that work from the start only while
// `kubeadm init` runs.
func TestKubeVIP(t *testing.T) {
	files := released(contracttest.Context(t, 5*time.Minute), t)
	for _, flavor := range []string{"cluster-template.yaml", "cluster-template-ha.yaml"} {
		spec := kubeadmConfig(t, files[flavor])
		base := cloudinit.BaseUserData{
			AdditionalFiles: spec.Files, PreKubeadmCommands: spec.PreKubeadmCommands, PostKubeadmCommands: spec.PostKubeadmCommands,
		}
		t.Run(flavor+" init", func(t *testing.T) {
			data, err := cloudinit.NewInitControlPlane(&cloudinit.ControlPlaneInput{
				BaseUserData: base, ClusterConfiguration: "kind: ClusterConfiguration", InitConfiguration: "kind: InitConfiguration",
			})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			expectKubeVIP(t, runCloudConfig(t, string(data)), "init", superAdmin)
		})
		t.Run(flavor+" join", func(t *testing.T) {
			data, err := cloudinit.NewJoinControlPlane(&cloudinit.ControlPlaneJoinInput{BaseUserData: base, JoinConfiguration: "kind: JoinConfiguration"})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			expectKubeVIP(t, runCloudConfig(t, string(data)), "join", admin)
		})
	}
}

// kubeadmConfig is the KubeadmConfig of the control plane of a template.
func kubeadmConfig(t *testing.T, template string) bootstrapv1.KubeadmConfigSpec {
	t.Helper()
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "template.yaml")
	g.Expect(os.WriteFile(path, []byte(template), 0o600)).To(Succeed())
	text, err := clusterctl(t, "generate", "yaml", "--from", path)
	g.Expect(err).NotTo(HaveOccurred())
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		if !strings.Contains(document, "\nkind: KubeadmControlPlane\n") {
			continue
		}
		var plane controlplanev1.KubeadmControlPlane
		g.Expect(yaml.UnmarshalStrict([]byte(document), &plane)).To(Succeed())
		return plane.Spec.KubeadmConfigSpec
	}
	t.Fatal("the template has no KubeadmControlPlane")
	return bootstrapv1.KubeadmConfigSpec{}
}

// booted is the state of a server after its bootstrap data was run.
type booted struct {
	// commands are kubeadm's commands, during is kube-vip's manifest while kubeadm ran, and after is the manifest at the end.
	commands, during, after string
	// manifests are the files in the folder of static Pods.
	manifests []string
}

// expectKubeVIP checks the state of a server, and kube-vip's credentials while kubeadm ran.
func expectKubeVIP(t *testing.T, b booted, command, credentials string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(b.commands).To(HavePrefix(command+" "), "kubeadm ran otherwise, or not once")
	g.Expect(strings.Count(b.commands, "\n")).To(Equal(1))
	g.Expect(b.manifests).To(ConsistOf("kube-vip.yaml"), "the kubelet reads every file of the folder")
	for manifest, want := range map[string]string{b.during: credentials, b.after: admin} {
		var pod corev1.Pod
		g.Expect(yaml.UnmarshalStrict([]byte(manifest), &pod)).To(Succeed())
		g.Expect(pod.Spec.Volumes).To(HaveLen(1))
		g.Expect(pod.Spec.Volumes[0].HostPath.Path).To(Equal(want))
		g.Expect(pod.Spec.Containers).To(HaveLen(1))
		g.Expect(pod.Spec.Containers[0].VolumeMounts).To(HaveExactElements(HaveField("MountPath", admin)))
		g.Expect(pod.Spec.Containers[0].Image).To(MatchRegexp(`:v\d+\.\d+\.\d+$`))
	}
}

// field is a field of the meta-data that cloud-init replaces.
var field = regexp.MustCompile(`{{[^}]*}}`)

// runCloudConfig runs a cloud-config in a folder: it writes the files, and runs the commands in one shell script, as cloud-init does.
func runCloudConfig(t *testing.T, data string) booted {
	t.Helper()
	g := NewWithT(t)
	g.Expect(data).To(ContainSubstring("#cloud-config"))
	var config struct {
		WriteFiles []struct{ Path, Content string } `json:"write_files"`
		RunCmd     []string                         `json:"runcmd"`
	}
	g.Expect(yaml.Unmarshal([]byte(field.ReplaceAllString(data, "filled-in")), &config)).To(Succeed())
	files := map[string]string{}
	for _, f := range config.WriteFiles {
		files[f.Path] = f.Content
	}
	return run(t, files, "sh", strings.Join(config.RunCmd, "\n"))
}

// runIgnition runs an Ignition config in a folder: it writes the files, and runs the script that Cluster API adds to them. The contents in replace are
// used in place of those in the config.
func runIgnition(t *testing.T, data string, replace map[string]string) booted {
	t.Helper()
	g := NewWithT(t)
	var config struct {
		Storage struct {
			Files []struct {
				Path     string `json:"path"`
				Contents struct {
					Source string `json:"source"`
				} `json:"contents"`
			} `json:"files"`
		} `json:"storage"`
	}
	g.Expect(json.Unmarshal([]byte(data), &config)).To(Succeed())
	files := map[string]string{}
	for _, f := range config.Storage.Files {
		content, err := url.PathUnescape(strings.TrimPrefix(f.Contents.Source, "data:,"))
		g.Expect(err).NotTo(HaveOccurred())
		files[f.Path] = content
	}
	maps.Copy(files, replace)
	g.Expect(files).To(HaveKey("/etc/kubeadm.sh"))
	return run(t, files, "bash", files["/etc/kubeadm.sh"])
}

// run writes files below a folder and runs a script with the paths below that folder. A program that records what it finds replaces kubeadm, which would
// need a server.
func run(t *testing.T, files map[string]string, shell, script string) booted {
	t.Helper()
	g := NewWithT(t)
	root := t.TempDir()
	write := func(path, content string, mode os.FileMode) {
		path = filepath.Join(root, path)
		g.Expect(os.MkdirAll(filepath.Dir(path), 0o700)).To(Succeed())
		g.Expect(os.WriteFile(path, []byte(content), mode)).To(Succeed())
	}
	read := func(path string) string {
		content, err := os.ReadFile(filepath.Join(root, path))
		g.Expect(err).NotTo(HaveOccurred())
		return string(content)
	}
	for path, content := range files {
		write(path, content, 0o600)
	}
	const manifests = "/etc/kubernetes/manifests"
	below := func(script string) string {
		var pairs []string
		for _, path := range []string{manifests, "/etc/kubernetes/kube-vip.yaml.new", "/run/", "/etc/kubeadm.yml", "/etc/capbm/", "/tmp/"} {
			pairs = append(pairs, path, root+path)
		}
		return strings.NewReplacer(pairs...).Replace(script)
	}
	g.Expect(os.MkdirAll(filepath.Join(root, "tmp"), 0o700)).To(Succeed())
	write("/bin/kubeadm", "#!/bin/sh\necho \"$@\" >> "+root+"/commands\ncp "+root+manifests+"/kube-vip.yaml "+root+"/during\n"+
		"cat "+root+"/etc/kubeadm.yml > "+root+"/kubeadm.yml 2>/dev/null || true\n", 0o700)
	write("/script", below(script), 0o600)
	_, err := proc.Run(t.Context(), []string{"PATH=" + filepath.Join(root, "bin") + ":" + os.Getenv("PATH")}, shell, filepath.Join(root, "script"))
	g.Expect(err).NotTo(HaveOccurred())
	entries, err := os.ReadDir(filepath.Join(root, manifests))
	g.Expect(err).NotTo(HaveOccurred())
	b := booted{commands: strings.ReplaceAll(read("/commands"), root, ""), during: read("/during"), after: read(manifests + "/kube-vip.yaml")}
	for _, e := range entries {
		b.manifests = append(b.manifests, e.Name())
	}
	if config := read("/kubeadm.yml"); config != "" {
		g.Expect(config).To(ContainSubstring("baremetal://default/server-1/prod"), "kubeadm does not get the provider ID")
		g.Expect(config).NotTo(ContainSubstring("@PROVIDER_ID@"))
	}
	return b
}
