package settings

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Reason is why a wish is refused.
type Reason string

// The reasons.
const (
	// ReasonDuplicate means that two wishes name one attribute with different values.
	ReasonDuplicate Reason = "Duplicate"
	// ReasonProtected means that the attribute is about Secure Boot, the boot mode or the boot order, or that the wish would change such an attribute.
	ReasonProtected Reason = "Protected"
	// ReasonUnknown means that the BMC does not know the attribute.
	ReasonUnknown Reason = "Unknown"
	// ReasonPassword means that the attribute is a password, or is made from one. The refusal does not have the value.
	ReasonPassword Reason = "Password"
	// ReasonNotReported means that the BMC shows no value of the attribute, so that nothing could prove a change.
	ReasonNotReported Reason = "NotReported"
	// ReasonWrongType means that the value is not one of the attribute's type.
	ReasonWrongType Reason = "WrongType"
	// ReasonNotAllowed means that the value is not one of the enumeration, is out of bounds or does not match the pattern.
	ReasonNotAllowed Reason = "NotAllowed"
	// ReasonReadOnly means that the attribute cannot be changed.
	ReasonReadOnly Reason = "ReadOnly"
	// ReasonDependsOn means that the attribute cannot be changed while another one has the value that it has, or will have.
	ReasonDependsOn Reason = "DependsOn"
	// ReasonContradicts means that another wish gives the attribute another value.
	ReasonContradicts Reason = "Contradicts"
	// ReasonSecureBoot means that Secure Boot cannot, or must not, be changed.
	ReasonSecureBoot Reason = "SecureBoot"
)

// Refusal is a wish that cannot be fulfilled. Nothing is written while a plan has one.
type Refusal struct {
	// Name is the attribute, and Value the wished value. Both are empty for Secure Boot.
	Name, Value string
	Reason      Reason
	// Message says why, with the remedy.
	Message string
	// Nearest is the name or the value that may be meant; empty without one.
	Nearest string
	// Related are the other attributes that the refusal is about.
	Related []string
}

// maxNearest is for how many refusals the nearest name is searched. A registry has up to thousands of names.
const maxNearest = 20

// check checks a wish alone: everything but what other attributes have to do with it. It returns the value in the kind that the BMC takes.
func (p *planner) check(w Wish) (Value, *Refusal) {
	refuse := func(reason Reason, format string, args ...any) (Value, *Refusal) {
		return Value{}, &Refusal{Name: w.Name, Value: w.Value, Reason: reason, Message: fmt.Sprintf(format, args...)}
	}
	if remedy := protection(w.Name); remedy != "" {
		return refuse(ReasonProtected, "%s %s", w.Name, remedy)
	}
	attribute, current, reported := p.Registry.Attribute(w.Name), p.Current[w.Name], has(p.Current, w.Name)
	switch {
	case p.Registry != nil && attribute == nil, p.Registry == nil && !reported:
		return Value{}, p.unknown(w)
	case isSecret(w.Name, attribute):
		return Value{}, &Refusal{Name: w.Name, Reason: ReasonPassword, Message: w.Name + " is a password, or belongs to one, which a profile does not set"}
	case !reported:
		return refuse(ReasonNotReported, "The attribute registry has %s, and this server does not: it may belong to a component that is not installed, or appear after "+
			"another change. Remove it from the profile of this server", w.Name)
	case current.Null():
		return refuse(ReasonNotReported, "The BMC shows no value of %s, so nothing could prove the change. Remove it from the profile", w.Name)
	case attribute == nil:
		return checkKind(w, current.kind)
	}
	value, refusal := p.checkType(w, attribute)
	if refusal != nil {
		return Value{}, refusal
	}
	if converted, ok := value.as(current.kind); ok { // some BMCs write integers as texts
		return converted, nil
	}
	return value, nil
}

// unknown refuses a name that the BMC does not know.
func (p *planner) unknown(w Wish) *Refusal {
	source, names := "among the attributes of the BMC, which has no attribute registry", p.Current.Names()
	if p.Registry != nil {
		source, names = "in the attribute registry "+p.Registry.ID, p.Registry.Names()
	}
	r := &Refusal{Name: w.Name, Value: w.Value, Reason: ReasonUnknown, Message: fmt.Sprintf("%q is not %s", w.Name, strings.TrimSpace(source))}
	if p.searches++; p.searches <= maxNearest {
		r.Nearest = Nearest(w.Name, names)
	}
	if r.Nearest != "" {
		r.Message += fmt.Sprintf(". Did you mean %s?", r.Nearest)
	} else {
		r.Message += ". bmcctl profile lists the attributes of a server"
	}
	return r
}

