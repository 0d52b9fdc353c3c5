package view

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/fleet"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// Status is how the hosts are, as the command status shows it.
type Status struct {
	Time time.Time `json:"time"`
	// Namespace is empty for all namespaces.
	Namespace string      `json:"namespace,omitempty"`
	Total     fleet.Group `json:"total"`
	// By is what Groups have in common.
	By     string        `json:"by,omitempty"`
	Groups []fleet.Group `json:"groups,omitempty"`
	// Rows are the hosts, and the machines without a host; what needs attention most comes first.
	Rows   []fleet.Row   `json:"rows"`
	Unread []UnreadEntry `json:"unread,omitempty"`
}

// maxAttention is how many rows the summary shows.
const maxAttention = 20

// WriteSummary writes the counts, the groups, and the first rows that are not as wanted or not healthy.
func (d *Status) WriteSummary(w io.Writer, s Style) error {
	Printf(w, "%s: %d in use, %d available, %d unhealthy, %s\n", d.title(), d.Total.InUse, d.Total.Available, d.Total.Unhealthy, needAction(d.Total.NeedAction, s))
	if len(d.Groups) > 0 {
		Printf(w, "\n")
		if err := d.groups().Write(w, s); err != nil {
			return err
		}
	}
	var attention []fleet.Row
	for i := range d.Rows {
		if row := &d.Rows[i]; row.State != why.Done || row.Unhealthy() {
			attention = append(attention, *row)
		}
	}
	if len(attention) > 0 {
		Printf(w, "\n")
		table := d.rows(attention[:min(len(attention), maxAttention)], false)
		if err := table.Write(w, s); err != nil {
			return err
		}
	}
	if more := len(attention) - maxAttention; more > 0 {
		Printf(w, "and %d more: --hosts lists all\n", more)
	}
	if len(attention) > 0 {
		Printf(w, "\nkubectl baremetal why NAME explains one of them\n")
	}
	d.WriteUnread(w)
	return nil
}

// WriteRows writes a line for each host, and for each machine without a host.
func (d *Status) WriteRows(w io.Writer, s Style, wide bool) error {
	table := d.rows(d.Rows, wide)
	err := table.Write(w, s)
	d.WriteUnread(w)
	return err
}

// WriteUnread writes what could not be read.
func (d *Status) WriteUnread(w io.Writer) {
	for _, unread := range d.Unread {
		Printf(w, "%s: %s\n", terminal.Line(unread.Kind+" "+unread.Name), unread.Cause)
	}
}

func (d *Status) title() string {
	hosts := fmt.Sprintf("%d hosts", d.Total.Hosts)
	if d.Total.Hosts == 1 {
		hosts = "1 host"
	}
	if d.Namespace == "" {
		return hosts + " in all namespaces"
	}
	return hosts + " in the namespace " + terminal.Line(d.Namespace)
}

func needAction(hosts int, s Style) string {
	if hosts == 0 {
		return s.paint("none needs action", Good)
	}
	return s.paint(fmt.Sprintf("%d need action", hosts), Bad)
}

var groupTitles = map[string]string{"domain": "FAILURE DOMAIN", "cluster": "CLUSTER", "phase": "PHASE", "health": "HEALTH"}

func (d *Status) groups() *Table {
	table := &Table{Header: []string{groupTitles[d.By], "HOSTS", "IN USE", "AVAILABLE", "UNHEALTHY", "NEED ACTION"}}
	for _, g := range d.Groups {
		needs := Text(strconv.Itoa(g.NeedAction))
		if g.NeedAction > 0 {
			needs.Level = Bad
		}
		name := g.Name
		if d.By == "cluster" {
			name = d.cluster(name)
		}
		table.Add(Text(name), Text(strconv.Itoa(g.Hosts)), Text(strconv.Itoa(g.InUse)), Text(strconv.Itoa(g.Available)), Text(strconv.Itoa(g.Unhealthy)), needs)
	}
	return table
}

// rows returns the table of rows.
func (d *Status) rows(rows []fleet.Row, wide bool) *Table {
	header := []string{"NAME", "STATE", "PHASE", "POWER", "DOMAIN", "CLUSTER", "HEALTH", "SINCE", "REASON"}
	if d.Namespace == "" {
		header = append([]string{"NAMESPACE"}, header...)
	}
	if wide {
		header = append(header, "MACHINE", "MODEL", "MESSAGE")
	}
	table := &Table{Header: header}
	for i := range rows {
		table.Add(d.cells(&rows[i], wide)...)
	}
	return table
}

func (d *Status) cells(r *fleet.Row, wide bool) []Cell {
	name, since := r.Name, ""
	if r.Kind == why.KindBareMetalMachine {
		name = "machine/" + name
	}
	if r.Since != nil {
		since = Age(*r.Since, d.Time)
	}
	cells := []Cell{
		Text(name), state(r), Text(r.Phase), Text(r.Power), Text(r.Domain), Text(d.cluster(r.Cluster)), health(r.Health), Text(since), Text(r.Reason),
	}
	if d.Namespace == "" {
		cells = append([]Cell{Text(r.Namespace)}, cells...)
	}
	if wide {
		cells = append(cells, Text(r.Machine), Text(r.Model), Text(r.Message))
	}
	return cells
}

// cluster returns the name of a cluster, or why it is not known.
func (d *Status) cluster(name string) string {
	if name != fleet.NotRead {
		return name
	}
	for _, unread := range d.Unread {
		if unread.Kind == why.KindBareMetalMachine {
			return string(unread.Cause)
		}
	}
	return name // the machine does not exist
}

func state(r *fleet.Row) Cell {
	switch {
	case r.NeedsAction:
		return Cell{"needs action", Bad}
	case r.State == why.Done:
		return Cell{"ok", Good}
	case r.State == why.Unknown:
		return Cell{"unknown", Pending}
	default:
		return Cell{"waits", Pending}
	}
}

func health(reported string) Cell {
	switch reported {
	case "OK":
		return Cell{reported, Good}
	case "Warning":
		return Cell{reported, Pending}
	case "Critical":
		return Cell{reported, Bad}
	default:
		return Text(reported)
	}
}
