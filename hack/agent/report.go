package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// writeModuleList lists the modules and the firmware with their sizes in bytes.
func writeModuleList(name string, modules []*module, found []blob) error {
	var out bytes.Buffer
	for _, m := range modules {
		fmt.Fprintf(&out, "%9d kernel/%s\n", len(m.content), m.path)
	}
	for _, b := range found {
		fmt.Fprintf(&out, "%9d firmware/%s (%s)\n", b.size, b.name, b.pkg)
	}
	return os.WriteFile(name, out.Bytes(), 0o644) //nolint:gosec // a file of a release, that everyone may read
}

// largest is how many parts the report lists.
const largest = 12

// printParts prints the largest parts of the base.
func printParts(r *ramdisk) {
	for _, p := range parts(r)[:largest] {
		fmt.Printf("  %6.2f MB %s (unpacked)\n", mb(p.size), p.name)
	}
}

// checkSize prints the sizes, and returns an error if kernel and ramdisk are too large. A server loads one of the kernel's files.
func checkSize(o options) error {
	names, err := filepath.Glob(filepath.Join(o.output, plainKernel+"*"))
	if err != nil {
		return err
	}
	var words []string
	var kernel, ramdisk int64
	for _, name := range append(names, filepath.Join(o.output, "ramdisk")) {
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		words = append(words, fmt.Sprintf("%s %.1f MB", info.Name(), mb(info.Size())))
		kernel, ramdisk = max(kernel, ramdisk), info.Size()
	}
	total := kernel + ramdisk
	fmt.Printf("%s, together %.1f MB\n", strings.Join(words, ", "), mb(total))
	if o.limit > 0 && total > o.limit {
		return fmt.Errorf("kernel and ramdisk have %.1f MB, and at most %.1f MB are allowed: remove modules from hack/agent/modules.txt", mb(total), mb(o.limit))
	}
	return nil
}

func mb(bytes int64) float64 { return float64(bytes) / 1e6 }

// part is a part of the ramdisk.
type part struct {
	name string
	size int64
}

// parts sums the files by their folders, at most 6 levels deep below the modules, the largest first.
func parts(r *ramdisk) []part {
	sums := map[string]int64{}
	for _, f := range r.files {
		sums[partOf(f.name)] += int64(len(f.content))
	}
	all := make([]part, 0, len(sums))
	for name, size := range sums {
		all = append(all, part{name, size})
	}
	slices.SortFunc(all, func(a, b part) int {
		return cmp.Or(cmp.Compare(b.size, a.size), strings.Compare(a.name, b.name))
	})
	return all
}

func partOf(name string) string {
	words := strings.Split(name, "/")
	depth := 3
	if strings.Contains(name, "/net/ethernet/") {
		depth = 8
	} else if strings.HasPrefix(name, "lib/modules/") {
		depth = 6
	}
	return strings.Join(words[:min(depth, len(words))], "/")
}
