package main

import (
	"context"
	"errors"
	"io/fs"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/registration"
)

const aboutInventory = `bmcctl inventory FILE registers the servers in a CSV file: a BareMetalHost for each, and a Secret with the credentials of its BMC.
It applies all lines. If a line is invalid, it reports every invalid line and applies nothing. Run it again when the file changes.
FILE may be - for the standard input. The guide "Register servers" describes the columns.

  bmcctl inventory rack.csv --dry-run
  bmcctl inventory rack.csv --namespace rack1
  bmcctl inventory rack.csv -o yaml          # print the objects, without the Secrets, and contact no cluster

`

// The limits for requests to the API server: requests per second, and the timeout of each.
const (
	inventoryQPS   = 100
	requestTimeout = 30 * time.Second
)

// registerRun is a run of bmcctl inventory.
type registerRun struct {
	kubeconfig, context, namespace, output string
	dryRun, withPasswords                  bool
	forceConflicts, replaceBMC             bool
}

func (r *registerRun) flags(set *pflag.FlagSet) {
	set.StringVarP(&r.namespace, "namespace", "n", "", "Namespace of the hosts. Defaults to that of the kubeconfig's context.")
	set.BoolVar(&r.dryRun, "dry-run", false, "Let the API server validate everything, and print what would change. Nothing is changed.")
	set.StringVarP(&r.output, "output", "o", "", "Output `format`. yaml prints the objects and contacts no cluster; by default they are applied.")
	set.BoolVar(&r.withPasswords, "with-passwords", false, "With --output yaml: also print the Secrets.")
	set.BoolVar(&r.replaceBMC, "replace-bmc", false, "Change the BMC address of existing hosts to that of the file. Without this flag, such a line is refused: "+
		"it may be another server with the same name.")
	set.BoolVar(&r.forceConflicts, "force-conflicts", false, "Overwrite fields that another client, such as kubectl or GitOps, has set to other values.")
	set.StringVar(&r.kubeconfig, "kubeconfig", "", "Kubeconfig `file`. Defaults to KUBECONFIG in the environment, and then to ~/.kube/config.")
	set.StringVar(&r.context, "context", "", "Context of the kubeconfig. Defaults to its current context.")
}

func inventory(ctx context.Context, args []string, c console) error {
	r := &registerRun{}
	set := pflag.NewFlagSet("inventory", pflag.ContinueOnError)
	set.SortFlags = false
	set.Usage = func() {}
	r.flags(set)
	switch err := set.Parse(args); {
	case errors.Is(err, pflag.ErrHelp):
		writef(c.out, "%s%s", aboutInventory, set.FlagUsagesWrapped(120))
		return err
	case err != nil:
		return usageErrorf("%v", err)
	case set.NArg() != 1:
		return usageErrorf("bmcctl inventory takes one file, but got %d: write bmcctl inventory rack.csv", set.NArg())
	case r.output != "" && r.output != "yaml":
		return usageErrorf("--output: %q is unknown: use yaml", r.output)
	case r.withPasswords && r.output == "":
		return usageErrorf("--with-passwords needs --output yaml")
	case r.output != "" && r.dryRun:
		return usageErrorf("--output yaml contacts no cluster, and --dry-run does: use only one of them")
	}
	return r.run(ctx, set.Arg(0), c)
}

func (r *registerRun) run(ctx context.Context, file string, c console) error {
	do := &registration.Registration{
		Program: "bmcctl", Namespace: r.namespace, DryRun: r.dryRun, ForceConflicts: r.forceConflicts, ReplaceBMC: r.replaceBMC, Out: c.out, Err: c.err,
	}
	if r.output == "" {
		var err error
		if do.Client, do.Namespace, err = connectTo(r.kubeconfig, r.context, r.namespace); err != nil {
			return err
		}
	}
	err := do.Read(file, c.in)
	var path *fs.PathError
	switch {
	case errors.As(err, &path):
		return usageErrorf("%v", err)
	case err != nil:
		return err
	case r.output == "yaml":
		err = do.Print(r.withPasswords)
	default:
		err = do.Run(ctx)
	}
	if errors.Is(err, registration.ErrReported) {
		return errReported
	}
	return err
}

// connectTo reads the kubeconfig, and returns its client and the namespace: the given one, or otherwise that of the context. No request is made.
func connectTo(kubeconfig, contextName, namespace string) (client.Client, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: contextName})
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", usageErrorf("the kubeconfig: %v: use --kubeconfig FILE, or set KUBECONFIG", err)
	}
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, "", usageErrorf("the kubeconfig: %v: use --namespace", err)
		}
	}
	c, err := newClient(config)
	return c, namespace, err
}

func newClient(config *rest.Config) (client.Client, error) {
	config.Timeout, config.QPS, config.Burst = requestTimeout, inventoryQPS, 2*inventoryQPS
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}
