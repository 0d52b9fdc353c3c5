package host

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
)

// TestOperationsDocs: every test that docs/operations.md names exists, and every annotation has a recipe.
func TestOperationsDocs(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile("../../docs/operations.md")
	g.Expect(err).NotTo(HaveOccurred())
	page := string(content)
	var tests strings.Builder
	for _, folder := range []string{".", "../machine", "../remediation", "../../inventory/lifecycle"} {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		g.Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			content, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			tests.Write(content)
		}
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(page, -1)
	g.Expect(len(named)).To(BeNumerically(">", 15))
	for _, name := range named {
		g.Expect(tests.String()).To(ContainSubstring("func "+name[1]+"("), "docs/operations.md names it")
	}
	page = strings.ReplaceAll(page, "$P", v1alpha1.GroupVersion.Group)
	for _, annotation := range []string{
		v1alpha1.DetachedAnnotation, v1alpha1.ReleaseUnfencedAnnotation, v1alpha1.RetryBMCAnnotation,
		v1alpha1.PowerOffProviderAnnotation, v1alpha1.PowerHoldPrefix, v1alpha1.ForcePowerHoldPrefix, v1alpha1.PowerCyclePrefix, v1alpha1.PowerOnPrefix,
	} {
		g.Expect(page).To(ContainSubstring(annotation))
	}
}

// otherReasons matches the comments of reasons that no condition of a host or remediation has.
var otherReasons = regexp.MustCompile(`^Reasons of (HostClaimed|Ready of a BareMetalMachineTemplate|FailureDomainsReady|ControlPlaneEndpointSet|KubeconfigAccepted|events)\b`)

// words returns the phases and reasons among the constants of a file of the API.
func words(g Gomega, name string) []string {
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	g.Expect(err).NotTo(HaveOccurred())
	var found []string
	for _, decl := range file.Decls {
		group, ok := decl.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST || otherReasons.MatchString(group.Doc.Text()) {
			continue
		}
		for _, spec := range group.Specs {
			constant, _ := spec.(*ast.ValueSpec)
			kind, _ := constant.Type.(*ast.Ident)
			if kind == nil && strings.HasPrefix(constant.Names[0].Name, "Reason") || kind != nil && slices.Contains([]string{"HostPhase", "RemediationPhase"}, kind.Name) {
				value, _ := constant.Values[0].(*ast.BasicLit)
				found = append(found, strings.Trim(value.Value, `"`))
			}
		}
	}
	return found
}

// TestWordsDocs: a table in the docs says what to do about every phase and reason of a host or remediation.
func TestWordsDocs(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../../api/v1alpha1/*.go")
	g.Expect(err).NotTo(HaveOccurred())
	var hosts, remediations []string
	for _, name := range files {
		if filepath.Base(name) == "remediation_types.go" {
			remediations = words(g, name)
		} else {
			hosts = append(hosts, words(g, name)...)
		}
	}
	g.Expect(hosts).To(ContainElements(string(v1alpha1.PhasePowerHold), string(v1alpha1.PhaseCleaning), v1alpha1.ReasonPowerHold, v1alpha1.ReasonBMCError, v1alpha1.ReasonReleasedUnfenced))
	g.Expect(remediations).To(ContainElements(string(v1alpha1.RemediationIdle), v1alpha1.ReasonTaintLeft))
	inTable(g, "operations.md", `(?s)\n## What Phase and Reason mean: what to do\n.*`, `(?m)^\|([^|]*)\|`, hosts)
	inTable(g, "remediation.md", `(?s)\n## What happens\n.*?\n## `, `(?m)^\|([^|]*\|[^|]*)\|`, remediations)
}

// inTable expects each of the words in the given cells of the tables in a part of a docs page.
func inTable(g Gomega, page, part, cells string, words []string) {
	content, err := os.ReadFile(filepath.Join("../../docs", page))
	g.Expect(err).NotTo(HaveOccurred())
	var table strings.Builder
	for _, row := range regexp.MustCompile(cells).FindAllStringSubmatch(regexp.MustCompile(part).FindString(string(content)), -1) {
		table.WriteString(row[1])
	}
	for _, word := range words {
		g.Expect(table.String()).To(ContainSubstring("`"+word+"`"), "docs/%s does not say what to do about it", page)
	}
}
