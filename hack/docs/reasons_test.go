package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestReasonsPage: the page has the tables of package why. It needs no programs, so it fails long before TestReference.
func TestReasonsPage(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(reasonsPage)))
	g.Expect(err).NotTo(HaveOccurred())
	page, err := replaceReasons(string(content))
	g.Expect(err).NotTo(HaveOccurred())
	if page != string(content) {
		t.Errorf("%s is not up to date: run make generate, and commit it", reasonsPage)
	}
	_, err = replaceReasons(strings.Replace(string(content), "table BMCReady", "table Other", 1))
	g.Expect(err).To(MatchError(ContainSubstring("Other")))
}
