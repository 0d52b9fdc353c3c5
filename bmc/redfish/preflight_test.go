package redfish

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// TestNetworkBoot: whether the firmware boots from an interface, by the functions of its adapter. One partition of several is enough.
func TestNetworkBoot(t *testing.T) {
	const adapter = aChassis + "/NetworkAdapters/1"
	function := func(mac, mode string) string {
		return `{"@odata.type":"#NetworkDeviceFunction.v1_5_0.NetworkDeviceFunction","Id":"f","NetDevFuncType":"Ethernet","Ethernet":{"MACAddress":"` + mac + `"}` + mode + `}`
	}
	i := inspectTree(t, map[string]string{
		aChassis:                      chassisWith(`"NetworkAdapters":{"@odata.id":"` + aChassis + `/NetworkAdapters"}`),
		aChassis + "/NetworkAdapters": collection(adapter),
		adapter:                       `{"@odata.type":"#NetworkAdapter.v1_5_0.NetworkAdapter","Id":"1","Name":"NIC","NetworkDeviceFunctions":{"@odata.id":"` + adapter + `/f"}}`,
		adapter + "/f":                collection(adapter+"/f/1", adapter+"/f/2", adapter+"/f/3", adapter+"/f/4", adapter+"/f/5"),
		adapter + "/f/1":              function("52:54:00:00:00:01", `,"BootMode":"Disabled"`),
		adapter + "/f/2":              function("52:54:00:00:01:02", `,"BootMode":"PXE"`),
		adapter + "/f/3":              function("52:54:00:00:01:02", `,"BootMode":"Disabled"`),
		adapter + "/f/4":              function("52:54:00:00:01:04", ""),
		adapter + "/f/5":              function("52:54:00:00:01:05", `,"BootMode":"iSCSI"`),
	})
	boots := map[string]*bool{}
	for _, n := range i.NICs {
		boots[n.MACAddress] = n.NetworkBoot
	}
	NewWithT(t).Expect(boots).To(Equal(map[string]*bool{
		"52:54:00:00:00:01": new(false), "52:54:00:00:01:02": new(true), "52:54:00:00:01:04": nil, "52:54:00:00:01:05": nil,
	}))
}

// TestPowerRestorePolicy: what the firmware does after a loss of power is one of the values of the standard, or unknown.
func TestPowerRestorePolicy(t *testing.T) {
	for value, want := range map[string]string{`"LastState"`: "LastState", `"AlwaysOff"`: "AlwaysOff", `"Sometimes\u001b"`: "", `null`: "", `7`: ""} {
		g := NewWithT(t)
		system := aServer(nil)[aSystem]
		c := newTree(t, aServer(map[string]string{aSystem: system[:len(system)-1] + `,"PowerRestorePolicy":` + value + `}`})).open(t, aSystem)
		description, err := c.Describe(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(description.PowerRestorePolicy).To(Equal(want))
	}
}

// TestSessionsAndClock: the open sessions and the clock are part of the description.
func TestSessionsAndClock(t *testing.T) {
	g := NewWithT(t)
	root := aServer(nil)["/redfish/v1"]
	c := newTree(t, aServer(map[string]string{
		"/redfish/v1":            root[:len(root)-1] + `,"Links":{"Sessions":{"@odata.id":"/redfish/v1/Sessions"}}}`,
		"/redfish/v1/Sessions":   collection("/redfish/v1/Sessions/1", "/redfish/v1/Sessions/2"),
		"/redfish/v1/Managers/1": `{"@odata.type":"#Manager.v1_5_0.Manager","Id":"1","DateTime":"` + time.Now().Add(-time.Hour).Format(time.RFC3339) + `"}`,
	})).open(t, aSystem)
	description, err := c.Describe(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(description.OpenSessions).To(Equal(2))
	g.Expect(*description.ClockAhead).To(BeNumerically("~", -time.Hour, time.Minute))
	g.Expect(description.Capabilities).To(ContainElement(bmc.CanClock))
}
