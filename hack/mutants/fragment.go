// Package mutants breaks packages of this project in one place at a time, and expects that the tests of the package fail.
package mutants

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
)

// list has nodes that are in a row in the syntax tree.
type list struct {
	nodes []ast.Node
	// separator is the operator or comma between the nodes. It is illegal between statements and clauses, where a line break is enough.
	separator token.Token
}

// fragment is a piece of Go without its surroundings: an expression, or consecutive elements of one list, such as statements, clauses of a switch,
// arguments, fields of a literal, or operands of && or ||.
type fragment struct {
	list
	text string
	base token.Pos // of the first byte of text
}

// frames are the surroundings in which the text of a fragment is valid Go: a literal, a function or a switch.
var frames = []struct{ before, after string }{
	{"package p; var _ = _{", "}"},
	{"package p; func _() {", "\n}"},
	{"package p; func _() { switch {", "\n} }"},
}

// parse reads the text of a fragment. An empty text is a fragment without nodes.
func parse(text string) (fragment, error) {
	var problem error
	for _, frame := range frames {
		file, err := parser.ParseFile(token.NewFileSet(), "", frame.before+text+frame.after, parser.SkipObjectResolution)
		if err == nil {
			base := file.FileStart + token.Pos(len(frame.before))
			return fragment{outermost(file, base, base+token.Pos(len(text))), text, base}, nil
		}
		problem = err
	}
	return fragment{}, fmt.Errorf("%q is not an expression, statements or clauses: %w", text, problem)
}

// outermost returns the first list between two positions. If it is a single expression with && or ||, it is the list of its operands.
func outermost(file *ast.File, from, to token.Pos) (found list) {
	ast.Inspect(file, func(n ast.Node) bool {
		if n == nil || len(found.nodes) > 0 {
			return false
		}
		for _, l := range below(n) {
			if l.nodes[0].Pos() >= from && l.nodes[len(l.nodes)-1].End() <= to {
				found = l
				return false
			}
		}
		return true
	})
	if len(found.nodes) == 1 {
		if l, ok := operandsOf(found.nodes[0]); ok {
			return l
		}
	}
	return found
}

// operandsOf returns a, b and c of "a && b && c", which the syntax tree has as "(a && b) && c".
func operandsOf(n ast.Node) (list, bool) {
	top, ok := n.(*ast.BinaryExpr)
	if !ok || top.Op != token.LAND && top.Op != token.LOR {
		return list{}, false
	}
	left := []ast.Node{top.X}
	if l, ok := operandsOf(top.X); ok && l.separator == top.Op {
		left = l.nodes
	}
	return list{append(left, top.Y), top.Op}, true
}

// below returns what is directly below a node: each field that has a node, as a list of one, and each field that has several.
func below(n ast.Node) []list {
	if l, ok := operandsOf(n); ok {
		return []list{l}
	}
	if branch, ok := n.(*ast.IfStmt); ok && branch.Init != nil { // an entry has "err := f(); err != nil" as two statements
		header := list{nodes: []ast.Node{branch.Init, &ast.ExprStmt{X: branch.Cond}}}
		return append(below(&ast.IfStmt{Body: branch.Body, Else: branch.Else}), header)
	}
	var all []list
	for _, field := range reflect.ValueOf(n).Elem().Fields() {
		if child, ok := field.Interface().(ast.Node); ok && !field.IsNil() {
			all = append(all, list{nodes: []ast.Node{child}})
		}
		if l := listOf(field); len(l.nodes) > 0 {
			all = append(all, l)
		}
	}
	return all
}

// listOf returns the nodes in a field of a node that is a slice.
func listOf(field reflect.Value) list {
	var l list
	if field.Kind() != reflect.Slice {
		return l
	}
	for i := range field.Len() {
		if n, ok := field.Index(i).Interface().(ast.Node); ok {
			l.nodes = append(l.nodes, n)
		}
	}
	if _, ok := field.Interface().([]ast.Expr); ok {
		l.separator = token.COMMA
	}
	return l
}

// rename returns the text of the fragment with the names that local variables have today.
func (f fragment) rename(today map[string]string) string {
	text, shift := f.text, 0
	for _, n := range f.nodes {
		variables(n, func(i *ast.Ident) {
			if name, ok := today[i.Name]; ok {
				at := int(i.Pos()-f.base) + shift
				text = text[:at] + name + text[at+len(i.Name):]
				shift += len(name) - len(i.Name)
			}
		})
	}
	return text
}

// variables calls visit for each identifier that can be that of a variable, in the order of the text. Names of fields and methods cannot.
func variables(n ast.Node, visit func(*ast.Ident)) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			visit(n)
		case *ast.SelectorExpr:
			variables(n.X, visit)
			return false
		case *ast.KeyValueExpr:
			if _, isName := n.Key.(*ast.Ident); isName {
				variables(n.Value, visit)
				return false
			}
		}
		return true
	})
}
