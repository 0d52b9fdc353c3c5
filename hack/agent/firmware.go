package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// blob is a firmware file in the ramdisk.
type blob struct {
	name, pkg string
	size      int
}

// addFirmware adds the firmware that modules name, from the packages that have it. Debian has not every file that a module names: the others are for cards
// that run without, or that nobody ships. The names of a module may have wildcards, as request_firmware() of the driver completes them.
func addFirmware(r *ramdisk, packages string, modules []*module) ([]blob, error) {
	var found []blob
	seen := map[string]bool{}
	for _, m := range modules {
		for _, name := range m.firmware {
			if seen[name] {
				continue
			}
			seen[name] = true
			matches, err := filepath.Glob(filepath.Join(packages, "firmware-*", "usr/lib/firmware", name))
			if err != nil {
				return nil, fmt.Errorf("the firmware %q of %s: %w", name, m.name, err)
			}
			for _, match := range matches {
				more, err := addBlob(r, packages, match)
				if err != nil {
					return nil, err
				}
				found = append(found, more...)
			}
		}
	}
	slices.SortFunc(found, func(a, b blob) int { return strings.Compare(a.name, b.name) })
	return found, nil
}

// addBlob adds a file. A symbolic link is added with its target.
func addBlob(r *ramdisk, packages, file string) ([]blob, error) {
	relative, err := filepath.Rel(packages, file)
	if err != nil {
		return nil, err
	}
	pkg, name, _ := strings.Cut(relative, "/usr/lib/firmware/")
	target, err := os.Readlink(file)
	switch {
	case err == nil:
		r.link("lib/firmware/"+name, target)
		return addBlob(r, packages, filepath.Join(filepath.Dir(file), target))
	case errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("the firmware %s is a link to a file that the package does not have", name)
	}
	content, err := os.ReadFile(file) //nolint:gosec // below the folder of the packages
	if err != nil {
		return nil, err
	}
	r.add("lib/firmware/"+name, 0o644, content)
	return []blob{{name: name, pkg: pkg, size: len(content)}}, nil
}

// writeLicences writes the terms of all that is in the ramdisk besides the agent: those of the kernel, and of each package that firmware is from.
func writeLicences(o options, found []blob) error {
	folder := filepath.Join(o.output, "licenses")
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o755)); err != nil { //nolint:gosec // files of a release, that everyone may read
		return err
	}
	texts := map[string]string{}
	for _, b := range found {
		texts[b.pkg] = filepath.Join(o.firmware, b.pkg, "usr/share/doc", b.pkg, "copyright")
	}
	image := filepath.Base(o.kernel)
	texts["linux"] = filepath.Join(o.kernel, "usr/share/doc", image, "copyright")
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		content, err := os.ReadFile(texts[name])
		if err != nil {
			return fmt.Errorf("the terms of %s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil { //nolint:gosec // a file of a release, that everyone may read
			return err
		}
	}
	return nil
}
