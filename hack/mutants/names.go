package mutants

import (
	"go/ast"
	"go/token"
	"reflect"
)

// names compares an entry with the code. The names of local variables may differ, if each variable has one name in the entry and one in the code.
type names struct {
	local map[string]bool   // what the function declares
	today map[string]string // the names in the code by those in the entry
	entry map[string]string // the reverse
}

func newNames(local map[string]bool) names {
	return names{local, map[string]string{}, map[string]string{}}
}

// renamed reports whether a local variable has another name in the code than in the entry.
func (n names) renamed() bool {
	for entry, today := range n.today {
		if entry != today {
			return true
		}
	}
	return false
}

func (n names) same(entry, today string) bool {
	wanted, isKnown := n.today[entry]
	before, isTaken := n.entry[today]
	switch {
	case isKnown || isTaken:
		return wanted == today && before == entry
	case n.local[today]:
		n.today[entry], n.entry[today] = today, entry
		return true
	default:
		return entry == today
	}
}

// equal compares two syntax trees. Of positions, it only compares whether they are valid, because that of "..." decides what a call means.
func (n names) equal(entry, today reflect.Value) bool {
	if entry.Type() != today.Type() {
		return false
	}
	switch entry.Kind() {
	case reflect.Interface, reflect.Pointer:
		if entry.IsNil() || today.IsNil() {
			return entry.IsNil() && today.IsNil()
		}
		if same, ok := n.equalNames(entry.Interface(), today.Interface()); ok {
			return same
		}
		return n.equal(entry.Elem(), today.Elem())
	case reflect.Slice:
		for i := range min(entry.Len(), today.Len()) {
			if !n.equal(entry.Index(i), today.Index(i)) {
				return false
			}
		}
		return entry.Len() == today.Len()
	case reflect.Struct:
		for i := range entry.NumField() {
			if !n.equal(entry.Field(i), today.Field(i)) {
				return false
			}
		}
		return true
	default:
		if entry.Type() == reflect.TypeFor[token.Pos]() { // where something stands does not matter, only that it does
			return entry.IsZero() == today.IsZero()
		}
		return entry.Equal(today)
	}
}

// equalNames compares nodes that have names. It is not ok for other nodes. The name of a field or method is never that of a variable.
func (n names) equalNames(entry, today any) (same, ok bool) {
	switch a := entry.(type) {
	case *ast.Ident:
		b, ok := today.(*ast.Ident)
		return ok && n.same(a.Name, b.Name), true
	case *ast.SelectorExpr:
		b, ok := today.(*ast.SelectorExpr)
		return ok && a.Sel.Name == b.Sel.Name && n.equalNodes(a.X, b.X), true
	case *ast.KeyValueExpr:
		key, isName := a.Key.(*ast.Ident)
		if b, ok := today.(*ast.KeyValueExpr); ok && isName {
			other, ok := b.Key.(*ast.Ident)
			return ok && key.Name == other.Name && n.equalNodes(a.Value, b.Value), true
		}
	}
	return false, false
}

func (n names) equalNodes(entry, today ast.Node) bool {
	return n.equal(reflect.ValueOf(entry), reflect.ValueOf(today))
}

// localsOf returns the names that a function declares: its receiver, parameters, results, variables and labels.
func localsOf(declaration ast.Node) map[string]bool {
	local := map[string]bool{}
	ast.Inspect(declaration, func(n ast.Node) bool {
		for _, e := range declaredBy(n) {
			if name, ok := e.(*ast.Ident); ok && name.Name != "_" && n != declaration {
				local[name.Name] = true
			}
		}
		return true
	})
	return local
}

// declaredBy returns the names that a node declares, without those of nodes below it.
func declaredBy(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.Field:
		return expressions(n.Names)
	case *ast.ValueSpec:
		return expressions(n.Names)
	case *ast.LabeledStmt:
		return []ast.Expr{n.Label}
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			return n.Lhs
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			return []ast.Expr{n.Key, n.Value}
		}
	}
	return nil
}

func expressions(names []*ast.Ident) []ast.Expr {
	all := make([]ast.Expr, len(names))
	for i, name := range names {
		all[i] = name
	}
	return all
}
