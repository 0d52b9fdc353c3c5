package redfish

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest/recordings"
)

// aServerWithHealth is a server whose system has a rollup, with some resources changed.
func aServerWithHealth(power, rollup string, changes map[string]string) map[string]string {
	all := map[string]string{
		aSystem: `{"@odata.type":"#ComputerSystem.v1_10_0.ComputerSystem","Id":"1","PowerState":"` + power + `","Status":{"Health":"OK","HealthRollup":"` + rollup + `"},
			"Processors":{"@odata.id":"` + aSystem + `/Processors"},"Memory":{"@odata.id":"` + aSystem + `/Memory"},"Storage":{"@odata.id":"` + aSystem + `/Storage"},
			"LogServices":{"@odata.id":"` + aSystem + `/LogServices"},
			"Links":{"Chassis":[{"@odata.id":"` + aChassis + `"}],"ManagedBy":[{"@odata.id":"/redfish/v1/Managers/1"}]}}`,
		aSystem + "/Storage": `{"Members":[]}`,
		aChassis: `{"@odata.type":"#Chassis.v1_10_0.Chassis","Id":"1","Power":{"@odata.id":"` + aChassis + `/Power"},"Thermal":{"@odata.id":"` + aChassis + `/Thermal"},
			"Links":{"ComputerSystems":[{"@odata.id":"` + aSystem + `"}]}}`,
		aChassis + "/Power": `{"PowerSupplies":[{"Name":"PSU 1","PowerCapacityWatts":800,"Status":{"State":"Enabled","Health":"OK"}},
			{"Name":"PSU 2","Model":"P800","PowerCapacityWatts":800,"Status":{"State":"Enabled","Health":"Critical"}},
			{"Name":"PSU 3","Status":{"State":"Absent","Health":"Warning"}}],"Voltages":[{"Name":"12V","ReadingVolts":"NaN","UpperThresholdCritical":13}]}`,
		aChassis + "/Thermal": `{"Fans":[{"FanName":"Fan 3","Reading":0,"LowerThresholdCritical":500},{"FanName":"Fan 4","Reading":"4000","LowerThresholdCritical":500}],
			"Temperatures":[{"Name":"Inlet","ReadingCelsius":86,"UpperThresholdNonCritical":85,"UpperThresholdCritical":95,"UpperThresholdFatal":0},
			{"Name":"Outlet","ReadingCelsius":null,"UpperThresholdCritical":60},{"Name":"CPU","ReadingCelsius":99,"UpperThresholdCritical":90,"Status":{"Health":"OK"}}]}`,
	}
	maps.Copy(all, changes)
	return aServer(all)
}

var (
	deadSupply = bmc.Part{Class: bmc.PartPowerSupply, Name: "PSU 2", Model: "P800", Health: bmc.HealthCritical}
	slowFan    = bmc.Part{Class: bmc.PartFan, Name: "Fan 3", Health: bmc.HealthCritical}
	warmInlet  = bmc.Part{Class: bmc.PartTemperature, Name: "Inlet", Health: bmc.HealthWarning}
)

