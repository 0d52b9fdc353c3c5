package redfish

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

var _ bmc.SecureBootKeyReader = &secureBoot{}

// SecureBootKeys reads the certificates in db.
func (b *secureBoot) SecureBootKeys(ctx context.Context) (bmc.SecureBootKeys, error) {
	const op = "Read the keys of Secure Boot"
	r, _, err := b.read(ctx, op)
	if err != nil {
		return bmc.SecureBootKeys{}, err
	}
	b.service.cache = map[string]resource{} // with $expand, a collection is read with its members
	defer func() { b.service.cache = nil }()
	databases, _, err := b.service.collection(ctx, r.link("SecureBootDatabases"))
	if err != nil {
		return bmc.SecureBootKeys{}, wrap(op, err)
	}
	db := b.database(ctx, databases, "db")
	if db.link("Certificates") == "" {
		if err := b.service.unavailable(ctx); err != nil {
			return bmc.SecureBootKeys{}, wrap(op, err)
		}
		return bmc.SecureBootKeys{}, &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errors.New("the BMC does not show the certificates of the database db")}
	}
	certificates := b.service.list(ctx, db.link("Certificates"))
	if !certificates.complete() {
		return bmc.SecureBootKeys{}, &bmc.Error{Kind: bmc.Failed, Op: op, Err: errors.New("the certificates of the database db: " + certificates.reason())}
	}
	var keys bmc.SecureBootKeys
	for _, c := range certificates.members {
		if name := commonName(c); name != "" {
			keys.Authorities = append(keys.Authorities, name)
		}
	}
	return keys, wrap(op, b.service.unavailable(ctx))
}

// database reads the key database with the name; nil without one.
func (b *secureBoot) database(ctx context.Context, databases []string, name string) resource {
	for _, path := range databases {
		if strings.HasSuffix(path, "/"+name) {
			return b.service.readOptional(ctx, path)
		}
	}
	return nil
}

// commonName returns the common name of a certificate (DSP0268, Certificate): that of the property, or that in the certificate.
func commonName(certificate resource) string {
	if name := certificate.text("Subject", "CommonName"); name != "" {
		return name
	}
	block, _ := pem.Decode([]byte(certificate.text("CertificateString")))
	if block == nil {
		return ""
	}
	parsed, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return ""
	}
	return parsed.Subject.CommonName
}
