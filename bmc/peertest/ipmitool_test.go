package peertest_test

import (
	"testing"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmclib"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/peertest"
)

// TestIpmitool: the program ipmitool, through bmclib, passes the suite against OpenIPMI's BMC emulator.
func TestIpmitool(t *testing.T) {
	subject := peertest.IPMISim(t)
	address := *subject.Endpoint.URL
	address.Scheme, address.RawQuery = bmclib.SchemeIpmitool, "cipherSuite=3" // ipmi_sim refuses 17
	subject.Endpoint.URL = &address
	subject.Open, subject.Poll, subject.Settle = (&bmclib.Driver{Permit: peertest.Permit}).OpenIpmitool, 50*time.Millisecond, 10*time.Second
	subject.Must = []bmc.Capability{bmc.CanPowerOn, bmc.CanForceOff, bmc.CanShutDown, bmc.CanCycle, bmc.CanReset, bmc.CanBootPXE, bmc.CanBootDisk}
	subject.Known = map[string]bmctest.Known{"an NMI is accepted and leaves the server on": {Error: "Invalid data field in request", Why: "ipmi_sim has no diagnostic interrupt"}}
	bmctest.Test(t, subject)
}
