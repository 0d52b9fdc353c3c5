package redfish

import (
	"context"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

const (
	aSystem  = "/redfish/v1/Systems/1"
	aChassis = "/redfish/v1/Chassis/1"
)

// aServer is a small service. Tests change the resources that they need.
func aServer(changes map[string]string) map[string]string {
	resources := map[string]string{
		"/redfish/v1": `{"@odata.type":"#ServiceRoot.v1_5_0.ServiceRoot","RedfishVersion":"1.6.0","Systems":{"@odata.id":"/redfish/v1/Systems"},
			"Chassis":{"@odata.id":"/redfish/v1/Chassis"},"Managers":{"@odata.id":"/redfish/v1/Managers"},
			"ProtocolFeaturesSupported":{"ExpandQuery":{"NoLinks":true,"Levels":true,"MaxLevels":1}}}`,
		"/redfish/v1/Systems": `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}`,
		aSystem: `{"@odata.type":"#ComputerSystem.v1_10_0.ComputerSystem","Id":"1","Name":"System","PowerState":"On","UUID":"4C4C4544-0000-1111-2222-333344445555",
			"Processors":{"@odata.id":"/redfish/v1/Systems/1/Processors"},"Memory":{"@odata.id":"/redfish/v1/Systems/1/Memory"},
			"EthernetInterfaces":{"@odata.id":"/redfish/v1/Systems/1/EthernetInterfaces"},
			"Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe","Cd","UsbCd","Hdd"]},
			"Links":{"Chassis":[{"@odata.id":"/redfish/v1/Chassis/1"}],"ManagedBy":[{"@odata.id":"/redfish/v1/Managers/1"}]}}`,
		aSystem + "/Processors": `{"Members":[{"@odata.id":"/redfish/v1/Systems/1/Processors/1"}]}`,
		aSystem + "/Processors/1": `{"@odata.id":"/redfish/v1/Systems/1/Processors/1","@odata.type":"#Processor.v1_3_0.Processor","Id":"1","Name":"CPU",
			"ProcessorType":"CPU","TotalCores":8,"TotalThreads":16}`,
		aSystem + "/Memory":             `{"Members":[{"@odata.id":"/redfish/v1/Systems/1/Memory/A1"},{"@odata.id":"/redfish/v1/Systems/1/Memory/A2"}]}`,
		aSystem + "/Memory/A1":          `{"@odata.id":"/redfish/v1/Systems/1/Memory/A1","@odata.type":"#Memory.v1_7_0.Memory","Id":"A1","Name":"DIMM A1","CapacityMiB":16384}`,
		aSystem + "/Memory/A2":          `{"@odata.id":"/redfish/v1/Systems/1/Memory/A2","@odata.type":"#Memory.v1_7_0.Memory","Id":"A2","Name":"DIMM A2","CapacityMiB":16384}`,
		aSystem + "/EthernetInterfaces": `{"Members":[{"@odata.id":"/redfish/v1/Systems/1/EthernetInterfaces/1"}]}`,
		aSystem + "/EthernetInterfaces/1": `{"@odata.id":"/redfish/v1/Systems/1/EthernetInterfaces/1","@odata.type":"#EthernetInterface.v1_4_0.EthernetInterface","Id":"1",
			"Name":"LAN","MACAddress":"52:54:00:00:00:01"}`,
		"/redfish/v1/Managers":   `{"Members":[{"@odata.id":"/redfish/v1/Managers/1"}]}`,
		"/redfish/v1/Managers/1": `{"@odata.type":"#Manager.v1_5_0.Manager","Id":"1","ManagerType":"BMC","FirmwareVersion":"2.1"}`,
		"/redfish/v1/Chassis":    `{"Members":[{"@odata.id":"/redfish/v1/Chassis/1"}]}`,
		aChassis: `{"@odata.type":"#Chassis.v1_10_0.Chassis","Id":"1","Name":"Chassis","ChassisType":"RackMount","PowerState":"On",
			"Links":{"ComputerSystems":[{"@odata.id":"/redfish/v1/Systems/1"}]}}`,
	}
	for path, change := range changes {
		if change == "" {
			delete(resources, path)
		} else {
			resources[path] = change
		}
	}
	return resources
}

// TestOddRoot: a property of a wrong type in the service root is not an error.
func TestOddRoot(t *testing.T) {
	for name, root := range map[string]string{
		"ExpandQuery is false":    `{"RedfishVersion":"1.0.2","ProtocolFeaturesSupported":{"ExpandQuery":false}}`,
		"the version is a number": `{"RedfishVersion":1.0,"Vendor":{},"Name":null,"UUID":7,"Links":[],"Oem":"none"}`,
		"an empty object":         `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c := newTree(t, aServer(map[string]string{"/redfish/v1": root})).open(t, "")
			inventory, err := c.Inspect(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(inventory.MemoryMiB).To(BeEquivalentTo(32 << 10))
			description, err := c.Describe(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(description.Protocol).To(HavePrefix("Redfish"))
		})
	}
}

// TestNamedSystem: a path that is not a system is refused, and the error lists the systems.
func TestNamedSystem(t *testing.T) {
	resources := aServer(map[string]string{
		aSystem + "/Pending":  `{"@odata.type":"#ComputerSystem.v1_10_0.ComputerSystem","Id":"Pending","Boot":{}}`,
		"/redfish/v1/Nothing": `{"Name":"nothing"}`,
	})
	for path, says := range map[string]string{
		aChassis:                 "not a ComputerSystem with power control, but Chassis",
		"/redfish/v1/Managers/1": "but Manager",
		aSystem + "/Pending":     "but ComputerSystem",
		"/redfish/v1/Nothing":    "but something else",
		"/redfish/v1/Systems":    "but something else",
		"/redfish/v1/Systems/7":  "404",
	} {
		t.Run(path, func(t *testing.T) {
			g := NewWithT(t)
			driver := &Driver{Permit: loopback}
			defer driver.CloseIdleConnections()
			_, err := driver.Open(t.Context(), newTree(t, resources).serve(t, path))
			g.Expect(bmc.KindOf(err)).To(Equal(bmc.NotFound), "%v", err)
			g.Expect(err).To(MatchError(And(ContainSubstring(says), ContainSubstring("name one of the BMC's systems in the address: "+aSystem))))
		})
	}
	newTree(t, resources).open(t, aSystem+"/")
}

// TestExpandFails: the inventory does not depend on the support of $expand, and a service that refuses it gets no further requests with it.
func TestExpandFails(t *testing.T) {
	plain := aServer(nil)
	want, err := newTree(t, plain).open(t, "").Inspect(t.Context())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, *tree) bool{
		"refuses": func(w http.ResponseWriter, _ *http.Request, _ *tree) bool {
			w.WriteHeader(http.StatusNotImplemented)
			return true
		},
		"ignores": func(_ http.ResponseWriter, r *http.Request, _ *tree) bool { r.URL.RawQuery = ""; return false },
		"too much": func(w http.ResponseWriter, _ *http.Request, _ *tree) bool {
			_, _ = io.WriteString(w, strings.Repeat(" ", maxBody+1))
			return true
		},
		"half": func(w http.ResponseWriter, r *http.Request, _ *tree) bool {
			_, _ = io.WriteString(w, `{"Members":[{"@odata.id":"`+strings.TrimSuffix(r.URL.Path, "/")+`/A1","Id":"A1"},`)
			return true
		},
		"members with an Id alone": func(w http.ResponseWriter, r *http.Request, _ *tree) bool {
			if r.URL.Path != aSystem+"/Memory" {
				return false
			}
			_, _ = io.WriteString(w, `{"Members":[{"@odata.id":"`+aSystem+`/Memory/A1","Id":"A1"},{"@odata.id":"`+aSystem+`/Memory/A2","Id":"A2"}]}`)
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newTree(t, plain)
			expanded := 0
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Query().Get("$expand") == "" {
					return false
				}
				expanded++
				return answer(w, r, s)
			}
			got, err := s.open(t, "").Inspect(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(want))
			if name != "members with an Id alone" {
				g.Expect(expanded).To(Equal(1), "it is given up")
			}
		})
	}
}

// TestPages: all pages of a collection are read, also with $expand.
func TestPages(t *testing.T) {
	g := NewWithT(t)
	s := newTree(t, aServer(map[string]string{
		aSystem + "/Memory":       `{"Members":[{"@odata.id":"/redfish/v1/Systems/1/Memory/A1"}],"Members@odata.nextLink":"/redfish/v1/Systems/1/Memory/page2?$skip=1"}`,
		aSystem + "/Memory/page2": `{"Members":[{"@odata.id":"/redfish/v1/Systems/1/Memory/A2"}]}`,
	}))
	inventory, err := s.open(t, "").Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.DIMMs).To(HaveLen(2))
}

// expiring is a context whose deadline passes when a test says so.
type expiring struct {
	context.Context //nolint:containedctx // it is one

	once sync.Once
	over chan struct{}
}

func newExpiring(ctx context.Context) *expiring {
	return &expiring{Context: ctx, over: make(chan struct{})}
}

func (e *expiring) expire()               { e.once.Do(func() { close(e.over) }) }
func (e *expiring) Done() <-chan struct{} { return e.over }

func (e *expiring) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// TestOutOfTime: an inspection keeps the parts that were read before the deadline, and the rest is unknown.
func TestOutOfTime(t *testing.T) {
	g := NewWithT(t)
	s := newTree(t, aServer(map[string]string{"/redfish/v1": `{"Systems":{"@odata.id":"/redfish/v1/Systems"}}`}))
	c := s.open(t, "")
	ctx := newExpiring(t.Context())
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != aSystem+"/Memory/A2" {
			return false
		}
		ctx.expire()
		<-r.Context().Done()
		return true
	}
	inventory, err := c.Inspect(ctx)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.Partial()).To(BeTrue())
	g.Expect(coherent(&inventory)).To(Succeed())
	g.Expect(inventory.CPUThreads).To(Equal(16))
	g.Expect(inventory.BMCFirmwareVersion).To(Equal("2.1"))
	for _, name := range []bmc.FactName{bmc.FactCPU, bmc.FactBMCFirmwareVersion, bmc.FactSystemUUID} {
		g.Expect(inventory.Fact(name).State).To(Equal(bmc.FactKnown), string(name))
	}
	for _, name := range []bmc.FactName{bmc.FactMemory, bmc.FactNICs, bmc.FactDisks, bmc.FactDevices, bmc.FactPowerSupplies} {
		g.Expect(inventory.Fact(name)).To(And(HaveField("State", bmc.FactUnknown), HaveField("TimedOut", true),
			HaveField("Message", ContainSubstring("timed out"))), string(name))
	}

	s.before = nil
	inventory, err = c.Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.Partial()).To(BeFalse())
	g.Expect(inventory.DIMMs).To(HaveLen(2))
}

// TestPartHangs: a resource that never answers ends the inspection, which keeps the parts that were read before.
func TestPartHangs(t *testing.T) {
	g := NewWithT(t)
	s := newTree(t, aServer(map[string]string{"/redfish/v1": `{}`}))
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != aSystem+"/Memory/A2" {
			return false
		}
		<-r.Context().Done()
		return true
	}
	driver := &Driver{Permit: loopback, RequestTimeout: 2 * time.Second}
	defer driver.CloseIdleConnections()
	c, err := driver.Open(t.Context(), s.serve(t, aSystem))
	g.Expect(err).NotTo(HaveOccurred())
	inventory, err := c.Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.CPUThreads).To(Equal(16))
	g.Expect(inventory.Fact(bmc.FactMemory).TimedOut).To(BeTrue())
	g.Expect(c.PowerState(t.Context())).To(Equal(bmc.PowerOn), "the next call asks again")
}

// TestInspectCanceled: a canceled inspection returns no inventory.
func TestInspectCanceled(t *testing.T) {
	g := NewWithT(t)
	s := newTree(t, aServer(nil))
	c := s.open(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == aSystem+"/Memory" {
			cancel()
			<-r.Context().Done()
			return true
		}
		return false
	}
	_, err := c.Inspect(ctx)
	g.Expect(err).To(MatchError(context.Canceled))
}

// TestSharedEnclosure: parts that several systems share belong to no system, and each system has its own parts.
func TestSharedEnclosure(t *testing.T) {
	g := NewWithT(t)
	power := `{"PowerSupplies":[{"Name":"PSU 1","Model":"P","PowerCapacityWatts":1000}]}`
	two := map[string]string{
		"/redfish/v1/Systems":                  `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"},{"@odata.id":"/redfish/v1/Systems/2"}]}`,
		"/redfish/v1/Systems/2":                `{"PowerState":"On","Processors":{"@odata.id":"/redfish/v1/Systems/2/Processors"}}`,
		"/redfish/v1/Systems/2/Processors":     `{"Members":[{"@odata.id":"/redfish/v1/Systems/2/Processors/GPU"}]}`,
		"/redfish/v1/Systems/2/Processors/GPU": `{"@odata.type":"#Processor.v1_16_0.Processor","Id":"GPU","ProcessorType":"GPU"}`,
		"/redfish/v1/Chassis/E":                `{"Id":"E","Power":{"@odata.id":"/redfish/v1/Chassis/E/Power"},"Links":{"Contains":[{"@odata.id":"/redfish/v1/Chassis/1"},{"@odata.id":"/redfish/v1/Chassis/2"}]}}`,
		"/redfish/v1/Chassis/E/Power":          power,
		aChassis:                               `{"Id":"1","Links":{"ComputerSystems":[{"@odata.id":"/redfish/v1/Systems/1"}],"ContainedBy":{"@odata.id":"/redfish/v1/Chassis/E"}}}`,
		"/redfish/v1/Chassis/2":                `{"Id":"2","Links":{"ComputerSystems":[{"@odata.id":"/redfish/v1/Systems/2"}],"ContainedBy":{"@odata.id":"/redfish/v1/Chassis/E"}}}`,
		"/redfish/v1/Chassis":                  `{"Members":[{"@odata.id":"/redfish/v1/Chassis/E"},{"@odata.id":"/redfish/v1/Chassis/1"},{"@odata.id":"/redfish/v1/Chassis/2"}]}`,
	}
	inventory, err := newTree(t, aServer(two)).open(t, aSystem).Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.PowerSupplies).To(BeEmpty())
	g.Expect(inventory.Fact(bmc.FactPowerSupplies).State).To(Equal(bmc.FactUnknown))
	g.Expect(inventory.Devices).To(BeEmpty(), "the GPU is in the other one")

	// Without links from the systems, the links of the chassis are used.
	unlinked := maps.Clone(two)
	unlinked[aSystem] = `{"PowerState":"On"}`
	unlinked["/redfish/v1/Chassis/1"] = `{"Id":"1","Power":{"@odata.id":"/redfish/v1/Chassis/1/Power"},"Links":{"ComputerSystems":[{"@odata.id":"/redfish/v1/Systems/1"}]}}`
	unlinked["/redfish/v1/Chassis/E"] = `{"Id":"E","Power":{"@odata.id":"/redfish/v1/Chassis/E/Power"}}`
	unlinked["/redfish/v1/Chassis/1/Power"] = strings.ReplaceAll(power, "PSU 1", "own")
	inventory, err = newTree(t, aServer(unlinked)).open(t, aSystem).Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.PowerSupplies).To(ConsistOf(HaveField("Name", "own")))

	// The BMC of one of the nodes may not see the systems of the others.
	one := maps.Clone(two)
	one["/redfish/v1/Chassis/2"] = `{"Id":"2"}`
	one["/redfish/v1/Systems"], one["/redfish/v1/Systems/2"] = `{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}]}`, ""
	inventory, err = newTree(t, aServer(one)).open(t, "").Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.PowerSupplies).To(BeEmpty())

	// An enclosure with one node is the system's.
	one["/redfish/v1/Chassis/E"] = strings.ReplaceAll(two["/redfish/v1/Chassis/E"], `,{"@odata.id":"/redfish/v1/Chassis/2"}`, "")
	inventory, err = newTree(t, aServer(one)).open(t, "").Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.PowerSupplies).To(ConsistOf(HaveField("Name", "PSU 1")))
}

