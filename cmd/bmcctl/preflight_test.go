package main

import (
	"net/url"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// TestJudge: the verdict on a server, and what could not be checked.
func TestJudge(t *testing.T) {
	const mac = "52:54:00:00:00:01"
	basics := []bmc.Capability{bmc.CanPowerOn, bmc.CanForceOff}
	with := func(more ...bmc.Capability) bmc.Description {
		return bmc.Description{Capabilities: append(append([]bmc.Capability{}, basics...), more...)}
	}
	complete := func(boots *bool) *bmc.Inventory {
		return &bmc.Inventory{NICs: []bmc.NIC{{Name: "N", MACAddress: mac, NetworkBoot: boots}}, Facts: []bmc.Fact{{Name: bmc.FactNICs, State: bmc.FactKnown}}}
	}
	for name, test := range map[string]struct {
		found      findings
		verdict    string
		ready      bool
		warnings   int
		notChecked int
	}{
		"all is well":              {findings{Description: with(bmc.CanBootPXE, bmc.CanVirtualMedia, bmc.CanBootCD), Inventory: complete(new(true))}, "ready to register", true, 0, 0},
		"it was not described":     {findings{Errors: map[string]string{"description": "timed out"}, Inventory: complete(new(true))}, "unknown: ", false, 0, 0},
		"no network boot, no CD":   {findings{Description: with(bmc.CanVirtualMedia), Inventory: complete(new(true))}, "NOT ready to register: the BMC lacks BootPXE", false, 1, 0},
		"from media alone":         {findings{Description: with(bmc.CanVirtualMedia, bmc.CanBootCD), Inventory: complete(new(true))}, "ready to register", true, 0, 0},
		"no media":                 {findings{Description: with(bmc.CanBootPXE), Inventory: complete(new(true))}, "ready to register, after a look at the warnings", true, 1, 0},
		"network boot is disabled": {findings{Description: with(bmc.CanBootPXE, bmc.CanVirtualMedia, bmc.CanBootCD), Inventory: complete(new(false))}, "ready to register, after a look at the warnings", true, 1, 0},
		"network boot is unknown":  {findings{Description: with(bmc.CanBootPXE, bmc.CanVirtualMedia, bmc.CanBootCD), Inventory: complete(nil)}, "ready to register", true, 0, 1},
		"no inventory":             {findings{Description: with(bmc.CanBootPXE, bmc.CanVirtualMedia, bmc.CanBootCD), Errors: map[string]string{"inventory": "timed out"}}, "unknown: ", false, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			f := &test.found
			f.judge(bmc.Endpoint{URL: &url.URL{Scheme: "redfish"}}, mac)
			g.Expect(f.Verdict).To(HavePrefix(test.verdict))
			g.Expect(f.Ready).To(Equal(test.ready))
			g.Expect(f.Warnings).To(HaveLen(test.warnings))
			g.Expect(f.NotChecked).To(HaveLen(test.notChecked))
		})
	}
}
