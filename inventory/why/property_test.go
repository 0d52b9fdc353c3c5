package why

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

// password is in messages, as a BMC or a download may quote it in a URL.
const password = "hunter2"

// allReasons are all reasons of the table, and some that it does not have.
func allReasons() []string {
	reasons := []string{"NodeNotReady", "OfALaterVersion", "Ready", ""}
	for _, table := range Tables() {
		for i := range table.Rows {
			reasons = append(reasons, table.Rows[i].Reason)
		}
	}
	return reasons
}

// drawing draws the objects of a chain.
type drawing struct {
	*rapid.T
	reasons []string
}

func (d drawing) flip(label string) bool { return rapid.Bool().Draw(d.T, label) }

// text is what objects quote from elsewhere.
func (d drawing) text() string {
	return rapid.SampledFrom([]string{
		"", "It waits", "GET https://admin:" + password + "@192.0.2.1/redfish: EOF", "https://admin:\u200b" + password + "\x00@bmc", "\x1b[2J\u202eevil\r\n", strings.Repeat("ü", MaxText),
		"a broken \xff text", "oci://registry/image@sha256:00",
	}).Draw(d.T, "text")
}

func (d drawing) meta(name string) metav1.ObjectMeta {
	m := meta("obj-" + name)
	if rapid.IntRange(0, 5).Draw(d.T, "deleting") == 0 {
		m.DeletionTimestamp = new(metav1.NewTime(start))
	}
	if rapid.IntRange(0, 9).Draw(d.T, "paused") == 0 {
		m.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	}
	return m
}

func (d drawing) conditions(kinds ...string) []metav1.Condition {
	var drawn []metav1.Condition
	for _, kind := range kinds {
		if d.flip("has " + kind) {
			status := rapid.SampledFrom([]metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}).Draw(d.T, "status")
			drawn = append(drawn, condition(kind, status, rapid.SampledFrom(d.reasons).Draw(d.T, "reason"), d.text()))
		}
	}
	return drawn
}

func (d drawing) boot() *v1alpha1.BareMetalBoot {
	stage := rapid.SampledFrom([]v1alpha1.BootStage{
		"", v1alpha1.StageStarted, v1alpha1.StageDHCP, v1alpha1.StageMedia, v1alpha1.StageKernel, v1alpha1.StageAgent, v1alpha1.StageData, v1alpha1.StageAgentDone, v1alpha1.StageNode,
	}).Draw(d.T, "stage")
	b := &v1alpha1.BareMetalBoot{ObjectMeta: d.meta("host")}
	b.Spec = v1alpha1.BareMetalBootSpec{
		Number: rapid.Int32Range(0, 2).Draw(d.T, "number"), Agent: d.flip("agent"), StartTime: metav1.NewTime(start),
		Purpose: rapid.SampledFrom([]v1alpha1.BootPurpose{"", v1alpha1.PurposeProvision, v1alpha1.PurposeClean, v1alpha1.PurposeInspect, v1alpha1.PurposeConfigure}).Draw(d.T, "purpose"),
		Method:  rapid.SampledFrom([]v1alpha1.BootMethod{"", v1alpha1.MethodUefiHTTP, v1alpha1.MethodVirtualMedia}).Draw(d.T, "method"),
	}
	if d.flip("failed") {
		b.Spec.Failure = &v1alpha1.BootFailure{Reason: rapid.SampledFrom(d.reasons).Draw(d.T, "failure"), Message: d.text()}
	}
	if b.Status.Stage = stage; stage != "" {
		b.Status.Stages = []v1alpha1.ObservedStage{{Stage: stage, Number: 1, Time: metav1.NewTime(start)}}
	}
	return b
}

func (d drawing) host() *v1alpha1.BareMetalHost {
	h := &v1alpha1.BareMetalHost{ObjectMeta: d.meta("host")}
	h.Status.Conditions = d.conditions("Ready", v1alpha1.BMCReadyCondition, v1alpha1.VerifiedCondition, v1alpha1.AvailableCondition, v1alpha1.BootedCondition,
		v1alpha1.BootProgressCondition, v1alpha1.HardwareHealthyCondition, v1alpha1.PreflightPassedCondition, v1alpha1.InspectionConsistentCondition,
		v1alpha1.SettingsConformCondition, clusterv1.PausedCondition)
	if d.flip("claimed") {
		h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "not-read"}
	}
	if d.flip("quarantine") {
		h.Spec.Quarantine = &v1alpha1.Quarantine{Reason: rapid.SampledFrom(d.reasons).Draw(d.T, "quarantine reason"), Message: d.text()}
	}
	if d.flip("operation") {
		h.Status.LastOperation = &v1alpha1.Operation{Name: "PowerOn", StartTime: metav1.NewTime(start), Message: d.text()}
	}
	return h
}

