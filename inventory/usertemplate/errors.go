package usertemplate

import (
	"errors"
	"fmt"
	"regexp"
)

// linePattern matches the position at the start of an error of text/template, such as "template: name:2:5: ".
var linePattern = regexp.MustCompile(`^template: \w+:(\d+)`)

// harmless matches the reasons of errors of text/template that contain no value of the data: names in the template, and types.
var harmless = regexp.MustCompile(`map has no entry for key "\w+"$|can't evaluate field \w+ in type [\w.*]+$|` +
	`wrong type for value; expected \w+; got \w+$|incompatible types for comparison|index out of range|indent: the number of spaces must be from \d+ to \d+$`)

// parseError is the error of a template that does not parse.
func (l Language) parseError(err error) error {
	if !l.Private {
		return fmt.Errorf("%s: %w", l.Name, err)
	}
	return fmt.Errorf("%s: line %s does not parse", l.Name, lineOf(err))
}

// renderError is the error of a template that cannot be rendered. It contains no value of the data, which may be secret.
func (l Language) renderError(err error) error {
	if errors.Is(err, ErrResultTooLarge) {
		return fmt.Errorf("%s: %w", l.Name, ErrResultTooLarge)
	}
	reason := harmless.FindString(err.Error())
	if reason == "" || l.Private {
		reason = "it cannot be evaluated"
	}
	return fmt.Errorf("%s: line %s: %s", l.Name, lineOf(err), reason)
}

// lineOf returns the line of an error of text/template.
func lineOf(err error) string {
	if found := linePattern.FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	return "1"
}
