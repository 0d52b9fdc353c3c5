package redfish

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// resource is a JSON object from a BMC. BMCs write numbers as strings, null for a list, names in lower case, and omit required
// properties. Each property is read separately, and an invalid one counts as missing.
//
// The typed schemas of gofish v0.26.0 are not used, because UnmarshalJSON returns an error for the whole resource if one property has a
// wrong type (schemas/computersystem.go). No upstream issue was found. Delete this type when gofish ignores such properties.
type resource map[string]any

// decode reads a resource. An empty body is an empty resource.
func decode(content []byte) (resource, error) {
	var r resource
	if len(bytes.TrimSpace(content)) == 0 {
		return r, nil
	}
	if isWebPage(content) {
		return nil, errWebPage
	}
	if err := json.Unmarshal(content, &r); err != nil {
		return nil, fmt.Errorf("the BMC's answer is not a JSON object: %w", err)
	}
	return r, nil
}

// refusal returns the error in a resource, or nil. Some services answer a request for a missing resource with 200 and an error.
func (r resource) refusal() error {
	if len(r) != 1 || r.object("error") == nil {
		return nil
	}
	content, err := json.Marshal(r)
	if err != nil {
		return err
	}
	status := http.StatusInternalServerError
	refused := errorOf(status, content)
	for _, missing := range []string{"ResourceMissingAtURI", "ResourceNotFound"} {
		if hasMessageID(refused, missing) {
			return errorOf(http.StatusNotFound, content)
		}
	}
	return refused
}

// value follows a path of names. If a name has no exact match, it matches without regard to case.
func (r resource) value(path ...string) any {
	var v any = map[string]any(r)
	for _, name := range path {
		object, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		found, ok := object[name]
		if !ok {
			found = valueIgnoringCase(object, name)
		}
		v = found
	}
	return v
}

// valueIgnoringCase returns the value whose name differs only in case; of several, the one that sorts first.
func valueIgnoringCase(object map[string]any, name string) any {
	best := ""
	for key := range object {
		if len(key) == len(name) && strings.EqualFold(key, name) && (best == "" || key < best) {
			best = key
		}
	}
	if best == "" {
		return nil
	}
	return object[best]
}

// text returns a string, or a number or a boolean as a string.
func (r resource) text(path ...string) string {
	switch v := r.value(path...).(type) {
	case string:
		return strings.TrimSpace(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	default:
		return ""
	}
}

// number returns a number, or the number in a string. The second result is false if there is none.
func (r resource) number(path ...string) (float64, bool) {
	switch v := r.value(path...).(type) {
	case float64:
		return v, true
	case string:
		n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
	default:
		return 0, false
	}
}

// count returns a non-negative number; 0 if it is missing or invalid.
func (r resource) count(path ...string) int64 {
	n, _ := r.number(path...)
	if n < 0 || n >= 1<<62 {
		return 0
	}
	return int64(n)
}

// boolean returns a boolean, which may be written as a string.
func (r resource) boolean(path ...string) bool {
	return strings.EqualFold(r.text(path...), "true")
}

// has is true if the value exists and is not null.
func (r resource) has(path ...string) bool { return r.value(path...) != nil }

// hasProperty is true if a property exists, even if it is null.
func (r resource) hasProperty(name string) bool {
	for key := range r {
		if strings.EqualFold(key, name) {
			return true
		}
	}
	return false
}

// object returns an object, or nil.
func (r resource) object(path ...string) resource {
	o, _ := r.value(path...).(map[string]any)
	return o
}

// list returns the objects of a list. Some BMCs write a single object without a list.
func (r resource) list(path ...string) []resource {
	if single := r.object(path...); single != nil {
		return []resource{single}
	}
	items, _ := r.value(path...).([]any)
	var objects []resource
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			objects = append(objects, o)
		}
	}
	return objects
}

// texts returns the strings of a list.
func (r resource) texts(path ...string) []string {
	items, _ := r.value(path...).([]any)
	var texts []string
	for _, item := range items {
		if s, ok := item.(string); ok {
			texts = append(texts, s)
		}
	}
	return texts
}

// link returns the path of a link, or "". Only paths are accepted: "@evil.example/" or an absolute URL would send the credentials to
// another host.
func (r resource) link(path ...string) string {
	var to string
	switch v := r.value(path...).(type) {
	case string:
		to = v
	case map[string]any:
		to = resource(v).text("@odata.id")
	}
	return cleanLink(to)
}

func cleanLink(to string) string {
	to = strings.TrimSpace(to)
	if !strings.HasPrefix(to, "/") || strings.HasPrefix(to, "//") || strings.ContainsAny(to, "\r\n") {
		return ""
	}
	if len(to) > 1 {
		to = strings.TrimSuffix(to, "/") // the path without the slash is the same resource (DSP0266, 6.2), and some BMCs only know that
	}
	return to
}

// links returns the paths of a list of links. In Members and in Links, some BMCs write a single link without a list.
func (r resource) links(path ...string) []string {
	var to []string
	items, _ := r.value(path...).([]any)
	if single := r.object(path...); single != nil && (path[0] == "Links" || path[0] == "Members") {
		items = []any{map[string]any(single)}
	}
	for _, item := range items {
		if l := (resource{"l": item}).link("l"); l != "" {
			to = append(to, l)
		}
	}
	return to
}

// headProperties are properties of every resource. A member that has no other ones is a summary of its resource.
var headProperties = []string{"Id", "MemberId", "Name", "Description", "Status", "Links", "Actions", "Oem"}

// isWhole is true for a complete resource in the place of a link. Some services add a property or two to a link, or summarize the resource.
func (r resource) isWhole() bool {
	if r.link("@odata.id") == "" || r.object("error") != nil || !r.has("@odata.type") && !r.has("Id") {
		return false
	}
	for name := range r {
		if !strings.Contains(name, "@") && !slices.Contains(headProperties, name) {
			return true
		}
	}
	return false
}

// lacks is true if the other one has a property that this one has not.
func (r resource) lacks(other resource) bool {
	for name := range other {
		if !strings.Contains(name, "@") && !r.hasProperty(name) {
			return true
		}
	}
	return false
}

// at returns the resource with the path that it was read from, because some services report a wrong one.
func (r resource) at(path string) resource {
	r["@odata.id"] = path
	return r
}

// id returns the last part of the resource's own path, or its Id.
func (r resource) id() string {
	if id := r.text("Id"); id != "" {
		return id
	}
	path := r.link("@odata.id")
	return path[strings.LastIndex(path, "/")+1:]
}

// settingsObject returns the path of the settings object (DSP0266, 9.10), or "".
func (r resource) settingsObject() string { return r.link("@Redfish.Settings", "SettingsObject") }
