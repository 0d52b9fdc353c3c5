package redfish

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest/recordings"
)

// recordedBIOS is what a person read of the Bios resource in the raw JSON of a recording.
type recordedBIOS struct {
	attributes int
	settings   string
	pending    []string
	registry   string // its path; empty if the recording has no link to it
}

var recordedBIOSes = map[string]recordedBIOS{
	"cisco-c220-m4":       {attributes: 87},
	"cisco-c225-m6":       {attributes: 72},
	"cisco-s3260":         {attributes: 87},
	"dell-r750":           {attributes: 455, settings: "/redfish/v1/Systems/System.Embedded.1/Bios/Settings"},
	"dell-r750-full":      {attributes: 455, settings: "/redfish/v1/Systems/System.Embedded.1/Bios/Settings", registry: "/redfish/v1/Systems/System.Embedded.1/Bios/BiosRegistry"},
	"dmtf-rackmount1":     {attributes: 10, settings: "/redfish/v1/Systems/437XR1138R2/Bios/Settings", pending: []string{"AdminPhone", "EmbeddedSata", "NicBoot2", "ProcTurboMode"}},
	"gigabyte":            {attributes: 550},
	"hpe-dl325":           {attributes: 236, settings: "/redfish/v1/systems/1/bios/settings"},
	"hpe-dl385-ilo5":      {attributes: 277, settings: "/redfish/v1/systems/1/bios/settings", registry: "/redfish/v1/registrystore/registries/en/biosattributeregistrya42.v1_2_60"},
	"hpe-xl675d-a100":     {attributes: 299, settings: "/redfish/v1/systems/1/bios/settings"},
	"hpe-xl675d-a40":      {attributes: 297, settings: "/redfish/v1/systems/1/bios/settings"},
	"lenovo-sr670":        {attributes: 373, settings: "/redfish/v1/Systems/1/Bios/Pending", pending: []string{"TrustedComputingGroup_DeviceOperation"}},
	"lenovo-sr670v2-xcc":  {attributes: 348, settings: "/redfish/v1/Systems/1/Bios/Pending", registry: "/redfish/v1/schemas/registries/BiosAttributeRegistry.1.0.0.json"},
	"nvidia-dgx-h100":     {attributes: 223, settings: "/redfish/v1/Systems/DGX/Bios/SD", registry: "/redfish/v1/Registries/BiosAttributeRegistry113.en-US.1.1.3.json"},
	"nvidia-gb300":        {attributes: 360, settings: "/redfish/v1/Systems/System_0/Bios/Settings"},
	"nvidia-gh200-full":   {attributes: 203, settings: "/redfish/v1/Systems/System_0/Bios/Settings", registry: "/redfish/v1/Registries/BiosAttributeRegistry/BiosAttributeRegistry"},
	"supermicro-x13-h100": {attributes: 379, settings: "/redfish/v1/Systems/1/Bios/SD", registry: "/registries/BiosAttributeRegistry.1.0.0.json"},
}

