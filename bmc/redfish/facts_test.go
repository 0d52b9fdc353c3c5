package redfish

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// inspectTree reads the inventory of a small service with changes.
func inspectTree(t *testing.T, changes map[string]string) *bmc.Inventory {
	t.Helper()
	c := newTree(t, aServer(changes)).open(t, aSystem)
	i, err := c.Inspect(t.Context())
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return &i
}

// collection is a collection of members.
func collection(paths ...string) string {
	links := make([]string, len(paths))
	for i, path := range paths {
		links[i] = fmt.Sprintf(`{"@odata.id":%q}`, path)
	}
	return `{"Members":[` + strings.Join(links, ",") + `]}`
}

// chassisWith is the chassis of the server with further properties.
func chassisWith(properties string) string {
	return `{"@odata.type":"#Chassis.v1_10_0.Chassis","Id":"1","Name":"Chassis","ChassisType":"RackMount",` + properties + `,"Links":{"ComputerSystems":[{"@odata.id":"` + aSystem + `"}]}}`
}

// classesOf returns the classes and models of devices.
func classesOf(devices []bmc.Device) []string {
	classes := []string{}
	for _, d := range devices {
		classes = append(classes, strings.TrimSpace(d.Class+" "+d.Model))
	}
	return classes
}

const baseboard = "/redfish/v1/Systems/HGX_Baseboard_0"

// graceServer is a server whose CPUs, memory and GPUs are on a baseboard, which is a system of its own.
func graceServer() map[string]string {
	processor := func(id, kind, properties string) string {
		return fmt.Sprintf(`{"@odata.type":"#Processor.v1_13_0.Processor","Id":%q,"Name":"Processor","ProcessorType":%q,%s}`, id, kind, properties)
	}
	return map[string]string{
		"/redfish/v1/Systems":     collection(aSystem, baseboard),
		aSystem + "/Processors":   collection(),
		aSystem + "/Processors/1": "", aSystem + "/Memory": collection(), aSystem + "/Memory/A1": "", aSystem + "/Memory/A2": "",
		baseboard: `{"@odata.type":"#ComputerSystem.v1_20_0.ComputerSystem","Id":"HGX_Baseboard_0","PowerState":"On","SerialNumber":"BOARD",
			"Processors":{"@odata.id":"` + baseboard + `/Processors"},"Memory":{"@odata.id":"` + baseboard + `/Memory"}}`,
		baseboard + "/Processors":          collection(baseboard+"/Processors/CPU_0", baseboard+"/Processors/GPU_0", baseboard+"/Processors/GPU_1"),
		baseboard + "/Processors/CPU_0":    processor("CPU_0", "CPU", `"Model":"Grace A02P","TotalCores":72,"TotalThreads":72`),
		baseboard + "/Processors/GPU_0":    processor("GPU_0", "GPU", `"Model":"NVIDIA GB300","Manufacturer":"NVIDIA","SerialNumber":"MODULE","UUID":"4c4c4544-0000-1111-2222-000000000001"`),
		baseboard + "/Processors/GPU_1":    processor("GPU_1", "GPU", `"Model":"NVIDIA GB300","Manufacturer":"NVIDIA","SerialNumber":"MODULE","UUID":"4c4c4544-0000-1111-2222-000000000002"`),
		baseboard + "/Memory":              collection(baseboard+"/Memory/CPU_0_DRAM", baseboard+"/Memory/GPU_0_DRAM_0"),
		baseboard + "/Memory/CPU_0_DRAM":   `{"@odata.type":"#Memory.v1_20_0.Memory","Id":"CPU_0_DRAM","Name":"Memory","CapacityMiB":491520}`,
		baseboard + "/Memory/GPU_0_DRAM_0": `{"@odata.type":"#Memory.v1_20_0.Memory","Id":"GPU_0_DRAM_0","Name":"Memory","CapacityMiB":0}`,
	}
}

