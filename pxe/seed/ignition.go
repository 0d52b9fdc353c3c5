package seed

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// The paths of files that the Ignition config writes. The scripts contain the token, so only root can read them.
const (
	metadataPath = "/etc/capbm/metadata"
	upPath       = "/etc/capbm/report"
	watchPath    = "/etc/capbm/report-bootstrap"
	// doneSuffix is appended to the path of a script for the file that shows that the script need not run again.
	doneSuffix = ".done"
)

// ignitionConfig is the part that this package needs of the Ignition configuration specifications 2.2 to 2.4 and 3.x.
type ignitionConfig struct {
	Ignition ignitionSection `json:"ignition"`
	Storage  ignitionStorage `json:"storage"`
	Systemd  ignitionSystemd `json:"systemd"`
}

type ignitionSection struct {
	Version string         `json:"version"`
	Config  ignitionInsert `json:"config"`
}

// ignitionInsert includes another config: Append in specification 2, Merge in 3.
type ignitionInsert struct {
	Append []ignitionSource `json:"append,omitempty"`
	Merge  []ignitionSource `json:"merge,omitempty"`
}

type ignitionSource struct {
	Source string `json:"source"`
}

type ignitionStorage struct {
	Files []ignitionFileEntry `json:"files"`
}

type ignitionFileEntry struct {
	// Filesystem is "root" in specification 2, and absent in 3.
	Filesystem string         `json:"filesystem,omitempty"`
	Path       string         `json:"path"`
	Mode       int            `json:"mode"`
	Overwrite  bool           `json:"overwrite"`
	Contents   ignitionSource `json:"contents"`
}

type ignitionSystemd struct {
	Units []ignitionUnit `json:"units"`
}

type ignitionUnit struct {
	Name     string `json:"name"`
	Enabled  bool   `json:"enabled"`
	Contents string `json:"contents"`
}

var ignitionVersion = regexp.MustCompile(`^(2\.[2-4]|3\.[0-9]{1,2})\.[0-9]+(-experimental)?$`)

// ignition renders an Ignition config with the provider's files and units, which includes the bootstrap data. The bootstrap data takes precedence.
// It is included as a data URL, so that one request fetches everything or nothing.
func ignition(d Data, base string) ([]byte, error) {
	version, err := versionOf(d.UserData)
	if err != nil {
		return nil, err
	}
	config := ignitionConfig{Ignition: ignitionSection{Version: version}}
	filesystem := ""
	if strings.HasPrefix(version, "2.") {
		filesystem = "root"
		config.Ignition.Config.Append = []ignitionSource{dataURL(d.UserData)}
	} else {
		config.Ignition.Config.Merge = []ignitionSource{dataURL(d.UserData)}
	}
	files, err := ignitionFiles(d, base)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		config.Storage.Files = append(config.Storage.Files, ignitionFileEntry{filesystem, f.path, f.mode, true, dataURL([]byte(f.content))})
	}
	config.Systemd.Units = ignitionUnits(d)
	return json.Marshal(config)
}

// versionOf returns the specification version of an Ignition config, or an error if it cannot be included.
func versionOf(userData []byte) (string, error) {
	var config struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
	}
	if err := json.Unmarshal(userData, &config); err != nil {
		// The error of the decoder is dropped: it may quote the bootstrap data.
		return "", errors.New("the format of the bootstrap data is ignition, but the data is not an Ignition config in JSON")
	}
	if !ignitionVersion.MatchString(config.Ignition.Version) {
		return "", fmt.Errorf("the bootstrap data is Ignition of version %.20q: versions 2.2 to 2.4 and 3.x can be served", config.Ignition.Version)
	}
	return config.Ignition.Version, nil
}

func ignitionFiles(d Data, base string) ([]file, error) {
	up, err := renderUp(d, base)
	if err != nil {
		return nil, err
	}
	files := []file{{"/etc/hostname", 0o644, d.Hostname + "\n"}, {metadataPath, 0o644, environment(d)}, {upPath, 0o700, up}}
	if d.reportsOutcome() {
		watch, err := ignitionWatch.render(d, base)
		if err != nil {
			return nil, err
		}
		files = append(files, file{watchPath, 0o700, watch})
	}
	if d.Network != nil {
		// Flatcar has systemd-networkd and Fedora CoreOS has NetworkManager. Neither has the other, so each reads only its own files.
		files = append(files, d.Network.networkd()...)
		files = append(files, d.Network.keyfiles()...)
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.path, b.path) })
	return files, nil
}

// ignitionUnits returns the units that report. After a later boot of the system they neither repeat a report nor look for the result of the bootstrap: the
// sentinel, which is in /run, is gone then.
//
// The watch is of Type=simple and not ordered after the units that it watches. A bootstrap that never ends must be reported as failed after an hour, and a
// oneshot unit that waits for an hour would delay multi-user.target, and with it each unit of the bootstrap data that is ordered after that target.
func ignitionUnits(d Data) []ignitionUnit {
	unit := func(name, what, after, script string, service ...string) ignitionUnit {
		lines := append([]string{
			"[Unit]", "Description=" + what, "Wants=network-online.target", "After=network-online.target" + after, "ConditionPathExists=!" + script + doneSuffix, "",
			"[Service]",
		}, service...)
		lines = append(lines, "RemainAfterExit=yes", "ExecStart=/bin/sh "+script, "", "[Install]", "WantedBy=multi-user.target")
		return ignitionUnit{Name: name, Enabled: true, Contents: joinLines(lines...).String()}
	}
	units := []ignitionUnit{unit("capbm-report.service", "Report to the boot server that the system is up", "", upPath,
		"Type=oneshot", "ExecStartPost=/bin/touch "+upPath+doneSuffix)}
	if d.reportsOutcome() {
		units = append(units, unit("capbm-report-bootstrap.service", "Report to the boot server how the bootstrap went", " capbm-report.service", watchPath,
			"Type=simple"))
	}
	return units
}

// reportsOutcome is true if the system should report the result of its bootstrap.
func (d Data) reportsOutcome() bool { return d.SucceededPath != "" && d.FailedPath != "" }

// environment returns the facts about the host as a file that a shell and systemd's EnvironmentFile can read.
func environment(d Data) string {
	labels := make([]string, 0, len(d.Labels))
	for _, key := range slices.Sorted(maps.Keys(d.Labels)) {
		labels = append(labels, key+"="+d.Labels[key])
	}
	return joinLines(
		"CAPBM_INSTANCE_ID="+quote(d.InstanceID), "CAPBM_HOSTNAME="+quote(d.Hostname), "CAPBM_PROVIDER_ID="+quote(d.ProviderID),
		"CAPBM_FAILURE_DOMAIN="+quote(d.FailureDomain), "CAPBM_LABELS="+quote(strings.Join(labels, ",")),
	).String()
}

func dataURL(content []byte) ignitionSource {
	return ignitionSource{"data:;base64," + base64.StdEncoding.EncodeToString(content)}
}
