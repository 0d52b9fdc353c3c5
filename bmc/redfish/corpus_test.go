package redfish

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest/recordings"
)

// reviewed is the inventory that a reviewer read from a recorded tree, for one of its systems (testdata/corpus/README.md).
type reviewed struct {
	System             string           `json:"system"`
	Manager            string           `json:"manager"`
	Manufacturer       string           `json:"manufacturer"`
	Model              string           `json:"model"`
	SerialNumber       string           `json:"serialNumber"`
	SystemUUID         string           `json:"systemUUID"`
	FirmwareVersion    string           `json:"firmwareVersion"`
	BMCFirmwareVersion string           `json:"bmcFirmwareVersion"`
	CPUModel           string           `json:"cpuModel"`
	Architecture       string           `json:"architecture"`
	CPUSockets         int              `json:"cpuSockets"`
	CPUCores           int              `json:"cpuCores"`
	CPUThreads         int              `json:"cpuThreads"`
	MemoryMiB          int64            `json:"memoryMiB"`
	DIMMs              []reviewedDIMM   `json:"dimms"`
	Disks              []reviewedDisk   `json:"disks"`
	NICs               []reviewedNIC    `json:"nics"`
	Devices            []reviewedDevice `json:"devices"`
	PowerSupplies      []reviewedSupply `json:"powerSupplies"`
	Health             string           `json:"health"`
	Facts              map[string]struct {
		State  string `json:"state"`
		Source string `json:"source"`
	} `json:"facts"`
	Boot struct {
		Overrides   []string `json:"overrides"`
		BootOptions bool     `json:"bootOptions"`
	} `json:"boot"`
	Capabilities []string `json:"capabilities"`
	Notes        []string `json:"notes"`
}

type (
	reviewedDIMM struct {
		Name         string `json:"name"`
		Manufacturer string `json:"manufacturer"`
		PartNumber   string `json:"partNumber"`
		SerialNumber string `json:"serialNumber"`
		SizeMiB      int64  `json:"sizeMiB"`
		Health       string `json:"health"`
	}
	reviewedDisk struct {
		Name         string `json:"name"`
		Model        string `json:"model"`
		SerialNumber string `json:"serialNumber"`
		WWN          string `json:"wwn"`
		SizeBytes    int64  `json:"sizeBytes"`
		Rotational   *bool  `json:"rotational"`
		Health       string `json:"health"`
	}
	reviewedNIC struct {
		Name       string `json:"name"`
		MACAddress string `json:"macAddress"`
		SpeedMbps  int    `json:"speedMbps"`
		LinkUp     *bool  `json:"linkUp"`
	}
	reviewedDevice struct {
		Class           string `json:"class"`
		Name            string `json:"name"`
		Manufacturer    string `json:"manufacturer"`
		Model           string `json:"model"`
		SerialNumber    string `json:"serialNumber"`
		FirmwareVersion string `json:"firmwareVersion"`
		Health          string `json:"health"`
	}
	reviewedSupply struct {
		Name   string `json:"name"`
		Model  string `json:"model"`
		Watts  int    `json:"watts"`
		Health string `json:"health"`
	}
)

const reviewedFolder = "testdata/corpus"

// TestCorpus opens recorded trees of real BMCs with the driver. Reviewed trees must give the reviewed inventory, with $expand
// and without; all of them must keep the invariants of inventories. The recordings are not part of the project: make corpus.
func TestCorpus(t *testing.T) {
	files := recordings.Files(t)
	expected := reviewedFiles(t)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json.gz")
		for _, expand := range []bool{true, false} {
			t.Run(name+map[bool]string{true: "/expanded", false: "/plain"}[expand], func(t *testing.T) {
				load := func() *tree {
					s := loadTree(t, file)
					if !expand {
						root, _ := s.resources["/redfish/v1"].(map[string]any)
						delete(root, "ProtocolFeaturesSupported")
					}
					return s
				}
				for _, want := range expected[name] {
					t.Run(filepath.Base(want.System), func(t *testing.T) { compare(t, load(), want) })
				}
				if len(expected[name]) == 0 {
					surveyAll(t, load)
				}
			})
		}
		delete(expected, name)
	}
	for name := range expected {
		t.Errorf("there are reviewed inventories of %s, and no recording", name)
	}
}

