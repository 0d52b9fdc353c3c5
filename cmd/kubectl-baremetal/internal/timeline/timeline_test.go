package timeline

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/health"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

var start = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

// after is a time some minutes after the start.
func after(minutes int) metav1.Time {
	return metav1.NewTime(start.Add(time.Duration(minutes) * time.Minute))
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "prod", Name: name, CreationTimestamp: metav1.NewTime(start)}
}

func world() *Objects {
	host := &v1alpha1.BareMetalHost{ObjectMeta: meta("server-1"), Spec: v1alpha1.BareMetalHostSpec{ConsumerRef: &v1alpha1.ConsumerReference{Name: "m"}}}
	host.Status.LastOperation = &v1alpha1.Operation{Name: "PowerOn", StartTime: after(2), EndTime: new(after(3)), Outcome: v1alpha1.OperationFailed, Message: "busy"}
	host.Status.BMC = &v1alpha1.BMCStatus{Warnings: []string{"the clock of the BMC is 2h behind: set the time servers of the BMC"}}
	host.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonCredentialsRefused, LastTransitionTime: after(9)}}
	boot := &v1alpha1.BareMetalBoot{ObjectMeta: meta("server-1"), Spec: v1alpha1.BareMetalBootSpec{
		Number: 4, Attempt: 1, Purpose: v1alpha1.PurposeProvision, MachineName: "m", StartTime: after(4), Failure: &v1alpha1.BootFailure{Reason: "BootTimedOut", Message: "no report"},
	}}
	boot.Status.Stages = []v1alpha1.ObservedStage{
		{Stage: v1alpha1.StageLoader, Number: 4, Time: after(5), Address: "192.0.2.7"}, {Stage: v1alpha1.StageData, Number: 4, Time: after(6)},
	}
	record := v1alpha1.BareMetalErasure{ObjectMeta: meta("e"), Spec: v1alpha1.BareMetalErasureSpec{HostName: "server-1", BootNumber: 3, Report: v1alpha1.ErasureReport{
		Policy: wire.PolicyClear, StartTime: after(-30), EndTime: after(-20), Disks: []v1alpha1.ErasedDisk{{}, {}},
	}}}
	record.Spec.Report.Disks[0].Outcome = wire.Erased
	record.Labels = map[string]string{v1alpha1.ErasureHostLabel: erasure.HostLabel("server-1")}
	event := corev1.Event{
		ObjectMeta: meta("server-1.1"), InvolvedObject: corev1.ObjectReference{Kind: why.KindHost, Name: "server-1"}, Reason: controllers.EventServed, Message: "served the bootstrap data",
		EventTime: metav1.NewMicroTime(after(6).Add(time.Second)), ReportingController: "capbm", Type: corev1.EventTypeNormal,
	}
	return &Objects{Host: host, Boot: boot, Erasures: []v1alpha1.BareMetalErasure{record}, Events: []corev1.Event{event}}
}

// TestEntries: all sources are in one order, nothing is twice, and what failed is marked.
func TestEntries(t *testing.T) {
	g := NewWithT(t)
	entries := Entries(world())
	var got []string
	for _, e := range entries {
		got = append(got, string(e.Source)+" "+e.What)
	}
	g.Expect(got).To(Equal([]string{
		"erasure Erasing", "erasure Erased", "host Created", "host PowerOn", "boot Started", "boot Loader", "boot BootTimedOut", "event BootstrapDataServed", "condition Ready=False",
	}))
	g.Expect(entries[1].Message).To(Equal("1 of 2 disks, policy Clear; the record is BareMetalErasure e"))
	g.Expect(entries[3]).To(And(HaveField("Warning", true), HaveField("By", "BMC"), HaveField("Time", start.Add(3*time.Minute))))
	g.Expect(entries[6].Message).To(Equal("boot 4 failed after this: no report"))
	g.Expect(entries[8].Warning).To(BeTrue())
	g.Expect(ClockWarning(world().Host)).To(ContainSubstring("2h behind"))
	g.Expect(Select(entries, start.Add(5*time.Minute), []string{"boot"})).To(HaveLen(2))
	g.Expect(Entries(&Objects{})).To(BeEmpty())
}

// TestStagesOfOneSecond: stages of a boot in the same second are in the order of a boot.
func TestStagesOfOneSecond(t *testing.T) {
	boot := &v1alpha1.BareMetalBoot{ObjectMeta: meta("server-1")}
	for _, s := range []v1alpha1.BootStage{v1alpha1.StageAgent, v1alpha1.StageDHCP, v1alpha1.StageKernel, v1alpha1.StageLoader, v1alpha1.StageScript} {
		boot.Status.Stages = append(boot.Status.Stages, v1alpha1.ObservedStage{Stage: s, Number: 1, Time: metav1.NewTime(start)})
	}
	var got []string
	for _, e := range Entries(&Objects{Boot: boot}) {
		got = append(got, e.What)
	}
	NewWithT(t).Expect(got).To(Equal([]string{"DHCP", "Loader", "Script", "Kernel", "Agent"}))
}

