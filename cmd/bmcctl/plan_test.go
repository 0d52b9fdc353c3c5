package main

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest/recordings"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/simtest"
)

var update = flag.Bool("update", false, "write the golden files")

// profileFile writes a profile with the lines of a spec, and returns the path of the file.
func profileFile(t *testing.T, spec string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "profile.yaml")
	content := "apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1\nkind: BareMetalProfile\nmetadata:\n  name: test\nspec:\n" + spec
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPlan: a plan has what differs, what follows and what is refused. It changes nothing.
func TestPlan(t *testing.T) {
	s := simtest.Start(t, "--redfish", "1")
	server := s.Servers()[0]
	for name, test := range map[string]struct {
		spec string
		code int
		says []string // regular expressions of lines
	}{
		"changes": {
			`  secureBoot: Enabled
  biosSettings: [{name: WorkloadProfile, value: Virtualization}, {name: PatrolScrubHours, value: 8}, {name: WakeOnLan, value: "false"}, {name: ProcVirtualization, value: Enabled}]
`,
			exitOK,
			[]string{
				`Attributes +10 of /redfish/v1/\S+/Bios, staged at /redfish/v1/\S+/Bios/Settings$`, `Registry +\S+, 10 attributes, 2 dependencies$`, `PatrolScrubHours +24 +8 +-$`,
				`WakeOnLan +true +false +-$`, `Sriov +Disabled +Enabled +because of WorkloadProfile$`, `Enabled +off +on$`, `^The provider refuses to enable Secure Boot on a host whose spec.bootMode is not UEFISecureBoot$`, `Plan: 4 changes, 1 restart$`,
			},
		},
		"no restart": {"  biosSettings: [{name: FanOffset, value: 10}]\n", exitOK, []string{`Plan: 1 change, 0 restarts$`}},
		"conforms":   {"  biosSettings: [{name: PatrolScrubHours, value: \"24\"}]\n", exitOK, []string{`Plan: the server conforms: nothing would be written`}},
		"other servers": {
			"  hosts: {models: [R750]}\n  secureBoot: Disabled\n", exitOK, []string{`The profile selects other servers than this one: its model is ".*", not one of R750`},
		},
		"refused": {
			"  biosSettings: [{name: Srivo, value: Enabled}, {name: PatrolScrubHours, value: 99}, {name: BootMode, value: LegacyBios}, {name: Sriov, value: Enabled}]\n", exitFailed,
			[]string{
				`Srivo +Enabled +Unknown +.*Did you mean Sriov\?$`, `PatrolScrubHours +99 +NotAllowed +.*from 1 to 24`, `BootMode +LegacyBios +Protected +`, `Sriov +Disabled +Enabled`,
				`Plan: nothing would be written: 3 refused$`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got := bmcctl(t, credentials, "plan", "--profile", profileFile(t, test.spec), server.Address)
			g.Expect(got.code).To(Equal(test.code), got.out+got.err)
			g.Expect(got.err).To(BeEmpty())
			for _, line := range test.says {
				g.Expect(got.out).To(MatchRegexp(`(?m)^` + line))
			}
		})
	}
	NewWithT(t).Expect(s.Must(http.MethodGet, "/servers/"+server.Name+"/commands")).To(MatchJSON(`[]`), "it only reads")
}

func TestPlanJSON(t *testing.T) {
	g := NewWithT(t)
	server := simtest.Start(t, "--redfish", "1").Servers()[0]
	file := profileFile(t, "  biosSettings: [{name: PatrolScrubHours, value: 8}, {name: WakeOnLan, value: maybe}]\n")
	got := bmcctl(t, credentials, "plan", "--profile", file, server.Address, "-o", "json")
	g.Expect(got.code).To(Equal(exitFailed), got.err)
	var found struct {
		Profile string `json:"profile"`
		Verdict string `json:"verdict"`
		Plan    struct {
			Changes []struct {
				Name string `json:"name"`
				From any    `json:"from"`
				To   any    `json:"to"`
			} `json:"changes"`
			Refusals []map[string]any `json:"refusals"`
			Reboots  int              `json:"reboots"`
		} `json:"plan"`
	}
	g.Expect(json.Unmarshal([]byte(got.out), &found)).To(Succeed())
	g.Expect(found.Profile).To(Equal("test"))
	g.Expect(found.Verdict).To(HavePrefix("nothing would be written"))
	g.Expect(found.Plan.Changes).To(HaveLen(1))
	g.Expect([]any{found.Plan.Changes[0].Name, found.Plan.Changes[0].From, found.Plan.Changes[0].To}).To(Equal([]any{"PatrolScrubHours", 24.0, 8.0}), "a value has its own type")
	g.Expect(found.Plan.Refusals).To(ConsistOf(And(HaveKeyWithValue("name", "WakeOnLan"), HaveKeyWithValue("reason", "WrongType"))))
	g.Expect(found.Plan.Reboots).To(Equal(1))
}

