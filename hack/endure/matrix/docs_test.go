package matrix

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// row is a row of the tables in docs/development/faults.md: fault, what the operator sees, what the provider does.
var row = regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| [^|]+ \|$`)

// TestDocs: the page lists the faults that are tested, in their order.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(controllerstest.Root(), "docs", "development", "faults.md"))
	g.Expect(err).NotTo(HaveOccurred())
	var listed, tested []string
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		if name := cells[1]; name != "fault" && name != "---" {
			listed = append(listed, name)
		}
	}
	for _, f := range faults() {
		tested = append(tested, f.name)
	}
	g.Expect(listed).To(Equal(tested))
}
