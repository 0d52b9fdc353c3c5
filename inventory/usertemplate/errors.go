package usertemplate

import (
	"errors"
	"fmt"
	"regexp"
)

// templateName is the name of every template in the errors of text/template, which refer to a line as NAME:LINE.
const templateName = "line"

// positionPattern matches the start of an error of text/template, such as "template: line:2:5: ".
var positionPattern = regexp.MustCompile(`^template: ` + templateName + `:(\d+)(?::\d+)?: `)

// harmless matches the reasons of errors of text/template that contain no value of the data: names in the template, and types.
var harmless = regexp.MustCompile(`map has no entry for key "\w+"$|can't evaluate field \w+ in type [\w.*]+$|` +
	`wrong type for value; expected \w+; got \w+$|incompatible types for comparison|index out of range|indent: the number of spaces must be from \d+ to \d+$`)

// parseError is the error of a template that does not parse.
func (l Language) parseError(err error) error {
	line, reason := split(err)
	if l.Private {
		reason = "it does not parse"
	}
	return fmt.Errorf("%s: line %s: %s", l.Name, line, reason)
}

// renderError is the error of a template that cannot be rendered. It contains no value of the data, which may be secret.
func (l Language) renderError(err error) error {
	for _, bound := range []error{ErrResultTooLarge, ErrTooSlow} {
		if errors.Is(err, bound) {
			return fmt.Errorf("%s: %w", l.Name, bound)
		}
	}
	line, _ := split(err)
	reason := harmless.FindString(err.Error())
	if reason == "" || l.Private {
		reason = "it cannot be evaluated"
	}
	return fmt.Errorf("%s: line %s: %s", l.Name, line, reason)
}

// split returns the line of an error of text/template, and the rest of its text.
func split(err error) (line, reason string) {
	text := err.Error()
	if found := positionPattern.FindStringSubmatch(text); found != nil {
		return found[1], text[len(found[0]):]
	}
	return "1", text
}
