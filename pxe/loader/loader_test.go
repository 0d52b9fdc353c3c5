package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// folder creates a folder with files and their manifest. The content of a file is its name and the folder's.
func folder(t *testing.T, list string, names ...string) string {
	t.Helper()
	g := NewWithT(t)
	dir := t.TempDir()
	for _, name := range names {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600)).To(Succeed())
	}
	g.Expect(os.WriteFile(filepath.Join(dir, Manifest), []byte(list), 0o600)).To(Succeed())
	return dir
}

func entry(content, name string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:]) + "  " + name + "\n"
}

func TestLoad(t *testing.T) {
	g := NewWithT(t)
	base := folder(t, "# ipxe 1.21.1\n"+entry("a.efi", "a.efi")+"\n"+entry("b.efi", "b.efi"), "a.efi", "b.efi", "unlisted.efi")
	overlay := folder(t, entry("b.efi", "b.efi")+entry("c.efi", "c.efi"), "b.efi", "c.efi")
	set, err := Load(base, overlay)
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, file := range set.All() {
		g.Expect(string(file.Content)).To(Equal(file.Name))
		names = append(names, file.Name+" from "+file.Source)
	}
	g.Expect(names).To(Equal([]string{"a.efi from ipxe 1.21.1", "b.efi from ", "c.efi from "}))
	g.Expect(set.Get("b.efi").Dir).To(Equal(overlay), "the later folder wins")
	g.Expect(set.Get("unlisted.efi")).To(BeNil(), "what no list names is not served")
}

// TestProblems: the error names every file that does not match its manifest, with the remedy. That file is not served; the others are.
func TestProblems(t *testing.T) {
	g := NewWithT(t)
	good := folder(t, entry("a.efi", "a.efi")+entry("b.efi", "b.efi")+entry("c.efi", "c.efi"), "a.efi", "b.efi", "c.efi")
	bad := folder(t, entry("something else", "b.efi")+entry("gone.efi", "gone.efi")+entry("root:", "link"), "b.efi")
	g.Expect(os.Symlink("/etc/passwd", filepath.Join(bad, "link"))).To(Succeed())
	set, err := Load(good, bad)
	g.Expect(err).To(MatchError(And(
		ContainSubstring("boot loader "+bad+"/b.efi is not served: its SHA-256 checksum is "),
		ContainSubstring("boot loader "+bad+"/gone.efi is not served: "),
		ContainSubstring("boot loader "+bad+"/link is not served: "),
		ContainSubstring("take it out of SHA256SUMS"),
	)))
	g.Expect(set.Get("a.efi")).NotTo(BeNil())
	g.Expect(set.Get("b.efi")).To(BeNil(), "also not the one that the operator meant to replace")
	g.Expect(set.Get("link")).To(BeNil())

	_, err = Load(filepath.Join(good, "nowhere"))
	g.Expect(err).To(MatchError(ContainSubstring("hack/loaders.sh makes one")))
	_, err = Load(t.TempDir())
	g.Expect(err).To(MatchError(ContainSubstring("sha256sum FILE... >SHA256SUMS")))
	for list, want := range map[string]string{
		"":                                "lists no boot loader",
		"garbage\n":                       "line 1 is not a SHA-256 checksum",
		entry("x", "../x"):                "line 1 is not a SHA-256 checksum",
		entry("x", ".hidden"):             "line 1 is not a SHA-256 checksum",
		entry("x", "a/b"):                 "line 1 is not a SHA-256 checksum",
		entry("x", "x") + entry("y", "x"): "line 2 names x a second time",
	} {
		_, err := Load(folder(t, list, "x"))
		g.Expect(err).To(MatchError(ContainSubstring(want)), list)
	}
}

// FuzzParse: whatever a manifest contains, the result has only file names without folders.
func FuzzParse(f *testing.F) {
	f.Add([]byte(entry("x", "x")))
	f.Add([]byte("# a comment\n\n" + entry("x", "snponly.efi")))
	f.Fuzz(func(t *testing.T, list []byte) {
		entries, err := parse(list)
		for _, e := range entries {
			if err != nil || strings.ContainsAny(e.Name, "/\\\x00") || strings.HasPrefix(e.Name, ".") || len(e.SHA256) != 64 {
				t.Fatalf("%q", e.Name)
			}
		}
	})
}
