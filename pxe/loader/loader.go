// Package loader reads the boot loaders that servers load. Firmware runs them with full privileges, so only files that a list names, with the right checksum,
// are served.
package loader

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Manifest is the name of the list in a folder with boot loaders. It has the format of sha256sum: a checksum, two spaces and a name on each line. A comment
// above a line is the source of the file.
const Manifest = "SHA256SUMS"

// Bounds on what is read: a wrongly mounted folder must not fill the memory.
const (
	maxFile     = 64 << 20
	maxManifest = 64 << 10
)

// File is a boot loader.
type File struct {
	Name string
	// Content is the whole file. It is kept in memory, so that it cannot be replaced after it was verified.
	Content []byte
	// SHA256 is its checksum in hexadecimal.
	SHA256 string
	// Source is where the file comes from, as the manifest describes it: for example a package with its version.
	Source string
	// Dir is the folder that it was read from.
	Dir string
	// Time is when the file was last changed.
	Time time.Time
}

// Set is the boot loaders that may be served. It is immutable, and safe for concurrent use.
type Set struct{ files map[string]*File }

// Load reads the boot loaders of folders. A file in a later folder replaces the file of the same name in an earlier one, so that operators can replace files of
// the image. The error names every folder and file that does not match its manifest. Such a file is not in the set, even if an earlier folder has a file of that
// name: the operator wanted to replace that one.
func Load(dirs ...string) (*Set, error) {
	set := &Set{files: map[string]*File{}}
	var problems []error
	for _, dir := range dirs {
		problems = append(problems, set.load(dir))
	}
	return set, errors.Join(problems...)
}

// Get returns a boot loader, nil if there is none of that name.
func (s *Set) Get(name string) *File { return s.files[name] }

// All returns the boot loaders by name.
func (s *Set) All() []*File {
	all := make([]*File, 0, len(s.files))
	for _, name := range slices.Sorted(maps.Keys(s.files)) {
		all = append(all, s.files[name])
	}
	return all
}

func (s *Set) load(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("the folder with boot loaders cannot be read: %w: hack/loaders.sh makes one", err)
	}
	defer func() { _ = root.Close() }()
	list, _, err := read(root, Manifest, maxManifest)
	if err != nil {
		return fmt.Errorf("%s: %w: list the boot loaders there with: sha256sum FILE... >%s", dir, err, Manifest)
	}
	entries, err := parse(list)
	if err != nil {
		return fmt.Errorf("%s/%s: %w", dir, Manifest, err)
	}
	var problems []error
	for _, entry := range entries {
		delete(s.files, entry.Name)
		entry.Dir = dir
		if entry.Content, entry.Time, err = read(root, entry.Name, maxFile); err != nil {
			problems = append(problems, fmt.Errorf("boot loader %s/%s is not served: %w: put it there, or take it out of %s", dir, entry.Name, err, Manifest))
			continue
		}
		sum := sha256.Sum256(entry.Content)
		if got := hex.EncodeToString(sum[:]); got != entry.SHA256 {
			problems = append(problems, fmt.Errorf("boot loader %s/%s is not served: its SHA-256 checksum is %s and %s says %s: "+
				"put the right file there, or its checksum into the list if you trust it", dir, entry.Name, got, Manifest, entry.SHA256))
			continue
		}
		s.files[entry.Name] = entry
	}
	return errors.Join(problems...)
}

// read reads a regular file of at most that many bytes.
func read(root *os.Root, name string, maxBytes int64) ([]byte, time.Time, error) {
	file, err := root.Open(name)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return nil, time.Time{}, err
	}
	if !info.Mode().IsRegular() {
		return nil, time.Time{}, fmt.Errorf("%s is no regular file", name)
	}
	content, err := io.ReadAll(io.LimitReader(file, maxBytes+1))
	if err == nil && int64(len(content)) > maxBytes {
		err = fmt.Errorf("%s is larger than %d bytes", name, maxBytes)
	}
	return content, info.ModTime(), err
}

// line is a line of the manifest: a checksum, a space, a space or a star (binary mode), and a file name without a folder.
var line = regexp.MustCompile(`^([0-9a-f]{64}) [ *]([A-Za-z0-9_][A-Za-z0-9._-]{0,63})$`)

// parse reads a manifest.
func parse(list []byte) ([]*File, error) {
	var entries []*File
	comment := ""
	scanner := bufio.NewScanner(bytes.NewReader(list))
	for n := 1; scanner.Scan(); n++ {
		text := strings.TrimSpace(scanner.Text())
		if rest, ok := strings.CutPrefix(text, "#"); ok || text == "" {
			comment = strings.TrimSpace(rest)
			continue
		}
		match := line.FindStringSubmatch(text)
		if match == nil {
			return nil, fmt.Errorf("line %d is not a SHA-256 checksum in lower case, two blanks and the name of a file: write it with sha256sum", n)
		}
		if slices.ContainsFunc(entries, func(f *File) bool { return f.Name == match[2] }) {
			return nil, fmt.Errorf("line %d names %s a second time: leave one of them", n, match[2])
		}
		entries = append(entries, &File{Name: match[2], SHA256: match[1], Source: comment})
	}
	if err := scanner.Err(); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, errors.New("it lists no boot loader")
	}
	return entries, nil
}
