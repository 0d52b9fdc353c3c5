package ipmi_test

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/ipmi"
)

// withFault opens an emulated BMC, and activates a fault.
func withFault(t *testing.T, fault bmctest.Fault, opts bmctest.Options) (*WithT, *bmctest.Machine, bmc.Client, bmc.Endpoint) {
	t.Helper()
	return withFaultBy(t, driver, fault, opts)
}

func withFaultBy(t *testing.T, d *ipmi.Driver, fault bmctest.Fault, opts bmctest.Options) (*WithT, *bmctest.Machine, bmc.Client, bmc.Endpoint) {
	t.Helper()
	g := NewWithT(t)
	machine, endpoint := newMachine(t, opts)
	client := openBy(t, d, endpoint)
	g.Expect(machine.Misbehave(fault, -1)).To(Succeed())
	return g, machine, client, endpoint
}

// TestNoAnswer: a BMC that is down, hangs, or sends truncated packets is Unreachable, for open and new connections; afterwards the
// connection works if the BMC still has the session.
func TestNoAnswer(t *testing.T) {
	for _, fault := range []bmctest.Fault{bmctest.Down, bmctest.Hang, bmctest.TruncatedJSON} {
		t.Run(string(fault), func(t *testing.T) {
			g, machine, client, endpoint := withFaultBy(t, hasty, fault, options())
			_, err := client.PowerState(t.Context())
			g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable), "%v", err)
			_, err = hasty.Open(t.Context(), endpoint)
			g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable), "%v", err)
			g.Expect(machine.Misbehave(fault, 0)).To(Succeed())
			g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff))
		})
	}
}

// TestSlow: a late response to the first packet is accepted after a repeat.
func TestSlow(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newMachine(t, options())
	g.Expect(machine.Misbehave(bmctest.Slow, -1)).To(Succeed())
	insistent := &ipmi.Driver{Permit: loopback, RequestTimeout: time.Minute, RepeatAfter: 200 * time.Millisecond}
	client, err := insistent.Open(t.Context(), endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff))
	g.Expect(client.Close(t.Context())).To(Succeed())
}

// TestForgottenSession: a BMC that restarted drops the packets of its previous sessions. The connection is Unreachable, so that the Pool
// opens another one.
func TestForgottenSession(t *testing.T) {
	g, machine, client, endpoint := withFaultBy(t, hasty, bmctest.Unauthorized401, options())
	_, err := client.PowerState(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable))
	g.Expect(machine.Misbehave(bmctest.Unauthorized401, 0)).To(Succeed())
	g.Expect(open(t, endpoint).PowerState(t.Context())).To(Equal(bmc.PowerOff))
}

// TestSessionTableFull: a full session table is not a refused login.
func TestSessionTableFull(t *testing.T) {
	g, machine, _, endpoint := withFault(t, bmctest.SessionTableFull, options())
	_, err := driver.Open(t.Context(), endpoint)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable))
	g.Expect(err).To(MatchError(ContainSubstring("all of its sessions are in use")))
	g.Expect(machine.Misbehave(bmctest.SessionTableFull, 0)).To(Succeed())
	open(t, endpoint)
}

// TestBusy: "node busy" is Unreachable, even during a login, because a later try may work.
func TestBusy(t *testing.T) {
	g, machine, client, endpoint := withFault(t, bmctest.Busy503, options())
	_, loginErr := driver.Open(t.Context(), endpoint)
	g.Expect(bmc.KindOf(loginErr)).To(Equal(bmc.Unreachable), "%v", loginErr)
	g.Expect(machine.Misbehave(bmctest.Busy503, -1)).To(Succeed())
	_, err := client.PowerState(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unreachable))
	g.Expect(err).To(MatchError(ContainSubstring("C0h")))
}

// TestRebootMidCall: a command without a response is repeated, unless it would take effect twice.
func TestRebootMidCall(t *testing.T) {
	g, machine, client, _ := withFaultBy(t, hasty, bmctest.RebootMidCall, options())
	g.Expect(machine.Misbehave(bmctest.RebootMidCall, 1)).To(Succeed())
	g.Expect(client.PowerOn(t.Context())).To(Succeed())
	g.Expect(machine.CommandNames()).To(And(HaveEach("On"), ContainElements("On", "On")), "the repeat")
	for _, act := range []func(context.Context) error{client.Cycle, client.Reset, client.NMI, client.ShutDown} {
		before := len(machine.CommandNames())
		g.Expect(machine.Misbehave(bmctest.RebootMidCall, 1)).To(Succeed())
		g.Expect(bmc.KindOf(act(t.Context()))).To(Equal(bmc.Unreachable))
		g.Expect(machine.CommandNames()).To(HaveLen(before + 1))
	}
}

// TestClockSkew: the BMC's clock is returned unchanged.
func TestClockSkew(t *testing.T) {
	g, _, client, _ := withFault(t, bmctest.ClockSkew, options())
	clock, err := client.(bmc.Monitor).Clock(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(time.Since(clock)).To(BeNumerically("~", 100*24*time.Hour, time.Minute))
}

// TestPowerIgnored: the BMC accepts the command without effect, which only the power state shows.
func TestPowerIgnored(t *testing.T) {
	g, _, client, _ := withFault(t, bmctest.PowerIgnored, options())
	g.Expect(client.PowerOn(t.Context())).To(Succeed())
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff))
}

