package usertemplate

import (
	"fmt"
	"reflect"
	"strings"
	"text/template/parse"
)

// work is what a template does, in nodes of its tree: about 50 ns each. The ranges are executed once for each element.
type work struct {
	nodes  int
	ranges []rangeWork
}

type rangeWork struct {
	path  []string // of what it ranges over
	nodes int      // of its body
}

// add adds a node and what is below it. body counts the nodes of the range that the node is in; nil outside of one.
func (w *work) add(node parse.Node, body *int) {
	if body == nil {
		body = &w.nodes
	}
	*body++
	switch n := node.(type) {
	case *parse.ListNode:
		for _, child := range n.Nodes {
			w.add(child, body)
		}
	case *parse.ActionNode:
		w.add(n.Pipe, body)
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			for _, arg := range command.Args {
				w.add(arg, body)
			}
		}
	case *parse.IfNode:
		w.addBranch(&n.BranchNode, body, body)
	case *parse.WithNode:
		w.addBranch(&n.BranchNode, body, body)
	case *parse.RangeNode:
		r := rangeWork{path: strings.Split(strings.TrimLeft(n.Pipe.Cmds[0].String(), "$."), ".")}
		w.addBranch(&n.BranchNode, body, &r.nodes)
		w.ranges = append(w.ranges, r)
	default:
	}
}

func (w *work) addBranch(n *parse.BranchNode, outside, body *int) {
	w.add(n.Pipe, outside)
	w.add(n.List, body)
	if n.ElseList != nil {
		w.add(n.ElseList, outside)
	}
}

// checkSize returns an error if the template has more nodes than the language permits steps.
func (w *work) checkSize(l Language) error {
	all := w.nodes
	for _, r := range w.ranges {
		all += r.nodes
	}
	return checkSteps(l, all)
}

func checkSteps(l Language, steps int) error {
	if steps > l.MaxWork {
		return fmt.Errorf("%s: it takes %d steps, and may take %d: shorten it, or what is inside of range", l.Name, steps, l.MaxWork)
	}
	return nil
}

// check returns an error if the template would do more with the data than the language permits.
func (w *work) check(l Language, data any) error {
	all := w.nodes
	for _, r := range w.ranges {
		n := lengthOf(data, r.path)
		if n > l.MaxRange {
			return fmt.Errorf("%s: it ranges over .%s, which has %d elements, and may range over %d", l.Name, strings.Join(r.path, "."), n, l.MaxRange)
		}
		all += n * r.nodes
	}
	return checkSteps(l, all)
}

// lengthOf returns the number of elements of a field of the data; 0 if it does not exist, at which the template fails.
func lengthOf(data any, path []string) int {
	value := reflect.ValueOf(data)
	for _, name := range path {
		if value.Kind() != reflect.Struct {
			return 0
		}
		value = value.FieldByName(name)
	}
	switch value.Kind() {
	case reflect.Map, reflect.Slice:
		return value.Len()
	default:
		return 0
	}
}
