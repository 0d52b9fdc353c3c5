package node

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// userData is what the lab carries out of a server's user data.
type userData struct {
	files   []file
	scripts []script // in the order in which cloud-init runs them
}

// file is a file that a cloud-config writes.
type file struct{ Path, Content, Encoding string }

// script is a shell script, by the name of its file.
type script struct{ name, content string }

// archivePart is a part of a cloud-config archive, or user data that is no archive.
type archivePart struct{ Type, Filename, Content string }

// The first lines of the formats of user data.
const (
	archiveStart     = "#cloud-config-archive"
	cloudConfigStart = "#cloud-config"
	jinjaStart       = "## template: jinja"
	shellStart       = "#!/bin/sh"
)

// parseUserData reads a cloud-config, or an archive of cloud-configs and shell scripts.
func parseUserData(system *pxetest.System) (*userData, error) {
	text := string(system.UserData)
	data := &userData{}
	if firstLine(text) != archiveStart {
		// The lab does itself what the commands of kubeadm's bootstrap provider do, and ignores the keys that contain them.
		return data, data.addCloudConfig(fill(text, system.MetaData), nil)
	}
	var parts []archivePart
	if err := yaml.UnmarshalStrict([]byte(text), &parts); err != nil {
		return nil, fmt.Errorf("cloud-config archive: %w", err)
	}
	for _, part := range parts {
		if err := data.addPart(part, system.MetaData); err != nil {
			return nil, fmt.Errorf("cloud-config archive: %w", err)
		}
	}
	slices.SortFunc(data.scripts, func(a, b script) int { return strings.Compare(a.name, b.name) })
	return data, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// addPart adds a part of an archive. What the lab cannot carry out is an error: the server would report a success that it did not have.
func (d *userData) addPart(part archivePart, metaData map[string]string) error {
	content := fill(part.Content, metaData)
	switch {
	case part.Type == "text/x-shellscript" || part.Type == "" && firstLine(content) == shellStart:
		if firstLine(content) != shellStart {
			return fmt.Errorf("the lab runs no script that begins with %q", firstLine(content))
		}
		d.scripts = append(d.scripts, script{part.Filename, content})
		return nil
	case part.Type == "":
		return d.addCloudConfig(content, []string{"write_files"})
	default:
		return fmt.Errorf("the lab does not know parts of the type %q", part.Type)
	}
}

// addCloudConfig adds the files of a cloud-config. It may have only the known keys; nil permits all.
func (d *userData) addCloudConfig(text string, known []string) error {
	if firstLine(text) != cloudConfigStart {
		return fmt.Errorf("user data that begins with %q is no cloud-config", firstLine(text))
	}
	var config struct {
		WriteFiles []file `json:"write_files"`
	}
	var keys map[string]any
	for _, into := range []any{&config, &keys} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			return err
		}
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if known != nil && !slices.Contains(known, key) {
			return fmt.Errorf("the lab does not carry out %s of a cloud-config", key)
		}
	}
	d.files = append(d.files, config.WriteFiles...)
	return nil
}

var metaDataField = regexp.MustCompile(`{{ *ds\.meta_data\.(\w+) *}}`)

// fill replaces the fields of the meta-data in a Jinja template, as cloud-init does, and removes the line that marks the template.
func fill(text string, metaData map[string]string) string {
	if firstLine(text) != jinjaStart {
		return text
	}
	_, text, _ = strings.Cut(text, "\n")
	return metaDataField.ReplaceAllStringFunc(text, func(field string) string {
		return metaData[metaDataField.FindStringSubmatch(field)[1]]
	})
}
