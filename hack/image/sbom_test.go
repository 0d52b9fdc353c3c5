package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
	"github.com/spdx/tools-golang/spdxlib"
)

const hash = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// input writes the input of an SBOM. This test program is the manager in it.
func input(t *testing.T) (*options, *packages) {
	t.Helper()
	folder := t.TempDir()
	write := func(name, content string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, arch := range serverArchs {
		write("agents/"+arch+"/packages", "linux-image-6.12 6.12-1 "+hash+"\nfirmware-used 2025-1 "+hash+"\nfirmware-unused 2025-1 "+hash+"\n")
		listed := append(slices.Clone(agentFiles[arch]), "licenses/firmware-used", "packages")
		slices.Sort(listed)
		write("agents/"+arch+"/SHA256SUMS", sums(listed...))
		for _, name := range append(slices.Clone(agentFiles[arch]), "licenses/firmware-used") {
			write("agents/"+arch+"/"+name, name+" of "+arch)
		}
		write("agent-"+arch+".tar.gz", "agent of "+arch)
	}
	write("PACKAGES", "ipmitool 1.8.19-9+b1 "+hash+"\nlibunused 1:2.0 "+hash+"\n")
	write("SHA256SUMS", "# ipxe 1.21.1+git-1\n"+hash+"  undionly.kpxe\n# ipxe 1.21.1+git-1\n"+hash+"  snponly.efi\n")
	write("boot-loaders.tar.gz", "loaders")
	p, err := openPackages(folder, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	p.used["ipmitool"] = true
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"amd64/manager", "bmcctl-linux-amd64", "bmcctl-darwin-arm64", "program-amd64/agent", "program-arm64/agent"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(folder, name)); err != nil {
			t.Fatal(err)
		}
	}
	return &options{
		programs: folder, loaders: folder, name: "registry.example:5000/capbm:v9.9.9", version: "v9.9.9", epoch: 1767225600,
		output: filepath.Join(folder, "image.tar"), archives: folder, agents: filepath.Join(folder, "agents"), agentPrograms: folder,
	}, p
}

// twice writes an SBOM twice, with the same bytes, and returns what the library reads in it: the packages by name, and what each contains.
func twice(t *testing.T, file string, write func() error) (packages map[string]*spdx.Package, contained map[string][]string) {
	t.Helper()
	written := make([][]byte, 2)
	for i := range written {
		if err := write(); err != nil {
			t.Fatal(err)
		}
		var err error
		if written[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(written[0], written[1]) {
		t.Error("the second one differs")
	}
	doc, err := spdxjson.Read(bytes.NewReader(written[0]))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Error(err)
	}
	if doc.SPDXVersion != "SPDX-2.3" || doc.CreationInfo.Created != "2026-01-01T00:00:00Z" {
		t.Errorf("version %s, created %s", doc.SPDXVersion, doc.CreationInfo.Created)
	}
	names := map[spdx.ElementID]string{"DOCUMENT": "DOCUMENT"}
	packages, contained = map[string]*spdx.Package{}, map[string][]string{}
	for _, p := range doc.Packages {
		if names[p.PackageSPDXIdentifier] != "" || packages[p.PackageName] != nil {
			t.Errorf("%s is there twice", p.PackageName)
		}
		names[p.PackageSPDXIdentifier], packages[p.PackageName] = p.PackageName, p
	}
	for _, r := range doc.Relationships {
		from := names[r.RefA.ElementRefID]
		contained[from] = append(contained[from], names[r.RefB.ElementRefID])
	}
	return packages, contained
}

func modules(t *testing.T) []string {
	t.Helper()
	info, ok := debug.ReadBuildInfo()
	if !ok || len(info.Deps) == 0 {
		t.Fatal("this program has no list of its modules")
	}
	names := []string{"std"}
	for _, m := range info.Deps {
		names = append(names, m.Path)
	}
	return names
}

func expect(t *testing.T, of string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s: %s, and not %s", of, got, want)
	}
}

func purl(p *spdx.Package) string {
	if p == nil || len(p.PackageExternalReferences) != 1 {
		return ""
	}
	return p.PackageExternalReferences[0].Locator
}

// TestImageSBOM: the SBOM names the image by its digest, and has its contents: the manager with its modules, used packages, and boot loaders.
func TestImageSBOM(t *testing.T) {
	o, p := input(t)
	digest, err := empty.Image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	packages, contained := twice(t, strings.TrimSuffix(o.output, ".tar")+"-amd64.spdx.json", func() error {
		return writeImageSBOM(o, platformImage{"amd64", empty.Image}, p)
	})
	const image = "registry.example:5000/capbm"
	expect(t, "described", contained["DOCUMENT"], image)
	expect(t, "the image", contained[image], "manager", "ipmitool", "undionly.kpxe", "snponly.efi", "agent-amd64", "agent-arm64")
	expect(t, "an agent", contained["agent-arm64"], "linux-image-6.12", "firmware-used", "agent-arm64/init")
	expect(t, "its program", contained["agent-arm64/init"], modules(t)...)
	expect(t, "the manager", contained["manager"], modules(t)...)
	for name, want := range map[string]string{
		image:         "pkg:oci/capbm@sha256%3A" + digest.Hex + "?arch=amd64&repository_url=registry.example%3A5000%2Fcapbm&tag=v9.9.9",
		"ipmitool":    "pkg:deb/debian/ipmitool@1.8.19-9%2Bb1?distro=debian-13",
		"snponly.efi": "pkg:deb/debian/ipxe@1.21.1%2Bgit-1?distro=debian-13",
		"std":         "pkg:golang/std@" + packages["std"].PackageVersion,
	} {
		if got := purl(packages[name]); got != want {
			t.Errorf("%s is %s, and not %s", name, got, want)
		}
	}
	for name, want := range map[string]string{image: digest.Hex, "ipmitool": hash, "snponly.efi": hash} {
		if sums := packages[name].PackageChecksums; len(sums) != 1 || sums[0].Value != want {
			t.Errorf("%s has the checksum %v", name, sums)
		}
	}
}

