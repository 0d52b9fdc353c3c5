package settings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Wish is the wished value of an attribute, as a text: "true", "8", "Enabled".
type Wish struct{ Name, Value string }

// Input is what a plan is made from.
type Input struct {
	Wishes []Wish
	// Registry is the attribute registry of the BMC; nil without one. Then the current attributes are the registry: their names and their kinds.
	Registry *Registry
	// Current are the values of the Bios resource, and Pending those that are staged for the next reset.
	Current, Pending Values
	// SecureBoot is what is wished and known of Secure Boot.
	SecureBoot SecureBootInput
}

// Change is a change of an attribute.
type Change struct {
	Name     string
	From, To Value
	// Pending is true if the value is staged already.
	Pending bool
	// Because are the attributes whose values imply the change; nil for a wish.
	Because []string
}

// Plan is what has to be done so that a server has the wished settings.
type Plan struct {
	// Changes are the wishes that differ from the current values, by name.
	Changes []Change
	// Implied are the changes that follow from them by the dependencies of the registry, by name. They are not written.
	Implied []Change
	// SecureBoot is the change of Secure Boot; nil without one.
	SecureBoot *SecureBootChange
	// Refusals are all wishes that cannot be fulfilled, by name.
	Refusals []Refusal
	// Foreign are the pending values that are not wished, by name. The next reset would apply them too. Passwords have no value in it.
	Foreign []Change
	// Reboots is how many restarts of the server the changes need: 0 or 1.
	Reboots int
	// Notes are what a user should know of the plan.
	Notes []string
}

// Blocked is true for a plan that must not be carried out: a wish is refused, or values are pending that are not wished.
func (p *Plan) Blocked() bool { return len(p.Refusals) > 0 || len(p.Foreign) > 0 }

// Conforms is true if the server has the wished settings, and nothing is pending.
func (p *Plan) Conforms() bool { return !p.Blocked() && len(p.Changes) == 0 && p.SecureBoot == nil }

// Attributes returns the attributes to write, as JSON; nil for a plan that must not be carried out. Values that are pending already are among them: the driver
// writes only what the settings object does not have.
func (p *Plan) Attributes() map[string]any {
	if p.Blocked() || len(p.Changes) == 0 {
		return nil
	}
	attributes := map[string]any{}
	for _, c := range p.Changes {
		attributes[c.Name] = c.To.JSON()
	}
	return attributes
}

// planner makes a plan.
type planner struct {
	Input

	plan     Plan
	wished   Values
	searches int // of the nearest name
	// displayed is true for a BMC that has the display names of an enumeration for values.
	displayed bool
}

func newPlanner(in Input) *planner {
	return &planner{Input: in, wished: Values{}, displayed: in.Registry.showsDisplayNames(in.Current)}
}

// NewPlan returns the plan for a server. It reports all faults at once.
func NewPlan(in Input) Plan {
	p := newPlanner(in)
	p.checkAll()
	effects := p.Registry.evaluate(p.Current, p.wished)
	p.compare(effects)
	p.protectImplied(effects)
	p.findForeign(effects)
	p.planSecureBoot()
	p.countReboots()
	if p.Registry == nil {
		p.notef("The BMC has no attribute registry: only the names and the types of the wishes are checked, against the current values")
	} else if p.Registry.Ignored > 0 {
		p.notef("%d entries of the attribute registry cannot be read", p.Registry.Ignored)
	}
	slices.SortFunc(p.plan.Refusals, func(a, b Refusal) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
	})
	return p.plan
}

func (p *planner) notef(format string, args ...any) {
	p.plan.Notes = append(p.plan.Notes, fmt.Sprintf(format, args...))
}

// checkAll checks each wish alone.
func (p *planner) checkAll() {
	wishes := slices.Clone(p.Wishes)
	slices.SortFunc(wishes, func(a, b Wish) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Value, b.Value)) })
	wishes = slices.Compact(wishes)
	for i, w := range wishes {
		if i > 0 && wishes[i-1].Name == w.Name {
			p.refuse(&Refusal{Name: w.Name, Value: w.Value, Reason: ReasonDuplicate, Message: fmt.Sprintf("%s is wished to be %q and %q", w.Name, wishes[i-1].Value, w.Value)})
			continue
		}
		value, refusal := p.check(w)
		if refusal != nil {
			p.refuse(refusal)
			continue
		}
		p.wished[w.Name] = value
	}
}

func (p *planner) refuse(r *Refusal) { p.plan.Refusals = append(p.plan.Refusals, *r) }

