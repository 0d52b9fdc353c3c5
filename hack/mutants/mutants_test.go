package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	// Go runs the mutants again if one of the packages that these import has changed.
	_ "github.com/capbm-io/cluster-api-provider-baremetal/bmc/ipmi"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/shard"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

// root is the project's folder.
const root = "../.."

// target is a package with its mutants.
type target struct {
	folder string
	// runs are the arguments of the package's tests, one run after the other, until one fails. Without runs, all tests run at once.
	runs    []string
	mutants []mutant
}

// targets returns the packages that are changed.
func targets() []target {
	return slices.Concat(lifecycleTargets, bmcTargets, bootTargets, agentTargets, guardTargets)
}

// TestPlaces finds the place of each mutant, and type-checks the package with it.
func TestPlaces(t *testing.T) {
	seen := map[string]bool{}
	var folders []string
	all := slices.Concat(targets(), specTargets)
	for _, target := range all {
		folders = append(folders, "./"+target.folder)
	}
	imported := importsOf(t, folders)
	for _, target := range all {
		t.Run(target.folder, func(t *testing.T) {
			checked, err := newPackage(target.folder, imported)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range target.mutants {
				if seen[m.name] {
					t.Errorf("two mutants have the name %q", m.name)
				}
				seen[m.name] = true
				if err := checked.check(m); err != nil {
					t.Errorf("%s: %v", m, err)
				}
			}
		})
	}
}

func (m mutant) String() string {
	return fmt.Sprintf("mutant %q in %s:\n\t%s\nbecomes\n\t%s\n", m.name, m.in, m.old, m.new)
}

// load reads the package in a folder. It reads the tests, too: then Go knows that a stored result of a mutant is outdated.
func load(folder string) (*code, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		return nil, err
	}
	texts := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if !strings.HasSuffix(path, "_test.go") {
			texts[filepath.Base(path)] = string(text)
		}
	}
	return read(texts)
}

// typed is a package for the type checker.
type typed struct {
	*code
	files     map[string]*ast.File
	headers   map[string]*ast.File // files without the bodies of their functions
	positions *token.FileSet
	imported  types.Importer
}

func newPackage(folder string, imported types.Importer) (*typed, error) {
	c, err := load(filepath.Join(root, folder))
	if err != nil {
		return nil, err
	}
	here, err := build.ImportDir(filepath.Join(root, folder), 0) // without files for other systems
	if err != nil {
		return nil, err
	}
	p := &typed{code: c, files: map[string]*ast.File{}, headers: map[string]*ast.File{}, positions: token.NewFileSet(), imported: imported}
	for _, name := range here.GoFiles {
		if p.files[name], err = parser.ParseFile(p.positions, name, c.texts[name], parser.SkipObjectResolution); err != nil {
			return nil, err
		}
		p.headers[name] = header(p.files[name])
	}
	return p, nil
}

// header returns a copy of a file without the bodies of its functions.
func header(file *ast.File) *ast.File {
	without := *file
	without.Decls = slices.Clone(file.Decls)
	for i, d := range without.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			declared := *f
			declared.Body = nil
			without.Decls[i] = &declared
		}
	}
	return &without
}

// outline returns the text of a file without the bodies of its functions.
func (p *typed) outline(file *ast.File, text string) string {
	var out strings.Builder
	end := 0
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Body != nil {
			out.WriteString(text[end:p.positions.Position(f.Body.Lbrace).Offset])
			end = p.positions.Position(f.Body.Rbrace).Offset
		}
	}
	return out.String() + text[end:]
}

// check finds the place of a mutant, and reports whether the package with it is valid. If it changes nothing but the body of a function, the bodies in other files are as valid as
// before. Checking them for each mutant took 20 times as long.
func (p *typed) check(m mutant) error {
	name, text, err := p.change(m)
	if err != nil {
		return err
	}
	changed, err := parser.ParseFile(p.positions, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	others := p.files
	if p.outline(changed, text) == p.outline(p.files[name], p.texts[name]) {
		others = p.headers
	}
	files := []*ast.File{changed}
	for other, file := range others {
		if other != name {
			files = append(files, file)
		}
	}
	var invalid error
	conf := &types.Config{Importer: p.imported, Error: func(err error) {
		var at types.Error
		unused := errors.As(err, &at) && at.Soft && p.positions.File(at.Pos) != p.positions.File(changed.Pos()) // an import that only bodies use
		if invalid == nil && !unused {
			invalid = err
		}
	}}
	_, _ = conf.Check("p", p.positions, files, nil)
	return invalid
}

// TestCheck: check accepts a valid mutant, and refuses one that the compiler would refuse.
func TestCheck(t *testing.T) {
	p, err := newPackage("hack/shard", importsOf(t, []string{"./hack/shard"}))
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ m, refused string }{
		{"return Of(name) == n", ""},
		{"return Of(name, value) == n", "too many arguments"},
		{"return Unset(name)", "too many arguments"}, // of another file
		{"unused := Of(name); return n == 0", "declared and not used"},
		{"return fmt.Nothing()", "undefined"},
	} {
		err := p.check(mutant{name: test.m, in: "Selected", old: "return Of(name) == n", new: test.m})
		if test.refused == "" && err != nil || test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
			t.Errorf("%s: got %v, want %q", test.m, err, test.refused)
		}
	}
}

