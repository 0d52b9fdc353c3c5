package promise

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// suites are the columns of the table in docs/development/endurance.md, with the files that judge.
var suites = []string{"inventory/lifecycle/*_test.go", "hack/endure/crash/*_test.go", "hack/endure/matrix/*_test.go", "hack/endure/invariant/[a-z]*.go"}

// TestPromises: the page has each promise, and says which suites report it. Each promise is reported by one suite at least.
func TestPromises(t *testing.T) {
	root := filepath.Join("..", "..")
	read := func(name string) string {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	page := read(filepath.Join(root, "docs", "development", "endurance.md"))
	var code []string
	for _, suite := range suites {
		files, err := filepath.Glob(filepath.Join(root, suite))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no files: %v", suite, err)
		}
		var all strings.Builder
		for _, file := range files {
			if strings.Contains(suite, "_test") || !strings.HasSuffix(file, "_test.go") {
				all.WriteString(read(file))
			}
		}
		code = append(code, all.String())
	}
	promises := regexp.MustCompile(`(?m)^\t(\w+) += "(.*)"$`).FindAllStringSubmatch(read("promise.go"), -1)
	if len(promises) < 15 {
		t.Fatalf("%d promises: this test reads the wrong file", len(promises))
	}
	for _, promise := range promises {
		cells, reported := []string{"", promise[2]}, false
		for _, suite := range code {
			used := regexp.MustCompile(`\bpromise\.` + promise[1] + `\b`).MatchString(suite)
			cells = append(cells, map[bool]string{true: "yes"}[used])
			reported = reported || used
		}
		if !reported {
			t.Errorf("no suite reports %q", promise[2])
		}
		if row := strings.TrimSpace(strings.Join(append(cells, ""), " | ")); !strings.Contains(page, row) {
			t.Errorf("docs/development/endurance.md has no row\n%s", row)
		}
	}
}
