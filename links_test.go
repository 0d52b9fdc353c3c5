package laws_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// apiPage is made from the types with the site: it is not in the repository.
const apiPage = "docs/reference/api.md"

var (
	pageLink    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	pageHeading = regexp.MustCompile(`(?m)^#{1,6} (.+)$`)
	codeBlock   = regexp.MustCompile("(?ms)^ *(```|~~~).*?^ *(```|~~~)[^\n]*$|`[^`\n]+`")
	headingText = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)|[*` + "`" + `]`)
)

// TestLinks: the files and the headings that pages link to exist.
func TestLinks(t *testing.T) {
	pages := gitFiles(t, "*.md")
	if len(pages) < 20 {
		t.Fatalf("only %d pages were found", len(pages))
	}
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if os.IsNotExist(err) {
			continue // deleted, and not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, link := range pageLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(string(content), ""), -1) {
			if err := checkLink(page, link[1]); err != nil {
				t.Errorf("%s: (%s): %v", page, link[1], err)
			}
		}
	}
}

// gitFiles returns the files of the repository that match one of the patterns.
func gitFiles(t *testing.T, patterns ...string) []string {
	t.Helper()
	args := append([]string{"ls-files", "--cached", "--others", "--exclude-standard"}, patterns...)
	out, err := exec.CommandContext(t.Context(), "git", args...).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(out))
}

// checkLink returns an error if a link of a page leads nowhere. Links to other sites are checked by make linkcheck.
func checkLink(page, link string) error {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return nil
	}
	path, anchor, _ := strings.Cut(link, "#")
	target := page
	if path != "" {
		target = filepath.Join(filepath.Dir(page), path)
	}
	if target == apiPage && page == "docs/README.md" {
		return nil
	}
	if _, err := os.Stat(target); err != nil || anchor == "" {
		return err
	}
	content, err := os.ReadFile(target)
	if err != nil {
		return err
	}
	if !headings(string(content))[anchor] {
		return fmt.Errorf("%s has no such heading", target)
	}
	return nil
}

// headings returns the anchors of a page's headings, as GitHub makes them.
func headings(content string) map[string]bool {
	anchors := map[string]bool{}
	fences := regexp.MustCompile("(?ms)^ *(```|~~~).*?^ *(```|~~~)[^\n]*$")
	for _, heading := range pageHeading.FindAllStringSubmatch(fences.ReplaceAllString(content, ""), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, headingText.ReplaceAllString(heading[1], "$1"))
		anchor := slug
		for n := 1; anchors[anchor]; n++ {
			anchor = fmt.Sprintf("%s-%d", slug, n)
		}
		anchors[anchor] = true
	}
	return anchors
}
