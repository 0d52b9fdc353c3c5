package main

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestWrite: the SVG is XML with every line once and its text escaped, and long pauses are cut.
func TestWrite(t *testing.T) {
	g := NewWithT(t)
	lines := []line{{time.Hour, `a <b> & "c"`}, {time.Millisecond, strings.Repeat("x", 2*columns)}}
	for i := range rows {
		lines = append(lines, line{100 * time.Millisecond, fmt.Sprintf("line %d", i)})
	}
	var out strings.Builder
	g.Expect(write(&out, "make demo", lines)).To(Succeed())
	var texts []string
	decoder := xml.NewDecoder(strings.NewReader(out.String()))
	for inText := false; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		switch token := token.(type) {
		case xml.StartElement:
			inText = token.Name.Local == "text"
		case xml.CharData:
			if inText {
				texts = append(texts, string(token))
			}
		case xml.EndElement:
			inText = false
		}
	}
	g.Expect(texts).To(HaveLen(1 + len(lines)))
	g.Expect(texts[:3]).To(Equal([]string{"$ make demo", `a <b> & "c"`, strings.Repeat("x", columns-1) + "…"}))
	duration := longestPause + time.Millisecond + rows*100*time.Millisecond + rest
	g.Expect(out.String()).To(ContainSubstring(fmt.Sprintf("scroll %dms", duration.Milliseconds())))
	g.Expect(out.String()).To(ContainSubstring(fmt.Sprintf("translateY(-%.0fpx)", 3*lineHeight)), "three lines more than rows")
}
