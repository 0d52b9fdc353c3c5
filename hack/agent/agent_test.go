package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestCpioReadsArchive(t *testing.T) {
	g := NewWithT(t)
	build := func(order ...string) []byte {
		var r ramdisk
		for _, name := range order {
			r.add(name, 0o644, []byte(name))
		}
		r.link("sbin/modprobe", "/init")
		r.console("dev/console")
		return r.archive()
	}
	archive := build("init", "lib/modules/b", "lib/modules/a")
	g.Expect(archive).To(Equal(build("lib/modules/a", "lib/modules/b", "init")), "the order of additions does not count")
	g.Expect(len(archive) % 4).To(BeZero())
	out, err := filter(bytes.NewReader(archive), "cpio", "--list", "--verbose", "--numeric-uid-gid", "--quiet")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(out)).To(And(ContainSubstring("sbin/modprobe -> /init"), MatchRegexp(`crw------- +1 0 +0 +5, +1 .* dev/console`), MatchRegexp(`-rw-r--r-- +1 0 +0 +4 .* init`)))
}

func TestMatch(t *testing.T) {
	g := NewWithT(t)
	root := t.TempDir()
	for _, name := range []string{"net/a.ko.xz", "net/sub/b-c.ko.xz", "net/old/d.ko.xz", "scsi/e.ko.xz"} {
		g.Expect(os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755)).To(Succeed())
		g.Expect(os.WriteFile(filepath.Join(root, name), nil, 0o600)).To(Succeed())
	}
	tree, err := newModuleTree(root, "xz")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(tree.match("# all\nnet\n!net/old\nscsi/e.ko\nscsi/none.ko\n")).To(Equal([]string{"a", "b_c", "e"}))
	_, err = newModuleTree(t.TempDir(), "xz")
	g.Expect(err).To(MatchError(ContainSubstring("no modules")))
}

// TestClosure: what is loaded first stands last.
func TestClosure(t *testing.T) {
	a, b, c := &module{name: "a", needs: []string{"b", "c"}}, &module{name: "b", needs: []string{"c"}}, &module{name: "c"}
	all := map[string]*module{"a": a, "b": b, "c": c}
	NewWithT(t).Expect(closure(a, all)).To(Equal([]*module{b, c}))
}

// TestKernel: a kernel that is not compressed is written with gzip, always with the same bytes, and the signed bytes are in it. TestMediumIsValid of hack/agenttest
// reads the file system that the real mksquashfs makes of it.
func TestKernel(t *testing.T) {
	g := NewWithT(t)
	folder := t.TempDir()
	write := func(name string, content []byte) string {
		name = filepath.Join(folder, name)
		g.Expect(os.WriteFile(name, content, 0o600)).To(Succeed())
		return name
	}
	arm := append(bytes.Repeat([]byte("MZ"), armMagicOffset/2), "ARM\x64 and more"...)
	copies := write("mksquashfs", []byte("cp \"$1/kernel\" \"$2\"\n"))
	g.Expect(writeKernel(write("arm64", arm), folder, "sh "+copies)).To(Succeed())
	g.Expect(os.ReadFile(filepath.Join(folder, "kernel.squashfs"))).To(Equal(arm))
	g.Expect(writeKernel(write("arm64", arm), folder, "sh -c false")).To(MatchError(ContainSubstring("exit status 1")))
	g.Expect(writeKernel(write("amd64", []byte("MZ, compressed")), folder, "false")).To(Succeed())
	g.Expect(os.ReadFile(filepath.Join(folder, "kernel"))).To(BeEquivalentTo("MZ, compressed"))
	zipped, err := os.ReadFile(filepath.Join(folder, "kernel.gz"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(zip(arm)).To(Equal(zipped))
	unzip, err := gzip.NewReader(bytes.NewReader(zipped))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(io.ReadAll(unzip)).To(Equal(arm))
}