// TestBaseboard: the GPUs of an accelerator baseboard, which is a separate system, belong to the server, each once.
func TestBaseboard(t *testing.T) {
	g := NewWithT(t)
	gpu := func(n string) string {
		return `{"@odata.type":"#Processor.v1_16_0.Processor","Id":"GPU_` + n + `","Name":"GPU ` + n + `","ProcessorType":"GPU","Model":"H100","SerialNumber":"S` + n + `"}`
	}
	s := newTree(t, aServer(map[string]string{
		"/redfish/v1/Systems": `{"Members":[{"@odata.id":"/redfish/v1/Systems/HGX_Baseboard_0"},{"@odata.id":"/redfish/v1/Systems/1"}]}`,
		"/redfish/v1/Systems/HGX_Baseboard_0": `{"@odata.type":"#ComputerSystem.v1_17_0.ComputerSystem","Id":"HGX_Baseboard_0","PowerState":"On",
			"Processors":{"@odata.id":"/redfish/v1/Systems/HGX_Baseboard_0/Processors"}}`,
		"/redfish/v1/Systems/HGX_Baseboard_0/Processors": `{"Members":[{"@odata.id":"/redfish/v1/Systems/HGX_Baseboard_0/Processors/GPU_1"},
			{"@odata.id":"/redfish/v1/Systems/HGX_Baseboard_0/Processors/GPU_2"}]}`,
		"/redfish/v1/Systems/HGX_Baseboard_0/Processors/GPU_1": gpu("1"),
		"/redfish/v1/Systems/HGX_Baseboard_0/Processors/GPU_2": gpu("2"),
		aChassis:                    `{"Id":"1","Links":{"ComputerSystems":[{"@odata.id":"/redfish/v1/Systems/1"}]},"PCIeDevices":{"@odata.id":"/redfish/v1/Chassis/1/PCIeDevices"}}`,
		aChassis + "/PCIeDevices":   `{"Members":[{"@odata.id":"/redfish/v1/Chassis/1/PCIeDevices/7"}]}`,
		aChassis + "/PCIeDevices/7": `{"@odata.type":"#PCIeDevice.v1_5_0.PCIeDevice","Id":"7","Name":"NVIDIA H100","SerialNumber":"S2","FirmwareVersion":"96.0"}`,
	}))
	inventory, err := s.open(t, "").Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.Devices).To(ConsistOf(
		bmc.Device{Class: "GPU", Name: "GPU 1", Model: "H100", Serial: "S1"},
		bmc.Device{Class: "GPU", Name: "GPU 2", Model: "H100", Serial: "S2", Firmware: "96.0"},
	))
	g.Expect(inventory.CPUSockets).To(Equal(1), "accelerators are no CPUs")
}

