package redfish_test

import (
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/leaktest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

// TestMain fails if goroutines, and with them connections, remain after the tests.
func TestMain(m *testing.M) { leaktest.Main(m) }

const testUUID = "4c4c4544-0000-1111-2222-333344445555"

// newMachine starts an emulated server with these faults.
func newMachine(t *testing.T, faults ...bmctest.Fault) (*bmctest.Machine, bmc.Endpoint) {
	t.Helper()
	machine := bmctest.NewMachine(bmctest.Options{
		Name: "s1", MAC: "52:54:00:00:00:01", UUID: testUUID, Username: "admin", Password: "secret",
		Run: func(ctx context.Context, _ bmc.BootTarget, booted func()) { booted(); <-ctx.Done() },
	})
	for _, fault := range faults {
		misbehave(t, machine, fault, -1)
	}
	server := httptest.NewServer(machine)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); machine.Close() })
	return machine, endpointOf(t, server, redfish.SchemeInsecure)
}

func misbehave(t *testing.T, machine *bmctest.Machine, fault bmctest.Fault, times int) {
	t.Helper()
	NewWithT(t).Expect(machine.Misbehave(fault, times)).To(Succeed())
}

func endpointOf(t *testing.T, server *httptest.Server, scheme string) bmc.Endpoint {
	t.Helper()
	u, err := url.Parse(server.URL)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	u.Scheme = scheme
	return bmc.Endpoint{URL: u, Username: "admin", Password: "secret"}
}

// newDriver returns a driver whose connections are closed when the test ends.
func newDriver(t *testing.T) *redfish.Driver {
	t.Helper()
	driver := &redfish.Driver{Permit: bmctest.Loopback, RequestTimeout: time.Minute, MediaTimeout: time.Minute}
	t.Cleanup(driver.CloseIdleConnections)
	return driver
}

// client is a connection with all its interfaces.
type client interface {
	bmc.Client
	bmc.VirtualMedia
	bmc.SecureBooter
	bmc.SecureBootKeyReader
	bmc.BIOSConfigurer
	bmc.Monitor
}

func open(t *testing.T, endpoint bmc.Endpoint) client {
	t.Helper()
	opened, err := newDriver(t).Open(t.Context(), endpoint)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { NewWithT(t).Expect(opened.Close(context.Background())).To(Succeed()) })
	return opened.(client)
}

var everything = []bmc.Capability{
	bmc.CanBIOSSettings, bmc.CanBootCD, bmc.CanBootDisk, bmc.CanBootHTTP, bmc.CanBootPXE, bmc.CanClock, bmc.CanCycle, bmc.CanEventLog, bmc.CanForceOff,
	bmc.CanInventory, bmc.CanNMI, bmc.CanPowerOn, bmc.CanReset, bmc.CanSecureBoot, bmc.CanSensors, bmc.CanShutDown, bmc.CanVirtualMedia,
}

