package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/chain"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// whyRun is a run of the command why.
type whyRun struct {
	*tool

	output  outputFlag
	subject chain.Subject
}

func (t *tool) whyCommand() *cobra.Command {
	w := &whyRun{tool: t}
	cmd := &cobra.Command{
		Use:   "why [KIND/]NAME",
		Short: "Explain what an object waits for, and what to do",
		Long: `Explain an object: what is wanted, what it waits for and since when, how long that takes usually, what was last seen of the server, the likeliest cause, and one next command.

NAME is a host, a Machine, a Cluster, a MachineDeployment or a control plane. KIND is needed only for other kinds, or if two have the name:
host, boot, machine, baremetalmachine, cluster, baremetalcluster, machinedeployment, machineset, kubeadmcontrolplane, baremetalconfig, baremetalremediation,
baremetalerasurerequest, baremetalmachinetemplate, baremetalprofile or baremetalsettings. For a Cluster and for owners of machines, it explains the machine that needs attention most.

The exit code is 0 if the object is as wanted or waits no longer than usual, 1 if a person has to act, and 2 if the question has no answer.`,
		Example: `  kubectl baremetal why server-1
  kubectl baremetal why cluster/prod
  kubectl baremetal why machine prod-workers-x7k2p -o yaml`,
		ValidArgsFunction: t.completeSubject,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := w.validate(args); err != nil {
				return err
			}
			return unanswered(w.run(cmd.Context()))
		},
	}
	w.output.add(cmd, formatTable, formatWide, formatJSON, formatYAML, formatName)
	return cmd
}

func (w *whyRun) validate(args []string) (err error) {
	if err := w.output.validate(); err != nil {
		return err
	}
	if w.subject, err = chain.ParseSubject(args); err != nil {
		return usageErrorf("%v", err)
	}
	return nil
}

func (w *whyRun) run(ctx context.Context) error {
	cluster, err := w.connect()
	if err != nil {
		return err
	}
	now := w.now()
	reader := &chain.Reader{Client: cluster.Client, Namespace: cluster.Namespace, Now: now}
	answer, err := reader.Explain(ctx, w.subject)
	if err != nil {
		return err
	}
	e := view.Explanation{Explanation: &answer.Explanation, Machines: answer.Machines, Unready: answer.Unready}
	switch w.output.format {
	case formatName:
		view.Printf(w.out(), "%s\n", resourceName(answer.At.Kind, answer.At.Name))
	case formatJSON, formatYAML:
		if err := w.printDocument(w.output.format, e.Document(now)); err != nil {
			return err
		}
	default:
		e.Write(w.out(), w.style(), now)
	}
	switch {
	case answer.State == why.Unknown:
		return &exitError{code: exitUnanswered}
	case answer.NeedsAction(now):
		return &exitError{code: exitFault}
	default:
		return nil
	}
}
