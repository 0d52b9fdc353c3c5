// Package laws_test checks rules of this repository that neither the compiler nor a linter knows. .golangci.yml has those that a linter
// knows: which package may import which, and how long functions and files may be.
package laws_test

import (
	"cmp"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/capbm-io/cluster-api-provider-baremetal"

// forTests is true for a package that is made for tests, such as bmc/bmctest.
func forTests(folder string) bool { return strings.HasSuffix(path.Base(folder), "test") }

// TestManagerHoldsNoEmulator: the manager depends on no package that is made for tests, directly or indirectly.
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
		if forTests(folder) || strings.HasPrefix(folder, "hack/") {
			t.Errorf("cmd/manager depends on %s", folder)
		}
		for _, f := range folders[folder] {
			if !f.isTest() {
				todo = append(todo, f.ours()...)
			}
		}
	}
	if len(seen) == 1 {
		t.Error("cmd/manager imports no package of this module: this test reads the wrong folder")
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

// TestCRDsPassClusterctl: clusterctl replaces variables in what it installs, also in validation rules.
func TestCRDsPassClusterctl(t *testing.T) {
	crds, err := filepath.Glob("config/crd/bases/*.yaml")
	more, err2 := filepath.Glob("config/bootstrap/crd/bases/*.yaml")
	if err := errors.Join(err, err2); err != nil || len(crds) == 0 || len(more) == 0 {
		t.Fatalf("found no CRDs: %v", err)
	}
	crds = append(crds, more...)
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

// TestLoggers: a program that uses the client of controller-runtime sets a logger. Without one controller-runtime prints a stack trace after 30 s, in the middle
// of the output.
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
		t.Errorf("%d programs use the client of controller-runtime: this test reads the wrong folders", checked)
	}
}

