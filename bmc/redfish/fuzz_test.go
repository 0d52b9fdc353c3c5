package redfish

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

var seeds = []string{
	`{}`, `null`, `[]`, `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}],"Members@odata.nextLink":"/redfish/v1/Systems?page=2"}`,
	`{"PowerState":"On","UUID":7,"Boot":{"BootSourceOverrideTarget":"Pxe","BootSourceOverrideEnabled":"Once","HttpBootUri":"None"},
	  "MemorySummary":{"TotalSystemMemoryGiB":"64"},"ProcessorSummary":{"Count":1e99},"Storage":{"@odata.id":"/a"},"PCIeDevices":null}`,
	`{"Temperatures":{"ReadingCelsius":"NaN"},"Fans":[{"Reading":1,"ReadingUnits":"Percent"}],"Actions":{"#ComputerSystem.Reset":{"target":"@evil/"}}}`,
	`{"VirtualMedia":{"@odata.id":"/m"},"Members":[{"@odata.id":"/m/1"},{"@odata.id":"/m/2"}],"MediaTypes":["CD"],"Inserted":"true","Image":"http://192.0.2.1/t",
	  "ConnectedVia":7,"PowerState":"Off","Actions":{"#VirtualMedia.InsertMedia":{"target":"/i"},"#VirtualMedia.EjectMedia":{"target":"/e"}}}`,
	`{"Created":"2026-11-21T00:00:00Z","Severity":"OK","Message":null,"Identifiers":[{"DurableNameFormat":"NAA","DurableName":"naa.5:0"}]}`,
}

// FuzzResource: any response is read without a panic, and no link leads to another host.
func FuzzResource(f *testing.F) {
	for _, seed := range seeds {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r, err := decode([]byte(body))
		if err != nil {
			return
		}
		_ = readOverride(r)
		_ = sensorsIn(r)
		_ = (&conn{service: &service{}}).entryOf(r)
		_ = wwnOf(r)
		_ = architectureOf(r)
		_ = isServer(r)
		_ = isInserted(r)
		_ = classOf(r, inSlot(r))
		_ = diskOf(r)
		_ = targetOf(r)
		_ = r.refusal()
		_ = expansionOf(r)
		var i bmc.Inventory
		cpus(&i, r.list("Members"))
		if i.CPUThreads < 0 || memoryMiB(r) < 0 || r.count("n") < 0 || speedOfPort(r) < 0 {
			t.Errorf("a negative count: %+v", i)
		}
		for name := range r {
			if to := r.link(name); to != "" && (!strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//")) {
				t.Errorf("a link that leads to another host: %q", to)
			}
			if mac := macOf(r.text(name)); mac != "" && len(mac) != 17 {
				t.Errorf("%q is no MAC address", mac)
			}
		}
	})
}

// FuzzRetryAfter: a Retry-After is limited to between a second and ten minutes.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"1", "-5", "99999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT", "soon"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		busy := busyOf(&http.Response{StatusCode: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {value}}})
		if busy != nil && (busy.after < time.Second || busy.after > 10*time.Minute) {
			t.Errorf("%q is %s", value, busy.after)
		}
	})
}

// FuzzAnswers: every call ends with a BMC that gives the same response to all requests.
func FuzzAnswers(f *testing.F) {
	for i, seed := range seeds {
		f.Add(uint8(i), seed)
	}
	answer := make(chan []byte, 1)
	answer <- nil
	status, oddRoot := http.StatusOK, false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.TrimSuffix(r.URL.Path, "/") == "/redfish/v1" && !oddRoot {
			_, _ = io.WriteString(w, `{}`)
			return
		}
		body := <-answer
		answer <- body
		w.WriteHeader(status)
		_, _ = w.Write(body)
	}))
	f.Cleanup(server.Close)
	driver := &Driver{Permit: bmctest.Loopback, MediaTimeout: 20 * time.Millisecond}
	f.Fuzz(func(t *testing.T, code uint8, body string) {
		<-answer
		status, oddRoot = []int{200, 200, 200, 400, 401, 404, 412, 500, 501}[int(code)%9], code%2 == 1
		answer <- bytes.Clone([]byte(body))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		u, err := url.Parse(strings.Replace(server.URL, "http", SchemeInsecure, 1) + "/redfish/v1/Systems/1")
		if err != nil {
			t.Fatal(err)
		}
		opened, err := driver.Open(ctx, bmc.Endpoint{URL: u})
		if err != nil {
			return
		}
		c := opened.(*conn)
		_, _ = c.PowerState(ctx)
		_, _ = c.Describe(ctx)
		_, _ = c.Inspect(ctx)
		_, _ = c.Sensors(ctx)
		_, _ = c.ReadLogs(ctx, nil)
		_, _ = c.Clock(ctx)
		_, _ = c.SecureBoot(ctx)
		_, _ = c.Media(ctx)
		_ = c.InsertMedia(ctx, "http://192.0.2.1/tok-0123456789abcdef/boot.iso")
		_ = c.EjectMedia(ctx)
		_, _ = c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.BootUEFI}, "")
		if ctx.Err() != nil {
			t.Error("it took more than 10 s")
		}
	})
}

