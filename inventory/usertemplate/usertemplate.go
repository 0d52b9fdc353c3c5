// Package usertemplate parses and renders templates that users write: text/template with a closed list of functions and bounds on time and memory. A
// template cannot read files, call methods of other programs, or run forever.
package usertemplate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
	"time"
)

// Language is a template language.
type Language struct {
	// Name is the name of a template in errors, such as "iPXE template".
	Name string
	// Left and Right are the delimiters of actions. Empty are {{ and }}.
	Left, Right string
	// TextFunctions adds the functions quote, shellQuote, indent and base64.
	TextFunctions bool
	// Ranges are what a template may range over, such as ".Initrds": fields of structs. Ranges cannot be nested.
	Ranges []string
	// MaxRange is the maximum number of elements of what is ranged over, and MaxWork that of the nodes of a template that are executed, those of a range once for each
	// element. MaxTime is how long a template may take.
	MaxRange, MaxWork int
	MaxTime           time.Duration
	// Private keeps the text of the template out of errors, which then have the line only.
	Private bool
	// MaxTemplate and MaxResult are the maximum sizes of a template and of its result, in bytes.
	MaxTemplate, MaxResult int
}

// builtins are the functions of text/template that a template may call. The others can produce texts of any length, or never return.
var builtins = []string{"and", "index", "len", "not", "or"}

// Template is a parsed template.
type Template struct {
	language Language
	parsed   *template.Template
	work     work
}

var (
	// ErrResultTooLarge means that the result of a template exceeds MaxResult.
	ErrResultTooLarge = errors.New("the result is too large")
	// ErrTooSlow means that a template takes longer than MaxTime.
	ErrTooSlow = errors.New("it takes too long")
)

// Parse parses a template. sample, if not nil, is data like that of Render: a template that names a field or a key that sample does not have is refused. A
// nil map in sample may have any keys.
func (l Language) Parse(text string, sample any) (*Template, error) {
	if len(text) > l.MaxTemplate {
		return nil, fmt.Errorf("%s: it has %d bytes, and may have %d", l.Name, len(text), l.MaxTemplate)
	}
	t, err := template.New(templateName).Delims(l.Left, l.Right).Option("missingkey=error").Funcs(l.functions(0, time.Time{})).Parse(text)
	if err != nil {
		return nil, l.parseError(err)
	}
	if len(t.Templates()) > 1 {
		return nil, fmt.Errorf("%s: it must not define other templates", l.Name)
	}
	out := &Template{language: l, parsed: t}
	if t.Tree == nil || t.Root == nil {
		return out, nil
	}
	// Before the check, which does more for each node than Render.
	out.work.add(t.Root, nil)
	if err := out.work.checkSize(l); err != nil {
		return nil, err
	}
	c := checker{language: l, functions: l.Functions(), sample: sample}
	if err := c.node(t.Root, position{}); err != nil {
		if l.Private {
			return nil, fmt.Errorf("%s: it uses a function, a field or a construct that is not available", l.Name)
		}
		return nil, fmt.Errorf("%s: %w", l.Name, err)
	}
	return out, nil
}

// Render renders the template. The functions produce at most twice MaxResult bytes in total, so that variables and pipes cannot take more memory.
func (t *Template) Render(data any) ([]byte, error) {
	if err := t.work.check(t.language, data); err != nil {
		return nil, err
	}
	own, err := t.parsed.Clone()
	if err != nil {
		return nil, t.language.parseError(err)
	}
	deadline := time.Now().Add(t.language.MaxTime)
	out := &bounded{maxBytes: t.language.MaxResult, deadline: deadline}
	if err := own.Funcs(t.language.functions(2*t.language.MaxResult, deadline)).Execute(out, data); err != nil {
		return nil, t.language.renderError(err)
	}
	return out.Bytes(), nil
}

// Functions returns the names of the functions that a template may call.
func (l Language) Functions() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(l.functions(0, time.Time{}))), builtins...)))
}

// position is where a node is in a template.
type position struct {
	inRange bool
	// otherDot is true where dot is not the data of the template.
	otherDot bool
}

type checker struct {
	language  Language
	functions []string // that the template may call
	sample    any
}

// node rejects nodes that might never finish, and fields that do not exist.
func (c checker) node(node parse.Node, at position) error {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil // no else
		}
		for _, child := range n.Nodes {
			if err := c.node(child, at); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		return nil
	case *parse.ActionNode:
		return c.pipe(n.Pipe, at)
	case *parse.IfNode:
		return c.branch(&n.BranchNode, at, at)
	case *parse.WithNode:
		return c.branch(&n.BranchNode, at, position{at.inRange, true})
	case *parse.RangeNode:
		if at.inRange || len(n.Pipe.Cmds) != 1 || !slices.Contains(c.language.Ranges, strings.TrimPrefix(n.Pipe.Cmds[0].String(), "$")) {
			return fmt.Errorf("%.100s: a template may range over %s only, and ranges cannot be nested", n.Pipe, strings.Join(c.language.Ranges, ", "))
		}
		return c.branch(&n.BranchNode, at, position{true, true})
	default:
		return fmt.Errorf("a template cannot contain %.100s", node)
	}
}

// branch checks an if, a with or a range, whose body is at another position.
func (c checker) branch(n *parse.BranchNode, at, body position) error {
	if err := c.pipe(n.Pipe, at); err != nil {
		return err
	}
	if err := c.node(n.List, body); err != nil {
		return err
	}
	return c.node(n.ElseList, at)
}

func (c checker) pipe(pipe *parse.PipeNode, at position) error {
	for _, command := range pipe.Cmds {
		for _, arg := range command.Args {
			if err := c.argument(arg, at); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c checker) argument(arg parse.Node, at position) error {
	switch n := arg.(type) {
	case *parse.IdentifierNode:
		if !slices.Contains(c.functions, n.Ident) {
			return fmt.Errorf("the function %.100s is not available: only %s are", n.Ident, strings.Join(c.functions, ", "))
		}
	case *parse.PipeNode:
		return c.pipe(n, at)
	case *parse.ChainNode:
		return fmt.Errorf("a template cannot contain %.100s", n)
	case *parse.FieldNode:
		if !at.otherDot {
			return c.field(n.Ident)
		}
	case *parse.VariableNode:
		if n.Ident[0] == "$" {
			return c.field(n.Ident[1:])
		}
	default:
	}
	return nil
}

// bounded is a buffer with a maximum size, until a deadline.
type bounded struct {
	bytes.Buffer

	maxBytes int
	deadline time.Time
}

var _ io.Writer = &bounded{}

func (b *bounded) Write(p []byte) (int, error) {
	switch {
	case b.Len()+len(p) > b.maxBytes:
		return 0, ErrResultTooLarge
	case time.Now().After(b.deadline):
		return 0, ErrTooSlow
	}
	return b.Buffer.Write(p)
}