// TestPlaceholders: placeholders are unknown; the service tag replaces the serial number of a Dell.
func TestPlaceholders(t *testing.T) {
	g := NewWithT(t)
	read := func(properties string) bmc.Inventory {
		inventory, err := newTree(t, aServer(map[string]string{aSystem: `{"PowerState":"On",` + properties + `}`})).open(t, aSystem).Inspect(t.Context())
		g.Expect(err).NotTo(HaveOccurred())
		return inventory
	}
	for _, serial := range []string{"N/A", "null", "0123456789", "To be filled by O.E.M.", "0000000", "   ", "Default string", "01234567890123456789AB"} {
		g.Expect(read(`"SerialNumber":"`+serial+`","SKU":"TAG"`).SerialNumber).To(BeEmpty(), serial)
	}
	g.Expect(read(`"Manufacturer":"Dell Inc.","SerialNumber":"N/A","SKU":"TAG"`).SerialNumber).To(Equal("TAG"))
	g.Expect(read(`"Manufacturer":"Dell Inc.","SerialNumber":"CN1","SKU":"TAG"`).SerialNumber).To(Equal("CN1"))
	for _, uuid := range []string{"00000000-0000-0000-0000-000000000000", "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", "03000200-0400-0500-0006-000700080009"} {
		inventory := read(`"UUID":"` + uuid + `"`)
		g.Expect(inventory.SystemUUID).To(BeEmpty(), uuid)
		g.Expect(inventory.Fact(bmc.FactSystemUUID)).To(And(HaveField("State", bmc.FactUnknown), HaveField("Source", aSystem)))
	}
}

