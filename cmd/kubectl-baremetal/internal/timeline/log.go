package timeline

import (
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// SourceLog are the newest warnings and critical entries of the logs of the BMC, which the status of the host keeps. Their times are those of the BMC's clock.
const SourceLog Source = "log"

// logEntries are the entries of the logs of the BMC. An entry without a time has no place in the time line, and is left to the status.
func logEntries(h *v1alpha1.BareMetalHost) []Entry {
	if h == nil || h.Status.Health == nil {
		return nil
	}
	var entries []Entry
	for i := range h.Status.Health.Log {
		l := &h.Status.Health.Log[i]
		e := at(l.Time, SourceLog, string(l.Severity), strings.TrimSpace(l.Message+" (entry "+l.ID+" of "+l.Log+")"))
		e.By, e.Warning = "BMC", true
		entries = append(entries, e)
	}
	return entries
}