// TestRedundantPower: a command for the current state is not sent. If the state changes in between, the BMC's refusal is no error.
func TestRedundantPower(t *testing.T) {
	for _, fault := range []bmctest.Fault{bmctest.RedundantPowerIs4xx, bmctest.RedundantPowerIs5xx} {
		g, machine, client, _ := withFault(t, fault, options())
		g.Expect(client.ForceOff(t.Context())).To(Succeed())
		g.Expect(machine.CommandNames()).To(BeEmpty())
		g.Expect(client.PowerOn(t.Context())).To(Succeed())
		g.Expect(client.PowerOn(t.Context())).To(Succeed())
		g.Expect(machine.CommandNames()).To(Equal([]string{"On"}))

		opts := options()
		opts.PowerDelay = time.Hour
		g, machine, client, _ = withFault(t, fault, opts)
		machine.SetPower(true)
		g.Expect(client.PowerOn(t.Context())).To(Succeed())
	}
}

// TestShutDown: a refusal is an error; it is Unsupported if the BMC does not have the command.
func TestShutDown(t *testing.T) {
	opts := options()
	opts.On = true
	g, machine, client, _ := withFault(t, bmctest.ShutDownFails, opts)
	g.Expect(bmc.KindOf(client.ShutDown(t.Context()))).To(Equal(bmc.Failed))
	g.Expect(machine.Misbehave(bmctest.ShutDownFails, 0)).To(Succeed())
	g.Expect(machine.Misbehave(bmctest.NoGracefulShutdown, -1)).To(Succeed())
	g.Expect(bmc.KindOf(client.ShutDown(t.Context()))).To(Equal(bmc.Unsupported))
	g.Expect(machine.Misbehave(bmctest.NoGracefulShutdown, 0)).To(Succeed())
	g.Expect(client.ShutDown(t.Context())).To(Succeed())
	g.Expect(machine.On()).To(BeFalse())
}

var pxe = bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI}

// TestBootFaults: for each fault of boot flags, the final method, the doubt, and what the server boots.
func TestBootFaults(t *testing.T) {
	for _, c := range []struct {
		fault  bmctest.Fault
		method bmc.BootMethod
		doubt  string // contained
		holds  bmc.BootOverride
	}{
		{"", "Flags", "", pxe},
		{bmctest.RefusesBootMode, "FlagsWithoutMode", "", bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootLegacy}},
		{bmctest.IgnoresOverrideWithMode, "FlagsWithoutMode", "", bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootLegacy}},
		{bmctest.IgnoresOverride, "Flags", "not valid", bmc.BootOverride{Target: bmc.BootNone}},
		{bmctest.IgnoresOnce, "Flags", "not valid", bmc.BootOverride{Target: bmc.BootNone}},
		{bmctest.OnceReadsContinuous, "Flags", "", pxe},
		{bmctest.OverrideReadsInvalid, "Flags", "not valid", pxe},
		{bmctest.OverrideReverts, "Flags", "", pxe},
	} {
		t.Run(string(c.fault), func(t *testing.T) {
			g := NewWithT(t)
			machine, endpoint := newMachine(t, options())
			if c.fault != "" {
				g.Expect(machine.Misbehave(c.fault, -1)).To(Succeed())
			}
			client := open(t, endpoint)
			result, err := client.SetBootOverride(t.Context(), pxe, "")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result.Method).To(Equal(c.method))
			if c.doubt == "" {
				g.Expect(result.Doubt).To(BeEmpty())
			}
			g.Expect(result.Doubt).To(ContainSubstring(c.doubt))
			g.Expect(result.Lasts).To(Equal(c.fault == bmctest.OnceReadsContinuous), "an override that holds for every boot has to be taken back")
			g.Expect(machine.Override()).To(Equal(c.holds))
		})
	}
}

// TestBootMethods: the caller selects the first method.
func TestBootMethods(t *testing.T) {
	g, machine, client, _ := withFault(t, bmctest.IgnoresOnce, options())
	g.Expect(client.BootMethods()).To(Equal([]bmc.BootMethod{"Flags", "FlagsWithoutMode", "FlagsContinuous"}))
	result, err := client.SetBootOverride(t.Context(), pxe, "FlagsContinuous")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Method).To(Equal(bmc.BootMethod("FlagsContinuous")))
	g.Expect(result.ReadBack.Continuous).To(BeTrue())
	g.Expect(result.Lasts).To(BeTrue())
	g.Expect(machine.Override().Continuous).To(BeTrue())
	_, err = client.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootNone}, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(machine.Override().Target).To(Equal(bmc.BootNone))
	_, err = client.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootHTTP}, "")
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
	g.Expect(slices.Contains(machine.CommandNames(), "Boot=HTTP")).To(BeFalse())
}

// TestPartsMissing: data that a BMC does not have is unknown, and not an error.
func TestPartsMissing(t *testing.T) {
	g, _, client, _ := withFault(t, bmctest.PartsAre501, options())
	inventory, err := client.Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.Fact(bmc.FactSystemUUID)).To(And(HaveField("State", bmc.FactUnknown), HaveField("Source", "Get System GUID")))
	description, err := client.Describe(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(description.Capabilities).NotTo(ContainElement(bmc.CanSensors))
	g.Expect(description.Capabilities).NotTo(ContainElement(bmc.CanEventLog))
	_, err = client.(bmc.Monitor).Sensors(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
}

// TestPrivilege: a level that is too low for a command is refused as such.
func TestPrivilege(t *testing.T) {
	g := NewWithT(t)
	_, endpoint := newMachine(t, options())
	endpoint.URL.RawQuery = "privilege=user"
	client := open(t, endpoint)
	g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOff))
	g.Expect(bmc.KindOf(client.PowerOn(t.Context()))).To(Equal(bmc.Unauthorized))
}
