package buildtest

import (
	"fmt"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// publisher stands for the projects: their releases, and the checksums that they publish.
type publisher struct {
	p *project
	m *mirror
	// files has the releases and the lists of checksums by their paths.
	files map[string][]byte
	// want is what hack/downloads.sh writes.
	want     string
	releases int
}

func newPublisher(t *testing.T) *publisher {
	t.Helper()
	files, paths := map[string][]byte{}, []string{}
	for _, release := range releases(t) {
		for _, architecture := range []string{"amd64", "arm64"} {
			release := strings.NewReplacer("amd64", architecture, "arm64", architecture).Replace(release)
			content := []byte(release)
			files[release] = content
			paths = append(paths, release)
			folder, name := path.Split(release)
			switch {
			case strings.HasPrefix(release, "dl.k8s.io/"):
				files[release+".sha256"] = []byte(sum(content))
			case strings.Contains(release, "/etcd/"):
				files[folder+"SHA256SUMS"] = fmt.Appendf(files[folder+"SHA256SUMS"], "%s  %s\n", sum(content), name)
			}
		}
	}
	slices.Sort(paths)
	lines := []byte("# a comment\n")
	for _, release := range paths {
		lines = fmt.Appendf(lines, "%s  %s\n", sum(files[release]), release)
	}
	return &publisher{p: newProject(t, nil), m: newMirror(t, files), files: files, want: string(lines), releases: len(paths)}
}

// update runs hack/downloads.sh with a variable that names the server.
func (b *publisher) update(t *testing.T, variable string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(b.p.root, "hack", "downloads.sh"), "--update")
	command.Env = slices.Concat(b.p.env, []string{strings.Replace(b.m.env(), "LAB_MIRROR", variable, 1)})
	out, err := command.CombinedOutput()
	return string(out), err
}

const testServer = "DOWNLOADS_TEST_SERVER"

// TestUpdate: hack/downloads.sh writes the checksums of what it downloads, compared with those that the projects publish. Cluster API publishes none.
func TestUpdate(t *testing.T) {
	b := newPublisher(t)
	out, err := b.update(t, testServer)
	if err != nil || strings.Count(out, "not compared:") != 2 || strings.Count(out, "compared:     ") != b.releases-2 {
		t.Errorf("%v\n%s", err, out)
	}
	if got := string(read(t, filepath.Join(b.p.root, "hack/downloads.sha256"))); got != b.want {
		t.Errorf("got:\n%s\nwant:\n%s", got, b.want)
	}
}

// TestUpdateRefuses: hack/downloads.sh writes nothing if a project publishes another checksum or none any more, or if a mirror would vouch for its own files.
func TestUpdateRefuses(t *testing.T) {
	b := newPublisher(t)
	before := string(read(t, filepath.Join(b.p.root, "hack/downloads.sha256")))
	ending := func(suffix string) string {
		for name := range b.files {
			if strings.HasSuffix(name, suffix) {
				return name
			}
		}
		t.Fatalf("no file ends in %s", suffix)
		return ""
	}
	for name, c := range map[string]struct {
		file     string
		content  []byte
		variable string
		want     string
	}{
		"another checksum":          {ending("amd64/kubectl.sha256"), []byte(sum(nil)), testServer, "and its project publishes " + sum(nil)},
		"no list any more":          {ending("/SHA256SUMS"), nil, testServer, "404"},
		"no line in the list":       {ending("/SHA256SUMS"), []byte("nothing"), testServer, "the project publishes no checksum of "},
		"a mirror for its own ones": {"", nil, "LAB_MIRROR", "LAB_MIRROR is set"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.file != "" {
				b.m.set(c.file, c.content)
				defer b.m.set(c.file, b.files[c.file])
			}
			if out, err := b.update(t, c.variable); err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v, want %q:\n%s", err, c.want, out)
			}
			if got := string(read(t, filepath.Join(b.p.root, "hack/downloads.sha256"))); got != before {
				t.Errorf("the file has changed:\n%s", got)
			}
		})
	}
}