// TestPartsOfBaseboard: an empty collection of the system does not mean that there is none if its baseboard has the parts. GPUs of one board with one serial number are several.
func TestPartsOfBaseboard(t *testing.T) {
	g := NewWithT(t)
	i := inspectTree(t, graceServer())
	g.Expect([]any{i.CPUModel, i.Architecture, i.CPUSockets, i.CPUCores, i.MemoryMiB}).To(Equal([]any{"Grace A02P", "arm64", 1, 72, int64(491520)}))
	g.Expect(i.Fact(bmc.FactCPU)).To(And(HaveField("State", bmc.FactKnown), HaveField("Source", baseboard+"/Processors")))
	g.Expect(i.Fact(bmc.FactMemory)).To(And(HaveField("State", bmc.FactKnown), HaveField("Source", baseboard+"/Memory")))
	g.Expect(classesOf(i.Devices)).To(Equal([]string{"GPU NVIDIA GB300", "GPU NVIDIA GB300"}))
	g.Expect(i.Devices[0].Name).To(Equal("GPU_0"))
	g.Expect(i.SerialNumber).To(Equal("BOARD"), "neither the system nor its chassis has one")
	g.Expect(i.Fact(bmc.FactSerialNumber).Source).To(Equal(baseboard))
}

// TestIdentityElsewhere: the serial number of the outermost chassis of this system, and the version of the firmware in the software inventory.
func TestIdentityElsewhere(t *testing.T) {
	const software = "/redfish/v1/UpdateService/FirmwareInventory"
	g := NewWithT(t)
	root := aServer(nil)["/redfish/v1"]
	i := inspectTree(t, map[string]string{
		"/redfish/v1":               strings.Replace(root, `"Systems":`, `"UpdateService":{"@odata.id":"/redfish/v1/UpdateService"},"Systems":`, 1),
		"/redfish/v1/UpdateService": `{"FirmwareInventory":{"@odata.id":"` + software + `"}}`,
		software:                    collection(software+"/NIC_1", software+"/HGX_FW_CPU_0", software+"/BIOS_Previous", software+"/AB86"),
		software + "/BIOS_Previous": `{"@odata.type":"#SoftwareInventory.v1_4_0.SoftwareInventory","Id":"BIOS_Previous","Name":"BIOS","Version":"2.0"}`,
		software + "/NIC_1":         `{"@odata.type":"#SoftwareInventory.v1_4_0.SoftwareInventory","Id":"NIC_1","Name":"Software Inventory","Version":"32.44"}`,
		software + "/HGX_FW_CPU_0":  `{"@odata.type":"#SoftwareInventory.v1_4_0.SoftwareInventory","Id":"HGX_FW_CPU_0","Name":"Software Inventory","Version":"33"}`,
		software + "/AB86":          `{"@odata.type":"#SoftwareInventory.v1_4_0.SoftwareInventory","Id":"AB86","Name":"BIOS Firmware","Version":"2.1b"}`,
		"/redfish/v1/Chassis":       collection("/redfish/v1/Chassis/BMC_0", aChassis),
		aChassis:                    chassisWith(`"SerialNumber":"RACK-7"`),
		"/redfish/v1/Chassis/BMC_0": `{"@odata.type":"#Chassis.v1_10_0.Chassis","Id":"BMC_0","ChassisType":"Module","SerialNumber":"BMCBOARD","Links":{"ComputerSystems":[{"@odata.id":"` + aSystem + `"}]}}`,
	})
	g.Expect([]string{i.SerialNumber, i.FirmwareVersion}).To(Equal([]string{"RACK-7", "2.1b"}))
	g.Expect([]string{i.Fact(bmc.FactSerialNumber).Source, i.Fact(bmc.FactFirmwareVersion).Source}).To(Equal([]string{aChassis, software + "/AB86"}))
}

// TestSeveralChassis: the serial numbers of two chassis, or of a chassis with another server, are no serial number of the server.
func TestSeveralChassis(t *testing.T) {
	chassis := func(id, serial string, systems ...string) string {
		links := make([]string, 0, len(systems))
		for _, system := range systems {
			links = append(links, `{"@odata.id":"`+system+`"}`)
		}
		return `{"@odata.type":"#Chassis.v1_10_0.Chassis","Id":"` + id + `","SerialNumber":"` + serial + `","Links":{"ComputerSystems":[` + strings.Join(links, ",") + `]}}`
	}
	const second = "/redfish/v1/Chassis/Second"
	for name, changes := range map[string]map[string]string{
		"two":            {aChassis: chassis("1", "A", aSystem), second: chassis("Second", "B", aSystem)},
		"another server": {aChassis: chassis("1", "A", aSystem, "/redfish/v1/Systems/2"), second: chassis("Second", "", aSystem)},
	} {
		changes["/redfish/v1/Chassis"] = collection(aChassis, second)
		NewWithT(t).Expect(inspectTree(t, changes).SerialNumber).To(BeEmpty(), name)
	}
}