// TestConformance runs the suite against the emulator without faults, and with each fault that the driver must work around.
func TestConformance(t *testing.T) {
	for name, test := range map[string]struct {
		faults []bmctest.Fault
		query  string
		lacks  []bmc.Capability
		known  map[string]bmctest.Known
	}{
		"well":                     {},
		"sessions":                 {query: "auth=session"},
		"sessions that are full":   {query: "auth=session", faults: []bmctest.Fault{bmctest.SessionTableFull}},
		"lower case":               {faults: []bmctest.Fault{bmctest.LowerCaseNames}},
		"wrong types":              {faults: []bmctest.Fault{bmctest.WrongTypes}},
		"decoys":                   {faults: []bmctest.Fault{bmctest.DecoySystems, bmctest.TrailingSlashIs405}},
		"parts are 501":            {faults: []bmctest.Fault{bmctest.PartsAre501}, lacks: []bmc.Capability{bmc.CanSecureBoot}},
		"old schema":               {faults: []bmctest.Fault{bmctest.OldSchema}, lacks: []bmc.Capability{bmc.CanSecureBoot, bmc.CanBIOSSettings, bmc.CanBootHTTP}},
		"redundant power is 4xx":   {faults: []bmctest.Fault{bmctest.RedundantPowerIs4xx}},
		"redundant power is 5xx":   {faults: []bmctest.Fault{bmctest.RedundantPowerIs5xx}},
		"no graceful shutdown":     {faults: []bmctest.Fault{bmctest.NoGracefulShutdown}, lacks: []bmc.Capability{bmc.CanShutDown}},
		"shutdown fails":           {faults: []bmctest.Fault{bmctest.ShutDownFails}, known: shutDownFails},
		"refuses the mode":         {faults: []bmctest.Fault{bmctest.RefusesBootMode}},
		"ignores with the mode":    {faults: []bmctest.Fault{bmctest.IgnoresOverrideWithMode}},
		"once reads continuous":    {faults: []bmctest.Fault{bmctest.OnceReadsContinuous}},
		"settings object":          {faults: []bmctest.Fault{bmctest.OverrideAtSettings}},
		"settings, no mode":        {faults: []bmctest.Fault{bmctest.OverrideAtSettings, bmctest.RefusesBootMode}},
		"needs an ETag":            {faults: []bmctest.Fault{bmctest.NeedsETag}},
		"media under systems":      {faults: []bmctest.Fault{bmctest.MediaUnderSystems}},
		"media by patch":           {faults: []bmctest.Fault{bmctest.MediaByPatch}},
		"media not connected":      {faults: []bmctest.Fault{bmctest.MediaNotConnected}},
		"media decoys":             {faults: []bmctest.Fault{bmctest.MediaDecoyDrives}},
		"two media drives":         {faults: []bmctest.Fault{bmctest.MediaTwoDrives}},
		"media in a DVD drive":     {faults: []bmctest.Fault{bmctest.MediaDVDOnly}},
		"media with few words":     {faults: []bmctest.Fault{bmctest.MediaImageOnly, bmctest.MediaPlainURLs}},
		"media with a protocol":    {faults: []bmctest.Fault{bmctest.MediaNeedsProtocol, bmctest.MediaNoHTTPS}},
		"media with another URL":   {faults: []bmctest.Fault{bmctest.MediaRewritesURL}},
		"keeps the boot URI":       {faults: []bmctest.Fault{bmctest.KeepsBootURI}},
		"writes None as boot URI":  {faults: []bmctest.Fault{bmctest.NoBootURIReadsNone}},
		"a full copy of the BIOS":  {faults: []bmctest.Fault{bmctest.BIOSFullCopy, bmctest.BIOSLanguages}},
		"BIOS without Attributes":  {faults: []bmctest.Fault{bmctest.BIOSNoAttributes, bmctest.BIOSOtherRegistry}},
		"BIOS without settings":    {faults: []bmctest.Fault{bmctest.BIOSNoSettings, bmctest.BIOSNoRegistry}},
		"no media":                 {faults: []bmctest.Fault{bmctest.NoMedia}, lacks: []bmc.Capability{bmc.CanVirtualMedia}},
		"clock skew":               {faults: []bmctest.Fault{bmctest.ClockSkew}},
		"override reverts":         {faults: []bmctest.Fault{bmctest.OverrideReverts}},
		"override never resets":    {faults: []bmctest.Fault{bmctest.OverrideNeverResets}, known: neverResets},
		"once is silently ignored": {faults: []bmctest.Fault{bmctest.IgnoresOnce}, known: onceIgnored},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			machine, endpoint := newMachine(t, test.faults...)
			endpoint.URL.RawQuery = test.query
			must := []bmc.Capability{}
			for _, c := range everything {
				if !slices.Contains(test.lacks, c) {
					must = append(must, c)
				}
			}
			bmctest.Test(t, bmctest.Subject{
				Open: newDriver(t).Open, Endpoint: endpoint, Must: must, Boots: true, Known: test.known,
				Image: "http://192.0.2.1/image.iso", BootURI: "http://192.0.2.1/boot.efi", Settle: time.Second, Poll: time.Millisecond,
			})
			g := NewWithT(t)
			g.Expect(machine.Sessions()).To(BeZero(), "every session is logged out")
			g.Expect(machine.Refused()).To(Equal(1), "one login was refused: that with the wrong password")
			g.Expect(machine.Image()).To(BeEmpty())
			g.Expect(machine.Override().Target).To(Equal(bmc.BootNone))
		})
	}
}

// onceIgnored: an override for one boot that is not shown may be pending. It must not become permanent.
var onceIgnored = map[string]bmctest.Known{
	"boots from the network once, and reports it": {Error: "the BMC accepted the target PXE and reports None", Why: "ignored"},
	"boots from UEFI HTTP once":                   {Error: "the BMC accepted the target HTTP and reports PXE", Why: "ignored"},
	"boots from the disk once":                    {Error: "the BMC accepted the target Disk and reports PXE", Why: "ignored"},
	"boots from the optical drive once":           {Error: "the BMC accepted the target CD and reports PXE", Why: "ignored"},
}

