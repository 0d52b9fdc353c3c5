package settings

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest"
)

// drawn is a server with a registry, and what a profile wishes of it.
type drawn struct {
	registry *Registry
	current  Values
	wishes   []Wish
	pending  Values
}

var drawnNames = []string{"A", "B", "C", "D", "E", "F"}

// drawServer draws a registry of enumerations with dependencies between them, current values, wishes and pending values.
func drawServer(t *rapid.T) drawn {
	name, value := rapid.SampledFrom(drawnNames), rapid.SampledFrom([]string{"0", "1", "2"})
	type object = map[string]any
	var attributes, dependencies []object
	current := Values{}
	for _, n := range drawnNames {
		a := object{
			"AttributeName": n, "Type": "Enumeration", "Value": []object{{"ValueName": "0"}, {"ValueName": "1"}, {"ValueName": "2"}},
			"ReadOnly": rapid.IntRange(0, 5).Draw(t, "read-only") == 0,
		}
		if rapid.Bool().Draw(t, "says whether a reset is required") {
			a["ResetRequired"] = rapid.Bool().Draw(t, "reset")
		}
		attributes = append(attributes, a)
		if rapid.IntRange(0, 9).Draw(t, "reported") > 0 {
			current[n] = Text(value.Draw(t, "current"))
		}
	}
	for range rapid.IntRange(0, 8).Draw(t, "dependencies") {
		var terms []object
		for range rapid.IntRange(1, 3).Draw(t, "terms") {
			terms = append(terms, object{
				"MapFromAttribute": name.Draw(t, "from"), "MapFromProperty": "CurrentValue", "MapFromCondition": rapid.SampledFrom([]string{"EQU", "NEQ"}).Draw(t, "condition"),
				"MapFromValue": value.Draw(t, "from value"), "MapTerms": rapid.SampledFrom([]any{nil, "AND", "OR"}).Draw(t, "operator"),
			})
		}
		property := rapid.SampledFrom([]string{"CurrentValue", "ReadOnly", "Hidden"}).Draw(t, "property")
		to := any(value.Draw(t, "to value"))
		if property != "CurrentValue" {
			to = rapid.Bool().Draw(t, "to flag")
		}
		dependencies = append(dependencies, object{"Type": "Map", "DependencyFor": name.Draw(t, "trigger"), "Dependency": object{
			"MapFrom": terms, "MapToAttribute": name.Draw(t, "to"), "MapToProperty": property, "MapToValue": to,
		}})
	}
	content, err := json.Marshal(object{"RegistryEntries": object{"Attributes": attributes, "Dependencies": dependencies}})
	if err != nil {
		t.Fatal(err)
	}
	d := drawn{current: current, pending: Values{}}
	if d.registry, err = ParseRegistry(content); err != nil {
		t.Fatal(err)
	}
	for range rapid.IntRange(0, 4).Draw(t, "wishes") {
		d.wishes = append(d.wishes, Wish{name.Draw(t, "wish"), rapid.SampledFrom([]string{"0", "1", "2", "3"}).Draw(t, "wished value")})
	}
	for range rapid.IntRange(0, 2).Draw(t, "pending") {
		d.pending[name.Draw(t, "pending name")] = Text(value.Draw(t, "pending value"))
	}
	return d
}

func (d drawn) plan(current, pending Values) Plan {
	return NewPlan(Input{Wishes: d.wishes, Registry: d.registry, Current: current, Pending: pending})
}

// TestPropertyPlan: a plan writes only what differs, only what is wished, and nothing if it is blocked. A server with the result of a plan conforms.
func TestPropertyPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawServer(t)
		before := maps.Clone(d.current)
		plan := d.plan(d.current, d.pending)
		if !reflect.DeepEqual(before, d.current) {
			t.Fatal("a plan changes its input")
		}
		attributes := plan.Attributes()
		if plan.Blocked() && attributes != nil {
			t.Fatalf("a blocked plan writes %v", attributes)
		}
		if (plan.Reboots == 0) != (len(plan.Changes) == 0) && d.needsReset(plan) {
			t.Fatalf("%d restarts for %d changes", plan.Reboots, len(plan.Changes))
		}
		after := maps.Clone(d.current)
		for _, c := range slices.Concat(plan.Implied, plan.Changes) {
			if c.From.same(c.To) || !c.From.same(d.current[c.Name]) {
				t.Fatalf("no difference: %+v", c)
			}
			if c.Because == nil && !slices.Contains(d.wishes, Wish{c.Name, c.To.String()}) {
				t.Fatalf("nobody wished %+v", c)
			}
			after[c.Name] = c.To
		}
		if plan.Blocked() {
			return
		}
		if again := d.plan(after, nil); !again.Conforms() {
			t.Fatalf("after %s the server does not conform: %s", summary(plan), summary(again))
		}
	})
}