// TestProfile: a server conforms to its own profile, which has nothing that belongs to one server or that a profile may not change.
func TestProfile(t *testing.T) {
	g := NewWithT(t)
	server := simtest.Start(t, "--redfish", "1").Servers()[0]
	got := bmcctl(t, credentials, "profile", server.Address, "--all", "--name", "good")
	g.Expect(got.code).To(Equal(exitOK), got.err)
	g.Expect(got.out).To(And(ContainSubstring("name: good\n"), ContainSubstring("name: PatrolScrubHours\n    value: 24\n"), ContainSubstring("name: WakeOnLan\n    value: \"true\"\n")))
	for _, name := range []string{"AssetTag", "BootMode", "SetupPassword", "SystemModelName"} {
		g.Expect(got.out).NotTo(ContainSubstring(name))
	}
	file := filepath.Join(t.TempDir(), "profile.yaml")
	g.Expect(os.WriteFile(file, []byte(got.out), 0o600)).To(Succeed())
	got = bmcctl(t, credentials, "plan", "--profile", file, server.Address)
	g.Expect(got.code).To(Equal(exitOK), got.out+got.err)
	g.Expect(got.out).To(And(ContainSubstring("Plan: the server conforms"), Not(ContainSubstring("other servers"))))

	got = bmcctl(t, credentials, "profile", server.Address)
	g.Expect(got.code).To(Equal(exitOK), got.err)
	g.Expect(got.err).To(ContainSubstring("the profile is empty"))
	g.Expect(got.out).NotTo(ContainSubstring("biosSettings"))
	g.Expect(objectName("PowerEdge R750 / XA")).To(Equal("poweredge-r750---xa"))
	g.Expect(objectName("--")).To(Equal("server"))
}

// TestPlanUsage: a mistake in the command line or in the profile is reported with its remedy, and no request is sent to a BMC.
func TestPlanUsage(t *testing.T) {
	g := NewWithT(t)
	const address = "redfish://192.0.2.10"
	good := profileFile(t, "  secureBoot: Enabled\n")
	other := filepath.Join(t.TempDir(), "host.yaml")
	g.Expect(os.WriteFile(other, []byte("apiVersion: v1\nkind: Secret\n"), 0o600)).To(Succeed())
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"plan", address}, "--profile is missing: bmcctl profile redfish://192.0.2.10 writes one"},
		{[]string{"plan", "--profile", "/none", address}, "--profile: open /none"},
		{[]string{"plan", "--profile", other, address}, "is not a BareMetalProfile of infrastructure.cluster.x-k8s.io/v1alpha1"},
		{[]string{"plan", "--profile", profileFile(t, "  hosts: {}\n"), address}, "neither spec.biosSettings nor spec.secureBoot"},
		{[]string{"plan", "--profile", profileFile(t, "  biosSettings: [{name: A}]\n"), address}, "needs a name and a value"},
		{[]string{"plan", "--profile", profileFile(t, "  biosSettings: [{name: A, value: true}]\n"), address}, `in quotes, like value: "true"`},
		{[]string{"plan", "--profile", profileFile(t, "  biosSettings: [{name: AcPwrRcvry, value: On}]\n"), address}, "write true, false, on, off"},
		{[]string{"plan", "--profile", profileFile(t, "  biosSettings: [{name: A, value: 5000000000}]\n"), address}, "integers of more than 32 bits in quotes"},
		{[]string{"plan", "--profile", profileFile(t, "  biosSetings: []\n"), address}, "biosSetings"},
		{[]string{"plan", "--profile", good, address, "-o", "xml"}, "neither text nor json"},
		{[]string{"plan", "--profile", good, address, "--system", "/redfish/v1/Systems/1"}, "name the system in the address, like redfish://192.0.2.10/redfish/v1/Systems/1"},
		{[]string{"plan", "--profile", good, "192.0.2.10"}, "neither the URL of a BMC, like redfish://192.0.2.10, nor a recording"},
		{[]string{"profile", "/none.json"}, "nor a recording: open /none.json"},
		{[]string{"profile", good, "--timeout", "0"}, "--timeout must be positive"},
	} {
		got := bmcctl(t, credentials, test.args...)
		g.Expect(got.code).To(Equal(exitUsage), "%q", test.args)
		g.Expect(got.err).To(ContainSubstring(test.says), "%q", test.args)
	}
}