// richServer is a service with each kind of resource that an inspection reads.
func richServer() map[string]string {
	const function = aSystem + "/PCIeDevices/7/PCIeFunctions/0"
	return aServer(map[string]string{
		aSystem: `{"@odata.id":"` + aSystem + `","@odata.type":"#ComputerSystem.v1_10_0.ComputerSystem","Id":"1","Name":"System","PowerState":"On","UUID":"4C4C4544-0000-1111-2222-333344445555",
			"Manufacturer":"HPE","SerialNumber":"S1","BiosVersion":"1.0","Status":{"Health":"OK"},"MemorySummary":{"TotalSystemMemoryGiB":32},
			"ProcessorSummary":{"Count":1,"Model":"CPU","CoreCount":8,"LogicalProcessorCount":16},
			"Processors":{"@odata.id":"` + aSystem + `/Processors"},"Memory":{"@odata.id":"` + aSystem + `/Memory"},"EthernetInterfaces":{"@odata.id":"` + aSystem + `/EthernetInterfaces"},
			"NetworkInterfaces":{"@odata.id":"` + aSystem + `/NetworkInterfaces"},"Storage":{"@odata.id":"` + aSystem + `/Storage"},"SimpleStorage":{"@odata.id":"` + aSystem + `/SimpleStorage"},
			"GraphicsControllers":{"@odata.id":"` + aSystem + `/GraphicsControllers"},
			"PCIeDevices":[{"@odata.id":"` + aSystem + `/PCIeDevices/7"},{"@odata.id":"` + aSystem + `/PCIeDevices/8"},{"@odata.id":"` + aSystem + `/PCIeDevices/9"}],
			"Boot":{"BootOrder":["Boot0001"],"BootOptions":{"@odata.id":"` + aSystem + `/BootOptions"}},
			"Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/1"}],"ManagedBy":[{"@odata.id":"/redfish/v1/Managers/1"}]}}`,
		aSystem + "/BootOptions":           `{"Members":[{"@odata.id":"` + aSystem + `/BootOptions/1"}]}`,
		aSystem + "/BootOptions/1":         `{"BootOptionReference":"Boot0001","UefiDevicePath":"MAC(0,1)/IPv4(0)"}`,
		aSystem + "/Processors":            `{"Members":[{"@odata.id":"` + aSystem + `/Processors/1"},{"@odata.id":"` + aSystem + `/Processors/GPU"}]}`,
		aSystem + "/Processors/GPU":        `{"@odata.type":"#Processor.v1_3_0.Processor","Id":"GPU","Name":"GPU","ProcessorType":"GPU","SerialNumber":"G1","Links":{"PCIeDevice":{"@odata.id":"` + aSystem + `/PCIeDevices/7"}}}`,
		aSystem + "/PCIeDevices/7":         `{"@odata.type":"#PCIeDevice.v1_5_0.PCIeDevice","Id":"7","Name":"H100","Links":{"PCIeFunctions":[{"@odata.id":"` + function + `"}]}}`,
		aSystem + "/PCIeDevices/8":         `{"@odata.type":"#PCIeDevice.v1_5_0.PCIeDevice","Id":"8","Name":"NIC","SerialNumber":"N1"}`,
		aSystem + "/PCIeDevices/9":         `{"@odata.type":"#PCIeDevice.v1_5_0.PCIeDevice","Id":"9","Name":"empty","Status":{"State":"Absent"}}`,
		function:                           `{"@odata.type":"#PCIeFunction.v1_2_0.PCIeFunction","Id":"0","ClassCode":"0x030200","VendorId":"0x10de","FunctionId":0,"DeviceClass":"DisplayController"}`,
		aSystem + "/GraphicsControllers":   `{"Members":[{"@odata.id":"` + aSystem + `/GraphicsControllers/1"}]}`,
		aSystem + "/GraphicsControllers/1": `{"Id":"1","Name":"GC","SerialNumber":"G2","BiosVersion":"9","Location":{"PartLocation":{"LocationType":"Slot"}}}`,
		aSystem + "/NetworkInterfaces":     `{"Members":[{"@odata.id":"` + aSystem + `/NetworkInterfaces/1"}]}`,
		aSystem + "/NetworkInterfaces/1":   `{"Id":"1","Links":{"NetworkAdapter":{"@odata.id":"` + aChassis + `/NetworkAdapters/1"}}}`,
		aChassis + "/NetworkAdapters":      `{"Members":[{"@odata.id":"` + aChassis + `/NetworkAdapters/1"}]}`,
		aChassis + "/NetworkAdapters/1": `{"Id":"1","Name":"A","NetworkDeviceFunctions":{"@odata.id":"` + aChassis + `/NetworkAdapters/1/NetworkDeviceFunctions"},
			"Ports":{"@odata.id":"` + aChassis + `/NetworkAdapters/1/Ports"},"Controllers":[{"Links":{"NetworkDeviceFunctions":[{"@odata.id":"` + aChassis + `/F/1"}]}}]}`,
		aChassis + "/NetworkAdapters/1/NetworkDeviceFunctions": `{"Members":[{"@odata.id":"` + aChassis + `/F/1"}]}`,
		aChassis + "/F/1":                           `{"Id":"F1","Ethernet":{"MACAddress":"52:54:00:00:00:02"}}`,
		aChassis + "/NetworkAdapters/1/Ports":       `{"Members":[{"@odata.id":"` + aChassis + `/P/1"}]}`,
		aChassis + "/P/1":                           `{"Id":"P1","LinkStatus":"LinkUp","CurrentSpeedGbps":25,"Ethernet":{"AssociatedMACAddresses":["52:54:00:00:00:02"]}}`,
		aSystem + "/Storage":                        `{"Members":[{"@odata.id":"` + aSystem + `/Storage/1"}]}`,
		aSystem + "/Storage/1":                      `{"Id":"1","Name":"S","Drives":[{"@odata.id":"` + aSystem + `/Storage/1/Drives/1"},{"@odata.id":"` + aSystem + `/Storage/1/Drives/2"}]}`,
		aSystem + "/Storage/1/Drives/1":             `{"@odata.type":"#Drive.v1_7_0.Drive","Id":"1","Name":"D","SerialNumber":"D1","CapacityBytes":1000,"MediaType":"SSD","Identifiers":[{"DurableNameFormat":"NAA","DurableName":"0x5"}]}`,
		aSystem + "/Storage/1/Drives/2":             `{"@odata.type":"#Drive.v1_7_0.Drive","Id":"2","Name":"D","SerialNumber":"D2","CapacityBytes":1000,"MediaType":"HDD"}`,
		aSystem + "/SimpleStorage":                  `{"Members":[{"@odata.id":"` + aSystem + `/SimpleStorage/1"}]}`,
		aSystem + "/SimpleStorage/1":                `{"Devices":[{"Name":"D","CapacityBytes":1000}]}`,
		"/redfish/v1/Managers/1":                    `{"Id":"1","ManagerType":"BMC","EthernetInterfaces":{"@odata.id":"/redfish/v1/Managers/1/EthernetInterfaces"},"HostInterfaces":{"@odata.id":"/redfish/v1/Managers/1/HostInterfaces"},"Links":{"ActiveSoftwareImage":{"@odata.id":"/redfish/v1/Image"}}}`,
		"/redfish/v1/Image":                         `{"Version":"3.0"}`,
		"/redfish/v1/Managers/1/EthernetInterfaces": `{"Members":[]}`,
		"/redfish/v1/Managers/1/HostInterfaces":     `{"Members":[{"@odata.id":"/redfish/v1/Managers/1/HostInterfaces/1"}]}`,
		"/redfish/v1/Managers/1/HostInterfaces/1":   `{"HostEthernetInterfaces":{"@odata.id":"` + aSystem + `/EthernetInterfaces"}}`,
		aChassis: `{"@odata.type":"#Chassis.v1_10_0.Chassis","Id":"1","Name":"Chassis","Power":{"@odata.id":"/redfish/v1/Chassis/1/Power"},"PowerSubsystem":{"@odata.id":"/redfish/v1/Chassis/1/PowerSubsystem"},
			"PCIeDevices":{"@odata.id":"/redfish/v1/Chassis/1/PCIeDevices"},"NetworkAdapters":{"@odata.id":"` + aChassis + `/NetworkAdapters"},
			"Links":{"ComputerSystems":[{"@odata.id":"/redfish/v1/Systems/1"}]},"Oem":{"Hpe":{"Links":{"Devices":{"@odata.id":"/redfish/v1/Chassis/1/Devices"}}}}}`,
		aChassis + "/PCIeDevices":    `{"Members":[{"@odata.id":"/redfish/v1/Chassis/1/PCIeDevices/7"}]}`,
		aChassis + "/PCIeDevices/7":  `{"@odata.type":"#PCIeDevice.v1_5_0.PCIeDevice","Id":"7","Name":"H100","FirmwareVersion":"1"}`,
		aChassis + "/Devices":        `{"Members":[{"@odata.id":"/redfish/v1/Chassis/1/Devices/1"}]}`,
		aChassis + "/Devices/1":      `{"Id":"1","Name":"A100","FirmwareVersion":{"Current":{"VersionString":"1"}},"Location":"PCI-E Slot 1","DeviceInstances":[{"@odata.id":"/redfish/v1/Systems/1/PCIDevices/3"}]}`,
		aSystem + "/PCIDevices/3":    `{"Id":"3","ClassCode":3,"VendorID":4318}`,
		aChassis + "/Power":          `{"PowerSupplies":[{"Name":"PSU","PowerCapacityWatts":800.5}]}`,
		aChassis + "/PowerSubsystem": `{"PowerSupplies":{"@odata.id":"/redfish/v1/Chassis/1/PSUs"}}`,
		aChassis + "/PSUs":           `{"Members":[{"@odata.id":"/redfish/v1/Chassis/1/PSUs/1"}]}`,
		aChassis + "/PSUs/1":         `{"Id":"1","Name":"PSU 1","Model":"P","SerialNumber":"PS1","PowerCapacityWatts":800}`,
	})
}

