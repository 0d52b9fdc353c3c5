package view

import (
	"fmt"
	"io"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/timeline"
)

// Timeline is what happened to a server, as the command events shows it.
type Timeline struct {
	Namespace string           `json:"namespace"`
	Name      string           `json:"name"`
	Entries   []timeline.Entry `json:"entries"`
	// ClockWarning is what is known of a wrong clock of the BMC.
	ClockWarning string        `json:"clockWarning,omitempty"`
	Unread       []UnreadEntry `json:"unread,omitempty"`
}

// Write writes a line for each entry, the newest last. The zone of all times is that of now.
func (t *Timeline) Write(w io.Writer, s Style, wide bool, now time.Time) error {
	zone, _ := now.Zone()
	table := &Table{Header: []string{"TIME (" + zone + ")", "SOURCE", "WHAT", "MESSAGE"}}
	if wide {
		table.Header = []string{"TIME (" + zone + ")", "AGE", "SOURCE", "WHAT", "OBJECT", "BY", "MESSAGE"}
	}
	for _, e := range t.Entries {
		what, message := Text(e.What), e.Message
		if e.Warning {
			what.Level = Bad
		}
		if e.Count > 1 {
			message = fmt.Sprintf("%s (%d times)", message, e.Count)
		}
		clock := Text(e.Time.In(now.Location()).Format("2006-01-02 15:04:05"))
		if wide {
			table.Add(clock, Text(Age(e.Time, now)), Text(string(e.Source)), what, Text(e.Object), Text(e.By), Text(message))
		} else {
			table.Add(clock, Text(string(e.Source)), what, Text(message))
		}
	}
	if err := table.Write(w, s); err != nil {
		return err
	}
	if t.ClockWarning != "" {
		Printf(w, "Clock: %s\n", terminal.Line(t.ClockWarning))
	}
	for _, unread := range t.Unread {
		Printf(w, "Not read: %s: %s\n", terminal.Line(unread.Kind+" "+unread.Name), unread.Cause)
	}
	return nil
}