// reviewedFiles reads the reviewed inventories, by the name of the tree.
func reviewedFiles(t *testing.T) map[string][]reviewed {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(reviewedFolder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	byTree := map[string][]reviewed{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		decoder := json.NewDecoder(strings.NewReader(string(content)))
		decoder.DisallowUnknownFields()
		var one reviewed
		if err := decoder.Decode(&one); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		byTree[name] = append(byTree[name], one)
	}
	return byTree
}

// surveyAll opens each system of a tree without a review, and checks the invariants.
func surveyAll(t *testing.T, load func() *tree) {
	t.Helper()
	s := load()
	driver := &Driver{Permit: loopback}
	c := newConn(driver, s.serve(t, ""))
	if err := c.service.login(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer driver.CloseIdleConnections()
	servers, err := c.system.servers(t.Context())
	if len(servers) == 0 {
		t.Fatalf("no server was found: %v", err)
	}
	for _, system := range servers {
		survey(t, load(), system.link("@odata.id"))
	}
}

// survey reads one system, and checks the invariants of its inventory.
func survey(t *testing.T, s *tree, system string) (*conn, bmc.Inventory) {
	t.Helper()
	c := s.open(t, system)
	inventory, err := c.Inspect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	requests := s.count()
	t.Logf("%s: %d requests to open it and to read the inventory", system, requests)
	if s.expands() && requests > 100 || requests > 500 {
		t.Errorf("%s: %d requests", system, requests)
	}
	if err := coherent(&inventory); err != nil {
		t.Errorf("%s: %v", system, err)
	}
	return c, inventory
}

// compare compares the driver's inventory with the reviewed one. It ignores the order of lists.
func compare(t *testing.T, s *tree, want reviewed) {
	t.Helper()
	c, i := survey(t, s, want.System)
	if requests := s.count(); want.Model == "PowerEdge R750" && s.expands() && requests > 21 {
		t.Errorf("%d requests: this server has what every inspection needs, and 13 devices", requests)
	}
	is := func(name string, got, want any) {
		t.Helper()
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
	if c.system.manager != nil || want.Facts["bmcFirmwareVersion"].State != "Unknown" {
		is("manager", c.system.manager.link("@odata.id"), want.Manager)
	}
	is("identity", []string{i.Manufacturer, i.Model, i.SerialNumber, i.SystemUUID, i.FirmwareVersion, i.BMCFirmwareVersion, string(i.Health)},
		[]string{want.Manufacturer, want.Model, want.SerialNumber, want.SystemUUID, want.FirmwareVersion, want.BMCFirmwareVersion, want.Health})
	is("CPU", []any{i.CPUModel, i.Architecture, i.CPUSockets, i.CPUCores, i.CPUThreads},
		[]any{want.CPUModel, want.Architecture, want.CPUSockets, want.CPUCores, want.CPUThreads})
	is("memory", i.MemoryMiB, want.MemoryMiB)
	got := reviewed{}
	for _, d := range i.DIMMs {
		got.DIMMs = append(got.DIMMs, reviewedDIMM{d.Name, d.Manufacturer, d.PartNumber, d.SerialNumber, d.SizeMiB, string(d.Health)})
	}
	for _, d := range i.Disks {
		got.Disks = append(got.Disks, reviewedDisk{d.Name, d.Model, d.SerialNumber, d.WWN, d.SizeBytes, d.Rotational, string(d.Health)})
	}
	for _, n := range i.NICs {
		got.NICs = append(got.NICs, reviewedNIC{n.Name, n.MACAddress, n.SpeedMbps, n.LinkUp})
	}
	for _, d := range i.Devices {
		got.Devices = append(got.Devices, reviewedDevice{d.Class, d.Name, d.Manufacturer, d.Model, d.Serial, d.Firmware, string(d.Health)})
	}
	for _, p := range i.PowerSupplies {
		got.PowerSupplies = append(got.PowerSupplies, reviewedSupply{p.Name, p.Model, p.Watts, string(p.Health)})
	}
	same(t, "DIMMs", got.DIMMs, want.DIMMs)
	same(t, "disks", got.Disks, want.Disks)
	same(t, "NICs", got.NICs, want.NICs)
	same(t, "devices", got.Devices, want.Devices)
	same(t, "power supplies", got.PowerSupplies, want.PowerSupplies)
	compareFacts(t, i, want)
	compareBoot(t, c, want)
	compareAgain(t, s, c, i)
}

// compareAgain reads the description and the inventory one after the other, as controllers do: the inventory is the same, and the
// description costs a few requests more.
func compareAgain(t *testing.T, s *tree, c *conn, before bmc.Inventory) {
	t.Helper()
	start := s.count()
	if _, err := c.Describe(t.Context()); err != nil {
		t.Fatal(err)
	}
	inventory, err := c.Inspect(t.Context())
	if err != nil || !reflect.DeepEqual(inventory, before) {
		t.Errorf("the second time the inventory is another one: %v", err)
	}
	if requests := s.count() - start; s.expands() && requests > 100 {
		t.Errorf("%d requests for the description and the inventory", requests)
	}
}

// same compares lists in any order.
func same[T any](t *testing.T, name string, got, want []T) {
	t.Helper()
	texts := func(list []T) []string {
		var texts []string
		for _, one := range list {
			content, err := json.Marshal(one)
			if err != nil {
				t.Fatal(err)
			}
			texts = append(texts, string(content))
		}
		slices.Sort(texts)
		return texts
	}
	has, wants := texts(got), texts(want)
	for _, text := range wants {
		if i := slices.Index(has, text); i >= 0 {
			has = slices.Delete(has, i, i+1)
		} else {
			t.Errorf("%s: missing %s", name, text)
		}
	}
	for _, text := range has {
		t.Errorf("%s: not expected: %s", name, text)
	}
}

func compareFacts(t *testing.T, i bmc.Inventory, want reviewed) {
	t.Helper()
	for _, name := range bmc.FactNames {
		fact, expected := i.Fact(name), want.Facts[string(name)]
		if string(fact.State) != expected.State || expected.State != string(bmc.FactUnknown) && fact.Source != expected.Source {
			t.Errorf("%s is %s from %q, and was to be %s from %q (%s)", name, fact.State, fact.Source, expected.State, expected.Source, fact.Message)
		}
		if fact.State == bmc.FactUnknown && fact.Message == "" {
			t.Errorf("%s is unknown, and nothing says why", name)
		}
	}
}

func compareBoot(t *testing.T, c *conn, want reviewed) {
	t.Helper()
	overrides := c.allowedTargets(t.Context(), func([]string) bool { return false })
	same(t, "boot overrides", slices.DeleteFunc(overrides, func(target string) bool { return target == "None" }), want.Boot.Overrides)
	options, _, _ := c.service.collection(t.Context(), c.system.link("Boot", "BootOptions"))
	if offered := len(c.order.current()) > 0 && len(options) > 0; offered != want.Boot.BootOptions {
		t.Errorf("boot options: %t", offered)
	}
	description, err := c.Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var capabilities []string
	for _, capability := range description.Capabilities {
		if capability != bmc.CanInventory {
			capabilities = append(capabilities, string(capability))
		}
	}
	same(t, "capabilities", capabilities, want.Capabilities)
}
