package redfish

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// ordered is a system with a boot order and without a boot override.
func ordered(t *testing.T) *tree {
	t.Helper()
	option := func(reference, more string) string { return `{"BootOptionReference":"` + reference + `",` + more + `}` }
	return newTree(t, aServer(map[string]string{
		aSystem: `{"PowerState":"On","Boot":{"BootOrder":["Boot0001","Boot0002","Boot0003","Boot0004","Boot0005"],
			"BootOptions":{"@odata.id":"/redfish/v1/Systems/1/BootOptions"}}}`,
		aSystem + "/BootOptions": `{"Members":[{"@odata.id":"/redfish/v1/Systems/1/BootOptions/1"},{"@odata.id":"/redfish/v1/Systems/1/BootOptions/2"},
			{"@odata.id":"/redfish/v1/Systems/1/BootOptions/3"},{"@odata.id":"/redfish/v1/Systems/1/BootOptions/4"},{"@odata.id":"/redfish/v1/Systems/1/BootOptions/5"}]}`,
		aSystem + "/BootOptions/1": option("Boot0001", `"UefiDevicePath":"PciRoot(0x0)/Pci(0x1,0x0)/HD(1,GPT,0,0x800,0x100000)"`),
		aSystem + "/BootOptions/2": option("Boot0002", `"UefiDevicePath":"PciRoot(0x0)/Pci(0x3,0x0)/MAC(525400000001,0x1)/IPv4(0.0.0.0)","Alias":"None"`),
		aSystem + "/BootOptions/3": option("Boot0003", `"UefiDevicePath":"PciRoot(0x0)/Pci(0x3,0x0)/MAC(525400000001,0x1)/IPv4(0.0.0.0)/Uri()"`),
		aSystem + "/BootOptions/4": option("Boot0004", `"UefiDevicePath":"PciRoot(0x0)/Pci(0x3,0x0)/MAC(525400000001,0x1)/IPv6(0000)"`),
		aSystem + "/BootOptions/5": option("Boot0005", `"UefiDevicePath":"PciRoot(0x0)/Pci(0x4,0x0)/MAC(525400000002,0x1)/IPv4(0.0.0.0)","BootOptionEnabled":false`),
	}))
}

// TestBootOrder: for a BMC without a boot override, the driver changes the boot order and restores it, even with another connection.
func TestBootOrder(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	s := ordered(t)
	driver := &Driver{Permit: loopback}
	t.Cleanup(driver.CloseIdleConnections)
	endpoint := s.serve(t, aSystem)
	open := func() bmc.Client {
		c, err := driver.Open(ctx, endpoint)
		g.Expect(err).NotTo(HaveOccurred())
		return c
	}
	c := open()
	g.Expect(c.BootMethods()).To(Equal([]bmc.BootMethod{methodBootOrder}))
	description, err := c.Describe(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(description.Capabilities).To(ContainElements(bmc.CanBootPXE, bmc.CanBootHTTP, bmc.CanBootDisk))
	g.Expect(description.Capabilities).NotTo(ContainElement(bmc.CanBootCD))
	g.Expect(c.BootOverride(ctx)).To(HaveField("Target", bmc.BootNone))

	_, err = c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootHTTP, Mode: bmc.BootUEFI, URI: "http://192.0.2.1/boot.iso"}, "")
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported), "a boot order has no place for a URL")
	g.Expect(s.written).To(BeEmpty())

	pxe := bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI}
	result, err := c.SetBootOverride(ctx, pxe, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result).To(Equal(bmc.BootResult{
		Method: methodBootOrder, Lasts: true, ReadBack: &bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI, Continuous: true},
	}))
	g.Expect(s.written).To(Equal([]string{aSystem + ` {"Boot":{"BootOrder":["Boot0002","Boot0004","Boot0001","Boot0003","Boot0005"]}}`}))
	g.Expect(c.BootOverride(ctx)).To(HaveField("Target", bmc.BootPXE))
	_, err = c.SetBootOverride(ctx, pxe, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.written).To(HaveLen(1), "it is so already")

	again := open() // the connection was idle for too long
	_, err = again.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootHTTP}, "")
	g.Expect(err).NotTo(HaveOccurred())
	result, err = again.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone}, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.ReadBack).To(HaveValue(HaveField("Target", bmc.BootNone)))
	g.Expect(s.written[len(s.written)-1]).To(ContainSubstring(`["Boot0001","Boot0002","Boot0003","Boot0004","Boot0005"]`), "the order from before")
	g.Expect(again.BootOverride(ctx)).To(HaveField("Target", bmc.BootNone))
	writes := len(s.written)
	_, err = again.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootNone}, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.written).To(HaveLen(writes), "there is nothing to put back")

	system, _ := s.resources[aSystem].(map[string]any)
	system["Boot"].(map[string]any)["BootOrder"] = []any{"Boot0003", "Boot0001"}
	g.Expect(again.BootOverride(ctx)).To(HaveField("Target", bmc.BootNone), "an order that somebody else changed afterwards is no override")

	for _, unable := range []bmc.BootOverride{{Target: bmc.BootCD}, {Target: bmc.BootPXE, Mode: bmc.BootLegacy}} {
		_, err = again.SetBootOverride(ctx, unable, "")
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported), "%v", err)
	}
}