// compare finds what differs, and what other attributes forbid.
func (p *planner) compare(e effects) {
	for _, name := range p.wished.Names() {
		change := Change{Name: name, From: p.Current[name], To: p.wished[name]}
		pending, staged := p.Pending[name]
		change.Pending = staged && pending.same(change.To)
		if because := e.contradicted[name]; because != nil {
			p.refuse(&Refusal{
				Name: name, Value: change.To.String(), Reason: ReasonContradicts, Related: because,
				Message: fmt.Sprintf("%s would become %s, because it depends on %s. Wish that, or remove one of the two", name, e.insteadOf[name], describe(because, e.after)),
			})
			continue
		}
		if change.From.same(change.To) {
			continue // never written: some BMCs make a job and a restart of it (ironcore-dev/metal-operator#81)
		}
		refusal := p.forbidden(change, e)
		switch {
		case refusal != nil && e.carried[name] != nil:
			change.Because = e.carried[name]
			p.plan.Implied = append(p.plan.Implied, change)
		case refusal != nil:
			p.refuse(refusal)
		default:
			p.plan.Changes = append(p.plan.Changes, change)
		}
	}
	p.plan.Implied = append(p.plan.Implied, p.impliedByAccepted(e)...)
	slices.SortFunc(p.plan.Implied, func(a, b Change) int { return cmp.Compare(a.Name, b.Name) })
}

// impliedByAccepted returns the implied changes, without those that only refused wishes imply: they would not come.
func (p *planner) impliedByAccepted(e effects) []Change {
	accepted := maps.Clone(p.wished)
	for _, r := range p.plan.Refusals {
		delete(accepted, r.Name)
	}
	if len(accepted) == len(p.wished) {
		return e.implied
	}
	return slices.DeleteFunc(p.Registry.evaluate(p.Current, accepted).implied, func(c Change) bool { return has(p.wished, c.Name) })
}

// forbidden refuses the change of an attribute that is read-only, immutable or hidden. GrayOut does not forbid a change (DSP0268).
func (p *planner) forbidden(c Change, e effects) *Refusal {
	a := p.Registry.Attribute(c.Name)
	if a == nil {
		return nil
	}
	for _, f := range []struct{ property, what string }{
		{propertyImmutable, "cannot be changed: it reflects the hardware"}, {propertyReadOnly, "is read-only"}, {propertyHidden, "is hidden"},
	} {
		set, because := p.Registry.flag(a, f.property, p.Current, e.after)
		if !set {
			continue
		}
		r := &Refusal{Name: c.Name, Value: c.To.String(), Reason: ReasonReadOnly, Message: fmt.Sprintf("%s %s. Remove it from the profile", c.Name, f.what)}
		if because != nil {
			r.Reason, r.Related = ReasonDependsOn, because
			r.Message = fmt.Sprintf("%s %s, because it depends on %s. Change that, or remove %s from the profile", c.Name, f.what, describe(because, e.after), c.Name)
		}
		return r
	}
	return nil
}

// describe lists attributes with their values.
func describe(names []string, values Values) string {
	parts := make([]string, 0, len(names))
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s (%s)", name, cmp.Or(values[name].String(), "no value")))
	}
	return strings.Join(parts, ", ")
}

// protectImplied refuses wishes that would change a protected attribute.
func (p *planner) protectImplied(e effects) {
	for _, c := range e.implied {
		if remedy := protection(c.Name); remedy != "" {
			name := strings.Join(c.Because, ", ")
			p.refuse(&Refusal{
				Name: name, Value: describe(c.Because, e.after), Reason: ReasonProtected, Related: []string{c.Name},
				Message: fmt.Sprintf("%s would change %s from %s to %s, which %s", name, c.Name, c.From, c.To, remedy),
			})
		}
	}
}

// findForeign finds the pending values that are not wished. A BMC that follows its registry stages the implied changes itself.
func (p *planner) findForeign(e effects) {
	for _, name := range p.Pending.Names() {
		pending, current := p.Pending[name], p.Current[name]
		if pending.Null() || pending.same(current) {
			continue
		}
		expected := has(p.wished, name) || slices.ContainsFunc(e.implied, func(c Change) bool { return c.Name == name })
		if !expected || !pending.same(e.after[name]) {
			if isSecret(name, p.Registry.Attribute(name)) {
				current, pending = Value{}, Value{}
			}
			p.plan.Foreign = append(p.plan.Foreign, Change{Name: name, From: current, To: pending, Pending: true})
		}
	}
}

// countReboots counts the restarts. All changes share one. A change needs none only if the registry says so.
func (p *planner) countReboots() {
	if p.plan.SecureBoot != nil || slices.ContainsFunc(p.plan.Changes, func(c Change) bool {
		a := p.Registry.Attribute(c.Name)
		return a == nil || a.ResetRequired == nil || *a.ResetRequired
	}) {
		p.plan.Reboots = 1
	}
}
