package main

import (
	"crypto/sha256"
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
)

// debian is the release of Debian of packages.sh and loaders.sh, as package URLs name it.
const debian = "debian-13"

// writeImageSBOM writes the SBOM of the image of an architecture: the Go modules of the manager, the Debian packages that a file was taken from, the
// boot loaders, and the agents.
func writeImageSBOM(o *options, img platformImage, p *packages) error {
	digest, err := img.image.Digest()
	if err != nil {
		return err
	}
	manager, modules, err := program(o, o.manager(img.arch), "manager")
	if err != nil {
		return err
	}
	loaders, err := bootLoaders(o.loaders)
	if err != nil {
		return err
	}
	colon := strings.LastIndexByte(o.name, ':') // hack/image.sh requires a tag
	repository, tag := o.name[:colon], o.name[colon+1:]
	d := newDocument(project+"-"+o.version+"-"+img.arch, digest.Hex, o.date())
	container := component{
		name: repository, version: o.version, purpose: "CONTAINER", sum: digest.Hex, supplier: project, license: noAssertion,
		purl: fmt.Sprintf("pkg:oci/%s@%s?arch=%s&repository_url=%s&tag=%s",
			filepath.Base(repository), url.QueryEscape(digest.String()), img.arch, url.QueryEscape(repository), url.QueryEscape(tag)),
	}
	id := d.describe(container)
	d.contain(id, manager)
	d.contain(manager.id(), modules...)
	d.contain(id, p.components()...)
	d.contain(id, loaders...)
	if err := imageAgents(d, o, container); err != nil {
		return err
	}
	return d.write(strings.TrimSuffix(o.output, ".tar") + "-" + img.arch + ".spdx.json")
}

// writeReleaseSBOM writes the SBOM of the programs and of the archives of a release: boot loaders and agents.
func writeReleaseSBOM(o *options, programs []string) error {
	loaders, err := bootLoaders(o.loaders)
	if err != nil {
		return err
	}
	archives, err := o.archived()
	if err != nil {
		return err
	}
	var sums []string
	for _, a := range archives {
		sums = append(sums, a.sum)
	}
	type listed struct {
		program component
		modules []component
	}
	var all []listed
	for _, file := range programs {
		p, modules, err := program(o, file, filepath.Base(file))
		if err != nil {
			return err
		}
		all = append(all, listed{p, modules})
		sums = append(sums, p.sum)
	}
	hash := sha256.Sum256([]byte(strings.Join(sums, " ")))
	d := newDocument(project+"-"+o.version, hex.EncodeToString(hash[:]), o.date())
	for _, l := range all {
		d.contain(d.describe(l.program), l.modules...)
	}
	d.contain(d.describe(archives[0]), loaders...)
	for i, arch := range serverArchs {
		agent := archives[i+1]
		d.describe(agent)
		if err := listAgent(d, o, arch, agent); err != nil {
			return err
		}
	}
	return d.write(o.output)
}

// archived returns the archives of a release: the boot loaders, and then the agent of each architecture.
func (o *options) archived() ([]component, error) {
	names := []string{"boot-loaders.tar.gz"}
	for _, arch := range serverArchs {
		names = append(names, "agent-"+arch+".tar.gz")
	}
	var all []component
	for _, name := range names {
		sum, err := fileSum(filepath.Join(o.archives, name))
		if err != nil {
			return nil, err
		}
		all = append(all, component{name: name, version: o.version, purpose: "ARCHIVE", sum: sum, file: name, supplier: project})
	}
	return all, nil
}

func fileSum(file string) (string, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the caller names it
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

// program returns a program of this project, with the modules that it is linked from, which Go writes into it, and Go's standard library.
func program(o *options, file, name string) (component, []component, error) {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return component{}, nil, fmt.Errorf("the Go modules of %s: %w", file, err)
	}
	sum, err := fileSum(file)
	if err != nil {
		return component{}, nil, err
	}
	modules := []component{goModule(&debug.Module{Path: "std", Version: strings.TrimPrefix(info.GoVersion, "go")})}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, goModule(m))
	}
	return component{name: name, version: o.version, purpose: "APPLICATION", sum: sum, file: name, supplier: project, license: "Apache-2.0"}, modules, nil
}

// goModule has the hash of go.sum if the module has one: SHA-256 over the names and hashes of its files.
func goModule(m *debug.Module) component {
	c := component{name: m.Path, version: m.Version, purpose: "LIBRARY", purl: "pkg:golang/" + m.Path + "@" + url.QueryEscape(m.Version)}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil {
		c.sum = hex.EncodeToString(sum)
	}
	return c
}

// components returns the used packages, with the checksum of the file from the Debian archive.
func (p *packages) components() []component {
	var all []component
	for _, name := range slices.Sorted(maps.Keys(p.used)) {
		d := p.list[name]
		all = append(all, component{name: name, version: d.version, purpose: "LIBRARY", sum: d.sum, supplier: "Debian", purl: debianURL(name, d.version)})
	}
	return all
}

func debianURL(name, version string) string {
	return "pkg:deb/debian/" + name + "@" + url.QueryEscape(version) + "?distro=" + debian
}

// bootLoaders returns the boot loaders in SHA256SUMS, each below its package.
func bootLoaders(folder string) ([]component, error) {
	sums, err := os.ReadFile(filepath.Join(folder, "SHA256SUMS")) //nolint:gosec // the caller names it
	if err != nil {
		return nil, err
	}
	var all []component
	var name, version string
	for line := range strings.Lines(string(sums)) {
		fields := strings.Fields(line)
		switch {
		case len(fields) == 3 && fields[0] == "#":
			name, version = fields[1], fields[2]
		case len(fields) == 2 && name != "":
			all = append(all, component{
				name: fields[1], version: version, purpose: "FIRMWARE", sum: fields[0], file: fields[1], supplier: "Debian", purl: debianURL(name, version),
			})
		default:
			return nil, fmt.Errorf("%s/SHA256SUMS: %q is neither a package nor a checksum", folder, strings.TrimSpace(line))
		}
	}
	return all, nil
}