// checkType checks a value by the type of its attribute.
func (p *planner) checkType(w Wish, a *Attribute) (Value, *Refusal) {
	switch a.Type {
	case TypeEnumeration:
		return Text(w.Value), p.checkEnumeration(w, a)
	case TypeInteger:
		value, refusal := checkKind(w, KindNumber)
		if refusal == nil {
			refusal = checkInteger(w, a, value)
		}
		return value, refusal
	case TypeBoolean:
		return checkKind(w, KindBoolean)
	case TypeString:
		return Text(w.Value), checkString(w, a)
	case TypePassword:
	}
	return Text(w.Value), nil // a type that the specification does not have is the BMC's to judge
}

// checkKind converts a value to a kind.
func checkKind(w Wish, kind Kind) (Value, *Refusal) {
	wrong := func(what string) (Value, *Refusal) {
		return Value{}, &Refusal{Name: w.Name, Value: w.Value, Reason: ReasonWrongType, Message: fmt.Sprintf("%s must be %s, and is %q", w.Name, what, w.Value)}
	}
	switch kind {
	case KindNumber:
		if value, ok := Text(w.Value).as(KindNumber); ok {
			return value, nil
		}
		return wrong("a number")
	case KindBoolean:
		if strings.EqualFold(w.Value, "true") || strings.EqualFold(w.Value, "false") {
			return Boolean(strings.EqualFold(w.Value, "true")), nil
		}
		return wrong("true or false")
	case KindText, KindNull:
	}
	return Text(w.Value), nil
}

func notAllowed(w Wish, format string, args ...any) *Refusal {
	return &Refusal{Name: w.Name, Value: w.Value, Reason: ReasonNotAllowed, Message: w.Name + " " + fmt.Sprintf(format, args...)}
}

// maxListedValues is how many values of an enumeration a message lists.
const maxListedValues = 12

func (p *planner) checkEnumeration(w Wish, a *Attribute) *Refusal {
	values := a.Values
	if p.displayed {
		values = a.DisplayNames
	}
	if len(values) == 0 || slices.Contains(values, w.Value) {
		return nil
	}
	listed := strings.Join(values[:min(len(values), maxListedValues)], ", ")
	if more := len(values) - maxListedValues; more > 0 {
		listed += fmt.Sprintf(" or one of %d more", more)
	}
	r := notAllowed(w, "has no value %q: it is one of %s", w.Value, listed)
	if r.Nearest = Nearest(w.Value, values); r.Nearest != "" {
		r.Message += fmt.Sprintf(". Did you mean %s?", r.Nearest)
	}
	return r
}

func checkInteger(w Wish, a *Attribute, value Value) *Refusal {
	n, _ := value.JSON().(float64) // it is a number
	switch {
	case n != float64(int64(n)):
		return notAllowed(w, "must be an integer, and is %s", value)
	case a.Lower != nil && n < *a.Lower, a.Upper != nil && n > *a.Upper:
		return notAllowed(w, "must be from %s to %s, and is %s", bound(a.Lower), bound(a.Upper), value)
	default:
		return nil
	}
}

// bound formats a bound.
func bound(n *float64) string {
	if n == nil {
		return "any value"
	}
	return strconv.FormatFloat(*n, 'f', -1, 64)
}

func checkString(w Wish, a *Attribute) *Refusal {
	length := float64(utf8.RuneCountInString(w.Value))
	if a.MinLength != nil && length < *a.MinLength || a.MaxLength != nil && *a.MaxLength > 0 && length > *a.MaxLength {
		return notAllowed(w, "must have from %s to %s characters, and has %s", bound(a.MinLength), bound(a.MaxLength), bound(&length))
	}
	// An expression that Go does not have, such as a look-ahead of Perl, is the BMC's to judge.
	if pattern, err := regexp.Compile(a.Pattern); a.Pattern != "" && err == nil && !pattern.MatchString(w.Value) {
		return notAllowed(w, "must match %s, and is %q", a.Pattern, w.Value)
	}
	return nil
}