// TestReadHealth: the summary decides whether the parts are read. Thresholds count only without a health, and while the server is on.
func TestReadHealth(t *testing.T) {
	other := map[string]string{"/redfish/v1/Managers/1": `{"Id":"1","ManagerType":"BMC","Status":{"Health":"Critical"},"Links":{"ManagerForServers":[{"@odata.id":"/redfish/v1/Systems/2"}]}}`}
	ill := map[string]string{"/redfish/v1/Managers/1": `{"Id":"1","ManagerType":"BMC","Status":{"Health":"Warning"}}`}
	for name, c := range map[string]struct {
		power, rollup string
		changes       map[string]string
		request       bmc.HealthRequest
		want          bmc.Health
		details       bool
		parts         []bmc.Part
	}{
		"a first reading that is OK":  {"On", "OK", nil, bmc.HealthRequest{}, bmc.HealthOK, false, nil},
		"still OK":                    {"On", "OK", nil, bmc.HealthRequest{Rollup: bmc.HealthOK}, bmc.HealthOK, false, nil},
		"it fails":                    {"On", "Critical", nil, bmc.HealthRequest{Rollup: bmc.HealthOK}, bmc.HealthCritical, true, []bmc.Part{deadSupply, slowFan, warmInlet}},
		"a first reading that is not": {"On", "Critical", nil, bmc.HealthRequest{}, bmc.HealthCritical, true, []bmc.Part{deadSupply, slowFan, warmInlet}},
		"it stays failed":             {"On", "Critical", nil, bmc.HealthRequest{Rollup: bmc.HealthCritical}, bmc.HealthCritical, false, nil},
		"it recovers":                 {"On", "OK", nil, bmc.HealthRequest{Rollup: bmc.HealthCritical}, bmc.HealthOK, true, []bmc.Part{deadSupply, slowFan, warmInlet}},
		"details are asked for":       {"On", "OK", nil, bmc.HealthRequest{Rollup: bmc.HealthOK, Details: true}, bmc.HealthOK, true, []bmc.Part{deadSupply, slowFan, warmInlet}},
		"fans stand while it is off":  {"Off", "Critical", nil, bmc.HealthRequest{}, bmc.HealthCritical, true, []bmc.Part{deadSupply}},
		"no health":                   {"On", "Unknown", nil, bmc.HealthRequest{}, bmc.HealthOK, false, nil}, // the system's own health is OK
		"the BMC of another server":   {"On", "OK", other, bmc.HealthRequest{}, bmc.HealthOK, false, nil},
		"the BMC itself": {
			"On", "OK", ill, bmc.HealthRequest{}, bmc.HealthWarning, true,
			[]bmc.Part{{Class: bmc.PartBMC, Name: "1", Health: bmc.HealthWarning}, deadSupply, slowFan, warmInlet},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := newTree(t, aServerWithHealth(c.power, c.rollup, c.changes))
			client := s.open(t, aSystem)
			before := s.count()
			reading, err := client.ReadHealth(t.Context(), c.request)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(reading.Rollup).To(Equal(c.want))
			g.Expect(reading.Server).To(Equal(bmc.HealthOK))
			g.Expect(reading.Parts).To(ConsistOf(c.parts))
			if !c.details {
				g.Expect(reading.Read).To(BeEmpty())
				g.Expect(s.count()-before).To(Equal(3), "the system, its chassis and its BMC")
				return
			}
			g.Expect(reading.Read).To(ContainElements(bmc.PartPowerSupply, bmc.PartMemory, bmc.PartCPU, bmc.PartFan, bmc.PartTemperature))
		})
	}
}