// TestNoMembers: an answer without Members is no collection, and proves nothing.
func TestNoMembers(t *testing.T) {
	for _, answer := range []string{`{"@odata.type":"#MemoryCollection.MemoryCollection"}`, `null`} {
		g := NewWithT(t)
		i := inspectTree(t, map[string]string{aSystem + "/Memory": answer})
		g.Expect(i.Fact(bmc.FactMemory).State).To(Equal(bmc.FactUnknown), answer)
		g.Expect(i.Fact(bmc.FactMemory).Message).NotTo(BeEmpty())
	}
	g := NewWithT(t)
	g.Expect(inspectTree(t, map[string]string{aSystem + "/Memory": collection()}).Fact(bmc.FactMemory).State).To(Equal(bmc.FactAbsent))
}

// TestStorageWithoutDrives: a controller without a drive and without an empty slot proves nothing, and neither does storage that contradicts the chassis.
func TestStorageWithoutDrives(t *testing.T) {
	g := NewWithT(t)
	storage := func(controller string, more map[string]string) bmc.FactState {
		changes := map[string]string{
			aSystem:                strings.Replace(aServer(nil)[aSystem], `"Processors":`, `"Storage":{"@odata.id":"`+aSystem+`/Storage"},"Processors":`, 1),
			aSystem + "/Storage":   collection(aSystem + "/Storage/1"),
			aSystem + "/Storage/1": controller,
		}
		maps.Copy(changes, more)
		return inspectTree(t, changes).Fact(bmc.FactDisks).State
	}
	empty := map[string]string{aSystem + "/Storage": collection()}
	g.Expect(storage(`{"@odata.type":"#Storage.v1_7_1.Storage","Id":"1","Drives":[],"Status":{"State":"Enabled"}}`, nil)).To(Equal(bmc.FactUnknown))
	g.Expect(storage(`{}`, empty)).To(Equal(bmc.FactAbsent))
	empty[aChassis], empty[aChassis+"/Drives"] = chassisWith(`"Drives":{"@odata.id":"`+aChassis+`/Drives"}`), collection(aChassis+"/Drives/1")
	empty[aChassis+"/Drives/1"] = `{"@odata.type":"#Drive.v1_10_0.Drive","Id":"1","Name":"Drive","Status":{"State":"Enabled"}}`
	g.Expect(storage(`{}`, empty)).To(Equal(bmc.FactUnknown))
}

