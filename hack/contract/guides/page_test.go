package guides

import (
	"testing"

	. "github.com/onsi/gomega"
)

// TestParse: fences of the language sh and comments for the test are blocks, also in lists. Other fences are not.
func TestParse(t *testing.T) {
	g := NewWithT(t)
	blocks, err := parse("# A page\n\n<!-- test\nA=1\n-->\n\n```sh\nkubectl get pods\n```\n\n1. Do this:\n\n   ```sh\n   for i in 1 2; do\n     echo $i\n   done\n   ```\n" +
		"\n*Not tested: needs a registry.*\n\n```sh\nskopeo copy a b\n```\n\n```yaml\nsh: no\n```\n")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(blocks).To(Equal([]block{
		{line: 4, script: "A=1\n", hidden: true},
		{line: 8, script: "kubectl get pods\n"},
		{line: 14, script: "for i in 1 2; do\n  echo $i\ndone\n"},
		{line: 22, script: "skopeo copy a b\n", skipped: "needs a registry"},
	}))
	g.Expect(script("docs/a.md", blocks)).To(And(
		ContainSubstring("echo '=== docs/a.md:8'\nset -x\nkubectl get pods\n"), Not(ContainSubstring("skopeo"))))
}

// TestParseErrors: a page that hides a block from the test by mistake is refused.
func TestParseErrors(t *testing.T) {
	for name, page := range map[string]string{
		"no end":          "```sh\nkubectl get pods\n",
		"no language":     "```\nkubectl get pods\n```\n",
		"bash":            "```bash\nkubectl get pods\n```\n",
		"no reason":       "*Not tested.*\n\n```sh\nls\n```\n",
		"in a sentence":   "This is *Not tested: x.* here\n",
		"above no blocks": "*Not tested: needs a registry.*\n\n```yaml\na: b\n```\n",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(page)
			NewWithT(t).Expect(err).To(HaveOccurred())
		})
	}
}