// TestBMCLogEntries: the logs of a BMC have their own source, and their entries the time of the BMC's clock, not the time at which the provider recorded them. An entry that is an
// event and in the status is there once, and one without a time only as an event.
func TestBMCLogEntries(t *testing.T) {
	g := NewWithT(t)
	kept := []v1alpha1.LogEntry{
		{Time: new(after(-600)), Log: "SEL", ID: "7", Severity: wire.HealthCritical, Message: "PSU 2: input lost"}, {Log: "SEL", ID: "8", Severity: wire.HealthWarning, Message: "no time"},
		{Time: new(after(-700)), Log: "SEL", ID: "6", Severity: wire.HealthWarning, Message: "its event was deleted"},
	}
	event := func(reason, message string, at time.Time) corev1.Event {
		return corev1.Event{
			ObjectMeta: meta(reason), InvolvedObject: corev1.ObjectReference{Kind: why.KindHost, Name: "server-1"}, Reason: reason, Message: message,
			EventTime: metav1.NewMicroTime(at), ReportingController: "capbm-bmc-log", Type: corev1.EventTypeWarning,
		}
	}
	host := &v1alpha1.BareMetalHost{Status: v1alpha1.BareMetalHostStatus{Health: &v1alpha1.HealthStatus{Log: kept}}}
	o := &Objects{Host: host, Events: []corev1.Event{
		event(controllers.EventBMCLogEntry, health.Text(kept[0]), after(-600).Time), event(controllers.EventBMCLogEntry, "OK: power button (entry 5 of the log SEL)", after(-650).Time),
		event(controllers.EventBMCLogCleared, "The log SEL of the BMC was cleared, or began again", after(1).Time),
	}}
	entry := func(what, message string, minutes int) OmegaMatcher {
		return And(HaveField("Source", SourceBMC), HaveField("By", "BMC"), HaveField("Object", ""), HaveField("What", what), HaveField("Message", ContainSubstring(message)),
			HaveField("Time", BeTemporally("==", after(minutes).Time)))
	}
	g.Expect(Entries(o)).To(HaveExactElements(entry("BMCLogEntry", "Warning: its event was deleted (entry 6 of the log SEL)", -700), entry("BMCLogEntry", "power button", -650),
		entry("BMCLogEntry", "Critical: PSU 2: input lost (entry 7 of the log SEL)", -600), entry("BMCLogCleared", "cleared", 1)))
	g.Expect(Select(Entries(o), time.Time{}, []string{"bmc"})).To(HaveLen(4))
	g.Expect(Sources()).To(HaveExactElements("bmc", "boot", "condition", "erasure", "event", "host", "inspection", "settings"))
}

