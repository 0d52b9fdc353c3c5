package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// AttributeType is the type of an attribute in its registry (DSP0268, AttributeRegistry).
type AttributeType string

// The types of attributes.
const (
	TypeEnumeration AttributeType = "Enumeration"
	TypeString      AttributeType = "String"
	TypeInteger     AttributeType = "Integer"
	TypeBoolean     AttributeType = "Boolean"
	TypePassword    AttributeType = "Password"
)

// Attribute is what a registry says about an attribute.
type Attribute struct {
	Name string
	Type AttributeType
	// Values are the value names of an Enumeration, and DisplayNames their names for people, in the same order. A value without one has its value name.
	Values, DisplayNames []string
	// Lower and Upper limit an Integer; nil for no limit. ScalarIncrement is the step of a user interface, and no limit.
	Lower, Upper *float64
	// MinLength and MaxLength limit a String, in characters; nil for no limit.
	MinLength, MaxLength *float64
	// Pattern is the regular expression that a value must match, in the dialect of Perl; empty for none.
	Pattern string
	// Default is the default value; null if the registry does not have it.
	Default Value
	// ReadOnly, Hidden and Immutable are the flags of the same names. Some BMCs write the current state into them, others a default.
	ReadOnly, Hidden, Immutable bool
	// WriteOnly is true for an attribute that returns to its initial value after it was applied. Unique is true for a value that each system has of its own.
	WriteOnly, Unique bool
	// ResetRequired is whether a change needs a reset; nil if the registry does not say so.
	ResetRequired *bool
}

// Registry is the attribute registry of a BIOS (DSP0268, AttributeRegistry).
type Registry struct {
	// ID is the registry's own Id, and Language its language.
	ID, Language string
	// Ignored counts the entries that cannot be read.
	Ignored int

	attributes map[string]*Attribute
	// dependencies are those of type Map, in the order of the registry.
	dependencies []dependency
	// byTarget are the indexes of the dependencies of each attribute's flags.
	byTarget map[string][]int
}

// Bounds of a registry, because BMCs are not trusted. The largest recorded one has 0.7 MiB, 682 attributes and 754 dependencies.
const (
	maxRegistry     = 4 << 20
	maxAttributes   = 4096
	maxDependencies = 8192
	maxEnumeration  = 512
	maxTerms        = 32
	maxText         = 1024
)

// rawRegistry, rawAttribute and rawDependency have values of any type: a wrong one counts as missing. encoding/json finds names without regard to case.
type rawRegistry struct {
	ID              any `json:"Id"`
	Language        any `json:"Language"`
	RegistryEntries struct {
		Attributes   []json.RawMessage `json:"Attributes"`
		Dependencies []json.RawMessage `json:"Dependencies"`
	} `json:"RegistryEntries"`
}

type rawAttribute struct {
	AttributeName          any `json:"AttributeName"`
	Type                   any `json:"Type"`
	Value                  any `json:"Value"`
	DefaultValue           any `json:"DefaultValue"`
	LowerBound             any `json:"LowerBound"`
	UpperBound             any `json:"UpperBound"`
	MinLength              any `json:"MinLength"`
	MaxLength              any `json:"MaxLength"`
	ValueExpression        any `json:"ValueExpression"`
	ReadOnly               any `json:"ReadOnly"`
	Hidden                 any `json:"Hidden"`
	Immutable              any `json:"Immutable"`
	WriteOnly              any `json:"WriteOnly"`
	IsSystemUniqueProperty any `json:"IsSystemUniqueProperty"`
	ResetRequired          any `json:"ResetRequired"`
}

// errNoAttributes means that an answer is no attribute registry.
var errNoAttributes = errors.New("the attribute registry has no attributes")

// ParseRegistry reads an attribute registry (DSP0268, AttributeRegistry) as the BMC sent it. An entry that cannot be read is left out and counted. Of two
// attributes with one name the first counts. The error is about the whole registry: it is no JSON, it is too large, or it has no attributes.
func ParseRegistry(content []byte) (*Registry, error) {
	if len(content) > maxRegistry {
		return nil, fmt.Errorf("the attribute registry is larger than %d MiB", maxRegistry>>20)
	}
	var raw rawRegistry
	if err := json.Unmarshal(content, &raw); err != nil {
		return nil, fmt.Errorf("read the attribute registry: %w", err)
	}
	entries := raw.RegistryEntries
	if len(entries.Attributes) > maxAttributes || len(entries.Dependencies) > maxDependencies {
		return nil, fmt.Errorf("the attribute registry has more than %d attributes or %d dependencies", maxAttributes, maxDependencies)
	}
	r := &Registry{ID: textOf(raw.ID), Language: textOf(raw.Language), attributes: map[string]*Attribute{}, byTarget: map[string][]int{}}
	for _, entry := range entries.Attributes {
		r.addAttribute(entry)
	}
	if len(r.attributes) == 0 {
		return nil, errNoAttributes
	}
	for _, entry := range entries.Dependencies {
		r.addDependency(entry)
	}
	return r, nil
}

