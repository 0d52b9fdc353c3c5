package usertemplate

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// field returns an error if the sample has no field or key of that name.
func (c checker) field(names []string) error {
	if c.sample == nil {
		return nil
	}
	value := reflect.ValueOf(c.sample)
	for i, name := range names {
		switch value.Kind() {
		case reflect.Struct:
			next := value.FieldByName(name)
			if !next.IsValid() {
				return unknownField(names, i, structFields(value.Type()))
			}
			value = next
		case reflect.Map:
			if value.IsNil() {
				return nil
			}
			next := value.MapIndex(reflect.ValueOf(name))
			if !next.IsValid() {
				return unknownField(names, i, mapKeys(value))
			}
			value = next
		default:
			return fmt.Errorf(".%s does not exist: .%s has no fields", strings.Join(names, "."), strings.Join(names[:i], "."))
		}
	}
	return nil
}

func unknownField(names []string, i int, known []string) error {
	if len(known) == 0 {
		return fmt.Errorf(".%s does not exist: .%s is empty", strings.Join(names[:i+1], "."), strings.Join(names[:i], "."))
	}
	return fmt.Errorf(".%s does not exist: .%s has %s", strings.Join(names[:i+1], "."), strings.Join(names[:i], "."), strings.Join(known, ", "))
}

func structFields(t reflect.Type) []string {
	var names []string
	for field := range t.Fields() {
		names = append(names, field.Name)
	}
	return names
}

func mapKeys(value reflect.Value) []string {
	var names []string
	for _, key := range value.MapKeys() {
		names = append(names, key.String())
	}
	return slices.Sorted(slices.Values(names))
}
