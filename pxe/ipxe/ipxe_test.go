package ipxe

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write the golden files")

// TestGolden keeps the scripts as they are: real firmware was seen to boot them.
func TestGolden(t *testing.T) {
	for name, script := range map[string]func() ([]byte, error){
		"network.ipxe": func() ([]byte, error) {
			return Network(Script{
				Title: "dc/host-1 for m-1, boot attempt 1", Kernel: "http://192.0.2.1:8080/boot/52-54-00-00-00-01/0",
				Initrds:     []string{"http://192.0.2.1:8080/boot/52-54-00-00-00-01/1", "http://192.0.2.1:8080/boot/52-54-00-00-00-01/2"},
				CommandLine: "console=ttyS0 ds=nocloud;s=http://192.0.2.1:8080/seed/dc/host-1/token/", Self: "http://192.0.2.1:8080/ipxe/52-54-00-00-00-01",
			})
		},
		"disk-uefi.ipxe":   func() ([]byte, error) { return Disk("52:54:00:00:00:01", false) },
		"disk-legacy.ipxe": func() ([]byte, error) { return Disk("52:54:00:00:00:01", true) },
		"again.ipxe":       func() ([]byte, error) { return Again("The boot files are being fetched", 1, "http://192.0.2.1/ipxe/m") },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := script()
			g.Expect(err).NotTo(HaveOccurred())
			path := filepath.Join("testdata", name)
			if *update {
				g.Expect(os.WriteFile(path, got, 0o600)).To(Succeed())
			}
			want, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(got)).To(Equal(string(want)), "go test ./pxe/ipxe -update writes it anew")
		})
	}
}

// TestNoCommandIsInjected: whatever the texts are, the script has the lines that the template has.
func TestNoCommandIsInjected(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		again, err := Again(text, 1, "http://h/")
		if err != nil || strings.Count(string(again), "\n") != 4 || strings.ContainsAny(strings.SplitN(string(again), "\n", 3)[1], "$|&;#") {
			t.Fatalf("%q (%v)", again, err)
		}
		script, err := Network(Script{Title: text, Kernel: "http://h/k", CommandLine: text})
		if err == nil && (strings.Count(string(script), "\n") != 9 || strings.Contains(string(script), "${")) {
			t.Fatalf("%q", script)
		}
	})
}

// TestCommandLineThatEndsTheCommand: iPXE would run the rest as a command of its own, or drop it with the seed behind it.
func TestCommandLineThatEndsTheCommand(t *testing.T) {
	for commandLine, ok := range map[string]bool{
		"quiet ; shell": false, "quiet && shell": false, "|| shell": false, "quiet #1": false, "quiet ;": false,
		"a=b;c #": false, "a=b;c&&d||e f#g": true,
	} {
		_, err := Network(Script{Kernel: "http://h/k", CommandLine: commandLine})
		NewWithT(t).Expect(err == nil).To(Equal(ok), commandLine)
	}
}
