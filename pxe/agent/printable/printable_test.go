package printable

import (
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

func TestLine(t *testing.T) {
	for text, want := range map[string]string{
		" SAMSUNG MZ7 ":               "SAMSUNG MZ7",
		"\x1b[2J\x1b]0;owned\x07disk": "[2J]0;owneddisk",
		"one\ntwo\tthree\r":           "one two three",
		"a\u202eb\u200bc\u00add":      "abcd", // right-to-left override, zero width space, soft hyphen
		"bad\xff\xfe":                 "bad",
		"Größe 2 µm":                  "Größe 2 µm",
	} {
		if got := Line(text, 100); got != want {
			t.Errorf("%q becomes %q, and not %q", text, got, want)
		}
	}
	if got := Line("ääää", 5); got != "ää" {
		t.Errorf("a character is cut: %q", got)
	}
}

// TestPropertyLine: whatever the text is, the line is printable and bounded, and a line of it is the same line.
func TestPropertyLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(0, 64).Draw(t, "limit")
		got := Line(string(rapid.SliceOf(rapid.Byte()).Draw(t, "text")), limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.ContainsFunc(got, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Fatalf("%q, with the limit %d", got, limit)
		}
		if again := Line(got, limit); again != got {
			t.Fatalf("%q becomes %q", got, again)
		}
	})
}

// TestClean: all texts of a message are cleaned, also those behind pointers and in lists. Only a log keeps its lines.
func TestClean(t *testing.T) {
	r := agent.Result{
		Failure:  &agent.Failure{Reason: "Disk\x1bFailed", Message: strings.Repeat("é\n", 100)},
		Written:  &agent.Written{Disk: wire.DiskIdentity{SerialNumber: "S\x00 1", SizeBytes: 7}},
		Warnings: []string{"\x1b[31mred", "b", "c"},
		Log:      "first\x1b[1A\nsecond\x07\n",
	}
	Clean(&r, 16, 2)
	if r.Failure.Reason != "DiskFailed" || r.Failure.Message != strings.Repeat("é ", 4)+"é" || r.Written.Disk != (wire.DiskIdentity{SerialNumber: "S 1", SizeBytes: 7}) {
		t.Errorf("%+v %+v", r.Failure, r.Written)
	}
	if strings.Join(r.Warnings, "|") != "[31mred|b" || r.Log != "first[1A\nsecond\n" {
		t.Errorf("%q %q", r.Warnings, r.Log)
	}
	Clean(&wire.Inspection{BMC: nil, NICs: []wire.InspectedNIC{{Neighbor: &wire.InspectedNeighbor{}}}}, 16, 2)
}

// TestCleanTime: a time keeps its zone.
func TestCleanTime(t *testing.T) {
	v := struct {
		At   time.Time
		Text string
	}{time.Date(2026, 1, 2, 3, 4, 5, 0, time.FixedZone("an hour", 3600)), "a\tb"}
	want := v.At
	Clean(&v, 16, 16)
	if !v.At.Equal(want) || v.Text != "a b" {
		t.Errorf("%+v", v)
	}
}
