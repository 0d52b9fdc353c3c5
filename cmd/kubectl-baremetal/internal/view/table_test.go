package view

import (
	"bytes"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestTable: columns are aligned also with characters of several bytes, an empty cell is a dash, and texts of servers stay in their cell.
func TestTable(t *testing.T) {
	g := NewWithT(t)
	table := Table{Header: []string{"HOST", "STATE", "MESSAGE"}}
	table.Add(Text("größe-1"), Cell{"needs action", Bad}, Text("a\nb"))
	table.Add(Text("s"), Text(""), Text("\x1b[31mred"))
	var out bytes.Buffer
	g.Expect(table.Write(&out, Style{})).To(Succeed())
	g.Expect(out.String()).To(Equal("HOST      STATE          MESSAGE\ngröße-1   needs action   a b\ns         -              ?[31mred\n"))

	out.Reset()
	g.Expect(table.Write(&out, Style{Color: true})).To(Succeed())
	g.Expect(out.String()).To(ContainSubstring("\x1b[31mneeds action\x1b[0m   a b"))

	out.Reset()
	g.Expect(table.Write(&out, Style{Width: 20})).To(Succeed())
	for line := range strings.Lines(out.String()) {
		g.Expect(len([]rune(strings.TrimSuffix(line, "\n")))).To(BeNumerically("<=", 20), line)
	}
	g.Expect(out.String()).To(ContainSubstring("…"))
}