// TestNoOverride: without an override and an order there are no boot capabilities, and the error names what is missing.
func TestNoOverride(t *testing.T) {
	for name, boot := range map[string]string{
		"nothing":             `{}`,
		"an order alone":      `{"BootOrder":["Boot0001"]}`,
		"options not to read": `{"BootOrder":["Boot0001"],"BootOptions":{"@odata.id":"/redfish/v1/Systems/1/BootOptions"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newTree(t, aServer(map[string]string{aSystem: `{"PowerState":"On","Boot":` + boot + `}`})).open(t, aSystem)
			description, err := c.Describe(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			for _, capability := range []bmc.Capability{bmc.CanBootPXE, bmc.CanBootHTTP, bmc.CanBootDisk, bmc.CanBootCD} {
				g.Expect(description.Capabilities).NotTo(ContainElement(capability))
			}
			_, err = c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}, "")
			g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
			if name != "options not to read" {
				g.Expect(err).To(MatchError(And(ContainSubstring("BootSourceOverrideTarget"), ContainSubstring("BootOptions"))))
			}
		})
	}
}

// TestOverrideAtSettingsAlone: an override that only the settings object shows is returned.
func TestOverrideAtSettingsAlone(t *testing.T) {
	g := NewWithT(t)
	c := newTree(t, aServer(map[string]string{
		aSystem:         `{"PowerState":"On","Boot":{"BootOrder":["Boot0001"]},"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/1/SD"}}}`,
		aSystem + "/SD": `{"Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe"]}}`,
	})).open(t, aSystem)
	description, err := c.Describe(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(description.Capabilities).To(ContainElement(bmc.CanBootPXE))
	g.Expect(description.Capabilities).NotTo(ContainElement(bmc.CanBootDisk))
}

// TestPreferredDrive: the name of the quirks is preferred if the BMC allows it. OpenBMC on a board of the same vendor does not.
func TestPreferredDrive(t *testing.T) {
	for offered, want := range map[string]string{`"Pxe","Cd","UsbCd"`: "UsbCd", `"Pxe","Cd"`: "Cd", `"Pxe"`: ""} {
		g := NewWithT(t)
		s := newTree(t, aServer(map[string]string{
			aSystem: `{"PowerState":"On","Manufacturer":"Supermicro","Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":[` + offered + `]}}`,
		}))
		c := s.open(t, aSystem)
		description, err := c.Describe(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		_, err = c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootCD}, "")
		if want == "" {
			g.Expect(description.Capabilities).NotTo(ContainElement(bmc.CanBootCD))
			g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
			g.Expect(s.written).To(BeEmpty())
			continue
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(description.Capabilities).To(ContainElement(bmc.CanBootCD))
		g.Expect(s.written).To(ConsistOf(ContainSubstring(`"BootSourceOverrideTarget":"` + want + `"`)))
	}
}

// TestOptionTargets: the boot targets of boot options.
func TestOptionTargets(t *testing.T) {
	for option, want := range map[string]bmc.BootTarget{
		`{"Alias":"Pxe","UefiDevicePath":"HD(1)"}`:                           bmc.BootPXE,
		`{"Alias":"UefiHttp"}`:                                               bmc.BootHTTP,
		`{"Alias":"None","UefiDevicePath":"PciRoot(0x0)/Sata(0x1)"}`:         bmc.BootDisk,
		`{"UefiDevicePath":"PciRoot(0x0)/NVMe(0x1,00)"}`:                     bmc.BootDisk,
		`{"UefiDevicePath":"PciRoot(0x0)/USB(0x1,0x0)/CDROM(0x1)"}`:          bmc.BootCD,
		`{"UefiDevicePath":"PciRoot(0x0)/MAC(0,1)/IPv6(0)/Uri(http://a/b)"}`: bmc.BootHTTP,
		`{"UefiDevicePath":"VenMedia(5023B95C)","DisplayName":"EFI Shell"}`:  "",
		`{"DisplayName":"PXE IPv4 Intel I350"}`:                              bmc.BootPXE,
		`{}`:                                                                 "",
	} {
		r, err := decode([]byte(option))
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(targetOf(r)).To(Equal(want), option)
	}
}
