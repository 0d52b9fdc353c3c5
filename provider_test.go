package laws_test

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
)

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
	// A name after the type of a provider: a label or folder, or an argument of clusterctl.
	named := regexp.MustCompile(`\b(?:infrastructure-|bootstrap-|--infrastructure[ =]|--bootstrap[ =]|--infrastructure", "|--bootstrap", ")(?:[a-z-]+/)?([a-z-]*baremetal)\b`)
	places := 0
	for file := range strings.FieldsSeq(string(out)) {
		if strings.HasPrefix(file, "docs/decisions/") {
			continue // they say what was true then
		}
		for _, found := range named.FindAllStringSubmatch(readPage(t, file), -1) {
			places++
			if found[1] != provider.Name {
				t.Errorf("%s: %q names another provider than %s", file, found[0], provider.Name)
			}
		}
	}
	if places < 10 {
		t.Errorf("%d places name the provider: this test reads the wrong files", places)
	}
}
