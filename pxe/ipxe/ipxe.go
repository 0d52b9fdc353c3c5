// Package ipxe renders the scripts that iPXE (https://ipxe.org/scripting) fetches.
package ipxe

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

// Script is what a boot script is made of.
type Script struct {
	// Title tells people at the console whose script it is.
	Title string
	// Kernel and Initrds are URLs.
	Kernel  string
	Initrds []string
	// CommandLine is the kernel command line.
	CommandLine string
	// Self is the script's own URL: it is asked for again when something cannot be loaded.
	Self string
}

var (
	network = parse(`#!ipxe
echo {{ .Title }}
kernel --name kernel {{ .Kernel }}{{ range $i, $url := .Initrds }} initrd=initrd{{ $i }}{{ end }} {{ .CommandLine }} || goto failed
{{- range $i, $url := .Initrds }}
initrd --name initrd{{ $i }} {{ $url }} || goto failed
{{- end }}
boot || goto failed
:failed
echo The boot files could not be loaded, trying again in 10 seconds
sleep 10
imgfree
chain --replace {{ .Self }}
`)
	// A BIOS takes an exit from iPXE for a failed boot and may try the network for ever; sanboot starts the disk itself.
	diskBIOS = parse("#!ipxe\necho {{ . }}: booting from disk\nsanboot --no-describe --drive 0x80 || exit\n")
	diskUEFI = parse("#!ipxe\necho {{ . }}: booting from disk\nexit\n")
	again    = parse("#!ipxe\necho {{ .Why }}, asking again in {{ .Seconds }} seconds\nsleep {{ .Seconds }}\nchain --replace {{ .URL }}\n")
)

func parse(text string) *template.Template { return template.Must(template.New("").Parse(text)) }

// Network boots a kernel.
func Network(s Script) ([]byte, error) {
	s.Title = line(s.Title)
	for _, word := range append([]string{s.Kernel, s.CommandLine, s.Self}, s.Initrds...) {
		if strings.ContainsAny(word, "\r\n") || strings.Contains(word, "${") || endsCommand(word) {
			return nil, fmt.Errorf("%q cannot stand in a script", word)
		}
	}
	return render(network, s)
}

// Disk boots what is installed.
func Disk(title string, legacy bool) ([]byte, error) {
	if legacy {
		return render(diskBIOS, line(title))
	}
	return render(diskUEFI, line(title))
}

// Again asks for the script at url again after so many seconds.
func Again(why string, seconds int, url string) ([]byte, error) {
	return render(again, struct {
		Why     string
		Seconds int
		URL     string
	}{line(why), seconds, url})
}

// endsCommand is true for a text in which iPXE would end the command and begin the next, or a comment. It looks at whole
// words: the ; in ds=nocloud;s=... is none.
func endsCommand(text string) bool {
	return slices.ContainsFunc(strings.Fields(text), func(word string) bool {
		return word == "||" || word == "&&" || word == ";" || word[0] == '#'
	})
}

// line makes a text safe to be echoed: iPXE would replace settings, end a command at ||, && and ;, and take a new line for a
// new command.
func line(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune("$|&;#", r) {
			return ' '
		}
		return r
	}, text)
	return text[:min(len(text), 200)]
}

func render(t *template.Template, data any) ([]byte, error) {
	var out bytes.Buffer
	err := t.Execute(&out, data)
	return out.Bytes(), err
}
