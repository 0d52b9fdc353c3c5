package mutants

import (
	"strings"
	"testing"
)

// site is a package in which the entries of TestChange are found.
var site = map[string]string{
	"server.go": `package site

type server struct{ on, off, busy bool }

func (s server) mayBoot(other server) bool {
	return s.on && !s.busy && other.on
}

func (s *server) stop(force bool) string {
	if err := s.check(); err != nil || force {
		s.off = true
	}
	switch {
	case s.busy:
		return "busy"
	case s.off, force:
		return "off"
	}
	return join(s.name(), "on") // not joined with "off"
}
`,
	"limits.go": `package site

const maxServers = 64

var names = []string{"a", "b"}

func first(list, all []int) int {
	count := len(list) + 1
	if len(all) > 0 {
		return count
	}
	return call(list...)
}
`,
}

var changes = []struct {
	name, in, old, new string
	file, want         string // the file, and a part of its text after the change
}{
	{"an expression", "first", "len(list) + 1", "0", "limits.go", "count := 0\n"},
	{"an operator in an expression", "server.mayBoot", "s.on", "s.on || s.off", "server.go", "return (s.on || s.off) && !s.busy && other.on"},
	{"an operand is removed", "server.mayBoot", "!s.busy", "", "server.go", "return s.on && other.on"},
	{"the last operands are removed", "server.mayBoot", "!s.busy && other.on", "", "server.go", "return s.on\n"},
	{"two places", "server.stop", "force", "", "", ""},
	{"an element is removed", "names", `"a"`, "", "limits.go", `{"b"}`},
	{"a constant", "maxServers", "64", "65", "limits.go", "maxServers = 65"},
	{"statements", "first", "count := len(list) + 1; if len(all) > 0 { return count }", "count := 0; _ = count", "limits.go",
		"count := 0; _ = count\n\treturn call"},
	{"a statement is removed", "server.stop", "s.off = true", "", "server.go", "force {\n\t\t\n\t}"},
	{"a clause is removed", "server.stop", "case s.busy:", "", "server.go", "switch {\n\t\n\tcase s.off"},
	{"the head of a clause", "server.stop", "case s.off, force:", "case false:", "server.go", "case false:\n\t\treturn \"off\""},
	{"a whole clause", "server.stop", `case s.busy: return "busy"`, `case s.on: return "on"`, "server.go", `case s.on: return "on"`},
	{"the header of a branch", "server.stop", "err := s.check(); err != nil || force", "err := s.check(); force", "server.go", "if err := s.check(); force {"},
	{"the statement of a header", "server.stop", "err := s.check()", "err := error(nil)", "server.go", "if err := error(nil); err"},
	{"a renamed receiver", "server.mayBoot", "!me.busy", "!me.off", "server.go", "s.on && !s.off &&"},
	{"a renamed receiver that could be another variable", "server.mayBoot", "me.on", "me.off", "", ""},
	{"renamed variables", "first", "n := len(servers) + 1; if len(rest) > 0 { return n }", "n := servers[0]; _ = n + len(rest)", "limits.go",
		"count := list[0]; _ = count + len(all)"},
	{"a renamed variable, and a field of its old name", "server.mayBoot", "!on.busy", "!on.on", "server.go", "s.on && !s.on &&"},
	{"another format, and comments", "server.stop", "join(\n\ts.name(), // the name\n\t\"on\",\n)", `""`, "server.go", `return "" //`},
	{"a renamed function", "server.halt", "s.off = true", "s.off = false", "server.go", "s.off = false"},
	{"the same names come first", "server.mayBoot", "other.on", "true", "server.go", "!s.busy && true"},
	{"a function that is called has the name of the entry", "first", "other(list...)", "0", "", ""},
	{"a variadic call is another call", "first", "call(list)", "0", "", ""},
	{"two variables do not become one", "server.mayBoot", "s.on && !s.busy && s.on", "false", "", ""},
	{"one variable does not become two", "first", "x := len(x) + 1", "", "", ""},
	{"a selector has the name of the entry", "server.mayBoot", "!s.waiting", "", "", ""},
	{"the place is in another function", "first", "s.off = true", "", "", ""},
	{"nothing to find", "first", "", "0", "", ""},
	{"not Go", "first", "if {", "0", "", ""},
}

// TestChange: a place is found by its syntax tree, wherever the function is and whatever its variables are called.
func TestChange(t *testing.T) {
	c, err := read(site)
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range changes {
		t.Run(change.name, func(t *testing.T) {
			file, text, err := c.change(mutant{"", change.in, change.old, change.new})
			switch {
			case change.want == "" && err == nil:
				t.Fatalf("%s was changed to\n%s", file, text)
			case change.want != "" && err != nil:
				t.Fatal(err)
			case file != change.file || !strings.Contains(text, change.want):
				t.Errorf("%s has no %q:\n%s", file, change.want, text)
			}
		})
	}
}

// TestChangeInOneFile: what a mutant does not change stays, byte by byte.
func TestChangeInOneFile(t *testing.T) {
	c, err := read(site)
	if err != nil {
		t.Fatal(err)
	}
	_, text, err := c.change(mutant{"", "server.stop", "s.off = true", "s.off = false"})
	if want := strings.Replace(site["server.go"], "s.off = true", "s.off = false", 1); err != nil || text != want {
		t.Errorf("error %v, text\n%s", err, text)
	}
}

// TestProblems: a failure shows the function that was probably meant.
func TestProblems(t *testing.T) {
	c, err := read(site)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range []struct{ in, old, want string }{
		{"server.stop", "s.off = false", "no place has it, the nearest function is server.stop (server.go:9):\nfunc (s *server) stop"},
		{"server.halt", "s.off = false", "the nearest function is server.stop"},
		{"limit", "len(all) > count", "the nearest function is first"},
		{"server.stop", "force", "3 places have it, the first in server.stop"},
		{"server.start", "on", "places have it, the first in"},
	} {
		if _, _, err := c.change(mutant{in: problem.in, old: problem.old, new: "0"}); err == nil || !strings.Contains(err.Error(), problem.want) {
			t.Errorf("%s in %s: %v, want %q", problem.old, problem.in, err, problem.want)
		}
	}
}
