package dhcp

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

// checkGolden compares a text with a file of testdata. With UPDATE_GOLDEN=1 in the environment it writes the file.
func checkGolden(t *testing.T, name, text string) {
	t.Helper()
	g := NewWithT(t)
	path := filepath.Join("testdata", name)
	if os.Getenv("UPDATE_GOLDEN") != "" {
		g.Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
	}
	want, err := os.ReadFile(path)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(text).To(Equal(string(want)))
}
