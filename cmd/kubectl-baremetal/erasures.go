package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/certificate"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/view"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// The formats of -o that only erasures has.
const (
	formatCertificate = "certificate" // for people
	formatExport      = "export"      // for bmcctl erasures verify
)

const kindErasure = "BareMetalErasure"

// erasuresRun is a run of the command erasures.
type erasuresRun struct {
	*tool

	output outputFlag
	all    bool
}

func (t *tool) erasuresCommand() *cobra.Command {
	e := &erasuresRun{tool: t}
	cmd := &cobra.Command{
		Use:   "erasures [HOST]",
		Short: "Show the recorded erasures of disks, and print their certificates",
		Long: `Show the recorded erasures of the disks of a host, or of all hosts of the namespace, also of hosts that do not exist any more. The newest comes first.

-o certificate prints certificates of sanitization for people. -o export writes them with their signatures as JSON: bmcctl erasures verify checks such a file offline, with the
public key alone.`,
		Example: `  kubectl baremetal erasures
  kubectl baremetal erasures server-1 -o certificate
  kubectl baremetal erasures -A -o export >erasures.json`,
		ValidArgsFunction: t.completeHost,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := e.output.validate(); err != nil {
				return err
			}
			if len(args) > 1 || len(args) == 1 && e.all {
				return usageErrorf("it takes one host, or none for all hosts: a name cannot be mixed with --all-namespaces")
			}
			return unanswered(e.run(cmd.Context(), strings.Join(args, "")))
		},
	}
	cmd.Flags().BoolVarP(&e.all, "all-namespaces", "A", false, "Show the erasures of all namespaces.")
	e.output.add(cmd, formatTable, formatWide, formatCertificate, formatExport, formatJSON, formatYAML, formatName)
	return cmd
}

func (e *erasuresRun) run(ctx context.Context, host string) error {
	cluster, err := e.connect()
	if err != nil {
		return err
	}
	namespace := cluster.Namespace
	if e.all {
		namespace = ""
	}
	records, err := readErasures(ctx, cluster.Client, namespace, host)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return fmt.Errorf("%s has no record of an erasure", orAll(namespace, host))
	}
	return e.print(records)
}

// readErasures reads the records of a host, or of all hosts if host is empty: by host, the newest first.
func readErasures(ctx context.Context, c client.Reader, namespace, host string) ([]v1alpha1.BareMetalErasure, error) {
	options := []client.ListOption{client.InNamespace(namespace)}
	if host != "" {
		options = append(options, client.MatchingLabels{v1alpha1.ErasureHostLabel: erasure.HostLabel(host)})
	}
	var records []v1alpha1.BareMetalErasure
	err := access.Pages(ctx, c, func() *v1alpha1.BareMetalErasureList { return &v1alpha1.BareMetalErasureList{} }, func(l *v1alpha1.BareMetalErasureList) {
		records = append(records, l.Items...)
	}, options...)
	switch access.Cause(err) {
	case why.NotPermitted:
		return nil, errors.New("listing BareMetalErasures is not permitted: ask for the ClusterRole capbm-system-viewer")
	case why.NotInstalled:
		return nil, errors.New("the cluster has no BareMetalErasures: is it the management cluster, with this release of the provider?")
	default:
		if err != nil {
			return nil, err
		}
	}
	records = slices.DeleteFunc(records, func(r v1alpha1.BareMetalErasure) bool { return host != "" && r.Spec.HostName != host })
	erasure.SortNewestFirst(records)
	slices.SortStableFunc(records, func(a, b v1alpha1.BareMetalErasure) int {
		return strings.Compare(a.Namespace+"/"+a.Spec.HostName, b.Namespace+"/"+b.Spec.HostName)
	})
	return records, nil
}

func orAll(namespace, host string) string {
	switch {
	case host != "":
		return fmt.Sprintf("the host %q in the namespace %q", host, namespace)
	case namespace != "":
		return fmt.Sprintf("the namespace %q", namespace)
	default:
		return "the cluster"
	}
}

func (e *erasuresRun) print(records []v1alpha1.BareMetalErasure) error {
	switch format := e.output.format; format {
	case formatJSON, formatYAML:
		return e.printObject(format, &v1alpha1.BareMetalErasureList{Items: records})
	case formatName:
		for i := range records {
			e.printName(kindErasure, &records[i])
		}
		return nil
	case formatExport:
		content, err := erasure.Export(records).Encode()
		if err == nil {
			_, err = e.out().Write(content)
		}
		return err
	case formatCertificate:
		document := erasure.Export(records)
		for i := range document.Certificates {
			if i > 0 {
				view.Printf(e.out(), "\n")
			}
			certificate.Print(e.out(), &document.Certificates[i])
		}
		return nil
	default:
		return erasureTable(records, e.all, format == formatWide, e.now()).Write(e.out(), e.style())
	}
}

func erasureTable(records []v1alpha1.BareMetalErasure, namespaces, wide bool, now time.Time) *view.Table {
	table := &view.Table{Header: []string{"HOST", "SERIAL", "POLICY", "DISKS", "ERASED", "AGE", "MACHINE"}}
	if wide {
		table.Header = append(table.Header, "BOOT", "RECORD", "KEY")
	}
	for i := range records {
		r := &records[i]
		host := r.Spec.HostName
		if namespaces {
			host = r.Namespace + "/" + host
		}
		disks := r.Spec.Report.Disks
		erased := view.Cell{Text: strconv.Itoa(erasedDisks(disks)), Level: view.Good}
		if erasedDisks(disks) < len(disks) {
			erased.Level = view.Pending
		}
		cells := []view.Cell{
			view.Text(host), view.Text(r.Spec.Server.SerialNumber), view.Text(string(r.Spec.Report.Policy)), view.Text(strconv.Itoa(len(disks))), erased,
			view.Text(view.Age(r.Spec.Report.EndTime.Time, now)), view.Text(r.Spec.MachineName),
		}
		if wide {
			cells = append(cells, view.Text(strconv.Itoa(int(r.Spec.BootNumber))), view.Text(r.Name), view.Text(r.Spec.Signature.KeyID))
		}
		table.Add(cells...)
	}
	return table
}

// erasedDisks is the number of disks that the agent erased. The others were left out.
func erasedDisks(disks []v1alpha1.ErasedDisk) int {
	erased := 0
	for i := range disks {
		if disks[i].Outcome == wire.Erased {
			erased++
		}
	}
	return erased
}
