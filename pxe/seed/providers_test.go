package seed_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	latest "github.com/coreos/ignition/v2/config/v3_7_experimental"
	config23 "github.com/flatcar/ignition/config/v2_3"
	. "github.com/onsi/gomega"
	"github.com/vincent-petithory/dataurl"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/seedtest"
)

// TestProviderIgnition: Ignition accepts what bootstrap providers write inside of our config, and our watch reads the unit that executes it.
func TestProviderIgnition(t *testing.T) {
	paths, err := filepath.Glob("../../hack/seedcheck/testdata/providers/*-ignition.yaml")
	if err != nil || len(paths) < 3 {
		t.Fatalf("found %d Secrets: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			g := NewWithT(t)
			content, err := os.ReadFile(path)
			g.Expect(err).NotTo(HaveOccurred())
			var secret struct{ StringData map[string]string }
			g.Expect(yaml.Unmarshal(content, &secret)).To(Succeed())
			d := data(seed.Format(secret.StringData["format"]))
			d.UserData, d.SucceededPath, d.FailedPath = []byte(secret.StringData["value"]), "/report/dc/h/t/succeeded", "/report/dc/h/t/failed"
			g.Expect(d.Format).To(Equal(seed.Ignition))
			config := read(g, d, seed.IgnitionFile)
			parse(g, config, d.UserData)

			whole, err := seedtest.ReadIgnitionTree([]byte(config))
			g.Expect(err).NotTo(HaveOccurred())
			var units []string
			for _, u := range whole.Units {
				if !strings.HasPrefix(u.Name, "capbm-") {
					units = append(units, u.Name)
				}
			}
			g.Expect(units).To(HaveLen(1))
			watch := whole.Files[slices.IndexFunc(whole.Files, func(f seedtest.File) bool { return f.Path == "/etc/capbm/report-bootstrap" })]
			g.Expect(watch.Content).To(MatchRegexp("systemctl is-failed --quiet .*" + units[0]))
		})
	}
}

// parse lets Ignition's own libraries read our config and the bootstrap data in it.
func parse(g Gomega, config string, userData []byte) {
	if strings.Contains(string(userData), `"version":"2.`) {
		ours, report, err := config23.Parse([]byte(config))
		g.Expect(err).NotTo(HaveOccurred(), report.String())
		theirs, report, err := config23.Parse(userData)
		g.Expect(err).NotTo(HaveOccurred(), report.String())
		g.Expect(report.IsFatal()).To(BeFalse(), report.String())
		config23.Append(ours, theirs)
		return
	}
	merged := parse3(g, config)
	for todo := [][]byte{userData}; len(todo) > 0; todo = todo[1:] {
		theirs := parse3(g, string(todo[0]))
		for _, m := range theirs.Ignition.Config.Merge {
			nested, err := dataurl.DecodeString(*m.Source)
			g.Expect(err).NotTo(HaveOccurred())
			todo = append(todo, nested.Data)
		}
		merged = latest.Merge(merged, theirs)
	}
	g.Expect(latest.ParseCompatibleVersion(marshal(g, merged))).Error().NotTo(HaveOccurred())
}
