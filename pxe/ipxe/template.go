package ipxe

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"
	"text/template/parse"
)

// Bounds on templates, which users write: a script is small, and rendering takes no time.
const (
	maxTemplate = 16 << 10
	maxScript   = 64 << 10
)

// functions are the functions of text/template that a template may call. The others can produce texts of any length, or never return.
var functions = []string{"and", "eq", "index", "len", "ne", "not", "or"}

// Template renders a user's own script: a text/template over Values, whose first line is #!ipxe. It may name the values, use if, with, and, or, not, eq, ne,
// len and index, and range over the initrds.
func Template(text string, v Values) ([]byte, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	if v, err = v.checked(); err != nil {
		return nil, err
	}
	out := &bounded{}
	if err := t.Execute(out, v); err != nil {
		return nil, fmt.Errorf("iPXE template: %w", err)
	}
	return out.Bytes(), nil
}

// Check returns the errors of a template that do not depend on its values.
func Check(text string) error {
	_, err := parseTemplate(text)
	return err
}

func parseTemplate(text string) (*template.Template, error) {
	first, _, _ := strings.Cut(text, "\n")
	switch {
	case len(text) > maxTemplate:
		return nil, fmt.Errorf("iPXE template: it has %d bytes, and may have %d", len(text), maxTemplate)
	case strings.TrimRight(first, "\r") != "#!ipxe":
		return nil, errors.New(`iPXE template: its first line must be "#!ipxe", otherwise iPXE does not accept it as a script`)
	}
	t, err := template.New("ipxeTemplate").Option("missingkey=error").Parse(text)
	if err != nil {
		return nil, fmt.Errorf("iPXE template: %w", err)
	}
	if len(t.Templates()) > 1 {
		return nil, errors.New("iPXE template: it must not define other templates")
	}
	if err := checkNodes(t.Root, false); err != nil {
		return nil, fmt.Errorf("iPXE template: %w", err)
	}
	return t, nil
}

// checkNodes rejects nodes that might never finish. inRange is true within a range.
func checkNodes(node parse.Node, inRange bool) error {
	switch n := node.(type) {
	case *parse.ListNode:
		if n == nil {
			return nil // no else
		}
		for _, child := range n.Nodes {
			if err := checkNodes(child, inRange); err != nil {
				return err
			}
		}
		return nil
	case *parse.TextNode, *parse.CommentNode, *parse.BreakNode, *parse.ContinueNode:
		return nil
	case *parse.ActionNode:
		return checkPipe(n.Pipe)
	case *parse.IfNode:
		return checkBranch(&n.BranchNode, inRange)
	case *parse.WithNode:
		return checkBranch(&n.BranchNode, inRange)
	case *parse.RangeNode:
		if over := n.Pipe.Cmds[0].String(); inRange || len(n.Pipe.Cmds) != 1 || over != ".Initrds" && over != "$.Initrds" {
			return fmt.Errorf("%s: a template may range over .Initrds only, and ranges cannot be nested", n.Pipe)
		}
		return checkBranch(&n.BranchNode, true)
	default:
		return fmt.Errorf("a template cannot contain %s", node)
	}
}

func checkBranch(n *parse.BranchNode, inRange bool) error {
	return errors.Join(checkPipe(n.Pipe), checkNodes(n.List, inRange), checkNodes(n.ElseList, inRange))
}

func checkPipe(pipe *parse.PipeNode) error {
	for _, command := range pipe.Cmds {
		for _, arg := range command.Args {
			switch n := arg.(type) {
			case *parse.IdentifierNode:
				if !slices.Contains(functions, n.Ident) {
					return fmt.Errorf("the function %s is not available: only %s are", n.Ident, strings.Join(functions, ", "))
				}
			case *parse.PipeNode:
				if err := checkPipe(n); err != nil {
					return err
				}
			case *parse.ChainNode:
				return fmt.Errorf("a template cannot contain %s", n)
			default:
			}
		}
	}
	return nil
}

// bounded is a buffer with the maximum size of a script.
type bounded struct{ bytes.Buffer }

func (b *bounded) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxScript {
		return 0, fmt.Errorf("the script has more than %d bytes", maxScript)
	}
	return b.Buffer.Write(p)
}
