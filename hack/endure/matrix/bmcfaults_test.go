package matrix

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// bmcFault is a misbehaviour of the emulated BMC.
func bmcFault(f bmctest.Fault) fault {
	row := fault{name: "BMC: " + string(f), inject: func(l *life, _ step) {
		l.Expect(l.server.Misbehave(f, -1)).To(Succeed())
		l.stops = append(l.stops, func() { l.Expect(l.server.Misbehave(f, 0)).To(Succeed()) })
	}}
	switch f {
	case bmctest.Down, bmctest.Hang, bmctest.Drip, bmctest.Busy503:
		row.during = unwell(v1alpha1.ReasonBMCUnreachable)
	case bmctest.EndlessBody, bmctest.TruncatedJSON, bmctest.RedirectElsewhere:
		row.during = unwell(v1alpha1.ReasonBMCError)
	case bmctest.EjectFails:
		row.inject = func(l *life, _ step) {
			l.insertImage()
			l.Expect(l.server.Misbehave(f, -1)).To(Succeed())
			l.stops = append(l.stops, func() { l.Expect(l.server.Misbehave(f, 0)).To(Succeed()) })
		}
		row.stays, row.want = true, cleaningFails
	case bmctest.Unauthorized401:
		row.during = func(l *life, _ step) { l.refused() }
		row.inject = func(l *life, _ step) {
			l.Expect(l.server.Misbehave(f, -1)).To(Succeed())
			l.stops = append(l.stops, func() { l.Expect(l.server.Misbehave(f, 0)).To(Succeed()); l.retry() })
		}
	case bmctest.PowerIgnored, bmctest.ETagStorm:
		row.during = func(l *life, _ step) {
			l.until(moment, func() bool { return false })
			l.explained()
		}
	case bmctest.NoNetworkBoot:
		row.during = func(l *life, s step) {
			if s.is(registering) {
				l.told(v1alpha1.VerifiedCondition, v1alpha1.ReasonCapabilityMissing, "licence")
			}
			l.until(moment, func() bool { return false })
			l.explained()
			if !s.is(off, override) { // the boot of these steps continues, and its deadline would pass too
				l.stops = append(l.stops, func() { l.clock.Pass(20 * time.Minute) }) // until the inventory is read again
			}
		}
		row.want = func(l *life, s step) { l.escalate(s, true) }
	case bmctest.OldSchema:
		row.stays, row.want = true, settingsUnknown("the settings cannot be read")
	case bmctest.PartsAre501:
		row.stays, row.want = true, settingsUnknown("The BMC does not report whether Secure Boot is enabled")
	case bmctest.RebootMidCall:
		row.stays, row.inject = true, func(l *life, _ step) { l.Expect(l.server.Misbehave(f, 1)).To(Succeed()) }
	case bmctest.IgnoresOverrideWithMode, bmctest.IgnoresOnce:
		row.stays, row.want = true, func(l *life, s step) { l.escalate(s, true) }
	case bmctest.IgnoresOverride, bmctest.OverrideReverts:
		row.stays, row.want = true, func(l *life, s step) {
			l.escalate(s, !s.is(waiting, beforeOff, off) && (f == bmctest.IgnoresOverride || !s.is(override)))
		}
	default:
		row.stays = true
	}
	row.na = untouched(f)
	row.ofSettings(f)
	return row
}

// ofSettings makes the row of a fault that has to do with settings one that the server has from the beginning.
func (row *fault) ofSettings(f bmctest.Fault) {
	switch f {
	case bmctest.BIOSNeverApplied:
		row.shape, row.stays, row.want = true, true, func(l *life, s step) {
			if s.is(configuring) {
				l.settingsNotApplied(`WorkloadProfile is "Custom", and "LowLatency" was set and is still pending`, func() { l.server.StageForeignBIOS("WorkloadProfile", "Custom") })
			}
			l.reach(s.end)
		}
	case bmctest.BIOSFullCopy, bmctest.BIOSNoAttributes, bmctest.BIOSNoSettings, bmctest.BIOSNoRegistry, bmctest.BIOSOtherRegistry, bmctest.BIOSLanguages, bmctest.BIOSUnlinkedSettings,
		bmctest.BIOSNeedsJob, bmctest.SecureBootSettings:
		row.shape, row.stays, row.want = true, true, (*life).settingsApplied
		row.vendor = map[bmctest.Fault]string{bmctest.BIOSUnlinkedSettings: "GIGABYTE", bmctest.BIOSNeedsJob: "Dell Inc."}[f]
	default:
	}
}

