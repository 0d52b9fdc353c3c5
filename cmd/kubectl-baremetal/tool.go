package main

import (
	"bufio"
	"context"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/cli-runtime/pkg/printers"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/version"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
)

// tool is what all commands have in common. Tests replace its functions.
type tool struct {
	streams genericiooptions.IOStreams
	flags   *genericclioptions.ConfigFlags
	// now returns the time, in the zone in which times are printed.
	now func() time.Time
	// connect returns the management cluster. It makes no request.
	connect func() (*access.Cluster, error)
	// interactive is true if a person can answer questions.
	interactive bool
	// answers reads what a person answers. Questions share it, since it reads ahead.
	answers *bufio.Reader
	// kubectl runs kubectl with these arguments, for what kubectl does better: to drain a Node. Its output is written to out.
	kubectl func(ctx context.Context, out io.Writer, args ...string) error
}

func newTool(streams genericiooptions.IOStreams) *tool {
	t := &tool{streams: streams, flags: genericclioptions.NewConfigFlags(true), now: time.Now, interactive: printers.IsTerminal(streams.In)}
	t.connect = func() (*access.Cluster, error) {
		cluster, err := access.Connect(t.flags, "kubectl-baremetal/"+version.String(), streams.ErrOut)
		return cluster, unanswered(err)
	}
	t.kubectl = t.runKubectl
	return t
}

// run runs a command and returns the exit code.
func (t *tool) run(ctx context.Context, args []string) int {
	root := t.command() //nolint:contextcheck // commands get their context when they run
	root.SetArgs(args)
	return t.exitCode(root.ExecuteContext(ctx))
}

// command returns the command with all its verbs.
func (t *tool) command() *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-baremetal",
		Short: "Work with the servers of a management cluster",
		Long: `kubectl baremetal shows how the servers of a management cluster are, explains why something waits, shows what happened to a server, and does what a person does to one.

Each command works with the rights that you have: what you may not read is shown as "not permitted". What changes something shows what it will do, asks for a reason and for
your consent, and records who did it.`,
		Example: `  kubectl baremetal status
  kubectl baremetal why server-1
  kubectl baremetal maintenance start server-1 --reason "new DIMM"`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl baremetal"},
		Version:       version.String(),
		SilenceErrors: true, SilenceUsage: true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	root.SetIn(t.streams.In)
	root.SetOut(t.streams.Out)
	root.SetErr(t.streams.ErrOut)
	root.SetVersionTemplate("kubectl-baremetal {{.Version}}\n")
	root.SetUsageTemplate(usageTemplate)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageErrorf("%v (%s --help lists the flags)", err, cmd.CommandPath())
	})
	t.flags.AddFlags(root.PersistentFlags())
	root.AddGroup(&cobra.Group{ID: "read", Title: "Commands that change nothing:"}, &cobra.Group{ID: "change", Title: "Commands that change something:"})
	for _, cmd := range []*cobra.Command{t.statusCommand(), t.whyCommand(), t.eventsCommand(), t.erasuresCommand(), t.reportCommand()} {
		cmd.GroupID = "read"
		root.AddCommand(cmd)
	}
	for _, cmd := range []*cobra.Command{
		t.powerCommand(), t.maintenanceCommand(), t.quarantineCommand(), t.inspectCommand(), t.drainCommand(), t.eraseCommand(), t.registerCommand(),
	} {
		cmd.GroupID = "change"
		root.AddCommand(cmd)
	}
	root.AddCommand(optionsCommand())
	t.completeNamespaces(root)
	return root
}

// usageTemplate is that of cobra without the flags of kubectl, which the command options lists.
const usageTemplate = `Usage:{{if .Runnable}}
  {{.UseLine}}{{end}}{{if .HasAvailableSubCommands}}
  {{.CommandPath}} COMMAND{{end}}{{if .HasExample}}

Examples:
{{.Example}}{{end}}{{if .HasAvailableSubCommands}}{{$cmds := .Commands}}{{if eq (len .Groups) 0}}

Commands:{{range $cmds}}{{if .IsAvailableCommand}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{else}}{{range $group := .Groups}}

{{.Title}}{{range $cmds}}{{if (and (eq .GroupID $group.ID) .IsAvailableCommand)}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}

Other commands:{{range $cmds}}{{if (and (eq .GroupID "") .IsAvailableCommand)}}
  {{rpad .Name .NamePadding }} {{.Short}}{{end}}{{end}}{{end}}{{end}}{{if .HasAvailableLocalFlags}}{{if .HasParent}}

Flags:
{{.LocalFlags.FlagUsagesWrapped 120 | trimTrailingWhitespaces}}{{end}}{{end}}

"kubectl baremetal options" lists the flags of kubectl, such as --namespace and --context, which all commands have.
`

// parent makes a command that only has other commands print its help, and refuse an argument that is no command. example is what to write instead.
func parent(cmd *cobra.Command, example string) *cobra.Command {
	cmd.DisableFlagsInUseLine = true
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		return usageErrorf("there is no command %q: write %s", args[0], example)
	}
	return cmd
}

// optionsCommand lists the flags of kubectl.
func optionsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "options", Short: "List the flags of kubectl, which all commands have", Args: cobra.NoArgs,
		Run: func(cmd *cobra.Command, _ []string) {
			view.Printf(cmd.OutOrStdout(), "These flags of kubectl can be passed to all commands:\n\n%s", cmd.InheritedFlags().FlagUsagesWrapped(120))
		},
	}
	return cmd
}

// style returns how the output is written: colours only at a terminal, and not with NO_COLOR in the environment.
func (t *tool) style() view.Style {
	return view.Style{Color: printers.AllowsColorOutput(t.streams.Out)}
}

// screen returns the size of the terminal; zero if the output is not a terminal.
func (t *tool) screen() (width, height int) {
	file, ok := t.streams.Out.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return 0, 0
	}
	width, height, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}

// out is the standard output.
func (t *tool) out() io.Writer { return t.streams.Out }
