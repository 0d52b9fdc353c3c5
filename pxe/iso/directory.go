package iso

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

// node is a file or a directory. The root has no name, and is its own parent.
type node struct {
	path, name string
	parent     *node
	children   []*node // sorted; nil for a file
	content    Content // nil for a directory
	sector     int64
	size       int64
	number     uint16 // of a directory, in the path table
	order      int    // of a file, in the input
}

// maxNodes is the maximum number of files and directories, so that the numbers of directories in the path table fit into 16 bits. maxDepth is that of the levels
// (6.8.2.1).
const (
	maxNodes = 10000
	maxDepth = 8
)

// tree returns the root of the files.
func tree(files []File) (*node, error) {
	root := &node{}
	root.parent = root
	known := map[string]*node{"": root}
	for order, f := range files {
		if f.Content == nil {
			return nil, fmt.Errorf("the file %q has no content", f.Path)
		}
		if err := insert(known, f, order); err != nil {
			return nil, err
		}
	}
	for _, n := range known {
		slices.SortFunc(n.children, compareNames)
	}
	return root, nil
}

// insert adds a file, and the directories that it needs, to the known nodes.
func insert(known map[string]*node, f File, order int) error {
	names := strings.Split(f.Path, "/")
	if len(names) > maxDepth {
		return fmt.Errorf("the path %q has more than %d levels", f.Path, maxDepth)
	}
	at := known[""]
	for i, name := range names {
		path, last := strings.Join(names[:i+1], "/"), i == len(names)-1
		if !nameFormat.MatchString(name) && (!last || !fileFormat.MatchString(name)) {
			return fmt.Errorf("the path %q has a name that is not of the form name.ext with at most 8 and 3 lower-case letters, digits and underscores", f.Path)
		}
		n := known[path]
		switch {
		case n != nil && (last || n.content != nil):
			return fmt.Errorf("the path %q exists twice, or is a file and a directory", path)
		case n == nil:
			n = &node{path: path, name: name, parent: at}
			if last {
				n.content, n.order = f.Content, order
			}
			if known[path] = n; len(known) > maxNodes {
				return fmt.Errorf("there are more than %d files and directories", maxNodes)
			}
			at.children = append(at.children, n)
		default:
		}
		at = n
	}
	return nil
}

// compareNames orders a directory (9.3): by name, then by extension, as if both were filled with spaces. A space sorts before every character of a name, as the end
// of a string does.
func compareNames(a, b *node) int {
	nameA, extensionA, _ := strings.Cut(strings.ToUpper(a.name), ".")
	nameB, extensionB, _ := strings.Cut(strings.ToUpper(b.name), ".")
	return cmp.Or(strings.Compare(nameA, nameB), strings.Compare(extensionA, extensionB))
}

// directories returns all directories in the order of the path table: by level, then by parent, then by name (6.9.1).
func (n *node) directories() []*node {
	all := []*node{n}
	for i := 0; i < len(all); i++ {
		all[i].number = uint16(i + 1)
		for _, child := range all[i].children {
			if child.content == nil {
				all = append(all, child)
			}
		}
	}
	return all
}

// files returns all files, in their order in the input.
func (n *node) files() []*node {
	var all []*node
	for _, d := range n.directories() {
		for _, child := range d.children {
			if child.content != nil {
				all = append(all, child)
			}
		}
	}
	slices.SortFunc(all, func(a, b *node) int { return a.order - b.order })
	return all
}

// identifier is the name in a directory record (7.5 and 7.6).
func (n *node) identifier() string {
	name := strings.ToUpper(n.name)
	switch {
	case n.parent == n:
		return "\x00"
	case n.content == nil:
		return name
	case !strings.Contains(name, "."):
		return name + ".;1"
	default:
		return name + ";1"
	}
}

// recordsSize returns the size of the records of a directory, in whole sectors.
func (n *node) recordsSize() int64 { return int64(len(n.records(time.Unix(0, 0)))) }

// records returns the records of a directory: of itself, of its parent, and of its children. No record crosses a sector (6.8.1.1).
func (n *node) records(at time.Time) []byte {
	out := append(n.record("\x00", at), n.parent.record("\x01", at)...)
	for _, child := range n.children {
		r := child.record(child.identifier(), at)
		if used := len(out) % SectorSize; used+len(r) > SectorSize {
			out = append(out, make([]byte, SectorSize-used)...)
		}
		out = append(out, r...)
	}
	return append(out, make([]byte, sectors(int64(len(out)))*SectorSize-int64(len(out)))...)
}

// recordSize is the size of a directory record without its identifier.
const recordSize = 33

// record returns a directory record (9.1).
func (n *node) record(identifier string, at time.Time) []byte {
	length := recordSize + len(identifier)
	r := make([]byte, length+length%2) // 9.1.12
	r[0] = byte(len(r))                //nolint:gosec // identifiers have at most 14 characters
	putBoth32(r[2:], n.sector)
	putBoth32(r[10:], n.size)
	at = at.UTC()
	for i, value := range []int{at.Year() - 1900, int(at.Month()), at.Day(), at.Hour(), at.Minute(), at.Second()} { // 9.1.5
		r[18+i] = byte(value) //nolint:gosec // New checks the year
	}
	if n.content == nil {
		r[25] = 2 // 9.1.6: a directory
	}
	putBoth16(r[28:], 1)
	r[32] = byte(len(identifier)) //nolint:gosec // as above
	copy(r[recordSize:], identifier)
	return r
}

// pathTable returns the path table in a byte order (6.9 and 9.4). Its size depends on the names only.
func pathTable(directories []*node, order binary.AppendByteOrder) []byte {
	var out []byte
	for _, d := range directories {
		identifier := d.identifier()
		out = append(out, byte(len(identifier)), 0)     //nolint:gosec // at most 8 characters
		out = order.AppendUint32(out, uint32(d.sector)) //nolint:gosec // write bounds the sectors
		out = order.AppendUint16(out, d.parent.number)
		out = append(out, identifier...)
		if len(identifier)%2 == 1 {
			out = append(out, 0)
		}
	}
	return out
}

// putBoth32 and putBoth16 write a number in both byte orders (7.3.3 and 7.2.3).
func putBoth32(b []byte, value int64) {
	binary.LittleEndian.PutUint32(b, uint32(value))  //nolint:gosec // write bounds sectors and sizes
	binary.BigEndian.PutUint32(b[4:], uint32(value)) //nolint:gosec // as above
}

func putBoth16(b []byte, value uint16) {
	binary.LittleEndian.PutUint16(b, value)
	binary.BigEndian.PutUint16(b[2:], value)
}
