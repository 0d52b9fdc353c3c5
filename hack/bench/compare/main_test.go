package main

import (
	"bytes"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/bench/report"
)

func TestExitCodes(t *testing.T) {
	g := NewWithT(t)
	path := filepath.Join(t.TempDir(), "run.json")
	g.Expect((&report.Run{Commit: "c0ffee"}).Write(path)).To(Succeed())
	absent := filepath.Join(t.TempDir(), "absent.json")
	for _, c := range []struct {
		args          []string
		code          int
		out, problems string
	}{
		{args: nil, code: 2, problems: "usage: compare OLD.json NEW.json"},
		{args: []string{path}, code: 2, problems: "usage: "},
		{args: []string{path, path, path}, code: 2, problems: "usage: "},
		{args: []string{path, absent}, code: 1, problems: absent},
		{args: []string{absent, path}, code: 1, problems: absent},
		{args: []string{path, path}, code: 0, out: "c0ffee"},
	} {
		var out, problems bytes.Buffer
		g.Expect(run(c.args, &out, &problems)).To(Equal(c.code), "%q", c.args)
		g.Expect(out.String()).To(saying(c.out), "%q", c.args)
		g.Expect(problems.String()).To(saying(c.problems), "%q", c.args)
	}
}

// saying matches a text that contains words. Without words it matches an empty text.
func saying(words string) types.GomegaMatcher {
	if words == "" {
		return BeEmpty()
	}
	return ContainSubstring(words)
}