// TestDevicesOfPCIe: which PCIe devices are devices, and of which class.
func TestDevicesOfPCIe(t *testing.T) {
	for name, test := range map[string]struct {
		device, function string
		want             []string
	}{
		"a GPU by its class":                      {`"Model":"T4"`, `"DeviceClass":"DisplayController","VendorId":"0x10de"`, []string{"GPU T4"}},
		"a GPU whose class nobody wrote":          {`"Name":"NVIDIA T4"`, `"VendorId":"0x10de"`, []string{"GPU NVIDIA T4"}},
		"a switch whose class nobody wrote":       {`"Model":"NVSwitch 2"`, `"VendorId":"0x10de"`, []string{"NVSwitch 2"}},
		"a NIC of the same manufacturer":          {`"Model":"ConnectX"`, `"VendorId":"0x15b3"`, []string{"ConnectX"}},
		"the vendor ID 0 is not a vendor":         {`"Model":"VGA"`, `"DeviceClass":"DisplayController","VendorId":"0x0000"`, []string{"DisplayController VGA"}},
		"a GPU by Supermicro's property":          {`"Model":"H100","Oem":{"Supermicro":{"GPUVendor":"NVIDIA"}}`, `"DeviceClass":"DisplayController","VendorId":"0x0000"`, []string{"GPU H100"}},
		"a class code of zeros is not a class":    {`"Model":"X"`, `"ClassCode":"0x000000","VendorId":"0x8086"`, []string{"X"}},
		"a bridge":                                {`"Model":"Switch"`, `"DeviceClass":"Bridge"`, []string{}},
		"the model is not the address on the bus": {`"Name":"00_1B_00"`, `"DeviceClass":"DisplayController","VendorId":"0x10de"`, []string{"GPU"}},
	} {
		t.Run(name, func(t *testing.T) {
			const device = aChassis + "/PCIeDevices/1"
			i := inspectTree(t, map[string]string{
				aChassis:                  chassisWith(`"PCIeDevices":{"@odata.id":"` + aChassis + `/PCIeDevices"}`),
				aChassis + "/PCIeDevices": collection(device),
				device:                    `{"@odata.type":"#PCIeDevice.v1_4_0.PCIeDevice","Id":"1","Links":{"PCIeFunctions":[{"@odata.id":"` + device + `/f"}]},` + test.device + `}`,
				device + "/f":             `{"@odata.type":"#PCIeFunction.v1_2_0.PCIeFunction","Id":"f","FunctionId":0,` + test.function + `}`,
			})
			g := NewWithT(t)
			g.Expect(classesOf(i.Devices)).To(Equal(test.want))
			state := bmc.FactKnown
			if len(test.want) == 0 {
				state = bmc.FactAbsent
			}
			g.Expect(i.Fact(bmc.FactDevices).State).To(Equal(state))
		})
	}
}

// TestManyFunctions: a service whose devices have more functions than the budget is asked for as many, and its devices are all listed.
func TestManyFunctions(t *testing.T) {
	g := NewWithT(t)
	changes, devices := map[string]string{}, []string{}
	for n := range 600 {
		path := aChassis + "/PCIeDevices/" + strconv.Itoa(n)
		devices = append(devices, path)
		changes[path] = `{"@odata.type":"#PCIeDevice.v1_4_0.PCIeDevice","Id":"` + strconv.Itoa(n) + `","Name":"NIC","Links":{"PCIeFunctions":[{"@odata.id":"` + path + `/f"}]}}`
		changes[path+"/f"] = `{"@odata.type":"#PCIeFunction.v1_2_0.PCIeFunction","Id":"f","FunctionId":0,"DeviceClass":"NetworkController"}`
	}
	changes[aChassis] = chassisWith(`"PCIeDevices":{"@odata.id":"` + aChassis + `/PCIeDevices"}`)
	changes[aChassis+"/PCIeDevices"] = collection(devices...)
	s := newTree(t, aServer(changes))
	functions := atomic.Int32{}
	s.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/f") {
			functions.Add(1)
		}
		return false
	}
	i, err := s.open(t, aSystem).Inspect(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(functions.Load()).To(BeEquivalentTo(24), "it offers $expand")
	g.Expect(len(i.Devices)).To(BeNumerically(">", 1))
}

