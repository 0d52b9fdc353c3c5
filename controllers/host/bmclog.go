package host

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// maxLogEntries is how many entries of a BMC's event log one request reads, the newest first. Over IPMI each is a request to the BMC.
const maxLogEntries = 20

// bmcLogReporter is the reporting controller of the events with entries of a log.
const bmcLogReporter = "capbm-bmc-log"

// bmcLog records entries of the event log of a BMC as events of the host, when a user requests it. So a reader of the log needs neither the credentials of the BMC nor a
// route to it, and nothing is stored but events, which expire.
type bmcLog struct {
	client client.Client
	clock  clock.PassiveClock
}

// record reads the newest entries and records those that are not recorded yet. A failure does not fail the job: the inventory is read.
func (l *bmcLog) record(ctx context.Context, j job, c bmc.Client) {
	log := ctrl.LoggerFrom(ctx)
	monitor, err := bmc.As[bmc.Monitor](c, "Read the event log")
	if err != nil {
		log.V(1).Info("The BMC has no event log", "error", err.Error())
		return
	}
	entries, err := monitor.Events(ctx, maxLogEntries)
	if err != nil {
		log.Info("Failed to read the event log of the BMC", "error", maskError(err).Error())
	}
	for _, entry := range entries { // those that were read before an error, too
		err := l.client.Create(ctx, logEvent(j, entry, l.clock.Now()))
		if err != nil && !apierrors.IsAlreadyExists(err) {
			log.Info("Failed to record an entry of the event log of the BMC", "error", err.Error())
			return
		}
	}
}

// logEvent returns the event of an entry. Its name is a hash of the entry, so that an entry is recorded once. It is not made with a recorder, because recorders count events of one
// reason as repetitions of the first. Its time is that of the BMC's clock.
func logEvent(j job, entry bmc.Event, now time.Time) *eventsv1.Event {
	hash := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %s", j.uid, entry.Time.UTC().Format(time.RFC3339Nano), entry.Severity, entry.Message))
	kind, note := corev1.EventTypeNormal, cmp.Or(controllers.Clip(entry.Message, controllers.MaxMessage), "The entry has no text")
	if entry.Severity == bmc.HealthWarning || entry.Severity == bmc.HealthCritical {
		kind = corev1.EventTypeWarning
	}
	at := entry.Time
	if at.IsZero() {
		at, note = now, controllers.Clip("The BMC gives no time: "+note, controllers.MaxMessage)
	}
	return &eventsv1.Event{
		ObjectMeta:          metav1.ObjectMeta{Namespace: j.key.Namespace, Name: fmt.Sprintf("bmc-log-%x", hash[:10])},
		EventTime:           metav1.NewMicroTime(at),
		ReportingController: bmcLogReporter, ReportingInstance: bmcLogReporter,
		Action: "Read", Reason: controllers.EventBMCLogEntry, Type: kind, Note: note,
		Regarding: corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "BareMetalHost", Namespace: j.key.Namespace, Name: j.key.Name, UID: j.uid},
	}
}
