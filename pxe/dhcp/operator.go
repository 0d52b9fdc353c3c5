package dhcp

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/template"

	"github.com/insomniacslk/dhcp/iana"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// Software names the DHCP servers that OperatorConfig writes for.
func Software() []string { return slices.Sorted(maps.Keys(operatorTemplates)) }

// OperatorConfig returns the configuration for an operator's DHCP server in the networks that have DHCP off: which options distinguish the clients, and which
// boot file each kind loads. Such a server cannot put a MAC address into a file name as this one does; iPXE can, and puts its own into the URL of its script.
func OperatorConfig(software string, networks []bootconfig.Network) (string, error) {
	text := operatorTemplates[software]
	if text == nil {
		return "", fmt.Errorf("%q is not one of %s", software, strings.Join(Software(), ", "))
	}
	networks = slices.DeleteFunc(slices.Clone(networks), func(n bootconfig.Network) bool { return n.Mode != bootconfig.Off || !n.Address.Is4() })
	if len(networks) == 0 {
		return "", errors.New("no IPv4 network has the mode off: in the other modes another DHCP server needs no options for network boot")
	}
	var out strings.Builder
	for i, n := range networks {
		if i > 0 {
			_ = out.WriteByte('\n')
		}
		view := operatorView{Network: n, Several: len(networks) > 1, Script: n.URL + "/ipxe/${netX/mac:hexhyp}", Kinds: operatorKinds(n)}
		if err := text.Execute(&out, view); err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

// operatorView is the input of the templates.
type operatorView struct {
	Network bootconfig.Network
	// Several is true if the text is for more than one network.
	Several bool
	// Script is the URL of a server's script. iPXE puts its MAC address into it, with dashes.
	Script string
	Kinds  []operatorKind
}

// operatorKind is a kind of firmware with its boot file.
type operatorKind struct {
	Name  string
	HTTP  bool
	Archs []iana.Arch
	File  string
}

// operatorKinds groups the boot loaders by file. Secure Boot is a property of a host, which another DHCP server does not know.
func operatorKinds(n bootconfig.Network) []operatorKind {
	var kinds []operatorKind
	for _, named := range LoaderClients() {
		if named.SecureBoot {
			continue
		}
		name := map[string]string{"undionly.kpxe": "bios", "snponly.efi": "x64", "snponly-arm64.efi": "arm64"}[named.Loader]
		file := named.Loader
		if named.Client.HTTP {
			name, file = "http-"+name, n.URL+pxe.LoaderPath(nil, named.Loader)
		}
		i := slices.IndexFunc(kinds, func(k operatorKind) bool { return k.Name == name })
		if i < 0 {
			i, kinds = len(kinds), append(kinds, operatorKind{Name: name, HTTP: named.Client.HTTP, File: file})
		}
		kinds[i].Archs = append(kinds[i].Archs, named.Client.Arch)
	}
	return kinds
}

// operatorFuncs format an architecture for ISC dhcpd and for Kea.
var operatorFuncs = template.FuncMap{
	"colons": func(arch iana.Arch) string { return fmt.Sprintf("%02x:%02x", uint16(arch)>>8, uint16(arch)&0xff) },
	"hex":    func(arch iana.Arch) string { return fmt.Sprintf("0x%04x", uint16(arch)) },
}

var operatorTemplates = map[string]*template.Template{
	"dnsmasq": template.Must(template.New("dnsmasq").Parse(`# Network {{.Network.Name}}: boot loaders and scripts are at {{.Network.Address}}. For servers with Secure Boot name shimx64.efi, and say
# dhcp-no-override: shim fetches GRUB from the folder of the boot file that the header names.
{{- $tag := ""}}{{if .Several}}{{$tag = printf "tag:%s," .Network.Name}}
# Its dhcp-range says set:{{.Network.Name}}.{{end}}
dhcp-userclass=set:ipxe,iPXE
{{- range $kind := .Kinds}}{{range .Archs}}
dhcp-match=set:{{$kind.Name}},option:client-arch,{{printf "%d" .}}
{{- end}}{{end}}
dhcp-boot={{$tag}}tag:ipxe,"{{.Script}}"
{{- range .Kinds}}
{{- if .HTTP}}
dhcp-boot={{$tag}}tag:!ipxe,tag:{{.Name}},"{{.File}}"
dhcp-option-force={{$tag}}tag:!ipxe,tag:{{.Name}},option:vendor-class,HTTPClient
{{- else}}
dhcp-boot={{$tag}}tag:!ipxe,tag:{{.Name}},{{.File}},{{$.Network.Address}},{{$.Network.Address}}
{{- end}}{{end}}
`)),
	"isc": template.Must(template.New("isc").Funcs(operatorFuncs).Parse(`# Network {{.Network.Name}}: boot loaders and scripts are at {{.Network.Address}}. For servers with Secure Boot name shimx64.efi.
# Once, outside of all declarations:
option client-arch code 93 = unsigned integer 16;
# In the declaration of the subnet:
next-server {{.Network.Address}};
if exists user-class and option user-class = "iPXE" {
  filename "{{.Script}}";
{{- range .Kinds}}
} elsif {{range $i, $arch := .Archs}}{{if $i}} or {{end}}option client-arch = {{colons $arch}}{{end}} {
{{- if .HTTP}}
  option vendor-class-identifier "HTTPClient";
{{- end}}
  filename "{{.File}}";
{{- end}}
}
`)),
	"kea": template.Must(template.New("kea").Funcs(operatorFuncs).Parse(`# Network {{.Network.Name}}: boot loaders and scripts are at {{.Network.Address}}. For servers with Secure Boot name shimx64.efi.
# In "Dhcp4".{{if .Several}} Give each class "only-if-required": true, and name all of them in "require-client-classes" of the network's subnet.{{end}}
"client-classes": [
  {
    "name": "{{.Network.Name}}-ipxe",
    "test": "substring(option[77].hex,0,4) == 'iPXE'",
    "next-server": "{{.Network.Address}}",
    "boot-file-name": "{{.Script}}"
  }
{{- range .Kinds}},
  {
    "name": "{{$.Network.Name}}-{{.Name}}",
    "test": "not (substring(option[77].hex,0,4) == 'iPXE') and ({{range $i, $arch := .Archs}}{{if $i}} or {{end}}option[93].hex == {{hex $arch}}{{end}})",
    "next-server": "{{$.Network.Address}}",
{{- if .HTTP}}
    "option-data": [ { "name": "vendor-class-identifier", "data": "HTTPClient", "always-send": true } ],
{{- end}}
    "boot-file-name": "{{.File}}"
  }
{{- end}}
]
`)),
}