// TestHealthOfParts: each class is read where the inventory reads it, and an empty or disconnected part is not unhealthy.
func TestHealthOfParts(t *testing.T) {
	g := NewWithT(t)
	const storage = aSystem + "/Storage/1"
	s := newTree(t, aServerWithHealth("On", "Critical", map[string]string{
		aSystem + "/Storage":   `{"Members":[{"@odata.id":"` + storage + `"}]}`,
		storage:                `{"Id":"1","Drives":[{"@odata.id":"` + storage + `/Drives/4"},{"@odata.id":"` + storage + `/Drives/5"}],"Volumes":{"@odata.id":"` + storage + `/Volumes"}}`,
		storage + "/Drives/4":  `{"Id":"4","Model":"VK960","SerialNumber":"ZX-4711","CapacityBytes":960000000000,"Status":{"State":"Enabled","Health":"Warning"}}`,
		storage + "/Drives/5":  `{"Id":"5","Status":{"State":"Absent","Health":"Critical"}}`,
		storage + "/Volumes":   `{"Members":[{"@odata.id":"` + storage + `/Volumes/1"},{"@odata.id":"` + storage + `/Volumes/2"}]}`,
		storage + "/Volumes/1": `{"Id":"1","Name":"data","Status":{"State":"Enabled","Health":"Critical"}}`,
		storage + "/Volumes/2": `{"Id":"2","Name":"raw","VolumeType":"RawDevice","Status":{"Health":"Critical"}}`,
		aSystem + "/Memory/A2": `{"@odata.type":"#Memory.v1_7_0.Memory","Id":"A2","CapacityMiB":16384,"SerialNumber":"MEM-77","Status":{"State":"Enabled","Health":"Warning"}}`,
		aSystem + "/Memory/A1": `{"@odata.type":"#Memory.v1_7_0.Memory","Id":"A1","CapacityMiB":0,"SerialNumber":"MEM-76","Status":{"State":"Disabled","Health":"Critical"}}`,
		aSystem + "/Processors/1": `{"@odata.type":"#Processor.v1_3_0.Processor","Id":"1","ProcessorType":"CPU","TotalCores":8,"TotalThreads":16,
			"Status":{"State":"Enabled","Health":"Critical"}}`,
	}))
	reading, err := s.open(t, aSystem).ReadHealth(t.Context(), bmc.HealthRequest{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(reading.Parts).To(ConsistOf(deadSupply, slowFan, warmInlet,
		bmc.Part{Class: bmc.PartDisk, Name: "4", Model: "VK960", SerialNumber: "ZX-4711", Health: bmc.HealthWarning},
		bmc.Part{Class: bmc.PartVolume, Name: "data", Health: bmc.HealthCritical},
		bmc.Part{Class: bmc.PartMemory, Name: "A1", SerialNumber: "MEM-76", Health: bmc.HealthCritical},
		bmc.Part{Class: bmc.PartMemory, Name: "A2", SerialNumber: "MEM-77", Health: bmc.HealthWarning},
		bmc.Part{Class: bmc.PartCPU, Name: "1", Health: bmc.HealthCritical},
	))
}

// aServerWithAllParts has parts of each class, none of which is the last of its kind.
func aServerWithAllParts() map[string]string {
	const storage, second = aSystem + "/Storage/1", "/redfish/v1/Chassis/2"
	list := func(path string, names ...string) string {
		for i, name := range names {
			names[i] = `{"@odata.id":"` + path + "/" + name + `"}`
		}
		return `{"Members":[` + strings.Join(names, ",") + `]}`
	}
	link := func(name, path string) string { return `"` + name + `":{"@odata.id":"` + path + `"}` }
	all := map[string]string{
		aSystem: `{"@odata.type":"#ComputerSystem.v1_10_0.ComputerSystem","Id":"1","PowerState":"On","Status":{"Health":"OK","HealthRollup":"Critical"},` +
			link("Processors", aSystem+"/Processors") + "," + link("Memory", aSystem+"/Memory") + "," + link("Storage", aSystem+"/Storage") + "," +
			link("EthernetInterfaces", aSystem+"/EthernetInterfaces") + `,"Links":{"Chassis":[{"@odata.id":"` + aChassis + `"},{"@odata.id":"` + second + `"}],
			"ManagedBy":[{"@odata.id":"/redfish/v1/Managers/1"},{"@odata.id":"/redfish/v1/Managers/2"}]}}`,
		aSystem + "/Processors":                  list(aSystem+"/Processors", "1", "2"),
		aSystem + "/Storage":                     list(aSystem+"/Storage", "1", "2"),
		storage:                                  `{"Id":"1","Drives":[{"@odata.id":"` + storage + `/Drives/4"},{"@odata.id":"` + storage + `/Drives/5"}],` + link("Volumes", storage+"/Volumes") + `}`,
		aSystem + "/Storage/2":                   `{"Id":"2",` + link("Drives", aSystem+"/Storage/2/Drives") + `}`,
		aSystem + "/Storage/2/Drives":            list(aSystem+"/Storage/2/Drives", "6"),
		storage + "/Volumes":                     list(storage+"/Volumes", "1", "2"),
		aSystem + "/EthernetInterfaces":          list(aSystem+"/EthernetInterfaces", "1", "2"),
		second:                                   `{"Id":"2",` + link("PowerSubsystem", second+"/PowerSubsystem") + "," + link("ThermalSubsystem", second+"/ThermalSubsystem") + "," + link("Sensors", second+"/Sensors") + `,"Links":{"ComputerSystems":[{"@odata.id":"` + aSystem + `"}]}}`,
		second + "/PowerSubsystem":               `{` + link("PowerSupplies", second+"/PowerSubsystem/PowerSupplies") + `}`,
		second + "/ThermalSubsystem":             `{` + link("Fans", second+"/ThermalSubsystem/Fans") + `}`,
		second + "/ThermalSubsystem/Fans":        list(second+"/ThermalSubsystem/Fans", "1", "2"),
		second + "/Sensors":                      list(second+"/Sensors", "T1", "T2"),
		second + "/PowerSubsystem/PowerSupplies": list(second+"/PowerSubsystem/PowerSupplies", "1", "2"),
	}
	for _, path := range []string{
		aSystem + "/Processors/2", storage + "/Drives/4", storage + "/Drives/5", aSystem + "/Storage/2/Drives/6", storage + "/Volumes/1", storage + "/Volumes/2",
		aSystem + "/EthernetInterfaces/2", "/redfish/v1/Managers/2", second + "/ThermalSubsystem/Fans/1", second + "/ThermalSubsystem/Fans/2", second + "/Sensors/T1",
		second + "/Sensors/T2", second + "/PowerSubsystem/PowerSupplies/1", second + "/PowerSubsystem/PowerSupplies/2",
	} {
		all[path] = `{"Id":"` + path[strings.LastIndex(path, "/")+1:] + `","Status":{"State":"Enabled","Health":"OK"}}`
	}
	return aServerWithHealth("On", "Critical", all)
}

// TestUnreadHealth: a class counts as read only if each of its parts was, so that a fault of a part that cannot be read for once stays. Other classes do not suffer from a part that cannot be read.
func TestUnreadHealth(t *testing.T) {
	const storage, second = aSystem + "/Storage/1", "/redfish/v1/Chassis/2"
	sensors := []bmc.PartClass{bmc.PartFan, bmc.PartTemperature, bmc.PartVoltage}
	boxes := append([]bmc.PartClass{bmc.PartChassis, bmc.PartPowerSupply}, sensors...)
	every := append([]bmc.PartClass{bmc.PartBMC, bmc.PartDisk, bmc.PartVolume, bmc.PartMemory, bmc.PartCPU, bmc.PartNIC}, boxes...)
	for path, lost := range map[string][]bmc.PartClass{
		"":                                         {},
		aSystem + "/Processors/2":                  {bmc.PartCPU},
		aSystem + "/Memory/A2":                     {bmc.PartMemory},
		aSystem + "/Storage/2":                     {bmc.PartDisk, bmc.PartVolume},
		aSystem + "/Storage/2/Drives":              {bmc.PartDisk},
		aSystem + "/Storage/2/Drives/6":            {bmc.PartDisk},
		storage + "/Drives/4":                      {bmc.PartDisk},
		storage + "/Volumes":                       {bmc.PartVolume},
		storage + "/Volumes/2":                     {bmc.PartVolume},
		aSystem + "/EthernetInterfaces/2":          {bmc.PartNIC},
		"/redfish/v1/Managers/2":                   {bmc.PartBMC},
		second:                                     boxes,
		second + "/PowerSubsystem":                 {bmc.PartPowerSupply},
		second + "/ThermalSubsystem":               sensors,
		second + "/ThermalSubsystem/Fans":          sensors,
		second + "/ThermalSubsystem/Fans/2":        sensors,
		second + "/Sensors":                        sensors,
		second + "/Sensors/T2":                     sensors,
		aChassis + "/Power":                        append([]bmc.PartClass{bmc.PartPowerSupply}, sensors...),
		second + "/PowerSubsystem/PowerSupplies/2": {bmc.PartPowerSupply},
	} {
		for _, status := range []int{http.StatusInternalServerError, http.StatusNotFound} {
			t.Run(fmt.Sprint(strings.TrimPrefix(path, "/redfish/v1/"), " ", status), func(t *testing.T) {
				g := NewWithT(t)
				s := newTree(t, aServerWithAllParts())
				delete(s.resources, path)
				s.before = func(w http.ResponseWriter, r *http.Request) bool {
					if path == "" || r.URL.Path != path {
						return false
					}
					w.WriteHeader(status)
					return true
				}
				reading, err := s.open(t, aSystem).ReadHealth(t.Context(), bmc.HealthRequest{})
				g.Expect(err).NotTo(HaveOccurred())
				want := slices.DeleteFunc(slices.Clone(every), func(class bmc.PartClass) bool { return slices.Contains(lost, class) })
				g.Expect(reading.Read).To(ConsistOf(want))
				for _, p := range reading.Parts {
					g.Expect(reading.Read).To(ContainElement(p.Class))
				}
			})
		}
	}
}

// TestPartialSummary: a reading says that a summary could not be read.
func TestPartialSummary(t *testing.T) {
	for _, path := range []string{"", aChassis, "/redfish/v1/Managers/1"} {
		g := NewWithT(t)
		s := newTree(t, aServerWithHealth("On", "OK", nil))
		s.before = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == path {
				w.WriteHeader(http.StatusInternalServerError)
			}
			return r.URL.Path == path
		}
		reading, err := s.open(t, aSystem).ReadHealth(t.Context(), bmc.HealthRequest{})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(reading.Partial).To(Equal(path != ""), path)
	}
}

// aServerWithSensors has a resource for each sensor, in pages, and no Thermal or Power.
func aServerWithSensors(n int) map[string]string {
	const sensors = aChassis + "/Sensors"
	changes := map[string]string{
		aChassis: `{"@odata.type":"#Chassis.v1_10_0.Chassis","Id":"1","Sensors":{"@odata.id":"` + sensors + `"},"Links":{"ComputerSystems":[{"@odata.id":"` + aSystem + `"}]}}`,
	}
	var links []string
	for i := range n {
		path, kind := fmt.Sprintf("%s/V%d", sensors, i), "Voltage"
		switch i {
		case 0:
			path, kind = sensors+"/Fan1", "Rotational"
		case n - 1:
			path, kind = sensors+"/TempInlet", "Temperature"
		}
		changes[path] = fmt.Sprintf(`{"@odata.type":"#Sensor.v1_2_0.Sensor","Id":"%d","Name":"S%d","ReadingType":"%s","Reading":%d,"Status":{"State":"Enabled","Health":"OK"}}`, i, i, kind, i+1)
		links = append(links, `{"@odata.id":"`+path+`"}`)
	}
	changes[sensors] = `{"Members":[` + strings.Join(links[:n/2], ",") + `],"Members@odata.nextLink":"` + sensors + `/Page2"}`
	changes[sensors+"/Page2"] = `{"Members":[` + strings.Join(links[n/2:], ",") + `]}`
	return aServerWithHealth("On", "OK", changes)
}

// TestSensorResources: the sensors of a chassis without Thermal and Power are read from each page, and a fan is a fan whatever its type is called.
func TestSensorResources(t *testing.T) {
	g := NewWithT(t)
	monitor, err := bmc.As[bmc.Monitor](newTree(t, aServerWithSensors(4)).open(t, aSystem), "")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(monitor.Sensors(t.Context())).To(ConsistOf(
		And(HaveField("Name", "S0"), HaveField("Kind", "Fan")), HaveField("Kind", "Voltage"), HaveField("Kind", "Voltage"), And(HaveField("Name", "S3"), HaveField("Kind", "Temperature")),
	))
}

// TestManySensors: of more sensors than a reading has, those of fans and temperatures are read, and the voltages do not count as read.
func TestManySensors(t *testing.T) {
	for _, n := range []int{maxHealthSensors, maxHealthSensors + 1} {
		g := NewWithT(t)
		reading, err := newTree(t, aServerWithSensors(n)).open(t, aSystem).ReadHealth(t.Context(), bmc.HealthRequest{Details: true})
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(reading.Read).To(ContainElements(bmc.PartFan, bmc.PartTemperature))
		g.Expect(slices.Contains(reading.Read, bmc.PartVoltage)).To(Equal(n == maxHealthSensors))
	}
}

// logTree are the logs of a system, listed from old to new, in two pages.
func logTree() map[string]string {
	const sel = aSystem + "/LogServices/SEL"
	return map[string]string{
		aSystem + "/LogServices": `{"Members":[{"@odata.id":"` + aSystem + `/LogServices/AuditLog"},{"@odata.id":"` + aSystem + `/LogServices/FaultLog"},{"@odata.id":"` + sel + `"}]}`,
		sel:                      `{"Id":"SEL","LogEntryType":"SEL","MaxNumberOfRecords":10,"OverWritePolicy":"NeverOverWrites","Entries":{"@odata.id":"` + sel + `/Entries"}}`,
		sel + "/Entries": `{"Members@odata.count":4,"Members@odata.nextLink":"` + sel + `/More","Members":[
			{"@odata.id":"` + sel + `/Entries/8","Id":"8","Created":"2030-01-01T00:00:00Z","Severity":"OK","Message":"old, by a wrong clock"},
			{"@odata.id":"` + sel + `/Entries/9","Id":"9","Created":"2026-01-01T00:00:00Z","Severity":"Critical","Message":"image http://192.0.2.1/token-0123456789/boot.iso\u001b[2J"}]}`,
		sel + "/More": `{"Members":[{"@odata.id":"` + sel + `/Entries/10","Id":"10","Created":null,"Severity":"Warning","Message":"PSU 2"},
			{"@odata.id":"` + sel + `/Entries/11","Id":"11","Created":"2026-01-02T00:00:00Z","Severity":7}]}`,
		aSystem + "/LogServices/FaultLog":           `{"Id":"FaultLog","Entries":{"@odata.id":"` + aSystem + `/LogServices/FaultLog/Entries"}}`,
		aSystem + "/LogServices/FaultLog/Entries":   `{"Members":[{"@odata.id":"` + aSystem + `/LogServices/FaultLog/Entries/1"}]}`,
		aSystem + "/LogServices/FaultLog/Entries/1": `{"Id":"1","Created":"2026-01-01T00:00:00Z","Severity":"Warning","Message":"by a link"}`,
	}
}

// TestReadLogs: logs are found at the system, the newest entries come first by their IDs, and logs of logins are not read. A log that was found is read without a search.
func TestReadLogs(t *testing.T) {
	g := NewWithT(t)
	s := newTree(t, aServerWithHealth("On", "OK", logTree()))
	client := s.open(t, aSystem)
	logs, err := client.ReadLogs(t.Context(), nil)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(logs).To(HaveLen(2))
	var ids []string
	for _, e := range logs[0].Entries {
		ids = append(ids, e.ID)
	}
	g.Expect(ids).To(Equal([]string{"11", "10", "9", "8"}))
	g.Expect(logs[0].LogSource).To(Equal(bmc.LogSource{Name: aSystem + "/LogServices/SEL/Entries", Max: 10}))
	g.Expect(logs[0].Count).To(Equal(4))
	g.Expect(logs[0].Entries[1].Severity).To(Equal(bmc.HealthWarning))
	g.Expect(logs[0].Entries[1].Time.IsZero()).To(BeTrue())
	g.Expect(logs[0].Entries[2].Message).NotTo(ContainSubstring("token-0123456789"), "a token of a boot medium")
	g.Expect(logs[1].Entries).To(HaveLen(1))
	g.Expect(strings.Join(s.requests, "\n")).NotTo(ContainSubstring("AuditLog"))

	before := s.count()
	again, err := client.ReadLogs(t.Context(), []bmc.LogSource{logs[1].LogSource})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(again).To(Equal(logs[1:]))
	g.Expect(s.count()-before).To(Equal(2), "the log and its entry")

	_, err = newTree(t, aServer(nil)).open(t, aSystem).ReadLogs(t.Context(), nil)
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
}

// TestCorpusHealth: recorded trees of real BMCs give readings within the limits. Of the three with a fault the part is named.
func TestCorpusHealth(t *testing.T) {
	files := recordings.Files(t)
	faults := map[string]struct {
		rollup bmc.Health
		class  bmc.PartClass
	}{
		"hpe-dl385-ilo5": {bmc.HealthCritical, bmc.PartDisk}, "hpe-xl675d-a100": {bmc.HealthWarning, bmc.PartDisk}, "dell-r630": {bmc.HealthWarning, ""},
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json.gz")
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			s := loadTree(t, file)
			driver := &Driver{Permit: loopback}
			c := newConn(driver, s.serve(t, ""))
			g.Expect(c.service.login(t.Context())).To(Succeed())
			defer driver.CloseIdleConnections()
			servers, _ := c.system.servers(t.Context())
			for _, system := range servers {
				client := loadTree(t, file).open(t, system.link("@odata.id"))
				summary, err := client.ReadHealth(t.Context(), bmc.HealthRequest{})
				g.Expect(err).NotTo(HaveOccurred())
				detailed, err := client.ReadHealth(t.Context(), bmc.HealthRequest{Details: true})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(client.service.requests).To(BeNumerically("<", maxRequests))
				logs, err := client.ReadLogs(t.Context(), nil)
				if bmc.KindOf(err) != bmc.Unsupported && err != nil {
					t.Logf("no log can be read: %v", err)
				}
				t.Logf("%s: rollup %q, %d parts %v, read %v, %d logs", system.id(), summary.Rollup, len(detailed.Parts), detailed.Parts, detailed.Read, len(logs))
				g.Expect(len(logs)).To(BeNumerically("<=", bmc.MaxLogs))
				if fault, ok := faults[name]; ok {
					g.Expect(summary.Rollup).To(Equal(fault.rollup))
					g.Expect(fault.class == "" || slices.ContainsFunc(detailed.Parts, func(p bmc.Part) bool { return p.Class == fault.class && p.Name != "" })).To(BeTrue())
				}
			}
		})
	}
}

