package main

import (
	"bytes"
	"debug/elf"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// module is a kernel module.
type module struct {
	// name is its name with underscores, and path its file below the folder "kernel", without .xz.
	name, path string
	content    []byte
	// The following are from its section .modinfo.
	aliases, firmware, softDependencies []string
	needs                               []string
}

// moduleTree is the modules of a kernel package.
type moduleTree struct {
	root, xz string
	// files are the paths below root of all modules by their names.
	files map[string]string
	read  map[string]*module
}

const compressed = ".xz"

func newModuleTree(root, xz string) (*moduleTree, error) {
	t := &moduleTree{root: root, xz: xz, files: map[string]string{}, read: map[string]*module{}}
	err := filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".ko"+compressed) {
			return err
		}
		relative, err := filepath.Rel(root, name)
		t.files[moduleName(relative)] = relative
		return err
	})
	if err == nil && len(t.files) == 0 {
		err = fmt.Errorf("%s has no modules *.ko%s", root, compressed)
	}
	return t, err
}

// moduleName returns the name of a module: the kernel replaces hyphens.
func moduleName(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(strings.TrimSuffix(filepath.Base(file), compressed), ".ko"), "-", "_")
}

// selected returns the modules of a list with all that they need, sorted by path.
func (t *moduleTree) selected(list string) ([]*module, error) {
	content, err := os.ReadFile(list) //nolint:gosec // a file of this folder
	if err != nil {
		return nil, err
	}
	chosen := t.match(string(content))
	for len(chosen) > 0 {
		name := chosen[0]
		chosen = chosen[1:]
		if t.read[name] != nil {
			continue
		}
		m, err := t.load(name)
		if err != nil {
			return nil, err
		}
		t.read[name] = m
		chosen = append(chosen, m.needs...)
	}
	modules := make([]*module, 0, len(t.read))
	for _, m := range t.read {
		modules = append(modules, m)
	}
	slices.SortFunc(modules, func(a, b *module) int { return strings.Compare(a.path, b.path) })
	return modules, nil
}

// match returns the names of the modules that the lines of a list name.
func (t *moduleTree) match(list string) []string {
	chosen := map[string]bool{}
	for line := range strings.Lines(list) {
		line, remove := strings.CutPrefix(strings.TrimSpace(line), "!")
		if line == "" || line[0] == '#' {
			continue
		}
		for name, file := range t.files {
			if file == line+compressed || strings.HasPrefix(file, line+"/") {
				chosen[name] = !remove
			}
		}
	}
	var names []string
	for name, in := range chosen {
		if in {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// load decompresses a module and reads what it says about itself.
func (t *moduleTree) load(name string) (*module, error) {
	relative, ok := t.files[name]
	if !ok {
		return nil, fmt.Errorf("a module needs %s, which is not in the package", name)
	}
	source, err := os.Open(filepath.Join(t.root, relative)) //nolint:gosec // below the folder of the package
	if err != nil {
		return nil, err
	}
	defer func() { _ = source.Close() }()
	m := &module{name: name, path: strings.TrimSuffix(relative, compressed)}
	if m.content, err = filter(source, t.xz, "--decompress", "--stdout"); err != nil {
		return nil, err
	}
	return m, m.describe()
}

// describe reads the section .modinfo: texts name=value that end with a zero byte.
func (m *module) describe() error {
	object, err := elf.NewFile(bytes.NewReader(m.content))
	if err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	section := object.Section(".modinfo")
	if section == nil {
		return fmt.Errorf("%s has no section .modinfo", m.path)
	}
	info, err := section.Data()
	if err != nil {
		return fmt.Errorf("%s: %w", m.path, err)
	}
	for text := range strings.SplitSeq(string(info), "\x00") {
		key, value, _ := strings.Cut(text, "=")
		switch key {
		case "alias":
			m.aliases = append(m.aliases, value)
		case "firmware":
			m.firmware = append(m.firmware, value)
		case "softdep":
			m.softDependencies = append(m.softDependencies, value)
		case "depends":
			for need := range strings.SplitSeq(value, ",") {
				if need != "" {
					m.needs = append(m.needs, moduleName(need))
				}
			}
		default:
		}
	}
	return nil
}

// addModules adds the modules, and what depmod would write about them: modules.dep, modules.alias and modules.softdep (depmod(8)). The modules are not
// compressed: the ramdisk is, and compresses them better together.
func addModules(r *ramdisk, release string, modules []*module) {
	folder := "lib/modules/" + release + "/"
	byName := map[string]*module{}
	for _, m := range modules {
		byName[m.name] = m
	}
	var needs, aliases, soft strings.Builder
	for _, m := range modules {
		r.add(folder+"kernel/"+m.path, 0o644, m.content)
		needs.WriteString("kernel/" + m.path + ":")
		for _, need := range closure(m, byName) {
			needs.WriteString(" kernel/" + need.path)
		}
		needs.WriteByte('\n')
		for _, alias := range m.aliases {
			aliases.WriteString("alias " + alias + " " + m.name + "\n")
		}
		for _, text := range m.softDependencies {
			soft.WriteString("softdep " + m.name + " " + text + "\n")
		}
	}
	r.add(folder+"modules.dep", 0o644, []byte(needs.String()))
	r.add(folder+"modules.alias", 0o644, []byte(aliases.String()))
	r.add(folder+"modules.softdep", 0o644, []byte(soft.String()))
}

// closure returns what a module needs in the order of modules.dep: what is loaded first stands last.
func closure(m *module, byName map[string]*module) []*module {
	var order []*module
	seen := map[string]bool{}
	var visit func(*module)
	visit = func(m *module) {
		for _, name := range m.needs {
			if !seen[name] {
				seen[name] = true
				visit(byName[name])
			}
		}
		order = append(order, m)
	}
	visit(m)
	order = order[:len(order)-1]
	slices.Reverse(order)
	return order
}
