package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// plain converts a value to the types of encoding/json, with field names in camel case, because the types of the BMC layer have no JSON
// tags. If change is not nil, it replaces each text, given the name of its field.
func plain(v any, change func(field, text string) string) any {
	content, err := json.Marshal(v)
	if err != nil {
		panic(err) // all values can be encoded
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		panic(err) // it has just been encoded
	}
	return walk(tree, "", change)
}

func walk(v any, field string, change func(field, text string) string) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for name, value := range v {
			name = camel(name)
			out[name] = walk(value, name, change)
		}
		return out
	case []any:
		for i := range v {
			v[i] = walk(v[i], field, change)
		}
	case string:
		if change != nil {
			return change(field, v)
		}
	}
	return v
}

// camel returns the name of a Go field in camel case: CPUModel is cpuModel, NICs is nics.
func camel(name string) string {
	rest := strings.TrimLeftFunc(name, unicode.IsUpper)
	upper := len(name) - len(rest)
	if upper > 1 && rest != "" && rest != "s" {
		upper-- // the last one starts the next word
	}
	return strings.ToLower(name[:upper]) + name[upper:]
}
