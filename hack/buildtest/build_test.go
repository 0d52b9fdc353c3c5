// Package buildtest runs the real hack/build.sh and hack/downloads.sh in projects of their own. Their mirror serves programs of the lab; their compiler is a script.
package buildtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// stubGo builds scripts that say so.
const stubGo = `#!/usr/bin/env bash
set -euo pipefail
case "$*" in "env "*) exec %[1]q "$@" ;; esac
echo "go: downloading example.org/module v1.0.0" >&2
[ -z "${STUB_FAILS:-}" ] || { echo "compile: syntax error" >&2; exit 1; }
while [ "$1" != -o ]; do shift; done
printf '#!/bin/sh\necho built\n' >"$2"
chmod +x "$2"
`

const built = "#!/bin/sh\necho built\n"

// project is a copy of what hack/build.sh needs.
type project struct {
	root string
	env  []string
}

// newProject makes one that knows the checksums of these files, which are given by their paths.
func newProject(t *testing.T, files map[string][]byte) *project {
	t.Helper()
	p := &project{root: t.TempDir()}
	for _, name := range []string{"build.sh", "fetch.sh", "progress.sh", "downloads.sh", "etcd/go.mod", "etcd/go.sum", "kube/go.mod", "kube/go.sum", "capi/go.mod", "capi/go.sum"} {
		p.write(t, "hack/"+name, read(t, "../"+name), 0o700)
	}
	p.write(t, "go.mod", []byte("module example.org/project\n\ngo 1.26.0\n"), 0o600)
	p.knows(t, files)
	compiler, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	p.write(t, "path/go", fmt.Appendf(nil, stubGo, compiler), 0o700)
	p.env = append(os.Environ(), "PATH="+filepath.Join(p.root, "path")+":"+os.Getenv("PATH"), "LAB_DOWNLOAD=", "LAB_MIRROR=", "http_proxy=", "HTTP_PROXY=")
	return p
}

// knows writes the checksums of these files.
func (p *project) knows(t *testing.T, files map[string][]byte) {
	t.Helper()
	lines := []byte("# a comment\n")
	for name, content := range files {
		lines = fmt.Appendf(lines, "%s  %s\n", sum(content), name)
	}
	p.write(t, "hack/downloads.sha256", lines, 0o600)
}

func (p *project) write(t *testing.T, name string, content []byte, mode os.FileMode) {
	t.Helper()
	name = filepath.Join(p.root, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, content, mode)); err != nil {
		t.Fatal(err)
	}
}

// build runs hack/build.sh, and returns what it prints.
func (p *project) build(t *testing.T, env string, names ...string) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), filepath.Join(p.root, "hack", "build.sh"), names...)
	command.Env = slices.Concat(p.env, strings.Fields(env))
	out, err := command.CombinedOutput()
	if strings.Contains(string(out), "go: downloading") {
		t.Errorf("the output has lines of Go's downloads:\n%s", out)
	}
	return string(out), err
}

// mustBuild is build that succeeds.
func (p *project) mustBuild(t *testing.T, env string, names ...string) string {
	t.Helper()
	out, err := p.build(t, env, names...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out
}

// has checks the content of a program, and that nothing else was left behind.
func (p *project) has(t *testing.T, name string, content []byte) {
	t.Helper()
	if got := read(t, filepath.Join(p.root, ".cache/bin", name)); !bytes.Equal(got, content) {
		t.Errorf("%s has %d bytes, want %d: %.40q", name, len(got), len(content), got)
	}
	if parts, _ := filepath.Glob(filepath.Join(p.root, ".cache/bin/.*")); len(parts) > 0 {
		t.Errorf("temporary files are left: %v", parts)
	}
}

// releases returns the paths of the releases by the name of the program.
func releases(t *testing.T) map[string]string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "../build.sh", "--releases", runtime.GOARCH).Output()
	if err != nil {
		t.Fatal(err)
	}
	paths := map[string]string{}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		name, _, _ := strings.Cut(strings.TrimSuffix(path.Base(fields[0]), "-linux-"+runtime.GOARCH), "-v")
		paths[name] = fields[0]
	}
	if len(paths) != 6 {
		t.Fatalf("%d releases: %v", len(paths), paths)
	}
	return paths
}

