package capispecs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocs: docs/development/capi-specs.md has each spec of Cluster API's module, and each label of this suite with its seconds. A new version of Cluster API may have more
// specs.
func TestDocs(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root(), "docs", "development", "capi-specs.md"))
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\| ([^|]+) \\| (–|`[^|]*`) \\| ([^|]+) \\|").FindAllStringSubmatch(string(content), -1)
	var specs, labels []string
	run := 0
	for _, row := range rows {
		found := regexp.MustCompile("`([a-z-]+)`").FindAllStringSubmatch(row[2], -1)
		for _, label := range found {
			labels = append(labels, label[1])
		}
		if seconds := regexp.MustCompile(`\d+`).FindAllString(row[3], -1); len(seconds) != len(found) {
			t.Errorf("%s has the labels %s and the seconds %s", row[1], row[2], row[3])
		}
		if strings.HasSuffix(row[1], "Spec") {
			specs = append(specs, row[1])
			if len(found) > 0 {
				run++
			}
		}
	}
	if want := fmt.Sprintf("%d of the %d specs run here", run, len(specs)); !strings.Contains(string(content), want) {
		t.Errorf("the page does not say %q", want)
	}
	module, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api/test").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(module)) // .../test@v1.14.2
	compare(t, "specs", specs, find(t, filepath.Join(dir, "e2e"), `(?m)^func (\w+Spec)\(ctx context\.Context`))
	if _, version, _ := strings.Cut(filepath.Base(dir), "@v"); !strings.Contains(string(content), "Cluster API "+version+" does not ") {
		t.Errorf("the page says which specs a version of Cluster API does not pass, and not of %s: try them, and correct the page", version)
	}
	compare(t, "labels", labels, find(t, ".", `ginkgo\.Label\("([a-z-]+)"`))
}

// find returns the parts of the Go files of a folder that match the group of a pattern.
func find(t *testing.T, folder, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(content), -1) {
			found = append(found, match[1])
		}
	}
	return found
}

func compare(t *testing.T, what string, page, code []string) {
	t.Helper()
	slices.Sort(page)
	slices.Sort(code)
	if len(code) == 0 || !slices.Equal(page, code) {
		t.Errorf("the page has the %s\n%q\nand the code has\n%q", what, page, code)
	}
}
