package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	"sigs.k8s.io/controller-runtime/pkg/client/config"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// TestDocs: docs/reference/manager.md lists every flag with its default, and no others. hack/docs generates the tables.
func TestDocs(t *testing.T) {
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(controllerstest.Root(), "docs", "reference", "manager.md"))
	g.Expect(err).NotTo(HaveOccurred())
	documented := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `--([a-z0-9-]+)` \\| [^|]+ \\| (?:`([^`]*)`)? \\| .+ \\|$").FindAllStringSubmatch(string(content), -1) {
		g.Expect(documented).NotTo(HaveKey(row[1]))
		documented[row[1]] = row[2]
	}
	flags := map[string]string{}
	newOptions().flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags[f.Name] = strings.Trim(f.DefValue, "[]")
		}
	})
	// pflag takes what another test has set for the default of this one, which is a flag of the standard library.
	flags[config.KubeconfigFlagName] = flag.CommandLine.Lookup(config.KubeconfigFlagName).DefValue
	g.Expect(documented).To(Equal(flags))
}