// local answers requests without a network.
type local struct{ handler http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	recorder := httptest.NewRecorder()
	l.handler.ServeHTTP(recorder, r)
	return recorder.Result(), nil
}

// openLocal opens a connection to a tree without a network.
func openLocal(ctx context.Context, s *tree) (*conn, error) {
	driver := &Driver{Wrap: func(http.RoundTripper) http.RoundTripper { return local{s} }}
	opened, err := driver.Open(ctx, bmc.Endpoint{URL: &url.URL{Scheme: SchemeInsecure, Host: "bmc.example"}})
	if err != nil {
		return nil, err
	}
	return opened.(*conn), nil
}

// TestRichServer: what the fuzz test mutates has each kind of part.
func TestRichServer(t *testing.T) {
	c, err := openLocal(t.Context(), newTree(t, richServer()))
	if err != nil {
		t.Fatal(err)
	}
	i, err := c.Inspect(t.Context())
	if err != nil || coherent(&i) != nil {
		t.Fatal(err, coherent(&i))
	}
	counts := []int{i.CPUSockets, len(i.DIMMs), len(i.Disks), len(i.NICs), len(i.Devices), len(i.PowerSupplies)}
	if !slices.Equal(counts, []int{1, 2, 2, 2, 3, 1}) || i.BMCFirmwareVersion != "3.0" {
		t.Errorf("%v: %+v", counts, i)
	}
}

