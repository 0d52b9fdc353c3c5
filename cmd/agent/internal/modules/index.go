package modules

import (
	"errors"
	"io/fs"
	"path"
	"strings"
)

// Index says which module serves which device, and what it needs.
type Index struct {
	// files are the paths of modules by their names, and needs what each needs: what is loaded first stands first.
	files map[string]string
	needs map[string][]string
	// before and after are modules or aliases that are loaded with a module, and without which it runs (modprobe.d(5), softdep).
	before, after map[string][]string
	// aliases are the patterns by the bus, which is the text before the first colon. Those without a bus are under "".
	aliases map[string][]alias
}

type alias struct{ pattern, module string }

// ReadIndex reads the index in the folder of a kernel's modules.
func ReadIndex(folder fs.FS) (*Index, error) {
	x := &Index{files: map[string]string{}, needs: map[string][]string{}, before: map[string][]string{}, after: map[string][]string{}, aliases: map[string][]alias{}}
	return x, errors.Join(
		eachLine(folder, "modules.dep", x.addDependency),
		eachLine(folder, "modules.alias", x.addAlias),
		eachLine(folder, "modules.softdep", x.addSoftDependency),
	)
}

func eachLine(folder fs.FS, name string, add func(string)) error {
	content, err := fs.ReadFile(folder, name)
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(content)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			add(line)
		}
	}
	return nil
}

// addDependency reads a line "file: file file" of modules.dep, in which what is loaded first stands last.
func (x *Index) addDependency(line string) {
	file, needs, _ := strings.Cut(line, ":")
	name := nameOf(file)
	x.files[name] = file
	for need := range strings.FieldsSeq(needs) {
		x.needs[name] = append([]string{nameOf(need)}, x.needs[name]...)
	}
}

// addAlias reads a line "alias pattern module".
func (x *Index) addAlias(line string) {
	words := strings.Fields(line)
	if len(words) == 3 {
		bus := busOf(words[1])
		x.aliases[bus] = append(x.aliases[bus], alias{words[1], words[2]})
	}
}

// addSoftDependency reads a line "softdep module pre: name post: name".
func (x *Index) addSoftDependency(line string) {
	words := strings.Fields(line)
	if len(words) < 2 {
		return
	}
	to := x.before
	for _, word := range words[2:] {
		switch word {
		case "pre:":
			to = x.before
		case "post:":
			to = x.after
		default:
			to[words[1]] = append(to[words[1]], word)
		}
	}
}

// nameOf is the name of a module: the kernel replaces hyphens.
func nameOf(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(path.Base(file), ".ko"), "-", "_")
}

// busOf is the text before the first colon, empty if that has wildcards.
func busOf(alias string) string {
	bus, _, found := strings.Cut(alias, ":")
	if !found || strings.ContainsAny(bus, "*?[") {
		return ""
	}
	return bus
}

// Find returns the modules for a name, which is that of a module or an alias such as pci:v00008086d000010D3sv....
func (x *Index) Find(name string) []string {
	if module := strings.ReplaceAll(name, "-", "_"); x.files[module] != "" {
		return []string{module}
	}
	var found []string
	seen := map[string]bool{}
	for _, bus := range []string{busOf(name), ""} {
		for _, a := range x.aliases[bus] {
			if !seen[a.module] && Match(a.pattern, name) {
				seen[a.module] = true
				found = append(found, a.module)
			}
		}
		if bus == "" {
			break
		}
	}
	return found
}

// Order returns the modules to load for a module, in their order.
func (x *Index) Order(module string) []string {
	var order []string
	seen := map[string]bool{}
	var visit func(string)
	visitAll := func(names []string) {
		for _, name := range names {
			for _, found := range x.Find(name) {
				visit(found)
			}
		}
	}
	visit = func(name string) {
		if seen[name] || x.files[name] == "" {
			return
		}
		seen[name] = true
		visitAll(x.before[name])
		visitAll(x.needs[name])
		order = append(order, name)
		visitAll(x.after[name])
	}
	visit(module)
	return order
}

// File returns the path of a module below the folder of the kernel's modules.
func (x *Index) File(module string) string { return x.files[module] }
