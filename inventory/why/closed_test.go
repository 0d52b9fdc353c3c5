package why

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// kindsOfReasons are the kinds whose conditions have the reasons of a group of constants, by the start of the group's comment. All other groups are
// reasons of a BareMetalHost.
var kindsOfReasons = []struct {
	comment *regexp.Regexp
	kinds   []string
}{
	{regexp.MustCompile(`^Reasons of HostClaimed and Deleting, and of ControlPlaneEndpointSet`), []string{KindBareMetalMachine, KindBareMetalCluster}},
	{regexp.MustCompile(`^Reasons of HostClaimed`), []string{KindBareMetalMachine}},
	{regexp.MustCompile(`^Reasons of Ready of a BareMetalMachineTemplate`), []string{KindMachineTemplate}},
	{regexp.MustCompile(`^Reasons of Ready of a BareMetalProfile`), []string{KindProfile}},
	{regexp.MustCompile(`^Reasons of (FailureDomainsReady|ControlPlaneEndpointSet|KubeconfigAccepted)`), []string{KindBareMetalCluster}},
	{regexp.MustCompile(`^Reasons of DataSecretAvailable`), []string{KindConfig}},
	{regexp.MustCompile(`^Reasons of events`), nil},
}

// words returns the phases and reasons among the constants of a file of the API, each with the kinds that have it. Other reasons than those in
// kindsOfReasons are the kind's in other.
func words(g Gomega, name, other string) map[string][]string {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	g.Expect(err).NotTo(HaveOccurred())
	found := map[string][]string{}
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		kinds := []string{other}
		for _, k := range kindsOfReasons {
			if k.comment.MatchString(group.Doc.Text()) {
				kinds = k.kinds
				break
			}
		}
		for _, spec := range group.Specs {
			constant, _ := spec.(*ast.ValueSpec)
			kind, _ := constant.Type.(*ast.Ident)
			if kind == nil && strings.HasPrefix(constant.Names[0].Name, "Reason") || kind != nil && slices.Contains([]string{"HostPhase", "RemediationPhase"}, kind.Name) {
				value, _ := constant.Values[0].(*ast.BasicLit)
				found[strings.Trim(value.Value, `"`)] = kinds
			}
		}
	}
	return found
}

// TestClosedSet: every phase and reason of the API has one row of its kind, and every row is a phase or reason of the API. docs/reference/conditions.md has a table row for
// each; that its rows are those of the table is tested in hack/docs.
func TestClosedSet(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../../api/*/*.go")
	g.Expect(err).NotTo(HaveOccurred())
	more, err := filepath.Glob("../../api/bootstrap/*/*.go")
	g.Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile("../../docs/reference/conditions.md")
	g.Expect(err).NotTo(HaveOccurred())
	page, known, count := string(content), map[string]bool{}, map[string]int{}
	for _, name := range append(files, more...) {
		other := KindHost
		switch filepath.Base(name) {
		case "remediation_types.go":
			other = KindRemediation
		case "erasurerequest_types.go":
			other = KindErasureRequest
		}
		for word, kinds := range words(g, name, other) {
			if word == v1alpha1.ReasonRemediationFailed { // the reason of a quarantine
				kinds = []string{KindHost}
			}
			known[word] = true
			var inAny strings.Builder
			for _, kind := range kinds {
				count[kind]++
				inAny.WriteString(cells(g, page, kind))
			}
			if len(kinds) > 0 {
				g.Expect(inAny.String()).To(ContainSubstring("`"+word+"`"), "docs/reference/conditions.md has no row for it under %v", kinds)
				g.Expect(slices.ContainsFunc(kinds, func(kind string) bool { return hasRow(kind, word) })).To(BeTrue(), "%s of %v has no row", word, kinds)
			}
		}
	}
	for kind, least := range map[string]int{
		KindHost: 90, KindBareMetalMachine: 8, KindBareMetalCluster: 8, KindRemediation: 12, KindConfig: 13, KindMachineTemplate: 2, KindErasureRequest: 6,
		KindProfile: 5,
	} {
		g.Expect(count[kind]).To(BeNumerically(">=", least), "the phases and reasons of a %s", kind)
	}
	checkRows(t, known)
}

// hasRow is true for a word with a row of its kind. The phases of a remediation have no row: they are the first column of its table.
func hasRow(kind, reason string) bool {
	_, ok := Lookup(kind, reason)
	isPhase := kind == KindRemediation && slices.Contains([]v1alpha1.RemediationPhase{v1alpha1.RemediationIdle, v1alpha1.RemediationWaiting}, v1alpha1.RemediationPhase(reason))
	return ok || isPhase
}

// checkRows checks that each row is complete, and stands once for its kind.
func checkRows(t *testing.T, known map[string]bool) {
	t.Helper()
	g := NewWithT(t)
	seen := map[word]string{}
	for _, table := range Tables() {
		for _, row := range table.Rows {
			of := table.Kind + " " + row.Reason
			g.Expect(known).To(HaveKey(row.Reason), "the API does not have the reason of %s", of)
			g.Expect(seen).NotTo(HaveKey(word{table.Kind, row.Reason}), "%s has a row in %s already", of, seen[word{table.Kind, row.Reason}])
			seen[word{table.Kind, row.Reason}] = table.ID
			g.Expect(row.Means).NotTo(BeEmpty(), of)
			g.Expect(row.Lead == "").To(Equal(table.Lead == ""), of) //nolint:ginkgolinter // both or none
			g.Expect(row.Means+row.Do+row.Cause).NotTo(MatchRegexp(`\.$|  |\n`), of)
			switch row.State {
			case Done:
				g.Expect([]string{row.Do, row.Cause, string(row.Next)}).To(HaveEach(Or(BeEmpty(), ContainSubstring("kubectl baremetal"), ContainSubstring("bmcctl"), HavePrefix("[Move"))), "nothing is to be done for %s", of)
				g.Expect(row.Usual).To(BeZero(), of)
			case Waits, Fault:
				g.Expect(row.Next).NotTo(BeEmpty(), of)
				g.Expect(string(row.Next)).NotTo(MatchRegexp(" end | annotate "), "the cause of %s may not be removed yet", of)
				if _, isStage := lifecycle.AwaitedFor(nil, row.Reason); !isStage {
					g.Expect(row.Cause).NotTo(BeEmpty(), of)
				}
			default:
				t.Errorf("%s has the state %q", of, row.State)
			}
		}
	}
	for _, reason := range wire.AgentFailureReasons {
		g.Expect(hasRow(KindHost, reason)).To(BeTrue(), reason)
	}
}

// cells returns the first two cells of all rows of the tables in the section of a kind.
func cells(g Gomega, page, kind string) string {
	_, section, found := strings.Cut(page, "\n## "+kind+"\n")
	g.Expect(found).To(BeTrue(), "docs/reference/conditions.md has no section %s", kind)
	section, _, _ = strings.Cut(section, "\n## ")
	var all strings.Builder
	for _, row := range regexp.MustCompile(`(?m)^\|([^|]*\|[^|]*)\|`).FindAllStringSubmatch(section, -1) {
		all.WriteString(row[1])
	}
	return all.String()
}