// replace replaces the n-th value in a resource, and returns the remaining count.
func replace(in any, n int, value any) int {
	set := func(inner any, put func(any)) bool {
		if n == 0 {
			put(value)
		}
		if n--; n >= 0 {
			n = replace(inner, n, value)
		}
		return n < 0
	}
	switch v := in.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if set(v[key], func(with any) { v[key] = with }) {
				return -1
			}
		}
	case []any:
		for at := range v {
			if set(v[at], func(with any) { v[at] = with }) {
				return -1
			}
		}
	}
	return n
}

// FuzzTree: a service with any value replaced gives a coherent inventory or an error, after a limited number of requests.
func FuzzTree(f *testing.F) {
	values := []string{
		`null`, `true`, `7`, `-1`, `1e300`, `"x"`, `""`, `[]`, `{}`, `[null,7,{}]`, `{"@odata.id":"/redfish/v1/Systems/1"}`, `[{"@odata.id":"/redfish/v1/Chassis/1"}]`,
		`{"@odata.id":"//evil.example/x"}`, `[{"@odata.id":"/a"},{"@odata.id":"/a"}]`, `{"error":{"code":"Base.1.0.ResourceMissingAtURI"}}`, `"52:54:00:00:00:01"`, `"Absent"`, `"G1"`,
	}
	paths := slices.Sorted(maps.Keys(richServer()))
	for i := range paths {
		for n, value := range values {
			f.Add(uint16(i), uint16((i*7+n*3)%40), value)
		}
	}
	f.Fuzz(func(t *testing.T, which, place uint16, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return
		}
		s := newTree(t, richServer())
		path := paths[int(which)%len(paths)]
		if replace(s.resources[path], int(place), value) >= 0 {
			s.resources[path] = value
		}
		c, err := openLocal(t.Context(), s)
		if err != nil {
			return
		}
		inventory, err := c.Inspect(t.Context())
		if err == nil {
			err = coherent(&inventory)
			if err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		_, _ = c.Describe(t.Context())
		_, _ = c.SetBootOverride(t.Context(), bmc.BootOverride{Target: bmc.BootPXE}, "")
		if s.count() > 2*maxRequests {
			t.Errorf("%d requests", s.count())
		}
	})
}