// TestSettingsEntries: the last settings run is in the time line. An event of the run replaces its start or its end, and one of another run does not.
func TestSettingsEntries(t *testing.T) {
	g := NewWithT(t)
	settings := &v1alpha1.BareMetalSettings{ObjectMeta: meta("server-1"), Spec: v1alpha1.BareMetalSettingsSpec{
		Number: 3, Profile: &v1alpha1.SettingsProfile{Name: "r750"}, Changes: []v1alpha1.SettingChange{{Name: "LogicalProc"}}, SecureBoot: wire.SecureBootEnabled, RequestedBy: "anna",
		StartTime: new(after(1)), StagingTime: new(after(2)), StagedTime: new(after(3)), PoweredOffTime: new(after(4)), Outcome: v1alpha1.SettingsFailed, Message: "it is still Disabled",
	}, Status: v1alpha1.BareMetalSettingsStatus{ReadTime: new(after(6)), Profile: &v1alpha1.SettingsProfile{Name: "r750"}, DifferenceCount: new(int32(1))}}
	event := func(reason, message string, minutes int) corev1.Event {
		return corev1.Event{
			ObjectMeta: meta(reason), InvolvedObject: corev1.ObjectReference{Kind: why.KindHost, Name: "server-1"}, Reason: reason, Message: message,
			EventTime: metav1.NewMicroTime(after(minutes).Time), Type: corev1.EventTypeNormal,
		}
	}
	entry := func(what, message string, minutes int) OmegaMatcher {
		return And(HaveField("Source", SourceSettings), HaveField("What", what), HaveField("Message", message), HaveField("Time", BeTemporally("==", after(minutes).Time)))
	}
	staging := entry("Staging", "run 3: the BMC gets the settings", 2)
	staged := entry("Staged", "run 3: the settings are pending at the BMC, for the next restart", 3)
	off := entry("PoweredOff", "run 3: the server was off, and is powered on with the settings", 4)
	started := And(entry("Started", "run 3 of BareMetalProfile r750: 1 attributes, Secure Boot Enabled", 1), HaveField("By", "anna"))
	read := entry("Read", "compared with BareMetalProfile r750: 1 differences", 6)
	failed := func(minutes int) OmegaMatcher {
		return And(entry("Failed", "run 3: it is still Disabled", minutes), HaveField("Warning", true))
	}
	g.Expect(Entries(&Objects{Settings: settings})).To(HaveExactElements(started, staging, staged, failed(4), off, read)) // before its end the outcome has no time
	settings.Spec.EndTime = new(after(5))
	g.Expect(Entries(&Objects{Settings: settings})).To(HaveExactElements(started, staging, staged, off, failed(5), read))

	events := []corev1.Event{
		event(controllers.EventSettingsRunStarted, "Run 3 of BareMetalProfile r750 starts: 1 attributes", 1), event(controllers.EventSettingsFailed, "Run 3: it is still Disabled", 5),
	}
	g.Expect(Select(Entries(&Objects{Settings: settings, Events: events}), time.Time{}, []string{"settings"})).To(HaveExactElements(staging, staged, off, read))
	events = []corev1.Event{
		event(controllers.EventSettingsRunStarted, "Run 30 of BareMetalProfile r750 starts: 1 attributes", 1), event(controllers.EventSettingsFailed, "Run 2: it is still Disabled", 5),
	}
	g.Expect(Select(Entries(&Objects{Settings: settings, Events: events}), time.Time{}, []string{"settings"})).To(HaveLen(6))
	g.Expect(Entries(&Objects{Settings: &v1alpha1.BareMetalSettings{}})).To(BeEmpty())
	g.Expect([]string{settingsPrefix + string(v1alpha1.SettingsApplied), settingsPrefix + string(v1alpha1.SettingsRefused), settingsPrefix + string(v1alpha1.SettingsFailed), reasonRunStarted}).
		To(HaveExactElements(controllers.EventSettingsApplied, controllers.EventSettingsRefused, controllers.EventSettingsFailed, controllers.EventSettingsRunStarted))
}

// reader has the objects of world, and may not list these kinds.
func reader(t *testing.T, forbidden ...string) client.Client {
	t.Helper()
	w := world()
	objects := []client.Object{w.Host, w.Boot, &w.Erasures[0], &w.Events[0], &corev1.Event{
		ObjectMeta: meta("other"), InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: "server-1"},
	}}
	name := func(o client.Object) []string {
		if event, ok := o.(*corev1.Event); ok {
			return []string{event.InvolvedObject.Name}
		}
		return nil
	}
	return fake.NewClientBuilder().WithScheme(access.Scheme()).WithObjects(objects...).WithIndex(&corev1.Event{}, "involvedObject.name", name).
		WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			gvk, err := c.GroupVersionKindFor(list)
			if err != nil {
				return err
			}
			for _, kind := range forbidden {
				if gvk.Kind == kind+"List" {
					return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, "", errors.New("no"))
				}
			}
			return c.List(ctx, list, options...)
		}}).Build()
}

// TestRead: what may not be read is reported and does not fail the rest. A host that was deleted still has its past.
func TestRead(t *testing.T) {
	g := NewWithT(t)
	key := client.ObjectKey{Namespace: "prod", Name: "server-1"}
	o, err := Read(t.Context(), reader(t), key)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Events).To(HaveLen(1))
	g.Expect(o.Erasures).To(HaveLen(1))
	g.Expect(o.Unread).To(BeEmpty())

	o, err = Read(t.Context(), reader(t, KindEvent, why.KindErasureRequest), key)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Unread).To(Equal([]why.Unread{{Kind: why.KindErasureRequest, Cause: why.NotPermitted}, {Kind: KindEvent, Cause: why.NotPermitted}}))
	g.Expect(Entries(o)).NotTo(BeEmpty())

	c := reader(t)
	g.Expect(c.Delete(t.Context(), &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "server-1"}})).To(Succeed())
	o, err = Read(t.Context(), c, key)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Host).To(BeNil())
	g.Expect(Entries(o)).NotTo(BeEmpty())

	_, err = Read(t.Context(), reader(t), client.ObjectKey{Namespace: "prod", Name: "none"})
	g.Expect(err).To(MatchError(ContainSubstring(`there is no BareMetalHost "none"`)))
}
