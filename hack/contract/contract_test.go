// Package contract checks that docs/development/contract.md lists every rule of Cluster API's provider contract, with what is really there. The suites
// in its folders show the rules.
package contract

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const root = "../.."

// pages are those of the book whose rules are for us.
var pages = []string{"infra-machine.md", "infra-machinepool.md", "infra-cluster.md", "bootstrap-config.md", "clusterctl.md"}

// notImplemented are pages of resources that the provider does not have. Their mandatory rules need not apply.
var notImplemented = []string{"infra-machinepool.md"}

// book returns a page of the book of the version of Cluster API that this project is built with.
func book(t *testing.T, page string) string {
	t.Helper()
	g := NewWithT(t)
	module, err := exec.CommandContext(t.Context(), "go", "-C", root, "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api").Output()
	g.Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(filepath.Join(string(bytes.TrimSpace(module)), "docs", "book", "src", "developer", "providers", "contracts", page))
	g.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

var heading = regexp.MustCompile("^(#{2,5}) +(.+)$")

// notRules are headings of sections that hold others and say nothing themselves.
var notRules = regexp.MustCompile(`^(Rules \(contract version .*\)|Additional notes|Typical .* reconciliation workflow)$`)

// headings returns the rules of a page: its headings, with the parent before a heading of a lower level.
func headings(page string) []string {
	var out []string
	var above string
	fenced := false
	for line := range strings.SplitSeq(page, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		}
		found := heading.FindStringSubmatch(line)
		if fenced || found == nil {
			continue
		}
		level, text := len(found[1]), strings.ReplaceAll(found[2], "`", "")
		switch {
		case notRules.MatchString(text):
			above = text
			continue
		case strings.Contains(text, ": "): // it says itself what it belongs to
		case level > 3, level == 3 && strings.HasPrefix(above, "Typical "):
			text = above + ": " + text
		default:
			above = text
		}
		out = append(out, text)
	}
	return out
}

// mandatory returns what the table of a page says of its rules, by their names without spaces.
func mandatory(page string) map[string]string {
	out := map[string]string{}
	for _, row := range regexp.MustCompile(`(?m)^\| \[(.+)\] +\| (Yes|No) `).FindAllStringSubmatch(page, -1) {
		out[squeeze(row[1])] = strings.ToLower(row[2])
	}
	return out
}

func squeeze(name string) string { return strings.NewReplacer("`", "", " ", "").Replace(name) }

// row is a row of docs/development/contract.md.
type row struct{ rule, mandatory, where, test string }

// table returns the rows of the section of docs/development/contract.md on a page.
func table(t *testing.T, page string) []row {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(root, "docs", "development", "contract.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(content), "\n## "+page+"\n")
	g.Expect(found).To(BeTrue(), page)
	section, _, _ = strings.Cut(section, "\n## ")
	var rows []row
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != 4 || strings.Contains(line, "---") || strings.HasPrefix(line, "| rule |") {
			continue
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, row{cells[0], cells[1], cells[2], cells[3]})
	}
	return rows
}

var quoted = regexp.MustCompile("`([^`]+)`")

func names(cell string) []string {
	var out []string
	for _, found := range quoted.FindAllStringSubmatch(cell, -1) {
		out = append(out, found[1])
	}
	return out
}

// suite returns the names of the rules that the suite shows: the first fields of its elements of rules.
func suite(t *testing.T) []string {
	t.Helper()
	g := NewWithT(t)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("rules", "contract_test.go"), nil, 0)
	g.Expect(err).NotTo(HaveOccurred())
	var out []string
	ast.Inspect(file, func(n ast.Node) bool {
		list, ok := n.(*ast.CompositeLit)
		if !ok || len(list.Elts) != 2 {
			return true
		}
		name, isName := list.Elts[0].(*ast.BasicLit)
		if _, isMethod := list.Elts[1].(*ast.SelectorExpr); isName && isMethod {
			text, err := strconv.Unquote(name.Value)
			g.Expect(err).NotTo(HaveOccurred())
			out = append(out, text)
		}
		return true
	})
	g.Expect(len(out)).To(BeNumerically(">", 40))
	return out
}

// exists is true for a test named by its package's folder, like controllers/boot.TestLeases.
func exists(t *testing.T, name string) bool {
	t.Helper()
	folder, test, found := strings.Cut(name, ".")
	if !found {
		return false
	}
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return slices.ContainsFunc(files, func(path string) bool {
		content, err := os.ReadFile(path)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return bytes.Contains(content, []byte("\nfunc "+test+"(t *testing.T)"))
	})
}

const doesNotApply = "does not apply: "

// check returns what is wrong with a row, of a rule that is as mandatory as the book says ("" where it does not), while the suite shows some tests. Of a page
// that is implemented, every mandatory rule applies.
func (r row) check(t *testing.T, mandatory string, implemented bool, shown []string) (wrong []string) {
	t.Helper()
	if r.mandatory != "yes" && r.mandatory != "no" || mandatory != "" && mandatory != r.mandatory {
		wrong = append(wrong, fmt.Sprintf("mandatory is %q", r.mandatory))
	}
	if reason, without := strings.CutPrefix(r.test, doesNotApply); without {
		if reason == "" || implemented && r.mandatory == "yes" {
			wrong = append(wrong, "a rule that does not apply needs a reason, and must not be mandatory")
		}
		return wrong
	}
	if len(names(r.where)) == 0 || len(names(r.test)) == 0 {
		wrong = append(wrong, "name where it is implemented, and its test")
	}
	for _, path := range names(r.where) {
		if _, err := os.Stat(filepath.Join(root, path)); err != nil {
			wrong = append(wrong, err.Error())
		}
	}
	for _, name := range names(r.test) {
		if !slices.Contains(shown, name) && !exists(t, name) {
			wrong = append(wrong, fmt.Sprintf("there is no test %q", name))
		}
	}
	return wrong
}

// TestTable: docs/development/contract.md lists every rule of the book, with the same obligation, and with existing files and tests.
func TestTable(t *testing.T) {
	shown := suite(t)
	for _, page := range pages {
		text := book(t, page)
		want, rules := mandatory(text), headings(text)
		var listed []string
		for _, r := range table(t, page) {
			listed = append(listed, r.rule)
			for _, wrong := range r.check(t, want[squeeze(r.rule)], !slices.Contains(notImplemented, page), shown) {
				t.Errorf("%s: %s: %s", page, r.rule, wrong)
			}
		}
		NewWithT(t).Expect(listed).To(ConsistOf(rules), "the rules of %s are those of the book", page)
	}
}

// TestAllListed: docs/development/contract.md lists every test of the suite.
func TestAllListed(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(root, "docs", "development", "contract.md"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for _, name := range suite(t) {
		if !bytes.Contains(content, []byte("`"+name+"`")) {
			t.Errorf("docs/development/contract.md does not name %q", name)
		}
	}
}

// TestElsewhere: the tests that make use of rights that the suite has no use for are there.
func TestElsewhere(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join("rules", "audit_test.go"))
	g.Expect(err).NotTo(HaveOccurred())
	found := regexp.MustCompile(`"([a-z/]+\.Test\w+)"`).FindAllSubmatch(content, -1)
	g.Expect(found).NotTo(BeEmpty())
	for _, name := range found {
		g.Expect(exists(t, string(name[1]))).To(BeTrue(), string(name[1]))
	}
}