// TestDiskKinds: media of an unknown type are neither solid state nor rotational.
func TestDiskKinds(t *testing.T) {
	for properties, want := range map[string]*bool{
		`{"MediaType":"HDD"}`: new(true), `{"MediaType":"SSD"}`: new(false), `{"Protocol":"NVMe"}`: new(false), `{"RotationSpeedRPM":7200}`: new(true),
		`{"MediaType":null,"Protocol":"SATA"}`: nil, `{"RotationSpeedRPM":0}`: nil, `{"MediaType":"SSD","RotationSpeedRPM":7200}`: new(false),
	} {
		r, err := decode([]byte(properties))
		g := NewWithT(t)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(diskOf(r).Rotational).To(Equal(want), properties)
	}
}

// TestErrorBodies: an error in a response with status 200 is an error: the part could not be read.
func TestErrorBodies(t *testing.T) {
	g := NewWithT(t)
	const missing = `{"error":{"code":"Base.1.4.ResourceMissingAtURI","message":"not found"}}`
	s := newTree(t, aServer(nil))
	s.before = func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != aSystem+"/Memory/A2" && r.URL.Path != "/redfish/v1/Systems/2" {
			return false
		}
		_, _ = io.WriteString(w, missing)
		return true
	}
	delete(s.resources, aSystem+"/Memory/A2")
	inventory, err := s.open(t, "").Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.DIMMs).To(ConsistOf(HaveField("Name", "A1")))
	g.Expect(inventory.Fact(bmc.FactMemory)).To(And(HaveField("State", bmc.FactKnown), HaveField("Message", "1 of 2 resources could not be read")))
	driver := &Driver{Permit: loopback}
	defer driver.CloseIdleConnections()
	_, err = driver.Open(t.Context(), s.serve(t, "/redfish/v1/Systems/2"))
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.NotFound))
}

