package settings

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// registryJSON is a small registry with each type and each shape of dependency of the recorded BMCs.
const registryJSON = `{"Id": "BiosAttributeRegistry.v1_0_0", "Language": "en", "RegistryEntries": {
  "Attributes": [
    {"AttributeName": "WorkloadProfile", "Type": "Enumeration", "Value": [{"ValueName": "Custom"}, {"ValueName": "Virtualization"}, {"ValueName": "LowLatency"}], "DefaultValue": "Custom", "ReadOnly": false},
    {"AttributeName": "ProcVirtualization", "Type": "Enumeration", "Value": [{"ValueName": "Enabled"}, {"ValueName": "Disabled"}], "DefaultValue": "Enabled"},
    {"AttributeName": "Sriov", "Type": "Enumeration", "Value": [{"ValueName": "Enabled"}, {"ValueName": "Disabled"}], "DefaultValue": "Disabled"},
    {"AttributeName": "PatrolScrubHours", "Type": "Integer", "LowerBound": 1, "UpperBound": 24, "ScalarIncrement": 1, "DefaultValue": 24, "ResetRequired": false},
    {"AttributeName": "Watchdog", "Type": "Boolean", "DefaultValue": false, "ResetRequired": true},
    {"AttributeName": "ServiceNote", "Type": "String", "MinLength": 0, "MaxLength": 8, "ValueExpression": "^[a-z]*$"},
    {"AttributeName": "AssetTag", "Type": "String", "MaxLength": 32},
    {"AttributeName": "PowerProfile", "Type": "Enumeration", "Value": [{"ValueName": "Balanced"}, {"ValueName": "Custom"}], "ReadOnly": false},
    {"AttributeName": "PowerLimit", "Type": "Integer", "LowerBound": 100, "UpperBound": 900, "ReadOnly": true},
    {"AttributeName": "SystemModelName", "Type": "String", "ReadOnly": true, "Immutable": true},
    {"AttributeName": "SetupPassword", "Type": "Password", "MinLength": 0, "MaxLength": 32},
    {"AttributeName": "SlotSpeed", "Type": "Enumeration", "Value": [{"ValueName": "Auto"}, {"ValueName": "Gen4"}], "Hidden": true},
    {"AttributeName": "NotInstalled", "Type": "Boolean"},
    {"AttributeName": "BootMode", "Type": "Enumeration", "Value": [{"ValueName": "Uefi"}, {"ValueName": "Bios"}]},
    {"AttributeName": "LegacyShortcut", "Type": "Enumeration", "Value": [{"ValueName": "Enabled"}, {"ValueName": "Disabled"}]}
  ],
  "Dependencies": [
    {"Type": "Map", "DependencyFor": "WorkloadProfile", "Dependency": {"MapFrom": [{"MapFromAttribute": "WorkloadProfile", "MapFromProperty": "CurrentValue", "MapFromCondition": "EQU", "MapFromValue": "Virtualization"}], "MapToAttribute": "Sriov", "MapToProperty": "CurrentValue", "MapToValue": "Enabled"}},
    {"Type": "Map", "DependencyFor": "Sriov", "Dependency": {"MapFrom": [{"MapFromAttribute": "WorkloadProfile", "MapFromProperty": "CurrentValue", "MapFromCondition": "EQU", "MapFromValue": "Virtualization"}], "MapToAttribute": "Sriov", "MapToProperty": "ReadOnly", "MapToValue": true}},
    {"Type": "Map", "DependencyFor": "Sriov", "Dependency": {"MapFrom": [{"MapFromAttribute": "ProcVirtualization", "MapFromProperty": "CurrentValue", "MapFromCondition": "EQU", "MapFromValue": "Disabled"}], "MapToAttribute": "Sriov", "MapToProperty": "ReadOnly", "MapToValue": true}},
    {"Type": "Map", "DependencyFor": "PowerLimit", "Dependency": {"MapFrom": [{"MapFromAttribute": "PowerProfile", "MapFromProperty": "CurrentValue", "MapFromCondition": "NEQ", "MapFromValue": "Custom"}], "MapToAttribute": "PowerLimit", "MapToProperty": "ReadOnly", "MapToValue": true}},
    {"Type": "Map", "DependencyFor": "PowerLimit", "Dependency": {"MapFrom": [{"MapFromAttribute": "PowerLimit", "MapFromProperty": "CurrentValue", "MapFromCondition": "EQU", "MapFromValue": 900}], "MapToAttribute": "Watchdog", "MapToProperty": "CurrentValue", "MapToValue": true}},
    {"Type": "Map", "DependencyFor": "LegacyShortcut", "Dependency": {"MapFrom": [{"MapFromAttribute": "LegacyShortcut", "MapFromProperty": "CurrentValue", "MapFromCondition": "EQU", "MapFromValue": "Enabled"}], "MapToAttribute": "BootMode", "MapToProperty": "CurrentValue", "MapToValue": "Bios"}},
    {"Type": "Map", "DependencyFor": "ProcVirtualization", "Dependency": {"MapFrom": [{"MapFromAttribute": "Watchdog", "MapFromProperty": "CurrentValue", "MapFromCondition": "EQU", "MapFromValue": true}], "MapToAttribute": "ProcVirtualization", "MapToProperty": "GrayOut", "MapToValue": true}}
  ]}}`

