package ipxe

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

var update = flag.Bool("update", false, "write the golden files")

func values(initrds int, seed string) Values {
	v := Values{
		Title: "dc/host-1 for m-1, boot attempt 1", MAC: "52:54:00:00:00:01", Hostname: "m-1", Kernel: "http://192.0.2.1:8480/boot/52-54-00-00-00-01/0",
		CommandLine: "console=ttyS0 " + seed, SeedURL: "http://192.0.2.1:8480/seed/dc/host-1/token/", SelfURL: "http://192.0.2.1:8480/ipxe/52-54-00-00-00-01",
	}
	for i := range initrds {
		v.Initrds = append(v.Initrds, "http://192.0.2.1:8480/boot/52-54-00-00-00-01/"+string(rune('1'+i)))
	}
	return v
}

const (
	noCloud  = "ds=nocloud;s=http://192.0.2.1:8480/seed/dc/host-1/token/"
	ignition = "ignition.firstboot ignition.platform.id=metal ignition.config.url=http://192.0.2.1:8480/seed/dc/host-1/token/ignition"
)

// installer is a user's own template, for a system with its own arguments.
const installer = `#!ipxe
# {{ .Hostname }} at {{ .MAC }}
:retry
kernel {{ .Kernel }} {{ range $i, $url := .Initrds }}{{ if $i }} {{ end }}initrd=initrd{{ $i }}{{ end }} talos.platform=metal talos.config={{ .SeedURL }}user-data {{ .CommandLine }} || goto again
{{- range $i, $url := .Initrds }}
initrd --name initrd{{ $i }} {{ $url }} || goto again
{{- end }}
boot
:again
sleep 5
chain --replace {{ .SelfURL }}
`

// TestGolden keeps the scripts unchanged: real firmware has booted them.
func TestGolden(t *testing.T) {
	for name, script := range map[string]func() ([]byte, error){
		"network.ipxe":          func() ([]byte, error) { return Network(values(2, noCloud)) },
		"network-ignition.ipxe": func() ([]byte, error) { return Network(values(1, ignition)) },
		"template.ipxe":         func() ([]byte, error) { return Template(installer, values(2, noCloud)) },
		"template-bare.ipxe": func() ([]byte, error) {
			return Template("#!ipxe\nchain http://images.example.com/menu.ipxe?host={{ .Hostname }}&user-data={{ .SeedURL }}user-data\n", Values{Hostname: "m-1", SeedURL: "http://h/s/"})
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
			g.Expect(string(got)).To(Equal(string(want)), "go test ./pxe/ipxe -update writes it again")
		})
	}
}

// commands returns the commands that iPXE parses from a script, with their arguments. It joins lines at backslashes, splits at
// white space, ends commands at || && and ;, and drops the text after a #, as iPXE's script.c and exec.c do.
func commands(script []byte) [][]string {
	text := strings.ReplaceAll(strings.ReplaceAll(string(script), "\r\n", "\n"), "\\\n", "")
	var all [][]string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "\x00")
		var command []string
		for word := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(" \t\n\v\f\r", r) }) {
			switch {
			case word == "||" || word == "&&" || word == ";":
				all = append(all, command)
				command = nil
				continue
			case word[0] != '#':
				command = append(command, word)
				continue
			}
			break
		}
		all = append(all, command)
	}
	return slices.DeleteFunc(all, func(c []string) bool { return len(c) == 0 })
}

func names(commands [][]string) string {
	var out []string
	for _, c := range commands {
		out = append(out, c[0])
	}
	return strings.Join(out, " ")
}

// FuzzScripts: whatever the texts are, a script has exactly the intended commands, with nothing that iPXE
// would expand, and the kernel gets all of its command line.
func FuzzScripts(f *testing.F) {
	for _, s := range []string{"quiet", "a ; shell", "a && shell", "|| shell", "#", "${net0/mac}", "a\\", "-x", "a\nshell", "a\x00b", "\v||\v", "a\\\n", "ds=nocloud;s=x", "é"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, title, commandLine string) {
		again, err := Again(title, 1, "http://h/")
		if err != nil || names(commands(again)) != "echo sleep chain" || strings.Contains(string(again), "${") {
			t.Fatalf("%q (%v)", again, err)
		}
		disk, err := Disk(title, true)
		if err != nil || names(commands(disk)) != "echo sanboot exit" {
			t.Fatalf("%q (%v)", disk, err)
		}
		v := values(1, commandLine)
		v.Title = title
		script, err := Network(v)
		if err != nil {
			return
		}
		all := commands(script)
		if names(all) != "echo kernel goto initrd goto boot goto :failed echo sleep imgfree chain" || strings.Contains(string(script), "${") {
			t.Fatalf("%q", script)
		}
		if got := strings.Join(all[1][5:], " "); got != strings.Join(strings.Fields(v.CommandLine), " ") {
			t.Fatalf("the kernel gets %q of %q", got, v.CommandLine)
		}
	})
}

