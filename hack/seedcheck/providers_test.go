package seedcheck

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/seedtest"
)

// golden is a bootstrap Secret that a bootstrap provider wrote. testdata/providers/README.md says how.
type golden struct {
	name string
	// title is the provider's name and version.
	title  string
	format seed.Format
	value  string
}

// goldens returns all bootstrap Secrets of providers.
func goldens(t *testing.T) []golden {
	t.Helper()
	g := NewWithT(t)
	paths, err := filepath.Glob("testdata/providers/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var out []golden
	for _, path := range paths {
		content, err := os.ReadFile(path)
		g.Expect(err).NotTo(HaveOccurred())
		out = append(out, parseGolden(t, strings.TrimSuffix(filepath.Base(path), ".yaml"), content))
	}
	g.Expect(len(out)).To(BeNumerically(">=", 10), "this test reads the wrong folder")
	return out
}

// parseGolden reads a Secret.
func parseGolden(t *testing.T, name string, content []byte) golden {
	t.Helper()
	var secret struct{ StringData map[string]string }
	NewWithT(t).Expect(yaml.Unmarshal(content, &secret)).To(Succeed())
	title, _, _ := strings.Cut(strings.TrimPrefix(string(content), "# "), "\n")
	return golden{name: name, title: title, format: seed.Format(secret.StringData["format"]), value: secret.StringData["value"]}
}

// ownReader is true for data that is read by a program of the provider's own system, and not by cloud-init.
func (p golden) ownReader() bool {
	return strings.HasPrefix(p.name, "talos-") || strings.HasPrefix(p.name, "kairos-")
}

// data is the input of a seed with this bootstrap data.
func (p golden) data(t *testing.T) seed.Data {
	t.Helper()
	d := data(t)
	d.UserData, d.Format = []byte(p.value), p.format
	return d
}

// TestProviders: what each bootstrap provider writes is served, and cloud-init reads it without an error and fills in the provider ID.
func TestProviders(t *testing.T) {
	for _, p := range goldens(t) {
		t.Run(p.name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(seed.Check(p.format, []byte(p.value))).To(Succeed())
			if p.format == seed.Ignition {
				g.Expect(file(t, p.data(t), seed.IgnitionFile)).NotTo(BeEmpty()) // TestProviderIgnition in pxe/seed reads it
				return
			}
			r := readSeed(t, p.data(t))
			g.Expect(r.UserData).To(Equal(p.value))
			g.Expect(r.User).To(HaveLen(1))
			if p.ownReader() {
				types := map[bool]string{true: "text/cloud-config", false: "text/x-not-multipart"} // cloud-init does nothing with a machine config of Talos
				g.Expect(r.User[0].Type).To(Equal(types[strings.HasPrefix(p.value, "#cloud-config\n")]))
				return
			}
			g.Expect(r.User[0].Type).To(Equal("text/jinja2"))
			rendered := p.render(t)
			schema(t, rendered)
			g.Expect(rendered).NotTo(ContainSubstring("{{"))
			g.Expect(rendered).To(MatchRegexp(`provider-id=baremetal://dc/h/m-1\b|name: provider-id\n +value: 'baremetal://dc/h/m-1'`))
		})
	}
}

// readSeed serves a seed with our handler, and returns what cloud-init's datasource reads.
func readSeed(t *testing.T, d seed.Data) reading {
	t.Helper()
	g := NewWithT(t)
	handler := &pxe.Handler{Booter: &pxetest.Booter{Token: "token", Data: d}, Log: logr.Discard()}
	server := httptest.NewUnstartedServer(handler.Mux())
	url := "http://" + server.Listener.Addr().String()
	handler.BaseURL = func(netip.Addr) string { return url }
	server.Start()
	t.Cleanup(server.Close)
	line, err := seed.CommandLine(seed.CloudConfig, d.Network, url+pxe.SeedPath("dc/h", "token"))
	g.Expect(err).NotTo(HaveOccurred())
	var r reading
	g.Expect(json.Unmarshal([]byte(python(t, nil, "testdata/reader.py", "seed", "initrd=initrd0 console=ttyS0 "+line)), &r)).To(Succeed())
	return r
}

// render lets cloud-init fill in the templates from our meta-data.
func (p golden) render(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	var meta map[string]any
	g.Expect(yaml.Unmarshal([]byte(file(t, p.data(t), seed.MetaData)), &meta)).To(Succeed())
	instance, err := json.Marshal(map[string]any{"ds": map[string]any{"meta_data": meta}})
	g.Expect(err).NotTo(HaveOccurred())
	dir := t.TempDir()
	write(t, filepath.Join(dir, "instance-data.json"), string(instance))
	write(t, filepath.Join(dir, "user-data"), p.value)
	return cloudInit(t, "devel", "render", "--instance-data", filepath.Join(dir, "instance-data.json"), filepath.Join(dir, "user-data"))
}

// TestProviderPlaceholders: the goldens contain no certificates, keys or tokens that a manager made.
func TestProviderPlaceholders(t *testing.T) {
	placeholder := "UExBQ0VIT0xERVI=" // PLACEHOLDER
	secret := regexp.MustCompile(`(?m)-----BEGIN [A-Z ]+-----\s+(\S+)|^\s*(?:token|secret|crt|id): (\S{16,})$|/etc/k0s\.token\s+content: (\S+)`)
	found := 0
	for _, p := range goldens(t) {
		text := p.value
		if p.format == seed.Ignition {
			config, err := seedtest.ReadIgnitionTree([]byte(p.value))
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
			var files []string
			for _, f := range config.Files {
				files = append(files, "\n"+f.Path+"\ncontent: "+f.Content)
			}
			text = strings.Join(files, "")
		}
		for _, match := range secret.FindAllStringSubmatch(text, -1) {
			found++
			NewWithT(t).Expect([]string{placeholder, "placeholder-token", "abcdef.0123456789abcdef"}).To(ContainElement(match[1]+match[2]+match[3]), p.name)
		}
	}
	NewWithT(t).Expect(found).To(BeNumerically(">", 20), "the pattern finds the placeholders")
}

// TestProviderGzip: cloud-init unpacks user data, so CAPRKE2 may compress it (gzipUserData).
func TestProviderGzip(t *testing.T) {
	g := NewWithT(t)
	all := goldens(t)
	p := all[slices.IndexFunc(all, func(p golden) bool { return p.name == "rke2-worker" })]
	var packed bytes.Buffer
	pack := gzip.NewWriter(&packed)
	_, err := pack.Write([]byte(p.value))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pack.Close()).To(Succeed())
	d := p.data(t)
	d.UserData = packed.Bytes()
	g.Expect(seed.Check(d.Format, d.UserData)).To(Succeed())
	parts := readSeed(t, d).User
	g.Expect(parts).To(HaveLen(1))
	g.Expect(parts[0].Content).To(Equal(p.value))
}