// lab returns a program of the lab, which make unit has built.
func lab(t *testing.T, name string) []byte {
	t.Helper()
	path := "../../.cache/bin/" + name
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) && os.Getenv("CAPBM_TESTS") != "complete" {
		// "go test ./..." works in a fresh clone. In a target of make the missing program is a failure, as with controllerstest.Need.
		t.Skipf("%s is missing: run make lab-programs", path) // make test builds it first
	}
	return read(t, path)
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func sum(content []byte) string {
	hash := sha256.Sum256(content)
	return hex.EncodeToString(hash[:])
}

// archive returns a .tar.gz.
func archive(t *testing.T, members map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped, err := gzip.NewWriterLevel(&out, gzip.NoCompression)
	if err != nil {
		t.Fatal(err)
	}
	files := tar.NewWriter(zipped)
	for name, content := range members {
		if err := files.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o755, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(files.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// mirror serves files below /lab, and records the requests.
type mirror struct {
	*httptest.Server

	mu       sync.Mutex
	requests []string
	files    map[string][]byte
}

// set changes a file; nil removes it.
func (m *mirror) set(name string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.files[name] = content; content == nil {
		delete(m.files, name)
	}
}

func newMirror(t *testing.T, files map[string][]byte) *mirror {
	t.Helper()
	m := &mirror{files: maps.Clone(files)}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.mu.Lock()
		m.requests = append(m.requests, r.Method+" "+path.Base(r.URL.Path))
		content, ok := m.files[strings.TrimPrefix(r.URL.Path, "/lab/")]
		m.mu.Unlock()
		if !ok {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
	}))
	t.Cleanup(m.Close)
	return m
}

// env is the environment that makes hack/build.sh use it.
func (m *mirror) env() string { return "LAB_MIRROR=" + m.URL + "/lab/" }

func (m *mirror) count() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.requests)
}

func TestBuildTakesReleases(t *testing.T) {
	paths := releases(t)
	version := strings.Split(paths["etcd"], "/")[5]
	member := "etcd-" + version + "-linux-" + runtime.GOARCH + "/etcd"
	files := map[string][]byte{paths["kubectl"]: lab(t, "kubectl"), paths["etcd"]: archive(t, map[string][]byte{"README": nil, member: lab(t, "etcd")})}
	p, m := newProject(t, files), newMirror(t, files)

	out := p.mustBuild(t, m.env(), "etcd", "kubectl", "capi-core")
	p.has(t, "etcd", lab(t, "etcd"))
	p.has(t, "kubectl", lab(t, "kubectl"))
	p.has(t, "capi-core", []byte(built))
	if program := filepath.Join(p.root, ".cache/bin/etcd"); exec.CommandContext(t.Context(), program, "--version").Run() != nil {
		t.Error("the program does not run")
	}
	for _, line := range []string{"3 programs", "downloaded etcd", "downloaded kubectl"} {
		if !strings.Contains(out, line) {
			t.Errorf("the output has no %q:\n%s", line, out)
		}
	}
	if m.count() != 3 {
		t.Errorf("want an attempt and two downloads: %v", m.requests)
	}

	// What is there is kept, whichever way it came, and nothing is printed.
	for _, env := range []string{m.env(), "STUB_FAILS=1"} {
		if out := p.mustBuild(t, env, "etcd", "kubectl", "capi-core"); out != "" || m.count() != 3 {
			t.Errorf("%s: the second run prints %q, requests: %v", env, out, m.requests)
		}
	}

	// Its line of the checksums is what pins a downloaded program.
	p.knows(t, map[string][]byte{paths["kubectl"]: []byte("another")})
	p.mustBuild(t, "LAB_DOWNLOAD=never", "kubectl")
	p.has(t, "kubectl", []byte(built))

	// Where nothing may be downloaded, nothing that was downloaded is used.
	p.mustBuild(t, "LAB_DOWNLOAD=never", "etcd")
	p.has(t, "etcd", []byte(built))
}