// FuzzHealth: a service with any value replaced gives a bounded reading or an error.
func FuzzHealth(f *testing.F) {
	resources := func() map[string]string {
		all := richServer()
		maps.Copy(all, aServerWithHealth("On", "Critical", logTree()))
		return all
	}
	paths := slices.Sorted(maps.Keys(resources()))
	for i := range paths {
		for n, value := range []string{`null`, `7`, `-1e300`, `"x"`, `[]`, `{}`, `[null,7,{}]`, `"NaN"`, `{"@odata.id":"//evil.example/x"}`, `"Critical"`, `"\u001b[2J"`} {
			f.Add(uint16(i), uint16((i*5+n*3)%40), value)
		}
	}
	f.Fuzz(func(t *testing.T, which, place uint16, text string) {
		var value any
		if json.Unmarshal([]byte(text), &value) != nil {
			return
		}
		s := newTree(t, resources())
		path := paths[int(which)%len(paths)]
		if replace(s.resources[path], int(place), value) >= 0 {
			s.resources[path] = value
		}
		c, err := openLocal(t.Context(), s)
		if err != nil {
			return
		}
		reading, _ := c.ReadHealth(t.Context(), bmc.HealthRequest{Details: true})
		if len(reading.Parts) > bmc.MaxParts {
			t.Errorf("%d parts", len(reading.Parts))
		}
		for _, p := range reading.Parts {
			if p.Health != bmc.HealthWarning && p.Health != bmc.HealthCritical || p.Class == "" {
				t.Errorf("a part that is not unhealthy: %+v", p)
			}
		}
		logs, _ := c.ReadLogs(t.Context(), nil)
		for _, log := range logs {
			for _, e := range log.Entries {
				if len(e.Message) > 1024 || len(e.ID) > 64 {
					t.Errorf("an entry of %d bytes with an ID of %d", len(e.Message), len(e.ID))
				}
			}
			if len(log.Entries) > bmc.MaxLogEntries || log.Count < 0 || log.Max < 0 {
				t.Errorf("%d entries of %d, at most %d", len(log.Entries), log.Count, log.Max)
			}
		}
		if s.count() > 3*maxRequests {
			t.Errorf("%d requests", s.count())
		}
	})
}
