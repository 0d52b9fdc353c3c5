package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/fleet"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/plan"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// The values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client"
	dryRunServer = "server"
)

// change is a command that changes hosts, each by a plan.
type change struct {
	*tool

	plan   plan.Func
	action string // the action of the events
	// wait is how long to wait until the provider has done what was asked; 0 for not at all.
	wait             time.Duration
	output           outputFlag
	reason, selector string
	dryRun           string
	consent          consentFlags

	cluster   *access.Cluster
	requester plan.Requester
}

// planned is a host and what is done to it.
type planned struct {
	host *v1alpha1.BareMetalHost
	plan plan.Plan
}

// outcome returns why what was done to the host failed; nil if it did not, or if the plan has no outcome.
func (p planned) outcome() error {
	if p.plan.Outcome == nil {
		return nil
	}
	return p.plan.Outcome(p.host)
}

// addFlags adds the flags that all changes of hosts have.
func (c *change) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&c.reason, "reason", "", "Why, as a `text` for other users. At a terminal, the command asks for it.")
	flags.StringVarP(&c.selector, "selector", "l", "", "Label `selector` of the hosts, instead of their names. The number of hosts has to be typed.")
	flags.StringVar(&c.dryRun, "dry-run", dryRunNone, "none, client (print what would be done) or server (the API server validates it, too). Nothing is changed.")
	flags.Lookup("dry-run").NoOptDefVal = dryRunClient
	flags.BoolVarP(&c.consent.yes, "yes", "y", false, "Do not ask for consent. It is not enough for what stops a machine.")
	flags.IntVar(&c.consent.hosts, "hosts", 0, "The `number` of hosts that a command with --selector changes, as the consent without a terminal, also to stop the machines that they run.")
	c.output.add(cmd, formatTable, formatJSON, formatYAML, formatName)
	complete(cmd, "dry-run", dryRunNone, dryRunClient, dryRunServer)
}

// addClaimedFlag adds the flag for changes that stop a machine.
func (c *change) addClaimedFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.consent.claimed, "yes-its-claimed", "", "The `name` of the host, as the consent without a terminal to stop the machine that it runs.")
}

// addWaitFlag adds the flag for changes that take time.
func (c *change) addWaitFlag(cmd *cobra.Command, preset time.Duration) {
	cmd.Flags().DurationVar(&c.wait, "wait", preset, "How long to wait until it is done. 0 does not wait.")
}

// command returns a command that changes hosts. Flags are added by the caller.
func (c *change) command(use, short, long, example string) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Example: example, ValidArgsFunction: c.completeHosts}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := c.validate(args); err != nil {
			return err
		}
		return c.run(cmd.Context(), args)
	}
	return cmd
}

func (c *change) validate(args []string) error {
	selector, err := labels.Parse(c.selector)
	sorted := slices.Sorted(slices.Values(args))
	switch {
	case err != nil:
		return usageErrorf("--selector: %v", err)
	case len(args) == 0 && selector.Empty():
		return usageErrorf("name the hosts, or select them with --selector")
	case len(args) > 0 && !selector.Empty():
		return usageErrorf("names of hosts cannot be mixed with --selector")
	case len(slices.Compact(sorted)) != len(args):
		return usageErrorf("a host is named twice")
	case !slices.Contains([]string{dryRunNone, dryRunClient, dryRunServer}, c.dryRun):
		return usageErrorf("--dry-run: %q is unknown: use none, client or server", c.dryRun)
	}
	return c.output.validate()
}

// run reads the hosts, shows what will be done, asks for consent, and does it.
func (c *change) run(ctx context.Context, names []string) (err error) {
	if c.cluster, err = c.connect(); err != nil {
		return err
	}
	hosts, err := c.read(ctx, names)
	if err != nil {
		return unanswered(err)
	}
	if err := c.identify(ctx); err != nil {
		return err
	}
	todo, err := c.planAll(hosts)
	if err != nil || len(todo) == 0 {
		return err
	}
	c.announceErasures(ctx, todo)
	if c.dryRun == dryRunClient {
		return c.printPlanned(todo)
	}
	if c.dryRun == dryRunNone {
		if err := c.askAll(ctx, todo); err != nil {
			return err
		}
	}
	return c.apply(ctx, todo)
}

