package mutants

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// mutant makes a package wrong in one place: old becomes new. Both are fragments.
type mutant struct {
	name string
	// in is the function, the method such as "View.Provisioned", or the variable or constant of the package that has the place.
	in string
	// old has the names of today or earlier ones of local variables. A clause without statements, as in "case v.Deleting:", is found with any statements.
	old string
	// new replaces old, or only the head if old is a clause without statements. If it is empty, old is removed, with its statements.
	new string
}

// code is a package without its tests.
type code struct {
	positions    *token.FileSet
	texts        map[string]string // by the names of the files
	declarations []declaration
}

// declaration is a function, method, variable or constant of a package.
type declaration struct {
	name  string
	node  ast.Node
	local map[string]bool
}

// place is where a mutant changes the code: consecutive nodes of a list.
type place struct {
	declaration
	list
	first, last int
	names       names
}

// read reads the files of a package.
func read(texts map[string]string) (*code, error) {
	c := &code{positions: token.NewFileSet(), texts: texts}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		file, err := parser.ParseFile(c.positions, name, texts[name], parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			c.declare(d)
		}
	}
	return c, nil
}

func (c *code) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			name = receiver(d.Recv.List[0].Type) + "." + name
		}
		c.declarations = append(c.declarations, declaration{name, d, localsOf(d)})
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				c.declarations = append(c.declarations, declaration{v.Names[0].Name, v, localsOf(v)})
			}
		}
	}
}

// receiver returns T of T, *T and T[P].
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	default:
		return ""
	}
}

// locate returns the only place of a fragment in a function. If the package does not have the function, because it was renamed, it is the only place in
// the package.
func (c *code) locate(in string, old fragment) (place, error) {
	within := slices.DeleteFunc(slices.Clone(c.declarations), func(d declaration) bool { return d.name != in })
	if len(within) == 0 {
		within = c.declarations
	}
	var found []place
	for _, d := range within {
		found = append(found, d.search(old)...)
	}
	// Other variables may be used in the same way, so a place with the names of the entry comes first.
	if exact := slices.DeleteFunc(slices.Clone(found), func(p place) bool { return p.names.renamed() }); len(exact) > 0 {
		found = exact
	}
	switch len(found) {
	case 0:
		return place{}, fmt.Errorf("no place has it, the nearest function is %s", c.nearest(within, old))
	case 1:
		return found[0], nil
	default:
		return place{}, fmt.Errorf("%d places have it, the first in %s", len(found), c.show(found[0].declaration))
	}
}

// search returns all places of a fragment in a declaration.
func (d declaration) search(f fragment) (found []place) {
	var visit func(list)
	visit = func(l list) {
		for at, n := range l.nodes {
			p := place{d, l, at, at + len(f.nodes) - 1, newNames(d.local)}
			if p.has(f) {
				found = append(found, p)
			}
			for _, child := range below(n) {
				visit(child)
			}
		}
	}
	visit(list{nodes: []ast.Node{d.node}})
	return found
}

func (p place) has(f fragment) bool {
	if p.last >= len(p.nodes) || len(f.nodes) > 1 && f.separator != p.separator {
		return false
	}
	for i, n := range f.nodes {
		today := p.nodes[p.first+i]
		if head, ok := headOf(n); ok {
			n = head
			if clause, ok := today.(*ast.CaseClause); ok {
				today = &ast.CaseClause{Case: clause.Case, List: clause.List, Colon: clause.Colon}
			}
		}
		if !p.names.equalNodes(n, today) {
			return false
		}
	}
	return true
}

// headOf returns a clause that has no statements.
func headOf(n ast.Node) (*ast.CaseClause, bool) {
	clause, ok := n.(*ast.CaseClause)
	return clause, ok && len(clause.Body) == 0
}

// nearest shows the declaration that has most of the names of a fragment.
func (c *code) nearest(declarations []declaration, f fragment) string {
	score := func(d declaration) (n int) {
		text := c.show(d)
		for _, node := range f.nodes {
			ast.Inspect(node, func(node ast.Node) bool {
				if name, ok := node.(*ast.Ident); ok && strings.Contains(text, name.Name) {
					n++
				}
				return true
			})
		}
		return n
	}
	return c.show(slices.MaxFunc(declarations, func(a, b declaration) int { return score(a) - score(b) }))
}

// show returns a declaration as it is in its file.
func (c *code) show(d declaration) string {
	from, to := c.positions.Position(d.node.Pos()), c.positions.Position(d.node.End())
	return fmt.Sprintf("%s (%s:%d):\n%s", d.name, from.Filename, from.Line, c.texts[from.Filename][from.Offset:to.Offset])
}

// change returns the name and the new text of the file that a mutant changes.
func (c *code) change(m mutant) (file, text string, err error) {
	old, err := parse(m.old)
	if err == nil && len(old.nodes) == 0 {
		err = errors.New("the entry does not say what changes")
	}
	if err != nil {
		return "", "", err
	}
	instead, err := parse(m.new)
	if err != nil {
		return "", "", err
	}
	p, err := c.locate(m.in, old)
	if err != nil {
		return "", "", err
	}
	from, to := p.bounds(old, instead)
	start, end := c.positions.Position(from), c.positions.Position(to)
	text = instead.rename(p.names.today)
	if isOperator(instead) {
		text = "(" + text + ")"
	}
	before := c.texts[start.Filename]
	return start.Filename, before[:start.Offset] + text + before[end.Offset:], nil
}

// bounds returns where the text begins and ends that is replaced.
func (p place) bounds(old, instead fragment) (from, to token.Pos) {
	from, to = p.nodes[p.first].Pos(), p.nodes[p.last].End()
	isRemoved := len(instead.nodes) == 0
	clause, isClause := p.nodes[p.last].(*ast.CaseClause)
	switch _, isHead := headOf(old.nodes[len(old.nodes)-1]); {
	case isHead && isClause && !isRemoved:
		to = clause.Colon + 1
	case !isRemoved || p.separator == token.ILLEGAL:
	case p.last+1 < len(p.nodes): // a comma or an operator is removed as well
		to = p.nodes[p.last+1].Pos()
	case p.first > 0:
		from = p.nodes[p.first-1].End()
	}
	return from, to
}

// isOperator reports whether a fragment is an expression that needs parentheses in another expression.
func isOperator(f fragment) bool {
	if len(f.nodes) == 1 {
		_, ok := f.nodes[0].(*ast.BinaryExpr)
		return ok
	}
	return f.separator == token.LAND || f.separator == token.LOR
}
