package seedcheck

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/bootstrap/render"
)

// row is a line of the table in docs/guides/bootstrap-providers.md.
type row struct{ version, format, sentinel, report string }

// TestBootstrapDocs: docs/guides/bootstrap-providers.md says about each provider what the goldens contain, and its manifests are those from which they were made.
func TestBootstrapDocs(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile("../../docs/guides/bootstrap-providers.md")
	g.Expect(err).NotTo(HaveOccurred())
	page := string(content)
	rows := map[string]row{}
	for line := range strings.Lines(page) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| [") {
			name := regexp.MustCompile(`\(#(\w+)\)`).FindStringSubmatch(cells[0])[1]
			rows[name] = row{cells[1], cells[3], cells[4], cells[5]}
		}
	}
	want := map[string]row{}
	for _, p := range goldens(t) {
		name, _, _ := strings.Cut(p.name, "-")
		r := want[name]
		r.version = p.title
		r.format = formats(r.format, string(p.format))
		if r.sentinel, r.report = reported(p.name, r.report); p.ownReader() && strings.Contains(p.value, "bootstrap-success.complete") {
			r.sentinel = "yes"
		}
		want[name] = r
	}
	g.Expect(want).To(HaveLen(6))
	g.Expect(rows).To(Equal(want))
}

// formats adds a format to a cell.
func formats(cell, format string) string {
	if format == "" {
		return "none"
	}
	all := strings.Split(cell, ", ")
	if cell == "" {
		all = nil
	}
	all = append(all, format)
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

// reported returns the cells on the sentinel and on reportBootstrap that follow from the cases of TestProviderSentinel. The strictest of a provider's cells counts.
func reported(golden, cell string) (sentinel, report string) {
	sentinel, report = "no", "no"
	for _, c := range sentinelCases {
		if c.golden != golden {
			continue
		}
		if c.fails == "" && c.written {
			sentinel, report = "yes", "yes"
		}
	}
	for _, c := range sentinelCases {
		switch {
		case !c.written || c.fails == "" || c.golden != golden:
		case c.careless:
			report = "yes, with `set -e`"
		case c.fails == "download":
			report = "yes, except for a failed download"
		}
	}
	if len(cell) > len(report) {
		report = cell
	}
	return sentinel, report
}

// TestBootstrapManifests: each manifest of docs/guides/bootstrap-providers.md is part of an object from which a golden was made.
func TestBootstrapManifests(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../docs/guides/bootstrap-providers.md")
	g.Expect(err).NotTo(HaveOccurred())
	paths, err := filepath.Glob("../bootstrapproviders/objects/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	var all []map[string]any
	for _, path := range paths {
		g.Expect(filepath.Join("testdata/providers", filepath.Base(path))).To(BeAnExistingFile())
		content, err := os.ReadFile(path)
		g.Expect(err).NotTo(HaveOccurred())
		all = append(all, documents(g, content)...)
	}
	checked := map[string]int{}
	for _, block := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1) {
		manifest := documents(g, block[1])[0]
		kind, _ := manifest["kind"].(string)
		checked[kind]++
		switch kind {
		case "Secret": // of data written by hand; TestHandWrittenData reads it
			continue
		case "BareMetalConfigTemplate":
			var template bootstrapv1.BareMetalConfigTemplate
			g.Expect(yaml.UnmarshalStrict(bytes.Split(block[1], []byte("---\n"))[0], &template)).To(Succeed())
			g.Expect(render.Check(&template.Spec.Template.Spec, field.NewPath("spec"))).To(BeEmpty())
			continue
		}
		g.Expect(slices.ContainsFunc(all, func(object map[string]any) bool { return contains(object, manifest) })).To(BeTrue(), string(block[1]))
	}
	g.Expect(checked).To(Equal(map[string]int{"BareMetalConfigTemplate": 1, "KubeadmConfig": 2, "RKE2Config": 2, "KThreesConfig": 1, "K0sWorkerConfig": 2, "Secret": 1}))
}

// TestHandWrittenData: cloud-init reads the data of the Secret that docs/guides/bootstrap-providers.md shows.
func TestHandWrittenData(t *testing.T) {
	g := NewWithT(t)
	page, err := os.ReadFile("../../docs/guides/bootstrap-providers.md")
	g.Expect(err).NotTo(HaveOccurred())
	block := regexp.MustCompile("(?s)```yaml\n(apiVersion: v1\nkind: Secret\n.*?)```").FindSubmatch(page)
	g.Expect(block).To(HaveLen(2))
	p := parseGolden(t, "by hand", block[1])
	rendered := p.render(t)
	schema(t, rendered)
	g.Expect(rendered).To(ContainSubstring("- /opt/install --provider-id=baremetal://dc/h/m-1\n"))
}

func documents(g Gomega, content []byte) []map[string]any {
	var out []map[string]any
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
		var object map[string]any
		err := decoder.Decode(&object)
		if errors.Is(err, io.EOF) {
			return out
		}
		g.Expect(err).NotTo(HaveOccurred())
		out = append(out, object)
	}
}

// contains is true if a value has all fields of another.
func contains(whole, part any) bool {
	fields, ok := part.(map[string]any)
	if !ok {
		return reflect.DeepEqual(whole, part)
	}
	of, ok := whole.(map[string]any)
	return ok && !slices.ContainsFunc(slices.Collect(maps.Keys(fields)), func(key string) bool { return !contains(of[key], fields[key]) })
}
