package fat16

import (
	"encoding/binary"
	"fmt"
	"strings"
)

const (
	attributeVolume    = 0x08
	attributeDirectory = 0x10
	attributeArchive   = 0x20
	attributeLongName  = 0x0f

	// epochDate is Epoch in the format of directory entries: year since 1980, month, day.
	epochDate = 1<<5 | 1
	// lastLongEntry marks the entry with the end of a long name, which comes first.
	lastLongEntry = 0x40
	// maxName is the maximum length of a long name that is written. The specification allows 255.
	maxName = 64
)

// entry is a short directory entry.
type entry struct {
	short      [11]byte
	attributes byte
	cluster    uint16
	size       uint32
}

func (e entry) bytes() []byte {
	b := make([]byte, entrySize)
	copy(b, e.short[:])
	b[11] = e.attributes
	le := binary.LittleEndian
	le.PutUint16(b[16:], epochDate) // DIR_CrtDate
	le.PutUint16(b[18:], epochDate) // DIR_LstAccDate
	le.PutUint16(b[24:], epochDate) // DIR_WrtDate
	le.PutUint16(b[26:], e.cluster)
	le.PutUint32(b[28:], e.size)
	return b
}

// shortName returns a name in the 8.3 format: the first characters that are letters or digits, and a number that is unique in the directory.
func shortName(name string, number int) [11]byte {
	tail := fmt.Sprintf("~%d", number)
	base := strings.Map(func(r rune) rune {
		if r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return -1
	}, strings.ToUpper(name))
	var short [11]byte
	copy(short[:], fmt.Sprintf("%-11s", base[:min(len(base), 8-len(tail))]+tail))
	return short
}

// longName returns the entries with the long name of a short name. Each has 13 characters in UTF-16. The end of the name comes first.
func longName(name string, short [11]byte) []byte {
	var sum byte
	for _, c := range short {
		sum = sum>>1 | sum<<7
		sum += c
	}
	const characters = 13
	count := (len(name) + characters - 1) / characters
	var out []byte
	for n := count; n > 0; n-- {
		b := make([]byte, entrySize)
		b[0] = byte(n) //nolint:gosec // maxName bounds it
		if n == count {
			b[0] |= lastLongEntry
		}
		b[11], b[13] = attributeLongName, sum
		for i := range characters {
			binary.LittleEndian.PutUint16(b[longNameOffset(i):], longNameCharacter(name, (n-1)*characters+i))
		}
		out = append(out, b...)
	}
	return out
}

// longNameOffset is where a character of a long name is: the specification puts 5 at 1, 6 at 14 and 2 at 28.
func longNameOffset(i int) int {
	switch {
	case i < 5:
		return 1 + 2*i
	case i < 11:
		return 14 + 2*(i-5)
	default:
		return 28 + 2*(i-11)
	}
}

// longNameCharacter returns a character of a name, the zero that ends it, or the padding behind that.
func longNameCharacter(name string, i int) uint16 {
	switch {
	case i < len(name):
		return uint16(name[i])
	case i == len(name):
		return 0
	default:
		return 0xffff
	}
}

// node is a file, or a directory: children is not nil then.
type node struct {
	name     string
	content  []byte
	children []*node
}

// tree arranges files in directories, in the order of the files.
func tree(files []File) (*node, error) {
	root := &node{children: []*node{}}
	total := 0
	for _, f := range files {
		total += len(f.Content)
		if total > MaxContent {
			return nil, fmt.Errorf("the files have more than %d bytes", MaxContent)
		}
		dir := root
		names := strings.Split(f.Path, "/")
		for i, name := range names {
			if err := checkName(name); err != nil {
				return nil, fmt.Errorf("%q: %w", f.Path, err)
			}
			child := dir.child(name)
			last := i == len(names)-1
			switch {
			case child != nil && (last || child.children == nil):
				return nil, fmt.Errorf("%q: another file has this name", f.Path)
			case child == nil && last:
				dir.children = append(dir.children, &node{name: name, content: f.Content})
			case child == nil:
				child = &node{name: name, children: []*node{}}
				dir.children = append(dir.children, child)
			}
			dir = child
		}
	}
	return root, nil
}

// child returns the child with a name, without regard to case as the specification demands, or nil.
func (n *node) child(name string) *node {
	for _, c := range n.children {
		if strings.EqualFold(c.name, name) {
			return c
		}
	}
	return nil
}

func checkName(name string) error {
	if name == "" || len(name) > maxName || strings.Trim(name, ".") == "" {
		return fmt.Errorf("the name %.80q is not valid: it must have 1 to %d characters", name, maxName)
	}
	for _, r := range name {
		if r <= ' ' || r > '~' || strings.ContainsRune(`"*/:<>?\|`, r) {
			return fmt.Errorf("the name %q contains %q, which FAT does not allow or this package does not write", name, r)
		}
	}
	if strings.HasSuffix(name, ".") {
		return fmt.Errorf("the name %q ends in a dot, which FAT removes", name)
	}
	return nil
}

func checkLabel(label string) error {
	if label == "" || len(label) > 11 {
		return fmt.Errorf("the volume label %.20q must have 1 to 11 characters", label)
	}
	for _, r := range label {
		if (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return fmt.Errorf("the volume label %q contains %q: only capital letters, digits, - and _ are written", label, r)
		}
	}
	return nil
}
