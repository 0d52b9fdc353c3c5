package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"time"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
)

const (
	project     = "cluster-api-provider-baremetal"
	source      = "https://github.com/capbm-io/" + project
	noAssertion = "NOASSERTION"
)

// component is something that an SBOM lists.
type component struct {
	name, version, purl string
	// purpose is the PrimaryPackagePurpose of SPDX, sum the SHA-256 checksum in hexadecimal digits.
	purpose, sum string
	// file is the name of the file of a release or of a package's archive, supplier and license what is known of them.
	file, supplier, license string
}

// document is an SBOM in SPDX 2.3.
type document struct {
	spdx.Document
	listed map[spdx.ElementID]bool
}

// newDocument begins an SBOM. The hash makes its namespace unique, and is that of what it describes: the same content has the same SBOM.
func newDocument(name, hash string, created time.Time) *document {
	return &document{spdx.Document{
		SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense, SPDXIdentifier: "DOCUMENT", DocumentName: name,
		DocumentNamespace: source + "/spdx/" + name + "-" + hash,
		CreationInfo: &spdx.CreationInfo{
			Created:  created.Format(time.RFC3339),
			Creators: []spdx.Creator{{CreatorType: "Organization", Creator: project}, {CreatorType: "Tool", Creator: "hack-image"}},
		},
	}, map[spdx.ElementID]bool{}}
}

// describe lists a component that the SBOM is about.
func (d *document) describe(c component) spdx.ElementID {
	id := d.add(c)
	d.relate("DOCUMENT", "DESCRIBES", id)
	return id
}

// contain lists the components of another. Several may have one in common.
func (d *document) contain(in spdx.ElementID, all ...component) {
	for _, c := range all {
		d.relate(in, "CONTAINS", d.add(c))
	}
}

func (d *document) relate(a spdx.ElementID, how string, b spdx.ElementID) {
	d.Relationships = append(d.Relationships, &spdx.Relationship{
		RefA: spdx.DocElementID{ElementRefID: a}, Relationship: how, RefB: spdx.DocElementID{ElementRefID: b},
	})
}

func (d *document) add(c component) spdx.ElementID {
	id := c.id()
	if d.listed[id] {
		return id
	}
	d.listed[id] = true
	p := &spdx.Package{
		PackageName: c.name, PackageSPDXIdentifier: id, PackageVersion: c.version, PackageFileName: c.file, PackageDownloadLocation: noAssertion,
		PackageLicenseConcluded: noAssertion, PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion, PrimaryPackagePurpose: c.purpose,
		PackageSupplier: &spdx.Supplier{Supplier: noAssertion},
	}
	if c.license != "" {
		p.PackageLicenseDeclared = c.license
	}
	if c.supplier != "" {
		p.PackageSupplier = &spdx.Supplier{SupplierType: "Organization", Supplier: c.supplier}
	}
	if c.sum != "" {
		p.PackageChecksums = []spdx.Checksum{{Algorithm: spdx.SHA256, Value: c.sum}}
	}
	if c.purl != "" {
		p.PackageExternalReferences = []*spdx.PackageExternalReference{{Category: spdx.CategoryPackageManager, RefType: "purl", Locator: c.purl}}
	}
	d.Packages = append(d.Packages, p)
	return id
}

// id returns an identifier that a reader recognizes. It ends in a checksum, since names have more characters than identifiers may have.
func (c component) id() spdx.ElementID {
	sum := sha256.Sum256([]byte(c.name + "\n" + c.version + "\n" + c.purl))
	return spdx.ElementID(regexp.MustCompile(`[^A-Za-z0-9.-]+`).ReplaceAllString(c.name, "-") + "-" + hex.EncodeToString(sum[:4]))
}

func (d *document) write(file string) error {
	var content bytes.Buffer
	if err := spdxjson.Write(&d.Document, &content, spdxjson.Indent("  "), spdxjson.EscapeHTML(false)); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return os.WriteFile(file, content.Bytes(), 0o644) //nolint:gosec // everybody may read the result
}
