package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/version"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/bundle"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/chain"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/timeline"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// reportRun is a run of the command report.
type reportRun struct {
	*tool

	file, providerNamespace string
	since                   time.Duration
	withoutLogs, unredacted bool
}

func (t *tool) reportCommand() *cobra.Command {
	r := &reportRun{tool: t}
	cmd := &cobra.Command{
		Use:   "report HOST",
		Short: "Write a support bundle of a server to a file",
		Long: `Write a support bundle of a server to an archive (tar.gz): the host, its boot, its machine and its cluster, the explanation, the time line with the recorded entries of the
BMC's log, the lines of the provider's logs that name the host or its machine, and the images of the provider.

Addresses, also of people, hostnames of BMCs and of image servers, serial numbers, MAC addresses and UUIDs are replaced by words such as ip-1, the same word for the same thing. What looks like a password or a token is
removed, and so are the variables of a ClusterClass. Secrets and bootstrap data are never read. Names of objects stay. Read the files before you send the archive.`,
		Example: `  kubectl baremetal report server-1
  kubectl baremetal report server-1 --since 6h --file server-1.tar.gz`,
		ValidArgsFunction: t.completeHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) != 1:
				return usageErrorf("it takes one host, but got %d: write kubectl baremetal report server-1", len(args))
			case r.since <= 0:
				return usageErrorf("--since must be a time, such as 24h")
			}
			return unanswered(r.run(cmd.Context(), args[0]))
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&r.file, "file", "", "The `file` to write. Defaults to baremetal-report-HOST-TIME.tar.gz in this folder.")
	flags.DurationVar(&r.since, "since", 24*time.Hour, "Read the logs of this time.")
	flags.BoolVar(&r.withoutLogs, "without-logs", false, "Read no logs.")
	flags.StringVar(&r.providerNamespace, "provider-namespace", "capbm-system", "The `namespace` of the provider, which has the logs.")
	flags.BoolVar(&r.unredacted, "unredacted", false, "Keep addresses, hostnames and serial numbers. What looks like a password is removed also then.")
	return cmd
}

func (r *reportRun) run(ctx context.Context, name string) error {
	cluster, err := r.connect()
	if err != nil {
		return err
	}
	now := r.now()
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: name}
	past, err := timeline.Read(ctx, cluster.Client, key)
	if err != nil {
		return err
	}
	parts := &reportParts{redactor: bundle.NewRedactor(), unread: past.Unread}
	parts.redactor.KeepIdentities = r.unredacted
	parts.addPast(past)
	reader := &chain.Reader{Client: cluster.Client, Namespace: cluster.Namespace, Now: now}
	answer, explainErr := reader.Explain(ctx, chain.Subject{Kind: why.KindHost, Name: name})
	parts.addMachine(ctx, reader, past.Host)
	parts.learn()
	parts.objects()
	if explainErr == nil {
		parts.text("why.txt", func(b *bytes.Buffer) { view.Explanation{Explanation: &answer.Explanation}.Write(b, view.Style{}, now) })
	} else {
		parts.missing = append(parts.missing, "why.txt: "+explainErr.Error())
	}
	document := &view.Timeline{Namespace: key.Namespace, Name: name, Entries: timeline.Entries(past), ClockWarning: timeline.ClockWarning(past.Host)}
	parts.text("events.txt", func(b *bytes.Buffer) { _ = document.Write(b, view.Style{}, true, now) }) // into memory
	if !r.withoutLogs {
		r.logs(ctx, cluster, parts, past, name)
	}
	r.readme(ctx, cluster, parts, name, now)
	return r.write(parts, name, now)
}

// readme says what the bundle has, and what could not be read.
func (r *reportRun) readme(ctx context.Context, cluster *access.Cluster, parts *reportParts, name string, now time.Time) {
	var b bytes.Buffer
	view.Printf(&b, "Support bundle of BareMetalHost %s, %s\n\n", name, now.UTC().Format(time.RFC3339))
	view.Printf(&b, "kubectl-baremetal: %s\n", version.String())
	if content, err := cluster.ServerVersion(ctx); err == nil {
		view.Printf(&b, "API server: %s\n", strings.Join(strings.Fields(string(content)), " "))
	}
	view.Printf(&b, "Redacted: %t\n\nContainers of the provider:\n", !r.unredacted)
	for _, text := range parts.provider {
		view.Printf(&b, "  %s\n", terminal.Line(parts.redactor.Text(text)))
	}
	if len(parts.provider) == 0 {
		view.Printf(&b, "  (unknown)\n")
	}
	view.Printf(&b, "\nNot read:\n")
	if len(parts.unread)+len(parts.missing) == 0 {
		view.Printf(&b, "  (everything was)\n")
	}
	for _, unread := range parts.unread {
		view.Printf(&b, "  %s: %s\n", strings.TrimSpace(unread.Kind+" "+unread.Name), unread.Cause)
	}
	for _, text := range parts.missing {
		view.Printf(&b, "  %s\n", terminal.Line(parts.redactor.Text(text)))
	}
	parts.files = append([]bundle.File{{Name: "README.txt", Content: b.Bytes()}}, parts.files...)
}

// write writes the archive. It does not replace a file.
func (r *reportRun) write(parts *reportParts, name string, now time.Time) error {
	folder := fmt.Sprintf("baremetal-report-%s-%s", name, now.UTC().Format("20060102-150405"))
	target := r.file
	if target == "" {
		target = folder + ".tar.gz"
	}
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the user names it
	if errors.Is(err, fs.ErrExist) {
		return usageErrorf("%s exists: use --file with another name", target)
	}
	if err != nil {
		return usageErrorf("%v", err)
	}
	err = errors.Join(bundle.Write(file, folder, parts.files, now), file.Close())
	if err != nil {
		_ = os.Remove(target)
		return err
	}
	view.Printf(r.out(), "%s\n", target)
	view.Printf(r.streams.ErrOut, "%d files. Read them before you send the archive: names of objects, and texts that people wrote, stay\n", len(parts.files))
	return nil
}
