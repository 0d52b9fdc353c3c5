package settings

import (
	"regexp"
)

// maxProfileValue is the maximum length of a value in a profile, in bytes.
const maxProfileValue = 256

// perServer matches attributes that differ between servers, although their registry does not say so (IsSystemUniqueProperty). A person reads a profile before it
// is used: what is missing here costs a line to delete.
var perServer = regexp.MustCompile(`(?i)asset|serial_?num|servicetag|uuid|mac_?addr|ip_?addr|initiator|chap|secret|host_?name|server_?name|server_?text|password`)

// FromHost returns the settings of a good host as wishes, sorted by name, for a profile: the attributes that a profile can change. Without all, it leaves out those
// with their default value, if the registry has default values. A plan of these wishes for the same host has no difference.
func FromHost(r *Registry, current Values, all bool) []Wish {
	p := newPlanner(Input{Registry: r, Current: current})
	var wishes []Wish
	for _, name := range current.Names() {
		value, attribute := current[name], r.Attribute(name)
		w := Wish{Name: name, Value: value.String()}
		if len(w.Value) > maxProfileValue || perServer.MatchString(name) || !p.changeable(attribute, current) {
			continue
		}
		if checked, refusal := p.check(w); refusal != nil || !checked.same(value) {
			continue
		}
		if byDefault := attribute != nil && !attribute.Default.Null() && attribute.Default.same(value); all || !byDefault {
			wishes = append(wishes, w)
		}
	}
	return wishes
}

// changeable is false for an attribute that is read-only, hidden or immutable now, that has no value of its own, or whose value belongs to one server.
func (p *planner) changeable(a *Attribute, current Values) bool {
	if a == nil {
		return p.Registry == nil
	}
	if a.WriteOnly || a.Unique {
		return false
	}
	for _, property := range []string{propertyReadOnly, propertyHidden, propertyImmutable} {
		if set, _ := p.Registry.flag(a, property, current, current); set {
			return false
		}
	}
	return true
}
