package terminal

import "testing"

// TestLine: what a BMC reports cannot move the cursor, change a colour, or look like a second line.
func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"Power supply 2: failed":     "Power supply 2: failed",
		"  two\n lines\t here ":      "two lines here",
		"\x1b[31mred\x1b[0m":         "?[31mred?[0m",
		"a\u202ebc":                  "a?bc",
		"nul\x00, bell\a, del\x7f":   "nul?, bell?, del?",
		"Größe":                      "Größe",
		"broken \xff":                "broken \ufffd",
		"no-break\u00a0space":        "no-break space",
		"line separator\u2028 there": "line separator there",
	} {
		if got := Line(text); got != want {
			t.Errorf("Line(%q) = %q, want %q", text, got, want)
		}
	}
}
