// Package ipxe renders the scripts that iPXE (https://ipxe.org/scripting) fetches.
package ipxe

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"text/template"
)

// Values are the input of a boot script. A user's own template may name them.
type Values struct {
	// Title identifies the boot at the console.
	Title string
	// MAC is the server's MAC address, with colons, and Hostname the name that its node gets.
	MAC, Hostname string
	// Kernel and Initrds are the URLs of the verified copies on the boot server. Kernel is empty for a boot source without a kernel.
	Kernel  string
	Initrds []string
	// CommandLine is the kernel command line. It has the location of the bootstrap data.
	CommandLine string
	// SeedURL is the folder of the bootstrap data, with a slash at its end: user-data in it is the unchanged bootstrap data.
	SeedURL string
	// SelfURL is the script's own URL. The script asks there again if something cannot be loaded.
	SelfURL string
}

var (
	network = must(`#!ipxe
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
chain --replace {{ .SelfURL }}
`)
	// A BIOS takes an exit from iPXE as a failed boot and may try the network forever; sanboot starts the disk directly.
	diskBIOS = must("#!ipxe\necho {{ . }}: booting from disk\nsanboot --no-describe --drive 0x80 || exit\n")
	// UEFI firmware continues with its next device when iPXE fails. When iPXE succeeds, some firmware shows its menu and waits.
	diskUEFI = must("#!ipxe\necho {{ . }}: booting from disk\nexit 1\n")
	again    = must("#!ipxe\necho {{ .Why }}, asking again in {{ .Seconds }} seconds\nsleep {{ .Seconds }}\nchain --replace {{ .URL }}\n")
)

func must(text string) *template.Template { return template.Must(template.New("").Parse(text)) }

// Network boots a kernel.
func Network(v Values) ([]byte, error) {
	v, err := v.checked()
	if err != nil {
		return nil, err
	}
	return render(network, v)
}

// checked returns the values with a title that can be echoed, or an error for values that a script cannot contain.
func (v Values) checked() (Values, error) {
	v.Title = Line(v.Title)
	for _, word := range append([]string{v.MAC, v.Hostname, v.Kernel, v.CommandLine, v.SeedURL, v.SelfURL}, v.Initrds...) {
		if strings.ContainsFunc(word, unprintable) || strings.Contains(word, "${") || EndsCommand(word) {
			return v, fmt.Errorf("a script cannot contain %q", word)
		}
	}
	return v, nil
}

// Disk boots the installed system.
func Disk(title string, legacy bool) ([]byte, error) {
	if legacy {
		return render(diskBIOS, Line(title))
	}
	return render(diskUEFI, Line(title))
}

// Again asks for the script at url again after some seconds.
func Again(why string, seconds int, url string) ([]byte, error) {
	return render(again, struct {
		Why     string
		Seconds int
		URL     string
	}{Line(why), seconds, url})
}

// EndsCommand is true for a text in which iPXE would end the command and start the next one, or a comment. iPXE looks for whole words, so the ; in
// ds=nocloud;s=... ends no command.
func EndsCommand(text string) bool {
	return slices.ContainsFunc(strings.Fields(text), func(word string) bool {
		return word == "||" || word == "&&" || word == ";" || word[0] == '#'
	})
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

// Line makes a text safe for echo. A boot loader would expand settings, end a command at ||, && and ;, start a new command at a new line, continue the line
// after a final backslash, and take a leading dash as an option.
func Line(text string) string {
	text = strings.Map(func(r rune) rune {
		if unprintable(r) || strings.ContainsRune(`$|&;#\`, r) {
			return ' '
		}
		return r
	}, text)
	text = strings.TrimLeft(text, " -")
	return text[:min(len(text), 200)]
}

func render(t *template.Template, data any) ([]byte, error) {
	var out bytes.Buffer
	err := t.Execute(&out, data)
	return out.Bytes(), err
}
