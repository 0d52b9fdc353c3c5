// Package rackfile converts a file of comma-separated values (CSV) with servers to BareMetalHosts and the Secrets of their BMCs.
// docs/guides/register-servers.md describes the file. The package needs no cluster.
package rackfile

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// MaxBytes is the maximum size of a file: about 50,000 servers.
const MaxBytes = 16 << 20

// Server is a line of the file.
type Server struct {
	// Line is its first line, from 1.
	Line int
	Host *v1alpha1.BareMetalHost
	// Secret contains the credentials. It is nil if the line names an existing Secret.
	Secret *corev1.Secret
}

// Problem is an error in a line. It never contains a password.
type Problem struct {
	// Line is 0 for a problem of the whole file. Column is empty for a problem of the whole line.
	Line   int
	Column string
	// Text is the problem with its remedy.
	Text string
}

// Position is the place of the problem in the format of compilers: FILE:LINE: COLUMN.
func (p Problem) Position(file string) string {
	if p.Line > 0 {
		file = fmt.Sprintf("%s:%d", file, p.Line)
	}
	if p.Column != "" {
		file += ": " + p.Column
	}
	return file
}

// Read reads a file. It returns the valid lines as servers, and all problems in the order of the lines. The objects are in the namespace,
// which may be empty. The error is that of the reader.
func Read(r io.Reader, namespace string) (servers []Server, problems []Problem, err error) {
	content, err := io.ReadAll(io.LimitReader(r, MaxBytes+1))
	switch {
	case err != nil:
		return nil, nil, err
	case len(content) > MaxBytes:
		return nil, []Problem{{Text: fmt.Sprintf("the file is larger than %d MiB: split it", MaxBytes>>20)}}, nil
	case !utf8.Valid(content):
		return nil, []Problem{{Text: "the file is not in UTF-8: save it as \"CSV UTF-8\""}}, nil
	}
	content = bytes.TrimPrefix(content, []byte("\xef\xbb\xbf")) // spreadsheets write it
	lines := csv.NewReader(bytes.NewReader(content))
	lines.FieldsPerRecord, lines.Comment, lines.Comma = -1, '#', separator(content)
	p := &reader{namespace: namespace, seen: map[string]int{}}
	for {
		cells, err := lines.Read()
		switch parse := (&csv.ParseError{}); {
		case errors.Is(err, io.EOF):
			return p.result()
		case errors.As(err, &parse):
			// The error does not quote the line.
			p.problemf(parse.StartLine, "", "%v: enclose a cell that contains a quotation mark in quotation marks, and double each quotation mark inside it", parse.Err)
			continue
		case err != nil:
			return nil, nil, err
		}
		line, _ := lines.FieldPos(0)
		switch {
		case p.header == nil:
			if !p.readHeader(line, cells) {
				return nil, p.problems, nil
			}
		case !blank(cells):
			p.read(line, cells)
		}
	}
}

// separator is a semicolon if the header contains semicolons and no comma, as spreadsheets write files in locales with a decimal comma.
func separator(content []byte) rune {
	for line := range bytes.Lines(content) {
		if text := bytes.TrimSpace(line); len(text) > 0 && text[0] != '#' {
			if bytes.ContainsRune(text, ';') && !bytes.ContainsRune(text, ',') {
				return ';'
			}
			break
		}
	}
	return ','
}

func blank(cells []string) bool {
	return !slices.ContainsFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) != "" })
}

// reader reads line by line.
type reader struct {
	namespace string
	header    []column
	servers   []Server
	problems  []Problem
	// seen are names, MAC addresses and BMCs, with their line.
	seen map[string]int
}

func (p *reader) problemf(line int, column, format string, args ...any) {
	p.problems = append(p.problems, Problem{line, column, fmt.Sprintf(format, args...)})
}

func (p *reader) result() ([]Server, []Problem, error) {
	if p.header == nil {
		p.problemf(0, "", "the file has no header: write one, like name,bmcAddress,username,password,bootMACAddresses")
	}
	slices.SortStableFunc(p.problems, func(a, b Problem) int { return a.Line - b.Line })
	return p.servers, p.problems, nil
}

// readHeader reads the names of the columns. It returns false if the lines cannot be read with them.
func (p *reader) readHeader(line int, cells []string) bool {
	p.header = []column{}
	if !slices.ContainsFunc(cells, func(cell string) bool { return slices.Contains(names(), strings.TrimSpace(cell)) }) {
		// The line is not quoted, because it may be the line of a server with a password.
		p.problemf(line, "", "the first line contains no known column: write the header, with some of the columns %s", strings.Join(names(), ", "))
		return false
	}
	for _, cell := range cells {
		name := strings.TrimSpace(cell)
		i := slices.IndexFunc(columns, func(c column) bool { return c.name == name })
		switch {
		case i < 0:
			p.problemf(line, "", "the column %q is unknown: the columns are %s", name, strings.Join(names(), ", "))
		case slices.ContainsFunc(p.header, func(c column) bool { return c.name == name }):
			p.problemf(line, name, "the column exists twice: remove one")
		default:
			p.header = append(p.header, columns[i])
		}
	}
	has := func(name string) bool {
		return slices.ContainsFunc(p.header, func(c column) bool { return c.name == name })
	}
	for _, c := range columns {
		if c.required && !has(c.name) {
			p.problemf(line, c.name, "the column is missing: every server needs it")
		}
	}
	switch {
	case has(columnCredentials):
	case !has(columnUsername) && !has(columnPassword):
		p.problemf(line, "", "the file has no credentials: add the columns username and password, or credentialsSecretName for Secrets that exist")
	case !has(columnUsername) || !has(columnPassword):
		p.problemf(line, "", "one of the columns username and password is missing: they belong together")
	}
	return len(p.problems) == 0
}

// read reads the line of a server.
func (p *reader) read(line int, cells []string) {
	if len(cells) != len(p.header) {
		p.problemf(line, "", "it has %d cells and the header has %d: add the missing cells, and enclose a cell that contains a separator in quotation marks",
			len(cells), len(p.header))
		return
	}
	before := len(p.problems)
	d := newDraft(p.namespace)
	for i, c := range p.header {
		cell := cells[i]
		if c.name != columnPassword {
			cell = strings.TrimSpace(cell)
		}
		if cell == "" {
			if c.required {
				p.problemf(line, c.name, "it is empty: every server needs it")
			}
			continue
		}
		if err := c.set(d, cell); err != nil {
			p.problemf(line, c.name, "%v", err)
		}
	}
	if column, err := d.credentials(); err != nil {
		p.problemf(line, column, "%v", err)
	}
	for _, id := range d.identities() {
		if first, ok := p.seen[id.Key]; ok {
			p.problemf(line, id.Column, "%s is also in line %d: each server has its own", id.Text, first)
			continue
		}
		p.seen[id.Key] = line
	}
	if len(p.problems) == before {
		p.servers = append(p.servers, Server{Line: line, Host: d.host, Secret: d.secret})
	}
}

// Objects returns the objects of the server in the order of creation, so that no host exists without its credentials.
func (s Server) Objects() []client.Object {
	if s.Secret == nil {
		return []client.Object{s.Host}
	}
	return []client.Object{s.Secret, s.Host}
}
