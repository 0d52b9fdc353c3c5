package laws_test

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
)

// providerForms are the ways to name a provider of clusterctl: the label and the folder of its releases, arguments of clusterctl in a shell and in Go, an
// entry of clusterctl's configuration, and an object of the Cluster API operator.
var providerForms = []*regexp.Regexp{
	regexp.MustCompile(`\b(?:infrastructure|bootstrap)-([a-z0-9-]*baremetal)\b`),
	regexp.MustCompile(`--(?:infrastructure|bootstrap)(?:[ =]|", ")(?:[a-z0-9-]+/)?([a-z0-9-]*baremetal)\b`),
	regexp.MustCompile(`clusterctl [^\n]*-[ib][ =](?:[a-z0-9-]+/)?([a-z0-9-]*baremetal)\b`),
	regexp.MustCompile(`name: "?([a-z0-9-]*baremetal)"?(?:\n *|, )type: (?:Infrastructure|Bootstrap)Provider\b`),
	regexp.MustCompile(`kind: (?:Infrastructure|Bootstrap)Provider\nmetadata:[\s{]*name: "?([a-z0-9-]*baremetal)\b`),
}

// providerNames returns the names of providers in a text that could mean this one.
func providerNames(text string) []string {
	var names []string
	for _, form := range providerForms {
		for _, found := range form.FindAllStringSubmatch(text, -1) {
			names = append(names, found[1])
		}
	}
	return names
}

// TestProviderName: the provider's name follows the organisation of the module path, and no page, manifest or program spells it otherwise.
func TestProviderName(t *testing.T) {
	organisation := strings.Split(module, "/")[1]
	if want := organisation + "-baremetal"; provider.Name != want || provider.Infrastructure != "infrastructure-"+want || provider.Bootstrap != "bootstrap-"+want {
		t.Fatalf("config/provider names %q and %q: the module path demands %s", provider.Infrastructure, provider.Bootstrap, want)
	}
	out, err := exec.CommandContext(t.Context(), "git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md", "*.yaml", "*.go", "*.sh", "Makefile").Output()
	if err != nil {
		t.Fatal(err)
	}
	places := 0
	for file := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(file, "docs/decisions/") {
			continue // they say what was true then
		}
		for _, name := range providerNames(readPage(t, file)) {
			places++
			if name != provider.Name {
				t.Errorf("%s names the provider %q: it is %s", file, name, provider.Name)
			}
		}
	}
	if places < 30 {
		t.Errorf("%d places name the provider: this test reads the wrong files", places)
	}
}

// TestProviderForms: TestProviderName finds the name in each form in which a page, a manifest or a program can have it.
func TestProviderForms(t *testing.T) {
	// The names are inserted here, because TestProviderName reads this file too.
	for _, form := range []string{
		"clusterctl init --infrastructure NAME:v0.1.0", "add `--bootstrap NAME`", "clusterctl init --infrastructure=NAME", "clusterctl init -i NAME",
		"upgrade apply --infrastructure capbm-system/NAME:v0.1.1", `"--infrastructure", "NAME"`, `"--bootstrap", "capbm-bootstrap-system/NAME:"`,
		"out/infrastructure-NAME/VERSION", "cluster.x-k8s.io/provider: bootstrap-NAME", "- name: NAME\n  type: InfrastructureProvider",
		"- {name: NAME, type: BootstrapProvider, url: a}", "kind: InfrastructureProvider\nmetadata: {name: NAME, namespace: a}",
		"kind: BootstrapProvider\nmetadata:\n  name: NAME\n",
	} {
		for _, name := range []string{"baremetal", "another-baremetal", provider.Name} {
			text := strings.ReplaceAll(form, "NAME", name)
			if got := providerNames(text); !slices.Equal(got, []string{name}) {
				t.Errorf("%q names the provider %q, found: %q", text, name, got)
			}
		}
	}
}
