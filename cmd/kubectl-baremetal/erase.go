package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/eraserequest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/fleet"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/plan"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// eraseRun is a run of the command erase.
type eraseRun struct {
	*tool

	output                 outputFlag
	policy, serial, reason string
	dryRun, consentName    string
	expiresIn              time.Duration
}

func (t *tool) eraseCommand() *cobra.Command {
	e := &eraseRun{tool: t}
	cmd := &cobra.Command{
		Use:   "erase HOST --policy POLICY",
		Short: "Request the erasure of all disks of a free server",
		Long: `Request the erasure of all disks of a server that no machine has, except those in spec.storage.keep of its host. The request is a BareMetalErasureRequest, which fits only this host
as it is now: its UID, its boot count and the serial number of its server.

The erasure begins when the server is off, or never after the request expired. Its record is a BareMetalErasure, which kubectl baremetal erasures prints. The disks of a machine are
erased by the release of its host: delete the Machine instead.

You have to type the name of the host, or without a terminal to use --yes-erase.`,
		Example: `  kubectl baremetal erase server-1 --policy Clear --reason "bought used"
  kubectl baremetal erase server-1 --policy Purge --serial-number SN1 --expires-in 24h --reason "leaves the site"`,
		ValidArgsFunction: t.completeHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.validate(args); err != nil {
				return err
			}
			return e.run(cmd.Context(), args[0])
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&e.policy, "policy", "", "How thoroughly: Metadata, Clear or Purge (kubectl explain baremetalhost.spec.cleaningPolicy describes them).")
	flags.StringVar(&e.serial, "serial-number", "", "Serial number of the server, to be compared with the one that the host shows. Defaults to that one.")
	flags.DurationVar(&e.expiresIn, "expires-in", time.Hour, "`Time` after which the erasure does not begin any more, at most 168h. It must be over before a backup of now may be restored.")
	flags.StringVar(&e.reason, "reason", "", "Why, as a `text` for other users. At a terminal, the command asks for it.")
	flags.StringVar(&e.dryRun, "dry-run", dryRunNone, "none, client (print the request) or server (the API server validates it, too). Nothing is created.")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	flags.StringVar(&e.consentName, "yes-erase", "", "The `name` of the host, as the consent without a terminal.")
	e.output.add(cmd, formatTable, formatJSON, formatYAML, formatName)
	complete(cmd, "policy", eraserequest.Policies...)
	complete(cmd, "dry-run", dryRunNone, dryRunClient, dryRunServer)
	return cmd
}

func (e *eraseRun) validate(args []string) error {
	switch {
	case len(args) != 1:
		return usageErrorf("it takes one host, but got %d: write kubectl baremetal erase server-1 --policy Clear", len(args))
	case !slices.Contains(eraserequest.Policies, e.policy):
		return usageErrorf("--policy: %q is unknown: use Metadata, Clear or Purge", e.policy)
	case e.expiresIn <= 0 || e.expiresIn > erasure.MaxRequestLife:
		return usageErrorf("--expires-in must be between 1s and %s", erasure.MaxRequestLife)
	case !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, e.dryRun):
		return usageErrorf("--dry-run: %q is unknown: use none, client or server", e.dryRun)
	}
	return e.output.validate()
}

func (e *eraseRun) run(ctx context.Context, name string) error {
	cluster, err := e.connect()
	if err != nil {
		return err
	}
	host, key := &v1alpha1.BareMetalHost{}, client.ObjectKey{Namespace: cluster.Namespace, Name: name}
	if err := access.Get(ctx, cluster.Client, key, host); err != nil {
		return unanswered(fleet.HostError(err, key))
	}
	asks := &change{tool: e.tool, cluster: cluster, reason: e.reason, dryRun: e.dryRun}
	if err := asks.identify(ctx); err != nil {
		return err
	}
	expires := asks.requester.Now.Add(e.expiresIn)
	request, err := eraserequest.New(ctx, cluster.Client, host, eraserequest.Wish{Policy: wire.ErasePolicy(e.policy), SerialNumber: e.serial, ExpireTime: expires})
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&request.ObjectMeta, v1alpha1.RequestedByAnnotation, asks.requester.Text())
	e.describe(host, request)
	if e.dryRun == dryRunNone {
		if err := e.askConsent(ctx, name, e.consentName == name, "--yes-erase "+name); err != nil {
			return err
		}
	}
	return e.create(ctx, cluster, host, request, asks.requester)
}

// describe prints what the request does.
func (e *eraseRun) describe(host *v1alpha1.BareMetalHost, request *v1alpha1.BareMetalErasureRequest) {
	spec := &request.Spec
	view.Printf(e.streams.ErrOut, "%s/%s, serial number %s:\n", terminal.Line(host.Namespace), terminal.Line(host.Name), terminal.Line(spec.SerialNumber))
	does := []string{
		fmt.Sprintf("ALL DATA of its disks is erased (%s), except disks in spec.storage.keep", spec.Policy),
		"The erasure begins when the server is off, and until " + view.Clock(spec.ExpireTime.Time, e.now()) + " or never. Until it is over, machines cannot claim the host",
	}
	if host.Status.Power != v1alpha1.PowerOff {
		does = append(does, "The server is "+orUnknown(string(host.Status.Power))+": kubectl baremetal power off "+host.Name+" powers it off")
	}
	for _, sentence := range does {
		view.Printf(e.streams.ErrOut, "  - %s.\n", sentence)
	}
}

// create creates the request, and prints it.
func (e *eraseRun) create(ctx context.Context, cluster *access.Cluster, host *v1alpha1.BareMetalHost, request *v1alpha1.BareMetalErasureRequest, r plan.Requester) error {
	options := []client.CreateOption{client.FieldOwner(access.Owner)}
	suffix := ""
	switch e.dryRun {
	case dryRunClient:
		suffix = " (dry run)"
	case dryRunServer:
		options, suffix = append(options, client.DryRunAll), " (server dry run)"
	}
	if e.dryRun == dryRunNone {
		if err := recordRequest(ctx, cluster.Client, host, "ErasureRequested", "Erase", r); err != nil {
			return err
		}
	}
	if e.dryRun != dryRunClient {
		if err := cluster.Client.Create(ctx, request, options...); err != nil {
			return err
		}
	}
	switch format := e.output.format; format {
	case formatJSON, formatYAML:
		return e.printObject(format, request)
	case formatName:
		e.printName(why.KindErasureRequest, request)
	default:
		name := request.Name
		if name == "" {
			name = request.GenerateName + "..."
		}
		view.Printf(e.out(), "%s created%s\n", resourceName(why.KindErasureRequest, name), suffix)
	}
	if e.dryRun == dryRunNone {
		view.Printf(e.streams.ErrOut, "kubectl baremetal why baremetalerasurerequest/%s follows it, and kubectl baremetal erasures %s prints its record\n",
			terminal.Line(request.Name), terminal.Line(host.Name))
	}
	return nil
}
