// Package laws_test keeps the laws of this repository, which no compiler knows: which package may import which, that every
// package says what it is for, and that functions and files stay small enough to be read at once.
package laws_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/capbm-io/cluster-api-provider-baremetal"

// What a person reads at once.
const (
	maxFunctionLines = 60
	maxFileLines     = 400
)

// arrows tells for each area, the first folder of a package's path, which areas it may import.
var arrows = map[string][]string{
	"api":         {},
	"inventory":   {"api", "inventory"},
	"bmc":         {"bmc"},
	"pxe":         {"pxe"},
	"controllers": {"api", "inventory", "bmc", "pxe", "controllers"},
	"cmd":         {"api", "inventory", "bmc", "pxe", "controllers", "cmd"},
	"hack":        {"api", "inventory", "bmc", "pxe", "controllers", "cmd", "hack"},
}

// shared are packages that bmc and pxe use, which import nothing else of ours outside their own folder.
var shared = []string{"inventory/outbound", "inventory/slots"}

// forbidden says why a package must not import another, both given by their folder, or returns "". inTest is true for an
// import in a _test.go file.
func forbidden(from, to string, inTest bool) string {
	area, target := areaOf(from), areaOf(to)
	allowed, known := arrows[area]
	switch {
	case from == "." || inTest && slices.Contains([]string{"api", "controllers", "cmd", "hack"}, area):
		return "" // these are tested against a whole: an API server, an emulated rack
	case !known:
		return "the folder " + area + " is new here: give it its arrows"
	case slices.Contains(shared, to) && (area == "bmc" || area == "pxe"):
		return ""
	case slices.Contains(shared, from) && target != "inventory":
		return from + " is for bmc and pxe too: it imports nothing of ours"
	case !slices.Contains(allowed, target):
		return area + " may import only " + strings.Join(append([]string{"the libraries"}, allowed...), ", ")
	case forTests(to) && !inTest && !forTests(from) && area != "cmd" && area != "hack":
		return "only tests, cmd and hack may import what is made for tests"
	case area == "controllers" && target == "bmc" && to != "bmc" && !forTests(to):
		return "drivers are handed to the controllers by cmd"
	}
	return ""
}

func areaOf(folder string) string { return strings.Split(folder, "/")[0] }

// forTests is true for a package that is made for tests, such as bmc/bmctest.
func forTests(folder string) bool { return strings.HasSuffix(path.Base(folder), "test") }

// TestForbidden keeps the law itself from becoming toothless.
func TestForbidden(t *testing.T) {
	for _, c := range []struct {
		from, to  string
		inTest    bool
		forbidden bool
	}{
		{from: "cmd/manager", to: "controllers/host"},
		{from: "cmd/manager", to: "bmc/redfish"},
		{from: "cmd/bmcsim", to: "bmc/bmctest"},
		{from: "hack/lab", to: "pxe/pxetest"},
		{from: "cmd/manager", to: "hack/lab", forbidden: true},
		{from: "controllers/host", to: "inventory/lifecycle"},
		{from: "controllers/host", to: "bmc"},
		{from: "controllers/host", to: "bmc/redfish", forbidden: true},
		{from: "controllers/host", to: "bmc/redfish", inTest: true},
		{from: "controllers/host", to: "bmc/bmctest", forbidden: true},
		{from: "controllers/host", to: "controllers/controllerstest", forbidden: true},
		{from: "controllers/host", to: "controllers/controllerstest", inTest: true},
		{from: "controllers/boot", to: "pxe/pxetest", forbidden: true},
		{from: "controllers/controllerstest", to: "bmc/bmctest"},
		{from: "controllers/controllerstest", to: "bmc/redfish", forbidden: true},
		{from: "controllers/host", to: "cmd/manager", forbidden: true},
		{from: "inventory/claim", to: "api/v1alpha1"},
		{from: "inventory/claim", to: "bmc", forbidden: true},
		{from: "inventory/claim", to: "bmc", inTest: true, forbidden: true},
		{from: "bmc/redfish", to: "bmc"},
		{from: "bmc/redfish", to: "bmc/bmctest", inTest: true},
		{from: "bmc/redfish", to: "bmc/bmctest", forbidden: true},
		{from: "bmc", to: "api/v1alpha1", forbidden: true},
		{from: "pxe/pxetest", to: "pxe/dhcp"},
		{from: "pxe", to: "bmc", forbidden: true},
		{from: "bmc", to: "inventory/outbound"},
		{from: "pxe/artifact", to: "inventory/outbound"},
		{from: "pxe", to: "inventory/slots"},
		{from: "bmc", to: "inventory", forbidden: true},
		{from: "inventory/outbound", to: "bmc", forbidden: true},
		{from: "inventory/outbound", to: "api/v1alpha1", forbidden: true},
		{from: "pxe/dhcp", to: "api/v1alpha1", inTest: true, forbidden: true},
		{from: "api/v1alpha1", to: "inventory", forbidden: true},
		{from: "api/v1alpha1", to: "controllers/controllerstest", inTest: true},
		{from: "pkg/util", to: "api/v1alpha1", forbidden: true},
	} {
		if why := forbidden(c.from, c.to, c.inTest); (why != "") != c.forbidden {
			t.Errorf("%s -> %s (in a test: %v): forbidden should be %v, got %q", c.from, c.to, c.inTest, c.forbidden, why)
		}
	}
}

func TestImports(t *testing.T) {
	for folder, files := range goFiles(t) {
		for _, f := range files {
			for _, to := range f.ours() {
				if why := forbidden(folder, to, f.isTest()); why != "" {
					t.Errorf("%s imports %s: %s", f.name, to, why)
				}
			}
		}
	}
}

