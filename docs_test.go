package laws_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDecisions: docs/decisions/README.md lists every decision record. The tests and files to which the records and the pages for contributors refer exist.
func TestDecisions(t *testing.T) {
	records, err := filepath.Glob("docs/decisions/0*.md")
	if err != nil || len(records) == 0 {
		t.Fatalf("No decision records: %v", err)
	}
	tests := testNames(t)
	list := readPage(t, "docs/decisions/README.md")
	for _, record := range records {
		if !strings.Contains(list, "("+filepath.Base(record)+")") {
			t.Errorf("docs/decisions/README.md does not list %s", record)
		}
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")
	file := regexp.MustCompile("(?:`(\\w+)` in )?`((?:api|bmc|cmd|controllers|hack|inventory|pxe)/[a-z0-9_/]+\\.go)`")
	pages, err := filepath.Glob("docs/development/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("No pages for contributors: %v", err)
	}
	for _, page := range slices.Concat(records, pages, []string{"ARCHITECTURE.md", "CONTRIBUTING.md", "hack/README.md", "config/samples/README.md"}) {
		content := readPage(t, page)
		for _, name := range named.FindAllStringSubmatch(content, -1) {
			if !tests[name[1]] {
				t.Errorf("%s names %s, which does not exist", page, name[1])
			}
		}
		for _, at := range file.FindAllStringSubmatch(content, -1) {
			source, err := os.ReadFile(at[2])
			if err != nil || !strings.Contains(string(source), at[1]) {
				t.Errorf("%s says %s: %v", page, at[0], err)
			}
		}
	}
}

// maxWords is the limit for all pages that an operator reads, which are those outside of docs/reference, docs/decisions and docs/development: about two hours.
const maxWords = 30_000

// TestOperatorPages: the pages that an operator reads stay short enough to be read.
func TestOperatorPages(t *testing.T) {
	total, longest, most := 0, "", 0
	for _, pattern := range []string{"docs/start/*.md", "docs/guides/*.md", "docs/concepts/*.md", "docs/[a-z]*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil || len(pages) == 0 {
			t.Fatalf("No pages %s: %v", pattern, err)
		}
		for _, page := range pages {
			words := len(strings.Fields(readPage(t, page)))
			total += words
			if words > most {
				longest, most = page, words
			}
		}
	}
	if total > maxWords {
		t.Errorf("the pages that an operator reads have %d words, more than %d: shorten them, %s has the most with %d", total, maxWords, longest, most)
	}
}

// TestNavigation: the site shows each page that an operator reads. The other pages are in it by their folder.
func TestNavigation(t *testing.T) {
	navigation := strings.Fields(readPage(t, "hack/site/navigation.md"))
	for _, pattern := range []string{"docs/start/*.md", "docs/guides/*.md", "docs/concepts/*.md", "docs/reference/*.md", "docs/[a-z]*.md"} {
		for _, page := range gitFiles(t, pattern) {
			if entry := strings.TrimSuffix(strings.TrimPrefix(page, "docs/"), ".md"); filepath.Dir(pattern) == filepath.Dir(page) && !slices.Contains(navigation, entry) {
				t.Errorf("hack/site/navigation.md has no entry %s", entry)
			}
		}
	}
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// testNames returns the names of all tests and fuzz tests of the repository.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9]+)\(`)
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && name != "." && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		if err != nil || !strings.HasSuffix(name, "_test.go") {
			return err
		}
		for _, found := range function.FindAllStringSubmatch(readPage(t, name), -1) {
			names[found[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