// importsOf returns the types of all packages that those in the folders import, as the compiler wrote them.
func importsOf(t *testing.T, folders []string) types.Importer {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}, folders...)...)
	list.Dir = root
	out, err := list.Output()
	if err != nil {
		t.Fatalf("%v: %v", list, err)
	}
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	return importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
}

// TestMutants expects that the tests of each package fail with each of its mutants. SHARD selects a tenth of them, MUTANTS those with a part of a name.
func TestMutants(t *testing.T) {
	parts := os.Getenv("MUTANTS")
	if parts == "" && os.Getenv("SHARD") == "" {
		// go test ./... must not take hours: make mutants-full sets MUTANTS, and .ci/nightly runs it.
		t.Skip(`it builds a package for each mutant: run SHARD=0 go test -v ./hack/mutants, or MUTANTS="part of a name,another part", or MUTANTS=all`) // an hour for all: go test ./... stays quick
	}
	for _, target := range targets() {
		t.Run(target.folder, func(t *testing.T) { target.test(t, parts) })
	}
}

func (p target) test(t *testing.T, parts string) { //nolint:thelper // the test itself
	c, err := load(filepath.Join(root, p.folder))
	if err != nil {
		t.Fatal(err)
	}
	noticed, err := readNoticed()
	if err != nil {
		t.Fatal(err)
	}
	if parts == "all" {
		t.Run("unchanged", func(t *testing.T) {
			if test := p.try(t, "", "", p.noticed(noticed)); test != "" {
				t.Fatalf("%s fails without a mutant, so failures with mutants prove nothing", test)
			}
		})
	}
	for _, m := range p.mutants {
		if !selected(m.name, parts) {
			continue
		}
		t.Run(m.name, func(t *testing.T) {
			file, text, err := c.change(m)
			if err != nil {
				t.Fatalf("%s: %v", m, err)
			}
			var first []string
			if test := noticed[m.name]; test != "" {
				first = append(first, test)
			}
			test := p.try(t, file, text, first)
			if test == "" {
				t.Fatalf("no test fails with %s", m)
			}
			t.Logf("%s fails (%s)", test, file)
			if !strings.HasPrefix(test, notATest) {
				if err := writeNoticed(m.name, test); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// selected reports whether this run has a mutant. MUTANTS has parts of names, as in "replayed,MAC".
func selected(name, parts string) bool {
	if parts == "" || parts == "all" {
		return shard.Selected(name)
	}
	return slices.ContainsFunc(strings.Split(parts, ","), func(part string) bool { return strings.Contains(name, part) })
}

// try builds the tests of the package with another text of a file, and runs them, some first and alone. It returns the first test that fails. The folder stays unchanged.
func (p target) try(t *testing.T, file, text string, first []string) (failed string) {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join(root, p.folder))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	binary := filepath.Join(dir, "package.test")
	args := []string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", binary}
	if file != "" {
		args = append(args, "-overlay", overlay(t, dir, filepath.Join(folder, file), text))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "go", append(args, folder)...).CombinedOutput(); err != nil {
		t.Fatalf("it does not compile: %v\n%s", err, out)
	}
	runs := append(slices.Clone(p.runs), make([]string, max(0, 1-len(p.runs)))...)
	for i, test := range first {
		runs = slices.Insert(runs, i, p.alone(test))
	}
	for _, flags := range runs {
		run := exec.CommandContext(ctx, binary, append(strings.Fields(flags), "-test.failfast", "-test.timeout=5m")...)
		run.Dir = folder
		run.Env = append(os.Environ(), "SEED=1") // whether a property notices must not depend on chance
		out, err := run.CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err == nil:
		case ctx.Err() != nil || !errors.As(err, &exit):
			t.Fatalf("it did not end: %v\n%s", err, out[max(0, len(out)-2000):])
		default:
			return firstFailed(string(out))
		}
	}
	return ""
}

// overlay writes a file that tells Go to read another text instead of a file.
func overlay(t *testing.T, dir, path, text string) string {
	t.Helper()
	changed, overlay := filepath.Join(dir, filepath.Base(path)), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{changed: []byte(text), overlay: replace} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}

// notATest begins the result of a mutant that no single test noticed.
const notATest = "a panic or a timeout: "

var failedTest = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)

func firstFailed(out string) string {
	if found := failedTest.FindStringSubmatch(out); found != nil {
		return found[1]
	}
	return notATest + out[max(0, len(out)-200):]
}