func testRegistry(t *testing.T) *Registry {
	t.Helper()
	r, err := ParseRegistry([]byte(registryJSON))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// testValues are the current values of the server.
func testValues() Values {
	return Values{
		"WorkloadProfile": Text("Custom"), "ProcVirtualization": Text("Enabled"), "Sriov": Text("Disabled"), "PatrolScrubHours": Number(24), "Watchdog": Boolean(false),
		"ServiceNote": Text(""), "AssetTag": Text("A-1"), "PowerProfile": Text("Balanced"), "PowerLimit": Number(400), "SystemModelName": Text("M"), "SetupPassword": {},
		"SlotSpeed": Text("Auto"), "BootMode": Text("Uefi"), "LegacyShortcut": Text("Disabled"),
	}
}

// wishes makes wishes from pairs NAME=VALUE.
func wishes(pairs ...string) []Wish {
	var all []Wish
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		all = append(all, Wish{name, value})
	}
	return all
}

// summary describes a plan in one line: what is written, what is implied, what is refused, what is foreign.
func summary(p Plan) string {
	var parts []string
	for _, c := range p.Changes {
		parts = append(parts, fmt.Sprintf("%s:%s>%s", c.Name, c.From, c.To))
	}
	for _, c := range p.Implied {
		parts = append(parts, fmt.Sprintf("(%s:%s>%s)", c.Name, c.From, c.To))
	}
	for _, r := range p.Refusals {
		parts = append(parts, fmt.Sprintf("!%s %s", r.Name, r.Reason))
	}
	for _, c := range p.Foreign {
		parts = append(parts, fmt.Sprintf("?%s:%s>%s", c.Name, c.From, c.To))
	}
	return strings.Join(parts, "; ")
}

