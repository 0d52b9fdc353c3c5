package bmc_test

import (
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

func TestMaskURLs(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]string{
		"Unable to mount http://192.0.2.1:8080/media/tok-1/boot.iso.":     "Unable to mount http://192.0.2.1:8080/(masked)",
		`value "HTTPS://[2001:db8::1]/tok-1" and nfs://a/b`:               `value "HTTPS://[2001:db8::1]/(masked)" and nfs://a/(masked)`,
		"http://user:pass@images.example?token=1 is no image":             "http://images.example/(masked) is no image",
		"http://192.0.2.1 cannot be reached":                              "http://192.0.2.1 cannot be reached",
		"/redfish/v1/Managers/1/VirtualMedia/CD: the resource is missing": "/redfish/v1/Managers/1/VirtualMedia/CD: the resource is missing",
		"": "",
	} {
		g.Expect(bmc.MaskURLs(text)).To(Equal(want))
	}
}

func TestMediaDoubt(t *testing.T) {
	g := NewWithT(t)
	const image = "http://192.0.2.1/tok-1/boot.iso"
	in := func(image string) bmc.Media { return bmc.Media{Name: "CD", Inserted: true, Image: image} }
	empty := bmc.Media{Name: "Floppy", Image: "http://192.0.2.1/old.iso"} // some keep the name of an image that was ejected
	for want, drives := range map[string][]bmc.Media{
		"":                                   {empty, in(image)},
		"no virtual drive contains an image": {empty},
		"2 virtual drives contain images":    {in(image), in("http://192.0.2.1/old.iso")},
		"the BMC reports another URL than that of the image": {in("boot.iso")},
	} {
		g.Expect(bmc.MediaDoubt(drives, image)).To(Equal(want))
	}
}
