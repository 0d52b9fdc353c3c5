package lifecycle

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

func seen(stage v1alpha1.BootStage) func(*View) {
	return func(v *View) {
		v.Observed.Furthest = v1alpha1.ObservedStage{
			Stage: stage, Number: 1, Time: metav1.NewTime(noon.Add(-20 * time.Second)), Address: "192.0.2.7", Client: "PXE, EFI x86-64",
		}
	}
}

func failed(v *View) {
	v.Host.Boot.Failure = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonBootTimedOut, Message: "30m0s after"}
}

func TestBootProgress(t *testing.T) {
	const by = " at 2026-01-01T11:59:40Z (192.0.2.7, PXE, EFI x86-64). Awaited until 2026-01-01T12:29:00Z: "
	for name, test := range map[string]struct {
		view     View
		complete bool
		reason   string
		message  string // a part of the message
	}{
		"no boot yet":       {claimedView(func(v *View) { v.Consumer.BootstrapReady = false }), false, "", ""},
		"free":              {freeView(), false, "", ""},
		"a boot begins":     {claimedView(), false, v1alpha1.ReasonPreparing, "Boot attempt 1. The server is being prepared: power off, boot override, power on. Awaited until 2026-01-01T12:30:00Z"},
		"prepared":          {bootingView(), false, v1alpha1.ReasonPreparing, "see the condition BMCReady"},
		"powered on":        {bootingView(poweredOn), false, v1alpha1.ReasonWaitingForDHCP, "The server was powered on. Awaited until 2026-01-01T12:29:00Z: the request for a boot file"},
		"DHCP":              {bootingView(poweredOn, seen(v1alpha1.StageDHCP)), false, v1alpha1.ReasonWaitingForLoader, "requested its boot file" + by},
		"DHCP, seen as off": {bootingView(seen(v1alpha1.StageDHCP)), false, v1alpha1.ReasonWaitingForLoader, "requested its boot file" + by},
		"loader":            {bootingView(poweredOn, seen(v1alpha1.StageLoader)), false, v1alpha1.ReasonWaitingForScript, "fetched the boot loader" + by},
		"in line": {
			bootingView(poweredOn, seen(v1alpha1.StageWaiting), func(v *View) { v.Observed.WaitedAt = noon.Add(-20 * time.Second) }), false, v1alpha1.ReasonWaitingForNetworkSlot,
			"was queued for a boot slot of its network at 2026-01-01T11:59:40Z (192.0.2.7, PXE, EFI x86-64). Awaited until 2026-01-01T12:29:40Z: its next request",
		},
		"in line until lately": {
			bootingView(poweredOn, expired, seen(v1alpha1.StageKernel), func(v *View) { v.Observed.WaitedAt = noon.Add(-time.Minute) }), false, v1alpha1.ReasonWaitingForData,
			"Awaited until 2026-01-01T12:29:00Z: the request for the bootstrap data",
		},
		"late after it waited in the queue": {
			bootingView(poweredOn, expired, seen(v1alpha1.StageKernel), func(v *View) { v.Host.Boot.Attempt, v.Observed.WaitedAt = 3, noon.Add(-30*time.Minute) }), false,
			v1alpha1.ReasonBootTimedOut, "30m0s after the server last waited for a boot slot of its network, in boot attempt 3: The boot loader fetched the kernel",
		},
		"script":                {bootingView(poweredOn, seen(v1alpha1.StageScript)), false, v1alpha1.ReasonWaitingForKernel, "fetched the script" + by},
		"kernel":                {bootingView(poweredOn, seen(v1alpha1.StageKernel)), false, v1alpha1.ReasonWaitingForData, "fetched the kernel" + by},
		"seed":                  {bootingView(poweredOn, seeded, seen(v1alpha1.StageData)), false, v1alpha1.ReasonWaitingForReport, "fetched its bootstrap data" + by},
		"seed, status is ahead": {bootingView(poweredOn, seen(v1alpha1.StageNode)), false, v1alpha1.ReasonWaitingForReport, "fetched its bootstrap data. Awaited"},
		"seed, status lost": {
			bootingView(poweredOn, seeded, func(v *View) { v.Host.Boot.DataAddress = "192.0.2.8" }), false,
			v1alpha1.ReasonWaitingForReport, "fetched its bootstrap data at 2026-01-01T11:59:30Z (192.0.2.8). Awaited",
		},
		"seed, and firmware asks": {
			bootingView(poweredOn, ephemeral, seeded, restarted), false, v1alpha1.ReasonWaitingForReport,
			"the server restarted, since firmware requested a network boot again at 2026-01-01T12:01:00Z",
		},
		"a doubtful override": {
			bootingView(poweredOn, func(v *View) {
				v.BMC.Override = &v1alpha1.BootOverrideStatus{Target: v1alpha1.TargetPXE, Method: "Redfish"}
			}), false, v1alpha1.ReasonWaitingForDHCP,
			"(VLAN, relay agent). The boot override is PXE",
		},
		"a wrong kernel": {
			bootingView(poweredOn, func(v *View) {
				v.Observed.Problem = &v1alpha1.BootFailure{Reason: v1alpha1.ReasonChecksumMismatch, Message: "the kernel is another"}
			}), false, v1alpha1.ReasonChecksumMismatch, "the kernel is another. It continues if that is fixed before 2026-01-01T12:29:00Z",
		},
		"the last attempt is late": {
			bootingView(poweredOn, expired, seen(v1alpha1.StageLoader), func(v *View) { v.Host.Boot.Attempt = 3 }), false, v1alpha1.ReasonBootTimedOut,
			"30m0s after boot attempt 3 began: The server fetched the boot loader. Awaited: the request for the script (HTTP). The likeliest cause: HTTP is blocked",
		},
		"the first attempt is late": {
			bootingView(poweredOn, expired, seen(v1alpha1.StageLoader)), false, v1alpha1.ReasonPreparing, "Boot attempt 2. The server is being prepared",
		},
		"late, and never powered on": {
			bootingView(expired, func(v *View) { v.Host.Boot.Attempt = 3 }), false, v1alpha1.ReasonBootTimedOut, "the BMC does not carry out its commands",
		},
		"failed":                      {bootingView(failed), false, v1alpha1.ReasonBootTimedOut, "30m0s after"},
		"paused after the seed":       {bootingView(poweredOn, seeded, func(v *View) { v.Consumer.Paused = true }), false, v1alpha1.ReasonWaitingForReport, "Awaited"},
		"maintenance":                 {bootingView(poweredOn, maintenance), false, v1alpha1.ReasonMaintenance, "Boot attempt 1: In maintenance: new fan"},
		"reported in":                 {bootingView(poweredOn, reported), true, v1alpha1.ReasonBooted, "Boot attempt 1 is complete"},
		"provisioned":                 {bootingView(poweredOn, reported, provisioned), true, v1alpha1.ReasonBooted, "Boot attempt 1 is complete"},
		"the bootstrap failed":        {bootingView(poweredOn, reported, provisioned, seen(v1alpha1.StageBootstrapFailed)), false, v1alpha1.ReasonBootstrapFailed, "/var/log/cloud-init-output.log"},
		"the bootstrap succeeded":     {bootingView(poweredOn, reported, provisioned, seen(v1alpha1.StageBootstrapSucceeded)), true, v1alpha1.ReasonBooted, "is complete"},
		"restarted":                   {bootingView(poweredOn, ephemeral, reported, provisioned, restarted), false, v1alpha1.ReasonRestarted, "at 2026-01-01T12:01:00Z"},
		"restarted, and its Node too": {bootingView(poweredOn, ephemeral, reported, provisioned, restarted, nodeLost), false, v1alpha1.ReasonStateLost, "its server was restarted"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			progress := BootProgress(test.view, DefaultSettings(), Next(test.view, DefaultSettings()))
			if test.reason == "" {
				g.Expect(progress).To(BeNil())
				return
			}
			g.Expect(progress).NotTo(BeNil())
			g.Expect(progress.Complete).To(Equal(test.complete))
			g.Expect(progress.Reason).To(Equal(test.reason))
			g.Expect(progress.Message).To(ContainSubstring(test.message))
			g.Expect(len(progress.Message)).To(BeNumerically("<", 1024), "it is clipped there")
		})
	}
}

