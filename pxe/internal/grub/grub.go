// Package grub renders the configuration that GRUB (https://www.gnu.org/software/grub/manual) fetches on servers with Secure Boot. It is the counterpart of
// pxe/ipxe.
package grub

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"text/template"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/ipxe"
)

var (
	// Only GRUB knows its MAC address: this file is the same for every server. The sourced file sets again to 1 while there is something to wait for. GRUB
	// has no jump, and a configuration that loads itself would overflow its stack.
	first = parse(`set again=1
while [ "$again" = 1 ]; do
  set again=0
  source {{ . }}${net_default_mac}
done
exit
`)
	network = parse(`echo {{ quote .Title }}
if linux {{ .Kernel }}{{ range .Words }} {{ . }}{{ end }}; then
{{- if .Initrds }}
  if initrd{{ range .Initrds }} {{ . }}{{ end }}; then
    boot
  fi
{{- else }}
  boot
{{- end }}
fi
echo 'The boot files could not be loaded, trying again in 10 seconds'
sleep 10
set again=1
`)
	// GRUB cannot report a failed boot to the firmware, so that the firmware would try its next device: after an exit, some firmware shows its menu. So this
	// configuration starts the disk's boot loader, at the path that UEFI defines for it.
	disk = parse(`echo {{ quote . }}
for loader in /efi/boot/bootx64.efi /efi/boot/bootaa64.efi; do
  if search --no-floppy --file --set=root $loader; then
    chainloader $loader
    boot
  fi
done
exit
`)
	// The firmware may have booted GRUB from any of several media, and the signed GRUB looks for its configuration on the one that it was loaded from. The mark
	// finds this medium again, whatever device it is now. A server whose medium cannot be read keeps trying until the provider ends its attempt: after an
	// exit the firmware would boot what an earlier user left on the disk.
	//nolint:dupword // GRUB's language
	medium = parse(`echo {{ quote .Title }}
set again=1
while [ "$again" = 1 ]; do
  if search --no-floppy --file --set=root {{ quote .Mark }}; then
{{- if .Squashed }}
    loopback kernel {{ quote .Kernel }}
    if linux '(kernel)/kernel'{{ range .Words }} {{ . }}{{ end }}; then
{{- else }}
    if linux {{ quote .Kernel }}{{ range .Words }} {{ . }}{{ end }}; then
{{- end }}
{{- if .Initrds }}
      if initrd{{ range .Initrds }} {{ quote . }}{{ end }}; then
        boot
      fi
{{- else }}
      boot
{{- end }}
    fi
  fi
  echo 'The boot medium could not be read, trying again in 10 seconds'
  sleep 10
done
`)
	again = parse("echo {{ quote .Why }}\nsleep {{ .Seconds }}\nset again=1\n")
)

func parse(text string) *template.Template {
	return template.Must(template.New("").Funcs(template.FuncMap{"quote": quote}).Parse(text))
}

// First returns the file that GRUB reads first, from its own folder. It sources url, with the MAC address appended.
func First(url string) ([]byte, error) {
	folder, err := file(url)
	if err != nil {
		return nil, err
	}
	return render(first, folder)
}

// Network boots a kernel.
func Network(v ipxe.Values) ([]byte, error) {
	data := struct {
		Title, Kernel  string
		Initrds, Words []string
	}{Title: ipxe.Line(v.Title)}
	var err error
	if data.Kernel, err = file(v.Kernel); err != nil {
		return nil, err
	}
	for _, initrd := range v.Initrds {
		located, err := file(initrd)
		if err != nil {
			return nil, err
		}
		data.Initrds = append(data.Initrds, located)
	}
	if data.Words, err = kernelWords(v.CommandLine, "a server with Secure Boot"); err != nil {
		return nil, err
	}
	return render(network, data)
}

// kernelWords returns the quoted words of a command line. user is who has to use GRUB.
func kernelWords(commandLine, user string) ([]string, error) {
	var out []string
	for word := range strings.SplitSeq(commandLine, " ") {
		if word == "" {
			continue
		}
		if strings.ContainsAny(word, `"'\`) || strings.ContainsFunc(word, unprintable) {
			return nil, fmt.Errorf("the command line of %s cannot contain %q: GRUB adds a backslash before quotation marks and backslashes", user, word)
		}
		out = append(out, quote(word))
	}
	return out, nil
}

// MediumValues are what GRUB boots from the medium that it was loaded from. All paths are absolute on that medium.
type MediumValues struct {
	Title string
	// Mark is a file that no other medium of the server has.
	Mark, Kernel string
	// Squashed is true if Kernel is a squashfs file system with the kernel as the file kernel.
	Squashed    bool
	Initrds     []string
	CommandLine string
}

// Medium returns the configuration on a boot medium, which boots a kernel of that medium.
func Medium(v MediumValues) ([]byte, error) {
	quoted, err := kernelWords(v.CommandLine, "a server that boots from a medium")
	if err != nil {
		return nil, err
	}
	v.Title = ipxe.Line(v.Title)
	return render(medium, struct {
		MediumValues

		Words []string
	}{v, quoted})
}

// Disk boots the installed system.
func Disk(title string) ([]byte, error) { return render(disk, ipxe.Line(title)+": booting from disk") }

// Again makes GRUB ask for the configuration again after some seconds.
func Again(why string, seconds int) ([]byte, error) {
	return render(again, struct {
		Why     string
		Seconds int
	}{fmt.Sprintf("%s, asking again in %d seconds", ipxe.Line(why), seconds), seconds})
}

// file returns a URL in GRUB's syntax, as one word: (http,HOST:PORT)/PATH.
func file(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		return "", err
	}
	if u.Scheme != "http" || u.RawQuery != "" || strings.ContainsFunc(text, unprintable) || strings.ContainsAny(text, `,()' `) {
		return "", fmt.Errorf("GRUB cannot fetch %q", text)
	}
	return quote(fmt.Sprintf("(http,%s)%s", u.Host, u.EscapedPath())), nil
}

// quote makes one word of a text, in which GRUB expands nothing (manual, section 6.2, "Quoting").
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

func unprintable(r rune) bool { return r < ' ' || r > '~' }

func render(t *template.Template, data any) ([]byte, error) {
	var out bytes.Buffer
	err := t.Execute(&out, data)
	return out.Bytes(), err
}
