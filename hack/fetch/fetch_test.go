package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestReadSums(t *testing.T) {
	a, b := strings.Repeat("a", 64), strings.Repeat("b", 64)
	cases := map[string]struct{ content, want string }{
		"good":        {"# comment\n\n" + a + "  host/a\n" + b + "  host/b\n", ""},
		"short":       {a[1:] + "  host/a\n", "not a SHA-256"},
		"SHA-512":     {a + b + "  host/a\n", "not a SHA-256"},
		"upper case":  {strings.ToUpper(a) + "  host/a\n", "not a SHA-256"},
		"no path":     {a + "\n", "not a SHA-256"},
		"contradicts": {a + "  host/a\n" + b + "  host/a\n", "two checksums"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "sums")
			if err := os.WriteFile(file, []byte(c.content), 0o600); err != nil {
				t.Fatal(err)
			}
			sums, err := readSums(file)
			if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if c.want == "" && (err != nil || sums["host/b"] != b) {
				t.Errorf("%v, %v", sums, err)
			}
		})
	}
}

// TestParseProgram: a path without a checksum is refused before a connection is made.
func TestParseProgram(t *testing.T) {
	sums := map[string]string{"host/a.tar.gz": "aa"}
	p, err := parseProgram("a=host/a.tar.gz!folder/a", sums)
	if want := (program{name: "a", path: "host/a.tar.gz", member: "folder/a", sum: "aa"}); err != nil || p != want {
		t.Errorf("%+v, %v", p, err)
	}
	for _, text := range []string{"a=host/b", "a", "=host/a.tar.gz", "../a=host/a.tar.gz"} {
		if _, err := parseProgram(text, sums); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// TestChecksums: hack/downloads.sha256 has each release of the pinned versions, for both architectures. A program without one would be built, which takes minutes.
func TestChecksums(t *testing.T) {
	sums, err := readSums("../downloads.sha256")
	if err != nil {
		t.Fatal(err)
	}
	for name, path := range releases(t) {
		for _, architecture := range []string{"amd64", "arm64"} {
			path := strings.NewReplacer("amd64", architecture, "arm64", architecture).Replace(path)
			if sums[path] == "" {
				t.Errorf("%s: hack/downloads.sha256 has no line for %s", name, path)
			}
		}
	}
	if want := 2 * len(releases(t)); len(sums) != want {
		t.Errorf("hack/downloads.sha256 has %d lines, want %d: remove those of other versions", len(sums), want)
	}
}

func TestBounds(t *testing.T) {
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 100))
		if r.URL.Path == "/stalls" {
			_ = http.NewResponseController(w).Flush()
			<-stop
		}
	}))
	defer server.Close()
	defer close(stop)
	f := newFetcher(server.URL, t.TempDir())
	f.size = 99
	var out bytes.Buffer
	if err := f.get(t.Context(), "large", &out); err == nil || !strings.Contains(err.Error(), "more than 99 bytes") || out.Len() > 100 {
		t.Errorf("%v, %d bytes", err, out.Len())
	}
	f.stall, f.size = 50*time.Millisecond, 1000
	if err := f.get(t.Context(), "stalls", &out); err == nil || !strings.Contains(err.Error(), "nothing received for 50ms") {
		t.Error(err)
	}
}

// TestRedirect: GitHub redirects to another host.
func TestRedirect(t *testing.T) {
	content := []byte("a release")
	store := newMirror(t, map[string][]byte{"a": content})
	server := httptest.NewServer(http.RedirectHandler(store.URL+"/lab/a", http.StatusFound))
	defer server.Close()
	f := newFetcher(server.URL, t.TempDir())
	if err := f.probe(t.Context(), "a"); err != nil || store.count() != 0 {
		t.Errorf("%v, the attempt made %d requests of the other host", err, store.count())
	}
	p := program{name: "a", path: "a", sum: sum(content)}
	if err := f.install(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if got := read(t, filepath.Join(f.into, "a")); !bytes.Equal(got, content) {
		t.Errorf("%q", got)
	}
	if got := string(read(t, filepath.Join(f.into, "a.stamp"))); got != sum(content)+"  a\n" {
		t.Errorf("stamp %q", got)
	}
}