// TestScripts draws what the fuzzer would find with time.
func TestScripts(t *testing.T) {
	words := rapid.SampledFrom([]string{" ", "\n", "\\", "|", "&", ";", "#", "$", "{", "}", "-", "\x00", "\t", "\v", "\r", "\"", "'", "a", "goto", "shell", "é", "\u00a0", "\u2028"})
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(words, 0, 12).Draw(t, "words"), "")
		again, err := Again(text, 1, "http://h/")
		if err != nil || names(commands(again)) != "echo sleep chain" {
			t.Fatalf("%q (%v)", again, err)
		}
		v := values(0, text)
		v.Title = text
		script, err := Network(v)
		if err == nil && (names(commands(script)) != "echo kernel goto boot goto :failed echo sleep imgfree chain" || strings.Contains(string(script), "${")) {
			t.Fatalf("%q", script)
		}
	})
}

// TestCommandLineThatEndsTheCommand: iPXE would run the rest as a separate command, or drop it with the location of the seed.
func TestCommandLineThatEndsTheCommand(t *testing.T) {
	for commandLine, ok := range map[string]bool{
		"quiet ; shell": false, "quiet && shell": false, "|| shell": false, "quiet #1": false, "quiet ;": false,
		"a=b;c #": false, "a=b;c&&d||e f#g": true, "a\x00b": false, "a\tb": false, "é": false, `a\ b`: true,
	} {
		_, err := Network(Values{Kernel: "http://h/k", CommandLine: commandLine})
		NewWithT(t).Expect(err == nil).To(Equal(ok), commandLine)
	}
}

func TestTemplates(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]string{
		"echo\n":                "first line",
		"#!ipxex\n":             "first line",
		"#!ipxe\n{{ .Kernel":    "unclosed action",
		"#!ipxe\n{{ .Secret }}": "can't evaluate field Secret",
		"#!ipxe\n{{ printf \"%1000000000d\" 1 }}":                             "the function printf is not available: only and, eq, index, len, ne, not, or are",
		"#!ipxe\n{{ .Kernel | html }}":                                        "the function html is not available",
		"#!ipxe\n{{ if (print 1) }}{{ end }}":                                 "the function print is not available",
		"#!ipxe\n{{ range 1000000000 }}{{ end }}":                             "a template may range over .Initrds only",
		"#!ipxe\n{{ range .Initrds }}{{ range $.Initrds }}{{ end }}{{ end }}": "a template may range over .Initrds only, and ranges cannot be nested",
		"#!ipxe\n{{ define \"a\" }}{{ end }}":                                 "must not define other templates",
		"#!ipxe\n{{ template \"a\" }}":                                        "a template cannot contain",
		"#!ipxe\n{{ index .Initrds 9 }}":                                      "out of range",
		"#!ipxe\n" + strings.Repeat("#", 16<<10):                              "it has 16391 bytes, and may have 16384",
		"#!ipxe\n" + strings.Repeat("{{ .CommandLine }}", 900):                "it has more than 65536 bytes",
		"#!ipxe\n{{ if .Kernel }}{{ .SetTitle }}{{ end }}":                    "can't evaluate field SetTitle",
		"#!ipxe\n{{ with .Kernel }}{{ else }}{{ nope }}{{ end }}":             "function \"nope\" not defined",
	} {
		_, err := Template(text, values(2, strings.Repeat("x", 200)))
		g.Expect(err).To(MatchError(ContainSubstring(want)), text)
		g.Expect(err).To(MatchError(HavePrefix("iPXE template: ")), text)
	}
	_, err := Template("#!ipxe\n{{ .CommandLine }}", Values{CommandLine: "a ; shell"})
	g.Expect(err).To(MatchError(ContainSubstring("a script cannot contain")), "the values are as in any other script")
	g.Expect(Check(installer)).To(Succeed())
	g.Expect(Check("#!ipxe\r\n{{ if and (eq .Hostname \"a\") (ne (len .Initrds) 0) }}x{{ else if not .Kernel }}y{{ end }}")).To(Succeed())
}

// FuzzTemplate: every template is rendered in finite time, within the maximum size of a script.
func FuzzTemplate(f *testing.F) {
	f.Add(installer)
	f.Add("#!ipxe\n{{ range .Initrds }}{{ . }}{{ else }}{{ .Title }}{{ end }}")
	f.Fuzz(func(t *testing.T, text string) {
		script, err := Template(text, values(8, noCloud))
		if err == nil && (len(script) > language.MaxResult || !strings.HasPrefix(string(script), "#!ipxe")) {
			t.Fatalf("%d bytes: %.100q", len(script), script)
		}
	})
}