var (
	neverResets   = map[string]bmctest.Known{"an override for one boot expires with it": {Error: "the override is still {Target:PXE", Why: "never"}}
	shutDownFails = map[string]bmctest.Known{"a running server accepts a shutdown request": {Error: "The operating system does not answer", Why: "refused"}}
)

func TestPowerCommands(t *testing.T) {
	g, ctx := NewWithT(t), t.Context()
	machine, endpoint := newMachine(t)
	c := open(t, endpoint)
	g.Expect(c.ForceOff(ctx)).To(Succeed(), "it is off already")
	g.Expect(machine.CommandNames()).To(BeEmpty(), "nothing is commanded that is already so")
	g.Expect(c.PowerOn(ctx)).To(Succeed())
	g.Expect(c.PowerOn(ctx)).To(Succeed())
	g.Expect(c.Cycle(ctx)).To(Succeed())
	g.Expect(c.Reset(ctx)).To(Succeed())
	g.Expect(c.NMI(ctx)).To(Succeed())
	g.Expect(c.ForceOff(ctx)).To(Succeed())
	g.Expect(c.Cycle(ctx)).To(Succeed())
	g.Expect(machine.CommandNames()).To(Equal([]string{"On", "PowerCycle", "ForceRestart", "Nmi", "ForceOff", "On"}))
}

// TestPowerIgnored: reading the state back detects a BMC that acknowledges a command and does nothing.
func TestPowerIgnored(t *testing.T) {
	g := NewWithT(t)
	_, endpoint := newMachine(t, bmctest.PowerIgnored)
	c := open(t, endpoint)
	g.Expect(c.PowerOn(t.Context())).To(Succeed(), "the BMC says so")
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	g.Expect(bmc.AwaitPower(ctx, c, bmc.PowerOn, time.Millisecond)).To(MatchError(ContainSubstring("the BMC still reports Off")))
}

func TestBootMethods(t *testing.T) {
	want := bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI}
	for name, test := range map[string]struct {
		faults []bmctest.Fault
		method bmc.BootMethod
		expect bmc.BootResult
	}{
		"plain":                 {nil, "", bmc.BootResult{Method: "Plain", ReadBack: &want}},
		"refuses the mode":      {[]bmctest.Fault{bmctest.RefusesBootMode}, "", bmc.BootResult{Method: "NoMode", ReadBack: &want}},
		"ignores the mode":      {[]bmctest.Fault{bmctest.IgnoresOverrideWithMode}, "", bmc.BootResult{Method: "NoMode", ReadBack: &want}},
		"settings":              {[]bmctest.Fault{bmctest.OverrideAtSettings}, "", bmc.BootResult{Method: "Settings", ReadBack: &want}},
		"settings, no mode":     {[]bmctest.Fault{bmctest.OverrideAtSettings, bmctest.RefusesBootMode}, "", bmc.BootResult{Method: "SettingsNoMode", ReadBack: &want}},
		"a given method":        {nil, "NoMode", bmc.BootResult{Method: "NoMode", ReadBack: &want}},
		"continuous, if asked":  {[]bmctest.Fault{bmctest.IgnoresOnce}, "Continuous", bmc.BootResult{Method: "Continuous", ReadBack: &bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI, Continuous: true}, Lasts: true}},
		"the rest, continuous":  {[]bmctest.Fault{bmctest.IgnoresOnce}, "Settings", bmc.BootResult{Method: "Continuous", ReadBack: &bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI, Continuous: true}, Lasts: true}},
		"once reads continuous": {[]bmctest.Fault{bmctest.OnceReadsContinuous}, "", bmc.BootResult{Method: "Plain", ReadBack: &bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI, Continuous: true}, Lasts: true}},
		"ignored": {[]bmctest.Fault{bmctest.IgnoresOverride}, "", bmc.BootResult{
			Method: "NoMode", ReadBack: &bmc.BootOverride{Target: bmc.BootNone, Mode: bmc.BootUEFI}, Doubt: "the BMC accepted the target PXE and reports None",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			_, endpoint := newMachine(t, test.faults...)
			result, err := open(t, endpoint).SetBootOverride(t.Context(), want, test.method)
			g := NewWithT(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(result).To(Equal(test.expect))
		})
	}
}

