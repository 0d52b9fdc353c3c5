package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/fleet"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/plan"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/kubeconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// drain is a run of drain start or drain end.
type drain struct {
	*tool

	end                         bool
	powerOff                    bool
	reason, kubeconfig, claimed string
	dryRun                      string
	yes                         bool
	timeout                     time.Duration
	cluster                     *access.Cluster
}

// nodeTimeout is how long the read of the Node may take.
const nodeTimeout = 30 * time.Second

const aboutDrain = `Move the Pods of a server to other Nodes before a person works on it, and let Pods return afterwards.

drain start marks the Node unschedulable and evicts its Pods, by kubectl drain in the workload cluster; with --power-off it powers the server off by a power hold of yours then.
drain end removes your power hold, waits until the server and its Node are ready, and makes the Node schedulable. Both refuse a Node that is not that of the machine.

The kubeconfig of the workload cluster is --workload-kubeconfig, or otherwise the Secret CLUSTER-kubeconfig, which you may have to be permitted to read. The Machine stays: to give
the server back, delete the Machine, which drains the Node too.`

func (t *tool) drainCommand() *cobra.Command {
	cmd := parent(&cobra.Command{
		Use: "drain", Short: "Move the Pods of a server to other Nodes, and back", Long: aboutDrain,
		Example: `  kubectl baremetal drain start server-1 --power-off --reason "new DIMM"
  kubectl baremetal drain end server-1 --reason "new DIMM is in"`,
	}, "kubectl baremetal drain start server-1")
	for _, end := range []bool{false, true} {
		d := &drain{tool: t, end: end}
		cmd.AddCommand(d.command())
	}
	return cmd
}

func (d *drain) command() *cobra.Command {
	cmd := &cobra.Command{
		Use: "start HOST", Short: "Move the Pods of a server to other Nodes", Long: "Mark the Node of a server unschedulable and evict its Pods.",
		Example: `  kubectl baremetal drain start server-1 --power-off --reason "new DIMM"`,
	}
	if d.end {
		cmd.Use, cmd.Short, cmd.Long = "end HOST", "Power a server on and make its Node schedulable", "Remove your power hold, wait until the Node is Ready, and make it schedulable."
		cmd.Example = `  kubectl baremetal drain end server-1 --reason "new DIMM is in"`
	}
	cmd.ValidArgsFunction = d.completeHost
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 {
			return usageErrorf("it takes one host, but got %d: write %s server-1", len(args), cmd.CommandPath())
		}
		if !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, d.dryRun) {
			return usageErrorf("--dry-run: %q is unknown: use none, client or server", d.dryRun)
		}
		return d.run(cmd.Context(), args[0])
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	if !d.end {
		flags.BoolVar(&d.powerOff, "power-off", false, "Power the server off after the drain, by a power hold of yours.")
		flags.StringVar(&d.claimed, "yes-its-claimed", "", "With --power-off: the `name` of the host, as the consent without a terminal.")
	}
	flags.StringVar(&d.reason, "reason", "", "Why, as a `text` for other users. At a terminal, the command asks for it.")
	flags.StringVar(&d.kubeconfig, "workload-kubeconfig", "", "Kubeconfig `file` of the workload cluster. Defaults to the Secret CLUSTER-kubeconfig in the management cluster.")
	flags.DurationVar(&d.timeout, "timeout", 10*time.Minute, "How long each step may take.")
	flags.StringVar(&d.dryRun, "dry-run", dryRunNone, "none, client (print what would be done) or server (kubectl and the API server validate it, too). Nothing is changed.")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	flags.BoolVarP(&d.yes, "yes", "y", false, "Do not ask for consent. It is not enough for --power-off.")
	complete(cmd, "dry-run", dryRunNone, dryRunClient, dryRunServer)
	return cmd
}

// drained is the host, its machine and its Node.
type drained struct {
	host    *v1alpha1.BareMetalHost
	machine *v1alpha1.BareMetalMachine
	node    string
	cluster string
}

