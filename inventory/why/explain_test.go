package why

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// start is when everything in these tests began.
var start = time.Date(2026, 11, 29, 10, 0, 0, 0, time.UTC)

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "prod", Name: name, CreationTimestamp: metav1.NewTime(start)}
}

// condition is one that has its status since start.
func condition(kind string, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(start)}
}

// no is a condition that is False.
func no(kind, reason, message string) metav1.Condition {
	return condition(kind, metav1.ConditionFalse, reason, message)
}

// yes is a condition that is True.
func yes(kind, reason string) metav1.Condition {
	return condition(kind, metav1.ConditionTrue, reason, "")
}

// healthy is a chain in which nothing is waited for.
func healthy() *Objects {
	return &Objects{
		Cluster: &clusterv1.Cluster{ObjectMeta: meta("prod")},
		BareMetalCluster: &v1alpha1.BareMetalCluster{
			ObjectMeta: meta("prod"), Status: v1alpha1.BareMetalClusterStatus{Conditions: []metav1.Condition{yes("Ready", v1alpha1.ReasonEndpointSet)}},
		},
		Owner:   Owner{Kind: "MachineDeployment", Object: &clusterv1.MachineDeployment{ObjectMeta: meta("workers")}},
		Machine: &clusterv1.Machine{ObjectMeta: meta("workers-1")},
		Config: &bootstrapv1.BareMetalConfig{
			ObjectMeta: meta("workers-1"), Status: bootstrapv1.BareMetalConfigStatus{Conditions: []metav1.Condition{yes("Ready", bootstrapv1.ReasonDataSecretCreated)}},
		},
		BareMetalMachine: &v1alpha1.BareMetalMachine{ObjectMeta: meta("workers-1"), Status: v1alpha1.BareMetalMachineStatus{
			HostRef: &v1alpha1.HostReference{Name: "server-1"},
			Conditions: []metav1.Condition{
				yes(v1alpha1.HostClaimedCondition, v1alpha1.ReasonHostClaimed), yes(v1alpha1.HostBootedCondition, v1alpha1.ReasonBooted),
				yes(v1alpha1.NodeMatchedCondition, v1alpha1.ReasonNodeMatched),
			},
		}},
		Host: &v1alpha1.BareMetalHost{
			ObjectMeta: meta("server-1"), Spec: v1alpha1.BareMetalHostSpec{ConsumerRef: &v1alpha1.ConsumerReference{Name: "workers-1"}},
			Status: v1alpha1.BareMetalHostStatus{Conditions: []metav1.Condition{
				yes("Ready", "Ready"), yes(v1alpha1.BMCReadyCondition, v1alpha1.ReasonBMCReachable), yes(v1alpha1.BootedCondition, v1alpha1.ReasonBooted),
			}},
		},
		Boot: &v1alpha1.BareMetalBoot{ObjectMeta: meta("server-1"), Spec: v1alpha1.BareMetalBootSpec{
			Number: 4, Attempt: 1, Purpose: v1alpha1.PurposeProvision, MachineName: "workers-1", StartTime: metav1.NewTime(start), ReportedTime: new(metav1.NewTime(start)),
		}},
	}
}

// pending removes the host of a chain, and says why it has no host.
func pending(o *Objects, reason, message string) {
	o.Host, o.Boot, o.BareMetalMachine.Status.HostRef = nil, nil, nil
	o.BareMetalMachine.Status.Conditions = []metav1.Condition{
		no(v1alpha1.HostClaimedCondition, reason, message), no(v1alpha1.HostBootedCondition, v1alpha1.ReasonWaitingForHost, "The machine has no host yet"),
	}
}

