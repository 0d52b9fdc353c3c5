// Command bootstrapproviders writes the golden Secrets of hack/seedcheck/testdata/providers: it runs the manager of a bootstrap provider against kube-apiserver
// and etcd, gives it the objects of objects/NAME.yaml, and keeps the Secret that the manager writes. hack/seedcheck/testdata/providers/README.md says how to
// run it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"
)

// provider is how a bootstrap provider's manager is run.
type provider struct {
	// title is the name and the version, for the first line of the golden Secrets.
	title string
	// manager is the path of the program. Empty: it is named with --manager.
	manager string
	// crds are folders with the provider's CRDs, and webhooks is the file with its webhooks. Empty: they are named with --crds and --webhooks.
	crds     []string
	webhooks string
	// core is the version of cluster.x-k8s.io that the manager reads.
	core string
	// args are its flags, and env its environment. CERTS is replaced by the folder with the serving certificate of its webhooks, whose port is 9443.
	args, env []string
}

var providers = map[string]provider{
	"kubeadm": {
		title: "CABPK v1.14.2", manager: ".cache/bin/capi-kubeadm-bootstrap", core: "v1beta2",
		crds:     []string{"capi:sigs.k8s.io/cluster-api/bootstrap/kubeadm/config/crd/bases"},
		webhooks: "capi:sigs.k8s.io/cluster-api/bootstrap/kubeadm/config/webhook/manifests.yaml",
		args:     []string{"--diagnostics-address=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--webhook-cert-dir=CERTS", "--feature-gates=KubeadmBootstrapFormatIgnition=true"},
	},
	"k3s": {
		title: "cluster-api-k3s v0.3.1", manager: ".cache/bin/k3s-bootstrap", core: "v1beta1",
		crds:     []string{"bootstrapproviders/k3s:github.com/k3s-io/cluster-api-k3s/bootstrap/config/crd/bases"},
		webhooks: "bootstrapproviders/k3s:github.com/k3s-io/cluster-api-k3s/bootstrap/config/webhook/manifests.yaml",
		args:     []string{"--metrics-addr=127.0.0.1:0"}, env: []string{"TMPDIR=CERTS"},
	},
	"talos": {
		title: "CABPT v0.6.12", manager: ".cache/bin/talos-bootstrap", core: "v1beta1",
		crds:     []string{"bootstrapproviders/talos:github.com/siderolabs/cluster-api-bootstrap-provider-talos/config/crd/bases"},
		webhooks: "bootstrapproviders/talos:github.com/siderolabs/cluster-api-bootstrap-provider-talos/config/webhook/manifests.yaml",
		args:     []string{"--diagnostics-address=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--webhook-cert-dir=CERTS"},
	},
	"rke2": {
		title: "CAPRKE2 v0.25.0", core: "v1beta2",
		args: []string{
			"--diagnostics-address=127.0.0.1:0", "--health-addr=127.0.0.1:0", "--webhook-cert-dir=CERTS", "--skip-crd-migration-phases=StorageVersionMigration,CleanupManagedFields",
		},
	},
	"kairos": {
		title: "cluster-api-provider-kairos v0.1.0-alpha.2", core: "v1beta2", env: []string{"TMPDIR=CERTS"},
		args: []string{"--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0"},
	},
	"k0smotron": {
		title: "k0smotron v2.1.0", core: "v1beta2", env: []string{"TMPDIR=CERTS"},
		args: []string{"--enable-controller=bootstrap", "--metrics-bind-address=0", "--health-probe-bind-address=127.0.0.1:0"},
	},
}

func main() {
	manager := flag.String("manager", "", "the program of the provider's manager")
	crds := flag.String("crds", "", "folders with the provider's CRDs, separated by commas")
	webhooks := flag.String("webhooks", "", "the file with the provider's webhooks")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: go run ./hack/bootstrapproviders [--manager FILE --crds FOLDERS --webhooks FILE] PROVIDER")
		flag.PrintDefaults()
	}
	flag.Parse()
	ctrl.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, flag.Arg(0), *manager, *crds, *webhooks)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bootstrapproviders:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, name, manager, crds, webhooks string) error {
	p, ok := providers[name]
	if !ok {
		return fmt.Errorf("unknown provider %q", name)
	}
	if manager != "" {
		p.manager = manager
	}
	if crds != "" {
		p.crds = strings.Split(crds, ",")
	}
	if webhooks != "" {
		p.webhooks = webhooks
	}
	if p.manager == "" || len(p.crds) == 0 || p.webhooks == "" {
		return errors.New("this provider's manager is not built here: name it, its CRDs and its webhooks with --manager, --crds and --webhooks")
	}
	return writeGoldens(ctx, name, p)
}
