package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// inModule puts the package P of an input into this module.
func inModule(input string) string { return strings.ReplaceAll(input, `"P/`, `"`+module+"/") }

// TestRead: the input is what Go 1.26 printed for a package with tests of each kind.
func TestRead(t *testing.T) {
	t.Setenv("SHARD", "3")
	t.Setenv("SEED", "")
	t.Setenv("E2E", "")
	for name, test := range map[string]struct {
		input string
		want  results
	}{
		"a test with subtests counts by them": {
			`{"Action":"run","Package":"P/a","Test":"TestA"}
{"Action":"run","Package":"P/a","Test":"TestA/one"}
{"Action":"run","Package":"P/a","Test":"TestA/http://two"}
{"Action":"pass","Package":"P/a","Test":"TestA/one"}
{"Action":"pass","Package":"P/a","Test":"TestA/http://two"}
{"Action":"pass","Package":"P/a","Test":"TestA"}
{"Action":"pass","Package":"P/a"}`,
			results{passed: 2},
		},
		"a failed subtest is one failure": {
			`{"Action":"run","Package":"P/a","Test":"TestA"}
{"Action":"run","Package":"P/a","Test":"TestA/it's_(so)"}
{"Action":"fail","Package":"P/a","Test":"TestA/it's_(so)"}
{"Action":"fail","Package":"P/a","Test":"TestA"}
{"Action":"fail","Package":"P/a"}`,
			results{failed: []string{`SHARD=3 go test -count=1 -race -timeout 5m ./a -run '^TestA$/^it'\''s_\(so\)$'`}},
		},
		"a test whose program ended is a failure": {
			`{"Action":"run","Package":"P/a","Test":"TestA"}
{"Action":"fail","Package":"P/a"}`,
			results{failed: []string{`SHARD=3 go test -count=1 -race -timeout 5m ./a -run '^TestA$'`}},
		},
		"a package that fails without a test is a failure": {
			`{"Action":"fail","Package":"P/a"}`,
			results{failed: []string{`SHARD=3 go test -count=1 -race -timeout 5m ./a`}},
		},
		"a test names the command that reruns it": {
			`{"Action":"run","Package":"P/a","Test":"TestA"}
{"Action":"output","Package":"P/a","Test":"TestA","Output":"    a_test.go:12: rerun: AT=12 go test ./a\n"}
{"Action":"fail","Package":"P/a","Test":"TestA"}`,
			results{failed: []string{`SHARD=3 AT=12 go test ./a`}},
		},
		"a skipped test has not passed": {
			`{"Action":"run","Package":"P/a","Test":"TestA"}
{"Action":"output","Package":"P/a","Test":"TestA","Output":"=== RUN   TestA\n"}
{"Action":"output","Package":"P/a","Test":"TestA","Output":"    a_test.go:12: no kubectl: run make lab-programs\n"}
{"Action":"skip","Package":"P/a","Test":"TestA"}`,
			results{skipped: []string{"./a TestA: no kubectl: run make lab-programs"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			file := filepath.Join(t.TempDir(), "results.json")
			g.Expect(os.WriteFile(file, []byte(inModule(test.input)), 0o600)).To(Succeed())
			g.Expect(os.WriteFile(file+".args", []byte("-race -p 3 -run ^TestA -timeout 5m ./a ./b\n"), 0o600)).To(Succeed())
			got, err := read(file)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(test.want))
		})
	}
	_, err := read("missing.json")
	NewWithT(t).Expect(err).To(HaveOccurred())
}