// TestSecondNames: PCIe devices that are known by their bus address alone are the GPUs that the baseboard lists. The devices of a chassis of switches are switches.
func TestSecondNames(t *testing.T) {
	g := NewWithT(t)
	changes := graceServer()
	changes["/redfish/v1/Chassis"] = collection(aChassis, "/redfish/v1/Chassis/NVSwitch_0")
	changes[aChassis] = chassisWith(`"PCIeDevices":{"@odata.id":"` + aChassis + `/PCIeDevices"}`)
	changes[aChassis+"/PCIeDevices"] = collection(aChassis+"/PCIeDevices/00_1B_00", aChassis+"/PCIeDevices/00_2B_00")
	for id, vendor := range map[string]string{"00_1B_00": "0x10de", "00_2B_00": "0x1002"} {
		path := aChassis + "/PCIeDevices/" + id
		changes[path] = `{"@odata.type":"#PCIeDevice.v1_4_0.PCIeDevice","Id":"` + id + `","Name":"` + id + `","Links":{"PCIeFunctions":[{"@odata.id":"` + path + `/f"}]}}`
		changes[path+"/f"] = `{"@odata.type":"#PCIeFunction.v1_2_0.PCIeFunction","Id":"f","FunctionId":0,"ClassCode":"0x030200","VendorId":"` + vendor + `"}`
	}
	changes["/redfish/v1/Chassis/NVSwitch_0"] = `{"@odata.type":"#Chassis.v1_10_0.Chassis","Id":"NVSwitch_0","PCIeDevices":{"@odata.id":"/redfish/v1/Chassis/NVSwitch_0/PCIeDevices"},
		"Links":{"ComputerSystems":[{"@odata.id":"` + aSystem + `"}],"Switches":[{"@odata.id":"/redfish/v1/Fabrics/1/Switches/1"}]}}`
	changes["/redfish/v1/Chassis/NVSwitch_0/PCIeDevices"] = collection("/redfish/v1/Chassis/NVSwitch_0/PCIeDevices/1")
	changes["/redfish/v1/Chassis/NVSwitch_0/PCIeDevices/1"] = `{"@odata.type":"#PCIeDevice.v1_4_0.PCIeDevice","Id":"1","Name":"NVSwitch"}`
	g.Expect(classesOf(inspectTree(t, changes).Devices)).To(ConsistOf("GPU NVIDIA GB300", "GPU NVIDIA GB300", "GPU"), "AMD's is a GPU of its own")
}

// TestDisabledFunctions: functions of an adapter that are switched off, and host bus adapters, are no NICs, also not by a port that lists their addresses. A chassis that links to
// the system counts, although the system does not link to it.
func TestDisabledFunctions(t *testing.T) {
	const adapter = "/redfish/v1/Chassis/IO/NetworkAdapters/1"
	function := func(id, mac, properties string) string {
		return fmt.Sprintf(`{"@odata.type":"#NetworkDeviceFunction.v1_5_0.NetworkDeviceFunction","Id":%q,"Name":"Function","Ethernet":{"MACAddress":%q},%s}`, id, mac, properties)
	}
	changes := map[string]string{
		"/redfish/v1/Chassis":                    collection(aChassis, "/redfish/v1/Chassis/IO"),
		"/redfish/v1/Chassis/IO":                 `{"@odata.type":"#Chassis.v1_10_0.Chassis","Id":"IO","NetworkAdapters":{"@odata.id":"/redfish/v1/Chassis/IO/NetworkAdapters"},"Links":{"ComputerSystems":[{"@odata.id":"` + aSystem + `"}]}}`,
		"/redfish/v1/Chassis/IO/NetworkAdapters": collection(adapter),
		adapter:                                  `{"@odata.type":"#NetworkAdapter.v1_5_0.NetworkAdapter","Id":"1","Name":"NIC","NetworkDeviceFunctions":{"@odata.id":"` + adapter + `/f"},"Ports":{"@odata.id":"` + adapter + `/p"}}`,
		adapter + "/f":                           collection(adapter+"/f/1", adapter+"/f/2", adapter+"/f/3", adapter+"/f/4", adapter+"/f/fc0"),
		adapter + "/f/1":                         function("1", "52:54:00:00:01:01", `"NetDevFuncType":"Ethernet"`),
		adapter + "/f/2":                         function("2", "52:54:00:00:01:02", `"DeviceEnabled":false`),
		adapter + "/f/3":                         function("3", "52:54:00:00:01:03", `"NetDevFuncType":"Disabled"`),
		adapter + "/f/4":                         function("4", "52:54:00:00:01:04", `"Status":{"State":"Disabled"}`), // a port without a link
		adapter + "/f/fc0":                       function("fc0", "52:54:00:00:01:05", `"FibreChannel":{"WWPN":"20:00"}`),
		adapter + "/p":                           collection(adapter + "/p/1"),
		adapter + "/p/1":                         `{"@odata.type":"#Port.v1_5_0.Port","Id":"1","Name":"Port","Ethernet":{"AssociatedMACAddresses":["52:54:00:00:01:01","52:54:00:00:01:02","52:54:00:00:01:05"]}}`,
	}
	var macs []string
	for _, n := range inspectTree(t, changes).NICs {
		macs = append(macs, n.MACAddress)
	}
	NewWithT(t).Expect(macs).To(Equal([]string{"52:54:00:00:00:01", "52:54:00:00:01:01", "52:54:00:00:01:04"}))
}

