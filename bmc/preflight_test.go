package bmc

import (
	"net/url"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestCheckBMC: what a user should correct at a BMC.
func TestCheckBMC(t *testing.T) {
	can := []Capability{CanPowerOn, CanForceOff, CanBootPXE, CanVirtualMedia}
	https, plain := &url.URL{Scheme: "redfish"}, &url.URL{Scheme: "redfish+http"}
	for name, test := range map[string]struct {
		endpoint    Endpoint
		description Description
		needsMedia  bool
		want        []string
	}{
		"nothing":                          {Endpoint{URL: https}, Description{Capabilities: can, OpenSessions: 5, ClockAhead: new(4 * time.Minute)}, false, nil},
		"no power":                         {Endpoint{URL: https}, Description{Capabilities: can[1:]}, false, []string{"Capabilities: the BMC lacks PowerOn: "}},
		"no PXE":                           {Endpoint{URL: https}, Description{Capabilities: append(can[:2:2], CanVirtualMedia)}, false, []string{"Capabilities: the BMC lacks BootPXE: "}},
		"no PXE, boots from media":         {Endpoint{URL: https}, Description{Capabilities: append(can[:2:2], CanVirtualMedia)}, true, nil},
		"no media, boots from media":       {Endpoint{URL: https}, Description{Capabilities: can[:3]}, true, []string{"Virtual media: "}},
		"no encryption":                    {Endpoint{URL: plain}, Description{Capabilities: can}, false, []string{"TLS: the connection is not encrypted"}},
		"no verification":                  {Endpoint{URL: https, InsecureSkipVerify: true}, Description{Capabilities: can}, false, []string{"TLS: the certificate of the BMC is not verified"}},
		"many sessions":                    {Endpoint{URL: https}, Description{Capabilities: can, OpenSessions: 6}, false, []string{"Sessions: 6 sessions are open"}},
		"a clock that is a bit ahead":      {Endpoint{URL: https}, Description{Capabilities: can, ClockAhead: new(13 * time.Minute)}, false, []string{"Clock: the clock of the BMC is 10 minutes ahead"}},
		"a clock that is behind":           {Endpoint{URL: https}, Description{Capabilities: can, ClockAhead: new(-3 * time.Hour)}, false, []string{"Clock: the clock of the BMC is 3 hours behind"}},
		"a clock that was never set, IPMI": {Endpoint{URL: &url.URL{Scheme: "ipmi"}}, Description{Capabilities: can, ClockAhead: new(-50 * 24 * time.Hour)}, false, []string{"Clock: the clock of the BMC is 50 days behind"}},
	} {
		t.Run(name, func(t *testing.T) {
			expectWarnings(t, CheckBMC(test.endpoint, test.description, test.needsMedia), test.want)
		})
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
		"it is not there":               {[]NIC{nic("x", nil), nic("y", nil)}, mac, []string{"Boot interface: the BMC lists no interface with the MAC address 52:54:00:00:00:01, but x, y: "}},
		"it is not among many":          {many, mac, []string{"Boot interface: the BMC lists no interface with the MAC address 52:54:00:00:00:01, but , , , , , , , , 2 more: "}},
		"nothing is listed":             {nil, mac, nil},
		"any, and one boots":            {[]NIC{nic("x", new(false)), nic("y", nil)}, "", nil},
		"any, and none boots":           {[]NIC{nic("x", new(false)), nic("y", new(false))}, "", []string{"Network boot: it is disabled for all interfaces"}},
		"any, and nothing is listed":    {nil, "", nil},
	} {
		t.Run(name, func(t *testing.T) { expectWarnings(t, CheckNICs(test.nics, test.mac), test.want) })
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
