package seed_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/coreos/ignition/v2/config"
	latest "github.com/coreos/ignition/v2/config/v3_7_experimental"
	"github.com/coreos/ignition/v2/config/v3_7_experimental/types"
	config23 "github.com/flatcar/ignition/config/v2_3"
	. "github.com/onsi/gomega"
	"github.com/vincent-petithory/dataurl"
	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed/seedtest"
)

func ignition(g Gomega, name string) seed.Data {
	d := data(seed.Ignition)
	var err error
	d.UserData, err = os.ReadFile("testdata/" + name)
	g.Expect(err).NotTo(HaveOccurred())
	d.SucceededPath, d.FailedPath = "/report/dc/h/t/succeeded", "/report/dc/h/t/failed"
	return d
}

// TestIgnition3: Ignition's own parser accepts the config without a complaint, and merges the bootstrap data over it.
func TestIgnition3(t *testing.T) {
	g := NewWithT(t)
	d := ignition(g, "other-3.4.ign")
	d.Network = seedtest.Static()
	ours := parse3(g, read(g, d, seed.IgnitionFile))
	g.Expect(ours.Ignition.Config.Merge).To(HaveLen(1))
	userData, err := dataurl.DecodeString(*ours.Ignition.Config.Merge[0].Source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(userData.Data).To(Equal(d.UserData), "the bootstrap data goes through untouched")
	merged := latest.Merge(ours, parse3(g, string(userData.Data)))
	g.Expect(latest.ParseCompatibleVersion(marshal(g, merged))).Error().NotTo(HaveOccurred())
	files := map[string]string{}
	for _, f := range merged.Storage.Files {
		content, err := dataurl.DecodeString(*f.Contents.Source)
		g.Expect(err).NotTo(HaveOccurred())
		files[f.Path] = string(content.Data)
	}
	g.Expect(files).To(HaveKeyWithValue("/etc/hostname", "theirs\n"), "the bootstrap data decides")
	g.Expect(files).To(HaveKeyWithValue("/etc/capbm/metadata", ContainSubstring("CAPBM_PROVIDER_ID='baremetal://dc/h/m-1'\n")))
	g.Expect(files).To(HaveKey("/etc/systemd/network/10-capbm-bond0.network"))
	g.Expect(files).To(HaveKey("/etc/NetworkManager/system-connections/capbm-bond0.nmconnection"))
	var units []string
	for _, u := range merged.Systemd.Units {
		units = append(units, u.Name)
	}
	g.Expect(units).To(ConsistOf("kubeadm.service", "capbm-report.service", "capbm-report-bootstrap.service"))
}

// TestIgnition2: the library with which Cluster API's kubeadm bootstrap provider writes its configs accepts this package's configs.
func TestIgnition2(t *testing.T) {
	g := NewWithT(t)
	d := ignition(g, "kubeadm-2.3.ign")
	d.Network = seedtest.Static()
	ours, report, err := config23.Parse([]byte(read(g, d, seed.IgnitionFile)))
	g.Expect(err).NotTo(HaveOccurred(), report.String())
	g.Expect(report.Entries).To(BeEmpty())
	g.Expect(ours.Ignition.Config.Append).To(HaveLen(1))
	userData, err := dataurl.DecodeString(ours.Ignition.Config.Append[0].Source)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(userData.Data).To(Equal(d.UserData), "the bootstrap data goes through untouched")
	theirs, report, err := config23.Parse(userData.Data)
	g.Expect(err).NotTo(HaveOccurred(), report.String())
	both := config23.Append(ours, theirs)
	g.Expect(both.Systemd.Units).To(HaveLen(3))
	g.Expect(both.Storage.Files).To(HaveLen(len(ours.Storage.Files) + 2))
}

// TestIgnitionVersions: the config has the version of the bootstrap data, and the error for data that cannot be included does not quote it.
func TestIgnitionVersions(t *testing.T) {
	for _, c := range []struct {
		userData string
		why      string
	}{
		{`{"ignition":{"version":"2.2.0"}}`, ""},
		{`{"ignition":{"version":"2.4.0"}}`, ""},
		{`{"ignition":{"version":"3.0.0"}}`, ""},
		{`{"ignition":{"version":"3.6.0"}}`, ""},
		{`{"ignition":{"version":"2.1.0"}}`, `version "2.1.0": versions 2.2 to 2.4 and 3.x can be served`},
		{`{"ignition":{"version":"1.0.0"}}`, "versions 2.2 to 2.4"},
		{`{"ignition":{"version":"4.0.0"}}`, "versions 2.2 to 2.4"},
		{`{"ignition":{}}`, "versions 2.2 to 2.4"},
		{`{"ignition":"secret"}`, "the data is not an Ignition config in JSON"},
		{"variant: fcos # secret", "the data is not an Ignition config in JSON"},
		{"", "the data is not an Ignition config in JSON"},
	} {
		t.Run(c.userData, func(t *testing.T) {
			g := NewWithT(t)
			d := data(seed.Ignition)
			d.UserData = []byte(c.userData)
			content, ok, err := seed.File(d, seed.IgnitionFile, base)
			checked := seed.Check(seed.Ignition, d.UserData)
			if c.why == "" {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(checked).NotTo(HaveOccurred())
				ours, err := seedtest.ReadIgnition(content)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(ours.Version).NotTo(BeEmpty())
				g.Expect(c.userData).To(ContainSubstring(ours.Version))
				return
			}
			g.Expect(ok).To(BeFalse())
			g.Expect(err).To(MatchError(And(ContainSubstring(c.why), Not(ContainSubstring("secret")))))
			g.Expect(checked).To(Equal(err))
		})
	}
}

// TestIgnitionNetworks: Ignition accepts the files of any network.
func TestIgnitionNetworks(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := NewWithT(t)
		d := ignition(g, "other-3.4.ign")
		d.Network = seedtest.Networks().Draw(rt, "network")
		parse3(g, read(g, d, seed.IgnitionFile))
	})
}

func parse3(g Gomega, content string) types.Config {
	parsed, report, err := config.Parse([]byte(content))
	g.Expect(err).NotTo(HaveOccurred(), report.String())
	g.Expect(report.Entries).To(BeEmpty(), report.String())
	return parsed
}

func marshal(g Gomega, v any) []byte {
	out, err := json.Marshal(v)
	g.Expect(err).NotTo(HaveOccurred())
	return out
}

// readable returns a config with its files decoded.
func readable(t *testing.T, content string) string {
	t.Helper()
	g := NewWithT(t)
	config, err := seedtest.ReadIgnition([]byte(content))
	g.Expect(err).NotTo(HaveOccurred())
	var out strings.Builder
	for _, f := range config.Files {
		_, _ = fmt.Fprintf(&out, "==== %s %#o\n%s", f.Path, f.Mode, f.Content)
	}
	for _, u := range config.Units {
		_, _ = fmt.Fprintf(&out, "==== %s\n%s", u.Name, u.Contents)
	}
	return out.String()
}