// TestReleaseSBOM: each program has its modules, which are listed once, and each archive its content.
func TestReleaseSBOM(t *testing.T) {
	o, _ := input(t)
	o.output = filepath.Join(o.loaders, "release.spdx.json")
	programs := []string{filepath.Join(o.programs, "bmcctl-linux-amd64"), filepath.Join(o.programs, "bmcctl-darwin-arm64")}
	packages, contained := twice(t, o.output, func() error { return writeReleaseSBOM(o, programs) })
	expect(t, "described", contained["DOCUMENT"], "bmcctl-linux-amd64", "bmcctl-darwin-arm64", "boot-loaders.tar.gz", "agent-amd64.tar.gz", "agent-arm64.tar.gz")
	expect(t, "an agent", contained["agent-amd64.tar.gz"], "linux-image-6.12", "firmware-used", "agent-amd64/init")
	expect(t, "bmcctl", contained["bmcctl-darwin-arm64"], modules(t)...)
	expect(t, "loaders", contained["boot-loaders.tar.gz"], "undionly.kpxe", "snponly.efi")
	if p := packages["bmcctl-linux-amd64"]; p.PackageVersion != "v9.9.9" || p.PackageLicenseDeclared != "Apache-2.0" {
		t.Errorf("bmcctl is %+v", p)
	}
}

// TestSBOMRefuses: a list of boot loaders that cannot be read is an error, and not an SBOM without them.
func TestSBOMRefuses(t *testing.T) {
	o, p := input(t)
	for _, sums := range []string{hash + "  nobodys.efi\n", "# ipxe\n"} {
		if err := os.WriteFile(filepath.Join(o.loaders, "SHA256SUMS"), []byte(sums), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeImageSBOM(o, platformImage{"amd64", empty.Image}, p); err == nil || !strings.Contains(err.Error(), "SHA256SUMS") {
			t.Errorf("%q: %v", sums, err)
		}
	}
}

// TestAgents: the image has the files of each agent that its list names, and the list. An agent that is not complete is an error.
func TestAgents(t *testing.T) {
	o, _ := input(t)
	files := newTree()
	if err := addAgents(files, o.agents); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(files.entries)) {
		if of, found := strings.CutPrefix(name, "usr/lib/capbm/agent/arm64/"); found {
			names = append(names, of)
		}
	}
	expect(t, "an agent", names, "SHA256SUMS", "kernel.gz", "kernel.squashfs", "licenses/firmware-used", "packages", "ramdisk")
	if len(files.entries) != 2*len(names)-1 { // amd64 needs no second form of the kernel
		t.Errorf("%d files", len(files.entries))
	}
	if err := os.WriteFile(filepath.Join(o.agents, "arm64", "kernel"), nil, 0o600); err != nil { // not the one that the boot server opens
		t.Fatal(err)
	}
	list := filepath.Join(o.agents, "arm64", "SHA256SUMS")
	whole := agentFiles["arm64"]
	for _, listed := range []string{
		sums(whole[1:]...), sums(whole[0], whole[2]), sums(whole[:2]...), sums("kernel", "kernel.squashfs", "ramdisk"), sums(append(whole, "missing")...), "ramdisk\n",
	} {
		if err := os.WriteFile(list, []byte(listed), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := addAgents(newTree(), o.agents); err == nil {
			t.Errorf("%q is accepted", listed)
		}
	}
}

// sums returns a list of checksums of files.
func sums(names ...string) string {
	var out strings.Builder
	for _, name := range names {
		out.WriteString(hash + "  " + name + "\n")
	}
	return out.String()
}

// TestArchive: an archive of one image has one manifest, an archive of two has an index with the platform of each.
func TestArchive(t *testing.T) {
	o, _ := input(t)
	one, err := writeArchive([]platformImage{{"amd64", empty.Image}}, o)
	if digest, _ := empty.Image.Digest(); err != nil || one != digest.String() {
		t.Errorf("%s: %v", one, err)
	}
	two, err := writeArchive([]platformImage{{"amd64", empty.Image}, {"arm64", empty.Image}}, o)
	if _, parseErr := v1.NewHash(two); err != nil || parseErr != nil || two == one {
		t.Errorf("%s: %v, %v", two, err, parseErr)
	}
}
