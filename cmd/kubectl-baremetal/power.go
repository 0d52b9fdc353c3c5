package main

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/plan"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// powerWait is how long the commands wait by default: an operating system that ignores the shutdown is powered off after 2 minutes, and a self-test takes minutes.
const powerWait = 5 * time.Minute

const aboutPower = `Power a server on, off, or off and on again, and see its power.

The server of a machine goes off by a power hold of yours, an annotation of the host, and stays off until you run power on. Power holds of others are not touched. While
a power hold exists, health checks of Cluster API ignore the machine. While the server is on, power on withdraws your power cycle. The power of a free server is spec.power of
the host. The annotation, or the event of the host, says who asked for it and why.

To stop a machine you have to type the name of its host, or without a terminal to use --yes-its-claimed. To stop the machines of a selection of hosts you have to type the number of
hosts, or to use --hosts.`

func (t *tool) powerCommand() *cobra.Command {
	power := parent(&cobra.Command{
		Use: "power", Short: "Power a server on or off, or see its power", Long: aboutPower,
		Example: `  kubectl baremetal power status server-1
  kubectl baremetal power off server-1 --reason "new DIMM"
  kubectl baremetal power on server-1 --reason "new DIMM is in"
  kubectl baremetal power cycle server-1 --reason "does not answer"`,
	}, "kubectl baremetal power off server-1")
	force := false
	off := &change{tool: t, action: "Power"}
	off.plan = func(h *v1alpha1.BareMetalHost, r plan.Requester) (plan.Plan, error) {
		return plan.PowerOff(force, false)(h, r)
	}
	offCommand := off.command("off HOST...", "Power servers off, and keep them off", "Power servers off: those of machines by a power hold, free ones by spec.power.",
		`  kubectl baremetal power off server-1 --reason "new DIMM"`)
	offCommand.Flags().BoolVar(&force, "force", false, "Power the server of a machine off at once, without a shutdown of its operating system.")
	on := &change{tool: t, action: "Power", plan: plan.PowerOn}
	onCommand := on.command("on HOST...", "Power servers on", "Power servers on: those of machines by the removal of your power hold, or after a person switched them off; free ones by spec.power.",
		`  kubectl baremetal power on server-1 --reason "new DIMM is in"`)
	cycle := &change{tool: t, action: "Power", plan: plan.PowerCycle}
	cycleCommand := cycle.command("cycle HOST...", "Power the servers of machines off and on again, once", "Power the servers of machines off and on again, once. Free servers have no power cycle.",
		`  kubectl baremetal power cycle server-1 --reason "does not answer"`)
	for _, one := range []struct {
		change  *change
		command *cobra.Command
	}{{on, onCommand}, {off, offCommand}, {cycle, cycleCommand}} {
		one.change.addFlags(one.command)
		one.change.addWaitFlag(one.command, powerWait)
		power.AddCommand(one.command)
	}
	off.addClaimedFlag(offCommand)
	cycle.addClaimedFlag(cycleCommand)
	power.AddCommand(t.powerStatusCommand())
	return power
}

// powerStatus is a run of power status.
type powerStatus struct {
	*tool

	output   outputFlag
	selector string
}

func (t *tool) powerStatusCommand() *cobra.Command {
	p := &powerStatus{tool: t}
	cmd := &cobra.Command{
		Use: "status [HOST...]", Short: "Show the power of servers, and what keeps them off",
		Long:              "Show the power that the BMC reported last, what the user wants of a free server, the power holds, the requests that were not carried out yet, and the last operation of the BMC. It changes nothing.",
		Example:           "  kubectl baremetal power status server-1",
		ValidArgsFunction: t.completeHosts,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.output.validate(); err != nil {
				return err
			}
			return unanswered(p.run(cmd.Context(), args))
		},
	}
	cmd.Flags().StringVarP(&p.selector, "selector", "l", "", "Label `selector` of the hosts.")
	p.output.add(cmd, formatTable, formatWide, formatJSON, formatYAML, formatName)
	return cmd
}

