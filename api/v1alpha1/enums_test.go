package v1alpha1_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

var enumMarker = regexp.MustCompile(`\+kubebuilder:validation:Enum=(\S+)`)

// TestEnums: a type with constants has a validation enum of all of them. So the API server refuses other values, and kubectl explain lists the valid ones.
func TestEnums(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob("*_types.go")
	g.Expect(err).NotTo(HaveOccurred())
	shared, err := filepath.Glob("../wire/*.go")
	g.Expect(err).NotTo(HaveOccurred())
	allowed, constants := map[string][]string{}, map[string][]string{}
	for _, name := range append(files, shared...) {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		g.Expect(err).NotTo(HaveOccurred())
		for _, d := range file.Decls {
			declaration, ok := d.(*ast.GenDecl)
			if !ok || declaration.Tok != token.CONST && declaration.Tok != token.TYPE {
				continue
			}
			for _, s := range declaration.Specs {
				switch spec := s.(type) {
				case *ast.TypeSpec:
					// Text leaves markers out, so the comments are read one by one.
					for _, comment := range declaration.Doc.List {
						if enum := enumMarker.FindStringSubmatch(comment.Text); enum != nil {
							allowed[spec.Name.Name] = strings.Split(strings.ReplaceAll(enum[1], `"`, ""), ";")
						}
					}
				case *ast.ValueSpec:
					if kind, ok := spec.Type.(*ast.Ident); ok {
						value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
						g.Expect(err).NotTo(HaveOccurred())
						constants[kind.Name] = append(constants[kind.Name], value)
					}
				}
			}
		}
	}
	g.Expect(constants).To(And(HaveKey("HostPhase"), HaveKey("ErasePolicy")))
	for kind, values := range constants {
		g.Expect(allowed[kind]).To(ConsistOf(values), "the enum of %s", kind)
	}
}
