package render

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"go.yaml.in/yaml/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

const secretValue = "it's-the-token"

func data() Data {
	cluster := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "metal", Name: "c"},
		Spec: clusterv1.ClusterSpec{
			ControlPlaneEndpoint: clusterv1.APIEndpoint{Host: "192.0.2.10", Port: 6443},
			ClusterNetwork: clusterv1.ClusterNetwork{
				Pods: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.1.0.0/16"}}, Services: clusterv1.NetworkRanges{CIDRBlocks: []string{"10.2.0.0/16"}},
				ServiceDomain: "cluster.local",
			},
		},
	}
	machine := &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Name: "m-1", Labels: map[string]string{"example.com/rack": "a"}},
		Spec:       clusterv1.MachineSpec{Version: "v1.36.3", FailureDomain: "room-a"},
	}
	return DataOf(cluster, machine, map[string]string{"token": secretValue})
}

// spec is that of a node of k3s.
func spec() *bootstrapv1.BareMetalConfigSpec {
	return &bootstrapv1.BareMetalConfigSpec{
		Format: bootstrapv1.FormatCloudConfig,
		UserData: `## template: jinja
#cloud-config
write_files:
- path: /etc/rancher/k3s/config.yaml
  permissions: "0600"
  content: |
    server: https://<% .Cluster.ControlPlaneEndpoint.Host %>:<% .Cluster.ControlPlaneEndpoint.Port %>
    token: <% quote .Values.token %>
    node-taint: [<% range .Taints %><% quote . %><% end %>]
    kubelet-arg: ["provider-id={{ ds.meta_data.provider_id }}"]
`,
		Values: []bootstrapv1.ConfigValue{{Name: "token", SecretKeyRef: &bootstrapv1.KeyReference{Name: "k3s", Key: "token"}}},
		Commands: []string{
			"INSTALL_K3S_VERSION=<% shellQuote .Machine.Version %> /opt/install.sh agent --token <% shellQuote .Values.token %>",
			"[[ -n \"$CAPBM_PROVIDER_ID\" ]]",
		},
		Sentinel: bootstrapv1.SentinelCommands,
	}
}

func ignitionSpec(version string) *bootstrapv1.BareMetalConfigSpec {
	s := spec()
	s.Format, s.UserData = bootstrapv1.FormatIgnition, `{
  "ignition": {"version": "`+version+`"},
  "storage": {"files": [{"path": "/etc/token", "contents": {"source": "data:;base64,<% base64 .Values.token %>"}}]},
  "systemd": {"units": [{"name": "docker.service", "mask": true}]}
}`
	return s
}

func golden(t *testing.T, name string, content []byte) {
	t.Helper()
	g, path := NewWithT(t), filepath.Join("testdata", name)
	if *update {
		g.Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(content)).To(Equal(string(want)), "run the test with -update if this is meant")
}

func TestCloudConfig(t *testing.T) {
	g := NewWithT(t)
	out, err := BootstrapData(spec(), spec().UserData, data())
	g.Expect(err).NotTo(HaveOccurred())
	golden(t, "k3s.cloud-config.golden", out)
	again, err := BootstrapData(spec(), spec().UserData, data())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(out), "the same input gives the same bytes")

	alone := spec()
	alone.Commands, alone.Sentinel = nil, bootstrapv1.SentinelUserData
	out, err = BootstrapData(alone, "anything: <% .Machine.Name %>\n", data())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(Equal("anything: m-1\n"), "user data with its own sentinel is only rendered")

	out, err = BootstrapData(spec(), "", data())
	g.Expect(err).NotTo(HaveOccurred())
	var parts []archivePart
	g.Expect(yaml.Unmarshal(out, &parts)).To(Succeed())
	g.Expect(parts).To(ConsistOf(HaveField("Filename", commandsName)), "commands without user data")
}

// TestUnusualCharacters: the archive contains characters as they are that YAML would read as others.
func TestUnusualCharacters(t *testing.T) {
	g := NewWithT(t)
	d := data()
	d.Values["token"] = "a\u0085b\u2028c\u007fd\ufeffe\uffff\r\n \t"
	s := spec()
	s.Commands = []string{"echo <% shellQuote .Values.token %>"}
	out, err := BootstrapData(s, "", d)
	g.Expect(err).NotTo(HaveOccurred())
	var parts []archivePart
	g.Expect(yaml.Unmarshal(out, &parts)).To(Succeed())
	g.Expect(parts[0].Content).To(ContainSubstring("echo '" + d.Values["token"] + "'\n"))
}

