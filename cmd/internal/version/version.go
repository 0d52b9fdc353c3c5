// Package version has the version of the project's programs.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
)

// The linker sets these in the programs of a release (hack/programs.sh). Release builds have no version-control stamp: the same commit gives the same bytes
// with and without a checkout.
var version, commit string

// String returns the version, the commit, the version of Go and the platform. A program of `go install MODULE@VERSION` or of `go build` in a checkout has
// what Go recorded.
func String() string {
	info, _ := debug.ReadBuildInfo()
	return describe(version, commit, info)
}

func describe(version, commit string, info *debug.BuildInfo) string {
	if info != nil {
		version = cmp.Or(version, info.Main.Version)
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				commit = cmp.Or(commit, s.Value)
			}
		}
	}
	return fmt.Sprintf("%s (commit %s, %s, %s/%s)", cmp.Or(version, "(devel)"), cmp.Or(commit, "unknown"), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