func (r *Registry) addAttribute(entry json.RawMessage) {
	var raw rawAttribute
	if json.Unmarshal(entry, &raw) != nil {
		r.Ignored++
		return
	}
	a := &Attribute{
		Name: textOf(raw.AttributeName), Type: AttributeType(textOf(raw.Type)), Pattern: textOf(raw.ValueExpression),
		Lower: numberOf(raw.LowerBound), Upper: numberOf(raw.UpperBound),
		MinLength: numberOf(raw.MinLength), MaxLength: numberOf(raw.MaxLength),
		ReadOnly: isTrue(raw.ReadOnly), Hidden: isTrue(raw.Hidden), Immutable: isTrue(raw.Immutable), WriteOnly: isTrue(raw.WriteOnly),
		Unique: isTrue(raw.IsSystemUniqueProperty),
	}
	a.Values, a.DisplayNames = valueNames(raw.Value)
	a.Default, _ = ValueOf(raw.DefaultValue) // a list is no default
	if reset, ok := raw.ResetRequired.(bool); ok {
		a.ResetRequired = &reset
	}
	if a.Lower != nil && a.Upper != nil && *a.Upper < *a.Lower {
		a.Upper = nil // NVIDIA GH200: from 0 to -1, which is the largest integer of 64 bits without a sign
	}
	if a.Name == "" {
		r.Ignored++
		return
	}
	if r.attributes[a.Name] == nil {
		r.attributes[a.Name] = a
	}
}

// Attribute returns what the registry says about an attribute; nil if it does not have it.
func (r *Registry) Attribute(name string) *Attribute {
	if r == nil {
		return nil
	}
	return r.attributes[name]
}

// Names returns the names of the attributes, sorted.
func (r *Registry) Names() []string {
	if r == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(r.attributes))
}

// Dependencies counts the dependencies that can be evaluated.
func (r *Registry) Dependencies() int {
	if r == nil {
		return 0
	}
	return len(r.dependencies)
}

// textOf returns a text, or a number or a boolean as a text; "" for anything else, and for a text that is too long.
func textOf(v any) string {
	value, ok := ValueOf(v)
	if !ok || len(value.text) > maxText {
		return ""
	}
	return strings.TrimSpace(value.text)
}

// numberOf returns a number, or the number in a text; nil for anything else.
func numberOf(v any) *float64 {
	value, ok := ValueOf(v)
	if !ok {
		return nil
	}
	n, ok := value.as(KindNumber)
	if !ok {
		return nil
	}
	f, _ := n.JSON().(float64) // a value of KindNumber is a number
	return &f
}

// isTrue is true for true, also as a text.
func isTrue(v any) bool { return strings.EqualFold(textOf(v), "true") }

// valueNames returns the value names of an enumeration, and their display names.
func valueNames(v any) (names, displayNames []string) {
	items, _ := v.([]any)
	for _, item := range items[:min(len(items), maxEnumeration)] {
		object, _ := item.(map[string]any)
		if name := textField(object, "ValueName"); name != "" {
			names, displayNames = append(names, name), append(displayNames, cmp.Or(textField(object, "ValueDisplayName"), name))
		}
	}
	return names, displayNames
}

// textField returns the text of a field, whose name has any case; empty without one.
func textField(object map[string]any, name string) string {
	for _, key := range slices.Sorted(maps.Keys(object)) {
		if text, ok := object[key].(string); ok && strings.EqualFold(key, name) && len(text) <= maxText {
			return text
		}
	}
	return ""
}

// showsDisplayNames is true for a BMC whose enumerations have display names for values: more of the values are only that than only value names. Supermicro X13
// does so, in the Bios resource and in the dependencies, while the value names of its registry are numbers. The specification wants value names (DSP0268, Bios).
func (r *Registry) showsDisplayNames(current Values) bool {
	displayed, named := 0, 0
	for name, value := range current {
		a := r.Attribute(name)
		if a == nil || a.Type != TypeEnumeration || value.Null() {
			continue
		}
		switch isName, isDisplayName := slices.Contains(a.Values, value.text), slices.Contains(a.DisplayNames, value.text); {
		case isDisplayName && !isName:
			displayed++
		case isName && !isDisplayName:
			named++
		}
	}
	return displayed > named
}
