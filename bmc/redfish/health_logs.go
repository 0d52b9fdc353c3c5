package redfish

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// Limits of reading logs.
const (
	maxLogServices = 12 // of one owner
	maxLogPages    = 4
	maxLogLinks    = 16 // entries at each end of a log that lists only links
)

// auditWords are parts of the names of logs that no fault of the hardware reaches: logins, boots, traces and dumps. Reading them costs most, and each request writes to some of them.
var auditWords = []string{"audit", "journal", "postcode", "dump", "diagnostic", "debug", "token", "security", "crash", "telemetry", "salog", "maintenance", "decoded"}

// auditNames are the whole names of such logs: the security log, the log of the iLO itself and that of its event service (HPE), and the flight recorder of NVIDIA.
var auditNames = []string{"SL", "IEL", "Event", "FDR"}

// logNames are the names of logs of the hardware, by preference.
var logNames = []string{"SEL", "IML", "FaultList", "PlatformLog", "Log1", "Logs", "EventLog", "XID", "ActiveLog", "Lclog"}

func isAudit(id string) bool {
	lower := strings.ToLower(id)
	return slices.Contains(auditNames, id) || slices.ContainsFunc(auditWords, func(word string) bool { return strings.Contains(lower, word) })
}

// logRank orders logs: System Event Logs first, then by name.
func logRank(r resource) int {
	if strings.EqualFold(r.text("LogEntryType"), "SEL") {
		return 0
	}
	for i, name := range logNames {
		if strings.EqualFold(r.id(), name) {
			return i + 1
		}
	}
	return len(logNames) + 1
}

// findLogs finds the logs of the system, of its BMCs and of its chassis. Vendors keep them at any of the three.
func (c *conn) findLogs(ctx context.Context) []bmc.LogSource {
	managers, _ := c.summarizedManagers(ctx)
	boxes, _ := c.summarizedChassis(ctx)
	owners := slices.Concat([]resource{c.system.resource}, managers, boxes)
	var services []resource
	for _, owner := range owners {
		path := owner.link("LogServices")
		if path == "" {
			continue
		}
		paths, _, _ := c.service.collection(ctx, path) // after an error, it returns the paths read so far
		paths = slices.DeleteFunc(paths, func(path string) bool { return isAudit(path[strings.LastIndex(path, "/")+1:]) })
		services = append(services, c.service.readAll(ctx, paths[:min(len(paths), maxLogServices)])...)
	}
	services = slices.DeleteFunc(services, func(r resource) bool {
		return isAudit(r.id()) || r.link("Entries") == "" || r.text("ServiceEnabled") == "false"
	})
	slices.SortStableFunc(services, func(a, b resource) int { return cmp.Compare(logRank(a), logRank(b)) })
	var sources []bmc.LogSource
	for _, r := range services {
		source := bmc.LogSource{Name: r.link("Entries")}
		if r.text("OverWritePolicy") == "NeverOverWrites" {
			source.Max = bounded32(r.count("MaxNumberOfRecords"))
		}
		if !slices.ContainsFunc(sources, func(s bmc.LogSource) bool { return s.Name == source.Name }) {
			sources = append(sources, source)
		}
	}
	return sources[:min(len(sources), bmc.MaxLogs)]
}

// ReadLogs reads the newest entries of logs. A log that cannot be read is omitted, unless no log can be read.
func (c *conn) ReadLogs(ctx context.Context, sources []bmc.LogSource) ([]bmc.Log, error) {
	const op = "Read the logs"
	if len(sources) > 0 {
		c.service.resetBudget()
	} else {
		if err := c.system.refresh(ctx); err != nil {
			return nil, err
		}
		sources = c.findLogs(ctx)
	}
	var (
		logs []bmc.Log
		last error
	)
	for _, source := range sources[:min(len(sources), bmc.MaxLogs)] {
		log, err := c.readLog(ctx, source)
		if err != nil {
			last = err
			continue
		}
		logs = append(logs, log)
	}
	if err := c.service.unavailable(ctx); err != nil {
		return nil, wrap(op, err)
	}
	switch {
	case len(sources) == 0:
		return nil, &bmc.Error{Kind: bmc.Unsupported, Op: op, Err: errors.New("the BMC has no log of the hardware")}
	case len(logs) == 0:
		return nil, wrap(op, last)
	default:
		return logs, nil
	}
}