// powerRow is the power of a server, as -o json prints it.
type powerRow struct {
	Namespace     string               `json:"namespace"`
	Name          string               `json:"name"`
	Power         string               `json:"power,omitempty"`
	Wanted        string               `json:"specPower,omitempty"` // spec.power
	Phase         string               `json:"phase,omitempty"`
	Holds         []v1alpha1.PowerHold `json:"powerHolds,omitempty"`
	Requests      []plan.Request       `json:"powerRequests,omitempty"` // that were not carried out yet
	OffSince      *time.Time           `json:"offSince,omitempty"`
	LastOperation *v1alpha1.Operation  `json:"lastOperation,omitempty"`
	BMCReady      string               `json:"bmcReady,omitempty"` // the reason of the condition BMCReady
}

func (p *powerStatus) run(ctx context.Context, names []string) error {
	selector, err := labels.Parse(p.selector)
	if err != nil {
		return usageErrorf("--selector: %v", err)
	}
	if len(names) > 0 && !selector.Empty() {
		return usageErrorf("names of hosts cannot be mixed with --selector")
	}
	cluster, err := p.connect()
	if err != nil {
		return err
	}
	reads := &change{tool: p.tool, cluster: cluster, selector: p.selector}
	hosts, err := reads.read(ctx, names)
	if err != nil {
		return err
	}
	rows := make([]powerRow, 0, len(hosts))
	for i := range hosts {
		rows = append(rows, powerOf(&hosts[i]))
	}
	switch p.output.format {
	case formatJSON, formatYAML:
		return p.printDocument(p.output.format, rows)
	case formatName:
		for _, row := range rows {
			view.Printf(p.out(), "%s\n", resourceName(why.KindHost, row.Name))
		}
		return nil
	default:
		return p.table(rows).Write(p.out(), p.style())
	}
}

// powerOf says what is known of the power of a host's server.
func powerOf(h *v1alpha1.BareMetalHost) powerRow {
	row := powerRow{
		Namespace: h.Namespace, Name: h.Name, Power: string(h.Status.Power), Wanted: string(h.Spec.Power), Phase: string(h.Status.Phase), Holds: plan.Holds(h),
		Requests: plan.Requests(h), LastOperation: h.Status.LastOperation,
	}
	for _, at := range []*metav1.Time{h.Spec.ProviderState.PowerHoldOffTime, h.Status.PoweredOffTime} {
		if at != nil {
			since := at.UTC()
			row.OffSince = &since
			break
		}
	}
	for _, c := range h.Status.Conditions {
		if c.Type == v1alpha1.BMCReadyCondition {
			row.BMCReady = c.Reason
		}
	}
	return row
}

func (p *powerStatus) table(rows []powerRow) *view.Table {
	table := &view.Table{Header: []string{"NAME", "POWER", "OFF SINCE", "SPEC", "PHASE", "BMC", "LAST OPERATION", "POWER HOLDS AND REQUESTS"}}
	now := p.now()
	for _, row := range rows {
		since, operation := "", ""
		if row.OffSince != nil {
			since = view.Age(*row.OffSince, now)
		}
		if op := row.LastOperation; op != nil {
			operation = op.Name + " " + cmp.Or(string(op.Outcome), "in progress") + ", " + view.Age(op.StartTime.Time, now) + " ago"
		}
		holds := make([]string, 0, len(row.Holds)+len(row.Requests))
		for _, hold := range row.Holds {
			holds = append(holds, strings.TrimPrefix(hold.Reason, hold.Holder+": ")+" ("+hold.Holder+")")
		}
		for _, request := range row.Requests {
			holds = append(holds, request.Action+" requested: "+request.Reason)
		}
		table.Add(view.Text(row.Name), view.Text(cmp.Or(row.Power, "unknown")), view.Text(since), view.Text(row.Wanted), view.Text(row.Phase), view.Text(row.BMCReady),
			view.Text(operation), view.Text(strings.Join(holds, "; ")))
	}
	return table
}
