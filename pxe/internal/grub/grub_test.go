package grub

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/ipxe"
)

var update = flag.Bool("update", false, "write the golden files")

func values(initrds int, commandLine string) ipxe.Values {
	v := ipxe.Values{Title: "dc/host-1 for m-1, boot attempt 1", Kernel: "http://192.0.2.1:8480/boot/52-54-00-00-00-01/0", CommandLine: commandLine}
	for i := range initrds {
		v.Initrds = append(v.Initrds, "http://192.0.2.1:8480/boot/52-54-00-00-00-01/"+string(rune('1'+i)))
	}
	return v
}

func mediumValues(initrds int, commandLine string) MediumValues {
	v := MediumValues{Title: "dc/host-1 for m-1, boot attempt 1", Mark: "/boot/mark/0a1b2c3d", Kernel: "/boot/kernel", CommandLine: commandLine}
	for i := range initrds {
		v.Initrds = append(v.Initrds, "/boot/initrd"+string(rune('1'+i)))
	}
	return v
}

const commandLine = "console=ttyS0 ds=nocloud;s=http://192.0.2.1:8480/seed/dc/host-1/token/"

// TestGolden keeps the configurations as they are: hack/e2e boots them with real firmware.
func TestGolden(t *testing.T) {
	for name, config := range map[string]func() ([]byte, error){
		"first.cfg":            func() ([]byte, error) { return First("http://192.0.2.1:8480/grub/") },
		"first-ipv6.cfg":       func() ([]byte, error) { return First("http://[2001:db8::1]:8480/grub/") },
		"network.cfg":          func() ([]byte, error) { return Network(values(2, commandLine)) },
		"network-noinitrd.cfg": func() ([]byte, error) { return Network(values(0, "a=$b c={d} e=&f g=|h  i=<j> k=#l")) },
		"disk.cfg":             func() ([]byte, error) { return Disk("52:54:00:00:00:01") },
		"medium.cfg":           func() ([]byte, error) { return Medium(mediumValues(2, commandLine)) },
		"medium-noinitrd.cfg":  func() ([]byte, error) { return Medium(mediumValues(0, "a=$b c={d} e=&f g=|h  i=<j> k=#l")) },
		"medium-squashed.cfg": func() ([]byte, error) {
			v := mediumValues(1, commandLine)
			v.Squashed = true
			return Medium(v)
		},
		"again.cfg": func() ([]byte, error) { return Again("The boot files are being fetched", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := config()
			g.Expect(err).NotTo(HaveOccurred())
			path := filepath.Join("testdata", name)
			if *update {
				g.Expect(os.WriteFile(path, got, 0o600)).To(Succeed())
			}
			want, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(got)).To(Equal(string(want)), "go test ./pxe/internal/grub -update writes it again")
		})
	}
}

// TestRefused: GRUB would change these, or not find them.
func TestRefused(t *testing.T) {
	g := NewWithT(t)
	for _, word := range []string{`a="b`, "it's", `a\b`, "a\nb", "a\tb", "é", "a\x00"} {
		_, err := Network(values(0, "quiet "+word))
		g.Expect(err).To(MatchError(ContainSubstring("the command line of a server with Secure Boot cannot contain")), word)
		_, err = Medium(mediumValues(0, "quiet "+word))
		g.Expect(err).To(MatchError(ContainSubstring("the command line of a server that boots from a medium cannot contain")), word)
	}
	for _, url := range []string{"https://h/k", "http://h/k,l", "http://h/k)l", "http://h/k l", "http://h/k?q", "ftp://h/k", "http://h/k'", "%"} {
		v := values(0, "")
		v.Kernel = url
		_, err := Network(v)
		g.Expect(err).To(HaveOccurred(), url)
	}
}

// words returns the words that GRUB parses from a line, without single quotes. It
// fails if GRUB would expand or end something that is not quoted.
func words(t interface{ Fatalf(string, ...any) }, line string) []string {
	var all []string
	var word strings.Builder
	in, quoted := false, false
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\'':
			quoted = false
		case quoted:
			_ = word.WriteByte(c)
		case c == '\'':
			in, quoted = true, true
		case c == '\\' && i+1 < len(line):
			i++
			in = true
			_ = word.WriteByte(line[i])
		case c == ' ':
			if in {
				all = append(all, word.String())
			}
			word.Reset()
			in = false
		case strings.IndexByte("$\"{}|&<>;#`", c) >= 0:
			t.Fatalf("%q stands unquoted in %q", c, line)
		default:
			in = true
			_ = word.WriteByte(c)
		}
	}
	if quoted {
		t.Fatalf("a quotation that does not end: %q", line)
	}
	if in {
		all = append(all, word.String())
	}
	return all
}

func check(t interface{ Fatalf(string, ...any) }, title, commandLine string) {
	for _, config := range []func() ([]byte, error){func() ([]byte, error) { return Again(title, 1) }, func() ([]byte, error) { return Disk(title) }} {
		text, err := config()
		lines := strings.Split(string(text), "\n")
		if got := words(t, lines[0]); err != nil || len(got) != 2 || got[0] != "echo" || len(lines) != 4 && len(lines) != 9 {
			t.Fatalf("%q (%v)", text, err)
		}
	}
	v := values(1, commandLine)
	v.Title = title
	text, err := Network(v)
	if err != nil {
		return
	}
	lines := strings.Split(string(text), "\n")
	if len(lines) != 10 {
		t.Fatalf("%q", text)
	}
	kernel, _ := strings.CutSuffix(lines[1], "; then")
	if got := words(t, kernel); got[1] != "linux" || strings.Join(got[3:], " ") != strings.Join(strings.Fields(commandLine), " ") {
		t.Fatalf("the kernel gets %q of %q", got[3:], commandLine)
	}
}

// FuzzConfigs: whatever the texts are, a configuration has exactly the intended commands, and the kernel gets
// all of its command line.
func FuzzConfigs(f *testing.F) {
	for _, s := range []string{"quiet", "a;b", "'; reboot; echo '", "$(id)", "${x}", "a\nreboot", `a\`, "\"", "# x", "é", "\x00"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, title, commandLine string) { check(t, title, commandLine) })
}

// TestConfigs draws what the fuzzer would find with time.
func TestConfigs(t *testing.T) {
	parts := rapid.SampledFrom([]string{" ", "'", "\"", "\\", "\n", ";", "$", "{", "}", "|", "&", "<", ">", "#", "`", "a", "reboot", "\x00", "\u00a0"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(parts, 0, 12).Draw(t, "parts"), "")
		check(t, text, text)
	})
}
