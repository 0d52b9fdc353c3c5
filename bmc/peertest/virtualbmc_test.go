package peertest

import (
	"testing"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/ipmi"
)

func TestVirtualBMC(t *testing.T) {
	t.Parallel()
	libvirt := StartLibvirt(t, 1)
	bmctest.Test(t, bmctest.Subject{
		// virtualbmc answers one request at a time, and none while libvirt starts or stops the machine: on a busy computer that takes longer than the 5 s of the driver.
		Open: (&ipmi.Driver{Permit: Permit, RequestTimeout: 20 * time.Second}).Open, Endpoint: StartVirtualBMC(t, libvirt, libvirt.Machines[0]),
		Must:   []bmc.Capability{bmc.CanPowerOn, bmc.CanForceOff, bmc.CanShutDown, bmc.CanReset, bmc.CanBootPXE, bmc.CanBootDisk, bmc.CanBootCD},
		Settle: 20 * time.Second, Boots: true,
		Known: map[string]bmctest.Known{
			"a power cycle leaves the server on":       {Error: "CCh", Why: "Chassis Control with Power Cycle is refused"},
			"boots from the network always":            {Error: "the flags are for the next boot, not for every boot", Why: "the flags always read as those for the next boot, whatever was set, and in legacy mode"},
			"a boot override can be removed":           {Error: `the device is "Force PXE"`, Why: "the device No Override is answered with 00h, and the old one stays"},
			"an override for one boot expires with it": {Error: "the override is still {Target:PXE", Why: "what is set is the machine's own boot order from then on"},
		},
	})
}
