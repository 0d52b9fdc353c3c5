package settings

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// The properties of an attribute that a dependency can change and that matter here (DSP0268, AttributeRegistry, MapToProperty).
const (
	propertyValue     = "CurrentValue"
	propertyReadOnly  = "ReadOnly"
	propertyHidden    = "Hidden"
	propertyImmutable = "Immutable"
)

// dependency is a dependency of the type Map: if its terms hold, the property of the target gets the value.
type dependency struct {
	// trigger is the attribute whose change triggers the evaluation (DependencyFor).
	trigger          string
	terms            []term
	target, property string
	value            Value
}

// term is a condition of a dependency.
type term struct {
	attribute, property, condition string
	value                          Value
	// joins is the operator of the term: AND, OR or empty.
	joins string
}

type rawDependency struct {
	Type          any `json:"Type"`
	DependencyFor any `json:"DependencyFor"`
	Dependency    struct {
		MapFrom        []rawTerm `json:"MapFrom"`
		MapToAttribute any       `json:"MapToAttribute"`
		MapToProperty  any       `json:"MapToProperty"`
		MapToValue     any       `json:"MapToValue"`
	} `json:"Dependency"`
}

type rawTerm struct {
	MapFromAttribute any `json:"MapFromAttribute"`
	MapFromProperty  any `json:"MapFromProperty"`
	MapFromCondition any `json:"MapFromCondition"`
	MapFromValue     any `json:"MapFromValue"`
	MapTerms         any `json:"MapTerms"`
}

func (r *Registry) addDependency(entry json.RawMessage) {
	var raw rawDependency
	if json.Unmarshal(entry, &raw) != nil || len(raw.Dependency.MapFrom) == 0 || len(raw.Dependency.MapFrom) > maxTerms {
		r.Ignored++
		return
	}
	d := dependency{trigger: textOf(raw.DependencyFor), target: textOf(raw.Dependency.MapToAttribute), property: textOf(raw.Dependency.MapToProperty)}
	d.value, _ = ValueOf(raw.Dependency.MapToValue) // a list changes nothing, like null
	for _, t := range raw.Dependency.MapFrom {
		value, _ := ValueOf(t.MapFromValue) // a list is unknown, like null
		d.terms = append(d.terms, term{
			attribute: textOf(t.MapFromAttribute), property: textOf(t.MapFromProperty), condition: textOf(t.MapFromCondition), value: value,
			joins: textOf(t.MapTerms),
		})
	}
	if d.target == "" || textOf(raw.Type) != "Map" {
		r.Ignored++
		return
	}
	switch d.property {
	case propertyValue, propertyReadOnly, propertyHidden, propertyImmutable:
		r.byTarget[d.target] = append(r.byTarget[d.target], len(r.dependencies))
		r.dependencies = append(r.dependencies, d)
	default: // GrayOut does not forbid a change (DSP0268), texts and bounds of other attributes are the BMC's to judge
	}
}

// truth is the result of a condition. A condition about an attribute without a value is unknown.
type truth int8

const (
	isUnknown truth = iota
	isNo
	isYes
)

func truthOf(b bool) truth {
	if b {
		return isYes
	}
	return isNo
}

// holds evaluates the dependency from left to right (DSP0268, MapTerms).
func (d *dependency) holds(values Values) truth {
	result := d.terms[0].holds(values)
	for i := range d.terms[1:] {
		next := d.terms[i+1].holds(values)
		switch d.operator(i) {
		case "AND":
			result = and(result, next)
		case "OR":
			result = or(result, next)
		default:
			return isUnknown
		}
	}
	return result
}

// operator returns the operator between the terms i and i+1. A registry without operators means OR: those of iDRAC 9 list the values of one attribute in
// several terms, and their flags are only right that way. The operator stands at the second of two terms (HPE, Supermicro), or at the first (Lenovo). Others,
// such as Supermicro's "OR,AND", are unknown.
func (d *dependency) operator(i int) string {
	if !slices.ContainsFunc(d.terms, func(t term) bool { return t.joins != "" }) {
		return "OR"
	}
	if d.terms[0].joins != "" {
		return d.terms[i].joins
	}
	return d.terms[i+1].joins
}

func and(a, b truth) truth {
	switch {
	case a == isNo || b == isNo:
		return isNo
	case a == isYes && b == isYes:
		return isYes
	default:
		return isUnknown
	}
}

func or(a, b truth) truth {
	switch {
	case a == isYes || b == isYes:
		return isYes
	case a == isNo && b == isNo:
		return isNo
	default:
		return isUnknown
	}
}