// refused waits until the host says that its BMC refuses the credentials, and what to do.
func (l *life) refused() {
	l.Helper()
	l.told(v1alpha1.BMCReadyCondition, v1alpha1.ReasonCredentialsRefused, v1alpha1.RetryBMCAnnotation)
	l.explained()
}

// retry requests an immediate try, like a user who knows that the credentials are right.
func (l *life) retry() {
	l.Helper()
	if l.exists(l.server.Host) {
		l.modify(func(h *v1alpha1.BareMetalHost) {
			metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.RetryBMCAnnotation, "anna")
		})
	}
}

// unwell waits until the host says for a reason that its BMC is not well.
func unwell(reason string) func(*life, step) {
	return func(l *life, _ step) {
		l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(conditions.IsFalse(h, v1alpha1.BMCReadyCondition)).To(BeTrue())
			g.Expect(conditions.GetReason(h, v1alpha1.BMCReadyCondition)).To(Equal(reason))
			g.Expect(conditions.GetMessage(h, v1alpha1.BMCReadyCondition)).NotTo(BeEmpty())
		})
		l.explained()
	}
}

// insertImage puts an image into the server's virtual drive, as a person does.
func (l *life) insertImage() {
	l.Helper()
	address, err := url.Parse(l.server.Host.Spec.BMC.Address)
	l.Expect(err).NotTo(HaveOccurred())
	address.RawQuery = "" // its own session would count as one of the provider's
	driver := &redfish.Driver{Permit: bmctest.Loopback}
	defer driver.CloseIdleConnections()
	person, err := driver.Open(l.Context(), bmc.Endpoint{URL: address, Username: controllerstest.Username, Password: controllerstest.Password})
	l.Expect(err).NotTo(HaveOccurred())
	drive, err := bmc.As[bmc.VirtualMedia](person, "Insert an image")
	l.Expect(err).NotTo(HaveOccurred())
	l.Expect(drive.InsertMedia(l.Context(), "http://192.0.2.1/image.iso")).To(Succeed())
}

// cleaningFails demands that a host whose drive keeps its image is not offered until a person cleared it.
func cleaningFails(l *life, _ step) {
	l.Helper()
	l.machineGone()
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
		phase(v1alpha1.PhaseQuarantined)(g, h)
		g.Expect(h.Spec.Quarantine.Reason).To(Equal(v1alpha1.ReasonCleaningFailed))
		g.Expect(h.Spec.Quarantine.Message).To(ContainSubstring("The virtual drive is locked"))
	})
	l.modify(func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil })
	l.reach(endAvailable)
}

// settingsApplied demands that a host has the settings of its profile after one restart.
func (l *life) settingsApplied(s step) {
	l.Helper()
	l.reach(s.end)
	if !s.is(configuring) {
		return
	}
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.IsTrue(h, v1alpha1.SettingsConformCondition)).To(BeTrue())
		g.Expect(h.Spec.ProviderState.SettingsRuns).To(Equal(int32(1)))
	})
	l.Expect(l.server.BIOS()).To(HaveKeyWithValue("WorkloadProfile", "LowLatency"))
	l.Expect(l.server.SecureBoot()).To(HaveField("Active", true))
}

// settingsUnknown is what follows if the BMC does not report any more what a run has set.
func settingsUnknown(message string) func(*life, step) {
	return func(l *life, s step) {
		if s.is(configuring) {
			l.settingsNotApplied(message, func() {})
		}
		l.reach(s.end)
	}
}

// settingsNotApplied demands that a host whose settings are not proven after its restart goes into quarantine with a message, and ends that as a person does who has corrected
// the firmware.
func (l *life) settingsNotApplied(message string, correct func()) {
	l.Helper()
	l.told(v1alpha1.AvailableCondition, v1alpha1.ReasonConfiguring, "may still report the old settings")
	l.clock.Pass(11 * time.Minute)
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
		phase(v1alpha1.PhaseQuarantined)(g, h)
		g.Expect(h.Spec.Quarantine.Reason).To(Equal(v1alpha1.ReasonSettingsNotApplied))
		g.Expect(h.Spec.Quarantine.Message).To(ContainSubstring(message))
		g.Expect(h.Spec.ProviderState.SettingsRunsEnded).To(Equal(h.Spec.ProviderState.SettingsRuns))
	})
	l.endFault()
	correct()
	l.modify(func(h *v1alpha1.BareMetalHost) { h.Spec.Quarantine = nil })
	l.retry()
}