// TestNICs: which interfaces are the server's own, each once.
func TestNICs(t *testing.T) {
	const list, host = aSystem + "/EthernetInterfaces", "/redfish/v1/Managers/1/HostInterfaces"
	member := func(name string) string { return `{"@odata.id":"` + list + "/" + name + `"}` }
	resources := map[string]string{
		list: `{"Members":[` + strings.Join([]string{
			member("9"), member("2"), member("3"), member("4"), member("5"), member("6"), member("ToManager"), member("8"), member("1"),
		}, ",") + `]}`,
		list + "/1":         `{"Id":"1","MACAddress":"52:54:00:00:00:01","LinkStatus":"LinkDown"}`,
		list + "/2":         `{"Id":"2","MACAddress":"52-54-00-00-00-02","PermanentMACAddress":"52:54:00:00:FF:02","LinkStatus":"LinkUp","SpeedMbps":"25000"}`,
		list + "/3":         `{"Id":"3","MACAddress":"Not Available","PermanentMACAddress":"525400000003","LinkStatus":null}`,
		list + "/4":         `{"Id":"4","MACAddress":"52:54:00:00:00:04","Links":{"HostInterface":{"@odata.id":"` + host + `/1"}}}`,
		list + "/5":         `{"Id":"5","MACAddress":"52:54:00:00:00:05","EthernetInterfaceType":"Virtual"}`,
		list + "/6":         `{"Id":"6","MACAddress":"52:54:00:00:00:06"}`,
		list + "/ToManager": `{"Id":"ToManager","MACAddress":"52:54:00:00:00:07"}`,
		list + "/8":         `{"Id":"8","MACAddress":"00:00:00:00:00:00"}`,
		list + "/9":         `{"Id":"9","MACAddress":"52:54:00:00:00:01"}`,
		"/redfish/v1/Managers/1": `{"Id":"1","ManagerType":"BMC","EthernetInterfaces":{"@odata.id":"/redfish/v1/Managers/1/EthernetInterfaces"},
			"HostInterfaces":{"@odata.id":"` + host + `"}}`,
		"/redfish/v1/Managers/1/EthernetInterfaces":      `{"Members":[{"@odata.id":"/redfish/v1/Managers/1/EthernetInterfaces/eth0"}]}`,
		"/redfish/v1/Managers/1/EthernetInterfaces/eth0": `{"Id":"eth0","MACAddress":"52:54:00:00:00:06"}`,
		host:        `{"Members":[{"@odata.id":"` + host + `/1"}]}`,
		host + "/1": `{"HostEthernetInterfaces":{"@odata.id":"` + list + `"}}`,
	}
	read := func() []bmc.NIC {
		inventory, err := newTree(t, aServer(resources)).open(t, "").Inspect(t.Context())
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		return inventory.NICs
	}
	one := bmc.NIC{Name: "1", MACAddress: "52:54:00:00:00:01", LinkUp: new(false)}
	two := bmc.NIC{Name: "2", MACAddress: "52:54:00:00:00:02", SpeedMbps: 25000, LinkUp: new(true)}
	three := bmc.NIC{Name: "3", MACAddress: "52:54:00:00:00:03"}
	NewWithT(t).Expect(read()).To(Equal([]bmc.NIC{one, two, three}), "the host interface names all of the server's: it means none")

	resources[host+"/1"] = `{"HostEthernetInterfaces":{"@odata.id":"` + host + `/1/HostEthernetInterfaces"}}`
	resources[host+"/1/HostEthernetInterfaces"] = `{"Members":[` + member("2") + `]}`
	NewWithT(t).Expect(read()).To(Equal([]bmc.NIC{one, three}))
}

// TestOneDevice: a device that is listed three times, each with a link to the previous entry, is one device.
func TestOneDevice(t *testing.T) {
	g := NewWithT(t)
	resources := richServer()
	resources[aSystem+"/GraphicsControllers/1"] = `{"Id":"1","Name":"GC","Location":{"PartLocation":{"LocationType":"Slot"}},
		"Links":{"Processors":[{"@odata.id":"` + aSystem + `/Processors/GPU"}]}}`
	inventory, err := newTree(t, resources).open(t, "").Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.Devices).To(ConsistOf(
		bmc.Device{Class: "GPU", Name: "GPU", Model: "H100", Serial: "G1", Firmware: "1"}, bmc.Device{Name: "NIC", Serial: "N1"},
	))
}