func TestBuildKeepsWhatWasBuilt(t *testing.T) {
	content := []byte("a release")
	files := map[string][]byte{releases(t)["kubectl"]: content}
	p, m := newProject(t, files), newMirror(t, files)
	p.mustBuild(t, m.env()+" LAB_DOWNLOAD=never", "kubectl")
	p.mustBuild(t, m.env(), "kubectl")
	p.has(t, "kubectl", []byte(built))
	if m.count() != 0 {
		t.Errorf("requests: %v", m.requests)
	}
}

// TestBuildInPlaceOfADownload: whatever is wrong with a download, the program is built and one line says why.
func TestBuildInPlaceOfADownload(t *testing.T) {
	paths := releases(t)
	kubectl, etcd := paths["kubectl"], paths["etcd"]
	good := map[string][]byte{kubectl: []byte("a release"), etcd: archive(t, map[string][]byte{"etcd": []byte("not at its place")})}
	cases := map[string]struct {
		name   string
		known  map[string][]byte
		answer http.HandlerFunc
		want   string
	}{
		"wrong checksum": {"kubectl", good, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("an attack")) }, "has the checksum " + sum([]byte("an attack"))},
		"not found":      {"kubectl", good, http.NotFound, "error: 404"},
		"truncated": {"kubectl", good, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("a release"))
		}, "transfer closed with 91 bytes remaining"},
		"redirect to nowhere": {"kubectl", good, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		}, "Failed to connect to 127.0.0.1 port 1"},
		"no such member": {"etcd", good, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(good[etcd]) }, "has no etcd-v"},
		"no archive":     {"etcd", map[string][]byte{etcd: []byte("a release")}, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a release")) }, "is no archive"},
		"no checksum":    {"kubectl", nil, http.NotFound, "kubectl is built: hack/downloads.sha256 has no line for " + kubectl},
	}
	p := newProject(t, nil)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p.knows(t, c.known)
			_ = os.Remove(filepath.Join(p.root, ".cache/bin", c.name))
			server := httptest.NewServer(c.answer)
			defer server.Close()
			out := p.mustBuild(t, "LAB_MIRROR="+server.URL, c.name)
			if strings.Count(out, c.want) != 1 {
				t.Errorf("want one line with %q:\n%s", c.want, out)
			}
			p.has(t, c.name, []byte(built))
		})
	}
}

// TestBuildWithoutAMirror: one attempt of three seconds decides.
func TestBuildWithoutAMirror(t *testing.T) {
	paths := releases(t)
	files := map[string][]byte{paths["kubectl"]: []byte("a release"), paths["kubeadm"]: []byte("a release")}
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var connections atomic.Int32
	go func() {
		for {
			if _, err := listener.Accept(); err != nil {
				return
			}
			connections.Add(1) // and say nothing
		}
	}()
	address := "LAB_MIRROR=http://" + listener.Addr().String()

	p := newProject(t, files)
	out := p.mustBuild(t, address+" LAB_DOWNLOAD=never", "kubectl", "kubeadm")
	if connections.Load() != 0 || strings.Contains(out, "reached") {
		t.Errorf("LAB_DOWNLOAD=never: %d connections\n%s", connections.Load(), out)
	}
	p.has(t, "kubectl", []byte(built))

	p = newProject(t, files)
	out = p.mustBuild(t, address, "kubectl", "kubeadm")
	if connections.Load() != 1 || strings.Count(out, "timed out after 3") != 1 {
		t.Errorf("a server that says nothing: %d connections\n%s", connections.Load(), out)
	}
	p.has(t, "kubectl", []byte(built))
	p.has(t, "kubeadm", []byte(built))

	_ = listener.Close()
	p = newProject(t, files)
	out = p.mustBuild(t, address, "kubectl", "kubeadm")
	if strings.Count(out, "everything is built") != 1 || !strings.Contains(out, "Failed to connect") {
		t.Errorf("no server:\n%s", out)
	}
	p.has(t, "kubeadm", []byte(built))
}

