package gateway

import "fmt"

// bounds are those of a JSON value: its bytes, the elements of the lists and the fields of the objects in it, and its values in all.
type bounds struct {
	bytes         int64
	items, values int
}

// scanner counts what a JSON text (RFC 8259) becomes in memory, without keeping it. A stream has one value after the other, and the bounds are those of each: clients frame it by
// values, and not by lines.
type scanner struct {
	most   bounds
	stream bool

	read          int64 // bytes of the value
	depth         int
	items, values int
	text, escaped bool // inside of a string, after a backslash
}

// scan reads a piece of the text. It returns how many values of a stream have ended in it.
func (s *scanner) scan(p []byte) (ended int, err error) {
	for _, c := range p {
		s.read++
		end := false
		switch {
		case s.escaped:
			s.escaped = false
		case s.text:
			s.escaped, s.text = c == '\\', c != '"'
		default:
			end = s.structure(c)
		}
		if err := s.check(); err != nil {
			return ended, err
		}
		if end {
			ended++
			s.read, s.items, s.values = 0, 0, 0
		}
	}
	return ended, nil
}

// structure reads a character outside of strings. It returns true at the end of a value of a stream.
func (s *scanner) structure(c byte) bool {
	switch c {
	case '"':
		s.text = true
	case '{', '[':
		s.depth++
		s.values++
	case ',':
		s.values++
		if s.depth == 2 { // of a list in the object that is the answer, or of its metadata
			s.items++
		}
	case '}', ']':
		s.depth--
		return s.stream && s.depth == 0
	}
	return false
}

func (s *scanner) check() error {
	what := "an answer"
	if s.stream {
		what = "a watch event"
	}
	switch {
	case s.read > s.most.bytes:
		return fmt.Errorf("its server sent %s of more than %d MiB", what, s.most.bytes>>20)
	case s.items > s.most.items:
		return fmt.Errorf("its server sent %s with a list of more than %d elements", what, s.most.items)
	case s.values > s.most.values:
		return fmt.Errorf("its server sent %s with more than %d values", what, s.most.values)
	case s.depth < 0 || s.depth > maxDepth:
		return fmt.Errorf("its server sent %s that is not JSON", what)
	}
	return nil
}

// maxDepth is the maximum depth of an answer. Schemas of CustomResourceDefinitions have 40.
const maxDepth = 200