// TestCorpusBIOS reads the BIOS configuration of recorded services. Servers that are not in recordedBIOSes do not offer it.
func TestCorpusBIOS(t *testing.T) {
	files := recordings.Files(t)
	seen := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json.gz")
		want, ok := recordedBIOSes[name]
		seen[name] = ok
		if name == "multiblade" || name == "sushy-samples" {
			continue // several systems, none of them with a Bios resource at its link
		}
		t.Run(name, func(t *testing.T) {
			s := loadTree(t, file)
			got, err := s.open(t, "").BIOS(t.Context())
			if !ok {
				if err == nil || bmc.KindOf(err) != bmc.Unsupported {
					t.Fatalf("%d attributes, %v", len(got.Attributes), err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			pending := slices.Sorted(maps.Keys(got.Pending))
			if len(got.Attributes) != want.attributes || got.SettingsPath != want.settings || !slices.Equal(pending, want.pending) || got.RegistryPath != want.registry {
				t.Errorf("%d attributes, settings object %q, pending %v, registry %q (%s)", len(got.Attributes), got.SettingsPath, pending, got.RegistryPath, got.RegistryProblem)
			}
			if (got.Registry == nil) == (got.RegistryProblem == "") {
				t.Errorf("a registry of %d bytes, and the problem %q", len(got.Registry), got.RegistryProblem)
			}
			if s.count() > 12 {
				t.Errorf("%d requests", s.count())
			}
		})
	}
	for name := range recordedBIOSes {
		if !seen[name] {
			t.Errorf("there is no recording %s", name)
		}
	}
}

// TestRegistryOf: which registry file belongs to the name that the Bios resource has.
func TestRegistryOf(t *testing.T) {
	const folder = "/redfish/v1/Registries/"
	for name, test := range map[string]struct {
		name  string
		files []string
		want  string
	}{
		"exact":                {"BiosAttributeRegistryA42.v1_2_60", []string{"Base.1.0", "BiosAttributeRegistryA42.v1_2_60"}, "BiosAttributeRegistryA42.v1_2_60"},
		"another version":      {"BiosAttributeRegistry.v1_0_3", []string{"BiosAttributeRegistry.v1_0_0", "ManagerAttributeRegistry", "NetworkAttributesRegistry_NIC.1"}, "BiosAttributeRegistry.v1_0_0"},
		"a version, none":      {"BiosAttributeRegistry.v1_0_0", []string{"BiosAttributeRegistry"}, "BiosAttributeRegistry"},
		"a prefix":             {"BiosAttributeRegistry.v1_0_0", []string{"Base", "CiscoBiosAttributeRegistry.v1_0_0"}, "CiscoBiosAttributeRegistry.v1_0_0"},
		"no name":              {"", []string{"Base", "BiosAttributeRegistry"}, "BiosAttributeRegistry"},
		"no name, two of them": {"", []string{"BiosAttributeRegistryA.v1", "BiosAttributeRegistryB.v1"}, ""},
		"two versions":         {"BiosAttributeRegistry.v1_0_3", []string{"BiosAttributeRegistry.v1_0_0", "BiosAttributeRegistry.v1_0_1"}, ""},
		"nothing":              {"BiosAttributeRegistry.v1_0_3", []string{"Base"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var paths []string
			for _, file := range test.files {
				paths = append(paths, folder+file)
			}
			want := test.want
			if want != "" {
				want = folder + want
			}
			if got := registryOf(test.name, paths); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// FuzzBIOS: any Bios resource, settings object and registry file is read without a panic, and no path leads to another host.
func FuzzBIOS(f *testing.F) {
	f.Add(`{"Attributes":{"A":"x","B":8,"C":null,"D":{}},"@Redfish.Settings":{"SettingsObject":{"@odata.id":"/s"},"SupportedApplyTimes":["OnReset"],"Messages":[{"MessageId":"x"}]}}`,
		`{"Attributes":{"A":"y","B":"8"},"Oem":{"Dell":{"Jobs":{"@odata.id":"/j"}}},"Actions":{"Oem":{"X#DellManager.ClearPending":{"target":"@evil/"}}}}`,
		`{"Location":[{"Language":"en-US","Uri":"//evil/r"},{"Language":7,"Uri":{"@odata.id":"/r"}}]}`)
	f.Fuzz(func(t *testing.T, bios, settings, file string) {
		var r [3]resource
		for i, text := range []string{bios, settings, file} {
			var err error
			if r[i], err = decode([]byte(text)); err != nil {
				return
			}
		}
		state := &biosState{resource: r[0], path: "/b", settings: r[1]}
		for name, value := range state.pending() {
			if value == nil || sameValue(value, state.attributes()[name]) {
				t.Errorf("%s is not pending: %v", name, value)
			}
		}
		_ = hasAttributes(r[0])
		_ = applyTime(r[0])
		_ = isRegistry(r[2])
		if messages := settingsMessages(r[0]); len(messages) > maxSettingsMessages {
			t.Errorf("%d messages", len(messages))
		}
		for _, path := range []string{clearAction(r[1]), registryURI(r[2]), state.settingsObject(), registryOf(r[0].text("AttributeRegistry"), r[2].links("Members"))} {
			if path != "" && (!strings.HasPrefix(path, "/") || strings.HasPrefix(path, "//")) {
				t.Errorf("a path that leads to another host: %q", path)
			}
		}
		content, err := json.Marshal(map[string]any{"Attributes": state.attributes()})
		if err != nil {
			t.Fatal(err)
		}
		var typed schemas.Bios
		if err := json.Unmarshal(content, &typed); err != nil {
			t.Errorf("gofish does not read %s: %v", content, err)
		}
	})
}
