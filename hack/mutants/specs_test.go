package mutants

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

// specTargets are parts of the contract without which Cluster API's specs must fail.
var specTargets = []target{
	{"controllers/host", nil, []mutant{
		{"a boot has no owner", "setOwner", "boot.OwnerReferences = append(boot.OwnerReferences, owner)", ""},
	}},
	{"controllers/machine", nil, []mutant{
		{"a machine has no finalizer", "scope.addFinalizer", "controllerutil.AddFinalizer(s.machine, v1alpha1.MachineFinalizer)",
			"controllerutil.RemoveFinalizer(s.machine, v1alpha1.MachineFinalizer)"},
		{"a machine has the provider ID of another one", "Reconciler.reconcileBoot", "m.Spec.ProviderID = id", `m.Spec.ProviderID = id + "0"`},
		{"a machine is never provisioned", "Reconciler.reconcileBoot", "m.Status.Initialization.Provisioned = new(true)", ""},
	}},
	{"inventory/claim", nil, []mutant{
		{"a machine gets a host of any failure domain", "isInOtherDomain", `want.FailureDomain != "" && host.Spec.FailureDomain != want.FailureDomain`, "false"},
	}},
}

// TestSpecMutants expects that QuickStartSpec fails with each of specTargets. SPEC_MUTANTS selects those with a part of a name, as MUTANTS does.
func TestSpecMutants(t *testing.T) {
	parts := os.Getenv("SPEC_MUTANTS")
	if parts == "" {
		t.Skip(`it runs a spec of Cluster API for each mutant: make capi-specs-mutants, or SPEC_MUTANTS="part of a name,another part"`) // minutes for each: go test ./... stays quick
	}
	if !t.Run("unchanged", func(t *testing.T) { expectSpec(t, "", "1 passed, 0 failed") }) {
		t.Fatal("the spec fails without a mutant, so failures with mutants prove nothing")
	}
	for _, target := range specTargets {
		c, err := load(filepath.Join(root, target.folder))
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range target.mutants {
			if parts != "all" && !selected(m.name, parts) {
				continue
			}
			t.Run(m.name, func(t *testing.T) {
				file, text, err := c.change(m)
				if err != nil {
					t.Fatalf("%s: %v", m, err)
				}
				path, err := filepath.Abs(filepath.Join(root, target.folder, file))
				if err != nil {
					t.Fatal(err)
				}
				// A lab that does not start has no failed spec.
				expectSpec(t, overlay(t, t.TempDir(), path, text), "0 passed, 1 failed")
			})
		}
	}
}

// expectSpec runs QuickStartSpec with a provider that is built with an overlay, and compares the last line of its output.
func expectSpec(t *testing.T, overlay, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, filepath.Join("hack", "capispecs.sh"), "quick-start")
	run.Dir = root
	run.Env = append(os.Environ(), "SPECS_OVERLAY="+overlay)
	// The lab ends with a signal that it can handle.
	run.Cancel = func() error { return run.Process.Signal(os.Interrupt) }
	run.WaitDelay = time.Minute
	out, err := run.CombinedOutput()
	got := regexp.MustCompile(`(?m)^\d+ passed, \d+ failed`).FindString(string(out))
	if got != want {
		t.Fatalf("%q, want %q: %v\n%s", got, want, err, out[max(0, len(out)-6000):])
	}
	if failure := regexp.MustCompile(`(?m)^ *\[FAIL(?:ED)?\] .*`).FindString(string(out)); failure != "" {
		t.Log(failure)
	}
}