// needsReset is true if one of the changes needs a reset.
func (d drawn) needsReset(p Plan) bool {
	return slices.ContainsFunc(p.Changes, func(c Change) bool {
		a := d.registry.Attribute(c.Name)
		return a.ResetRequired == nil || *a.ResetRequired
	})
}

// TestPropertyOrder: the order of the wishes does not matter.
func TestPropertyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawServer(t)
		one := d.plan(d.current, d.pending)
		slices.Reverse(d.wishes)
		if other := d.plan(d.current, d.pending); !reflect.DeepEqual(one, other) {
			t.Fatalf("%s, and the other way round %s", summary(one), summary(other))
		}
	})
}

// TestPropertyStaged: after the changes were staged, the plan is the same, and nothing counts as a value of others.
func TestPropertyStaged(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawServer(t)
		plan := d.plan(d.current, nil)
		if plan.Blocked() {
			return
		}
		staged := Values{}
		for _, c := range slices.Concat(plan.Changes, plan.Implied) {
			staged[c.Name] = c.To
		}
		again := d.plan(d.current, staged)
		if again.Blocked() || !reflect.DeepEqual(plan.Attributes(), again.Attributes()) || again.Reboots != plan.Reboots {
			t.Fatalf("%s, and staged %s", summary(plan), summary(again))
		}
		for _, c := range again.Changes {
			if !c.Pending {
				t.Fatalf("%s is staged", c.Name)
			}
		}
	})
}

// TestPropertyFromHost: the plan of a profile from a host has no difference for that host.
func TestPropertyFromHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawServer(t)
		d.wishes = FromHost(d.registry, d.current, rapid.Bool().Draw(t, "all"))
		if plan := d.plan(d.current, nil); !plan.Conforms() {
			t.Fatal(summary(plan))
		}
	})
}

// FuzzParseRegistry: any answer of a BMC is read without a panic, and a plan with it ends.
func FuzzParseRegistry(f *testing.F) {
	f.Add([]byte(registryJSON), "Sriov", "Enabled")
	f.Add([]byte(`{"RegistryEntries":{"Attributes":[{"AttributeName":"A","ValueExpression":"(((("}]}}`), "A", "x")
	f.Add([]byte(`{"RegistryEntries":{"Attributes":[{"AttributeName":"A"},{"AttributeName":"B"}],"Dependencies":[
		{"Type":"Map","DependencyFor":"A","Dependency":{"MapFrom":[{"MapFromAttribute":"A","MapFromProperty":"CurrentValue","MapFromCondition":"EQU","MapFromValue":"x"}],"MapToAttribute":"B","MapToProperty":"CurrentValue","MapToValue":"y"}},
		{"Type":"Map","DependencyFor":"B","Dependency":{"MapFrom":[{"MapFromAttribute":"B","MapFromProperty":"CurrentValue","MapFromCondition":"EQU","MapFromValue":"y"}],"MapToAttribute":"A","MapToProperty":"CurrentValue","MapToValue":"z"}}]}}`), "A", "x")
	f.Add([]byte(`null`), "", "")
	f.Fuzz(func(t *testing.T, content []byte, name, value string) {
		r, err := ParseRegistry(content)
		if err != nil {
			return
		}
		current := Values{name: Text("0")}
		for _, n := range r.Names() {
			current[n] = Text(strconv.Itoa(len(n) % 3))
		}
		plan := NewPlan(Input{Wishes: []Wish{{name, value}, {"A", "1"}}, Registry: r, Current: current, Pending: Values{"B": Text("1")}})
		if plan.Blocked() && plan.Attributes() != nil {
			t.Error("a blocked plan writes")
		}
		_ = FromHost(r, current, true)
	})
}
