package main

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/certificate"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

const aboutErasures = `bmcctl erasures HOST prints certificates of sanitization: one for each recorded erasure of the disks of a host.
bmcctl erasures --all prints those of all hosts of a namespace, also of hosts that do not exist any more.
bmcctl erasures verify FILE checks a file of --output json offline, with the public key alone. FILE may be - for the standard input.
The guide "Prove erasures" describes how to get the public key, and what a certificate proves.

  bmcctl erasures server-1 --namespace rack1
  bmcctl erasures --all -o json >erasures.json
  bmcctl erasures verify erasures.json --key erasure-keys.pem

`

// maxCertificates is the maximum size of a file of certificates, in bytes: about 10,000 of them.
const maxCertificates = 256 << 20

// erasureExport is a run of bmcctl erasures.
type erasureExport struct {
	kubeconfig, context, namespace, output, key string
	all                                         bool
	console                                     console
}

func (e *erasureExport) flags(set *pflag.FlagSet) {
	set.StringVarP(&e.namespace, "namespace", "n", "", "Namespace of the host. Defaults to that of the kubeconfig's context.")
	set.BoolVar(&e.all, "all", false, "Print the certificates of all hosts of the namespace.")
	set.StringVarP(&e.output, "output", "o", "text", "Output `format`: text or json. bmcctl erasures verify reads json.")
	set.StringVar(&e.key, "key", "", "With verify: the `file` with the public keys (PEM) that may have signed the certificates.")
	set.StringVar(&e.kubeconfig, "kubeconfig", "", "Kubeconfig `file`. Defaults to KUBECONFIG in the environment, and then to ~/.kube/config.")
	set.StringVar(&e.context, "context", "", "Context of the kubeconfig. Defaults to its current context.")
}

func erasures(ctx context.Context, args []string, c console) error {
	e := &erasureExport{console: c}
	set := pflag.NewFlagSet("erasures", pflag.ContinueOnError)
	set.SortFlags = false
	set.Usage = func() {}
	e.flags(set)
	err := set.Parse(args)
	verify := set.Arg(0) == "verify"
	switch {
	case errors.Is(err, pflag.ErrHelp):
		writef(c.out, "%s%s", aboutErasures, set.FlagUsagesWrapped(120))
		return err
	case err != nil:
		return usageErrorf("%v", err)
	case verify && set.NArg() != 2:
		return usageErrorf("bmcctl erasures verify takes one file, but got %d: write bmcctl erasures verify erasures.json --key keys.pem", set.NArg()-1)
	case verify && e.key == "":
		return usageErrorf("bmcctl erasures verify needs --key FILE with the public key")
	case verify:
		return e.verify(set.Arg(1))
	case e.key != "":
		return usageErrorf("--key is for bmcctl erasures verify")
	case e.output != "text" && e.output != "json":
		return usageErrorf("--output: %q is unknown: use text or json", e.output)
	case e.all && set.NArg() != 0:
		return usageErrorf("--all prints the certificates of all hosts: do not name a host")
	case !e.all && set.NArg() != 1:
		return usageErrorf("bmcctl erasures takes one host, but got %d: write bmcctl erasures server-1, or use --all", set.NArg())
	}
	return e.export(ctx, set.Arg(0))
}

// export prints the certificates of a host, or of all hosts if host is empty.
func (e *erasureExport) export(ctx context.Context, host string) error {
	c, namespace, err := connectTo(e.kubeconfig, e.context, e.namespace)
	if err != nil {
		return err
	}
	var list v1alpha1.BareMetalErasureList
	options := []client.ListOption{client.InNamespace(namespace)}
	if host != "" {
		options = append(options, client.MatchingLabels{v1alpha1.ErasureHostLabel: erasure.HostLabel(host)})
	}
	switch err := c.List(ctx, &list, options...); {
	case meta.IsNoMatchError(err):
		return errors.New("the cluster has no BareMetalErasures: is it the management cluster, with this release of the provider?")
	case err != nil:
		return err
	}
	records := slices.DeleteFunc(list.Items, func(r v1alpha1.BareMetalErasure) bool { return host != "" && r.Spec.HostName != host })
	if len(records) == 0 {
		return fmt.Errorf("the namespace %q has no record of an erasure%s", namespace, ofHost(host))
	}
	erasure.SortNewestFirst(records)
	slices.SortStableFunc(records, func(a, b v1alpha1.BareMetalErasure) int { return strings.Compare(a.Spec.HostName, b.Spec.HostName) })
	document := erasure.Export(records)
	if e.output == "json" {
		content, err := document.Encode()
		if err != nil {
			return err
		}
		_, err = e.console.out.Write(content)
		return err
	}
	for i := range document.Certificates {
		if i > 0 {
			writef(e.console.out, "\n")
		}
		certificate.Print(e.console.out, &document.Certificates[i])
	}
	return nil
}

func ofHost(host string) string {
	if host == "" {
		return ""
	}
	return fmt.Sprintf(" of the host %q", host)
}

// verify checks a file of certificates, and prints a line for each.
func (e *erasureExport) verify(file string) error {
	keys, err := readKeys(e.key)
	if err != nil {
		return err
	}
	content, err := e.readFile(file)
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
			writef(e.console.out, "INVALID  certificate %d (%s): %s\n", i+1, clean(what), clean(err.Error()))
			continue
		}
		writef(e.console.out, "valid    certificate %d (%s): %s of %d disks, %d left out, erased %s\n", i+1, clean(what), clean(string(spec.Report.Policy)),
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
func (e *erasureExport) readFile(name string) ([]byte, error) {
	in := e.console.in
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
