package seedtest

import (
	"encoding/json"
	"fmt"

	"github.com/vincent-petithory/dataurl"
)

// Ignition is the output of an Ignition config.
type Ignition struct {
	Version string
	Files   []File
	Units   []Unit
}

// File is a file that Ignition writes.
type File struct {
	Path, Content string
	Mode          int
}

// Unit is a unit of systemd.
type Unit struct {
	Name     string `json:"name"`
	Contents string `json:"contents"`
}

// ReadIgnition reads a config whose files are data URLs.
func ReadIgnition(content []byte) (Ignition, error) {
	var config struct {
		Ignition struct {
			Version string `json:"version"`
		} `json:"ignition"`
		Storage struct {
			Files []struct {
				Path     string `json:"path"`
				Mode     int    `json:"mode"`
				Contents struct {
					Source string `json:"source"`
				} `json:"contents"`
			} `json:"files"`
		} `json:"storage"`
		Systemd struct {
			Units []Unit `json:"units"`
		} `json:"systemd"`
	}
	if err := json.Unmarshal(content, &config); err != nil {
		return Ignition{}, err
	}
	out := Ignition{Version: config.Ignition.Version, Units: config.Systemd.Units}
	for _, f := range config.Storage.Files {
		decoded, err := dataurl.DecodeString(f.Contents.Source)
		if err != nil {
			return Ignition{}, fmt.Errorf("%s: %w", f.Path, err)
		}
		out.Files = append(out.Files, File{Path: f.Path, Content: string(decoded.Data), Mode: f.Mode})
	}
	return out, nil
}
