// Package view renders what the commands print: tables, explanations and time lines. It reads and decides nothing, so the same input is always the same text.
package view

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
)

// Level says how much attention a cell needs. It selects the colour; the text says the same, so that nothing is known by its colour alone.
type Level int

// The levels, in the order of their attention.
const (
	Plain Level = iota
	Good
	Pending
	Bad
)

// escapes are the colours of the levels (ECMA-48, SGR): green, yellow and red.
var escapes = map[Level]string{Good: "\x1b[32m", Pending: "\x1b[33m", Bad: "\x1b[31m"}

const resetEscape = "\x1b[0m"

// Style is how a terminal is written to. The zero value is for a file or a pipe.
type Style struct {
	// Color permits colours.
	Color bool
	// Width is the maximum number of columns of a line; 0 for no limit.
	Width int
}

func (s Style) paint(text string, level Level) string {
	escape := escapes[level]
	if !s.Color || escape == "" || text == "" {
		return text
	}
	return escape + text + resetEscape
}

// Cell is a cell of a table.
type Cell struct {
	Text  string
	Level Level
}

// Text returns a cell without a colour.
func Text(text string) Cell { return Cell{Text: text} }

// Table is rows with aligned columns.
type Table struct {
	Header []string
	Rows   [][]Cell
}

// Add adds a row.
func (t *Table) Add(cells ...Cell) { t.Rows = append(t.Rows, cells) }

// columnGap is the space between columns, as in the tables of kubectl.
const columnGap = "   "

// Write writes the table. An empty cell is a dash. The last column is not padded. Texts become one line each, since most come from servers.
func (t *Table) Write(w io.Writer, s Style) error {
	rows := make([][]Cell, 0, len(t.Rows)+1)
	header := make([]Cell, len(t.Header))
	for i, title := range t.Header {
		header[i] = Text(title)
	}
	rows = append(rows, header)
	for _, row := range t.Rows {
		clean := make([]Cell, len(row))
		for i, cell := range row {
			clean[i] = Cell{cmp.Or(terminal.Line(cell.Text), "-"), cell.Level}
		}
		rows = append(rows, clean)
	}
	widths := make([]int, len(t.Header))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell.Text))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		writeRow(&b, row, widths, s)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// writeRow writes a row with the widths of its columns. A row that is too long for the terminal ends with a mark.
func writeRow(b *strings.Builder, row []Cell, widths []int, s Style) {
	used := 0
	for i, cell := range row {
		text, gap := cell.Text, ""
		if i > 0 {
			gap = columnGap
		}
		if i < len(row)-1 {
			text += strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
		}
		length := len(gap) + utf8.RuneCountInString(text)
		if s.Width > 0 && used+length > s.Width {
			b.WriteString(s.paint(cut(gap+text, s.Width-used), cell.Level))
			break
		}
		b.WriteString(gap)
		b.WriteString(s.paint(text, cell.Level))
		used += length
	}
	b.WriteByte('\n')
}

// cut returns the first characters of a text that is too long, with a mark at the end.
func cut(text string, characters int) string {
	const mark = "…"
	runes := []rune(text)
	if len(runes) <= characters {
		return text
	}
	if characters < 1 {
		return ""
	}
	return string(runes[:characters-1]) + mark
}

// Printf writes a line or several. Texts of objects must be cleaned with terminal.Line first. An error is not reported: the next write to a closed pipe ends the program.
func Printf(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}
