package host

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// TestChoose: a boot that failed escalates to the next choice, and a choice that worked is used again.
func TestChoose(t *testing.T) {
	ways := []bmc.BootMethod{"Plain", "NoMode", "Settings"}
	both := []string{"BootHTTP", "BootPXE"}
	last := func(target v1alpha1.OverrideTarget, way string, attempt int32, worked bool) *v1alpha1.BootOverrideStatus {
		return &v1alpha1.BootOverrideStatus{Target: target, Method: way, Boot: attempt, Worked: worked}
	}
	for name, test := range map[string]struct {
		can     []string
		mode    bmc.BootMode
		last    *v1alpha1.BootOverrideStatus
		attempt int32
		want    overrideChoice
	}{
		"the first":                           {both, bmc.BootUEFI, nil, 1, overrideChoice{bmc.BootPXE, "Plain"}},
		"the same attempt again":              {both, bmc.BootUEFI, last("PXE", "Plain", 1, false), 1, overrideChoice{bmc.BootPXE, "Plain"}},
		"the second":                          {both, bmc.BootUEFI, last("PXE", "Plain", 1, false), 2, overrideChoice{bmc.BootPXE, "NoMode"}},
		"the third is HTTP":                   {both, bmc.BootUEFI, last("PXE", "NoMode", 2, false), 3, overrideChoice{bmc.BootHTTP, "Plain"}},
		"then the rest":                       {both, bmc.BootUEFI, last("HTTP", "Plain", 3, false), 4, overrideChoice{bmc.BootPXE, "Settings"}},
		"and from the start":                  {both, bmc.BootUEFI, last("PXE", "Settings", 4, false), 5, overrideChoice{bmc.BootPXE, "Plain"}},
		"it worked, and the boot did not":     {both, bmc.BootUEFI, last("PXE", "NoMode", 1, true), 2, overrideChoice{bmc.BootPXE, "NoMode"}},
		"it worked for another machine":       {both, bmc.BootUEFI, last("PXE", "Settings", 2, true), 1, overrideChoice{bmc.BootPXE, "Settings"}},
		"no HTTP boot for legacy firmware":    {both, bmc.BootLegacy, last("PXE", "NoMode", 2, false), 3, overrideChoice{bmc.BootPXE, "Settings"}},
		"HTTP alone":                          {[]string{"BootHTTP"}, bmc.BootUEFI, nil, 1, overrideChoice{bmc.BootHTTP, "Plain"}},
		"HTTP worked in another way":          {both, bmc.BootUEFI, last("HTTP", "NoMode", 3, true), 1, overrideChoice{bmc.BootHTTP, "NoMode"}},
		"HTTP was tried in another way":       {both, bmc.BootUEFI, last("HTTP", "NoMode", 3, false), 4, overrideChoice{bmc.BootPXE, "Settings"}},
		"HTTP alone, and legacy firmware":     {[]string{"BootHTTP"}, bmc.BootLegacy, nil, 1, overrideChoice{target: bmc.BootPXE}},
		"a way that the driver has no longer": {both, bmc.BootUEFI, last("PXE", "Old", 1, false), 2, overrideChoice{bmc.BootPXE, "Plain"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			list := overrideChoices(ways, test.can, test.mode)
			order := orderChoices(list, test.last, test.attempt)
			g.Expect(order[0]).To(Equal(test.want))
			g.Expect(order).To(HaveLen(max(1, len(list))), "each once")
		})
	}
}

// TestFirmwareInterface: the BMC gets a request for UEFI with and without Secure Boot.
func TestFirmwareInterface(t *testing.T) {
	g := NewWithT(t)
	g.Expect(firmwareInterface(v1alpha1.BootModeUEFI)).To(Equal(bmc.BootUEFI))
	g.Expect(firmwareInterface(v1alpha1.BootModeUEFISecureBoot)).To(Equal(bmc.BootUEFI))
	g.Expect(firmwareInterface(v1alpha1.BootModeBIOS)).To(Equal(bmc.BootLegacy))
}
