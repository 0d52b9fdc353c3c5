package bmctest

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// core is what all parts of an emulated server share.
type core struct {
	opts   Options
	faults faults

	mu       sync.Mutex // guards the fields of all parts, except faults
	etag     int        // of the system; changes with it
	commands []Command
	events   []bmc.LogEntry // oldest first, without IDs
}

// Commands returns the commands that the BMC received, oldest first.
func (c *core) Commands() []Command {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.commands)
}

// CommandNames returns the names of the commands that the BMC received, oldest first.
func (c *core) CommandNames() []string {
	names := []string{}
	for _, command := range c.Commands() {
		names = append(names, command.Name)
	}
	return names
}

// log appends an entry to the event log. c.mu is held, or c is not shared yet.
func (c *core) log(severity bmc.Health, message string) {
	const most = 100
	c.events = append(c.events, bmc.LogEntry{Time: c.now(), Severity: severity, Message: message})
	c.events = c.events[max(0, len(c.events)-most):]
}

// now is the BMC's clock.
func (c *core) now() time.Time {
	now := time.Now().UTC()
	if c.faults.on(ClockSkew) {
		now = now.Add(-100 * 24 * time.Hour)
	}
	return now
}

// logEntries returns the event log, newest first. IDs count from 1.
func (c *core) logEntries() []bmc.LogEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := slices.Clone(c.events)
	for i := range entries {
		entries[i].ID = strconv.Itoa(i + 1)
	}
	slices.Reverse(entries)
	return entries
}