// TestCisco: classes, sizes, manufacturers of memory and ratings as CIMC writes them.
func TestCisco(t *testing.T) {
	g := NewWithT(t)
	for _, vendor := range []string{"Cisco Systems Inc", "Another"} {
		system := strings.Replace(aServer(nil)[aSystem], `"Processors":`, `"Manufacturer":"`+vendor+`","Storage":{"@odata.id":"`+aSystem+`/Storage"},"Processors":`, 1)
		i := inspectTree(t, map[string]string{
			aSystem:                  system,
			aSystem + "/Storage":     collection(aSystem + "/Storage/1"),
			aSystem + "/Storage/1":   `{"@odata.type":"#Storage.v1_7_1.Storage","Id":"1","Drives":[{"@odata.id":"` + aSystem + `/Storage/1/d"},{"@odata.id":"` + aSystem + `/Storage/1/e"}]}`,
			aSystem + "/Storage/1/d": `{"@odata.type":"#Drive.v1_10_0.Drive","Id":"d","Name":"Drive","CapacityBytes":3815447}`,
			aSystem + "/Storage/1/e": `{"@odata.type":"#Drive.v1_10_0.Drive","Id":"e","Name":"Drive","CapacityBytes":240056795136}`,
			aSystem + "/Memory/A1":   `{"@odata.type":"#Memory.v1_7_0.Memory","Id":"A1","Name":"DIMM","CapacityMiB":16384,"Manufacturer":"0xCE00"}`,
			aChassis:                 chassisWith(`"Power":{"@odata.id":"` + aChassis + `/Power"}`),
			aChassis + "/Power": `{"PowerSupplies":[{"MemberId":"1","Name":"PSU1","InputRanges":[{"OutputWattage":800},{"OutputWattage":1050}],"LineInputVoltage":227,"Status":{"State":"Enabled"}},
				{"MemberId":"2","Name":"Fan","Model":"PWS-DF009","LineInputVoltage":null,"InputRanges":[{"OutputWattage":null}],"Status":{"State":"Enabled","Health":"OK"}},
				{"MemberId":"3","Name":"PSU3","LineInputVoltage":null,"InputRanges":[{"OutputWattage":null}],"Status":{"State":"Enabled","Health":"Critical"}}]}`,
		})
		want := map[string]int64{"Cisco Systems Inc": 3815447 << 20, "Another": 0}[vendor]
		g.Expect([]int64{i.Disks[0].SizeBytes, i.Disks[1].SizeBytes}).To(Equal([]int64{want, 240056795136}), vendor)
		g.Expect(i.DIMMs[0].Manufacturer).To(Equal("Samsung"))
		g.Expect(i.PowerSupplies).To(ConsistOf(And(HaveField("Name", "PSU1"), HaveField("Watts", 1050)), HaveField("Name", "PSU3")))
	}
}

