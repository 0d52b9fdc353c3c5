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

// TestWrite: the SVG is XML with every line once and its text escaped, and long pauses are cut. Without animations, and in their first picture, it shows the end.
func TestWrite(t *testing.T) {
	g := NewWithT(t)
	lines := []line{{time.Hour, `a <b> & "c"`}, {time.Millisecond, strings.Repeat("x", 2*columns)}}
	for i := range rows {
		lines = append(lines, line{100 * time.Millisecond, fmt.Sprintf("line %d", i)})
	}
	var out strings.Builder
	g.Expect(write(&out, "make demo", lines)).To(Succeed())
	var texts, heights []string
	decoder := xml.NewDecoder(strings.NewReader(out.String()))
	for inText := false; ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		g.Expect(err).NotTo(HaveOccurred())
		switch token := token.(type) {
		case xml.StartElement:
			if inText = token.Name.Local == "text"; inText {
				heights = append(heights, attribute(token, "y"))
			}
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
	duration := preview + longestPause + time.Millisecond + rows*100*time.Millisecond + rest
	g.Expect(out.String()).To(ContainSubstring(fmt.Sprintf("scroll %dms", duration.Milliseconds())))
	last := margin + rows*lineHeight - lineHeight/4
	g.Expect(heights[len(heights)-1]).To(Equal(fmt.Sprintf("%.1f", last)), "the last line is the lowest of the picture")
	g.Expect(heights[3]).To(Equal(fmt.Sprintf("%.1f", margin+lineHeight*0.75)), "three lines more than rows are above the picture")
	g.Expect(out.String()).To(ContainSubstring("@keyframes scroll{0%{transform:none}"))
	g.Expect(out.String()).To(ContainSubstring(fmt.Sprintf("%%{transform:translateY(%.0fpx)}", 3*lineHeight)), "the recording starts with the first line")
	g.Expect(strings.Count(out.String(), "{0%{visibility:visible}")).To(Equal(len(lines)), "all lines except the command")
	g.Expect(out.String()).NotTo(ContainSubstring("{0%{visibility:hidden}"))
}

// attribute returns an attribute of an element.
func attribute(element xml.StartElement, name string) string {
	for _, a := range element.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}
