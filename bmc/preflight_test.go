package bmc

import (
	"net/url"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestCheckConnection: what a user should correct about the connection to a BMC.
func TestCheckConnection(t *testing.T) {
	expectWarnings(t, CheckConnection(&url.URL{Scheme: "redfish"}, false), nil)
	expectWarnings(t, CheckConnection(&url.URL{Scheme: "ipmi"}, false), nil)
	expectWarnings(t, CheckConnection(&url.URL{Scheme: "redfish+http"}, false), []string{"TLS: the connection is not encrypted"})
	expectWarnings(t, CheckConnection(&url.URL{Scheme: "redfish"}, true), []string{"TLS: the certificate of the BMC is not verified"})
}

// TestCheckMedia: a virtual drive that the server cannot boot from is not enough.
func TestCheckMedia(t *testing.T) {
	expectWarnings(t, CheckMedia([]Capability{CanBootCD, CanVirtualMedia}), nil)
	for _, can := range [][]Capability{nil, {CanBootCD}, {CanVirtualMedia}} {
		expectWarnings(t, CheckMedia(can), []string{"Virtual media: "})
	}
}

// TestCheckDescription: what a user should correct at a BMC.
func TestCheckDescription(t *testing.T) {
	for name, test := range map[string]struct {
		description Description
		want        []string
	}{
		"nothing":                     {Description{Vendor: "Dell", OpenSessions: 5, ClockAhead: new(4 * time.Minute)}, nil},
		"many sessions":               {Description{Vendor: "Dell Inc.", OpenSessions: 6}, []string{"Sessions: at least 6 sessions are open"}},
		"many sessions, HPE":          {Description{Vendor: "HPE", OpenSessions: 15}, nil}, // iLO lists those that expired
		"a clock that is a bit ahead": {Description{ClockAhead: new(13 * time.Minute)}, []string{"Clock: the clock of the BMC is 10 minutes ahead"}},
		"a clock that is behind":      {Description{ClockAhead: new(-3 * time.Hour)}, []string{"Clock: the clock of the BMC is 3 hours behind"}},
		"a clock that was never set":  {Description{ClockAhead: new(-50 * 24 * time.Hour)}, []string{"Clock: the clock of the BMC is 50 days behind"}},
	} {
		t.Run(name, func(t *testing.T) { expectWarnings(t, CheckDescription(test.description), test.want) })
	}
}

// TestCheckNICs: what a user should correct about the interface that boots from the network.
func TestCheckNICs(t *testing.T) {
	const mac = "52:54:00:00:00:01"
	nic := func(mac string, boots *bool) NIC { return NIC{Name: "N", MACAddress: mac, NetworkBoot: boots} }
	many := make([]NIC, 10)
	for name, test := range map[string]struct {
		nics []NIC
		mac  string
		want []string
	}{
		"it boots":                      {[]NIC{nic("x", new(false)), nic(mac, new(true))}, mac, nil},
		"whether it boots is not known": {[]NIC{nic(mac, nil)}, mac, nil},
		"it does not boot":              {[]NIC{nic("x", new(true)), nic(mac, new(false))}, mac, []string{"Network boot: it is disabled for the interface N (52:54:00:00:00:01)"}},
		"it is not there":               {[]NIC{nic("x", nil), nic("y", nil)}, mac, []string{"Boot interface: the BMC lists no interface with the MAC address 52:54:00:00:00:01, but x, y. "}},
		"it is not among many":          {many, mac, []string{"Boot interface: the BMC lists no interface with the MAC address 52:54:00:00:00:01, but , , , , , , , , 2 more. "}},
		"nothing is listed":             {nil, mac, nil},
		"any, and one boots":            {[]NIC{nic("x", new(false)), nic("y", nil)}, "", nil},
		"any, and none boots":           {[]NIC{nic("x", new(false)), nic("y", new(false))}, "", []string{"Network boot: it is disabled for all interfaces"}},
		"any, and nothing is listed":    {nil, "", nil},
		"two, and one does not boot":    {[]NIC{nic("x", new(true)), nic(mac, new(false))}, "x " + mac, []string{"Network boot: it is disabled for the interface N (52:54:00:00:00:01)"}},
	} {
		t.Run(name, func(t *testing.T) { expectWarnings(t, CheckNICs(test.nics, strings.Fields(test.mac)...), test.want) })
	}
}

func expectWarnings(t *testing.T, got []Warning, want []string) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(got).To(HaveLen(len(want)))
	for i := range want {
		g.Expect(got[i].String()).To(HavePrefix(want[i]))
	}
}
