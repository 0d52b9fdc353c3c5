package main

import (
	"archive/tar"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"
)

// tree is the files of a layer by their paths, without a slash at the beginning.
type tree struct{ entries map[string]*entry }

// entry is a file, a folder or a symbolic link.
type entry struct {
	mode fs.FileMode
	// owner is the number of the user and of the group. 0 is root.
	owner int
	// link is where a symbolic link leads, source the file that the content is copied from. Without it the content is what it is.
	link, source string
	content      []byte
	// capabilities are the file's, in the form of the extended attribute security.capability.
	capabilities []byte
}

func newTree() *tree { return &tree{map[string]*entry{}} }

// dir adds a folder. Those above it are added with the files in them.
func (t *tree) dir(name string, mode fs.FileMode) {
	t.entries[name] = &entry{mode: fs.ModeDir | mode}
}

// file adds a file that everybody may read.
func (t *tree) file(name string, content []byte) {
	t.entries[name] = &entry{mode: 0o644, content: content}
}

// copy adds a file of this machine.
func (t *tree) copy(name, source string, mode fs.FileMode) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no file", source)
	}
	t.entries[name] = &entry{mode: mode, source: source}
	return nil
}

// symlink adds a symbolic link.
func (t *tree) symlink(name, to string) {
	t.entries[name] = &entry{mode: fs.ModeSymlink | 0o777, link: to}
}

// write writes the files as a tar archive, folders before what is in them.
func (t *tree) write(w io.Writer, date time.Time) error {
	out := tar.NewWriter(w)
	for name := range maps.Clone(t.entries) {
		for up := path.Dir(name); up != "."; up = path.Dir(up) {
			if t.entries[up] == nil {
				t.dir(up, 0o755)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.entries)) {
		if err := t.entries[name].write(out, name, date); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return out.Close()
}

func (e *entry) write(out *tar.Writer, name string, date time.Time) error {
	header := &tar.Header{Name: name, Mode: int64(e.mode.Perm()), Uid: e.owner, Gid: e.owner, ModTime: date, Format: tar.FormatPAX}
	if e.mode&fs.ModeSticky != 0 {
		header.Mode |= 0o1000
	}
	content := e.content
	switch {
	case e.mode.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, name+"/"
	case e.mode&fs.ModeSymlink != 0:
		header.Typeflag, header.Linkname = tar.TypeSymlink, e.link
	default:
		if e.source != "" {
			var err error
			if content, err = os.ReadFile(e.source); err != nil {
				return err
			}
		}
		header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
	}
	if e.capabilities != nil {
		header.PAXRecords = map[string]string{"SCHILY.xattr.security.capability": string(e.capabilities)}
	}
	if err := out.WriteHeader(header); err != nil {
		return err
	}
	_, err := out.Write(content)
	return err
}

// bindService is cap_net_bind_service+p: the program may listen on ports below 1024 after it has made the capability effective. With the flag "effective" it
// would not start in a container that drops the capability. This is the kernel's struct vfs_cap_data, revision 2 (include/uapi/linux/capability.h): the
// revision with its flags, then permitted and inheritable of the capabilities 0 to 31, and of 32 to 63.
var bindService = func() []byte {
	const (
		revision2      = 0x02000000
		netBindService = 10
	)
	var out []byte
	for _, word := range []uint32{revision2, 1 << netBindService, 0, 0, 0} {
		out = binary.LittleEndian.AppendUint32(out, word)
	}
	return out
}()