// TestClock: the time of another manager, if only one has it, and in the form of CIMC.
func TestClock(t *testing.T) {
	g := NewWithT(t)
	const other = "/redfish/v1/Managers/CIMC"
	c := newTree(t, aServer(map[string]string{
		"/redfish/v1/Managers": collection("/redfish/v1/Managers/1", other),
		other:                  `{"@odata.type":"#Manager.v1_5_0.Manager","Id":"CIMC","DateTime":"Tue Nov 29 11:26:12 2022","DateTimeLocalOffset":"+01:00"}`,
	})).open(t, aSystem)
	at, err := c.Clock(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(at.UTC()).To(Equal(time.Date(2022, 11, 29, 10, 26, 12, 0, time.UTC)))
	description, err := c.Describe(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(description.Capabilities).To(ContainElement(bmc.CanClock))
}

// TestAbsentSensors: the sensor of a part that is not there has no reading.
func TestAbsentSensors(t *testing.T) {
	g := NewWithT(t)
	sensors := sensorsIn(resource{"Temperatures": []any{
		map[string]any{"Name": "Inlet", "ReadingCelsius": 21.0}, map[string]any{"Name": "PMM 1", "ReadingCelsius": 0.0, "Status": map[string]any{"State": "Absent"}},
	}})
	g.Expect(sensors).To(ConsistOf(HaveField("Name", "Inlet")))
}

// TestTargetsOfSettings: the boot targets are those of the system and those of its settings object.
func TestTargetsOfSettings(t *testing.T) {
	g := NewWithT(t)
	c := newTree(t, aServer(map[string]string{
		aSystem: `{"PowerState":"On","Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["None","Pxe"]},
			"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/redfish/v1/Systems/1/SD"}}}`,
		aSystem + "/SD": `{"Boot":{"BootSourceOverrideTarget@Redfish.AllowableValues":["Pxe","UefiHttp"]}}`,
	})).open(t, aSystem)
	description, err := c.Describe(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(description.Capabilities).To(ContainElements(bmc.CanBootPXE, bmc.CanBootHTTP))
	g.Expect(description.Capabilities).NotTo(ContainElement(bmc.CanBootDisk))
}

// TestNoServer: a DPU is no server, but can be named.
func TestNoServer(t *testing.T) {
	g := NewWithT(t)
	const dpu = "/redfish/v1/Systems/Bluefield"
	s := newTree(t, aServer(map[string]string{
		"/redfish/v1/Systems": collection(dpu), aSystem: "",
		dpu: `{"@odata.type":"#ComputerSystem.v1_20_0.ComputerSystem","Id":"Bluefield","PowerState":"On"}`,
	}))
	driver := &Driver{Permit: loopback}
	defer driver.CloseIdleConnections()
	c := newConn(driver, s.serve(t, ""))
	g.Expect(c.service.login(t.Context())).To(Succeed())
	_, err := c.system.onlySystem(t.Context())
	g.Expect(err).To(MatchError(ContainSubstring("manages no server, only " + dpu + ": to use one of them, name it in the address")))
	g.Expect(s.open(t, dpu).system.path).To(Equal(dpu))
}

// TestUUID: a text that is no UUID is a placeholder.
func TestUUID(t *testing.T) {
	g := NewWithT(t)
	for text, want := range map[string]string{
		"4C4C4544-0042-3510-8053-B4C04F4D3132": "4c4c4544-0042-3510-8053-b4c04f4d3132", "system0-uuid": "", "00000000-0000-0000-0000-000000000000": "",
		"4C4C4544004235108053B4C04F4D3132": "4c4c4544004235108053b4c04f4d3132", "4C4C4544-0042-3510-8053-B4C04F4D313Z": "",
	} {
		g.Expect(uuidOf(text)).To(Equal(want), text)
	}
}

// TestSummaries: members that a service expands without all their properties do not count. The inventory is that of a service without $expand.
func TestSummaries(t *testing.T) {
	for name, kept := range map[string][]string{
		"the head alone": {"@odata.id", "@odata.type", "Id", "Name", "Status"}, "some properties": {"@odata.id", "@odata.type", "Id", "Name", "CapacityMiB", "ProcessorType", "MACAddress"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			changes := map[string]string{
				aSystem + "/Memory/A1": `{"@odata.type":"#Memory.v1_7_0.Memory","Id":"A1","Name":"DIMM A1","CapacityMiB":16384,"SerialNumber":"S1"}`,
			}
			s := newTree(t, aServer(changes))
			s.before = func(w http.ResponseWriter, r *http.Request) bool {
				found, ok := s.resources[r.URL.Path].(map[string]any)
				links, isCollection := found["Members"].([]any)
				if r.URL.Query().Get("$expand") == "" || !ok || !isCollection {
					return false
				}
				var members []any
				for _, link := range links {
					path := resource(link.(map[string]any)).link("@odata.id")
					summary := map[string]any{}
					for _, property := range kept {
						if value, has := s.resources[path].(map[string]any)[property]; has {
							summary[property] = value
						}
					}
					members = append(members, summary)
				}
				g.Expect(json.NewEncoder(w).Encode(map[string]any{"Members": members})).To(Succeed())
				return true
			}
			i, err := s.open(t, aSystem).Inspect(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(i.CPUCores).To(Equal(8))
			g.Expect(i.DIMMs).To(HaveLen(2))
			g.Expect(i.DIMMs[0].SerialNumber).To(Equal("S1"))
		})
	}
}