func (d drawing) objects() *Objects {
	o := &Objects{HostsRead: d.flip("hosts read")}
	if d.flip("cluster") {
		o.Cluster = &clusterv1.Cluster{ObjectMeta: d.meta("cluster"), Status: clusterv1.ClusterStatus{Conditions: d.conditions(clusterv1.AvailableCondition)}}
	}
	if d.flip("infra") {
		o.BareMetalCluster = &v1alpha1.BareMetalCluster{ObjectMeta: d.meta("infra"), Status: v1alpha1.BareMetalClusterStatus{Conditions: d.conditions("Ready")}}
	}
	if d.flip("owner") {
		o.Owner = Owner{"MachineSet", &clusterv1.MachineSet{ObjectMeta: d.meta("owner"), Status: clusterv1.MachineSetStatus{Conditions: d.conditions(clusterv1.AvailableCondition)}}}
	}
	if d.flip("machine") {
		o.Machine = &clusterv1.Machine{ObjectMeta: d.meta("machine"), Status: clusterv1.MachineStatus{Conditions: d.conditions("Ready", "NodeHealthy", "Deleting")}}
	}
	if d.flip("config") {
		o.Config = &bootstrapv1.BareMetalConfig{ObjectMeta: d.meta("config"), Status: bootstrapv1.BareMetalConfigStatus{Conditions: d.conditions("Ready")}}
	}
	if d.flip("infra machine") {
		o.BareMetalMachine = &v1alpha1.BareMetalMachine{ObjectMeta: d.meta("baremetalmachine"), Status: v1alpha1.BareMetalMachineStatus{
			Conditions: d.conditions(v1alpha1.HostClaimedCondition, v1alpha1.HostBootedCondition, v1alpha1.NodeMatchedCondition, v1alpha1.DeletingCondition),
		}}
	}
	if d.flip("host") {
		o.Host = d.host()
		o.Hosts = []v1alpha1.BareMetalHost{*o.Host}
	}
	if d.flip("boot") {
		o.Boot = d.boot()
	}
	if d.flip("remediation") {
		o.Remediation = &v1alpha1.BareMetalRemediation{ObjectMeta: d.meta("remediation"), Status: v1alpha1.BareMetalRemediationStatus{Conditions: d.conditions("Ready")}}
	}
	if d.flip("request") {
		o.ErasureRequest = &v1alpha1.BareMetalErasureRequest{ObjectMeta: d.meta("request"), Status: v1alpha1.BareMetalErasureRequestStatus{Conditions: d.conditions(v1alpha1.ErasedCondition)}}
	}
	if d.flip("template") {
		o.MachineTemplate = &v1alpha1.BareMetalMachineTemplate{ObjectMeta: d.meta("template"), Status: v1alpha1.BareMetalMachineTemplateStatus{Conditions: d.conditions("Ready")}}
	}
	if d.flip("profile") {
		o.Profile = &v1alpha1.BareMetalProfile{ObjectMeta: d.meta("profile"), Status: v1alpha1.BareMetalProfileStatus{Conditions: d.conditions("Ready")}}
	}
	if d.flip("settings") {
		o.Settings = &v1alpha1.BareMetalSettings{ObjectMeta: d.meta("host"), Status: v1alpha1.BareMetalSettingsStatus{Conditions: d.conditions(v1alpha1.SettingsConformCondition)}}
	}
	if d.flip("unread") {
		cause := rapid.SampledFrom([]UnreadCause{NotFound, NotPermitted, NotInstalled}).Draw(d.T, "cause")
		o.Unread = []Unread{{KindBareMetalMachine, "obj-not-read", cause}}
	}
	return o
}

// TestExplanationsAreComplete: whatever was read, an Explanation says what is wanted and, unless it is Done, what is waited for and the likeliest cause. Its command names
// only objects that were read, and its texts are safe to print and have no password.
func TestExplanationsAreComplete(t *testing.T) {
	reasons := allReasons()
	name := regexp.MustCompile(`obj-[a-z-]+`)
	rapid.Check(t, func(t *rapid.T) {
		o := drawing{t, reasons}.objects()
		var names []string
		for _, ref := range o.refs() {
			names = append(names, ref.Name)
		}
		for _, ref := range o.refs() {
			e, ok := Explain(ref.Kind, o)
			if !ok {
				t.Fatalf("%s was read, and is not explained", ref.Kind)
			}
			if isDone := e.State == Done; e.Wanted == "" || (e.WaitsFor == "") != isDone || (e.Cause == "") != isDone {
				t.Fatalf("incomplete: %+v", e)
			}
			if e.Command == "" || strings.ContainsAny(e.Command, "{}") {
				t.Fatalf("no command: %+v", e)
			}
			for _, named := range name.FindAllString(e.Command, -1) {
				if !slices.Contains(names, named) {
					t.Fatalf("%q names an object that was not read", e.Command)
				}
			}
			texts := append([]string{e.Wanted, e.WaitsFor, e.Message, e.Cause, e.Do, e.Command}, e.Notes...)
			if e.Seen != nil {
				texts = append(texts, e.Seen.What, e.Seen.By)
			}
			for _, text := range texts {
				checkText(t, text)
			}
			_ = e.NeedsAction(start.Add(time.Hour))
		}
	})
}

func checkText(t *rapid.T, text string) {
	if len(text) > MaxText || !utf8.ValidString(text) || strings.Contains(text, password) {
		t.Fatalf("a text that must not be shown: %q", text)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Fatalf("a text that is not safe to print: %q", text)
	}
}

// TestClean: the credentials of a URL go, and what only looks like them stays.
func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		"https://admin:pw@bmc/redfish":   "https://bmc/redfish",
		"a\nb\tc\x1b[2J":                 "a b c[2J",
		"oci://registry/image@sha256:00": "oci://registry/image@sha256:00",
		" https://admin:p\u200bw@bmc ":   "https://bmc", //nolint:gocritic // spaces around it are removed
		":\u200b//admin:pw@bmc":          "://bmc",
		strings.Repeat("ü", MaxText):     strings.Repeat("ü", (MaxText-3)/2) + "...",
	} {
		if got := clean(text); got != want {
			t.Errorf("clean(%q) = %q, want %q", text, got, want)
		}
	}
}