func (d *drain) run(ctx context.Context, name string) (err error) {
	if d.cluster, err = d.connect(); err != nil {
		return err
	}
	subject, err := d.read(ctx, name)
	if err != nil {
		return err
	}
	power := d.powerChange()
	if err := power.identify(ctx); err != nil {
		return err
	}
	var todo []planned
	if d.powerOff || d.end {
		if todo, err = power.planAll([]v1alpha1.BareMetalHost{*subject.host}); err != nil {
			return err
		}
	}
	for _, sentence := range d.sentences(subject) {
		view.Printf(d.streams.ErrOut, "  - %s.\n", sentence)
	}
	if d.dryRun == dryRunClient {
		return nil
	}
	if d.dryRun == dryRunNone {
		if err := d.consent(ctx, power, todo); err != nil {
			return err
		}
	}
	file, remove, err := d.workloadKubeconfig(ctx, subject)
	if err != nil {
		return unanswered(err)
	}
	defer remove()
	if err := d.checkNode(ctx, subject, file); err != nil {
		return err
	}
	if d.dryRun == dryRunNone {
		event := map[bool]string{false: "DrainRequested", true: "DrainEndRequested"}[d.end]
		if err := recordRequest(ctx, d.cluster.Client, subject.host, event, "Drain", power.requester); err != nil {
			return err
		}
	}
	if d.end {
		return d.finish(ctx, power, todo, file, subject.node)
	}
	return d.start(ctx, power, todo, file, subject.node)
}

// powerChange is the change of the power that belongs to the drain.
func (d *drain) powerChange() *change {
	c := &change{tool: d.tool, cluster: d.cluster, action: "Power", plan: plan.PowerOff(false, true), reason: d.reason, dryRun: d.dryRun, wait: d.timeout}
	c.output.format, c.consent.claimed, c.consent.yes = formatTable, d.claimed, d.yes
	if d.end {
		c.plan = plan.PowerOn
	}
	return c
}

// read reads the host and its machine. The error says why nothing can be drained.
func (d *drain) read(ctx context.Context, name string) (*drained, error) {
	key := client.ObjectKey{Namespace: d.cluster.Namespace, Name: name}
	s := &drained{host: &v1alpha1.BareMetalHost{}, machine: &v1alpha1.BareMetalMachine{}}
	if err := access.Get(ctx, d.cluster.Client, key, s.host); err != nil {
		return nil, unanswered(fleet.HostError(err, key))
	}
	if s.host.Spec.ConsumerRef == nil && d.end {
		return nil, fmt.Errorf("%s has no machine any more, so there is no drain to end", name)
	}
	if s.host.Spec.ConsumerRef == nil {
		return nil, fmt.Errorf("%s has no machine, so it has no Node to drain: kubectl baremetal maintenance start %s takes it out of service", name, name)
	}
	key.Name = s.host.Spec.ConsumerRef.Name
	if err := access.Get(ctx, d.cluster.Client, key, s.machine); err != nil {
		return nil, unanswered(fmt.Errorf("read BareMetalMachine %s: %w", key.Name, err))
	}
	s.node, s.cluster = s.machine.Status.NodeName, s.machine.Labels[clusterv1.ClusterNameLabel]
	switch {
	case s.node == "":
		return nil, fmt.Errorf("BareMetalMachine %s has no Node: kubectl baremetal why %s/%s says why", key.Name, "baremetalmachine", key.Name)
	case d.powerOff && s.machine.Spec.Persistence() == v1alpha1.PersistenceEphemeral:
		return nil, fmt.Errorf("BareMetalMachine %s runs from memory and is lost when its server is powered off: replace the Machine instead", key.Name)
	}
	return s, nil
}

func (d *drain) sentences(s *drained) []string {
	node, cluster := terminal.Line(s.node), terminal.Line(s.cluster)
	if d.end {
		return []string{fmt.Sprintf("Wait until the Node %s of the cluster %s is Ready, and make it schedulable", node, cluster)}
	}
	before := "Mark"
	if d.powerOff {
		before = "Before that: mark"
	}
	return []string{fmt.Sprintf(before+" the Node %s of the cluster %s unschedulable, and evict its Pods. Data in emptyDir volumes is deleted", node, cluster)}
}

func (d *drain) consent(ctx context.Context, power *change, todo []planned) error {
	if len(todo) > 0 {
		return power.askAll(ctx, todo)
	}
	return d.askConsent(ctx, "", d.yes, "--yes")
}

