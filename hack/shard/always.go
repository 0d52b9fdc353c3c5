package shard

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// Always is a list of cases that every run has: those that found a fault once. It is a file with a case on each line, a tab, and what the case found. A line
// that starts with # is a comment.
type Always map[string]bool

// ReadAlways reads the list from a file.
func ReadAlways(file string) (Always, error) {
	content, err := os.ReadFile(file) //nolint:gosec // a file of the suite
	if err != nil {
		return nil, err
	}
	list := Always{}
	lines := bufio.NewScanner(strings.NewReader(string(content)))
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, found, ok := strings.Cut(line, "\t")
		if !ok || strings.TrimSpace(found) == "" {
			return nil, fmt.Errorf("%s: %q does not say after a tab what the case found", file, line)
		}
		list[strings.TrimSpace(name)] = true
	}
	return list, lines.Err()
}

// Unknown returns the listed cases that are not among names: a case that was renamed would no longer run.
func (a Always) Unknown(names []string) []string {
	known := map[string]bool{}
	for _, name := range names {
		known[name] = true
	}
	var unknown []string
	for name := range a {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// Selected reports whether this run has the case with this name: it is of the shard, or on the list.
func (a Always) Selected(name string) bool { return a[name] || Selected(name) }

// Unset reports whether SHARD is not set: a long suite is skipped then.
func Unset() bool { return os.Getenv(variable) == "" }