// untouched says in which steps nothing is asked of a BMC that has to do with a fault.
func untouched(f bmctest.Fault) func(step) string {
	why, touched := "", []string{registering, waiting, beforeOff, off, override, releasing, cleaning}
	switch f {
	case bmctest.RefusesBootMode, bmctest.IgnoresOverrideWithMode, bmctest.IgnoresOverride, bmctest.IgnoresOnce, bmctest.OnceReadsContinuous,
		bmctest.OverrideNeverResets, bmctest.OverrideReverts, bmctest.OverrideAtSettings, bmctest.NoNetworkBoot, bmctest.NeedsETag, bmctest.ETagStorm:
		why = "no boot override is written"
	case bmctest.EjectFails:
		why, touched = "nothing is to be ejected", []string{releasing, cleaning}
	case bmctest.MediaUnderSystems, bmctest.MediaByPatch, bmctest.NoMedia:
		why, touched = "nothing is asked of the virtual drives", []string{registering, releasing, cleaning}
	case bmctest.BIOSFullCopy, bmctest.BIOSNoAttributes, bmctest.BIOSNoSettings, bmctest.BIOSUnlinkedSettings, bmctest.BIOSNoRegistry, bmctest.BIOSOtherRegistry,
		bmctest.BIOSLanguages, bmctest.BIOSNeedsJob, bmctest.BIOSNeverApplied, bmctest.SecureBootSettings:
		why, touched = "no setting is written", []string{registering, configuring}
	case bmctest.BIOSIgnored:
		why, touched = "no BIOS attribute is written, or its run ends before the restart", []string{registering}
	case bmctest.PowerIgnored, bmctest.RedundantPowerIs4xx, bmctest.RedundantPowerIs5xx, bmctest.ShutDownFails, bmctest.NoGracefulShutdown, bmctest.RebootMidCall,
		bmctest.BusyInTransition, bmctest.DropsInTransition, bmctest.StalePower, bmctest.TransitionStates:
		why, touched = "no command is given", append(touched, heldOff)
	case bmctest.Down:
		touched = append(touched, erasing, clearing, purging, freeing, configuring)
	default:
	}
	return func(s step) string {
		if s.is(touched...) {
			return ""
		}
		return why
	}
}

// escalate reaches the end of a step for a server that may boot its disk: whenever it does so the attempt's deadline comes. Where nothing helps
// the boot ends, and says what is left to do.
func (l *life) escalate(s step, helps bool) {
	l.Helper()
	if s.end != endProvisioned || s.is(running, heldOff, maintenance, reported) {
		l.reach(s.end)
		return
	}
	over, failures := int32(0), 0 // the attempt whose deadline came last, and how many boots had failed by then: a server that still boots gets its time
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
		commands := l.server.Commands()
		progress := conditions.GetMessage(h, v1alpha1.BootProgressCondition)
		boot := l.record().Spec
		attempt, asked := boot.Attempt, boot.ScriptAddress != ""                                             // the stages of the status are seconds behind
		told := attempt > 0 && !asked && strings.Contains(progress, fmt.Sprintf("Boot attempt %d", attempt)) // not the one before
		if told && attempt != over && conditions.GetReason(h, v1alpha1.BootedCondition) == v1alpha1.ReasonWaitingForDHCP &&
			l.server.On() && l.server.Failures() > failures && len(commands) > 0 && time.Since(commands[len(commands)-1].At) > moment {
			l.clock.Pass(bootTimeout)
			over, failures = attempt, l.server.Failures()
		}
		if helps {
			phase(v1alpha1.PhaseProvisioned)(g, h)
		} else {
			phase(v1alpha1.PhaseBootFailed)(g, h)
		}
	})
	if helps {
		l.reach(endProvisioned)
		return
	}
	l.told(v1alpha1.BootedCondition, v1alpha1.ReasonBootTimedOut, "This was the last attempt. Delete the Machine")
	l.Expect(l.record().Spec.Attempt).To(BeEquivalentTo(3))
}

// bmcFaults are the misbehaviours of a Redfish BMC.
func bmcFaults() []fault {
	var rows []fault
	for name, info := range bmctest.Faults {
		if info.Redfish {
			rows = append(rows, bmcFault(name))
		}
	}
	slices.SortFunc(rows, func(a, b fault) int { return strings.Compare(a.name, b.name) })
	return rows
}
