package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// program is what to fetch.
type program struct {
	name   string
	path   string // as the checksums have it: the address without https://
	member string // of the archive at path; empty where path is the program itself
	sum    string
}

// stamp is what hack/build.sh finds beside a program that was fetched: its line of the checksums.
func (p program) stamp() string { return p.sum + "  " + p.path }

// readSums reads what sha256sum writes, and returns the checksums by path.
func readSums(name string) (map[string]string, error) {
	content, err := os.ReadFile(name) //nolint:gosec // build.sh names it
	if err != nil {
		return nil, err
	}
	sums := map[string]string{}
	for n, line := range strings.Split(string(content), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		sum, path, _ := strings.Cut(line, "  ")
		if decoded, err := hex.DecodeString(sum); err != nil || len(decoded) != 32 || path == "" || sum != strings.ToLower(sum) {
			return nil, fmt.Errorf("%s:%d: not a SHA-256 in lower case, two spaces and a path", name, n+1)
		}
		if other, ok := sums[path]; ok && other != sum {
			return nil, fmt.Errorf("%s:%d: %s has two checksums", name, n+1, path)
		}
		sums[path] = sum
	}
	return sums, nil
}

// parseProgram parses NAME=PATH[!MEMBER]. A path without a checksum is an error: nothing is fetched that cannot be checked.
func parseProgram(text string, sums map[string]string) (program, error) {
	name, rest, ok := strings.Cut(text, "=")
	path, member, _ := strings.Cut(rest, "!")
	if !ok || name == "" || path == "" || strings.Contains(name, "/") {
		return program{}, fmt.Errorf("%q is not NAME=PATH[!MEMBER]", text)
	}
	sum, ok := sums[path]
	if !ok {
		return program{}, fmt.Errorf("no checksum of %s is known", path)
	}
	return program{name: name, path: path, member: member, sum: sum}, nil
}
