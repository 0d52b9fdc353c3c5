// Package guides runs the commands of the guides, as a reader would, on a lab with emulated servers.
package guides

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// block is a part of a page that has commands.
type block struct {
	line    int // of its first command, from 1
	script  string
	hidden  bool   // a comment of the page, for the test only
	skipped string // why the test does not run it; empty if it does
}

// notTested is the line above a block that the test does not run.
var notTested = regexp.MustCompile(`^\*Not tested: (.+)\.\*$`)

// parse returns the blocks of a page with commands: those in fences of the language sh, and the comments that begin with "test".
func parse(page string) ([]block, error) {
	var blocks []block
	reason := ""
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSpace(lines[i])
		if end := endOf(line); end != "" {
			from := i + 1
			length := slices.IndexFunc(lines[from:], func(l string) bool { return strings.TrimSpace(l) == end })
			if length < 0 {
				return nil, fmt.Errorf("line %d: the block has no end", from)
			}
			if slices.Contains(notLanguages, line) {
				return nil, fmt.Errorf("line %d: the language of a block is sh for commands, console for output, text for other files", from)
			}
			if line == "```sh" || line == hiddenStart {
				blocks = append(blocks, block{line: from + 1, script: unindent(lines[from : from+length]), hidden: line == hiddenStart, skipped: reason})
			} else if reason != "" {
				return nil, fmt.Errorf("line %d: %q marks a block without commands", from, "Not tested")
			}
			i, reason = from+length, ""
		} else if line != "" {
			match := notTested.FindStringSubmatch(line)
			if match == nil && strings.Contains(line, "*Not tested") {
				return nil, fmt.Errorf("line %d: write *Not tested: REASON.* on a line of its own", i+1)
			}
			reason = strings.Join(match[min(1, len(match)):], "")
		}
	}
	return blocks, nil
}

// notLanguages begin blocks that would be commands which no test sees.
var notLanguages = []string{"```", "```bash", "```shell", "```zsh", "```shell-session"}

// hiddenStart begins a comment with commands that only the test runs.
const hiddenStart = "<!-- test"

// endOf returns the line that ends the block which a line begins, or nothing if the line begins none.
func endOf(line string) string {
	switch {
	case strings.HasPrefix(line, "```"):
		return "```"
	case line == hiddenStart:
		return "-->"
	}
	return ""
}

// unindent removes the indentation of the first line, as of a block in a list, from every line.
func unindent(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	indent := lines[0][:len(lines[0])-len(strings.TrimLeft(lines[0], " "))]
	var out strings.Builder
	for _, line := range lines {
		out.WriteString(strings.TrimPrefix(line, indent) + "\n")
	}
	return out.String()
}

// eventually is a function for hidden blocks: it repeats a command until it succeeds, for three minutes.
const eventually = `eventually() {
  { set +x; } 2>/dev/null
  for _ in $(seq 180); do
    if "$@" >/dev/null 2>&1; then set -x; return; fi
    sleep 1
  done
  set -x
  "$@"
}
`

// script joins the blocks that the test runs. It prints the line of the page before each block, so that a failure shows where it is.
func script(page string, blocks []block) string {
	var out strings.Builder
	out.WriteString("set -euo pipefail\n" + eventually)
	for _, b := range blocks {
		if b.skipped == "" {
			fmt.Fprintf(&out, "echo '=== %s:%d'\nset -x\n%s{ set +x; } 2>/dev/null\n", page, b.line, b.script)
		}
	}
	return out.String()
}

// emptyWorld is the first line of the first block of a page that finds no cluster and no hosts.
const emptyWorld = "# world: empty"

func wantsEmptyWorld(blocks []block) bool {
	return len(blocks) > 0 && strings.HasPrefix(blocks[0].script, emptyWorld)
}
