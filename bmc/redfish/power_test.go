package redfish_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

// changed is an emulated BMC whose system has additional properties.
func changed(t *testing.T, properties map[string]any) bmc.Endpoint {
	t.Helper()
	machine := bmctest.NewMachine(bmctest.Options{Name: "s1", UUID: testUUID, Username: "admin", Password: "secret", On: true})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/redfish/v1/Systems/1" || r.Method != http.MethodGet {
			machine.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		machine.ServeHTTP(answer, r)
		var system map[string]any
		_ = json.Unmarshal(answer.Body.Bytes(), &system) // the emulator writes JSON
		delete(system, "LastResetTime")
		maps.Copy(system, properties)
		_ = json.NewEncoder(w).Encode(system)
	}))
	t.Cleanup(func() { server.Close(); machine.Close() })
	return endpointOf(t, server, redfish.SchemeInsecure)
}

// TestPowerStates: a server that powers on or off is neither on nor off.
func TestPowerStates(t *testing.T) {
	for said, want := range map[string]bmc.PowerState{
		"On": bmc.PowerOn, "Off": bmc.PowerOff, "Paused": bmc.PowerOn, "PoweringOn": bmc.PoweringOn, "PoweringOff": bmc.PoweringOff, "Reset": "", "": "",
	} {
		g := NewWithT(t)
		state, err := open(t, changed(t, map[string]any{"PowerState": said})).PowerState(t.Context())
		g.Expect(state).To(Equal(want), said)
		if want == "" {
			g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed), said)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), said)
	}
}

// TestTransitions: during a power transition, commands that the server is already executing, or that the BMC would refuse or drop, are not sent. Switching
// off at once is allowed, because an operating system may hang while it shuts down.
func TestTransitions(t *testing.T) {
	for state, commands := range map[string]map[string]bmc.Kind{ // "" for no error
		"PoweringOn":  {"PowerOn": "", "ForceOff": "", "ShutDown": bmc.Busy, "Cycle": bmc.Busy, "Reset": bmc.Busy, "NMI": bmc.Busy},
		"PoweringOff": {"PowerOn": bmc.Busy, "ForceOff": "", "ShutDown": "", "Cycle": bmc.Busy, "Reset": bmc.Busy, "NMI": bmc.Busy},
	} {
		for name, want := range commands {
			t.Run(state+" "+name, func(t *testing.T) {
				g := NewWithT(t)
				machine := bmctest.NewMachine(bmctest.Options{
					Name: "s1", UUID: testUUID, Username: "admin", Password: "secret", PowerDelay: time.Hour, On: state == "PoweringOff",
				})
				misbehave(t, machine, bmctest.TransitionStates, -1)
				server := httptest.NewServer(machine)
				t.Cleanup(func() { server.Close(); machine.Close() })
				client := open(t, endpointOf(t, server, redfish.SchemeInsecure))
				start := client.PowerOn
				if state == "PoweringOff" {
					start = client.ForceOff
				}
				g.Expect(start(t.Context())).To(Succeed())
				g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerState(state)))
				err := map[string]func(context.Context) error{
					"PowerOn": client.PowerOn, "ForceOff": client.ForceOff, "ShutDown": client.ShutDown, "Cycle": client.Cycle, "Reset": client.Reset, "NMI": client.NMI,
				}[name](t.Context())
				sent := 0
				if name == "ForceOff" {
					sent = 1
				}
				g.Expect(machine.Commands()).To(HaveLen(1 + sent))
				if want == "" {
					g.Expect(err).NotTo(HaveOccurred())
					return
				}
				g.Expect(bmc.KindOf(err)).To(Equal(want))
				g.Expect(err).To(MatchError(ContainSubstring("the server's power is in transition (" + state + ")")))
			})
		}
	}
}

// TestBusyInTransition: a BMC that answers 409 is busy, also one that shows no transition; nothing more is wrong with the connection.
func TestBusyInTransition(t *testing.T) {
	g := NewWithT(t)
	machine := bmctest.NewMachine(bmctest.Options{Name: "s1", UUID: testUUID, Username: "admin", Password: "secret", PowerDelay: time.Hour, On: true})
	misbehave(t, machine, bmctest.BusyInTransition, -1)
	server := httptest.NewServer(machine)
	t.Cleanup(func() { server.Close(); machine.Close() })
	client := open(t, endpointOf(t, server, redfish.SchemeInsecure))
	g.Expect(client.ForceOff(t.Context())).To(Succeed())
	for _, command := range []func(context.Context) error{client.ForceOff, client.ShutDown, client.Cycle, client.Reset, client.NMI} {
		err := command(t.Context())
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Busy))
		g.Expect(err).To(MatchError(ContainSubstring("409 Conflict: The power is in transition")))
		g.Expect(client.PowerState(t.Context())).To(Equal(bmc.PowerOn))
	}
	machine.SetPower(false)
	g.Expect(client.ForceOff(t.Context())).To(Succeed(), "it is off: what the BMC would answer is of no interest")
}

// TestLastBoot reads the vendors' records of the last start.
func TestLastBoot(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		properties map[string]any
		want       bmc.LastBoot
	}{
		"nothing":            {},
		"the time":           {map[string]any{"LastResetTime": "2026-11-21T13:00:00+01:00"}, bmc.LastBoot{ResetAt: at}},
		"no time":            {map[string]any{"LastResetTime": "yesterday"}, bmc.LastBoot{}},
		"the progress":       {map[string]any{"BootProgress": map[string]any{"LastState": "OSRunning"}}, bmc.LastBoot{Progress: 9}},
		"a stage of its own": {map[string]any{"BootProgress": map[string]any{"LastState": "OEM"}}, bmc.LastBoot{}},
		"HPE's self test":    {map[string]any{"Oem": map[string]any{"Hpe": map[string]any{"PostState": "InPost"}}}, bmc.LastBoot{Progress: 3}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			recorder, ok := open(t, changed(t, c.properties)).(bmc.BootRecorder)
			g.Expect(ok).To(BeTrue())
			boot, err := recorder.LastBoot(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(boot.ResetAt.Equal(c.want.ResetAt)).To(BeTrue(), "%s", boot.ResetAt)
			g.Expect(boot.Progress).To(Equal(c.want.Progress))
		})
	}
}