// TestManagerHoldsNoEmulator: what is made for tests must not reach the image by any way.
func TestManagerHoldsNoEmulator(t *testing.T) {
	folders := goFiles(t)
	seen := map[string]bool{}
	todo := []string{"cmd/manager"}
	for len(todo) > 0 {
		folder := todo[0]
		todo = todo[1:]
		if seen[folder] {
			continue
		}
		seen[folder] = true
		if forTests(folder) {
			t.Errorf("cmd/manager needs %s", folder)
		}
		for _, f := range folders[folder] {
			if !f.isTest() {
				todo = append(todo, f.ours()...)
			}
		}
	}
	if len(seen) == 1 {
		t.Error("cmd/manager needs no package of ours: this test looks at the wrong place")
	}
}

func TestPackageDocs(t *testing.T) {
	for folder, files := range goFiles(t) {
		onlyTests := !slices.ContainsFunc(files, func(f file) bool { return !f.isTest() })
		var with []string
		for _, f := range files {
			if f.syntax.Doc != nil && (onlyTests || !f.isTest()) {
				with = append(with, f.name)
			}
		}
		if len(with) != 1 {
			t.Errorf("%s: one file must have a package comment that says what the package is for, %d have: %s", folder, len(with), strings.Join(with, ", "))
		}
	}
}

func TestSizes(t *testing.T) {
	for _, files := range goFiles(t) {
		for _, f := range files {
			if !f.isTest() && !ast.IsGenerated(f.syntax) {
				checkSizes(t, f)
			}
		}
	}
}

func checkSizes(t *testing.T, f file) {
	t.Helper()
	if lines := f.lines(f.syntax.FileStart, f.syntax.FileEnd); lines > maxFileLines {
		t.Errorf("%s has %d lines: split it by subject, %d is the most", f.name, lines, maxFileLines)
	}
	for _, d := range f.syntax.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		if lines := f.lines(fn.Pos(), fn.End()); lines > maxFunctionLines {
			t.Errorf("%s: %s has %d lines: split it, %d is the most", f.name, fn.Name, lines, maxFunctionLines)
		}
	}
}

// TestCRDsPassClusterctl: clusterctl replaces variables in what it installs, also in validation rules.
func TestCRDsPassClusterctl(t *testing.T) {
	crds, err := filepath.Glob("config/crd/bases/*.yaml")
	if err != nil || len(crds) == 0 {
		t.Fatalf("found no CRDs: %v", err)
	}
	for _, name := range crds {
		content, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(content), "\n") {
			if strings.Contains(line, "${") || strings.Contains(line, "$$") {
				t.Errorf("%s:%d: clusterctl would replace a variable in %q: write [$][{]", name, n+1, strings.TrimSpace(line))
			}
		}
	}
}

// TestLoggers: a program that uses the client of controller-runtime gives it a logger. Without one controller-runtime prints a stack trace after 30 s into what
// the program tells people.
func TestLoggers(t *testing.T) {
	folders := goFiles(t)
	checked := 0
	for folder, files := range folders {
		if files[0].syntax.Name.Name != "main" || !reaches(folders, folder, "sigs.k8s.io/controller-runtime/pkg/client", map[string]bool{}) {
			continue
		}
		checked++
		if !slices.ContainsFunc(files, func(f file) bool { return !f.isTest() && f.calls("SetLogger") }) {
			t.Errorf("%s uses the client of controller-runtime: call ctrl.SetLogger first", folder)
		}
	}
	if checked < 3 {
		t.Errorf("%d programs use the client of controller-runtime: this test looks at the wrong place", checked)
	}
}

// reaches is true when a package imports another, itself or by packages of ours.
func reaches(folders map[string][]file, folder, imported string, seen map[string]bool) bool {
	if seen[folder] {
		return false
	}
	seen[folder] = true
	return slices.ContainsFunc(folders[folder], func(f file) bool {
		if f.isTest() {
			return false
		}
		direct := slices.ContainsFunc(f.syntax.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(imported) })
		return direct || slices.ContainsFunc(f.ours(), func(to string) bool { return reaches(folders, to, imported, seen) })
	})
}

// calls is true when the file calls a function of that name of another package.
func (f file) calls(name string) bool {
	found := false
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		if call, ok := n.(*ast.CallExpr); ok {
			selector, isSelector := call.Fun.(*ast.SelectorExpr)
			found = found || isSelector && selector.Sel.Name == name
		}
		return !found
	})
	return found
}

// file is a Go file of this module, whatever its build constraints.
type file struct {
	name   string
	set    *token.FileSet
	syntax *ast.File
}

func (f file) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

func (f file) lines(from, to token.Pos) int {
	return f.set.Position(to).Line - f.set.Position(from).Line + 1
}

// ours returns the folders of the packages of this module that the file imports.
func (f file) ours() []string {
	var folders []string
	for _, i := range f.syntax.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue // the compiler tells
		}
		if folder, ok := strings.CutPrefix(name, module+"/"); ok {
			folders = append(folders, folder)
		}
	}
	return folders
}

// goFiles returns the Go files of this module by folder. It parses them itself since `go list` leaves out files whose build
// constraints are not met. The modules nested under hack have their own rules.
func goFiles(t *testing.T) map[string][]file {
	t.Helper()
	folders := map[string][]file{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(name, "go.mod"))
			if name != "." && (err == nil || d.Name() == "testdata" || strings.ContainsAny(d.Name()[:1], "._")) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(name) != ".go" {
			return nil
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(name))
		folders[folder] = append(folders[folder], file{name: name, set: set, syntax: syntax})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, files := range folders {
		slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	}
	return folders
}
