package redfish_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

// newVendor starts an emulated server of a vendor.
func newVendor(t *testing.T, vendor string, faults ...bmctest.Fault) (*bmctest.Machine, bmc.Endpoint) {
	t.Helper()
	machine := bmctest.NewMachine(bmctest.Options{Name: "s", Vendor: vendor, Username: "admin", Password: "secret"})
	for _, fault := range faults {
		misbehave(t, machine, fault, -1)
	}
	server := httptest.NewServer(machine)
	t.Cleanup(func() { server.CloseClientConnections(); server.Close(); machine.Close() })
	return machine, endpointOf(t, server, redfish.SchemeInsecure)
}

// TestBIOSShapes: each shape of the settings object and of the registry is read, staged once and applied by one boot.
func TestBIOSShapes(t *testing.T) {
	for name, test := range map[string]struct {
		vendor   string
		faults   []bmctest.Fault
		settings string // the end of the path of the settings object
		problem  string // why there is no registry
		task     bool
		atOnce   bool
	}{
		"pending only":             {settings: "/Bios/Settings"},
		"a full copy":              {faults: []bmctest.Fault{bmctest.BIOSFullCopy}, settings: "/Bios/Settings"},
		"no Attributes":            {faults: []bmctest.Fault{bmctest.BIOSNoAttributes}, settings: "/Bios/Settings"},
		"no settings object":       {faults: []bmctest.Fault{bmctest.BIOSNoSettings}, atOnce: true},
		"no link to the object":    {vendor: "GIGABYTE", faults: []bmctest.Fault{bmctest.BIOSUnlinkedSettings}, settings: "/Bios/SD"},
		"no registry":              {faults: []bmctest.Fault{bmctest.BIOSNoRegistry}, settings: "/Bios/Settings", problem: "BiosAttributeRegistry.v1_0_0"},
		"another version":          {faults: []bmctest.Fault{bmctest.BIOSOtherRegistry}, settings: "/Bios/Settings"},
		"three languages":          {faults: []bmctest.Fault{bmctest.BIOSLanguages}, settings: "/Bios/Settings"},
		"needs an ETag":            {faults: []bmctest.Fault{bmctest.NeedsETag}, settings: "/Bios/Settings"},
		"needs an ETag, full copy": {vendor: "American Megatrends", faults: []bmctest.Fault{bmctest.NeedsETag, bmctest.BIOSFullCopy}, settings: "/Bios/Settings"},
		"a job":                    {vendor: "Dell Inc.", faults: []bmctest.Fault{bmctest.BIOSNeedsJob}, settings: "/Bios/Settings", task: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			machine, endpoint := newVendor(t, test.vendor, test.faults...)
			c := open(t, endpoint)
			before, err := c.BIOS(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(before.SettingsPath).To(HaveSuffix(test.settings))
			g.Expect(before.Attributes).To(And(HaveKeyWithValue("Sriov", "Disabled"), HaveKeyWithValue("PatrolScrubHours", float64(24)), HaveKeyWithValue("WakeOnLan", true),
				HaveKeyWithValue("SetupPassword", BeNil())))
			g.Expect(before.Pending).To(BeEmpty())
			g.Expect(c.PendingBIOS(t.Context())).To(BeEmpty())
			if test.problem == "" {
				g.Expect(before.RegistryProblem).To(BeEmpty())
				g.Expect(before.RegistryPath).To(ContainSubstring("/en/"))
				g.Expect(string(before.Registry)).To(ContainSubstring(`"Sriov (en)"`))
			} else {
				g.Expect(before.Registry).To(BeNil())
				g.Expect(before.RegistryProblem).To(ContainSubstring(test.problem))
			}

			change := map[string]any{"Sriov": "Enabled", "PatrolScrubHours": float64(8), "WakeOnLan": true}
			staged, err := c.StageBIOS(t.Context(), bmc.BIOSChange{Attributes: change})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(staged.Sent).To(BeTrue())
			hasTask := staged.Task != ""
			g.Expect(hasTask).To(Equal(test.task))
			now, err := c.BIOS(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			if !test.atOnce {
				g.Expect(now.Pending).To(Equal(map[string]any{"Sriov": "Enabled", "PatrolScrubHours": float64(8)}))
				g.Expect(now.Attributes).To(Equal(before.Attributes), "nothing is applied before the reset")
				g.Expect(c.PendingBIOS(t.Context())).To(Equal([]string{"PatrolScrubHours", "Sriov"}))
			}
			commands := []string{"BIOS=PatrolScrubHours:8,Sriov:Enabled"}
			g.Expect(machine.CommandNames()).To(Equal(commands), "one request, without the value that is there")

			again, err := c.StageBIOS(t.Context(), bmc.BIOSChange{Attributes: change})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(again.Sent).To(BeFalse())
			g.Expect(machine.CommandNames()).To(Equal(commands), "a repetition after a crash writes nothing")

			machine.SetPower(true)
			after, err := c.BIOS(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(after.Pending).To(BeEmpty())
			g.Expect(after.Attributes).To(And(HaveKeyWithValue("Sriov", "Enabled"), HaveKeyWithValue("PatrolScrubHours", float64(8))))
		})
	}
}

// TestBIOSJob: values that another program staged without a job get one, and one only.
func TestBIOSJob(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newVendor(t, "Dell Inc.", bmctest.BIOSNeedsJob)
	machine.StageForeignBIOS("Sriov", "Enabled")
	c := open(t, endpoint)
	change := bmc.BIOSChange{Attributes: map[string]any{"Sriov": "Enabled"}}
	first, err := c.StageBIOS(t.Context(), change)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first).To(Equal(bmc.StagedBIOS{Sent: true, Task: "/redfish/v1/Managers/1/Oem/Dell/Jobs/JID_1"}))
	second, err := c.StageBIOS(t.Context(), change)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(second).To(Equal(bmc.StagedBIOS{Task: first.Task}))
	g.Expect(machine.BIOSJobs()).To(Equal(1))
	_, err = c.StageBIOS(t.Context(), bmc.BIOSChange{Attributes: map[string]any{"WakeOnLan": false}})
	g.Expect(err).To(MatchError(ContainSubstring("A job of the BIOS is scheduled already")))
}

// TestStageSecureBoot: Secure Boot is changed after the attributes, or together with them where a BMC refuses two changes. What is staged is reported as the setting of
// Secure Boot that is pending, wherever the BMC has it, and a repetition writes nothing.
func TestStageSecureBoot(t *testing.T) {
	on := true
	for name, test := range map[string]struct {
		vendor string
		faults []bmctest.Fault
		want   []string
		// asAttribute and asObject are true where the staged setting is an attribute, or has a settings object. Otherwise the setting has changed at once.
		asAttribute, asObject bool
	}{
		"at once":           {want: []string{"BIOS=PatrolScrubHours:8", "SecureBoot=On"}},
		"a settings object": {faults: []bmctest.Fault{bmctest.SecureBootSettings}, want: []string{"BIOS=PatrolScrubHours:8", "SecureBoot=On"}, asObject: true},
		"an attribute": {
			vendor: "Dell Inc.", faults: []bmctest.Fault{bmctest.BIOSNeedsJob}, want: []string{"BIOS=PatrolScrubHours:8,SecureBoot:Enabled"}, asAttribute: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			machine, endpoint := newVendor(t, test.vendor, test.faults...)
			c := open(t, endpoint)
			change := bmc.BIOSChange{Attributes: map[string]any{"PatrolScrubHours": float64(8)}, SecureBoot: &on}
			for range 2 {
				_, err := c.StageBIOS(t.Context(), change)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(machine.CommandNames()).To(Equal(test.want))
			}
			now, err := c.BIOS(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Pending).To(Equal(map[string]any{"PatrolScrubHours": float64(8)}))
			g.Expect(now.PendingSecureBoot != nil && *now.PendingSecureBoot).To(Equal(test.asAttribute))
			state, err := c.SecureBoot(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(state.Pending != nil && *state.Pending).To(Equal(test.asObject))
			g.Expect(state.Enabled).To(Equal(!test.asAttribute && !test.asObject))
			machine.SetPower(true)
			state, err = c.SecureBoot(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(state).To(Equal(bmc.SecureBoot{Enabled: true, Active: true, Mode: "UserMode"}))
		})
	}
}

// TestSecureBootStagedBack: a staged change of Secure Boot is taken back by setting what it is.
func TestSecureBootStagedBack(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newVendor(t, "", bmctest.SecureBootSettings)
	c := open(t, endpoint)
	g.Expect(c.SetSecureBoot(t.Context(), true)).To(Succeed())
	g.Expect(c.SetSecureBoot(t.Context(), false)).To(Succeed())
	g.Expect(machine.CommandNames()).To(Equal([]string{"SecureBoot=On", "SecureBoot=Off"}))
	machine.SetPower(true)
	state, err := c.SecureBoot(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(state.Enabled).To(BeFalse())
}

// TestClearStagedBIOS: what is staged is removed, in each shape, and a boot then applies nothing.
func TestClearStagedBIOS(t *testing.T) {
	for name, test := range map[string]struct {
		vendor string
		faults []bmctest.Fault
	}{
		"pending only":       {},
		"a full copy":        {"", []bmctest.Fault{bmctest.BIOSFullCopy}},
		"no settings object": {"", []bmctest.Fault{bmctest.BIOSNoSettings}},
		"a job":              {"Dell Inc.", []bmctest.Fault{bmctest.BIOSNeedsJob}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			machine, endpoint := newVendor(t, test.vendor, test.faults...)
			c := open(t, endpoint)
			g.Expect(c.ClearStagedBIOS(t.Context())).To(Succeed())
			g.Expect(machine.CommandNames()).To(BeEmpty(), "nothing is staged")
			if name == "no settings object" {
				return
			}
			_, err := c.StageBIOS(t.Context(), bmc.BIOSChange{Attributes: map[string]any{"Sriov": "Enabled"}})
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c.ClearStagedBIOS(t.Context())).To(Succeed())
			now, err := c.BIOS(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Pending).To(BeEmpty())
			machine.SetPower(true)
			g.Expect(machine.BIOS()).To(HaveKeyWithValue("Sriov", "Disabled"))
		})
	}
}

// TestBIOSRefused: what the BMC refuses is an error with its message, and stages nothing. What it accepts and does not do is not pending.
func TestBIOSRefused(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newVendor(t, "")
	c := open(t, endpoint)
	for text, attributes := range map[string]map[string]any{
		"There is no attribute Srivo":    {"Srivo": "Enabled"},
		"is no value of Sriov":           {"Sriov": "On"},
		"PatrolScrubHours":               {"PatrolScrubHours": float64(99)},
		"SystemModelName is read-only":   {"SystemModelName": "x"},
		"Sriov is read-only":             {"Sriov": "Enabled", "ProcVirtualization": "Disabled"},
		"of the wrong type for AssetTag": {"AssetTag": float64(7)},
	} {
		_, err := c.StageBIOS(t.Context(), bmc.BIOSChange{Attributes: attributes})
		g.Expect(err).To(MatchError(ContainSubstring(text)))
		g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed))
	}
	g.Expect(machine.PendingBIOS()).To(BeEmpty())
	misbehave(t, machine, bmctest.BIOSIgnored, -1)
	change := map[string]any{"Sriov": "Enabled"}
	_, err := c.StageBIOS(t.Context(), bmc.BIOSChange{Attributes: change})
	g.Expect(err).NotTo(HaveOccurred())
	now, err := c.BIOS(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(now.Pending).To(BeEmpty(), "the caller sees that nothing is staged")
	misbehave(t, machine, bmctest.OldSchema, -1)
	_, err = c.BIOS(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Unsupported))
}

