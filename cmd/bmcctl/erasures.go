package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

const aboutErasures = `bmcctl erasures verify FILE checks certificates of sanitization offline, with the public key alone: a file that kubectl baremetal erasures -o export has written.
FILE may be - for the standard input. The guide "Prove erasures" describes how to get the public key, and what a certificate proves.

  bmcctl erasures verify erasures.json --key erasure-keys.pem

`

// maxCertificates is the maximum size of a file of certificates, in bytes: about 10,000 of them.
const maxCertificates = 256 << 20

// verification is a run of bmcctl erasures verify.
type verification struct {
	key     string
	console console
}

func erasures(_ context.Context, args []string, c console) error {
	v := &verification{console: c}
	set := pflag.NewFlagSet("erasures", pflag.ContinueOnError)
	set.SortFlags = false
	set.Usage = func() {}
	set.StringVar(&v.key, "key", "", "The `file` with the public keys (PEM) that may have signed the certificates.")
	err := set.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		writef(c.out, "%s%s", aboutErasures, set.FlagUsagesWrapped(120))
		return err
	case err != nil:
		return usageErrorf("%v", err)
	case set.Arg(0) != "verify":
		return usageErrorf("bmcctl erasures verifies exported certificates: write bmcctl erasures verify erasures.json --key keys.pem. kubectl baremetal erasures prints those of a host")
	case set.NArg() != 2:
		return usageErrorf("bmcctl erasures verify takes one file, but got %d: write bmcctl erasures verify erasures.json --key keys.pem", set.NArg()-1)
	case v.key == "":
		return usageErrorf("bmcctl erasures verify needs --key FILE with the public key")
	}
	return v.verify(set.Arg(1))
}

// verify checks a file of certificates, and prints a line for each.
func (v *verification) verify(file string) error {
	keys, err := readKeys(v.key)
	if err != nil {
		return err
	}
	content, err := v.readFile(file)
	if err != nil {
		return err
	}
	document, err := erasure.ParseDocument(content)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	failed := 0
	for i := range document.Certificates {
		entry := &document.Certificates[i]
		spec := &entry.Statement.Erasure
		what := fmt.Sprintf("host %s/%s, boot %d", spec.Namespace, spec.HostName, spec.BootNumber)
		if err := entry.Verify(keys); err != nil {
			failed++
			writef(v.console.out, "INVALID  certificate %d (%s): %s\n", i+1, clean(what), clean(err.Error()))
			continue
		}
		writef(v.console.out, "valid    certificate %d (%s): %s of %d disks, %d left out, erased %s\n", i+1, clean(what), clean(string(spec.Report.Policy)),
			erasedDisks(spec), len(spec.Report.Disks)-erasedDisks(spec), spec.Report.EndTime.UTC().Format("2006-01-02 15:04 MST"))
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d certificates are not valid", failed, len(document.Certificates))
	}
	return nil
}

func erasedDisks(spec *v1alpha1.BareMetalErasureSpec) int {
	n := 0
	for i := range spec.Report.Disks {
		if spec.Report.Disks[i].Outcome == wire.Erased {
			n++
		}
	}
	return n
}

func readKeys(file string) (map[string]ed25519.PublicKey, error) {
	content, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, usageErrorf("--key: %v", err)
	}
	keys, err := erasure.ParsePublicKeys(content)
	if err != nil {
		return nil, fmt.Errorf("--key %s: %w", file, err)
	}
	return keys, nil
}

// readFile reads a file, or the standard input, up to maxCertificates.
func (v *verification) readFile(name string) ([]byte, error) {
	in := v.console.in
	if name != "-" {
		file, err := os.Open(name) //nolint:gosec // the user names it
		if err != nil {
			return nil, usageErrorf("%v", err)
		}
		defer file.Close() //nolint:errcheck // it is read only
		in = file
	}
	content, err := io.ReadAll(io.LimitReader(in, maxCertificates+1))
	if err == nil && len(content) > maxCertificates {
		err = fmt.Errorf("%s has more than %d bytes", name, maxCertificates)
	}
	return content, err
}