// booting makes the host of a chain boot: it requested its boot file a minute after the start.
func booting(o *Objects) {
	o.Boot.Spec.ReportedTime = nil
	o.Boot.Status.Stage = v1alpha1.StageDHCP
	o.Boot.Status.Stages = []v1alpha1.ObservedStage{
		{Stage: v1alpha1.StageNode, Number: 3, Time: metav1.NewTime(start.Add(time.Hour))}, // of an earlier boot
		{Stage: v1alpha1.StageDHCP, Number: 4, Time: metav1.NewTime(start.Add(time.Minute)), Address: "192.0.2.7"},
	}
	o.Host.Status.Conditions = []metav1.Condition{
		no("Ready", v1alpha1.ReasonWaitingForLoader, "short"), no(v1alpha1.BootedCondition, v1alpha1.ReasonWaitingForLoader, "short"),
		no(v1alpha1.BootProgressCondition, v1alpha1.ReasonWaitingForLoader, "Boot 4, attempt 1. The server requested its boot file"),
	}
	o.BareMetalMachine.Status.Conditions[1] = no(v1alpha1.HostBootedCondition, v1alpha1.ReasonWaitingForLoader, "Boot 4, attempt 1. The server requested its boot file")
}

// TestExplain: the first object of the chain that is not as wanted has the reason.
func TestExplain(t *testing.T) {
	for name, test := range map[string]struct {
		kind   string
		change func(*Objects)
		want   Explanation // the fields that are not empty are compared
	}{
		"a machine that runs": {KindMachine, func(*Objects) {}, Explanation{
			State: Done, Wanted: "Machine workers-1 runs on a server", Command: "kubectl describe machine workers-1 -n prod",
		}},
		"a paused cluster": {KindMachine, func(o *Objects) { o.Cluster.Spec.Paused = new(true) }, Explanation{
			State: Waits, At: Ref{Kind: KindCluster, Namespace: "prod", Name: "prod"}, Reason: v1alpha1.ReasonPaused, Command: "kubectl describe cluster prod -n prod",
		}},
		"no endpoint": {KindBareMetalMachine, func(o *Objects) {
			pending(o, v1alpha1.ReasonWaitingForCluster, "Waiting for the cluster's infrastructure")
			o.BareMetalCluster.Status.Conditions = []metav1.Condition{no("Ready", v1alpha1.ReasonEndpointMissing, "Set it")}
		}, Explanation{
			State: Fault, At: Ref{Kind: KindBareMetalCluster, Namespace: "prod", Name: "prod"}, Reason: v1alpha1.ReasonEndpointMissing, Command: "kubectl edit baremetalcluster prod -n prod",
			Do: "Set spec.controlPlaneEndpoint",
		}},
		"the config knows why there is no bootstrap data": {"MachineDeployment", func(o *Objects) {
			pending(o, v1alpha1.ReasonWaitingForBootstrapData, "Waiting")
			o.Config.Status.Conditions = []metav1.Condition{no("Ready", bootstrapv1.ReasonTemplateInvalid, "line 3")}
		}, Explanation{
			State: Fault, At: Ref{Kind: KindConfig, Namespace: "prod", Name: "workers-1"}, Reason: bootstrapv1.ReasonTemplateInvalid, Message: "line 3",
			Wanted: "The machines of MachineDeployment workers run",
		}},
		"a boot in progress": {KindBareMetalMachine, booting, Explanation{
			State: Waits, At: Ref{Kind: KindHost, Namespace: "prod", Name: "server-1"}, Reason: v1alpha1.ReasonWaitingForLoader, Since: start.Add(time.Minute), Usual: time.Minute,
			WaitsFor: "the fetch of the boot loader (TFTP, or HTTP for UEFI HTTP boot)", Message: "Boot 4, attempt 1. The server requested its boot file",
			Cause:   "TFTP (UDP port 69), or HTTP, is blocked between the server and the boot server, or another DHCP server names another boot file",
			Command: "kubectl describe baremetalboot server-1 -n prod",
			Seen:    &Seen{What: "stage DHCP of boot 4, attempt 1, address 192.0.2.7", By: "DHCP", Time: start.Add(time.Minute)},
		}},
		"a boot whose stage the host does not show yet": {KindMachine, func(o *Objects) {
			booting(o)
			o.Boot.Status.Stage = v1alpha1.StageData
			o.Boot.Status.Stages = append(o.Boot.Status.Stages, v1alpha1.ObservedStage{Stage: v1alpha1.StageData, Number: 4, Time: metav1.NewTime(start.Add(3 * time.Minute))})
		}, Explanation{
			State: Waits, At: Ref{Kind: KindHost, Namespace: "prod", Name: "server-1"}, Reason: v1alpha1.ReasonWaitingForReport, Since: start.Add(3 * time.Minute),
			WaitsFor: "its report, or its Node", Message: "The operating system fetched its bootstrap data",
		}},
		"a stage of an earlier attempt": {KindHost, func(o *Objects) {
			booting(o)
			o.Boot.Spec.Number, o.Boot.Status.Stage = 5, v1alpha1.StageDHCP
			o.Host.Status.Conditions[0].Reason = v1alpha1.ReasonPreparing
		}, Explanation{State: Waits, Reason: v1alpha1.ReasonPreparing, Since: start}},
		"a boot whose host may not be read": {KindBoot, func(o *Objects) { booting(o); o.Host = nil }, Explanation{
			State: Waits, At: Ref{Kind: KindBoot, Namespace: "prod", Name: "server-1"}, Reason: v1alpha1.ReasonWaitingForLoader,
		}},
		"a machine whose host may not be read": {KindMachine, func(o *Objects) { booting(o); o.Host, o.Boot = nil, nil }, Explanation{
			State: Waits, At: Ref{Kind: KindBareMetalMachine, Namespace: "prod", Name: "workers-1"}, Reason: v1alpha1.ReasonWaitingForLoader, Since: start,
			Command: "kubectl describe baremetalmachine workers-1 -n prod",
		}},
		"a machine of which nothing may be read": {KindMachine, func(o *Objects) {
			o.BareMetalMachine, o.Host, o.Boot, o.Config = nil, nil, nil, nil
			o.Unread = []Unread{{KindConfig, "", NotFound}, {KindBareMetalMachine, "workers-1", NotPermitted}}
		}, Explanation{State: Unknown, WaitsFor: "BareMetalMachine: not permitted"}},
		"a failed boot": {KindHost, func(o *Objects) {
			o.Host.Status.Conditions = []metav1.Condition{no("Ready", v1alpha1.ReasonBootTimedOut, "The boot loader was not fetched"), no(v1alpha1.BootedCondition, v1alpha1.ReasonBootTimedOut, "")}
		}, Explanation{State: Fault, Reason: v1alpha1.ReasonBootTimedOut, Message: "The boot loader was not fetched", Command: "kubectl delete machine workers-1 -n prod"}},
		"a server that counts as running": {KindHost, func(o *Objects) {
			o.Host.Status.Conditions[2] = condition(v1alpha1.BootedCondition, metav1.ConditionTrue, v1alpha1.ReasonPowerDisputed, "Its Node is Ready")
		}, Explanation{State: Fault, Reason: v1alpha1.ReasonPowerDisputed, Command: "kubectl baremetal power status server-1 -n prod"}},
		"a quarantine after a failed boot": {KindHost, func(o *Objects) {
			o.Host.Spec.ConsumerRef = nil
			o.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: v1alpha1.ReasonBootTimedOut, Message: "three attempts", StartTime: new(metav1.NewTime(start))}
		}, Explanation{
			State: Fault, Reason: v1alpha1.ReasonBootTimedOut, Message: "three attempts", Since: start, Command: "kubectl baremetal events server-1 -n prod", Do: "Fix the cause, then run kubectl baremetal quarantine end",
			Wanted: "A machine can claim BareMetalHost server-1",
		}},
		"a quarantine with disks that were not erased": {KindHost, func(o *Objects) {
			o.Host.Spec.ConsumerRef = nil
			o.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: v1alpha1.ReasonDisksNotErased}
		}, Explanation{
			State: Fault, Reason: v1alpha1.ReasonDisksNotErased, Command: "kubectl baremetal events server-1 -n prod", Do: "Wipe the disks, then run kubectl baremetal quarantine end",
		}},
		"a deletion that waits for the BMC": {KindBareMetalMachine, func(o *Objects) {
			o.BareMetalMachine.DeletionTimestamp = new(metav1.NewTime(start))
			o.Host.Status.Conditions = []metav1.Condition{no("Ready", v1alpha1.ReasonBMCUnreachable, "timeout"), no(v1alpha1.BMCReadyCondition, v1alpha1.ReasonBMCUnreachable, "timeout")}
		}, Explanation{State: Fault, Reason: v1alpha1.ReasonBMCUnreachable, Wanted: "BareMetalMachine workers-1 is removed"}},
		"a deletion that proceeds": {KindBareMetalMachine, func(o *Objects) {
			o.BareMetalMachine.DeletionTimestamp = new(metav1.NewTime(start))
			o.Host.Status.Conditions = []metav1.Condition{no("Ready", v1alpha1.ReasonReleasing, "")}
		}, Explanation{State: Waits, Reason: v1alpha1.ReasonWaitingForRelease, Since: start, Usual: 15 * time.Minute}},
		"a Node that is not healthy": {KindMachine, func(o *Objects) {
			o.Machine.Status.Conditions = []metav1.Condition{no(clusterv1.MachineNodeHealthyCondition, "NodeNotReady", "kubelet stopped")}
		}, Explanation{State: Fault, At: Ref{Kind: KindMachine, Namespace: "prod", Name: "workers-1"}, Reason: "NodeNotReady", Message: "kubelet stopped"}},
		"a host that is changed": {KindHost, func(o *Objects) {
			o.Host.Spec.ConsumerRef = nil
			o.Host.Status.Conditions = []metav1.Condition{
				no("Ready", v1alpha1.ReasonConfiguring, "short"), no(v1alpha1.AvailableCondition, v1alpha1.ReasonConfiguring, "The settings are pending at the BMC"),
			}
		}, Explanation{
			State: Waits, Reason: v1alpha1.ReasonConfiguring, Since: start, Usual: 30 * time.Minute, Message: "The settings are pending at the BMC",
			Command: "kubectl describe baremetalsettings server-1 -n prod",
		}},
		"a quarantine after settings that were not applied": {KindHost, func(o *Objects) {
			o.Host.Spec.ConsumerRef = nil
			o.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: v1alpha1.ReasonSettingsNotApplied, Message: "Run 3 failed", StartTime: new(metav1.NewTime(start))}
		}, Explanation{
			State: Fault, Reason: v1alpha1.ReasonSettingsNotApplied, Message: "Run 3 failed", Since: start, Command: "kubectl baremetal events server-1 -n prod",
		}},
		"a profile": {KindProfile, func(o *Objects) {
			o.Profile = &v1alpha1.BareMetalProfile{ObjectMeta: meta("r750"), Status: v1alpha1.BareMetalProfileStatus{
				Conditions: []metav1.Condition{no("Ready", v1alpha1.ReasonProfileStopped, "1 of 3 hosts have the settings")},
			}}
		}, Explanation{
			State: Fault, At: Ref{Kind: KindProfile, Namespace: "prod", Name: "r750"}, Reason: v1alpha1.ReasonProfileStopped, Command: "kubectl get baremetalsettings -n prod",
			Wanted: "The hosts of BareMetalProfile r750 have its firmware settings",
		}},
		"the settings of a host": {KindSettings, func(o *Objects) {
			o.Settings = &v1alpha1.BareMetalSettings{ObjectMeta: meta("server-1"), Status: v1alpha1.BareMetalSettingsStatus{
				Conditions: []metav1.Condition{no(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsDiffer, "LogicalProc is Disabled")},
			}}
		}, Explanation{
			State: Waits, At: Ref{Kind: KindSettings, Namespace: "prod", Name: "server-1"}, Reason: v1alpha1.ReasonSettingsDiffer, Message: "LogicalProc is Disabled",
			Command: "kubectl describe baremetalsettings server-1 -n prod",
		}},
		"a new host": {KindHost, func(o *Objects) { o.Host.Status.Conditions = nil }, Explanation{
			State: Waits, WaitsFor: "The provider has not reported on this object yet", Since: start, Command: "kubectl logs deployment/capbm-controller-manager -n capbm-system",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := healthy()
			test.change(o)
			got, ok := Explain(test.kind, o)
			g.Expect(ok).To(BeTrue())
			for _, field := range []struct {
				name      string
				got, want any
				isSet     bool
			}{
				{"State", got.State, test.want.State, true},
				{"At", plainRef(got.At), test.want.At, test.want.At != Ref{}},
				{"Reason", got.Reason, test.want.Reason, test.want.Reason != ""},
				{"Wanted", got.Wanted, test.want.Wanted, test.want.Wanted != ""},
				{"WaitsFor", got.WaitsFor, test.want.WaitsFor, test.want.WaitsFor != ""},
				{"Since", got.Since, test.want.Since, !test.want.Since.IsZero()},
				{"Usual", got.Usual, test.want.Usual, test.want.Usual != 0},
				{"Message", got.Message, test.want.Message, test.want.Message != ""},
				{"Cause", got.Cause, test.want.Cause, test.want.Cause != ""},
				{"Do", got.Do, test.want.Do, test.want.Do != ""},
				{"Command", got.Command, test.want.Command, test.want.Command != ""},
				{"Seen", got.Seen, test.want.Seen, test.want.Seen != nil},
			} {
				if field.isSet {
					g.Expect(field.got).To(Equal(field.want), field.name)
				}
			}
		})
	}
}