// TestBuildWithoutCurl: everything is built, and the output says why.
func TestBuildWithoutCurl(t *testing.T) {
	content := []byte("a release")
	files := map[string][]byte{releases(t)["kubectl"]: content}
	p, m := newProject(t, files), newMirror(t, files)
	others := t.TempDir()
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		programs, err := filepath.Glob(filepath.Join(folder, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, program := range programs {
			if name := filepath.Base(program); name != "curl" {
				_ = os.Symlink(program, filepath.Join(others, name)) // the first folder that has it counts
			}
		}
	}
	out := p.mustBuild(t, m.env()+" PATH="+filepath.Join(p.root, "path")+":"+others, "kubectl")
	if !strings.Contains(out, "everything is built") || !strings.Contains(out, "curl is missing") || m.count() != 0 {
		t.Errorf("requests %v:\n%s", m.requests, out)
	}
	p.has(t, "kubectl", []byte(built))
}

func TestBuildRefusesVariables(t *testing.T) {
	p := newProject(t, nil)
	for env, want := range map[string]string{"LAB_DOWNLOAD=always": "set it to auto or never", "LAB_MIRROR=mirror.example": "set it to a URL"} {
		if out, err := p.build(t, env, "kubectl"); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, want %q:\n%s", env, err, want, out)
		}
	}
}

func TestBuildShowsWhyItFailed(t *testing.T) {
	p := newProject(t, nil)
	out, err := p.build(t, "STUB_FAILS=1 LAB_DOWNLOAD=never", "capi-core", "kubectl")
	if err == nil || !strings.Contains(out, "compile: syntax error") || !strings.Contains(out, "building capi-core failed") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err := os.Stat(filepath.Join(p.root, ".cache/bin/capi-core.stamp")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a program that was not built has a stamp:", err)
	}
}

// TestBuildRefusesGo: a machine without Go, or with the one of its distribution, gets a message that says what to install.
func TestBuildRefusesGo(t *testing.T) {
	p := newProject(t, nil)
	for name, c := range map[string]struct{ script, want string }{
		"missing": {"", "there is no go in PATH: install Go 1.26 or later"},
		"old":     {"#!/bin/sh\nprintf 'go1.19.8\\nlinux\\namd64\\n'\n", "is Go 1.19.8: install Go 1.26 or later"},
		"refuses": {"#!/bin/sh\necho 'go: cannot find GOROOT' >&2\nexit 2\n", "go env failed: install Go 1.26 or later"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			for _, program := range []string{"bash", "awk", "dirname", "sort"} {
				found, err := exec.LookPath(program)
				if err == nil {
					err = os.Symlink(found, filepath.Join(folder, program))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if c.script != "" {
				if err := os.WriteFile(filepath.Join(folder, "go"), []byte(c.script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if out, err := p.build(t, "PATH="+folder, "kubectl"); err == nil || !strings.Contains(out, c.want) {
				t.Errorf("%v, want %q:\n%s", err, c.want, out)
			}
		})
	}
	for _, version := range []string{"go1.26.0", "go1.27rc1", "devel"} {
		stub := fmt.Sprintf("#!/bin/sh\n[ \"$1\" != env ] || printf '%s\\nlinux\\namd64\\n'\nwhile [ $# -gt 0 ]; do [ \"$1\" != -o ] || touch \"$2\"; shift; done\n", version)
		p.write(t, "path/go", []byte(stub), 0o700)
		p.mustBuild(t, "LAB_DOWNLOAD=never", "kubectl")
	}
}

// TestBuildOnATerminal: one line is redrawn, and fits the terminal.
func TestBuildOnATerminal(t *testing.T) {
	p := newProject(t, nil)
	command := exec.CommandContext(t.Context(), "script", "--quiet", "--return", "--command", "stty cols 60; hack/build.sh kubectl capi-core", "/dev/null")
	command.Dir, command.Env = p.root, slices.Concat(p.env, []string{"LAB_DOWNLOAD=never"})
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "\r\x1b[Kpreparing the lab: 0 of 2 programs, ") {
		t.Errorf("no progress is drawn: %q", out)
	}
	for line := range strings.FieldsFuncSeq(strings.ReplaceAll(string(out), "\x1b[K", ""), func(r rune) bool { return r == '\r' || r == '\n' }) {
		if len(line) >= 60 {
			t.Errorf("a line wraps: %q", line)
		}
	}
	if strings.Count(string(out), "\n") > 1 {
		t.Errorf("there are more lines than the last: %q", out)
	}
}