// read reads the hosts with these names, or those that the selector selects. A name that does not exist is an error, so nothing is changed.
func (c *change) read(ctx context.Context, names []string) ([]v1alpha1.BareMetalHost, error) {
	var hosts []v1alpha1.BareMetalHost
	if len(names) > 0 {
		for _, name := range names {
			var host v1alpha1.BareMetalHost
			key := client.ObjectKey{Namespace: c.cluster.Namespace, Name: name}
			if err := access.Get(ctx, c.cluster.Client, key, &host); err != nil {
				return nil, fleet.HostError(err, key)
			}
			hosts = append(hosts, host)
		}
		return hosts, nil
	}
	selector, err := labels.Parse(c.selector)
	if err != nil {
		return nil, err
	}
	err = access.Pages(ctx, c.cluster.Client, func() *v1alpha1.BareMetalHostList { return &v1alpha1.BareMetalHostList{} }, func(l *v1alpha1.BareMetalHostList) {
		hosts = append(hosts, l.Items...)
	}, client.InNamespace(c.cluster.Namespace), client.MatchingLabelsSelector{Selector: selector})
	switch {
	case err != nil:
		return nil, err
	case len(hosts) == 0 && selector.Empty():
		return nil, fmt.Errorf("there is no host in the namespace %q", c.cluster.Namespace)
	case len(hosts) == 0:
		return nil, fmt.Errorf("no host in the namespace %q has the labels %s", c.cluster.Namespace, c.selector)
	default:
		return hosts, nil
	}
}

// identify finds out who asks, and why. Who is what the API server says.
func (c *change) identify(ctx context.Context) error {
	if c.dryRun != dryRunNone {
		c.reason = cmp.Or(c.reason, "dry run")
	}
	reason, err := c.askReason(ctx, c.reason)
	if err != nil {
		return err
	}
	user, confirmed := c.cluster.User(ctx)
	if !confirmed {
		view.Printf(c.streams.ErrOut, "kubectl baremetal: the API server does not say who you are: %s is recorded, as the kubeconfig names you\n", terminal.Line(user))
	}
	c.requester = plan.Requester{User: user, Reason: reason, Now: metav1.NewTime(c.now())}
	return nil
}

// planAll plans all hosts and prints what will be done. If one host is refused, nothing is done to any.
func (c *change) planAll(hosts []v1alpha1.BareMetalHost) ([]planned, error) {
	var todo []planned
	refused := 0
	for i := range hosts {
		p, err := c.plan(&hosts[i], c.requester)
		switch {
		case err != nil:
			refused++
			view.Printf(c.streams.ErrOut, "kubectl baremetal: %s\n", terminal.Line(err.Error()))
		case len(p.Does) == 0:
			view.Printf(c.streams.ErrOut, "%s: nothing to do: %s\n", terminal.Line(hosts[i].Name), p.Already)
		default:
			todo = append(todo, planned{&hosts[i], p})
		}
	}
	if refused > 0 {
		return nil, &exitError{exitFault, fmt.Errorf("nothing was changed: %d of %d hosts refuse it", refused, len(hosts))}
	}
	for _, one := range todo {
		view.Printf(c.streams.ErrOut, "%s/%s:\n", terminal.Line(one.host.Namespace), terminal.Line(one.host.Name))
		for _, sentence := range one.plan.Does {
			view.Printf(c.streams.ErrOut, "  - %s.\n", sentence)
		}
		if reason := bmcProblem(one.host); one.plan.Power && reason != "" {
			view.Printf(c.streams.ErrOut, "  - The BMC is not ready (%s), and the power command waits for it.\n", reason)
		}
	}
	return todo, nil
}