func plainRef(ref Ref) Ref { return Ref{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name} }

// TestStrangeOwner: an owner of a Machine that has the kind of another object of the chain is not taken for it.
func TestStrangeOwner(t *testing.T) {
	for _, kind := range ownKinds {
		g := NewWithT(t)
		o := &Objects{Machine: &clusterv1.Machine{ObjectMeta: meta("workers-1")}, Owner: Owner{Kind: kind, Object: &clusterv1.MachineSet{ObjectMeta: meta("strange")}}}
		got, ok := Explain(KindMachine, o)
		g.Expect(ok).To(BeTrue())
		g.Expect(got.Command).NotTo(ContainSubstring("strange"))
		_, ok = Explain(kind, o)
		g.Expect(ok).To(Equal(kind == KindMachine))
	}
}

// TestExplainNeedsSubject: an object that was not read is not explained.
func TestExplainNeedsSubject(t *testing.T) {
	_, ok := Explain(KindMachine, &Objects{})
	NewWithT(t).Expect(ok).To(BeFalse())
}

// TestChecks: what the checks of a server found is a fault of a host that nothing else is wrong with, the health first. Of a machine only the health is; of what has several
// machines none is, since the hosts of the others were not read. What is not explained is a note.
func TestChecks(t *testing.T) {
	disk := no(v1alpha1.HardwareHealthyCondition, v1alpha1.ReasonDiskUnhealthy, "disk 3 has failed")
	contradicts := no(v1alpha1.InspectionConsistentCondition, v1alpha1.ReasonInspectionContradicts, "other MAC addresses")
	warnings := no(v1alpha1.PreflightPassedCondition, v1alpha1.ReasonPreflightWarnings, "TLS")
	const aboutDisk, aboutTLS, aboutMACs = "DiskUnhealthy: disk 3 has failed", "PreflightWarnings: TLS", "Contradicts: other MAC addresses"
	for name, test := range map[string]struct {
		kind   string
		change func(*Objects)
		found  []metav1.Condition
		reason string
		notes  []string
	}{
		"all of a host":         {KindHost, nil, []metav1.Condition{warnings, contradicts, disk}, v1alpha1.ReasonDiskUnhealthy, []string{aboutMACs, aboutTLS}},
		"contradictions":        {KindHost, nil, []metav1.Condition{warnings, contradicts}, v1alpha1.ReasonInspectionContradicts, []string{aboutTLS}},
		"warnings":              {KindHost, nil, []metav1.Condition{warnings}, "", []string{aboutTLS}},
		"a boot":                {KindBoot, nil, []metav1.Condition{disk}, v1alpha1.ReasonDiskUnhealthy, nil},
		"a machine":             {KindMachine, nil, []metav1.Condition{disk, warnings}, v1alpha1.ReasonDiskUnhealthy, []string{aboutTLS}},
		"warnings of a machine": {KindBareMetalMachine, nil, []metav1.Condition{warnings}, "", []string{aboutTLS}},
		"a Cluster":             {KindCluster, nil, []metav1.Condition{disk}, "", nil},
		"a MachineDeployment":   {"MachineDeployment", nil, []metav1.Condition{disk}, "", nil},
		"a host that boots":     {KindHost, booting, []metav1.Condition{disk}, v1alpha1.ReasonWaitingForLoader, []string{aboutDisk}},
		"a Node that is missing": {KindMachine, func(o *Objects) {
			o.Machine.Status.Conditions = []metav1.Condition{no(clusterv1.MachineNodeHealthyCondition, "NodeNotReady", "")}
		}, []metav1.Condition{disk}, "NodeNotReady", []string{aboutDisk}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			o := healthy()
			if test.change != nil {
				test.change(o)
			}
			o.Host.Status.Conditions = append(o.Host.Status.Conditions, test.found...)
			got, ok := Explain(test.kind, o)
			g.Expect(ok).To(BeTrue())
			g.Expect(got.Reason).To(Equal(test.reason))
			g.Expect(got.Notes).To(Equal(test.notes))
			if test.reason == "" {
				g.Expect(got.State).To(Equal(Done))
			}
		})
	}
}

