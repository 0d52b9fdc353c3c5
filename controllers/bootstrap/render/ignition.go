package render

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
)

// What the provider adds to an Ignition config. The script may contain secret values, so only root can read it.
const (
	commandsPath = "/etc/capbm/commands"
	commandsDone = commandsPath + ".done"
	// CommandsUnit is the systemd unit that runs the commands.
	CommandsUnit = "capbm-bootstrap.service"
	// metadataPath has the facts about the server, which the infrastructure provider writes.
	metadataPath = "/etc/capbm/metadata"
)

// commandsUnit runs the commands at the first boot.
const commandsUnit = `[Unit]
Description=Run the commands of the BareMetalConfig
Wants=network-online.target
After=network-online.target
ConditionPathExists=!` + commandsDone + `

[Service]
Type=oneshot
RemainAfterExit=yes
EnvironmentFile=-` + metadataPath + `
ExecStart=/bin/sh ` + commandsPath + `
ExecStartPost=/bin/touch ` + commandsDone + `

[Install]
WantedBy=multi-user.target
`

// ignitionVersion matches the versions of the specification that the infrastructure provider serves.
var ignitionVersion = regexp.MustCompile(`^(2\.[2-4]|3\.[0-9]{1,2})\.[0-9]+(-experimental)?$`)

// ignition returns the Ignition config of the user data, with a file and a unit for the commands.
func ignition(userData []byte, commands []string) ([]byte, error) {
	config := map[string]any{}
	decoder := json.NewDecoder(bytes.NewReader(userData))
	decoder.UseNumber()
	if err := decoder.Decode(&config); err != nil {
		return nil, invalidJSON(userData, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, invalidUserData("something follows the JSON object")
	}
	section, _ := config["ignition"].(map[string]any)
	version, _ := section["version"].(string)
	if !ignitionVersion.MatchString(version) {
		return nil, invalidUserData("set ignition.version to 2.2.0 to 2.4.0 or 3.x.0")
	}
	if len(commands) == 0 {
		return userData, nil
	}
	file := map[string]any{
		"path": commandsPath, "mode": 0o700, "overwrite": true,
		"contents": map[string]any{"source": "data:;base64," + base64.StdEncoding.EncodeToString([]byte(script("", commands)))},
	}
	if strings.HasPrefix(version, "2.") {
		file["filesystem"] = "root"
	}
	if err := errors.Join(appendTo(config, "storage", "files", "path", file),
		appendTo(config, "systemd", "units", "name", map[string]any{"name": CommandsUnit, "enabled": true, "contents": commandsUnit})); err != nil {
		return nil, err
	}
	result, err := json.Marshal(config)
	if err != nil {
		return nil, invalidUserData("it cannot be written as JSON: %w", err)
	}
	return result, nil
}

// invalidJSON returns the position of an error, and drops its text, which may quote a value.
func invalidJSON(userData []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return invalidUserData("it is not valid JSON, line %d", 1+bytes.Count(userData[:min(int(syntax.Offset), len(userData))], []byte("\n")))
	}
	return invalidUserData("it is not an Ignition config in JSON. Convert a Butane config with the program butane")
}

// appendTo appends an entry to a list of the config, unless another entry has the same key.
func appendTo(config map[string]any, section, list, key string, entry map[string]any) error {
	if config[section] == nil {
		config[section] = map[string]any{}
	}
	parent, ok := config[section].(map[string]any)
	if !ok {
		return invalidUserData("%s is not a JSON object", section)
	}
	if parent[list] == nil {
		parent[list] = []any{}
	}
	entries, ok := parent[list].([]any)
	if !ok {
		return invalidUserData("%s.%s is not a JSON list", section, list)
	}
	for _, e := range entries {
		if known, _ := e.(map[string]any); known[key] == entry[key] {
			return invalidUserData("%s.%s contains %s, which the provider adds itself for the commands", section, list, entry[key])
		}
	}
	parent[list] = append(entries, entry)
	return nil
}
