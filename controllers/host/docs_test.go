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

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// docsPage returns a page of the documentation.
func docsPage(g Gomega, name string) string {
	content, err := os.ReadFile(filepath.Join("../../docs", name))
	g.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// TestOperationsDocs: every test that docs/development/operations-tests.md names exists, and the reference describes every annotation of a host.
func TestOperationsDocs(t *testing.T) {
	g := NewWithT(t)
	page := docsPage(g, "development/operations-tests.md")
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
		g.Expect(tests.String()).To(ContainSubstring("func "+name[1]+"("), "docs/development/operations-tests.md names it")
	}
	reference := docsPage(g, "reference/annotations.md")
	for _, annotation := range []string{
		v1alpha1.DetachedAnnotation, v1alpha1.ReleaseUnfencedAnnotation, v1alpha1.RetryBMCAnnotation, v1alpha1.ConfirmServerAnnotation,
		v1alpha1.SharedHardwareAnnotation, v1alpha1.PowerOffProviderAnnotation, v1alpha1.SettingsEndedAnnotation, v1alpha1.BlockMoveAnnotation, v1alpha1.DeleteForMoveAnnotation,
		v1alpha1.BMCHostsAnnotation, v1alpha1.ChosenHostAnnotation, v1alpha1.BMCSecretLabel, v1alpha1.MoveLabel, bootstrapv1.ValueSecretLabel,
		v1alpha1.PowerHoldPrefix + "KEY", v1alpha1.ForcePowerHoldPrefix + "KEY", v1alpha1.PowerCyclePrefix + "KEY", v1alpha1.PowerOnPrefix + "KEY",
	} {
		g.Expect(reference).To(ContainSubstring("| `"+annotation+"`"), "docs/reference/annotations.md does not describe it")
	}
}

// kindsOfReasons are the kinds whose conditions have the reasons of a group of constants, by the start of the group's comment. All other groups are
// reasons of a BareMetalHost.
var kindsOfReasons = []struct {
	comment *regexp.Regexp
	kinds   []string
}{
	{regexp.MustCompile(`^Reasons of HostClaimed and Deleting, and of ControlPlaneEndpointSet`), []string{"BareMetalMachine", "BareMetalCluster"}},
	{regexp.MustCompile(`^Reasons of HostClaimed`), []string{"BareMetalMachine"}},
	{regexp.MustCompile(`^Reasons of Ready of a BareMetalMachineTemplate`), []string{"BareMetalMachineTemplate"}},
	{regexp.MustCompile(`^Reasons of Ready of a BareMetalProfile`), []string{"BareMetalProfile"}},
	{regexp.MustCompile(`^Reasons of (FailureDomainsReady|ControlPlaneEndpointSet|KubeconfigAccepted)`), []string{"BareMetalCluster"}},
	{regexp.MustCompile(`^Reasons of DataSecretAvailable`), []string{"BareMetalConfig"}},
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

// TestWordsDocs: docs/reference/conditions.md has a row for every phase and reason of every kind.
func TestWordsDocs(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("../../api/*/*.go")
	g.Expect(err).NotTo(HaveOccurred())
	more, err := filepath.Glob("../../api/bootstrap/*/*.go")
	g.Expect(err).NotTo(HaveOccurred())
	page := docsPage(g, "reference/conditions.md")
	count := map[string]int{}
	for _, name := range append(files, more...) {
		other := "BareMetalHost"
		switch filepath.Base(name) {
		case "remediation_types.go":
			other = "BareMetalRemediation"
		case "erasurerequest_types.go":
			other = "BareMetalErasureRequest"
		}
		for word, kinds := range words(g, name, other) {
			if word == v1alpha1.ReasonRemediationFailed { // the reason of a quarantine
				kinds = []string{"BareMetalHost"}
			}
			var inAny strings.Builder
			for _, kind := range kinds {
				count[kind]++
				inAny.WriteString(cells(g, page, kind))
			}
			if len(kinds) > 0 {
				g.Expect(inAny.String()).To(ContainSubstring("`"+word+"`"), "docs/reference/conditions.md has no row for it under %v", kinds)
			}
		}
	}
	for kind, least := range map[string]int{
		"BareMetalHost": 90, "BareMetalMachine": 8, "BareMetalCluster": 8, "BareMetalRemediation": 12, "BareMetalConfig": 13, "BareMetalMachineTemplate": 2, "BareMetalErasureRequest": 6, "BareMetalProfile": 5,
	} {
		g.Expect(count[kind]).To(BeNumerically(">=", least), "the phases and reasons of a %s", kind)
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
