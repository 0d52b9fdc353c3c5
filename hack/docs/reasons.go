package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// reasonsPage is the page with the tables of package why.
const reasonsPage = "docs/reference/conditions.md"

// reasonsBlock matches a generated table of the page. The name in its first line is that of the table.
var reasonsBlock = regexp.MustCompile(`(?s)<!-- generated: make generate, table (\w+) -->\n.*?<!-- end of generated -->\n`)

// replaceReasons replaces the tables of the page. It fails unless the page has each table of package why once, in their order.
func replaceReasons(page string) (string, error) {
	tables := why.Tables()
	var found []string
	replaced := reasonsBlock.ReplaceAllStringFunc(page, func(block string) string {
		id := reasonsBlock.FindStringSubmatch(block)[1]
		found = append(found, id)
		if n := len(found); n > len(tables) || tables[n-1].ID != id {
			return block // the error below names it
		}
		return fmt.Sprintf("<!-- generated: make generate, table %s -->\n\n%s\n%s", id, reasonsTable(&tables[len(found)-1]), generatedEnd)
	})
	ids := make([]string, len(tables))
	for i := range tables {
		ids[i] = tables[i].ID
	}
	if strings.Join(found, " ") != strings.Join(ids, " ") {
		return "", fmt.Errorf("the page has the tables %v, and must have %v in this order", found, ids)
	}
	return replaced, nil
}

// reasonsTable returns a table as Markdown. It has a first column with the leads, and a last one with the usual times, if rows have them. A lead that repeats the one above
// is left out.
func reasonsTable(t *why.Table) string {
	hasUsual := slices.ContainsFunc(t.Rows, func(r why.Row) bool { return r.Usual > 0 })
	var b strings.Builder
	line := func(lead, reason, means, do, usual string) {
		cells := []string{reason, means, do}
		if t.Lead != "" {
			cells = append([]string{lead}, cells...)
		}
		if hasUsual {
			cells = append(cells, usual)
		}
		b.WriteString("|")
		for _, cell := range cells {
			if cell != "" {
				b.WriteString(" " + strings.ReplaceAll(cell, "|", `\|`))
			}
			b.WriteString(" |")
		}
		b.WriteString("\n")
	}
	line(t.Lead, t.Word, "meaning", "what to do", "usually")
	line("---", "---", "---", "---", "---")
	last := ""
	for i := range t.Rows {
		row := &t.Rows[i]
		lead := row.Lead
		if lead == last {
			lead = ""
		}
		last = row.Lead
		line(lead, "`"+row.Reason+"`", row.Means, row.Do, usualTime(row.Usual))
	}
	return b.String()
}

// usualTime returns a usual time for a cell; empty for none.
func usualTime(usual time.Duration) string {
	switch {
	case usual == 0:
		return ""
	case usual >= 2*time.Hour:
		return fmt.Sprintf("up to %d h", usual/time.Hour)
	default:
		return fmt.Sprintf("up to %d min", usual/time.Minute)
	}
}
