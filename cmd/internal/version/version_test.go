package version

import (
	"runtime"
	"runtime/debug"
	"testing"
)

// TestDescribe: what the linker sets comes before what Go recorded.
func TestDescribe(t *testing.T) {
	recorded := &debug.BuildInfo{Main: debug.Module{Version: "v0.2.0"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}
	platform := ", " + runtime.Version() + ", " + runtime.GOOS + "/" + runtime.GOARCH + ")"
	for _, c := range []struct {
		version, commit string
		info            *debug.BuildInfo
		want            string
	}{
		{"v0.1.0", "def", recorded, "v0.1.0 (commit def" + platform},
		{"", "", recorded, "v0.2.0 (commit abc" + platform},
		{"", "", nil, "(devel) (commit unknown" + platform},
	} {
		if got := describe(c.version, c.commit, c.info); got != c.want {
			t.Errorf("%q, %q: %q, and not %q", c.version, c.commit, got, c.want)
		}
	}
}
