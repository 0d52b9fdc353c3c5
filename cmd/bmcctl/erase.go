package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/eraserequest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

const aboutErase = `bmcctl erase HOST requests the erasure of all disks of a server that no machine has, except those in spec.storage.keep of its host. It creates a
BareMetalErasureRequest, which fits only this host as it is now: its UID, its boot count and the serial number of its server.
The erasure begins when the server is off. Its record is a BareMetalErasure, which bmcctl erasures HOST prints.

  bmcctl erase server-1 --policy Clear
  bmcctl erase server-1 --policy Purge --serial-number SN1 --expires-in 24h
  kubectl get baremetalerasurerequests --watch
`

// eraseRequest is a run of bmcctl erase.
type eraseRequest struct {
	kubeconfig, context, namespace, policy, serialNumber string
	expiresIn                                            time.Duration
	dryRun                                               bool
	console                                              console
}

func (e *eraseRequest) flags(set *pflag.FlagSet) {
	set.StringVar(&e.policy, "policy", "", "How thoroughly: Metadata, Clear or Purge (kubectl explain baremetalhost.spec.cleaningPolicy describes them).")
	set.StringVar(&e.serialNumber, "serial-number", "", "Serial number of the server, to be compared with the one that the host shows. Defaults to that one.")
	set.DurationVar(&e.expiresIn, "expires-in", time.Hour, "`Time` after which the erasure does not begin any more, at most 168h. It must be over before a backup of now may be restored.")
	set.BoolVar(&e.dryRun, "dry-run", false, "Print the request as YAML, and create nothing.")
	set.StringVarP(&e.namespace, "namespace", "n", "", "Namespace of the host. Defaults to that of the kubeconfig's context.")
	set.StringVar(&e.kubeconfig, "kubeconfig", "", "Kubeconfig `file`. Defaults to KUBECONFIG in the environment, and then to ~/.kube/config.")
	set.StringVar(&e.context, "context", "", "Context of the kubeconfig. Defaults to its current context.")
}

func erase(ctx context.Context, args []string, c console) error {
	e := &eraseRequest{console: c}
	set := pflag.NewFlagSet("erase", pflag.ContinueOnError)
	set.SortFlags = false
	set.Usage = func() {}
	e.flags(set)
	err := set.Parse(args)
	switch {
	case errors.Is(err, pflag.ErrHelp):
		writef(c.out, "%s\n%s", aboutErase, set.FlagUsagesWrapped(120))
		return err
	case err != nil:
		return usageErrorf("%v", err)
	case set.NArg() != 1:
		return usageErrorf("bmcctl erase takes one host, but got %d: write bmcctl erase server-1 --policy Clear", set.NArg())
	case !slices.Contains(eraserequest.Policies, e.policy):
		return usageErrorf("--policy: %q is unknown: use Metadata, Clear or Purge", e.policy)
	case e.expiresIn <= 0 || e.expiresIn > erasure.MaxRequestLife:
		return usageErrorf("--expires-in must be between 1s and %s", erasure.MaxRequestLife)
	}
	k, namespace, err := connectTo(e.kubeconfig, e.context, e.namespace)
	if err != nil {
		return err
	}
	return e.create(ctx, k, client.ObjectKey{Namespace: namespace, Name: set.Arg(0)})
}

// create creates the request for a host.
func (e *eraseRequest) create(ctx context.Context, k client.Client, key client.ObjectKey) error {
	host := &v1alpha1.BareMetalHost{}
	switch err := k.Get(ctx, key, host); {
	case meta.IsNoMatchError(err):
		return errors.New("the cluster has no BareMetalHosts: is it the management cluster, with this release of the provider?")
	case err != nil:
		return err
	}
	wish := eraserequest.Wish{Policy: wire.ErasePolicy(e.policy), SerialNumber: e.serialNumber, ExpireTime: time.Now().Add(e.expiresIn)}
	request, err := eraserequest.New(ctx, k, host, wish)
	if err != nil {
		return err
	}
	if e.dryRun {
		request.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("BareMetalErasureRequest"))
		content, err := yaml.Marshal(request)
		if err == nil {
			_, err = e.console.out.Write(content)
		}
		return err
	}
	if err := k.Create(ctx, request); err != nil {
		return err
	}
	writef(e.console.out, "BareMetalErasureRequest %s: all disks of %s (serial number %s) will be erased (%s). It expires at %s.\n",
		request.Name, host.Name, clean(request.Spec.SerialNumber), e.policy, request.Spec.ExpireTime.Format(time.RFC3339))
	return nil
}
