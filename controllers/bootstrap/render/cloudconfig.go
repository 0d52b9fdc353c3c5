package render

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// commandsName is the file name of the script. cloud-init runs scripts in the order of their names, and the runcmd of the user data as "runcmd": the
// commands run after them.
const commandsName = "zz-capbm-commands"

// cloudInitFacts sets the variables CAPBM_*. A fact that the infrastructure provider does not give stays unset: a command that uses it fails.
const cloudInitFacts = `fact() {
  value=$(cloud-init query "$2" 2>/dev/null) || return 0
  [ -z "$value" ] || export "$1=$value"
}
fact CAPBM_PROVIDER_ID ds.meta_data.provider_id
fact CAPBM_HOSTNAME ds.meta_data.hostname
fact CAPBM_INSTANCE_ID v1.instance_id
fact CAPBM_FAILURE_DOMAIN ds.meta_data.failure_domain
`

// archivable are the first lines of user data that cloud-init reads as a part of an archive. Other formats contain parts themselves.
var archivable = []string{"#cloud-config", "## template: jinja", "#!", "#cloud-boothook"}

// archivePart is a part of a #cloud-config-archive. Without a type cloud-init detects it from the first line, also in a Jinja template.
type archivePart struct {
	Type     string `yaml:"type,omitempty"`
	Filename string `yaml:"filename,omitempty"`
	Content  string `yaml:"content"`
}

// cloudConfig returns the user data for cloud-init, with the commands as a second part of an archive (https://docs.cloud-init.io, "Cloud config archive").
func cloudConfig(userData []byte, commands []string) ([]byte, error) {
	if len(commands) == 0 {
		return userData, nil
	}
	var parts []archivePart
	if len(bytes.TrimSpace(userData)) > 0 {
		if err := checkArchivable(string(userData)); err != nil {
			return nil, err
		}
		parts = append(parts, archivePart{Content: string(userData)})
	}
	parts = append(parts, archivePart{Type: "text/x-shellscript", Filename: commandsName, Content: script(cloudInitFacts, commands)})
	for _, p := range parts {
		if !utf8.ValidString(p.Content) {
			return nil, invalidUserData("a value in it or in a command is not UTF-8: use base64 for such values")
		}
	}
	// sigs.k8s.io/yaml cannot be used: it passes the text through JSON, where U+0085 becomes a space, and other control characters are errors.
	content, err := yaml.Marshal(parts)
	if err != nil {
		return nil, invalidUserData("it cannot be written as YAML: %w", err)
	}
	return append([]byte("#cloud-config-archive\n"), content...), nil
}

// checkArchivable returns an error if cloud-init would not read the user data as a part of an archive.
func checkArchivable(userData string) error {
	first, _, _ := strings.Cut(userData, "\n")
	first = strings.TrimRight(first, "\r ")
	for _, start := range archivable {
		if strings.HasPrefix(first, start) && !strings.HasPrefix(first, "#cloud-config-archive") && !strings.HasPrefix(first, "#cloud-config-jsonp") {
			return nil
		}
	}
	return invalidUserData("its first line is not one of %s, so commands cannot be added to it. Correct the first line, or set sentinel: UserData and remove the commands",
		strings.Join(archivable, ", "))
}
