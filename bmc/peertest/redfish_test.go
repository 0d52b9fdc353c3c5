package peertest

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

// The capabilities of both drivers of sushy-tools.
var sushyMust = []bmc.Capability{
	bmc.CanPowerOn, bmc.CanForceOff, bmc.CanShutDown, bmc.CanCycle, bmc.CanReset, bmc.CanNMI,
	bmc.CanBootPXE, bmc.CanBootHTTP, bmc.CanBootDisk, bmc.CanBootCD,
	bmc.CanInventory, bmc.CanVirtualMedia, bmc.CanSecureBoot, bmc.CanSensors, bmc.CanClock,
}

// fakes are the systems of the fake driver. There are several, so the URL must name one.
var fakes = []string{"27946b59-9e44-4fa7-8e91-f3527a1ef094", "27946b59-9e44-4fa7-8e91-f3527a1ef095", "27946b59-9e44-4fa7-8e91-f3527a1ef096"}

// TestSushyFake: the systems of the fake driver execute a power command after 1 to 11 s, which cannot be configured.
func TestSushyFake(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"HTTP": false, "HTTPS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sushy := StartSushyFake(t, secure, fakes...)
			bmctest.Test(t, bmctest.Subject{
				Open: (&redfish.Driver{Permit: Permit}).Open, Endpoint: sushy.Endpoint(fakes[1]), Must: sushyMust,
				BootMedia: serveImage(t), BootURI: "http://192.0.2.1/boot.efi", Settle: 30 * time.Second, Poll: 200 * time.Millisecond,
				Known: map[string]bmctest.Known{
					"an NMI is accepted and leaves the server on": {Error: "501 Not Implemented", Why: "Nmi is among the AllowableValues, and answered with 501"},
					"the server boots from virtual media":         keepsBootMedia,
					"boots from UEFI HTTP once":                   {Error: "400 Bad Request", Why: "a change with HttpBootUri is answered with 400: the fake driver has nowhere to put it"},
				},
			})
		})
	}
}

// TestSushyCertificate: the certificate of another project's server is verified.
func TestSushyCertificate(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	sushy := StartSushyFake(t, true, fakes...)
	driver := &redfish.Driver{Permit: Permit}
	for name, c := range map[string]struct {
		change func(*bmc.Endpoint)
		want   bmc.Kind
	}{
		"its authority":      {func(*bmc.Endpoint) {}, ""},
		"no authority":       {func(e *bmc.Endpoint) { e.CA = nil }, bmc.BadCertificate},
		"another authority":  {func(e *bmc.Endpoint) { e.CA = writeCertificate(t, t.TempDir()+"/c", t.TempDir()+"/k") }, bmc.BadCertificate},
		"another name":       {func(e *bmc.Endpoint) { e.URL.Host = "localhost:" + e.URL.Port() }, bmc.BadCertificate},
		"without verifying":  {func(e *bmc.Endpoint) { e.CA, e.InsecureSkipVerify = nil, true }, ""},
		"no system is named": {func(e *bmc.Endpoint) { e.URL.Path = "" }, bmc.NotFound},
	} {
		endpoint := sushy.Endpoint(fakes[0])
		c.change(&endpoint)
		client, err := driver.Open(t.Context(), endpoint)
		if c.want != "" {
			g.Expect(err).To(HaveOccurred(), name)
			g.Expect(bmc.KindOf(err)).To(Equal(c.want), "%s: %v", name, err)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred(), name)
		g.Expect(client.Close(t.Context())).To(Succeed())
	}
}

func TestSushyLibvirt(t *testing.T) {
	t.Parallel()
	libvirt := StartLibvirt(t, 2)
	sushy := StartSushyLibvirt(t, libvirt)
	bmctest.Test(t, bmctest.Subject{
		Open: (&redfish.Driver{Permit: Permit}).Open, Endpoint: sushy.Endpoint(libvirt.Machines[1].UUID), Must: sushyMust,
		BootMedia: serveImage(t), BootURI: "http://192.0.2.1/boot.efi", Settle: 20 * time.Second, Boots: true,
		Known: map[string]bmctest.Known{
			"the server boots from virtual media": keepsBootMedia,
			"boots from UEFI HTTP once": {Error: "400 Bad Request", Why: "the image at HttpBootUri is fetched before the change is answered, with 400 where " +
				"it cannot be had, and put into the optical drive: the target reads Cd then"},
			"an override for one boot expires with it": {Error: "the override is still {Target:PXE", Why: "Once is taken, read as Continuous, and never taken back"},
		},
	})
}

// TestSushyLibvirtSecureBoot: a boot override leaves Secure Boot as it is.
func TestSushyLibvirtSecureBoot(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	libvirt := StartLibvirt(t, 1)
	sushy := StartSushyLibvirt(t, libvirt)
	client, err := (&redfish.Driver{Permit: Permit}).Open(t.Context(), sushy.Endpoint(libvirt.Machines[0].UUID))
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { g.Expect(client.Close(context.Background())).To(Succeed()) }()
	firmware, err := bmc.As[bmc.SecureBooter](client, "Set Secure Boot")
	g.Expect(err).NotTo(HaveOccurred())
	for _, enabled := range []bool{true, false} {
		g.Expect(firmware.SetSecureBoot(t.Context(), enabled)).To(Succeed())
		result, err := client.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI}, "")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(result.Doubt).To(BeEmpty())
		state, err := firmware.SecureBoot(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(state.Next()).To(Equal(enabled))
	}
}

// keepsBootMedia: sushy-tools gives no evidence of a boot from media.
var keepsBootMedia = bmctest.Known{
	Error: "the BMC did not read the image within 2s after the power-on",
	Why:   "the whole image is fetched when it is inserted, and an override for one boot is never taken back",
}

// serveImage serves an image for virtual drives.
func serveImage(t *testing.T) *bmctest.BootMedia {
	t.Helper()
	image := make([]byte, 64<<10)
	var read atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			read.Add(int64(len(image))) // it fetches no ranges
		}
		http.ServeContent(w, r, "boot.iso", time.Time{}, bytes.NewReader(image))
	}))
	t.Cleanup(server.Close)
	return &bmctest.BootMedia{URL: server.URL + "/boot.iso", Read: read.Load, Size: int64(len(image)), Timeout: 2 * time.Second}
}
