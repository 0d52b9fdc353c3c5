package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/rackfile"
)

const aboutInventory = `bmcctl inventory FILE registers the servers in a CSV file: a BareMetalHost for each, and a Secret with the credentials of its BMC.
It applies all lines. If a line is invalid, it reports every invalid line and applies nothing. Run it again when the file changes.
FILE may be - for the standard input. The guide "Register servers" describes the columns.

  bmcctl inventory rack.csv --dry-run
  bmcctl inventory rack.csv --namespace rack1
  bmcctl inventory rack.csv -o yaml          # print the objects, without the Secrets, and contact no cluster

`

// The limits for requests to the API server: concurrent requests, requests per second, and the timeout of each.
const (
	inventoryWorkers = 8
	inventoryQPS     = 100
	requestTimeout   = 30 * time.Second
)

// registration is a run of bmcctl inventory.
type registration struct {
	kubeconfig, context, namespace, output, file string
	dryRun, withPasswords                        bool
	forceConflicts, replaceBMC                   bool
	console                                      console
	client                                       client.Client
	servers                                      []rackfile.Server
	problems                                     []rackfile.Problem
	// live are the existing hosts of the namespace, by name.
	live map[string]*v1alpha1.BareMetalHost
}

func (r *registration) flags(set *pflag.FlagSet) {
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
	r := &registration{console: c}
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
	r.file = set.Arg(0)
	if r.output == "yaml" {
		if err := r.read(); err != nil {
			return err
		}
		return r.print()
	}
	if err := r.connect(); err != nil {
		return err
	}
	if err := r.read(); err != nil {
		return err
	}
	return r.register(ctx)
}

func (r *registration) connect() (err error) {
	r.client, r.namespace, err = connectTo(r.kubeconfig, r.context, r.namespace)
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

// read reads the file.
func (r *registration) read() error {
	in := r.console.in
	if r.file == "-" {
		r.file = "standard input"
	} else {
		file, err := os.Open(r.file)
		if err != nil {
			return usageErrorf("%v", err)
		}
		defer file.Close() //nolint:errcheck // it is read only
		if info, err := file.Stat(); err == nil && info.Mode().Perm()&0o077 != 0 {
			writef(r.console.err, "bmcctl: other users of this machine may read %s: run chmod 600 if it contains passwords\n", clean(r.file))
		}
		in = file
	}
	var err error
	r.servers, r.problems, err = rackfile.Read(in, r.namespace)
	if err != nil {
		return fmt.Errorf("read %s: %w", r.file, err)
	}
	if len(r.servers)+len(r.problems) == 0 {
		return fmt.Errorf("%s contains no server: nothing was done", r.file)
	}
	return nil
}

// report prints the problems, line by line. It returns nil if there are none.
func (r *registration) report() error {
	if len(r.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(r.problems, func(a, b rackfile.Problem) int { return a.Line - b.Line })
	for _, p := range r.problems {
		writef(r.console.err, "%s: %s\n", clean(p.Position(r.file)), clean(p.Text))
	}
	writef(r.console.err, "bmcctl: nothing was applied: correct the problems above (%d), and run it again\n", len(r.problems))
	return errReported
}

// print prints the objects as YAML.
func (r *registration) print() error {
	if err := r.report(); err != nil {
		return err
	}
	left := 0
	for _, s := range r.servers {
		objects := s.Objects()
		if s.Secret != nil && !r.withPasswords {
			objects = objects[1:]
			left++
		}
		for _, o := range objects {
			u, err := applied(o)
			if err != nil {
				return err
			}
			content, err := yaml.Marshal(u.Object)
			if err != nil {
				return err
			}
			if _, err := io.WriteString(r.console.out, "---\n"+string(content)); err != nil {
				return err
			}
		}
	}
	if left > 0 {
		writef(r.console.err, "bmcctl: %d Secrets were omitted: --with-passwords prints them\n", left)
	}
	return nil
}

// applied returns the fields of an object that are applied: only those that are set, and no status.
func applied(o client.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return nil, err
	}
	delete(content, "status")
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	return u, nil
}
