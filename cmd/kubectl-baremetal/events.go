package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/timeline"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// eventsRun is a run of the command events.
type eventsRun struct {
	*tool

	output  outputFlag
	since   time.Duration
	sources []string
}

func (t *tool) eventsCommand() *cobra.Command {
	e := &eventsRun{tool: t}
	cmd := &cobra.Command{
		Use:   "events HOST",
		Short: "Show what happened to a server, in one time line",
		Long: `Show what happened to a server, in one time line with the newest last: Kubernetes events of the host and its machine, the stages of its boots, its inspection, erasures,
the last run that changed its firmware settings, the changes of its conditions, and the logs of its BMC. Events of kubectl-baremetal say who asked for something, and why.

Kubernetes deletes events after an hour by default. The other sources stay, and of the BMC's log the newest eight warnings and critical entries. kubectl baremetal inspect HOST --bmc
has the provider read the newest entries of any severity; you need no access to the BMC for that. Their times are those of the BMC's clock. A host that was deleted still has its
erasures.`,
		Example: `  kubectl baremetal events server-1
  kubectl baremetal events server-1 --since 2h --source event,boot -o wide
  kubectl baremetal events server-1 --source bmc`,
		ValidArgsFunction: t.completeHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.validate(args); err != nil {
				return err
			}
			return unanswered(e.run(cmd.Context(), args[0]))
		},
	}
	cmd.Flags().DurationVar(&e.since, "since", 0, "Show only what happened in this time, such as 2h. 0 shows all.")
	cmd.Flags().StringSliceVar(&e.sources, "source", nil, "Show only these `sources`: bmc, boot, condition, erasure, event, host, inspection, settings.")
	e.output.add(cmd, formatTable, formatWide, formatJSON, formatYAML, formatName)
	complete(cmd, "source", timeline.Sources()...)
	return cmd
}

func (e *eventsRun) validate(args []string) error {
	if len(args) != 1 {
		return usageErrorf("it takes one host, but got %d: write kubectl baremetal events server-1", len(args))
	}
	for _, source := range e.sources {
		if !slices.Contains(timeline.Sources(), source) {
			return usageErrorf("--source: %q is unknown: use some of %v", source, timeline.Sources())
		}
	}
	return e.output.validate()
}

func (e *eventsRun) run(ctx context.Context, name string) error {
	cluster, err := e.connect()
	if err != nil {
		return err
	}
	now := e.now()
	objects, err := timeline.Read(ctx, cluster.Client, client.ObjectKey{Namespace: cluster.Namespace, Name: name})
	if err != nil {
		return err
	}
	since := time.Time{}
	if e.since > 0 {
		since = now.Add(-e.since)
	}
	document := &view.Timeline{
		Namespace: cluster.Namespace, Name: name, Entries: timeline.Select(timeline.Entries(objects), since, e.sources), ClockWarning: timeline.ClockWarning(objects.Host),
		Unread: view.Unread(objects.Unread),
	}
	switch format := e.output.format; format {
	case formatJSON, formatYAML:
		return e.printDocument(format, document)
	case formatName:
		view.Printf(e.out(), "%s\n", resourceName(why.KindHost, name))
		return nil
	default:
		return document.Write(e.out(), e.style(), format == formatWide, now)
	}
}