// TestPlan: what is written, implied and refused, and how many restarts that needs.
func TestPlan(t *testing.T) {
	for name, test := range map[string]struct {
		wishes  []Wish
		current Values // replaces values
		want    string
		reboots int
		says    []string // parts of the messages of the refusals
	}{
		"nothing wished":                 {},
		"no difference":                  {wishes: wishes("Sriov=Disabled", "PatrolScrubHours=24", "Watchdog=false")},
		"no difference, read-only":       {wishes: wishes("SystemModelName=M", "PowerLimit=400")},
		"a difference":                   {wishes: wishes("Sriov=Enabled"), want: "Sriov:Disabled>Enabled", reboots: 1},
		"many differences, one restart":  {wishes: wishes("Sriov=Enabled", "Watchdog=true", "PatrolScrubHours=8"), want: "PatrolScrubHours:24>8; Sriov:Disabled>Enabled; Watchdog:false>true", reboots: 1},
		"a change without a restart":     {wishes: wishes("PatrolScrubHours=8"), want: "PatrolScrubHours:24>8"},
		"one wish twice":                 {wishes: wishes("Sriov=Enabled", "Sriov=Enabled"), want: "Sriov:Disabled>Enabled", reboots: 1},
		"two values of one name":         {wishes: wishes("Sriov=Disabled", "Sriov=Enabled"), want: "!Sriov Duplicate", says: []string{`"Disabled" and "Enabled"`}},
		"unknown name":                   {wishes: wishes("Srivo=Enabled"), want: "!Srivo Unknown", says: []string{"BiosAttributeRegistry.v1_0_0", "Did you mean Sriov?"}},
		"unknown name in another case":   {wishes: wishes("SRIOV=Enabled"), want: "!SRIOV Unknown", says: []string{"Did you mean Sriov?"}},
		"unknown name, nothing near":     {wishes: wishes("Hyperthreading=Enabled"), want: "!Hyperthreading Unknown", says: []string{"bmcctl profile"}},
		"unknown value":                  {wishes: wishes("Sriov=Enable"), want: "!Sriov NotAllowed", says: []string{"Enabled, Disabled", "Did you mean Enabled?"}},
		"value in another case":          {wishes: wishes("Sriov=enabled"), want: "!Sriov NotAllowed", says: []string{"Did you mean Enabled?"}},
		"too large":                      {wishes: wishes("PatrolScrubHours=25"), want: "!PatrolScrubHours NotAllowed", says: []string{"from 1 to 24, and is 25"}},
		"no integer":                     {wishes: wishes("PatrolScrubHours=1.5"), want: "!PatrolScrubHours NotAllowed"},
		"no number":                      {wishes: wishes("PatrolScrubHours=often"), want: "!PatrolScrubHours WrongType", says: []string{"must be a number"}},
		"no boolean":                     {wishes: wishes("Watchdog=1"), want: "!Watchdog WrongType", says: []string{"true or false"}},
		"too long":                       {wishes: wishes("ServiceNote=abcdefghi"), want: "!ServiceNote NotAllowed", says: []string{"from 0 to 8 characters, and has 9"}},
		"against the pattern":            {wishes: wishes("ServiceNote=A"), want: "!ServiceNote NotAllowed", says: []string{"must match"}},
		"a password":                     {wishes: wishes("SetupPassword=x"), want: "!SetupPassword Password"},
		"not installed":                  {wishes: wishes("NotInstalled=true"), want: "!NotInstalled NotReported", says: []string{"this server does not"}},
		"immutable":                      {wishes: wishes("SystemModelName=N"), want: "!SystemModelName ReadOnly", says: []string{"reflects the hardware"}},
		"hidden":                         {wishes: wishes("SlotSpeed=Gen4"), want: "!SlotSpeed ReadOnly", says: []string{"is hidden"}},
		"the boot mode":                  {wishes: wishes("BootMode=Bios"), want: "!BootMode Protected", says: []string{"spec.bootMode"}},
		"Secure Boot by another name":    {wishes: wishes("SecureBoot=Disabled"), want: "!SecureBoot Protected", says: []string{"spec.secureBoot"}},
		"the boot mode by a dependency":  {wishes: wishes("LegacyShortcut=Enabled"), want: "LegacyShortcut:Disabled>Enabled; (BootMode:Uefi>Bios); !LegacyShortcut Protected", reboots: 1, says: []string{"would change BootMode from Uefi to Bios"}},
		"all faults at once":             {wishes: wishes("Srivo=1", "PatrolScrubHours=99", "BootMode=Bios", "Sriov=Enabled"), want: "Sriov:Disabled>Enabled; !BootMode Protected; !PatrolScrubHours NotAllowed; !Srivo Unknown", reboots: 1},
		"implied":                        {wishes: wishes("WorkloadProfile=Virtualization"), want: "WorkloadProfile:Custom>Virtualization; (Sriov:Disabled>Enabled)", reboots: 1},
		"implied and wished":             {wishes: wishes("WorkloadProfile=Virtualization", "Sriov=Enabled"), want: "WorkloadProfile:Custom>Virtualization; (Sriov:Disabled>Enabled)", reboots: 1},
		"contradicts":                    {wishes: wishes("WorkloadProfile=Virtualization", "Sriov=Disabled"), want: "WorkloadProfile:Custom>Virtualization; !Sriov Contradicts", reboots: 1, says: []string{"would become Enabled", "WorkloadProfile (Virtualization)"}},
		"read-only by a current value":   {wishes: wishes("Sriov=Enabled"), current: Values{"ProcVirtualization": Text("Disabled")}, want: "!Sriov DependsOn", says: []string{"ProcVirtualization (Disabled)"}},
		"read-only by a wish":            {wishes: wishes("Sriov=Enabled", "ProcVirtualization=Disabled"), want: "ProcVirtualization:Enabled>Disabled; !Sriov DependsOn", reboots: 1, says: []string{"ProcVirtualization (Disabled)"}},
		"writable by a wish":             {wishes: wishes("Sriov=Enabled", "ProcVirtualization=Enabled"), current: Values{"ProcVirtualization": Text("Disabled")}, want: "ProcVirtualization:Disabled>Enabled; Sriov:Disabled>Enabled", reboots: 1},
		"a flag that is the current one": {wishes: wishes("PowerLimit=500"), want: "!PowerLimit DependsOn", says: []string{"PowerProfile (Balanced)"}},
		"a flag that a wish lifts":       {wishes: wishes("PowerLimit=500", "PowerProfile=Custom"), want: "PowerLimit:400>500; PowerProfile:Balanced>Custom", reboots: 1},
		"implied by a wish":              {wishes: wishes("PowerLimit=900", "PowerProfile=Custom"), want: "PowerLimit:400>900; PowerProfile:Balanced>Custom; (Watchdog:false>true)", reboots: 1},
		"implied by a refused wish":      {wishes: wishes("PowerLimit=900"), want: "!PowerLimit DependsOn"},
		"grayed out":                     {wishes: wishes("ProcVirtualization=Disabled"), current: Values{"Watchdog": Boolean(true)}, want: "ProcVirtualization:Enabled>Disabled", reboots: 1},
		"an old value of a dependency":   {wishes: wishes("Watchdog=true"), current: Values{"WorkloadProfile": Text("Virtualization")}, want: "Watchdog:false>true", reboots: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			current := testValues()
			maps.Copy(current, test.current)
			plan := NewPlan(Input{Wishes: test.wishes, Registry: testRegistry(t), Current: current})
			g.Expect(summary(plan)).To(Equal(test.want))
			g.Expect(plan.Reboots).To(Equal(test.reboots))
			g.Expect(plan.Attributes() == nil).To(Equal(plan.Blocked() || len(plan.Changes) == 0), "nothing is written if a wish is refused")
			var messages []string
			for _, r := range plan.Refusals {
				messages = append(messages, r.Message)
			}
			for _, part := range test.says {
				g.Expect(strings.Join(messages, "\n")).To(ContainSubstring(part))
			}
		})
	}
}

