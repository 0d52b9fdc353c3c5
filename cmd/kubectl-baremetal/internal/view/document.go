package view

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// Document is an explanation for other programs, as -o json and -o yaml print it.
type Document struct {
	Subject Object `json:"subject"`
	// State is Done, Waits, Fault or Unknown.
	State why.State `json:"state"`
	// NeedsAction is true for a fault, and for a wait that takes more than twice its usual time.
	NeedsAction bool       `json:"needsAction"`
	Wanted      string     `json:"wanted"`
	WaitsFor    string     `json:"waitsFor,omitempty"`
	At          *Object    `json:"at,omitempty"` // the object that has the reason; absent if the state is Done
	Reason      string     `json:"reason,omitempty"`
	Since       *time.Time `json:"since,omitempty"`
	// UsualSeconds is how long such a wait usually takes at most; 0 if there is no usual time.
	UsualSeconds int64         `json:"usualSeconds,omitempty"`
	LastSeen     *Observation  `json:"lastSeen,omitempty"`
	Message      string        `json:"message,omitempty"`
	Cause        string        `json:"likeliestCause,omitempty"`
	Do           string        `json:"toDo,omitempty"`
	Command      string        `json:"nextCommand,omitempty"`
	NoHost       *NoHost       `json:"noHost,omitempty"`
	Notes        []string      `json:"notes,omitempty"`
	Unread       []UnreadEntry `json:"unread,omitempty"`
	// Machines is the number of machines of a Cluster or an owner of Machines, and UnreadyMachines the number of those that are not as wanted.
	Machines        int `json:"machines,omitempty"`
	UnreadyMachines int `json:"unreadyMachines,omitempty"`
}

// Object names an object.
type Object struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Observation is the last thing that was observed of a server.
type Observation struct {
	What string    `json:"what"`
	By   string    `json:"by,omitempty"`
	Time time.Time `json:"time"`
}

// NoHost says why a machine has no host.
type NoHost struct {
	Total    int        `json:"total"`
	Excluded []Excluded `json:"excluded,omitempty"`
	Nearest  *Nearest   `json:"nearest,omitempty"`
	Fits     string     `json:"fits,omitempty"`
}

// Excluded is a reason, and the number of hosts that it excluded.
type Excluded struct {
	Reason string `json:"reason"`
	Hosts  int    `json:"hosts"`
}

// Nearest is the free host that lacks least.
type Nearest struct {
	Host    string   `json:"host"`
	Reasons []string `json:"reasons"`
}

// UnreadEntry is an object, or a kind, that could not be read, and why.
type UnreadEntry struct {
	Kind  string          `json:"kind"`
	Name  string          `json:"name,omitempty"`
	Cause why.UnreadCause `json:"cause"`
}

// Document returns the explanation for other programs.
func (e Explanation) Document(now time.Time) *Document {
	d := &Document{
		Subject: objectOf(e.Subject), State: e.State, NeedsAction: e.NeedsAction(now), Wanted: e.Wanted, WaitsFor: e.WaitsFor, Reason: e.Reason,
		UsualSeconds: int64(e.Usual / time.Second), Message: e.Message, Cause: e.Cause, Do: e.Do, Command: e.Command, Notes: e.Notes, Unread: Unread(e.Unread),
		Machines: e.Machines, UnreadyMachines: e.Unready,
	}
	if e.State != why.Done {
		at := objectOf(e.At)
		d.At = &at
	}
	if !e.Since.IsZero() {
		since := e.Since.UTC()
		d.Since = &since
	}
	if e.Seen != nil {
		d.LastSeen = &Observation{What: e.Seen.What, By: e.Seen.By, Time: e.Seen.Time.UTC()}
	}
	if n := e.NoHost; n != nil {
		d.NoHost = &NoHost{Total: n.Total, Fits: n.Fits}
		for _, excluded := range n.Excluded {
			d.NoHost.Excluded = append(d.NoHost.Excluded, Excluded{Reason: excluded.Reason, Hosts: excluded.Hosts})
		}
		if n.Nearest != nil {
			d.NoHost.Nearest = &Nearest{Host: n.Nearest.Host, Reasons: n.Nearest.Reasons}
		}
	}
	return d
}

// Unread returns what was not read, for other programs.
func Unread(list []why.Unread) []UnreadEntry {
	entries := make([]UnreadEntry, 0, len(list))
	for _, unread := range list {
		entries = append(entries, UnreadEntry{Kind: unread.Kind, Name: unread.Name, Cause: unread.Cause})
	}
	return entries
}

func objectOf(ref why.Ref) Object {
	return Object{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name}
}
