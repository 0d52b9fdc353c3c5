package usertemplate

import (
	"errors"
	"reflect"
	"time"
)

// maxCompared is how many bytes of texts a template may compare: eq of two texts of half a megabyte would otherwise be a step like any other.
const maxCompared = 64 << 20

// errIncompatible has the text of text/template.
var errIncompatible = errors.New("incompatible types for comparison")

// comparer is eq and ne of text/template, for texts, numbers and truth values, within a budget and until a deadline.
type comparer struct {
	left     int // bytes
	deadline time.Time
}

// eq is true if a equals one of the others.
func (c *comparer) eq(a any, others ...any) (bool, error) {
	if len(others) == 0 {
		return false, errors.New("missing argument for comparison")
	}
	for _, b := range others {
		if same, err := c.same(reflect.ValueOf(a), reflect.ValueOf(b)); err != nil || same {
			return same, err
		}
	}
	return false, nil
}

func (c *comparer) ne(a, b any) (bool, error) {
	same, err := c.same(reflect.ValueOf(a), reflect.ValueOf(b))
	return !same, err
}

func (c *comparer) same(a, b reflect.Value) (bool, error) {
	switch {
	case a.Kind() == reflect.String && b.Kind() == reflect.String:
		if a.Len() != b.Len() {
			return false, nil
		}
		if c.left -= a.Len(); c.left < 0 || time.Now().After(c.deadline) {
			return false, ErrTooSlow
		}
		return a.String() == b.String(), nil
	case a.CanInt() && b.CanInt():
		return a.Int() == b.Int(), nil
	case a.Kind() == reflect.Bool && b.Kind() == reflect.Bool:
		return a.Bool() == b.Bool(), nil
	default:
		return false, errIncompatible
	}
}
