package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/bench/report"
)

func TestMain(m *testing.M) {
	controllerstest.Need(m, "make lab-programs", ".cache/bin/etcd", ".cache/bin/kube-apiserver", ".cache/bin/kube-controller-manager")
	os.Exit(m.Run())
}

// TestFleet runs a small fleet through all phases, and checks the number of requests per host. It does not check durations, which depend on the load of the
// machine.
func TestFleet(t *testing.T) {
	g := NewWithT(t)
	t.Chdir("../../..") // the programs are built from there
	out := filepath.Join(t.TempDir(), "out.json")
	g.Expect(measure(t.Context(), options{hosts: 20, boots: 12, managers: 1, idle: 2 * time.Second, out: out})).To(Succeed())
	run, err := report.Read(out)
	g.Expect(err).NotTo(HaveOccurred())

	phases := map[string]*report.Phase{}
	for i := range run.Phases {
		phases[run.Phases[i].Name] = &run.Phases[i]
	}
	g.Expect(phases).To(And(HaveLen(9), HaveKey("register"), HaveKey("claim"), HaveKey("boot"), HaveKey("adopt"), HaveKey("idle"), HaveKey("reuse"),
		HaveKey("restart"), HaveKey("release"), HaveKey("delete")))
	// A boot is 31 requests (decision 0061), and a release 12. The rest is for stages that a busy machine writes apart. Of the events of a registration, one reports that the
	// connection to the emulated BMC is not verified.
	for name, most := range map[string]float64{"register": 7, "boot": 32, "release": 14, "delete": 4} {
		g.Expect(phases[name].Requested(report.All)).To(And(BeNumerically(">=", 1), BeNumerically("<=", most)), "API requests a host, %s: %v", name, phases[name].Requests)
	}
	g.Expect(phases["boot"].Requested(report.Conflicts)).To(BeNumerically("<=", 1), "conflicts: %v", phases["boot"].Requests)
	g.Expect(phases["restart"].Requested(report.Writes)).To(BeZero())
	g.Expect(phases["restart"].BMCCommands).To(BeZero())
	g.Expect(phases["boot"].BMCCommands).To(BeEquivalentTo(2), "the override, and power")
	g.Expect(run.Reactions).To(And(HaveKey("Machine created"), HaveKey("host freed"), HaveKey("BareMetalBoot shows DHCP"), HaveKey("BMC shows On")))
	g.Expect(phases["boot"].Requests).To(And(HaveKey("PATCH baremetalboots"), HaveKey("APPLY baremetalboots/status"), HaveKey("PATCH baremetalhosts")))
	g.Expect(phases["boot"].WatchBytes).To(And(HaveKey("baremetalboots"), HaveKey("baremetalhosts"), HaveKey("baremetalmachines")))
	g.Expect(run.Facts).To(And(HaveKey("restart: seconds until boots are served"), HaveKey("after adopt: API writes an object"), HaveKey("after reuse: API writes an object")))
}
