package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode"
)

// plain returns a value as JSON has it, with the names of fields in camel case: the types of the BMC layer have no JSON of their own.
// Each text goes through change, where that is not nil, with the name of its field.
func plain(v any, change func(field, text string) string) any {
	content, err := json.Marshal(v)
	if err != nil {
		panic(err) // only what JSON has is handed in
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

// camel writes the name of a Go field in camel case: CPUModel is cpuModel, NICs is nics.
func camel(name string) string {
	rest := strings.TrimLeftFunc(name, unicode.IsUpper)
	upper := len(name) - len(rest)
	if upper > 1 && rest != "" && rest != "s" {
		upper-- // the last begins the next word
	}
	return strings.ToLower(name[:upper]) + name[upper:]
}