// reaches is true when a package imports another, itself or through packages of this module.
func reaches(folders map[string][]file, folder, imported string, seen map[string]bool) bool {
	if seen[folder] {
		return false
	}
	seen[folder] = true
	return slices.ContainsFunc(folders[folder], func(f file) bool {
		if f.isTest() {
			return false
		}
		return f.imports(imported) || slices.ContainsFunc(f.ours(), func(to string) bool { return reaches(folders, to, imported, seen) })
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

// TestPurePackages: packages that make test runs without the race detector (PURE) have nothing for it to find: no goroutines and no locks.
// A benchmark may have goroutines, which no test runs, and a package for tests may have locks for those of other packages.
func TestPurePackages(t *testing.T) {
	list := regexp.MustCompile(`(?m)^PURE := ((?:.*\\\n)*.*)$`).FindStringSubmatch(readPage(t, "Makefile"))
	if list == nil {
		t.Fatal("the Makefile has no list PURE")
	}
	expanded := regexp.MustCompile(`\$\(addprefix ([^,]+),([^)]+)\)`).ReplaceAllStringFunc(list[1], func(call string) string {
		prefix, names, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(call, "$(addprefix "), ")"), ",")
		return prefix + strings.Join(strings.Fields(names), " "+prefix)
	})
	pure := strings.Fields(strings.ReplaceAll(expanded, "\\\n", " "))
	folders, checked := goFiles(t), 0
	for folder, files := range folders {
		if forTests(folder) || !slices.ContainsFunc(pure, func(pattern string) bool { return matches(pattern, folder) }) {
			continue
		}
		checked++
		for _, f := range files {
			if f.imports("sync") || f.calls("Go") || !f.isTest() && f.startsGoroutine() {
				t.Errorf("%s has a lock or a goroutine: take its package out of PURE in the Makefile", f.name)
			}
		}
	}
	if checked < 50 {
		t.Errorf("PURE has %d packages: this test reads the wrong list", checked)
	}
}

// matches is true when a pattern of the go command, such as ./bmc/..., matches a folder.
func matches(pattern, folder string) bool {
	tree, isTree := strings.CutSuffix(path.Clean(pattern), "/...")
	return folder == tree || isTree && strings.HasPrefix(folder, tree+"/")
}

func (f file) startsGoroutine() bool {
	found := false
	ast.Inspect(f.syntax, func(n ast.Node) bool {
		_, isGo := n.(*ast.GoStmt)
		found = found || isGo
		return !found
	})
	return found
}

// maxMethods is the maximum number of methods of a type. Each is a door into the same facts.
const maxMethods = 45

// TestMethodCounts: no type of the product, and of what emulates BMCs for its tests, has too many methods, and those of the lifecycle are counted. hack is for developers.
func TestMethodCounts(t *testing.T) {
	for folder, files := range goFiles(t) {
		if strings.HasPrefix(folder, "hack/") {
			continue
		}
		methods := map[string]int{}
		for _, f := range files {
			for _, d := range f.syntax.Decls {
				if function, ok := d.(*ast.FuncDecl); ok && function.Recv != nil && !f.isTest() {
					methods[strings.TrimPrefix(types.ExprString(function.Recv.List[0].Type), "*")]++
				}
			}
		}
		for of, n := range methods {
			if n > maxMethods {
				t.Errorf("%s of %s has %d methods, and a type has at most %d. Split it by what its facts are for; what makes a step or a sentence is a function", of, folder, n, maxMethods)
			}
		}
		if folder == "inventory/lifecycle" && methods["View"] == 0 {
			t.Error("View has no methods: this test reads the wrong files")
		}
	}
}

// TestSeeds: each package whose tests use rapid imports rapidtest, so a failure is reproducible and each change draws other values.
func TestSeeds(t *testing.T) {
	const library, seeds = "pgregory.net/rapid", "inventory/rapidtest"
	checked := 0
	for folder, files := range goFiles(t) {
		draws := slices.ContainsFunc(files, func(f file) bool { return f.isTest() && f.imports(library) })
		if !draws {
			continue
		}
		checked++
		if !slices.ContainsFunc(files, func(f file) bool { return f.isTest() && slices.Contains(f.ours(), seeds) }) {
			t.Errorf("the tests of %s use rapid: import %s/%s for its effect", folder, module, seeds)
		}
	}
	if checked < 20 {
		t.Errorf("%d packages use rapid: this test reads the wrong folders", checked)
	}
}

// imports is true if the file imports the package with this path.
func (f file) imports(imported string) bool {
	return slices.ContainsFunc(f.syntax.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == strconv.Quote(imported) })
}

// file is a Go file of this module, whatever its build constraints.
type file struct {
	name   string
	syntax *ast.File
}

func (f file) isTest() bool { return strings.HasSuffix(f.name, "_test.go") }

// ours returns the folders of the packages of this module that the file imports.
func (f file) ours() []string {
	var folders []string
	for _, i := range f.syntax.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			continue // the compiler reports it
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
		syntax, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		folder := filepath.ToSlash(filepath.Dir(name))
		folders[folder] = append(folders[folder], file{name: name, syntax: syntax})
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

// TestVersionsOfClusterAPI: hack/capi has the versions of go.mod of the modules that both have. Go compiles a package for both modules once only if all that it imports is the
// same, too: with other versions of k8s.io/utils and golang.org/x/net, make demo compiled nearly all of Kubernetes' libraries twice.
func TestVersionsOfClusterAPI(t *testing.T) {
	ours, shared := modules(t, "go.mod"), 0
	for name, version := range modules(t, "hack/capi/go.mod") {
		if ours[name] == "" {
			continue
		}
		shared++
		if version != ours[name] {
			t.Errorf("hack/capi/go.mod has %s %s, and go.mod has %s: go -C hack/capi get %[1]s@%[3]s", name, version, ours[name])
		}
	}
	if shared < 50 {
		t.Errorf("only %d modules are in both", shared)
	}
}

// modules returns the versions of the modules that a go.mod requires.
func modules(t *testing.T, file string) map[string]string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, line := range regexp.MustCompile(`(?m)^\t(\S+) (v\S+)`).FindAllStringSubmatch(string(content), -1) {
		versions[line[1]] = line[2]
	}
	return versions
}
