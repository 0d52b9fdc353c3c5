package seedcheck

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap/render"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

const (
	samplesFolder = "../../config/samples/bootstrap"
	// hostileToken contains what YAML, Jinja, our templates and a shell would each interpret.
	hostileToken = `it's "a" $TOKEN $(touch /pwned) {{ ds.meta_data.hostname }} {% if %} {# c #} <% .Machine.Name %> \n # é 🔑`
	// instanceFolder is where cloud-init keeps the data of the boot.
	instanceFolder = "/var/lib/cloud/instances/i-1"
)

// sample is a file of config/samples/bootstrap.
type sample struct {
	secret     corev1.Secret
	config     bootstrapv1.BareMetalConfigTemplate
	deployment clusterv1.MachineDeployment
	// values replace values of the file.
	values map[string]string
}

// readSample reads a sample. The files that it downloads come from the mirror.
func readSample(t *testing.T, name, mirror string) *sample {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(samplesFolder, name))
	g.Expect(err).NotTo(HaveOccurred())
	content = bytes.ReplaceAll(content, []byte("https://images.example"), []byte(mirror))
	s := &sample{values: map[string]string{}}
	decoder := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := decoder.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		var kind metav1.TypeMeta
		g.Expect(yaml.Unmarshal(document, &kind)).To(Succeed())
		if into := map[string]any{"Secret": &s.secret, "BareMetalConfigTemplate": &s.config, "MachineDeployment": &s.deployment}[kind.Kind]; into != nil {
			g.Expect(yaml.UnmarshalStrict(document, into)).To(Succeed(), name)
		}
	}
	g.Expect(s.secret.Labels).To(HaveKey(bootstrapv1.ValueSecretLabel))
	return s
}

// spec is that of the config, with the defaults of the API.
func (s *sample) spec() *bootstrapv1.BareMetalConfigSpec {
	spec := s.config.Spec.Template.Spec.DeepCopy()
	if spec.Format == "" {
		spec.Format = bootstrapv1.FormatCloudConfig
	}
	if spec.Sentinel == "" {
		spec.Sentinel = bootstrapv1.SentinelCommands
	}
	return spec
}

// render renders the bootstrap data for a machine of the sample's MachineDeployment, as the controller does.
func (s *sample) render(t *testing.T) []byte {
	t.Helper()
	g := NewWithT(t)
	spec := s.spec()
	g.Expect(render.Check(spec, field.NewPath("spec"))).To(BeEmpty())
	values := map[string]string{}
	for _, v := range spec.Values {
		if v.Value != nil {
			values[v.Name] = *v.Value
		} else {
			g.Expect(v.SecretKeyRef.Name).To(Equal(s.secret.Name))
			g.Expect(s.secret.StringData).To(HaveKey(v.SecretKeyRef.Key))
			values[v.Name] = s.secret.StringData[v.SecretKeyRef.Key]
		}
		if other, ok := s.values[v.Name]; ok {
			values[v.Name] = other
		}
	}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: s.deployment.Spec.ClusterName}}
	cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "192.0.2.20", Port: 6443}
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "m-1"}, Spec: s.deployment.Spec.Template.Spec}
	out, err := render.BootstrapData(spec, spec.UserData, render.DataOf(cluster, machine, values))
	g.Expect(err).NotTo(HaveOccurred())
	return out
}

// seed is that of a server that gets the bootstrap data.
func (s *sample) seed(t *testing.T) seed.Data {
	t.Helper()
	d := data(t)
	d.Format, d.UserData = seed.Format(s.spec().Format), s.render(t)
	return d
}

// mirror serves a k3s that records its calls, and returns its URL and the checksum. k3s fails if the file /k3s-fails exists.
func mirror(t *testing.T) (url, checksum string) {
	t.Helper()
	program := []byte(recorder("k3s") + "[ ! -e /k3s-fails ]\n")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/k3s/v1.36.3+k3s1/k3s" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write(program)
	}))
	t.Cleanup(server.Close)
	sum := sha256.Sum256(program)
	return server.URL, hex.EncodeToString(sum[:])
}

// readParts lets cloud-init take the user data of a seed apart, and checks each cloud-config with its schema.
func readParts(t *testing.T, server *bootServer) []part {
	t.Helper()
	g := NewWithT(t)
	var r reading
	g.Expect(json.Unmarshal([]byte(python(t, nil, "testdata/reader.py", "seed", server.commandLine)), &r)).To(Succeed())
	dir := t.TempDir()
	instance, err := json.Marshal(map[string]any{"ds": map[string]any{"meta_data": r.Metadata}})
	g.Expect(err).NotTo(HaveOccurred())
	write(t, filepath.Join(dir, "instance-data.json"), string(instance))
	for _, p := range r.User {
		content := p.Content
		switch p.Type {
		case "text/jinja2":
			write(t, filepath.Join(dir, "user-data"), content)
			content = cloudInit(t, "devel", "render", "--instance-data", filepath.Join(dir, "instance-data.json"), filepath.Join(dir, "user-data"))
		case "text/cloud-config":
		default:
			continue
		}
		schema(t, content)
		var config map[string]any
		g.Expect(yaml.Unmarshal([]byte(content), &config)).To(Succeed())
		g.Expect(moduleKeys(t)).To(ContainElements(slices.Collect(maps.Keys(config))), "no module of cloud-init reads the others")
	}
	return r.User
}