// askAll asks for consent: the number of hosts that a selector selects, the name of a host whose machine stops, or a yes.
func (c *change) askAll(ctx context.Context, todo []planned) error {
	if c.selector != "" {
		stops := 0
		for _, one := range todo {
			if one.plan.Consent == plan.ConsentName {
				stops++
			}
		}
		if stops > 0 {
			view.Printf(c.streams.ErrOut, "kubectl baremetal: %d of these hosts run machines, which STOP\n", stops)
		}
		return c.askConsent(ctx, strconv.Itoa(len(todo)), c.consent.hosts == len(todo), fmt.Sprintf("--hosts %d", len(todo)))
	}
	asked := false
	for _, one := range todo {
		if one.plan.Consent != plan.ConsentName {
			continue
		}
		asked = true
		if err := c.askConsent(ctx, one.host.Name, c.consent.claimed == one.host.Name, "--yes-its-claimed "+one.host.Name+", for one host at a time"); err != nil {
			return err
		}
	}
	if asked {
		return nil
	}
	return c.askConsent(ctx, "", c.consent.yes, "--yes")
}

// apply changes one host after the other, and reports each. An error of one host does not end the others.
func (c *change) apply(ctx context.Context, todo []planned) error {
	failed := 0
	var done []planned
	for _, one := range todo {
		if err := c.recordAndWrite(ctx, &one); err != nil {
			failed++
			view.Printf(c.streams.ErrOut, "kubectl baremetal: %s: %s\n", terminal.Line(one.host.Name), terminal.Line(err.Error()))
			continue
		}
		done = append(done, one)
	}
	if err := c.printPlanned(done); err != nil {
		return err
	}
	if c.dryRun == dryRunNone && c.wait > 0 {
		failed += c.awaitAll(ctx, done)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if failed > 0 {
		return &exitError{exitFault, fmt.Errorf("%d of %d hosts failed", failed, len(todo))}
	}
	return nil
}

// recordAndWrite changes one host after it has recorded who asks for that.
func (c *change) recordAndWrite(ctx context.Context, one *planned) error {
	if c.dryRun == dryRunNone {
		if err := recordRequest(ctx, c.cluster.Client, one.host, one.plan.Event, c.action, c.requester); err != nil {
			return err
		}
	}
	return c.write(ctx, one)
}

// maxConflicts is how often a write is tried again because the host has changed. The status of a host changes often.
const maxConflicts = 5

// write writes the change of one host. If the host changed since it was read, the change is planned again, and written only if it is what the user has seen.
func (c *change) write(ctx context.Context, one *planned) error {
	for try := 0; ; try++ {
		before := one.host.DeepCopy()
		one.plan.Change(one.host)
		options := []client.PatchOption{client.FieldOwner(access.Owner)}
		if c.dryRun == dryRunServer {
			options = append(options, client.DryRunAll)
		}
		err := c.cluster.Client.Patch(ctx, one.host, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), options...)
		if !apierrors.IsConflict(err) || try == maxConflicts {
			return err
		}
		fresh := &v1alpha1.BareMetalHost{}
		if err := access.Get(ctx, c.cluster.Client, client.ObjectKeyFromObject(before), fresh); err != nil {
			return err
		}
		p, err := c.plan(fresh, c.requester)
		if err != nil {
			return err
		}
		if fresh.UID != before.UID || !slices.Equal(p.Does, one.plan.Does) {
			return errors.New("the host changed meanwhile, and the command would do something else now: run it again")
		}
		one.host, one.plan = fresh, p
	}
}

// printPlanned prints the hosts as they were changed, or would be.
func (c *change) printPlanned(hosts []planned) error {
	suffix := map[string]string{dryRunClient: " (dry run)", dryRunServer: " (server dry run)"}[c.dryRun]
	for _, one := range hosts {
		if c.dryRun == dryRunClient {
			one.plan.Change(one.host)
		}
		switch format := c.output.format; format {
		case formatJSON, formatYAML:
			if err := c.printObject(format, one.host); err != nil {
				return err
			}
		case formatName:
			c.printName(why.KindHost, one.host)
		default:
			view.Printf(c.out(), "%s %s%s\n", resourceName(why.KindHost, one.host.Name), "changed", suffix)
		}
	}
	return nil
}