// TestRemedies: the message of Ready counts where it says more than the condition that it copies, a link to further reading is no part of a remedy, and a refused login is corrected
// in the Secret.
func TestRemedies(t *testing.T) {
	g := NewWithT(t)
	o := healthy()
	o.Host.Spec.BMC.CredentialsSecretName = "server-1-bmc"
	o.Host.Status.Conditions = []metav1.Condition{
		no("Ready", v1alpha1.ReasonCredentialsRefused, "401. The annotation release-unfenced releases it"), no(v1alpha1.BMCReadyCondition, v1alpha1.ReasonCredentialsRefused, "401"),
	}
	e, _ := Explain(KindHost, o)
	g.Expect(e.Message).To(ContainSubstring("release-unfenced"))
	g.Expect(e.Command).To(HavePrefix("kubectl edit secret server-1-bmc "))
	g.Expect(Plain("Wait; [stages and likely causes](boot-stages.md)")).To(Equal("Wait"))
	g.Expect(Plain("[Replace it](../guides/x.md). The agent waits")).To(Equal("Replace it. The agent waits"))
}

// TestNoHost: for a machine without a host each host is counted by what excludes it, and the next command shows the nearest one.
func TestNoHost(t *testing.T) {
	g := NewWithT(t)
	o := healthy()
	pending(o, v1alpha1.ReasonNoHostFits, "None of 3 hosts fits")
	o.BareMetalMachine.Spec.Hardware.CPU = 64
	o.Machine.Spec.FailureDomain = "r1"
	available := []metav1.Condition{yes(v1alpha1.AvailableCondition, v1alpha1.ReasonAvailable), yes(v1alpha1.VerifiedCondition, v1alpha1.ReasonVerified)}
	host := func(name, domain string, cpu int32) v1alpha1.BareMetalHost {
		h := v1alpha1.BareMetalHost{ObjectMeta: meta(name)}
		h.Spec.FailureDomain, h.Status.Conditions, h.Status.Hardware = domain, available, &v1alpha1.Hardware{}
		h.Status.Hardware.CPU.Threads = cpu
		return h
	}
	claimed := host("server-3", "r1", 64)
	claimed.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "other"}
	o.Hosts, o.HostsRead = []v1alpha1.BareMetalHost{host("server-1", "r2", 32), host("server-2", "r1", 32), claimed}, true
	got, _ := Explain(KindBareMetalMachine, o)
	g.Expect(got.State).To(Equal(Fault))
	g.Expect(got.NoHost.Total).To(Equal(3))
	g.Expect(got.NoHost.Excluded).To(ConsistOf(
		claim.Exclusion{Reason: `not in failure domain "r1"`, Hosts: 1}, claim.Exclusion{Reason: "with less than 64 CPUs", Hosts: 1}, claim.Exclusion{Reason: "claimed by another machine", Hosts: 1},
	))
	g.Expect(got.NoHost.Nearest.Host).To(Equal("server-2"))
	g.Expect(got.Cause).To(And(HavePrefix("None of 3 hosts fits: "), HaveSuffix(`The nearest is "server-2": with less than 64 CPUs`)))
	g.Expect(got.Command).To(Equal("kubectl describe baremetalhost server-2 -n prod"))

	o.Hosts = append(o.Hosts, host("server-4", "r1", 64))
	got, _ = Explain(KindBareMetalMachine, o)
	g.Expect(got.NoHost.Fits).To(Equal("server-4"))

	o.HostsRead = false
	got, _ = Explain(KindBareMetalMachine, o)
	g.Expect(got.NoHost).To(BeNil())
	g.Expect(got.Command).To(Equal("kubectl get baremetalhosts -n prod -o wide"))
}

