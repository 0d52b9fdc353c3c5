package main

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

const (
	hash   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	digest = "sha256:" + hash
)

// input writes the input of an SBOM. This test program is the manager in it.
func input(t *testing.T) (*options, *packages) {
	t.Helper()
	folder := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("PACKAGES", "ipmitool 1.8.19-9+b1 "+hash+"\nlibunused 1:2.0 "+hash+"\n")
	write("SHA256SUMS", "# ipxe 1.21.1+git-1\n"+hash+"  undionly.kpxe\n# ipxe 1.21.1+git-1\n"+hash+"  snponly.efi\n")
	p, err := openPackages(folder, "amd64")
	if err != nil {
		t.Fatal(err)
	}
	p.used["ipmitool"] = true
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &options{
		manager: program, loaders: folder, arch: "amd64", name: "registry.example:5000/capbm:v9.9.9", version: "v9.9.9", epoch: 1767225600,
		sbom: filepath.Join(folder, "sbom.json"),
	}, p
}

// TestSBOM: the SBOM names the image by its digest, and has its contents: modules, used packages, and boot loaders. The same input gives the same bytes.
func TestSBOM(t *testing.T) {
	o, p := input(t)
	written := make([][]byte, 2)
	for i := range written {
		if err := writeSBOM(o, digest, p); err != nil {
			t.Fatal(err)
		}
		var err error
		if written[i], err = os.ReadFile(o.sbom); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(written[0], written[1]) {
		t.Error("the second one differs")
	}
	var bom cdx.BOM
	if err := cdx.NewBOMDecoder(bytes.NewReader(written[0]), cdx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	image := bom.Metadata.Component
	const purl = "pkg:oci/capbm@sha256%3A" + hash + "?arch=amd64&repository_url=registry.example%3A5000%2Fcapbm&tag=v9.9.9"
	if image.PackageURL != purl || (*image.Hashes)[0].Value != hash || image.Name != "registry.example:5000/capbm" {
		t.Errorf("the image is %+v", image)
	}
	listed := map[string]cdx.Component{}
	for _, c := range *bom.Components {
		if _, twice := listed[c.BOMRef]; twice {
			t.Errorf("%s is there twice", c.BOMRef)
		}
		listed[c.BOMRef] = c
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || len(info.Deps) == 0 {
		t.Fatal("this program says nothing of its modules")
	}
	want := []string{
		"pkg:deb/debian/ipmitool@1.8.19-9%2Bb1?distro=debian-13", "loader:undionly.kpxe", "loader:snponly.efi", "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
	}
	for _, m := range info.Deps {
		want = append(want, "pkg:golang/"+m.Path+"@"+m.Version)
	}
	for _, ref := range want {
		if _, ok := listed[ref]; !ok {
			t.Errorf("%s is not listed", ref)
		}
	}
	if len(listed) != len(want) {
		t.Errorf("%d components, and not %d: what is not in the image is listed", len(listed), len(want))
	}
	if c := listed["loader:snponly.efi"]; c.PackageURL != "pkg:deb/debian/ipxe@1.21.1%2Bgit-1?distro=debian-13" || (*c.Hashes)[0].Value != hash {
		t.Errorf("snponly.efi is %+v", c)
	}
}

// TestSBOMRefuses: a list of boot loaders that cannot be read is an error, and not an SBOM without them.
func TestSBOMRefuses(t *testing.T) {
	o, p := input(t)
	for _, sums := range []string{hash + "  nobodys.efi\n", "# ipxe\n"} {
		if err := os.WriteFile(filepath.Join(o.loaders, "SHA256SUMS"), []byte(sums), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := writeSBOM(o, digest, p); err == nil || !strings.Contains(err.Error(), "SHA256SUMS") {
			t.Errorf("%q: %v", sums, err)
		}
	}
}
