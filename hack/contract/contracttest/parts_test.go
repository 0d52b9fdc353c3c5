package contracttest

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// inChild makes TestParts the tested run, in a separate process.
const inChild = "CAPBM_TEST_PARTS"

// TestParts: all parts run once and in their order. A part that is selected alone runs the parts that it needs first. A failure skips the parts that
// need the failed one, and no others.
func TestParts(t *testing.T) {
	if mode := os.Getenv(inChild); mode != "" {
		RunParts(t, "suite", parts(mode == "fail"))
		return
	}
	for _, c := range []struct {
		name, run, mode, want string
	}{
		{"all", "TestParts", "pass", "a b/x c d"},
		{"one alone", "TestParts/c", "pass", "a b/x c"},
		{"one with a slash in its name", "TestParts/b/x", "pass", "a b/x"},
		{"one that needs no other", "TestParts/d", "pass", "d"},
		{"a failure", "TestParts", "fail", "a b/x d"},
		{"a failure of a need", "TestParts/c", "fail", "a b/x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := NewWithT(t)
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+strings.ReplaceAll(c.run, "/", "$/^")+"$")
			child.Env = append(os.Environ(), inChild+"="+c.mode)
			out, err := child.CombinedOutput()
			g.Expect(err != nil).To(Equal(c.mode == "fail"), "%s", out)
			var ran []string
			for line := range strings.Lines(string(out)) {
				if name, is := strings.CutPrefix(line, "ran "); is {
					ran = append(ran, strings.TrimSpace(name))
				}
			}
			g.Expect(strings.Join(ran, " ")).To(Equal(c.want), "%s", out)
		})
	}
}

func parts(fail bool) []Part[string] {
	ran := func(name string) func(string, *testing.T) {
		return func(_ string, t *testing.T) { //nolint:thelper // the order of a method expression
			t.Helper()
			_, _ = os.Stdout.WriteString("ran " + name + "\n")
			if fail && name == "b/x" {
				t.FailNow()
			}
		}
	}
	return []Part[string]{
		{Name: "a", Run: ran("a")},
		{Name: "b/x", Run: ran("b/x"), Needs: []string{"a"}},
		{Name: "c", Run: ran("c"), Needs: []string{"a", "b/x"}},
		{Name: "d", Run: ran("d")},
	}
}
