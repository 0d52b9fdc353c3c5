package main

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/plan"
)

// startAndEnd returns a command with the verbs start and end. endWait is how long the end waits until the provider controls the server again; 0 if that is no question.
func (t *tool) startAndEnd(cmd *cobra.Command, action string, start, end plan.Func, shortStart, shortEnd string, endWait time.Duration) *cobra.Command {
	for _, one := range []struct {
		verb, short string
		plan        plan.Func
		wait        time.Duration
	}{{"start", shortStart, start, 0}, {"end", shortEnd, end, endWait}} {
		c := &change{tool: t, action: action, plan: one.plan}
		verb := c.command(one.verb+" HOST...", one.short, one.short+".", "  kubectl baremetal "+cmd.Name()+" "+one.verb+` server-1 --reason "new fan"`)
		c.addFlags(verb)
		if one.wait > 0 {
			c.addWaitFlag(verb, one.wait)
		}
		cmd.AddCommand(verb)
	}
	return parent(cmd, "kubectl baremetal "+cmd.Name()+" start server-1")
}

func (t *tool) maintenanceCommand() *cobra.Command {
	return t.startAndEnd(&cobra.Command{
		Use: "maintenance", Short: "Take servers out of service while a person works on them",
		Long: `Set or remove spec.maintenance of hosts. While it is set, no machine can claim the host, and the provider sends no power or boot command. A machine that has the host keeps
running; kubectl baremetal drain moves its Pods first. The end waits until the provider controls the server again.`,
		Example: `  kubectl baremetal maintenance start server-1 --reason "new fan"
  kubectl baremetal maintenance end server-1 --reason "fan replaced"`,
	}, "Maintenance", plan.MaintenanceStart, plan.MaintenanceEnd, "Take servers out of service", "Put servers back into service", time.Minute)
}

func (t *tool) quarantineCommand() *cobra.Command {
	return t.startAndEnd(&cobra.Command{
		Use: "quarantine", Short: "Keep machines from claiming a server that failed, or permit it again",
		Long: `Set or remove spec.quarantine of hosts. The provider sets it after a failure, and only a person removes it. No machine can claim a host in quarantine; a machine that has
the host keeps it.`,
		Example: `  kubectl baremetal quarantine end server-1 --reason "disk replaced"
  kubectl baremetal quarantine start server-2 --reason "fails under load"`,
	}, "Quarantine", plan.QuarantineStart, plan.QuarantineEnd, "Keep machines from claiming servers", "Permit machines to claim servers again", 0)
}

func (t *tool) inspectCommand() *cobra.Command {
	byBMC := false
	c := &change{tool: t, action: "Inspect"}
	c.plan = func(h *v1alpha1.BareMetalHost, r plan.Requester) (plan.Plan, error) { return plan.Inspect(byBMC)(h, r) }
	cmd := c.command("inspect HOST...", "Have the hardware of servers read again",
		`Have the hardware of servers read again. A host whose spec.inspection is Agent or Both boots the agent, which reads the hardware and writes nothing, when no machine has the host
and its server is off. For other hosts, and with --bmc, the provider reads the inventory and the event log through the BMC now; kubectl baremetal events shows the log.`,
		`  kubectl baremetal inspect server-1 --reason "new DIMM"
  kubectl baremetal inspect server-1 --bmc --reason "new password"`)
	c.addFlags(cmd)
	c.addWaitFlag(cmd, time.Minute)
	cmd.Flags().BoolVar(&byBMC, "bmc", false, "Read the inventory and the event log through the BMC now, also if the host has inspections by the agent.")
	return cmd
}