// TestBIOSNeverApplied: values that no boot applies stay pending.
func TestBIOSNeverApplied(t *testing.T) {
	g := NewWithT(t)
	machine, endpoint := newVendor(t, "", bmctest.BIOSNeverApplied)
	c := open(t, endpoint)
	_, err := c.StageBIOS(t.Context(), bmc.BIOSChange{Attributes: map[string]any{"Sriov": "Enabled"}})
	g.Expect(err).NotTo(HaveOccurred())
	machine.SetPower(true)
	now, err := c.BIOS(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(now.Pending).To(HaveKeyWithValue("Sriov", "Enabled"))
	g.Expect(now.Attributes).To(HaveKeyWithValue("Sriov", "Disabled"))
}

// TestSettingsUnreadable: if the settings object cannot be read, it is unknown what a reset applies, which is an error.
func TestSettingsUnreadable(t *testing.T) {
	g := NewWithT(t)
	machine, _ := newVendor(t, "")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/Bios/Settings") {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		machine.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	c := open(t, endpointOf(t, server, redfish.SchemeInsecure))
	_, err := c.BIOS(t.Context())
	g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed))
	g.Expect(err).To(MatchError(ContainSubstring("read what is staged")))
}

// TestRegistryUnreadable: a registry that the BMC names and that cannot be read is an error, unless the BMC does not have it: most checks of a profile would be missing.
func TestRegistryUnreadable(t *testing.T) {
	machine, _ := newVendor(t, "")
	answer := func(status int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, test := range map[string]struct {
		path   string
		answer func(http.ResponseWriter)
		none   bool
	}{
		"the registry":                  {"/en/BiosAttributeRegistry.v1_0_0", answer(http.StatusInternalServerError, ""), false},
		"the registry is too large":     {"/en/BiosAttributeRegistry.v1_0_0", answer(http.StatusOK, strings.Repeat(" ", 2<<20+1)), false},
		"the registry is no JSON":       {"/en/BiosAttributeRegistry.v1_0_0", answer(http.StatusOK, "{"), false},
		"the registry is empty":         {"/en/BiosAttributeRegistry.v1_0_0", answer(http.StatusOK, "{}"), false},
		"the registry is missing":       {"/en/BiosAttributeRegistry.v1_0_0", answer(http.StatusNotFound, ""), true},
		"the file":                      {"/Registries/BiosAttributeRegistry.v1_0_0", answer(http.StatusInternalServerError, ""), false},
		"the list":                      {"/Registries", answer(http.StatusInternalServerError, ""), false},
		"the list is not implemented":   {"/Registries", answer(http.StatusNotImplemented, ""), false},
		"the list is missing":           {"/Registries", answer(http.StatusNotFound, ""), true},
		"the list has other registries": {"/Registries", answer(http.StatusOK, `{"Members": []}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, test.path) {
					test.answer(w)
					return
				}
				machine.ServeHTTP(w, r)
			}))
			t.Cleanup(server.Close)
			read, err := open(t, endpointOf(t, server, redfish.SchemeInsecure)).BIOS(t.Context())
			if test.none {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(read.RegistryProblem).NotTo(BeEmpty())
				return
			}
			g.Expect(err).To(HaveOccurred())
			g.Expect(bmc.KindOf(err)).To(Equal(bmc.Failed), "%v", err)
		})
	}
}

// TestSecureBootKeys: the certificates in db are read.
func TestSecureBootKeys(t *testing.T) {
	g := NewWithT(t)
	_, endpoint := newVendor(t, "")
	keys, err := open(t, endpoint).SecureBootKeys(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(keys).To(Equal(bmc.SecureBootKeys{Authorities: []string{"Microsoft Corporation UEFI CA 2011"}}))
}
