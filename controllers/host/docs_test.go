package host

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// docsPage returns a page of the documentation.
func docsPage(g Gomega, name string) string {
	content, err := os.ReadFile(filepath.Join("../../docs", name))
	g.Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// TestOperationsDocs: every test that docs/development/operations-tests.md names exists, and the reference describes every annotation of a host.
func TestOperationsDocs(t *testing.T) {
	g := NewWithT(t)
	page := docsPage(g, "development/operations-tests.md")
	var tests strings.Builder
	for _, folder := range []string{".", "../machine", "../remediation", "../../inventory/lifecycle"} {
		files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
		g.Expect(err).NotTo(HaveOccurred())
		for _, file := range files {
			content, err := os.ReadFile(file)
			g.Expect(err).NotTo(HaveOccurred())
			tests.Write(content)
		}
	}
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(page, -1)
	g.Expect(len(named)).To(BeNumerically(">", 15))
	for _, name := range named {
		g.Expect(tests.String()).To(ContainSubstring("func "+name[1]+"("), "docs/development/operations-tests.md names it")
	}
	reference := docsPage(g, "reference/annotations.md")
	for _, annotation := range []string{
		v1alpha1.DetachedAnnotation, v1alpha1.ReleaseUnfencedAnnotation, v1alpha1.RetryBMCAnnotation, v1alpha1.ConfirmServerAnnotation,
		v1alpha1.SharedHardwareAnnotation, v1alpha1.PowerOffProviderAnnotation, v1alpha1.SettingsEndedAnnotation, v1alpha1.BlockMoveAnnotation, v1alpha1.DeleteForMoveAnnotation,
		v1alpha1.BMCHostsAnnotation, v1alpha1.HostRequestedByAnnotation, v1alpha1.ChosenHostAnnotation, v1alpha1.BMCSecretLabel, v1alpha1.MoveLabel, bootstrapv1.ValueSecretLabel,
		v1alpha1.PowerHoldPrefix + "KEY", v1alpha1.ForcePowerHoldPrefix + "KEY", v1alpha1.PowerCyclePrefix + "KEY", v1alpha1.PowerOnPrefix + "KEY",
	} {
		g.Expect(reference).To(ContainSubstring("| `"+annotation+"`"), "docs/reference/annotations.md does not describe it")
	}
}
