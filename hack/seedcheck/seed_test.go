package seedcheck

import (
	"encoding/json"
	"maps"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/seedtest"
)

func kubeadm(t *testing.T) []byte {
	t.Helper()
	content, err := os.ReadFile("../../pxe/seed/testdata/kubeadm.cloud-config")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return content
}

func data(t *testing.T) seed.Data {
	t.Helper()
	return seed.Data{
		InstanceID: "i-1", Hostname: "m-1", ProviderID: "baremetal://dc/h/m-1", FailureDomain: "rack 'one'", Labels: map[string]string{"example.com/rack-row": "r-1"},
		UserData: kubeadm(t), ReportPath: pxe.ReportPath("dc/h", "token", pxe.Up),
		SucceededPath: pxe.ReportPath("dc/h", "token", pxe.Succeeded), FailedPath: pxe.ReportPath("dc/h", "token", pxe.Failed),
	}
}

// reading is what cloud-init made of a seed.
type reading struct {
	Local    bool           `json:"local"`
	DSMode   string         `json:"dsmode"`
	Instance string         `json:"instance"`
	Hostname string         `json:"hostname"`
	Metadata map[string]any `json:"metadata"`
	UserData string         `json:"userdata"`
	User     []part         `json:"user"`
	Vendor   []part         `json:"vendor"`
	Network  any            `json:"network"`
}

// part is a part of the vendor data or the user data.
type part struct {
	Type     string `json:"type"`
	Filename string `json:"filename"`
	Content  string `json:"content"`
}

// TestCloudInitReads: cloud-init's datasource finds our seed by our command line, over HTTP from our handler, and understands all of it.
func TestCloudInitReads(t *testing.T) {
	for name, network := range map[string]*seed.Network{"static": seedtest.Static(), "the image's network": nil} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			d := data(t)
			d.Network = network
			handler := &pxe.Handler{Booter: &pxetest.Booter{Token: "token", Data: d}, Log: logr.Discard()}
			server := httptest.NewUnstartedServer(handler.Mux())
			url := "http://" + server.Listener.Addr().String()
			handler.BaseURL = func(netip.Addr) string { return url }
			server.Start()
			t.Cleanup(server.Close)
			line, err := seed.CommandLine(seed.CloudConfig, network, url+pxe.SeedPath("dc/h", "token"))
			g.Expect(err).NotTo(HaveOccurred())

			var r reading
			g.Expect(json.Unmarshal([]byte(python(t, nil, "testdata/reader.py", "seed", "initrd=initrd0 console=ttyS0 "+line)), &r)).To(Succeed())
			g.Expect(r.Local).To(BeFalse(), "the seed is one of the network stage")
			g.Expect(r.DSMode).To(Equal("net"), "in mode local, which ds=nocloud alone means here, the network stage would do nothing")
			g.Expect(r.Instance).To(Equal("i-1"))
			g.Expect(r.Hostname).To(Equal("m-1"))
			g.Expect(r.Metadata).To(HaveKeyWithValue("labels", map[string]any{"example.com/rack-row": "r-1"}))
			g.Expect(r.UserData).To(Equal(string(d.UserData)))
			g.Expect(r.Vendor).To(HaveLen(2))
			g.Expect(r.Vendor[0].Type).To(Equal("text/cloud-config"))
			g.Expect(r.Vendor[1].Type).To(Equal("text/x-shellscript"))
			g.Expect(r.Vendor[1].Filename).To(Equal("capbm-report-bootstrap"))
			g.Expect(r.Vendor[1].Content).To(HavePrefix("#!/bin/sh\n"))
			if network == nil {
				g.Expect(r.Network).To(BeNil())
				return
			}
			var config any
			g.Expect(yaml.Unmarshal([]byte(file(t, d, seed.NetworkConfig)), &config)).To(Succeed())
			g.Expect(r.Network).To(Equal(config))

			schema(t, r.Vendor[0].Content)
		})
	}
}