// TestPlanPending: values that are pending and not wished stop a plan, and those that are wished or implied do not.
func TestPlanPending(t *testing.T) {
	for name, test := range map[string]struct {
		wishes  []Wish
		pending Values
		want    string
	}{
		"of others":              {nil, Values{"Watchdog": Boolean(true)}, "?Watchdog:false>true"},
		"of others, two":         {wishes("Sriov=Enabled"), Values{"Watchdog": Boolean(true), "AssetTag": Text("B")}, "Sriov:Disabled>Enabled; ?AssetTag:A-1>B; ?Watchdog:false>true"},
		"wished":                 {wishes("Watchdog=true"), Values{"Watchdog": Boolean(true)}, "Watchdog:false>true"},
		"wished, another value":  {wishes("PatrolScrubHours=8"), Values{"PatrolScrubHours": Number(9)}, "PatrolScrubHours:24>8; ?PatrolScrubHours:24>9"},
		"wished as it is":        {wishes("Watchdog=false"), Values{"Watchdog": Boolean(true)}, "?Watchdog:false>true"},
		"implied":                {wishes("WorkloadProfile=Virtualization"), Values{"Sriov": Text("Enabled"), "WorkloadProfile": Text("Virtualization")}, "WorkloadProfile:Custom>Virtualization; (Sriov:Disabled>Enabled)"},
		"a full copy":            {wishes("Watchdog=true"), testValues(), "Watchdog:false>true"},
		"a boolean as a text":    {nil, Values{"Watchdog": Text("false")}, ""},
		"a password, not shown":  {nil, Values{"SetupPassword": {}}, ""},
		"unknown to the current": {nil, Values{"New": Text("x")}, "?New:>x"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			plan := NewPlan(Input{Wishes: test.wishes, Registry: testRegistry(t), Current: testValues(), Pending: test.pending})
			g.Expect(summary(plan)).To(Equal(test.want))
			g.Expect(plan.Blocked()).To(Equal(strings.Contains(test.want, "?")))
			for _, c := range plan.Changes {
				staged, ok := test.pending[c.Name]
				g.Expect(c.Pending).To(Equal(ok && staged == c.To), c.Name)
			}
		})
	}
}