// moduleKeys returns the keys that the modules of cloud-init read. Its command schema accepts others, too.
func moduleKeys(t *testing.T) []string {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(root, "usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json"))
	g.Expect(err).NotTo(HaveOccurred())
	var definitions struct {
		Modules map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	g.Expect(json.Unmarshal(content, &definitions)).To(Succeed())
	var keys []string
	for name, module := range definitions.Modules {
		if strings.HasPrefix(name, "cc_") {
			keys = slices.AppendSeq(keys, maps.Keys(module.Properties))
		}
	}
	return keys
}

// expectSuccess expects the sentinel file, and no file of an injected command.
func (n *node) expectSuccess(log string) {
	n.t.Helper()
	g := NewWithT(n.t)
	g.Expect(n.has(render.Sentinel)).To(BeTrue(), log)
	g.Expect(log).To(ContainSubstring(`"errors": []`))
	g.Expect(n.has("/pwned")).To(BeFalse(), "a value ran as a command")
}

// expectAgent expects the configuration of a k3s or RKE2 agent that joins the cluster as the machine of the server.
func (n *node) expectAgent(file, server, token string) {
	n.t.Helper()
	g := NewWithT(n.t)
	var config map[string]any
	g.Expect(yaml.Unmarshal([]byte(n.read(file)), &config)).To(Succeed())
	g.Expect(config).To(Equal(map[string]any{
		"server": server, "token": token, "node-taint": []any{bootstrapv1.UninitializedTaint}, "kubelet-arg": []any{"provider-id=baremetal://dc/h/m-1"},
	}))
	info, err := os.Stat(n.path(file))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Mode().Perm()).To(Equal(os.FileMode(0o600)), "it contains a token")
}

const systemdLibraries = "/tools/usr/lib/x86_64-linux-gnu:/tools/usr/lib/x86_64-linux-gnu/systemd"

var verifyEnvironment = []string{"SYSTEMD_UNIT_PATH=/etc/systemd/system:/tools/lib/systemd/system", "LD_LIBRARY_PATH=" + systemdLibraries}

// systemdVerify reads a unit and the units that it needs. It fails also for a warning, in the unit or in one that it names.
const systemdVerify = "/tools/usr/bin/systemd-analyze --man=no --recursive-errors=one verify "

func (n *node) verifyUnit(unit string) {
	n.t.Helper()
	out, said, err := n.run(systemdVerify+unit, verifyEnvironment...)
	NewWithT(n.t).Expect(err).NotTo(HaveOccurred(), said)
	NewWithT(n.t).Expect(out+said).To(BeEmpty(), unit)
}

func TestSampleK3s(t *testing.T) {
	t.Run("succeeds", func(t *testing.T) {
		g := NewWithT(t)
		url, checksum := mirror(t)
		s := readSample(t, "k3s-agent.yaml", url)
		s.values["token"], s.values["sha256"] = hostileToken, checksum
		server, n := serve(t, s.seed(t)), newNode(t)
		parts := readParts(t, server)
		g.Expect(parts).To(HaveLen(2))
		g.Expect(parts[0].Type).To(Equal("text/jinja2"))
		g.Expect(parts[1]).To(And(HaveField("Type", "text/x-shellscript"), HaveField("Filename", "zz-capbm-commands")))
		n.program("systemctl", serviceManager)
		n.expectSuccess(n.boot(server.commandLine))
		n.expectAgent("/etc/rancher/k3s/config.yaml", "https://192.0.2.20:6443", hostileToken)
		g.Expect(n.calls()).To(Equal([]string{"systemctl enable --now k3s-agent.service", "k3s agent"}))
		g.Expect(server.reported()).To(Equal([]string{"up", "succeeded"}))
		n.verifyUnit("/etc/systemd/system/k3s-agent.service")
	})
	t.Run("of another checksum", func(t *testing.T) {
		g := NewWithT(t)
		url, _ := mirror(t)
		server, n := serve(t, readSample(t, "k3s-agent.yaml", url).seed(t)), newNode(t)
		n.program("systemctl", serviceManager)
		log := n.boot(server.commandLine)
		g.Expect(log).To(ContainSubstring("scripts-user"))
		g.Expect(n.has(render.Sentinel)).To(BeFalse(), "the command failed: %s", log)
		g.Expect(n.has("/.local/bin/k3s")).To(BeFalse())
		g.Expect(n.calls()).To(BeEmpty())
		g.Expect(server.reported()).To(Equal([]string{"up", "failed"}))
	})
}

