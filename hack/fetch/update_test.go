package main

import (
	"fmt"
	"maps"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestUpdate: hack/downloads.sh writes the checksums of what it downloads, unless the project publishes another.
func TestUpdate(t *testing.T) {
	files := map[string][]byte{}
	var paths []string
	lists := map[string][]byte{}
	for _, release := range releases(t) {
		for _, architecture := range []string{"amd64", "arm64"} {
			release := strings.NewReplacer("amd64", architecture, "arm64", architecture).Replace(release)
			content := []byte(release)
			files[release] = content
			paths = append(paths, release)
			folder, name := path.Split(release)
			switch {
			case strings.HasPrefix(release, "dl.k8s.io/"):
				lists[release+".sha256"] = []byte(sum(content))
			case strings.Contains(release, "/etcd/"):
				lists[folder+"SHA256SUMS"] = fmt.Appendf(lists[folder+"SHA256SUMS"], "%s  %s\n", sum(content), name)
			case strings.Contains(release, "/kustomize/"):
				lists[folder+"checksums.txt"] = fmt.Appendf(lists[folder+"checksums.txt"], "%s  %s\n", sum(content), name)
			}
		}
	}
	slices.Sort(paths)
	lines := []byte("# a comment\n")
	for _, release := range paths {
		lines = fmt.Appendf(lines, "%s  %s\n", sum(files[release]), release)
	}
	want := string(lines)
	maps.Copy(files, lists)
	p, m := newProject(t, nil), newMirror(t, files)
	refused := exec.CommandContext(t.Context(), filepath.Join(p.root, "hack", "downloads.sh"), "--update")
	refused.Env = slices.Concat(p.env, []string{m.env()})
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "LAB_MIRROR is set") {
		t.Errorf("a mirror vouches for its own files: %v\n%s", err, out)
	}
	update := func() (string, error) {
		command := exec.CommandContext(t.Context(), filepath.Join(p.root, "hack", "downloads.sh"), "--update")
		command.Env = slices.Concat(p.env, []string{strings.Replace(m.env(), "LAB_MIRROR", "DOWNLOADS_TEST_SERVER", 1)})
		out, err := command.CombinedOutput()
		return string(out), err
	}

	out, err := update()
	if err != nil || strings.Count(out, "not compared:") != 2 || strings.Count(out, "compared:     ") != len(paths)-2 {
		t.Errorf("%v\n%s", err, out)
	}
	if got := string(read(t, filepath.Join(p.root, "hack/downloads.sha256"))); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}

	for name, content := range lists {
		m.set(name, nil)
		out, err = update()
		if err == nil || !strings.Contains(out, "404") {
			t.Errorf("%s is not published any more: %v\n%s", name, err, out)
		}
		m.set(name, []byte("nothing"))
		if out, err = update(); err == nil {
			t.Errorf("%s has no checksum any more:\n%s", name, out)
		}
		m.set(name, content)
		break // one stands for all
	}
	for name := range lists {
		m.set(name, []byte(strings.Replace(string(lists[name]), sum(files[strings.TrimSuffix(name, ".sha256")]), sum(nil), 1)))
	}
	out, err = update()
	if err == nil || !strings.Contains(out, "and its project publishes "+sum(nil)) {
		t.Errorf("another checksum is published: %v\n%s", err, out)
	}
	if got := string(read(t, filepath.Join(p.root, "hack/downloads.sha256"))); got != want {
		t.Errorf("the file has changed:\n%s", got)
	}
}