// TestPlanWithoutRegistry: names and kinds are checked against the current values, and the plan says so.
func TestPlanWithoutRegistry(t *testing.T) {
	g := NewWithT(t)
	current := Values{"EgmEnable": Boolean(false), "Limit": Number(5), "Mode": Text("Auto"), "Secret": {}}
	plan := NewPlan(Input{Wishes: wishes("EgmEnable=true", "Limit=7", "Mode=Anything"), Current: current})
	g.Expect(summary(plan)).To(Equal("EgmEnable:false>true; Limit:5>7; Mode:Auto>Anything"))
	g.Expect(plan.Attributes()).To(Equal(map[string]any{"EgmEnable": true, "Limit": float64(7), "Mode": "Anything"}))
	g.Expect(plan.Reboots).To(Equal(1))
	g.Expect(plan.Notes).To(ContainElement(ContainSubstring("no attribute registry")))
	plan = NewPlan(Input{Wishes: wishes("EgmEnabled=true", "Limit=many", "EgmEnable=on", "Secret=x"), Current: current})
	g.Expect(summary(plan)).To(Equal("!EgmEnable WrongType; !EgmEnabled Unknown; !Limit WrongType; !Secret Password"))
	g.Expect(plan.Refusals[1].Nearest).To(Equal("EgmEnable"))
}

// TestPlanOfOddTypes: the BMC decides about types that the specification does not have, and about numbers that it writes as texts.
func TestPlanOfOddTypes(t *testing.T) {
	g := NewWithT(t)
	r, err := ParseRegistry([]byte(`{"RegistryEntries":{"Attributes":[{"AttributeName":"Order","Type":"OrderedList"},{"AttributeName":"Minutes","Type":"Integer","LowerBound":"5","UpperBound":"20"},
		{"AttributeName":"Delay","Type":"Integer","LowerBound":0,"UpperBound":-1}]}}`))
	g.Expect(err).NotTo(HaveOccurred())
	plan := NewPlan(Input{Wishes: wishes("Order=a,b", "Minutes=10"), Registry: r, Current: Values{"Order": Text("b,a"), "Minutes": Text("5")}})
	g.Expect(plan.Attributes()).To(Equal(map[string]any{"Order": "a,b", "Minutes": "10"}), "the kind is that of the current value")
	g.Expect(summary(NewPlan(Input{Wishes: wishes("Minutes=21"), Registry: r, Current: Values{"Minutes": Text("5")}}))).To(Equal("!Minutes NotAllowed"))
	plan = NewPlan(Input{Wishes: wishes("Delay=7"), Registry: r, Current: Values{"Delay": Number(0)}})
	g.Expect(summary(plan)).To(Equal("Delay:0>7"), "an upper bound below the lower one does not count")
}

// TestPlanOfDisplayNames: a BMC whose current values are display names takes those.
func TestPlanOfDisplayNames(t *testing.T) {
	g := NewWithT(t)
	r, err := ParseRegistry([]byte(`{"RegistryEntries":{"Attributes":[
		{"AttributeName":"Baud","Type":"Enumeration","Value":[{"ValueName":"3","ValueDisplayName":"9600"},{"ValueName":"7","ValueDisplayName":"115200"}]},
		{"AttributeName":"Bits","Type":"Enumeration","Value":[{"ValueName":"7","ValueDisplayName":"8"},{"valuename":"8","valuedisplayname":"7"}]},
		{"AttributeName":"AES","Type":"Enumeration","Value":[{"ValueName":"0","ValueDisplayName":"Disable"},{"ValueName":"1","ValueDisplayName":"Enable"},{"ValueName":"2"}]}]}}`))
	g.Expect(err).NotTo(HaveOccurred())
	current := Values{"Baud": Text("115200"), "Bits": Text("8"), "AES": Text("Enable")}
	plan := NewPlan(Input{Wishes: wishes("AES=Disable", "Baud=3", "Bits=7"), Registry: r, Current: current})
	g.Expect(summary(plan)).To(Equal("AES:Enable>Disable; Bits:8>7; !Baud NotAllowed"))
	g.Expect(plan.Refusals[0].Message).To(ContainSubstring("one of 9600, 115200"))
	g.Expect(FromHost(r, current, true)).To(Equal(wishes("AES=Enable", "Baud=115200", "Bits=8")))
	plan = NewPlan(Input{Wishes: wishes("AES=2", "Baud=9600"), Registry: r, Current: Values{"Baud": Text("7"), "AES": Text("1")}})
	g.Expect(summary(plan)).To(Equal("AES:1>2; !Baud NotAllowed"), "a BMC with value names does not")
}