// schema lets cloud-init check a cloud-config. The check of cloud-init 22.4, which Debian 12 has, accepts unknown keys, so they are compared with its schema here.
func schema(t *testing.T, content string) {
	t.Helper()
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, content)
	g.Expect(cloudInit(t, "schema", "--config-file", path)).To(ContainSubstring("Valid cloud-config"))
	definition, err := os.ReadFile(filepath.Join(root, "usr/lib/python3/dist-packages/cloudinit/config/schemas/schema-cloud-config-v1.json"))
	g.Expect(err).NotTo(HaveOccurred())
	var known struct {
		Modules map[string]struct {
			Properties map[string]any `json:"properties"`
		} `json:"$defs"`
	}
	g.Expect(json.Unmarshal(definition, &known)).To(Succeed())
	var config map[string]any
	g.Expect(yaml.Unmarshal([]byte(content), &config)).To(Succeed())
	for key := range config {
		g.Expect(slices.ContainsFunc(slices.Collect(maps.Keys(known.Modules)), func(module string) bool {
			_, ok := known.Modules[module].Properties[key]
			return ok
		})).To(BeTrue(), "cloud-init does not know the key %q", key)
	}
}

// TestTemplates: what a KubeadmConfig writes into its templates, cloud-init fills in from our meta-data. Hyphens are minus signs there.
func TestTemplates(t *testing.T) {
	var meta map[string]any
	NewWithT(t).Expect(yaml.Unmarshal([]byte(file(t, data(t), seed.MetaData)), &meta)).To(Succeed())
	instance, err := json.Marshal(map[string]any{"ds": map[string]any{"meta_data": meta}})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	write(t, filepath.Join(dir, "instance-data.json"), string(instance))
	render := func(t *testing.T, template string) string {
		t.Helper()
		write(t, filepath.Join(dir, "user-data"), template)
		return cloudInit(t, "devel", "render", "--instance-data", filepath.Join(dir, "instance-data.json"), filepath.Join(dir, "user-data"))
	}
	for expression, want := range map[string]string{
		"ds.meta_data.provider_id":                    "baremetal://dc/h/m-1",
		"ds.meta_data['provider-id']":                 "baremetal://dc/h/m-1",
		"ds.meta_data.local_hostname":                 "m-1",
		"ds.meta_data.hostname":                       "m-1",
		"ds.meta_data.instance_id":                    "i-1",
		"ds.meta_data.failure_domain":                 "rack 'one'",
		"ds.meta_data.labels['example.com/rack-row']": "r-1",
	} {
		t.Run(expression, func(t *testing.T) {
			NewWithT(t).Expect(render(t, "## template: jinja\n#cloud-config\nvalue: {{ "+expression+" }}\n")).To(ContainSubstring("value: " + want + "\n"))
		})
	}
	t.Run("kubeadm", func(t *testing.T) {
		rendered := render(t, string(kubeadm(t)))
		NewWithT(t).Expect(rendered).To(ContainSubstring("value: 'baremetal://dc/h/m-1'"))
		schema(t, rendered)
	})
	t.Run("a hyphen", func(t *testing.T) {
		write(t, filepath.Join(dir, "user-data"), "## template: jinja\n#cloud-config\nvalue: {{ ds.meta_data.provider-id }}\n")
		_, said, err := run(t, "", []string{"PYTHONPATH=" + filepath.Join(root, "usr/lib/python3/dist-packages"), "PATH=/usr/bin:/bin"}, "/usr/bin/python3",
			"-c", "import sys; from cloudinit.cmd.main import main; sys.exit(main())", "devel", "render", "--instance-data", filepath.Join(dir, "instance-data.json"), filepath.Join(dir, "user-data"))
		NewWithT(t).Expect(err).To(HaveOccurred())
		NewWithT(t).Expect(said).To(ContainSubstring(`Perhaps you meant "provider_id"?`))
	})
}
