package laws_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is a workflow of GitHub Actions, as far as it is checked here.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Strategy    struct {
			Matrix struct {
				Part []string `json:"part"`
			} `json:"matrix"`
		} `json:"strategy"`
		Container struct {
			Image string `json:"image"`
		} `json:"container"`
		Steps []step `json:"steps"`
	} `json:"jobs"`
}

// step is a step of a job.
type step struct {
	Uses string            `json:"uses"`
	Run  string            `json:"run"`
	With map[string]any    `json:"with"`
	Env  map[string]string `json:"env"`
}

// TestParts: CI and the nightly run on GitHub have the parts of .ci/run and .ci/nightly, except recordings that are not a part of the project.
func TestParts(t *testing.T) {
	targets := regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
	exists := map[string]bool{}
	for _, target := range targets.FindAllStringSubmatch(readPage(t, "Makefile"), -1) {
		exists[target[1]] = true
	}
	nightly := regexp.MustCompile(`(?s)\nparts=\((.*?)\)`).FindStringSubmatch(readPage(t, ".ci/nightly"))
	if nightly == nil {
		t.Fatal(".ci/nightly has no list of parts")
	}
	want := strings.Fields(nightly[1])
	var got []string
	for _, file := range []string{"ci", "nightly"} {
		var w workflow
		if err := yaml.Unmarshal([]byte(readPage(t, ".github/workflows/"+file+".yaml")), &w); err != nil {
			t.Fatal(err)
		}
		got = append(got, w.Jobs["part"].Strategy.Matrix.Part...)
	}
	for _, part := range want {
		if !exists[part] {
			t.Errorf(".ci/nightly has the part %s, which is not a target", part)
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("the workflows have the parts\n%s\nand .ci/nightly has\n%s", got, want)
	}
	ci := readPage(t, ".ci/run")
	for _, part := range []string{"verify", "test", "test-system", "test-specs", "test-vm", "demo"} {
		if !regexp.MustCompile(`["; ]` + part + `["; $]`).MatchString(ci) {
			t.Errorf(".ci/run does not run %s", part)
		}
	}
}

// TestWorkflows: the workflows name only targets, scripts and files of a release that exist. What others wrote is pinned to a commit, and no step gets more
// than it needs.
func TestWorkflows(t *testing.T) {
	files, err := filepath.Glob(".github/workflows/*.y*ml")
	if err != nil || len(files) != 3 {
		t.Fatalf("workflows: %s, %v", files, err)
	}
	makefile := readPage(t, "Makefile")
	page := strings.ReplaceAll(readPage(t, "hack/releasepage.sh"), "$project", "cluster-api-provider-baremetal") + readPage(t, "hack/release.sh")
	goVersion := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(readPage(t, "go.mod"))[1]
	pinned := regexp.MustCompile(`^actions/(checkout|setup-go|upload-artifact|download-artifact)@[0-9a-f]{40}$`)
	debian := regexp.MustCompile(`^debian:12(@sha256:[0-9a-f]{64})?$`)
	for _, file := range files {
		var w workflow
		content := readPage(t, file)
		if err := yaml.UnmarshalStrict([]byte(content), new(map[string]any)); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if err := yaml.Unmarshal([]byte(content), &w); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if w.Permissions == nil || slices.ContainsFunc(slices.Collect(maps.Values(w.Permissions)), func(p string) bool { return p != "read" }) {
			t.Errorf("%s: permissions of all jobs: %v", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			if want := jobPermissions[name]; !maps.Equal(job.Permissions, want) {
				t.Errorf("%s: %s has the permissions %v and not %v", file, name, job.Permissions, want)
			}
			if builds := slices.ContainsFunc(job.Steps, func(s step) bool { return strings.Contains(s.Run, "make ") }); builds && !debian.MatchString(job.Container.Image) {
				t.Errorf("%s: %s runs in %q: the boot loaders and the tests need Debian 12", file, name, job.Container.Image)
			}
			for _, step := range job.Steps {
				switch {
				case step.Uses != "" && !pinned.MatchString(step.Uses):
					t.Errorf("%s: %s is not pinned to a commit", file, step.Uses)
				case strings.HasPrefix(step.Uses, "actions/checkout@") && step.With["persist-credentials"] != false:
					t.Errorf("%s: %s leaves the token in the checkout", file, step.Uses)
				case strings.HasPrefix(step.Uses, "actions/setup-go@") && !strings.HasPrefix(fmt.Sprint(step.With["go-version"]), goVersion):
					t.Errorf("%s: %s has another Go than go.mod: %v", file, step.Uses, step.With)
				}
				if strings.Contains(step.Run, "${{") {
					t.Errorf("%s: a script has an expression of the workflow in it: hand it over in the environment: %s", file, step.Run)
				}
				for _, target := range regexp.MustCompile(`(?m)^ *make ([a-z0-9-]+)`).FindAllStringSubmatch(step.Run, -1) {
					if !strings.Contains(makefile, "\n"+target[1]+":") {
						t.Errorf("%s: the Makefile has no target %s", file, target[1])
					}
				}
				for _, script := range regexp.MustCompile(`(?:hack|\.ci)/[a-z/.]+`).FindAllString(step.Run, -1) {
					if _, err := os.Stat(script); err != nil {
						t.Errorf("%s: %v", file, err)
					}
				}
				for _, released := range regexp.MustCompile(`\$PAGE/([a-z][a-z.-]+)`).FindAllStringSubmatch(step.Run, -1) {
					if !strings.Contains(page, "/"+released[1]+`"`) {
						t.Errorf("%s: a release has no file %s", file, released[1])
					}
				}
			}
		}
	}
}

// jobPermissions are what jobs may do beyond reading the repository.
var jobPermissions = map[string]map[string]string{"build": {"contents": "read"}, "publish": {"contents": "write", "packages": "write"}}

// TestReleaseKey: the key that signs releases is in a job that runs only openssl, on what an earlier job made. That job builds from a container that is pinned by its digest.
func TestReleaseKey(t *testing.T) {
	var w workflow
	if err := yaml.Unmarshal([]byte(readPage(t, ".github/workflows/release.yaml")), &w); err != nil {
		t.Fatal(err)
	}
	foreign := regexp.MustCompile(`\b(make|apt-get|go|skopeo|curl|wget|hack/\S+)\b`)
	keys := 0
	for name, job := range w.Jobs {
		hasKey := slices.ContainsFunc(job.Steps, func(s step) bool { return strings.Contains(fmt.Sprint(s.Env), "RELEASE_KEY") })
		if strings.Contains(job.Container.Image, "debian") && !strings.Contains(job.Container.Image, "@sha256:") {
			t.Errorf("%s runs in %s, which is not pinned", name, job.Container.Image)
		}
		if !hasKey {
			continue
		}
		keys++
		for _, s := range job.Steps {
			if found := foreign.FindString(s.Run); found != "" || strings.HasPrefix(s.Uses, "actions/checkout@") || strings.HasPrefix(s.Uses, "actions/setup-") {
				t.Errorf("the job %s has the key, and runs %s%s", name, found, s.Uses)
			}
		}
	}
	if keys != 1 {
		t.Errorf("%d jobs have the key", keys)
	}
}

// TestChangelog: the notes of a release are its section of the changelog. A release candidate may have the section of what is not released.
func TestChangelog(t *testing.T) {
	notes := func(args ...string) (string, error) {
		out, err := exec.CommandContext(t.Context(), "hack/changelog.sh", args...).Output()
		return string(out), err
	}
	version := regexp.MustCompile(`(?m)^VERSION \?= (.*)$`).FindStringSubmatch(readPage(t, "Makefile"))[1]
	if got, err := notes(version); err != nil || !strings.Contains(got, "### Added") {
		t.Errorf("%s: %q, %v", version, got, err)
	}
	file := filepath.Join(t.TempDir(), "CHANGELOG.md")
	content := "# Changelog\n\n## [Unreleased]\n\n### Fixed\n\n- a\n\n## [v0.2.0] - 2027-01-01\n\n- b\n\n- c\n\n## [v0.1.0]\n\n[v0.1.0]: https://example.com\n"
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	for version, want := range map[string]string{
		"v0.2.0": "- b\n\n- c\n", "v0.3.0-rc.0": "### Fixed\n\n- a\n", "v0.3.0": "", "v0.1.0": "", "v0.2": "", "v0.2.0]": "",
	} {
		got, err := notes(version, file)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%s: %q, %v", version, got, err)
		}
	}
}