func TestIgnition(t *testing.T) {
	g := NewWithT(t)
	for version, name := range map[string]string{"3.4.0": "flatcar-3.ign.golden", "2.3.0": "flatcar-2.ign.golden"} {
		s := ignitionSpec(version)
		out, err := BootstrapData(s, s.UserData, data())
		g.Expect(err).NotTo(HaveOccurred())
		golden(t, name, out)
	}
	s := ignitionSpec("3.4.0")
	s.Commands, s.Sentinel = nil, bootstrapv1.SentinelUserData
	out, err := BootstrapData(s, `{"ignition": {"version": "3.4.0"}}`, data())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(Equal(`{"ignition": {"version": "3.4.0"}}`))
}

func TestControlPlane(t *testing.T) {
	g := NewWithT(t)
	machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", Labels: map[string]string{clusterv1.MachineControlPlaneLabel: ""}}}
	d := DataOf(&clusterv1.Cluster{}, machine, nil)
	g.Expect(d.Machine.ControlPlane).To(BeTrue())
	g.Expect(d.Taints).To(BeEmpty(), "the taint is for workers")
	g.Expect(data().Taints).To(Equal([]string{"node.cluster.x-k8s.io/uninitialized:NoSchedule"}))
}

func TestErrors(t *testing.T) {
	const version = `{"ignition":{"version":"3.4.0"}`
	for _, test := range []struct {
		format                 bootstrapv1.Format
		userData, reason, says string
	}{
		{"", "", bootstrapv1.ReasonUserDataInvalid, `the format "" is not known`},
		{bootstrapv1.FormatCloudConfig, "#cloud-config\n<% .Machine", bootstrapv1.ReasonTemplateInvalid, "user data: line 2: unclosed action"},
		{bootstrapv1.FormatCloudConfig, "#cloud-config\n<% .Values.none %>", bootstrapv1.ReasonTemplateInvalid, `map has no entry for key "none"`},
		{bootstrapv1.FormatCloudConfig, "#cloud-config\n<% range .Taints %>" + strings.Repeat("x", 200<<10) + "<% end %><% .Values.big %>", bootstrapv1.ReasonDataTooLarge, "the result is too large"},
		{bootstrapv1.FormatCloudConfig, "<% .Values.token %>", bootstrapv1.ReasonUserDataInvalid, "its first line is not one of #cloud-config, ## template: jinja, #!, #cloud-boothook"},
		{bootstrapv1.FormatCloudConfig, "#cloud-config-archive\n[]", bootstrapv1.ReasonUserDataInvalid, "its first line is not one of"},
		{bootstrapv1.FormatCloudConfig, "Content-Type: multipart/mixed", bootstrapv1.ReasonUserDataInvalid, "set sentinel: UserData"},
		{bootstrapv1.FormatCloudConfig, "#cloud-config\n# \xff", bootstrapv1.ReasonUserDataInvalid, "is not UTF-8: use base64 for such values"},
		{bootstrapv1.FormatCloudConfig, "#include\nhttp://192.0.2.1/x", bootstrapv1.ReasonUserDataInvalid, "commands cannot be added"},
		{bootstrapv1.FormatIgnition, "{\n\n<% .Values.token %>}", bootstrapv1.ReasonUserDataInvalid, "it is not valid JSON, line 3"},
		{bootstrapv1.FormatIgnition, `["<% .Values.token %>"]`, bootstrapv1.ReasonUserDataInvalid, "it is not an Ignition config in JSON"},
		{bootstrapv1.FormatIgnition, "variant: flatcar", bootstrapv1.ReasonUserDataInvalid, "it is not valid JSON, line 1"},
		{bootstrapv1.FormatIgnition, "null", bootstrapv1.ReasonUserDataInvalid, "set ignition.version"},
		{bootstrapv1.FormatIgnition, `{"ignition":{"version":"1.0.0"}}`, bootstrapv1.ReasonUserDataInvalid, "set ignition.version to 2.2.0 to 2.4.0 or 3.x.0"},
		{bootstrapv1.FormatIgnition, version + "}{}", bootstrapv1.ReasonUserDataInvalid, "something follows the JSON object"},
		{bootstrapv1.FormatIgnition, version + "}}", bootstrapv1.ReasonUserDataInvalid, "something follows"},
		{bootstrapv1.FormatIgnition, `{"ignition":{"version":"<% .Values.token %>"}}`, bootstrapv1.ReasonUserDataInvalid, "set ignition.version"},
		{bootstrapv1.FormatCloudConfig, "#cloud-config\n<% index .Taints (len .Values.token) %>", bootstrapv1.ReasonTemplateInvalid, "user data: line 2: index out of range"},
		{bootstrapv1.FormatIgnition, version + `,"storage":[]}`, bootstrapv1.ReasonUserDataInvalid, "storage is not a JSON object"},
		{bootstrapv1.FormatIgnition, version + `,"systemd":{"units":{}}}`, bootstrapv1.ReasonUserDataInvalid, "systemd.units is not a JSON list"},
		{bootstrapv1.FormatIgnition, version + `,"storage":{"files":[{"path":"/etc/capbm/commands"}]}}`, bootstrapv1.ReasonUserDataInvalid, "storage.files contains /etc/capbm/commands"},
	} {
		t.Run(test.says, func(t *testing.T) {
			g := NewWithT(t)
			s, d := spec(), data()
			s.Format, d.Values["big"] = test.format, strings.Repeat("y", 900<<10)
			_, err := BootstrapData(s, test.userData, d)
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			var e *Error
			g.Expect(errors.As(err, &e)).To(BeTrue())
			g.Expect(e.Reason).To(Equal(test.reason))
			g.Expect(err.Error()).NotTo(ContainSubstring(secretValue))
		})
	}
}