// TestFromHost: a profile of a host has what a profile can change, without the values of this one server and without defaults.
func TestFromHost(t *testing.T) {
	g := NewWithT(t)
	current := testValues()
	current["Sriov"], current["PatrolScrubHours"] = Text("Enabled"), Number(8)
	g.Expect(FromHost(testRegistry(t), current, false)).To(Equal(wishes("LegacyShortcut=Disabled", "PatrolScrubHours=8", "PowerProfile=Balanced", "ServiceNote=", "Sriov=Enabled")))
	names := []string{}
	for _, w := range FromHost(testRegistry(t), current, true) {
		names = append(names, w.Name)
	}
	g.Expect(names).To(Equal([]string{"LegacyShortcut", "PatrolScrubHours", "PowerProfile", "ProcVirtualization", "ServiceNote", "Sriov", "Watchdog", "WorkloadProfile"}))
	g.Expect(FromHost(nil, Values{"A": Boolean(true), "B": {}, "C": Text(strings.Repeat("x", 300)), "BootMode": Text("Uefi")}, false)).To(Equal(wishes("A=true")))
}

func TestNearest(t *testing.T) {
	names := []string{"ProcVirtualization", "ProcX2Apic", "Sriov", "SriovGlobalEnable"}
	for name, want := range map[string]string{
		"ProcVirtualisation": "ProcVirtualization", "procvirtualization": "ProcVirtualization", "Srvio": "Sriov", "SriovGlobalEnabled": "SriovGlobalEnable", "X": "", "": "",
		strings.Repeat("x", 2000): "",
	} {
		if got := Nearest(name, names); got != want {
			t.Errorf("%.40q: %q, want %q", name, got, want)
		}
	}
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "acb", 1}, {"kitten", "sitting", 3}, {"abcd", "abcd", 0}} {
		if got, back := distance(c.a, c.b), distance(c.b, c.a); got != c.want || back != c.want {
			t.Errorf("%q, %q: %d and %d, want %d", c.a, c.b, got, back, c.want)
		}
	}
}

