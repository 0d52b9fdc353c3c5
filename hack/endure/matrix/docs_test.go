package matrix

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// row is a row of the table in docs/faults.md: fault, what is seen, what happens by itself, test.
var row = regexp.MustCompile("(?m)^\\| (.+?) \\| (.+?) \\| (.+?) \\| `(.+?)` \\|$")

// TestDocs: the table that people read has the faults that are tested, in their order, each with its test.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(controllerstest.Root(), "docs", "faults.md"))
	g.Expect(err).NotTo(HaveOccurred())
	var told, tested []string
	for _, cells := range row.FindAllStringSubmatch(string(text), -1) {
		told = append(told, cells[1]+": "+cells[4])
	}
	for _, f := range faults() {
		test := "TestMatrix/" + strings.ReplaceAll(f.name, " ", "_")
		if f.alone {
			test = "TestEtcdRestarted"
		}
		tested = append(tested, f.name+": "+test)
	}
	g.Expect(told).To(Equal(tested))
}
