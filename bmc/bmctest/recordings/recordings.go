// Package recordings finds the recorded trees of real BMCs for tests. They are not part of the project.
package recordings

import (
	"os"
	"path/filepath"
	"testing"
)

// Files returns the files with recorded trees in the folder that CORPUS names. Without CORPUS the test is skipped: `make corpus` sets it, and fails without the folder.
func Files(t *testing.T) []string {
	t.Helper()
	folder := os.Getenv("CORPUS")
	if folder == "" {
		t.Skip("without CORPUS there are no recordings: see make corpus") // make corpus does not skip it
	}
	files, err := filepath.Glob(filepath.Join(folder, "redfish*", "*.json.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("CORPUS=%s has no redfish*/*.json.gz: %v", folder, err)
	}
	return files
}