// TestNoValueInErrors: neither a number that depends on a value nor the text of a template from another object is in an error.
func TestNoValueInErrors(t *testing.T) {
	g := NewWithT(t)
	s := spec()
	_, err := BootstrapData(s, "#cloud-config\n<% index .Taints (len .Values.token) %>", data())
	g.Expect(err).To(MatchError("user data: line 2: index out of range"))
	s.UserData, s.UserDataFrom = "", &bootstrapv1.ValueSource{SecretKeyRef: &bootstrapv1.KeyReference{Name: "x", Key: "y"}}
	for text, want := range map[string]string{
		"#cloud-config\n<% .Values.password_hunter2 %>": "user data: line 2: it cannot be evaluated",
		"#cloud-config\n\n<% \"hunter2\" hunter2 %>":    "user data: line 3: it does not parse",
		"<% printf \"hunter2\" %>":                      "user data: it uses a function, a field or a construct that is not available",
	} {
		_, err := BootstrapData(s, text, data())
		g.Expect(err).To(MatchError(want))
	}
	s.Commands, s.Sentinel = nil, bootstrapv1.SentinelUserData
	_, err = BootstrapData(s, "<% if .Machine.ControlPlane %>x<% end %>", data())
	g.Expect(err).To(MatchError("user data: it is empty when it is rendered"))
}

// TestTooLargeAsIgnition: the commands fit into a Secret, and their Base64 does not.
func TestTooLargeAsIgnition(t *testing.T) {
	g := NewWithT(t)
	s, d := ignitionSpec("3.4.0"), data()
	d.Values["big"] = strings.Repeat("y", 900<<10)
	s.Commands = []string{"a <% .Values.big %>"}
	_, err := BootstrapData(s, s.UserData, d)
	g.Expect(err).To(MatchError(MatchRegexp("the rendered bootstrap data has 12[0-9]{5} bytes, and a Secret holds 1048512")))
}

// TestWork: what the templates of one config do is bounded, whatever the labels of the Machine are. The webhook accepts them: it does not know the labels.
func TestWork(t *testing.T) {
	g := NewWithT(t)
	s, d := spec(), data()
	body := "<% range $k, $v := .Machine.Labels %>" + strings.Repeat("<% if $v %><% end %>", maxTemplate/20-10) + "<% end %>"
	s.UserData = "#cloud-config\n" + body
	d.Machine.Labels = map[string]string{}
	for i := range 64 {
		d.Machine.Labels[strconv.Itoa(i)] = ""
	}
	g.Expect(Check(s, field.NewPath("spec"))).To(BeEmpty())
	_, err := BootstrapData(s, s.UserData, d)
	g.Expect(err).To(MatchError(MatchRegexp("user data: it takes [0-9]+ steps, and may take 500000")))
	s.UserData, s.Commands = "#cloud-config\n", []string{body[:16<<10-40] + "<% end %>"}
	_, err = BootstrapData(s, s.UserData, d)
	g.Expect(err).To(MatchError(ContainSubstring("command 1: ")))
	s.Commands = []string{"<% range $k, $v := .Machine.Labels %><% if $v %>echo <% shellQuote $k %><% end %><% end %>"}
	_, err = BootstrapData(s, s.UserData, d)
	g.Expect(err).NotTo(HaveOccurred())
	d.Machine.Labels["one more"] = ""
	_, err = BootstrapData(s, s.UserData, d)
	g.Expect(err).To(MatchError(ContainSubstring("ranges over .Machine.Labels, which has 65 elements, and may range over 64")))
}