// rke2Installer replaces the install.sh of RKE2, which unpacks a program and a unit.
const rke2Installer = `echo "install.sh $INSTALL_RKE2_TYPE $INSTALL_RKE2_ARTIFACT_PATH" >>/calls
printf '[Unit]\nDescription=RKE2\n[Service]\nType=notify\nExecStart=/usr/local/bin/rke2 agent\n' >/usr/local/lib/systemd/system/rke2-agent.service
`

func TestSampleRKE2(t *testing.T) {
	for name, installer := range map[string]string{"succeeds": rke2Installer, "fails": "exit 1\n"} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := readSample(t, "rke2-agent.yaml", "")
			s.values["token"] = hostileToken
			d := s.seed(t)
			d.SucceededPath, d.FailedPath = "", ""
			server, n := serve(t, d), newNode(t)
			g.Expect(readParts(t, server)).To(HaveLen(2))
			n.program("systemctl", serviceManager)
			n.program("rke2", recorder("rke2"))
			n.write("/opt/rke2-artifacts/install.sh", installer)
			log := n.boot(server.commandLine)
			n.expectAgent("/etc/rancher/rke2/config.yaml", "https://192.0.2.20:9345", hostileToken)
			if name == "fails" {
				g.Expect(n.has(render.Sentinel)).To(BeFalse(), log)
				g.Expect(n.calls()).To(BeEmpty(), "no command runs after the one that failed")
				return
			}
			n.expectSuccess(log)
			g.Expect(n.calls()).To(Equal([]string{"install.sh agent /opt/rke2-artifacts", "systemctl enable --now rke2-agent.service", "rke2 agent"}))
		})
	}
}

const exporter = "exportfs" //nolint:misspell // the program of NFS

// TestSampleStorageNode: an empty disk gets a file system, and one with the label keeps its own. Nothing is exported if the disk has other content.
func TestSampleStorageNode(t *testing.T) {
	const mounted, exported = "mount /srv/data", "systemctl enable --now nfs-server.service"
	formatted := "mkfs.xfs -L data /dev/nvme1n1"
	for name, test := range map[string]struct {
		label, mkfs, program string
		calls                []string
		succeeds             bool
	}{
		"an empty disk":   {"", "", "", []string{formatted, mounted, exported, exporter + " -ra"}, true},
		"a known disk":    {"/dev/nvme1n1", "", "", []string{mounted, exported, exporter + " -ra"}, true},
		"another content": {"", "exit 1\n", "", []string{formatted}, false},
		"no export":       {"/dev/nvme1n1", "", "exit 1\n", []string{mounted, exported, exporter + " -ra"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := readSample(t, "storage-node.yaml", "")
			g.Expect(s.spec().WaitFor).To(Equal(bootstrapv1.WaitForInfrastructure))
			d := s.seed(t)
			d.SucceededPath, d.FailedPath = "", ""
			server, n := serve(t, d), newNode(t)
			parts := readParts(t, server)
			g.Expect(parts).To(HaveLen(2))
			g.Expect(parts[0].Type).To(Equal("text/cloud-config"))
			n.program("systemctl", serviceManager)
			n.program("blkid", "#!/bin/sh\n[ \"$*\" = '--match-token LABEL=data --output device' ] && [ '"+test.label+"' ] && echo "+test.label+" || exit 2\n")
			n.program("mkfs.xfs", recorder("mkfs.xfs")+test.mkfs)
			n.program("mount", recorder("mount"))
			n.program(exporter, recorder(exporter)+test.program)
			n.write("/.local/lib/systemd/system/nfs-server.service", "[Service]\nExecStart=true\n")
			log := n.boot(server.commandLine)
			g.Expect(n.read("/etc/exports.d/data.exports")).To(Equal("/srv/data 198.51.100.0/24(rw,no_subtree_check)\n"))
			g.Expect(n.calls()).To(Equal(test.calls), log)
			if !test.succeeds {
				g.Expect(n.has(render.Sentinel)).To(BeFalse(), log)
				return
			}
			n.expectSuccess(log)
			g.Expect(n.read("/etc/fstab")).To(Equal("LABEL=data /srv/data xfs defaults,nofail 0 2\n"))
			g.Expect(n.path("/srv/data/rack 'one'")).To(BeADirectory(), "the failure domain")
		})
	}
}

// TestEverySampleIsTried: each file has its test here.
func TestEverySampleIsTried(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(samplesFolder, "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	var source strings.Builder
	for _, name := range []string{"samples_test.go", "autoinstall_test.go", "flatcar_test.go"} {
		content, err := os.ReadFile(name)
		g.Expect(err).NotTo(HaveOccurred())
		_, _ = source.Write(content)
	}
	g.Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		g.Expect(source.String()).To(ContainSubstring(`readSample(t, "` + filepath.Base(file) + `"`))
	}
}
