package matrix

import (
	"os"
	"testing"
)

// TestZCoverage prints what was run, as the last test.
func TestZCoverage(*testing.T) { covered.print(os.Stdout) }