// checkNode reads the Node from the workload cluster, and refuses one that is not that of the machine: the kubeconfig may be of another cluster, with a Node of this name. A Node
// without a provider ID has to report the UUID of the server.
func (d *drain) checkNode(ctx context.Context, s *drained, kubeconfig string) error {
	var content bytes.Buffer
	if err := d.kubectl(ctx, &content, "--kubeconfig", kubeconfig, "get", "node", s.node, "--output", "json", "--request-timeout", nodeTimeout.String()); err != nil {
		return unanswered(fmt.Errorf("read the Node %s of the cluster %s: %w", s.node, s.cluster, err))
	}
	var node corev1.Node
	if err := json.Unmarshal(content.Bytes(), &node); err != nil {
		return unanswered(fmt.Errorf("read the Node %s of the cluster %s: %w", s.node, s.cluster, err))
	}
	has, want := node.Spec.ProviderID, s.machine.Spec.ProviderID
	if has != "" && has == want {
		return nil
	}
	uuid := inventory.HardwareID(node.Status.NodeInfo.SystemUUID)
	if hardware := s.host.Status.Hardware; has == "" && uuid != "" && hardware != nil && uuid == inventory.HardwareID(hardware.SystemUUID) {
		return nil
	}
	return fmt.Errorf("nothing was changed: the Node %s has the provider ID %q, and the provider ID of BareMetalMachine %s is %q: is the kubeconfig that of the cluster %s?", s.node, has, s.machine.Name, want, s.cluster)
}

// start drains the Node, and powers the server off if that was asked for.
func (d *drain) start(ctx context.Context, power *change, todo []planned, kubeconfig, node string) error {
	args := []string{"--kubeconfig", kubeconfig, "drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--timeout", d.timeout.String()}
	if d.dryRun == dryRunServer {
		args = append(args, "--dry-run=server")
	}
	if err := d.kubectl(ctx, d.streams.ErrOut, args...); err != nil {
		return fmt.Errorf("the drain of the Node %s: %w. The server was not powered off. Delete or move what kubectl names, and run the command again, or make the Node schedulable by "+
			"kubectl baremetal drain end", node, err)
	}
	if len(todo) == 0 {
		return nil
	}
	return power.apply(ctx, todo)
}

// finish powers the server on, and makes its Node schedulable when it is Ready.
func (d *drain) finish(ctx context.Context, power *change, todo []planned, kubeconfig, node string) error {
	if len(todo) > 0 {
		if err := power.apply(ctx, todo); err != nil {
			return err
		}
	}
	steps := [][]string{{"wait", "--for=condition=Ready", "node/" + node, "--timeout", d.timeout.String()}, {"uncordon", node}}
	if d.dryRun == dryRunServer {
		steps = [][]string{{"uncordon", node, "--dry-run=server"}}
	}
	for _, step := range steps {
		if err := d.kubectl(ctx, d.streams.ErrOut, append([]string{"--kubeconfig", kubeconfig}, step...)...); err != nil {
			return fmt.Errorf("kubectl %s: %w", strings.Join(step, " "), err)
		}
	}
	return nil
}

// workloadKubeconfig returns the file with the kubeconfig of the workload cluster, and the function that removes it.
func (d *drain) workloadKubeconfig(ctx context.Context, s *drained) (file string, remove func(), err error) {
	if d.kubeconfig != "" {
		return d.kubeconfig, func() {}, nil
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.host.Namespace, Name: s.cluster + "-kubeconfig"}
	if err := access.Get(ctx, d.cluster.Client, key, secret); err != nil {
		if cause := access.Cause(err); cause == why.NotPermitted || cause == why.NotFound {
			return "", nil, fmt.Errorf("the kubeconfig of the workload cluster is in the Secret %s, which is %s: use --workload-kubeconfig FILE", key.Name, cause)
		}
		return "", nil, err
	}
	content := secret.Data["value"]
	if len(content) == 0 {
		return "", nil, fmt.Errorf("the Secret %s has no kubeconfig: use --workload-kubeconfig FILE", key.Name)
	}
	if err := kubeconfig.Check(content); err != nil { // a user who may write the Secret must not run programs here
		return "", nil, fmt.Errorf("the kubeconfig in the Secret %s is not used: %w; or use --workload-kubeconfig FILE with one that you trust", key.Name, err)
	}
	temporary, err := os.CreateTemp("", "kubectl-baremetal-*.kubeconfig") // only this user may read it
	if err != nil {
		return "", nil, err
	}
	remove = func() { _ = os.Remove(temporary.Name()) }
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Close()); err != nil {
		remove()
		return "", nil, err
	}
	return temporary.Name(), remove, nil
}
