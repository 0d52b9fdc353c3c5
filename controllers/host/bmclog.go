package host

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/metrics"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/health"
)

// maxLogText is the maximum length of a text of a log entry, and maxLogID that of its ID, in the status and in events.
const (
	maxLogText = 256
	maxLogID   = 64
)

// maxRequestedEntries is how many entries of all logs become events when a user requests it, the newest ones.
const maxRequestedEntries = 20

// bmcLogReporter is the reporting controller of the events that are entries of a log.
const bmcLogReporter = "capbm-bmc-log"

// readRequestedLogs reads the logs because a user requested it. The time for the read of the power state stays reserved.
func (e *jobExecutor) readRequestedLogs(ctx context.Context, j job, c bmc.Client) error {
	reader, err := bmc.As[bmc.HealthReader](c, "Read the logs")
	if err != nil {
		return onlyRefused(ctx, err)
	}
	reading, cancel := withReserve(ctx)
	defer cancel()
	return e.readLogs(reading, j, reader)
}

// readLogs reads the logs of a BMC, and records what is new in them. If a user requested the job, the newest entries of every severity become events, too.
func (e *jobExecutor) readLogs(ctx context.Context, j job, reader bmc.HealthReader) error {
	var sources []bmc.LogSource
	if !j.requested { // a request needs the entries before the newest known one, too
		known := e.observations.get(j.key)
		for _, s := range known.health.Logs.Sources() {
			sources = append(sources, bmc.LogSource{Name: s.Name, Max: s.Max, Newest: s.Newest})
		}
	}
	logs, err := reader.ReadLogs(ctx, sources)
	var (
		news      health.News
		requested []v1alpha1.LogEntry
	)
	e.observations.updateByJob(j, func(h *hostObservation) {
		if h.replacement != nil {
			return // the logs are those of another server
		}
		news = h.health.Logs.Note(logsOf(logs), e.clock.Now())
		if len(news.Entries) > 0 {
			h.health.ReadDetailsSoon()
			h.bmc.Health.Soon = true
		}
		if j.requested {
			requested = health.Entries(logsOf(bmc.Newest(logs, maxRequestedEntries)))
		}
	})
	for severity, n := range news.Severe {
		metrics.BMCLogEntries(severity, n)
	}
	e.events.recordLogEvents(ctx, j, news, requested)
	return onlyRefused(ctx, err)
}

// logsOf returns logs with texts that fit the API.
func logsOf(logs []bmc.Log) []health.Log {
	out := make([]health.Log, 0, len(logs))
	for _, log := range logs[:min(len(logs), bmc.MaxLogs)] {
		l := health.Log{Name: controllers.Clip(log.Name, controllers.MaxText), Max: log.Max, Count: log.Count}
		if l.Name != log.Name {
			continue // it could not be found again by this name
		}
		for _, e := range log.Entries[:min(len(log.Entries), bmc.MaxLogEntries)] {
			l.Entries = append(l.Entries, health.Entry{
				ID: controllers.Clip(e.ID, maxLogID), Time: validTime(e.Time), Severity: controllers.HealthOf(e.Severity), Message: controllers.Clip(e.Message, maxLogText),
			})
		}
		out = append(out, l)
	}
	return out
}

// validTime returns a time that the API can show: the year has four digits (RFC 3339). Others are unknown.
func validTime(at time.Time) time.Time {
	if at.Year() < 1970 || at.Year() > 9999 {
		return time.Time{}
	}
	return at.UTC()
}

// recordLogEvents records what is new in the logs of a BMC, and the entries that a user requested.
func (r *eventRecorder) recordLogEvents(ctx context.Context, j job, news health.News, requested []v1alpha1.LogEntry) {
	host := hostOf(j)
	r.recordLogEntries(ctx, j, slices.Concat(news.Entries, requested))
	if n := news.Omitted; n > 0 {
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventBMCLogEntry, actionFor(strconv.Itoa(n)), "%d further entries of the BMC's logs have no event of their own", n)
	}
	for _, log := range news.Cleared {
		r.recordEvent(host, corev1.EventTypeNormal, controllers.EventBMCLogCleared, "Observe", "The log %s of the BMC was cleared, or began again", log)
	}
	for _, log := range news.Full {
		r.recordEvent(host, corev1.EventTypeWarning, controllers.EventBMCLogFull, "Observe",
			"The log %s of the BMC is nearly full (%d entries at most), and takes no entry when it is. Save it, then clear it with %s", log.Name, log.Max, clearCommand(log.Name))
	}
}

// recordLogEntries records entries of logs, each once.
func (r *eventRecorder) recordLogEntries(ctx context.Context, j job, entries []v1alpha1.LogEntry) {
	if r.recorder == nil {
		return
	}
	for _, entry := range entries {
		err := r.client.Create(ctx, logEvent(j, entry, r.clock.Now()))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			ctrl.LoggerFrom(ctx).Info("Failed to record entries of the logs of a BMC", "error", err.Error())
			return
		}
	}
}

// logEvent returns the event of an entry. Its name is a hash of the entry, so that an entry is one event, whether it was new or requested, and also if another process recorded it. It is not made
// with a recorder, because recorders count events of one reason as repetitions of the first. Its time is that of the BMC's clock.
func logEvent(j job, entry v1alpha1.LogEntry, now time.Time) *eventsv1.Event {
	kind, note, at := corev1.EventTypeNormal, health.Text(entry), now
	if health.IsSevere(entry.Severity) {
		kind = corev1.EventTypeWarning
	}
	written := ""
	if entry.Time == nil {
		note = "The BMC gives no time: " + note
	} else {
		at, written = entry.Time.Time, entry.Time.UTC().Format(time.RFC3339)
	}
	hash := sha256.Sum256(fmt.Appendf(nil, "%s %s %s", j.uid, written, note))
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: j.key.Namespace, Name: fmt.Sprintf("bmc-log-%x", hash[:10])},
		EventTime:           metav1.NewMicroTime(at),
		ReportingController: bmcLogReporter, ReportingInstance: bmcLogReporter,
		Action: "Observe", Reason: controllers.EventBMCLogEntry, Type: kind, Note: note,
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BareMetalHost", Namespace: j.key.Namespace, Name: j.key.Name, UID: j.uid},
	}
}

// clearCommand returns what clears a log. The provider does not clear logs.
func clearCommand(log string) string {
	if path, ok := strings.CutSuffix(log, "/Entries"); ok {
		return "a POST to " + path + "/Actions/LogService.ClearLog"
	}
	return "ipmitool sel clear"
}