// TestNotes: what the explanation is not about is a note.
func TestNotes(t *testing.T) {
	g := NewWithT(t)
	o := healthy()
	o.Host.Status.Conditions = append(o.Host.Status.Conditions, no(v1alpha1.SettingsConformCondition, v1alpha1.ReasonSettingsRefused, "a typing error"),
		no(v1alpha1.HardwareHealthyCondition, v1alpha1.ReasonFanUnhealthy, "Fan 2"))
	got, _ := Explain(KindHost, o)
	g.Expect(got.Reason).To(Equal(v1alpha1.ReasonFanUnhealthy))
	g.Expect(got.Notes).To(Equal([]string{"SettingsRefused: a typing error"}))
	o.Host.Status.Conditions[0] = no("Ready", v1alpha1.ReasonSettingsRefused, "")
	got, _ = Explain(KindHost, o)
	g.Expect(got.Notes).To(Equal([]string{"FanUnhealthy: Fan 2"}))

	o = healthy()
	o.Host.Spec.Quarantine = &v1alpha1.Quarantine{Reason: "Smoke", Message: "rack 3"}
	o.Boot = &v1alpha1.BareMetalBoot{ObjectMeta: meta("server-1"), Spec: v1alpha1.BareMetalBootSpec{Number: 2, Attempt: 2}}
	got, _ = Explain(KindHost, o)
	g.Expect(got.Notes).To(Equal([]string{
		"Quarantine Smoke, which counts when the machine has released the host: rack 3", "This is attempt 2 of the boot: the one before it failed",
	}))

	o = healthy()
	o.Host.Annotations = map[string]string{v1alpha1.PowerCyclePrefix + "anna": "anna: hangs", "a": "b"}
	got, _ = Explain(KindHost, o)
	g.Expect(got.Notes).To(HaveExactElements(HaveSuffix("power-cycle.baremetalhost.infrastructure.cluster.x-k8s.io/anna requests: anna: hangs")))

	o = healthy()
	o.Host.UID, o.Host.Spec.ConsumerRef, o.Host.Spec.Quarantine = "u", nil, &v1alpha1.Quarantine{Reason: "Smoke"}
	request := func(name, host, uid, reason string) v1alpha1.BareMetalErasureRequest {
		r := v1alpha1.BareMetalErasureRequest{ObjectMeta: meta(name)}
		r.Spec = v1alpha1.BareMetalErasureRequestSpec{HostName: host, HostUID: uid, Policy: wire.PolicyClear, ExpireTime: metav1.NewTime(start)}
		r.Status.Conditions = []metav1.Condition{no(v1alpha1.ErasedCondition, reason, "")}
		return r
	}
	o.ErasureRequests = []v1alpha1.BareMetalErasureRequest{
		request("waits", "server-1", "u", v1alpha1.ReasonHostWaits), request("expired", "server-1", "u", v1alpha1.ReasonRequestExpired),
		request("of-the-one-before", "server-1", "v", v1alpha1.ReasonHostWaits), request("of-another", "server-2", "u", v1alpha1.ReasonHostWaits),
	}
	got, _ = Explain(KindHost, o)
	g.Expect(got.Notes).To(HaveExactElements(HavePrefix("BareMetalErasureRequest waits erases its disks (Clear) when the host is ready, unless it expires before, at ")))
}

// TestCompare: what needs attention comes first, and of two such objects the one that waits longest.
func TestCompare(t *testing.T) {
	g := NewWithT(t)
	now := start.Add(time.Hour)
	order := []*Explanation{
		{State: Fault, Since: start}, {State: Fault, Since: start.Add(time.Minute)}, {State: Waits, Usual: time.Minute, Since: start}, {State: Unknown},
		{State: Waits, Usual: time.Hour, Since: start}, {State: Waits, Since: start, Subject: Ref{Name: "b"}}, {State: Done},
	}
	for i := range order[1:] {
		g.Expect(Compare(order[i], order[i+1], now)).To(Equal(-1), "%d", i)
	}
	g.Expect(order[2].NeedsAction(now)).To(BeTrue())
	g.Expect(order[4].NeedsAction(now)).To(BeFalse())
}
