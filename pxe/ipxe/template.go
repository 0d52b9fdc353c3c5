package ipxe

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/usertemplate"
)

// language is that of a user's own script, whose first line is #!ipxe: a text/template over Values.
var language = usertemplate.Language{
	Name: "iPXE template", Ranges: []string{".Initrds"}, MaxTemplate: 16 << 10, MaxResult: 64 << 10, MaxRange: 64, MaxWork: 100_000, MaxTime: 2 * time.Second,
}

// Template renders a user's own script. It may name the values, use if, with, and, or, not, eq, ne, len and index, and range over the initrds.
func Template(text string, v Values) ([]byte, error) {
	t, err := parseTemplate(text)
	if err != nil {
		return nil, err
	}
	if v, err = v.checked(); err != nil {
		return nil, err
	}
	script, err := t.Render(v)
	if errors.Is(err, usertemplate.ErrResultTooLarge) {
		return nil, fmt.Errorf("%w: it has more than %d bytes", err, language.MaxResult)
	}
	return script, err
}

// Check returns the errors of a template that do not depend on its values.
func Check(text string) error {
	_, err := parseTemplate(text)
	return err
}

func parseTemplate(text string) (*usertemplate.Template, error) {
	first, _, _ := strings.Cut(text, "\n")
	if strings.TrimRight(first, "\r") != "#!ipxe" {
		return nil, errors.New(`iPXE template: its first line must be "#!ipxe", otherwise iPXE does not accept it as a script`)
	}
	return language.Parse(text, nil)
}