// holds compares the current value of the term's attribute.
func (t term) holds(values Values) truth {
	value, known := values[t.attribute]
	if !known || value.Null() || t.value.Null() || t.property != propertyValue {
		return isUnknown
	}
	switch t.condition {
	case "EQU":
		return truthOf(value.same(t.value))
	case "NEQ":
		return truthOf(!value.same(t.value))
	}
	a, err := strconv.ParseFloat(value.text, 64)
	b, err2 := strconv.ParseFloat(t.value.text, 64)
	if err != nil || err2 != nil {
		return isUnknown
	}
	switch t.condition {
	case "GTR":
		return truthOf(a > b)
	case "GEQ":
		return truthOf(a >= b)
	case "LSS":
		return truthOf(a < b)
	case "LEQ":
		return truthOf(a <= b)
	default:
		return isUnknown
	}
}

// attributes returns the attributes that the terms are about, sorted.
func (d *dependency) attributes() []string {
	var names []string
	for _, t := range d.terms {
		names = append(names, t.attribute)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// depends is true if one of the attributes has changed.
func (d *dependency) depends(changed map[string]bool) bool {
	return changed[d.trigger] || slices.ContainsFunc(d.terms, func(t term) bool { return changed[t.attribute] })
}

// flag returns whether a flag of an attribute is set when the attributes have the values after, and the attributes that set it, if a dependency does.
//
// A registry has the current state of a flag (Dell, Supermicro), or its default (HPE). A flag that a dependency sets with the current values is the current
// state: only dependencies decide about it. Any other flag stays.
func (r *Registry) flag(a *Attribute, property string, current, after Values) (bool, []string) {
	set, explained := map[string]bool{propertyReadOnly: a.ReadOnly, propertyHidden: a.Hidden, propertyImmutable: a.Immutable}[property], false
	var decisive *dependency
	for _, i := range r.byTarget[a.Name] {
		d := &r.dependencies[i]
		if d.property != property {
			continue
		}
		if d.holds(after) == isYes {
			decisive = d // the last one wins
		}
		explained = explained || isTrue(d.value.JSON()) && d.holds(current) == isYes
	}
	switch {
	case decisive != nil:
		return isTrue(decisive.value.JSON()), decisive.attributes()
	case set && explained:
		return false, nil
	default:
		return set, nil
	}
}

// maxRounds limits how far implied changes lead to further ones.
const maxRounds = 8

// effects are what the dependencies of the registry make of wished values.
type effects struct {
	// after are the values after the change, if the BMC follows its registry.
	after Values
	// implied are the changes that nobody wished.
	implied []Change
	// carried are the wishes that a dependency fulfils, and contradicted those that it contradicts, each with the attributes that it depends on.
	carried, contradicted map[string][]string
	// insteadOf are the values that contradicted attributes would get.
	insteadOf Values
}

// evaluate returns the effects of wished values. A dependency between values acts when one of its attributes changes (DSP0268, DependencyFor): a value that was
// set afterwards stays. Of two dependencies that imply different values the first counts, so this ends.
func (r *Registry) evaluate(current, wished Values) effects {
	e := effects{after: maps.Clone(current), carried: map[string][]string{}, contradicted: map[string][]string{}, insteadOf: Values{}}
	if e.after == nil {
		e.after = Values{}
	}
	maps.Copy(e.after, wished)
	if r == nil {
		return e
	}
	changed := map[string]bool{}
	for name, value := range wished {
		changed[name] = current[name] != value
	}
	for range maxRounds {
		progress := false
		for i := range r.dependencies {
			d := &r.dependencies[i]
			if value, ok := d.mapped(current, e.after, changed); ok && !has(wished, d.target) && !changed[d.target] && e.after[d.target] != value {
				e.after[d.target], changed[d.target], progress = value, true, true
				e.implied = append(e.implied, Change{Name: d.target, From: current[d.target], To: value, Because: d.attributes()})
			}
		}
		if !progress {
			break
		}
	}
	e.judgeWishes(r, current, wished, changed)
	slices.SortFunc(e.implied, func(a, b Change) int { return cmp.Compare(a.Name, b.Name) })
	return e
}

// judgeWishes finds the wishes that dependencies fulfil or contradict.
func (e *effects) judgeWishes(r *Registry, current, wished Values, changed map[string]bool) {
	for i := range r.dependencies {
		d := &r.dependencies[i]
		want, ok := wished[d.target]
		value, acts := d.mapped(current, e.after, changed)
		switch {
		case !ok || !acts:
		case want == value:
			e.carried[d.target] = d.attributes()
		default:
			e.contradicted[d.target], e.insteadOf[d.target] = d.attributes(), value
		}
	}
}

// mapped returns the value that the dependency gives its target, in the kind of the target; false if it does not act.
func (d *dependency) mapped(current, after Values, changed map[string]bool) (Value, bool) {
	before, reported := current[d.target]
	if d.property != propertyValue || !reported || d.value.Null() || !d.depends(changed) || d.holds(after) != isYes {
		return Value{}, false
	}
	return d.value.as(before.kind)
}

func has(values Values, name string) bool {
	_, ok := values[name]
	return ok
}
