package inventory

import (
	"fmt"
	"strings"
)

// maxListedNames is how many names a message lists.
const maxListedNames = 10

// ListNames lists the first ten names for a message, and the number of the others.
func ListNames(names []string) string {
	text := strings.Join(names[:min(len(names), maxListedNames)], ", ")
	if more := len(names) - maxListedNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
