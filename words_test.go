package laws_test

import (
	"go/scanner"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unusedWords are not used in comments, strings and pages: Kubernetes, Redfish or the RFCs have another word, or a reader has to look for what is meant. They are
// regular expressions. A space in them is also a line break. An entry without a replacement is good English that contains an entry below it.
//
// Words with another, good meaning are not in the list, such as line, turn, hold, room, own, spare, wipe and unproven.
var unusedWords = []struct{ used, instead string }{
	{`there (?:is|are|was|were) none`, ""},
	{`for good (?:cause|reasons?)`, ""},

	{`(?:is|are|was|were) (?-i:none)`, "is not one of, is no, is not"}, // None is a value of the API
	{`(?:has|have|had) (?-i:none)`, "has no, and the noun"},
	{`anew`, "again"},
	{`as long as may be`, "as long as possible"},
	{`begin of`, "start of"},
	{`(?:bring|brings|brought) back`, "enqueue, restore"},
	{`but for`, "except"},
	{`by itself`, "automatically, alone"},
	{`falls? ill|(?:takes?|taken|took) for ill`, "becomes unhealthy"},
	{`for good`, "permanently"},
	{`hands off`, "detached"},
	{`heal(?:s|ed|ing)?`, "recover"},
	{`hold-offs?`, "power hold, kept powered off"},
	{`kept parts?`, "excluded"},
	{`(?:let|lets|letting) go`, "release, force-release without fencing"},
	{`mend(?:s|ed|ing)?`, "fix"},
	{`of no machine`, "without a machine, host boot"},
	{`or else`, "or otherwise"},
	{`patience`, "timeout"},
	{`sightings?|was seen of`, "observed boot stage"},
	{`spared`, "excluded"},
	{`(?:stand|stands|stood) in line`, "queue, wait"},
	{`untold`, "not yet written"},
	{`who waits`, "a host that waits"},
	{`whoever`, "a client that, a user who"},
}

// TestWords: comments, strings and pages do not use the words of unusedWords. It is a test, since the linter misspell accepts only single words and reads no pages.
func TestWords(t *testing.T) {
	groups := make([]string, 0, len(unusedWords))
	for _, w := range unusedWords {
		groups = append(groups, "("+strings.ReplaceAll(w.used, " ", `(?:\s|//)+`)+")")
	}
	pattern := regexp.MustCompile(`(?i)\b(?:` + strings.Join(groups, "|") + `)\b`)
	checked := 0
	for _, name := range gitFiles(t, "*.go", "*.md") {
		if name == "words_test.go" {
			continue
		}
		content, err := os.ReadFile(name)
		if os.IsNotExist(err) {
			continue // deleted, and not committed
		}
		if err != nil {
			t.Fatal(err)
		}
		var text string
		if strings.HasSuffix(name, ".go") {
			text = goProse(content)
		} else {
			text = codeBlock.ReplaceAllStringFunc(string(content), blank)
		}
		checked++
		for _, found := range pattern.FindAllStringSubmatchIndex(text, -1) {
			used := unusedWords[slices.IndexFunc(found[2:], func(at int) bool { return at >= 0 })/2]
			if used.instead != "" {
				t.Errorf("%s:%d: %q: write %q", name, 1+strings.Count(text[:found[0]], "\n"), text[found[0]:found[1]], used.instead)
			}
		}
	}
	if checked < 500 {
		t.Errorf("only %d files were read", checked)
	}
}

// goProse returns the comments and strings of a Go file at their offsets, with the code between them blanked.
func goProse(source []byte) string {
	text := []byte(blank(string(source)))
	fset := token.NewFileSet()
	file := fset.AddFile("", fset.Base(), len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, scanner.ScanComments)
	for {
		pos, kind, literal := s.Scan()
		switch kind {
		case token.EOF:
			return string(text)
		case token.COMMENT, token.STRING:
			copy(text[file.Offset(pos):], literal)
		default:
		}
	}
}

// blank replaces all bytes but white space, so that offsets and lines stay.
func blank(text string) string {
	blanked := []byte(text)
	for i, b := range blanked {
		if b > ' ' {
			blanked[i] = '`'
		}
	}
	return string(blanked)
}

func TestGoProse(t *testing.T) {
	source := "package p // ä who\n// waits\nvar ä = `a\n` + \"b\" // c\n"
	want := "``````` ` // ä who\n// waits\n``` `` ` `a\n` ` \"b\" // c\n"
	if got := goProse([]byte(source)); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
