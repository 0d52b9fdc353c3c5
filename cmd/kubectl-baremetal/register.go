package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/registration"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
)

// registerRun is a run of the command register.
type registerRun struct {
	*tool

	output                                outputFlag
	dryRun, reason                        string
	yes, withPasswords, force, replaceBMC bool
}

func (t *tool) registerCommand() *cobra.Command {
	r := &registerRun{tool: t}
	cmd := &cobra.Command{
		Use:   "register FILE",
		Short: "Register the servers in a CSV file",
		Long: `Register the servers in a CSV file: a BareMetalHost for each, and a Secret with the credentials of its BMC. FILE may be - for the standard input. The guide "Register servers"
describes the columns.

All lines are applied or none. If a line is invalid, every invalid line is reported. Run it again when the file changes. -o yaml prints the objects, without the Secrets, and
contacts no cluster. Who registers the servers, and why, is recorded in an annotation of each host that is created or changed, and in its events.`,
		Example: `  kubectl baremetal register rack.csv --dry-run
  kubectl baremetal register rack.csv -n rack1 --reason "new rack"
  kubectl baremetal register rack.csv -o yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := r.validate(args); err != nil {
				return err
			}
			return r.run(cmd.Context(), args[0])
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&r.reason, "reason", "", "Why, as a `text` for other users. At a terminal, the command asks for it.")
	flags.StringVar(&r.dryRun, "dry-run", dryRunNone, "none, client (print the objects, contact no cluster) or server (the API server validates everything). Nothing is changed.")
	flags.Lookup("dry-run").NoOptDefVal = dryRunServer
	flags.BoolVarP(&r.yes, "yes", "y", false, "Do not ask for consent.")
	flags.BoolVar(&r.replaceBMC, "replace-bmc", false, "Change the BMC address of existing hosts to that of the file. Without this flag, such a line is refused: it may be another server with the same name.")
	flags.BoolVar(&r.force, "force-conflicts", false, "Overwrite fields that another client, such as kubectl or GitOps, has set to other values.")
	flags.BoolVar(&r.withPasswords, "with-passwords", false, "With -o yaml: also print the Secrets.")
	r.output.add(cmd, formatTable, formatYAML)
	complete(cmd, "dry-run", dryRunNone, dryRunClient, dryRunServer)
	return cmd
}

func (r *registerRun) validate(args []string) error {
	switch {
	case len(args) != 1:
		return usageErrorf("it takes one file, but got %d: write kubectl baremetal register rack.csv", len(args))
	case !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, r.dryRun):
		return usageErrorf("--dry-run: %q is unknown: use none, client or server", r.dryRun)
	case r.withPasswords && r.output.format != formatYAML:
		return usageErrorf("--with-passwords needs -o yaml")
	case r.output.format == formatYAML && r.dryRun == dryRunServer:
		return usageErrorf("-o yaml contacts no cluster, and --dry-run=server does: use only one of them")
	case args[0] == "-" && r.applies() && (!r.yes || r.reason == ""):
		return usageErrorf("the file is the standard input, so nobody can answer a question: use --yes and --reason")
	}
	return r.output.validate()
}

// applies is true if the registration changes something.
func (r *registerRun) applies() bool { return r.dryRun == dryRunNone && r.output.format != formatYAML }

func (r *registerRun) run(ctx context.Context, file string) (err error) {
	do := &registration.Registration{
		Program: "kubectl baremetal register", DryRun: r.dryRun == dryRunServer, ForceConflicts: r.force, ReplaceBMC: r.replaceBMC, Out: r.out(), Err: r.streams.ErrOut,
	}
	offline := r.output.format == formatYAML || r.dryRun == dryRunClient
	var cluster *access.Cluster
	if offline {
		do.Namespace = *r.flags.Namespace
	} else {
		if cluster, err = r.connect(); err != nil {
			return err
		}
		do.Client, do.Namespace = cluster.Client, cluster.Namespace
		if r.applies() {
			do.Consent = func() error { return r.askConsent(ctx, "", r.yes, "--yes") }
		}
	}
	if err := do.Read(file, r.streams.In); err != nil {
		return unanswered(err)
	}
	if r.applies() {
		if err := r.identify(ctx, cluster, do); err != nil {
			return err
		}
	}
	if offline {
		err = do.Print(r.withPasswords)
	} else {
		err = do.Run(ctx)
	}
	if errors.Is(err, registration.ErrReported) {
		return &exitError{code: exitFault}
	}
	return err
}

// identify has who registers the servers, and why, recorded before anything is applied.
func (r *registerRun) identify(ctx context.Context, cluster *access.Cluster, do *registration.Registration) error {
	asks := &change{tool: r.tool, cluster: cluster, reason: r.reason, dryRun: r.dryRun}
	if err := asks.identify(ctx); err != nil {
		return err
	}
	do.RequestedBy = asks.requester.Text()
	do.Record = func(ctx context.Context, host *v1alpha1.BareMetalHost) error {
		return recordRequest(ctx, cluster.Client, host, "RegistrationRequested", "Register", asks.requester)
	}
	return nil
}
