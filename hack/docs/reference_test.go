package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// TestReference: the committed pages have the help of today's programs. `make generate` updates them.
func TestReference(t *testing.T) {
	g := NewWithT(t)
	root := filepath.Join("..", "..")
	pages, err := reference(t.Context(), root)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(pages).NotTo(BeEmpty())
	for name, want := range pages {
		content, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		g.Expect(err).NotTo(HaveOccurred())
		if string(content) != want {
			t.Errorf("%s is not up to date: run make generate, and commit it", name)
		}
	}
}

func TestReplaceGenerated(t *testing.T) {
	g := NewWithT(t)
	page, err := replaceGenerated("before\n"+generatedStart+"old\n"+generatedEnd+"after\n", "new\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(page).To(Equal("before\n" + generatedStart + "\nnew\n\n" + generatedEnd + "after\n"))
	for _, bad := range []string{"", generatedStart, generatedEnd + generatedStart, generatedStart + generatedEnd + generatedStart} {
		_, err := replaceGenerated(bad, "new")
		g.Expect(err).To(HaveOccurred(), bad)
	}
}

func TestParseFlags(t *testing.T) {
	g := NewWithT(t)
	g.Expect(parseFlags(`a program.

One group:
      --names strings   Names of
                        things. (default [a,b])
      --on              Whether it is on.
  -v, --v level         Log level, from 0.

Another group:
      --wait duration   Time to wait, such as "1s". (default 10s)
      --folder folder   The folder (of two). (default
                        "/tmp")
`)).To(Equal([]flagGroup{
		{"One group", []describedFlag{
			{"names", "strings", "`a,b`", "Names of things."}, {"on", "bool", "`false`", "Whether it is on."}, {"v", "level", "`0`", "Log level, from 0."},
		}},
		{"Another group", []describedFlag{
			{"wait", "duration", "`10s`", `Time to wait, such as "1s".`}, {"folder", "folder", "`/tmp`", "The folder (of two)."},
		}},
	}))
}
