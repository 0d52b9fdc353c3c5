package guides

import (
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestMain gives conditions more time than Gomega's second, which a busy machine may take.
func TestMain(m *testing.M) {
	if os.Getenv("GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT") == "" {
		SetDefaultEventuallyTimeout(30 * time.Second)
	}
	m.Run()
}