// TestPlanUnsupported: a BMC without BIOS attributes cannot be planned, and it says so.
func TestPlanUnsupported(t *testing.T) {
	g := NewWithT(t)
	good := profileFile(t, "  secureBoot: Enabled\n")
	for _, s := range []*simtest.Sim{simtest.Start(t, "--ipmi", "1"), simtest.Start(t, "--redfish", "1", "--fault", "OldSchema")} {
		got := bmcctl(t, credentials, "plan", "--profile", good, s.Servers()[0].Address)
		g.Expect(got.code).To(Equal(exitFailed), got.out)
		g.Expect(got.err).To(ContainSubstring("Read the BIOS attributes"))
	}
}

// plansFolder has a profile for each recorded server, and the plan that it gives.
var plansFolder = filepath.Join("testdata", "plans")

// TestCorpusPlans: the plans of the profiles for the recorded servers. Each server with BIOS attributes has a profile.
func TestCorpusPlans(t *testing.T) {
	files := recordings.Files(t)
	profiles, err := filepath.Glob(filepath.Join(plansFolder, "*.yaml"))
	if err != nil || len(profiles) == 0 {
		t.Fatalf("%s has no profile: %v", plansFolder, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json.gz")
		profile := filepath.Join(plansFolder, name+".yaml")
		at := slices.Index(profiles, profile)
		if at >= 0 {
			profiles = slices.Delete(profiles, at, at+1)
		}
		t.Run(name, func(t *testing.T) {
			switch {
			case name == "sushy-samples": // samples of several services in one file, and no server
			case at < 0:
				got := bmcctl(t, nil, "profile", file)
				NewWithT(t).Expect(got.code).To(Equal(exitFailed), "it has BIOS attributes: write %s", profile)
			default:
				comparePlan(t, profile, file)
			}
		})
	}
	NewWithT(t).Expect(profiles).To(BeEmpty(), "there is no recording for these")
}

// comparePlan compares the plan for a recorded server with the golden file.
func comparePlan(t *testing.T, profile, recorded string) {
	t.Helper()
	g := NewWithT(t)
	got := bmcctl(t, nil, "plan", "--profile", profile, recorded)
	g.Expect(got.err).To(BeEmpty())
	g.Expect(got.code).To(Equal(exitFailed), "each profile has wishes that are refused")
	g.Expect(got.out).To(ContainSubstring(" Unknown "), "each profile has a wrong name")
	if !strings.Contains(got.out, " 0 dependencies") && !strings.Contains(got.out, "Registry    none") {
		g.Expect(got.out).To(MatchRegexp(` (DependsOn|Contradicts) `), "the profile of a server whose registry has dependencies needs a wish that one forbids")
	}
	golden := strings.TrimSuffix(profile, ".yaml") + ".txt"
	if *update {
		g.Expect(os.WriteFile(golden, []byte(got.out), 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(golden)
	g.Expect(err).NotTo(HaveOccurred(), "CORPUS=FOLDER go test ./cmd/bmcctl -run TestCorpusPlans -update writes it")
	g.Expect(got.out).To(Equal(string(want)))
}
