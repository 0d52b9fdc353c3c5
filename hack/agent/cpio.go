package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
)

// ramdisk is an initial RAM disk: an archive in the format "newc" of cpio (the kernel's Documentation/driver-api/early-userspace/buffer-format.rst). All
// files belong to root and have no time.
type ramdisk struct {
	files []file
	names map[string]bool
}

// file is an entry of the archive. content of a symbolic link is its target.
type file struct {
	name         string
	mode         uint32
	major, minor uint32
	content      []byte
}

// The types of files (stat.h).
const (
	typeDevice = 0o020000
	typeFolder = 0o040000
	typeFile   = 0o100000
	typeLink   = 0o120000
)

// put adds an entry, and the folders above it. An entry whose name exists is ignored.
func (r *ramdisk) put(f file) {
	if r.names == nil {
		r.names = map[string]bool{}
	}
	if r.names[f.name] {
		return
	}
	if folder := path.Dir(f.name); folder != "." {
		r.folder(folder)
	}
	r.names[f.name] = true
	r.files = append(r.files, f)
}

func (r *ramdisk) add(name string, permissions uint32, content []byte) {
	r.put(file{name: name, mode: typeFile | permissions, content: content})
}

func (r *ramdisk) link(name, target string) {
	r.put(file{name: name, mode: typeLink | 0o777, content: []byte(target)})
}

func (r *ramdisk) folder(name string) { r.put(file{name: name, mode: typeFolder | 0o755}) }

// console adds the device that the kernel opens as standard input and output of the first program.
func (r *ramdisk) console(name string) {
	r.put(file{name: name, mode: typeDevice | 0o600, major: 5, minor: 1})
}

// archive returns the archive, sorted by names: a folder stands before its files.
func (r *ramdisk) archive() []byte {
	files := slices.SortedFunc(slices.Values(r.files), func(a, b file) int { return strings.Compare(a.name, b.name) })
	var out bytes.Buffer
	for i, f := range append(files, file{name: "TRAILER!!!"}) {
		// Magic, inode, mode, owner, group, links, time, size, device, device of the file, length of the name, checksum.
		fmt.Fprintf(&out, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X", i+1, f.mode, 0, 0, 1, 0, len(f.content), 0, 0, f.major, f.minor, len(f.name)+1, 0)
		out.WriteString(f.name + "\x00")
		pad(&out)
		out.Write(f.content)
		pad(&out)
	}
	return out.Bytes()
}

// pad fills up to a multiple of 4 bytes.
func pad(out *bytes.Buffer) {
	for out.Len()%4 != 0 {
		out.WriteByte(0)
	}
}

// write appends the archive to a file, as one zstd frame.
func (r *ramdisk) write(name, zstd string) error {
	compressed, err := compress(zstd, r.archive())
	if err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // a file of a release, that everyone may read
	if err != nil {
		return err
	}
	_, err = file.Write(compressed)
	return errors.Join(err, file.Close())
}

// compress runs zstd at its highest level without a window of more than 8 MiB, which the kernel would need as memory. The number of threads does not change
// the bytes, unless it is 0 or --single-thread is given.
func compress(zstd string, content []byte) ([]byte, error) {
	return filter(bytes.NewReader(content), zstd, "--quiet", "--threads=2", "-19", "--stdout")
}

// filter runs a program on a stream. The words of program are separated by blanks.
func filter(in io.Reader, program string, args ...string) ([]byte, error) {
	words := append(strings.Fields(program), args...)
	command := exec.Command(words[0], words[1:]...) //nolint:noctx,gosec // a filter, which ends with its input
	command.Stdin = in
	var out, said bytes.Buffer
	command.Stdout, command.Stderr = &out, &said
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", strings.Join(words, " "), err, said.String())
	}
	return out.Bytes(), nil
}
