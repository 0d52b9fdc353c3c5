package main

import (
	"context"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/fleet"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// status is a run of the command status.
type status struct {
	*tool

	output                outputFlag
	all, hosts, following bool
	selector, by          string
	hostNames             []string
	options               []client.ListOption
}

func (t *tool) statusCommand() *cobra.Command {
	s := &status{tool: t}
	cmd := &cobra.Command{
		Use:   "status [HOST...]",
		Short: "Show how the hosts are, what needs attention first",
		Long: `Show how many hosts are in use, available and unhealthy, and which hosts, and which machines without a host, are not as wanted or not healthy.

A host needs action if it has a fault, or if it waits more than twice as long as usual. The summary is by failure domain; --by cluster, phase or health groups otherwise.
--hosts, -o wide and names of hosts print one line for each host. The exit code is 2 if the hosts cannot be read.`,
		Example: `  kubectl baremetal status
  kubectl baremetal status -A --by cluster
  kubectl baremetal status -l rack=r7 --hosts
  kubectl baremetal status server-1 server-2 -o wide
  kubectl baremetal status --watch`,
		ValidArgsFunction: t.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := s.validate(args); err != nil {
				return err
			}
			return unanswered(s.run(cmd.Context()))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.BoolVarP(&s.all, "all-namespaces", "A", false, "Show the hosts of all namespaces.")
	flags.StringVarP(&s.selector, "selector", "l", "", "Label `selector` of the hosts.")
	flags.StringVar(&s.by, "by", "domain", "Group the hosts by `key`: domain, cluster, phase or health.")
	flags.BoolVar(&s.hosts, "hosts", false, "Print one line for each host instead of the summary.")
	flags.BoolVarP(&s.following, "watch", "w", false, "Redraw after each change, at most four times a second. Without a terminal: print a line for each host that changed.")
	s.output.add(cmd, formatTable, formatWide, formatJSON, formatYAML, formatName)
	complete(cmd, "by", fleet.Keys()...)
	return cmd
}

func (s *status) validate(args []string) error {
	s.hostNames = args
	if err := s.output.validate(); err != nil {
		return err
	}
	if _, err := fleet.Groups(nil, s.by); err != nil {
		return usageErrorf("--by: %v", err)
	}
	selector, err := labels.Parse(s.selector)
	switch {
	case err != nil:
		return usageErrorf("--selector: %v", err)
	case len(args) > 0 && (s.all || s.selector != ""):
		return usageErrorf("names of hosts cannot be mixed with --all-namespaces or --selector")
	case s.following && (len(args) > 0 || s.output.format != formatTable && s.output.format != formatWide):
		return usageErrorf("--watch shows a table of all hosts: use it without names and without -o %s", s.output.format)
	case !selector.Empty():
		s.options = append(s.options, client.MatchingLabelsSelector{Selector: selector})
	}
	return nil
}

func (s *status) run(ctx context.Context) error {
	cluster, err := s.connect()
	if err != nil {
		return err
	}
	namespace := cluster.Namespace
	if s.all {
		namespace = ""
	}
	if s.following {
		return s.follow(ctx, cluster, namespace)
	}
	objects, err := s.read(ctx, cluster, namespace)
	if err != nil {
		return err
	}
	return s.print(s.document(objects, namespace))
}

func (s *status) read(ctx context.Context, cluster *access.Cluster, namespace string) (*fleet.Objects, error) {
	if len(s.hostNames) > 0 {
		return fleet.ReadNamed(ctx, cluster.Client, namespace, s.hostNames)
	}
	objects, _, err := fleet.Read(ctx, cluster.Client, namespace, s.options...)
	return objects, err
}

// document judges the hosts. Machines without a host are shown if all hosts are.
func (s *status) document(objects *fleet.Objects, namespace string) *view.Status {
	now := s.now()
	rows := fleet.Rows(objects, now)
	if s.selector != "" || len(s.hostNames) > 0 {
		rows = fleet.OfHosts(rows)
	}
	d := &view.Status{Time: now, Namespace: namespace, Total: fleet.Total(rows), By: s.by, Rows: rows, Unread: view.Unread(objects.Unread)}
	d.Groups, _ = fleet.Groups(rows, s.by) // the key is valid
	return d
}

func (s *status) print(d *view.Status) error {
	switch format := s.output.format; {
	case format == formatName:
		for _, row := range d.Rows {
			if row.Kind == why.KindHost {
				view.Printf(s.out(), "%s\n", resourceName(row.Kind, row.Name))
			}
		}
		return nil
	case format == formatWide:
		return d.WriteRows(s.out(), s.style(), true)
	case format == formatTable && (s.hosts || len(s.hostNames) > 0):
		return d.WriteRows(s.out(), s.style(), false)
	case format == formatTable:
		return d.WriteSummary(s.out(), s.style())
	default:
		return s.printDocument(format, d)
	}
}
