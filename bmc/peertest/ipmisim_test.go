package peertest_test

import (
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/ipmi"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/peertest"
)

// TestIPMISim: the driver passes the suite against OpenIPMI's BMC emulator. It accepts cipher suite 3 and refuses 17.
func TestIPMISim(t *testing.T) {
	g := NewWithT(t)
	driver := &ipmi.Driver{Permit: bmc.AllowList{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}
	subject := peertest.IPMISim(t)
	subject.Open, subject.Poll, subject.Settle = driver.Open, 10*time.Millisecond, 10*time.Second
	subject.Must = []bmc.Capability{
		bmc.CanPowerOn, bmc.CanForceOff, bmc.CanShutDown, bmc.CanCycle, bmc.CanReset, bmc.CanBootPXE, bmc.CanBootDisk, bmc.CanBootCD,
		bmc.CanInventory, bmc.CanSensors, bmc.CanEventLog,
	}
	const invalid = "ipmi_sim obeys the boot flags, and marks them as not valid when they are read back"
	known := bmctest.Known{Error: "the BMC reports that the boot flags are not valid", Why: invalid}
	subject.Known = map[string]bmctest.Known{
		"boots from the network once, and reports it": known,
		"boots from the network always":               known,
		"boots from the disk once":                    known,
		"boots from the optical drive once":           known,
		"an NMI is accepted and leaves the server on": {Error: "CCh", Why: "ipmi_sim has no diagnostic interrupt"},
	}
	bmctest.Test(t, subject)

	client, err := driver.Open(t.Context(), subject.Endpoint)
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(client.Close(t.Context())).To(Succeed()) }()
	description, err := client.Describe(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(description.Protocol).To(Equal("IPMI 2.0, cipher suite 3"))
	g.Expect(description.Model).To(Equal("ipmi_sim"))
	inventory, err := client.Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.SystemUUID).To(Equal(peertest.IPMISimUUID))

	only17 := subject.Endpoint
	query := *only17.URL
	query.RawQuery = "cipherSuite=17"
	only17.URL = &query
	_, err = driver.Open(t.Context(), only17)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported), "%v", err)
}
