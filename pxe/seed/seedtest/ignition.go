package seedtest

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"

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
	Name     string   `json:"name"`
	Enabled  bool     `json:"enabled"`
	Contents string   `json:"contents"`
	DropIns  []DropIn `json:"dropins"`
}

// DropIn is a part of a unit in a file of its own.
type DropIn struct {
	Name     string `json:"name"`
	Contents string `json:"contents"`
}

// ignitionConfig is the part of an Ignition config that this package reads.
type ignitionConfig struct {
	Ignition struct {
		Version string `json:"version"`
		Config  struct {
			Append []resource `json:"append"`
			Merge  []resource `json:"merge"`
		} `json:"config"`
	} `json:"ignition"`
	Storage struct {
		Files []struct {
			Path     string   `json:"path"`
			Mode     int      `json:"mode"`
			Contents resource `json:"contents"`
		} `json:"files"`
	} `json:"storage"`
	Systemd struct {
		Units []Unit `json:"units"`
	} `json:"systemd"`
}

// resource is content in a data URL.
type resource struct {
	Source      string `json:"source"`
	Compression string `json:"compression"`
}

func (r resource) read() ([]byte, error) {
	decoded, err := dataurl.DecodeString(r.Source)
	if err != nil {
		return nil, err
	}
	if r.Compression == "" {
		return decoded.Data, nil
	}
	unpack, err := gzip.NewReader(bytes.NewReader(decoded.Data))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(unpack)
}

// ReadIgnition reads a config whose files are data URLs, without the configs that it includes.
func ReadIgnition(content []byte) (Ignition, error) {
	var config ignitionConfig
	if err := json.Unmarshal(content, &config); err != nil {
		return Ignition{}, err
	}
	return config.output()
}

func (c ignitionConfig) output() (Ignition, error) {
	out := Ignition{Version: c.Ignition.Version, Units: c.Systemd.Units}
	for _, f := range c.Storage.Files {
		content, err := f.Contents.read()
		if err != nil {
			return Ignition{}, fmt.Errorf("%s: %w", f.Path, err)
		}
		out.Files = append(out.Files, File{Path: f.Path, Content: string(content), Mode: f.Mode})
	}
	return out, nil
}

// ReadIgnitionTree reads a config with the configs that it includes. An included config decides about a file or a unit of both; the drop-ins of a unit are
// collected.
func ReadIgnitionTree(content []byte) (Ignition, error) {
	var config ignitionConfig
	if err := json.Unmarshal(content, &config); err != nil {
		return Ignition{}, err
	}
	out, err := config.output()
	if err != nil {
		return Ignition{}, err
	}
	for _, included := range append(config.Ignition.Config.Append, config.Ignition.Config.Merge...) {
		content, err := included.read()
		if err != nil {
			return Ignition{}, err
		}
		child, err := ReadIgnitionTree(content)
		if err != nil {
			return Ignition{}, err
		}
		out.merge(child)
	}
	return out, nil
}

func (i *Ignition) merge(child Ignition) {
	for _, f := range child.Files {
		if n := slices.IndexFunc(i.Files, func(of File) bool { return of.Path == f.Path }); n >= 0 {
			i.Files[n] = f
		} else {
			i.Files = append(i.Files, f)
		}
	}
	for _, u := range child.Units {
		n := slices.IndexFunc(i.Units, func(of Unit) bool { return of.Name == u.Name })
		if n < 0 {
			i.Units = append(i.Units, u)
			continue
		}
		if u.Contents != "" {
			i.Units[n].Contents, i.Units[n].Enabled = u.Contents, u.Enabled
		}
		i.Units[n].DropIns = append(i.Units[n].DropIns, u.DropIns...)
	}
}