// readLog reads the newest entries of a log. Services list them in either order, some in pages: of a log that is listed from old to new the last page is read.
func (c *conn) readLog(ctx context.Context, source bmc.LogSource) (bmc.Log, error) {
	path := cleanLink(source.Name)
	if path == "" {
		return bmc.Log{}, errors.New("the log has no path")
	}
	page, err := c.service.get(ctx, path)
	if err != nil {
		return bmc.Log{}, err
	}
	if !page.hasProperty("Members") {
		return bmc.Log{}, errNoMembers
	}
	count := bounded32(page.count("Members@odata.count"))
	log := bmc.Log{LogSource: source, Count: count}
	entries := c.entriesOf(ctx, page)
	if next := page.link("Members@odata.nextLink"); next != "" && !isNewestFirst(entries) {
		entries = append(entries, c.lastPages(ctx, path, next, count)...)
	}
	log.Count = max(count, len(entries))
	log.Entries = bmc.NewestFirst(entries)
	return log, nil
}

// lastPages reads the newest entries of a log that is listed from old to new: by their position if the service takes one, and otherwise page by page.
func (c *conn) lastPages(ctx context.Context, path, next string, count int) []bmc.LogEntry {
	skips := strings.Contains(next, "$skip=") || c.service.root.skips
	if skips && count > bmc.MaxLogEntries && !strings.Contains(path, "?") {
		next = fmt.Sprintf("%s?$skip=%d", path, count-bmc.MaxLogEntries)
	}
	var entries []bmc.LogEntry
	for page := 0; next != "" && page < maxLogPages; page++ {
		r := c.service.readOptional(ctx, next)
		entries = append(entries, c.entriesOf(ctx, r)...)
		next = r.link("Members@odata.nextLink")
	}
	return entries
}

// entriesOf returns the entries of a page. If the page lists only links, it reads the entries at both ends.
func (c *conn) entriesOf(ctx context.Context, page resource) []bmc.LogEntry {
	var entries []bmc.LogEntry
	for _, member := range page.list("Members") {
		if isEntry(member) {
			entries = append(entries, c.entryOf(member))
		}
	}
	if len(entries) > 0 {
		return entries
	}
	paths := page.links("Members")
	if len(paths) > 2*maxLogLinks {
		paths = slices.Concat(paths[:maxLogLinks], paths[len(paths)-maxLogLinks:])
	}
	for _, r := range c.service.readAll(ctx, paths) {
		entries = append(entries, c.entryOf(r))
	}
	return entries
}

// isEntry is true for an entry in the place of a link.
func isEntry(member resource) bool {
	return member.has("Message") || member.has("Created") || member.has("MessageId") || member.has("Severity")
}

func (c *conn) entryOf(r resource) bmc.LogEntry {
	entry := bmc.LogEntry{ID: r.id(), Message: c.service.masker.masked(cmp.Or(r.text("Message"), r.text("MessageId"), r.text("Name")))}
	for _, name := range []string{"Created", "EventTimestamp"} {
		if at, err := parseTime(r.text(name), ""); err == nil {
			entry.Time = at
			break
		}
	}
	switch severity := bmc.Health(r.text("Severity")); severity {
	case bmc.HealthOK, bmc.HealthWarning, bmc.HealthCritical:
		entry.Severity = severity
	}
	return entry
}

// isNewestFirst is true for a page whose first entry is newer than its last one.
func isNewestFirst(entries []bmc.LogEntry) bool {
	if len(entries) < 2 {
		return true
	}
	ends := []bmc.LogEntry{entries[0], entries[len(entries)-1]}
	return bmc.NewestFirst(ends)[0].ID == entries[0].ID
}
