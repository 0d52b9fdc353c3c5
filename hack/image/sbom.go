package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// debian is the release of Debian of packages.sh and loaders.sh, as package URLs name it.
const debian = "debian-13"

// writeSBOM writes the software bill of materials of the image with a digest: CycloneDX 1.6 in JSON, with the Go modules of the manager, the Debian
// packages that a file was taken from, and the boot loaders. It has no serial number, so the same image has the same bill.
func writeSBOM(o *options, digest string, p *packages) error {
	modules, err := goModules(o.manager)
	if err != nil {
		return err
	}
	loaders, err := bootLoaders(o.loaders)
	if err != nil {
		return err
	}
	repository := o.name[:strings.LastIndexByte(o.name, ':')] // hack/image.sh requires a tag
	purl := fmt.Sprintf("pkg:oci/%s@%s?arch=%s&repository_url=%s&tag=%s",
		filepath.Base(repository), url.QueryEscape(digest), o.arch, url.QueryEscape(repository), url.QueryEscape(o.version))
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{
		Timestamp: time.Unix(o.epoch, 0).UTC().Format(time.RFC3339),
		Component: &cdx.Component{
			BOMRef: purl, Type: cdx.ComponentTypeContainer, Name: repository, Version: o.version, PackageURL: purl,
			Hashes: sha256Of(strings.TrimPrefix(digest, "sha256:")),
		},
	}
	all := slices.Concat(modules, p.components(), loaders)
	bom.Components = &all
	var content bytes.Buffer
	if err := cdx.NewBOMEncoder(&content, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(bom, cdx.SpecVersion1_6); err != nil {
		return err
	}
	return os.WriteFile(o.sbom, content.Bytes(), 0o644) //nolint:gosec // everybody may read the result
}

func sha256Of(hash string) *[]cdx.Hash {
	return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hash}}
}

// goModules returns the modules that a program is linked from, which Go writes into it, and Go's standard library.
func goModules(program string) ([]cdx.Component, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("the Go modules of %s: %w", program, err)
	}
	all := []cdx.Component{goModule(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		all = append(all, goModule(m))
	}
	return all, nil
}

// goModule has the hash of go.sum if the module has one: SHA-256 over the names and hashes of its files.
func goModule(m *debug.Module) cdx.Component {
	purl := "pkg:golang/" + m.Path + "@" + url.QueryEscape(m.Version)
	c := cdx.Component{BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: purl}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) > 0 {
		c.Hashes = sha256Of(hex.EncodeToString(sum))
	}
	return c
}

// components returns the used packages, with the checksum of the file from the Debian archive.
func (p *packages) components() []cdx.Component {
	var all []cdx.Component
	for _, name := range slices.Sorted(maps.Keys(p.used)) {
		purl := debianURL(name, p.list[name].version)
		all = append(all, cdx.Component{
			BOMRef: purl, Type: cdx.ComponentTypeLibrary, Name: name, Version: p.list[name].version, PackageURL: purl, Hashes: sha256Of(p.list[name].sum),
		})
	}
	return all
}

func debianURL(name, version string) string {
	return "pkg:deb/debian/" + name + "@" + url.QueryEscape(version) + "?distro=" + debian
}

// bootLoaders returns the boot loaders in SHA256SUMS, each below its package.
func bootLoaders(folder string) ([]cdx.Component, error) {
	sums, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS")) //nolint:gosec // the caller names it
	if err != nil {
		return nil, err
	}
	var all []cdx.Component
	var name, version string
	for line := range strings.Lines(string(sums)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 3 && fields[0] == "#":
			name, version = fields[1], fields[2]
		case len(fields) == 2 && name != "":
			all = append(all, cdx.Component{
				BOMRef: "loader:" + fields[1], Type: cdx.ComponentTypeFirmware, Name: fields[1], Version: version, PackageURL: debianURL(name, version), Hashes: sha256Of(fields[0]),
			})
		default:
			return nil, fmt.Errorf("%s/SHA256SUMS: %q is neither a package nor a checksum", folder, strings.TrimSpace(line))
		}
	}
	return all, nil
}