// TestQuirksOnTheWire: the requests to BMCs of some vendors.
func TestQuirksOnTheWire(t *testing.T) {
	pxe := bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI}
	for name, test := range map[string]struct {
		vendor, model string
		want          bmc.BootOverride
		fault         bmctest.Fault
		path, body    string
	}{
		"anyone":              {"", "", pxe, "", "", `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"}}`},
		"Supermicro":          {"Supermicro", "", bmc.BootOverride{Target: bmc.BootPXE}, "", "", `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"}}`},
		"HPE":                 {"HPE", "", pxe, "", "", `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`},
		"HPE, taking it back": {"HPE", "", bmc.BootOverride{Target: bmc.BootNone}, "", "", `{"Boot":{"BootSourceOverrideEnabled":"Disabled"}}`},
		"sushy-tools":         {"Sushy Emulator", "", pxe, "", "", `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`},
		"sushy-tools, BIOS":   {"Sushy Emulator", "", bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootLegacy}, "", "", `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"Legacy","BootSourceOverrideTarget":"Pxe"}}`},
		"Dell, iDRAC 10":      {"Dell Inc.", "PowerEdge R670", pxe, bmctest.OverrideAtSettings, "/SD", `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideMode":"UEFI","BootSourceOverrideTarget":"Pxe"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			machine := bmctest.NewMachine(bmctest.Options{Name: "s", Vendor: test.vendor, Model: test.model, Username: "admin", Password: "secret"})
			if test.fault != "" {
				misbehave(t, machine, test.fault, -1)
			}
			var first string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPatch && first == "" {
					body, err := io.ReadAll(r.Body)
					if err != nil {
						t.Error(err)
					}
					first = r.URL.Path + " " + string(body)
					r.Body = io.NopCloser(strings.NewReader(string(body)))
				}
				machine.ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			_, err := open(t, endpointOf(t, server, redfish.SchemeInsecure)).SetBootOverride(t.Context(), test.want, "")
			if test.want.Target != bmc.BootNone {
				g.Expect(err).NotTo(HaveOccurred())
			}
			g.Expect(first).To(Equal("/redfish/v1/Systems/1" + test.path + " " + test.body))
		})
	}
}

// TestETagStorm: after 412, the driver tries a new ETag, a strong one, a star and none, and then returns an error.
func TestETagStorm(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newMachine(t)
	c := open(t, endpoint)
	misbehave(t, machine, bmctest.ETagStorm, 4)
	result, err := c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}, "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(result.Method).To(Equal(bmc.BootMethod("Plain")))
	misbehave(t, machine, bmctest.ETagStorm, -1)
	_, err = c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootDisk}, "")
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed), "%v", err)
}

func TestInspect(t *testing.T) {
	const system, chassis = "/redfish/v1/Systems/1", "/redfish/v1/Chassis/1"
	known := func(name bmc.FactName, source string) bmc.Fact {
		return bmc.Fact{Name: name, State: bmc.FactKnown, Source: source}
	}
	whole := func() bmc.Inventory {
		return bmc.Inventory{
			Manufacturer: "Emulated", Model: "bmctest", SerialNumber: "SN-s1", SystemUUID: testUUID,
			FirmwareVersion: "1.0", BMCFirmwareVersion: "1.0", CPUModel: "Emulated CPU", Architecture: "amd64", CPUSockets: 1, CPUCores: 8, CPUThreads: 16,
			MemoryMiB: 64 << 10, DIMMs: []bmc.DIMM{{Name: "1", SizeMiB: 64 << 10}}, Health: bmc.HealthOK,
			Disks: []bmc.Disk{{
				Name: "1", Model: "D480", SerialNumber: "DISK-1", WWN: "5000c500a1b2c3d4", SizeBytes: 480 << 30, Rotational: new(false), Health: bmc.HealthOK,
			}},
			NICs: []bmc.NIC{{Name: "1", MACAddress: "52:54:00:00:00:01", SpeedMbps: 25000, LinkUp: new(true)}},
			Devices: []bmc.Device{{
				Class: "GPU", Name: "GPU", Manufacturer: "Emulated", Model: "G1", Serial: "GPU-1", Firmware: "9.1",
			}},
			PowerSupplies: []bmc.PowerSupply{{Name: "PSU 1", Model: "P800", Watts: 800, Health: bmc.HealthOK}},
			Facts: []bmc.Fact{
				known(bmc.FactCPU, system+"/Processors"), known(bmc.FactMemory, system+"/Memory"), known(bmc.FactDisks, system+"/Storage"),
				known(bmc.FactNICs, system+"/EthernetInterfaces"), known(bmc.FactDevices, chassis+"/PCIeDevices"),
				known(bmc.FactPowerSupplies, chassis+"/Power"), known(bmc.FactSerialNumber, system), known(bmc.FactSystemUUID, system),
				known(bmc.FactFirmwareVersion, system), known(bmc.FactBMCFirmwareVersion, "/redfish/v1/Managers/1"),
			},
		}
	}
	simple := []bmc.Disk{{Name: "Disk", Model: "D480", SizeBytes: 480 << 30}}
	for name, test := range map[string]struct {
		fault  bmctest.Fault
		change func(*bmc.Inventory)
	}{
		"whole":      {"", func(*bmc.Inventory) {}},
		"lower case": {bmctest.LowerCaseNames, func(*bmc.Inventory) {}},
		"wrong types": {bmctest.WrongTypes, func(i *bmc.Inventory) {
			i.SerialNumber, i.Disks[0].SerialNumber, i.Disks[0].WWN = "12345", "12345", ""
			i.Devices = nil // the link to them is null
			i.SetFact(bmc.Fact{Name: bmc.FactDevices, State: bmc.FactUnknown, Message: "the BMC does not offer it"})
		}},
		"parts are 501": {bmctest.PartsAre501, func(i *bmc.Inventory) {
			i.Architecture, i.CPUCores, i.DIMMs, i.Disks, i.Devices, i.PowerSupplies = "", 0, nil, simple, nil, nil
			i.SetFact(known(bmc.FactCPU, system))
			i.SetFact(bmc.Fact{
				Name: bmc.FactMemory, State: bmc.FactKnown, Source: system,
				Message: "of the modules: Read " + system + "/Memory: the BMC answered 501 Not Implemented: Not implemented",
			})
			i.SetFact(known(bmc.FactDisks, system+"/SimpleStorage"))
			for name, path := range map[bmc.FactName]string{bmc.FactDevices: chassis + "/PCIeDevices", bmc.FactPowerSupplies: chassis + "/Power"} {
				i.SetFact(bmc.Fact{Name: name, State: bmc.FactUnknown, Source: path, Message: "Read " + path + ": the BMC answered 501 Not Implemented: Not implemented"})
			}
		}},
		"old schema": {bmctest.OldSchema, func(i *bmc.Inventory) {
			i.Disks = simple
			i.SetFact(known(bmc.FactDisks, system+"/SimpleStorage"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var faults []bmctest.Fault
			if test.fault != "" {
				faults = append(faults, test.fault)
			}
			_, endpoint := newMachine(t, faults...)
			inventory, err := open(t, endpoint).Inspect(t.Context())
			want := whole()
			test.change(&want)
			g := NewWithT(t)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(inventory).To(Equal(want))
		})
	}
}

// TestSystems: without a path, the only real system is found among decoys; several are an error that lists them, and a path that
// does not exist is an error.
func TestSystems(t *testing.T) {
	g := NewWithT(t)
	_, endpoint := newMachine(t, bmctest.DecoySystems)
	description, err := open(t, endpoint).Describe(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(description.Path).To(Equal("/redfish/v1/Systems/1"))

	endpoint.URL.Path = "/redfish/v1/Systems/7"
	_, err = newDriver(t).Open(t.Context(), endpoint)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.NotFound))

	several := httptest.NewServer(severalSystems())
	t.Cleanup(several.Close)
	_, err = newDriver(t).Open(t.Context(), endpointOf(t, several, redfish.SchemeInsecure))
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.NotFound))
	g.Expect(err).To(MatchError(And(ContainSubstring("/redfish/v1/Systems/1"), ContainSubstring("/redfish/v1/Systems/2"))))
}

func TestTLS(t *testing.T) {
	g := NewWithT(t)
	machine, _ := newMachine(t)
	server := httptest.NewTLSServer(machine)
	t.Cleanup(server.Close)
	endpoint := endpointOf(t, server, redfish.Scheme)

	_, err := newDriver(t).Open(t.Context(), endpoint)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.BadCertificate), "an unknown certificate is refused by default: %v", err)
	trusted := endpoint
	trusted.CA = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	open(t, trusted)
	skipped := endpoint
	skipped.InsecureSkipVerify = true
	open(t, skipped)
	garbage := endpoint
	garbage.CA = []byte("no certificate")
	_, err = newDriver(t).Open(t.Context(), garbage)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.BadCertificate))
}
