package view

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// Explanation is an explanation with what is known of the machines of its subject.
type Explanation struct {
	*why.Explanation

	// Machines is the number of machines of a Cluster or an owner of Machines, and Unready the number of those that are not as wanted. Both are 0 for other objects.
	Machines, Unready int
}

// maxNotes is how many notes and unread objects are printed each.
const maxNotes = 8

// Write writes the explanation. An object that is as wanted has one line, and its notes.
func (e Explanation) Write(w io.Writer, s Style, now time.Time) {
	subject := fmt.Sprintf("%s %s/%s", e.Subject.Kind, e.Subject.Namespace, e.Subject.Name)
	if e.State == why.Done {
		Printf(w, "%s %s: %s\n", terminal.Line(subject), s.paint("is as wanted", Good), terminal.Line(e.Wanted))
		e.writeNotes(w)
		return
	}
	state, level := e.verdict(now)
	Printf(w, "%s %s\n", terminal.Line(subject), s.paint(state, level))
	fields := []struct{ name, text string }{
		{"Wanted", e.Wanted}, {"Waits for", e.WaitsFor}, {"Reason", e.reason()}, {"Since", e.since(now)}, {"Last seen", e.seen(now)}, {"Message", e.Message},
		{"Likeliest cause", e.Cause}, {"Machines", e.machines()}, {"To do", e.Do}, {"Next command", e.Command},
	}
	for _, field := range fields {
		if text := terminal.Line(field.text); text != "" {
			Printf(w, "  %-16s %s\n", field.name+":", text)
		}
	}
	e.writeHosts(w)
	e.writeNotes(w)
}

// verdict says in a few words whether a person has to act.
func (e Explanation) verdict(now time.Time) (string, Level) {
	switch {
	case e.State == why.Fault:
		return "needs action", Bad
	case e.Overdue(now):
		return "waits much longer than usual", Bad
	case e.State == why.Unknown:
		return "is unknown", Pending
	default:
		return "waits", Pending
	}
}

// reason names the reason, and the object that has it unless that is the subject.
func (e Explanation) reason() string {
	if e.At.Kind == e.Subject.Kind && e.At.Name == e.Subject.Name {
		return e.Reason
	}
	return strings.TrimSpace(fmt.Sprintf("%s (of %s %s)", e.Reason, e.At.Kind, e.At.Name))
}

// since says how long the wait takes, and how long it usually takes.
func (e Explanation) since(now time.Time) string {
	text := ""
	if !e.Since.IsZero() {
		text = fmt.Sprintf("%s ago (%s)", Age(e.Since, now), Clock(e.Since, now))
	}
	if e.Usual > 0 {
		usual := "usually at most " + Age(now.Add(-e.Usual), now)
		text = strings.TrimPrefix(text+", "+usual, ", ")
	}
	return text
}

func (e Explanation) seen(now time.Time) string {
	if e.Seen == nil {
		return ""
	}
	return fmt.Sprintf("%s, %s ago, by %s", e.Seen.What, Age(e.Seen.Time, now), cmp.Or(e.Seen.By, "an unknown observer"))
}

func (e Explanation) machines() string {
	if e.Machines < 2 {
		return ""
	}
	return fmt.Sprintf("%d of %d are not as wanted; this is about the one that needs attention most", e.Unready, e.Machines)
}

// writeHosts writes why no host fits.
func (e Explanation) writeHosts(w io.Writer) {
	n := e.NoHost
	if n == nil {
		return
	}
	Printf(w, "  Hosts of the namespace: %d\n", n.Total)
	for _, excluded := range n.Excluded {
		Printf(w, "    %4d  %s\n", excluded.Hosts, terminal.Line(excluded.Reason))
	}
	switch {
	case n.Fits != "":
		Printf(w, "    %s fits now\n", terminal.Line(n.Fits))
	case n.Nearest != nil:
		Printf(w, "    nearest: %s: %s\n", terminal.Line(n.Nearest.Host), terminal.Line(strings.Join(n.Nearest.Reasons, "; ")))
	}
}

// writeNotes writes what should be corrected although nothing waits for it, and what was not read.
func (e Explanation) writeNotes(w io.Writer) {
	for i, note := range e.Notes {
		if i == maxNotes {
			Printf(w, "  Notes: %d more\n", len(e.Notes)-i)
			break
		}
		Printf(w, "  Note: %s\n", terminal.Line(note))
	}
	for i, unread := range e.Unread {
		if i == maxNotes {
			Printf(w, "  Not read: %d more\n", len(e.Unread)-i)
			break
		}
		Printf(w, "  Not read: %s: %s\n", terminal.Line(unread.Kind+" "+unread.Name), unread.Cause)
	}
}