// TestBootProgressPage: docs/reference/boot-stages.md has the table, row by row.
func TestBootProgressPage(t *testing.T) {
	content, err := os.ReadFile("../../docs/reference/boot-stages.md")
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	var want []string
	for _, line := range append([]stageInfo{preparingInfo}, stages...) {
		want = append(want, fmt.Sprintf("| `%s` | %s | %s | %s |", line.reason, line.observed, line.awaited, line.cause))
	}
	g.Expect(string(content)).To(ContainSubstring(strings.Join(want, "\n")))
	for method, rows := range mediaStages {
		for _, line := range rows {
			g.Expect(string(content)).To(ContainSubstring(fmt.Sprintf("| `%s` | %s | %s | %s |", line.reason, line.observed, line.awaited, line.cause)), string(method))
		}
	}
}

// TestErasureProgressText: the text names how many disks are erased, the slowest, and the time that it needs.
func TestErasureProgressText(t *testing.T) {
	disk := func(percent int32, left int64) wire.DiskProgress {
		return wire.DiskProgress{Percent: percent, SecondsLeft: left}
	}
	for want, disks := range map[string][]wire.DiskProgress{
		"Erasing 3 of 4 disks, the slowest at 41 %, about 25 min left": {disk(100, 0), disk(41, 1490), disk(60, 20), disk(99, 0)},
		"Erasing 1 of 1 disks, the slowest at 0 %":                     {disk(0, 0)},
		"Erasing 2 disks, to be verified":                              {disk(100, 0), disk(100, 0)},
	} {
		NewWithT(t).Expect(AgentProgressText(&v1alpha1.AgentProgress{Step: "Erasing", Percent: 7, TotalBytes: 100, Disks: disks})).To(Equal(want))
	}
	v := erasingView(poweredOn, agentSeen, func(v *View) {
		v.Observed.Agent = &v1alpha1.AgentProgress{Step: "Erasing", Disks: []wire.DiskProgress{disk(41, 1490)}}
	})
	NewWithT(t).Expect(Next(v, DefaultSettings()).Message).To(ContainSubstring("Erasing 1 of 1 disks, the slowest at 41 %, about 25 min left"))
}

// TestAwaitedStageAfterTheAgent: after the agent, only the image of a machine has something to report.
func TestAwaitedStageAfterTheAgent(t *testing.T) {
	g := NewWithT(t)
	for purpose, want := range map[v1alpha1.BootPurpose]string{
		v1alpha1.PurposeProvision: "awaits report", v1alpha1.PurposeInspect: "done", v1alpha1.PurposeClean: "done",
	} {
		g.Expect(AwaitedStage(&v1alpha1.BareMetalBootSpec{Agent: true, Purpose: purpose}, v1alpha1.StageAgentDone)).To(Equal(want), string(purpose))
	}
}