// TestMapTerms: how the terms of a dependency are joined, in the shapes of the recorded BMCs.
func TestMapTerms(t *testing.T) {
	values := Values{"A": Text("1"), "B": Text("2"), "N": Number(5), "P": {}}
	is := func(attribute, value, joins string) term {
		return term{attribute: attribute, property: propertyValue, condition: "EQU", value: Text(value), joins: joins}
	}
	number := func(condition string, value float64) term {
		return term{attribute: "N", property: propertyValue, condition: condition, value: Number(value)}
	}
	for name, test := range map[string]struct {
		terms []term
		want  truth
	}{
		"one":                              {[]term{is("A", "1", "")}, isYes},
		"without operators, as on iDRAC":   {[]term{is("A", "0", ""), is("A", "1", "")}, isYes},
		"AND at the second, as on iLO":     {[]term{is("A", "1", ""), is("B", "0", "AND")}, isNo},
		"AND at the first, as on XCC":      {[]term{is("A", "1", "AND"), is("B", "0", "")}, isNo},
		"OR at the first":                  {[]term{is("A", "1", "OR"), is("B", "0", "")}, isYes},
		"left to right":                    {[]term{is("A", "1", ""), is("B", "0", "OR"), is("B", "0", "AND")}, isNo},
		"operators of nobody":              {[]term{is("A", "1", ""), is("A", "1", "OR,AND")}, isUnknown},
		"a gap in the operators":           {[]term{is("A", "1", ""), is("A", "1", "OR"), is("A", "1", "")}, isUnknown},
		"unknown or yes":                   {[]term{is("X", "1", ""), is("A", "1", "OR")}, isYes},
		"unknown and yes":                  {[]term{is("X", "1", ""), is("A", "1", "AND")}, isUnknown},
		"unknown and no":                   {[]term{is("X", "1", ""), is("A", "0", "AND")}, isNo},
		"a value that is not shown":        {[]term{is("P", "1", "")}, isUnknown},
		"a number as a text":               {[]term{is("N", "5", "")}, isYes},
		"greater":                          {[]term{number("GTR", 4)}, isYes},
		"greater or equal":                 {[]term{number("GEQ", 5)}, isYes},
		"less":                             {[]term{number("LSS", 5)}, isNo},
		"less or equal":                    {[]term{number("LEQ", 5)}, isYes},
		"a condition of nobody":            {[]term{number("XOR", 5)}, isUnknown},
		"a text that is compared":          {[]term{{attribute: "A", property: propertyValue, condition: "GTR", value: Text("x")}}, isUnknown},
		"another property than the value":  {[]term{{attribute: "A", property: "Hidden", condition: "EQU", value: Boolean(true)}}, isUnknown},
		"a value that the registry leaves": {[]term{{attribute: "A", property: propertyValue, condition: "EQU"}}, isUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect((&dependency{terms: test.terms}).holds(values)).To(Equal(test.want))
		})
	}
}

// TestParseRegistry: broken entries are counted and left out, and an answer that is no registry is an error.
func TestParseRegistry(t *testing.T) {
	g := NewWithT(t)
	r := testRegistry(t)
	g.Expect([]any{r.ID, r.Language, r.Ignored, len(r.Names()), r.Dependencies()}).To(Equal([]any{"BiosAttributeRegistry.v1_0_0", "en", 0, 15, 6}), "GrayOut is not kept")
	r, err := ParseRegistry([]byte(`{"id": 7, "registryentries": {"attributes": [7, null, {}, {"attributename": "A", "Type": 8, "Value": "x", "LowerBound": []}, {"AttributeName": "A", "Type": "Boolean"}],
		"Dependencies": [7, {"Type": "Map"}, {"Type": "Other", "Dependency": {"MapFrom": [{}], "MapToAttribute": "A"}}]}}`))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect([]any{r.ID, r.Ignored, r.Names(), r.Dependencies()}).To(Equal([]any{"7", 6, []string{"A"}, 0}))
	g.Expect(string(r.Attribute("A").Type)).To(Equal("8"), "the first one counts")
	for _, text := range []string{``, `[]`, `{}`, `{"RegistryEntries": {"Attributes": []}}`, `<html>`} {
		_, err := ParseRegistry([]byte(text))
		g.Expect(err).To(HaveOccurred(), text)
	}
	many := `{"RegistryEntries":{"Attributes":[` + strings.TrimSuffix(strings.Repeat(`{},`, maxAttributes+1), ",") + `]}}`
	_, err = ParseRegistry([]byte(many))
	g.Expect(err).To(MatchError(ContainSubstring("more than 4096 attributes")))
	_, err = ParseRegistry(make([]byte, maxRegistry+1))
	g.Expect(err).To(MatchError(ContainSubstring("larger than 4 MiB")))
}

// TestValues: values of other kinds than those of the specification are named.
func TestValues(t *testing.T) {
	g := NewWithT(t)
	var attributes map[string]any
	g.Expect(json.Unmarshal([]byte(`{"A": "x", "B": 8, "C": true, "D": null, "E": {"current_value": "x"}, "F": [1]}`), &attributes)).To(Succeed())
	values, invalid := ValuesOf(attributes)
	g.Expect(invalid).To(Equal([]string{"E", "F"}))
	g.Expect(values).To(Equal(Values{"A": Text("x"), "B": Number(8), "C": Boolean(true), "D": {}}))
	for name, value := range values {
		if attributes[name] != nil { // gomega does not compare nil with nil
			g.Expect(value.JSON()).To(Equal(attributes[name]), name)
		}
		g.Expect(slices.Contains([]string{"x", "8", "true", ""}, value.String())).To(BeTrue())
	}
}