// TestTooLargeTogether: the parts fit into a Secret one by one, but not together.
func TestTooLargeTogether(t *testing.T) {
	g := NewWithT(t)
	s, d := spec(), data()
	d.Values["big"] = strings.Repeat("y", 300<<10)
	s.Commands = []string{"a <% .Values.big %>", "b <% .Values.big %>", "c <% .Values.big %>", "d <% .Values.big %>"}
	_, err := BootstrapData(s, s.UserData, d)
	g.Expect(err).To(MatchError("command 4: the result is too large: a Secret holds 1048512 bytes. Let the server download the large parts when it boots"))
	var e *Error
	g.Expect(errors.As(err, &e)).To(BeTrue())
	g.Expect(e.Reason).To(Equal(bootstrapv1.ReasonDataTooLarge))
}

// TestCheck: errors that do not depend on the Machine are found without one, and nothing else is an error.
func TestCheck(t *testing.T) {
	path := field.NewPath("spec")
	NewWithT(t).Expect(Check(spec(), path)).To(BeEmpty())
	NewWithT(t).Expect(Check(ignitionSpec("3.4.0"), path)).To(BeEmpty())
	for want, change := range map[string]func(*bootstrapv1.BareMetalConfigSpec){
		"spec.userData: Invalid value: user data: .Values.tokn does not exist: .Values has token": func(s *bootstrapv1.BareMetalConfigSpec) { s.UserData = "#cloud-config\n<% .Values.tokn %>" },
		"spec.userData: Invalid value: user data: .Cluster.Naming does not exist":                 func(s *bootstrapv1.BareMetalConfigSpec) { s.UserData = "#cloud-config\n<% .Cluster.Naming %>" },
		"spec.userData: Invalid value: user data: its first line is not one of":                   func(s *bootstrapv1.BareMetalConfigSpec) { s.UserData = "packages: []" },
		"spec.userData: Invalid value: user data: it is not valid JSON, line 1":                   func(s *bootstrapv1.BareMetalConfigSpec) { s.Format, s.UserData = "ignition", "variant: flatcar" },
		"spec.commands[1]: Invalid value: command 2: line 1: unclosed action":                     func(s *bootstrapv1.BareMetalConfigSpec) { s.Commands[1] = "<% .Values" },
		"spec.commands[0]: Invalid value: command 1: .Values.x does not exist":                    func(s *bootstrapv1.BareMetalConfigSpec) { s.Commands[0] = "<% if .Taints %><% .Values.x %><% end %>" },
	} {
		s := spec()
		change(s)
		NewWithT(t).Expect(Check(s, path).ToAggregate()).To(MatchError(And(HavePrefix(want), HaveSuffix("`kubectl explain baremetalconfig.spec.userData` describes templates"))))
	}
	for _, change := range []func(*bootstrapv1.BareMetalConfigSpec){
		func(s *bootstrapv1.BareMetalConfigSpec) { s.UserData = "<% .Values.token %>" }, // it may be any user data
		func(s *bootstrapv1.BareMetalConfigSpec) {
			s.UserData = "#cloud-config\n<% index .Cluster.PodCIDRs 3 %>"
		}, // there may be four
		func(s *bootstrapv1.BareMetalConfigSpec) { s.UserData = "#cloud-config\n<% .Machine.Labels.rack %>" }, // it may have the label
		func(s *bootstrapv1.BareMetalConfigSpec) { s.UserData = "" },
		func(s *bootstrapv1.BareMetalConfigSpec) {
			s.Format, s.UserData = "ignition", ""
			s.UserDataFrom = &bootstrapv1.ValueSource{ConfigMapKeyRef: &bootstrapv1.KeyReference{Name: "x", Key: "y"}}
		},
	} {
		s := spec()
		change(s)
		NewWithT(t).Expect(Check(s, path)).To(BeEmpty())
	}
}

// FuzzIgnition: every user data gives a valid config with the unit, or an error without a value.
func FuzzIgnition(f *testing.F) {
	f.Add(ignitionSpec("3.4.0").UserData)
	f.Add(`{"ignition":{"version":"2.4.0"},"storage":{"files":null},"systemd":{"units":[1,{"name":1}]}}`)
	f.Fuzz(func(t *testing.T, userData string) {
		out, err := ignition([]byte(userData), []string{"true"})
		if err != nil {
			return
		}
		var config struct {
			Systemd struct {
				Units []json.RawMessage `json:"units"`
			} `json:"systemd"`
		}
		if err := json.Unmarshal(out, &config); err != nil || len(config.Systemd.Units) == 0 || !strings.Contains(string(out), CommandsUnit) {
			t.Fatalf("%q gives %q", userData, out)
		}
	})
}
