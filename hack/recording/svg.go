package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// line is a line of the output, and the time since the line before it.
type line struct {
	after time.Duration
	text  string
}

// The picture: a terminal of columns and rows, in pixels of the SVG.
const (
	columns    = 132
	rows       = 30
	charWidth  = 7.25
	lineHeight = 17.0
	margin     = 16.0
)

// Pauses are cut to longestPause, so that a minute of waiting is a few seconds of the recording. The end is shown for the time of preview before the recording starts, and
// for the time of rest after it.
const (
	longestPause = 700 * time.Millisecond
	preview      = 2 * time.Second
	rest         = 8 * time.Second
)

// write writes the SVG. It has no script: CSS hides each line until its time, and moves all of them up when the terminal is full. Without CSS animations, and in their
// first picture, the lines are where they are at the end: that is what a viewer shows that animates nothing, and what readers see who have switched animations off.
func write(w io.Writer, command string, lines []line) error {
	lines = append([]line{{text: "$ " + command}}, lines...)
	total := preview + rest
	for i := range lines {
		lines[i].after = min(lines[i].after, longestPause)
		total += lines[i].after
	}
	percent := func(at time.Duration) float64 { return 100 * at.Seconds() / total.Seconds() }
	var css, text, shown strings.Builder
	scrolled := max(len(lines)-rows, 0)
	fmt.Fprintf(&css, "svg{background:#0d1117}text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#e6edf3;white-space:pre}\n"+
		"@media (prefers-reduced-motion:no-preference){\n.l{animation-duration:%[1]dms;animation-timing-function:step-end;animation-iteration-count:infinite}\n"+
		"#screen{animation:scroll %[1]dms step-end infinite}\n@keyframes scroll{0%%{transform:none}%.3[2]f%%{transform:translateY(%.0[3]fpx)}",
		total.Milliseconds(), percent(preview), lineHeight*float64(scrolled))
	at := preview
	for i, l := range lines {
		at += l.after
		if i >= rows {
			fmt.Fprintf(&css, "%.3f%%{transform:translateY(%.0fpx)}", percent(at), lineHeight*float64(len(lines)-1-i))
		}
		if i > 0 {
			fmt.Fprintf(&shown, "@keyframes l%d{0%%{visibility:visible}%.3f%%{visibility:hidden}%.3f%%{visibility:visible}}#l%[1]d{animation-name:l%[1]d}\n",
				i, percent(preview), percent(at))
		}
		fmt.Fprintf(&text, `<text class="l" id="l%d" x="%.0f" y="%.1f">%s</text>`+"\n", i, margin, margin+lineHeight*(float64(i-scrolled)+0.75), escape(cut(l.text)))
	}
	css.WriteString("}\n" + shown.String() + "}\n")
	width, height := 2*margin+columns*charWidth, 2*margin+rows*lineHeight
	_, err := fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" width="%[1]d" height="%[2]d" viewBox="0 0 %[1]d %[2]d" role="img" aria-label="Recording of %[3]s">
<style>%[4]s</style>
<svg y="%[5]d" height="%[6]d"><g transform="translate(0 %[7]d)"><g id="screen">
%[8]s</g></g></svg>
</svg>
`, int(width), int(height), escape(command), css.String(), int(margin), int(rows*lineHeight), -int(margin), text.String())
	return err
}

// cut shortens a line to the width of the terminal.
func cut(text string) string {
	if utf8.RuneCountInString(text) <= columns {
		return text
	}
	return string([]rune(text)[:columns-1]) + "…"
}

func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a strings.Builder takes everything
	return out.String()
}
