package host_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// logEntries returns the notes of the events that are entries of the logs of a BMC, with how often each is there.
func logEntries(t *testing.T, g Gomega, namespace string) map[string]int {
	t.Helper()
	var all eventsv1.EventList
	g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
	notes := map[string]int{}
	for i := range all.Items {
		if e := &all.Items[i]; e.Reason == controllers.EventBMCLogEntry {
			notes[e.Note]++
			g.Expect(e.Regarding.Name).To(Equal("h"))
		}
	}
	return notes
}

// TestBMCLog: a new warning in the log of a BMC is an event of the host. On request entries of every severity are, such as the power button. An entry is one event, whether it was new
// or requested, and however often it is.
func TestBMCLog(t *testing.T) {
	g := NewWithT(t)
	settings := controllerstest.Settings()
	settings.HealthInterval = 200 * time.Millisecond
	defer startWith(t, settings)()
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	before := server.Requests()
	g.Eventually(server.Requests, "10s").Should(BeNumerically(">", before+20), "it is polled")
	g.Expect(logEntries(t, g, namespace)).To(BeEmpty())
	server.Log(bmc.HealthOK, "The power button was pressed")
	server.SetHealth(bmctest.PartPowerSupply, bmc.HealthWarning)
	warning, button := ContainSubstring("Warning: PSU 1 is Warning"), ContainSubstring("OK: The power button was pressed")
	g.Eventually(func(g Gomega) {
		g.Expect(logEntries(t, g, namespace)).To(HaveKey(warning))
	}, 30*time.Second, 100*time.Millisecond).Should(Succeed())
	g.Expect(logEntries(t, g, namespace)).NotTo(HaveKey(button))
	for range 2 {
		controllerstest.Modify(t, env, server.Host, annotate(v1alpha1.RetryBMCAnnotation))
		wait(t, server, withoutAnnotation)
		g.Eventually(func(g Gomega) {
			g.Expect(logEntries(t, g, namespace)).To(And(HaveKey(warning), HaveKey(button), HaveEach(1)))
		}, 30*time.Second, 100*time.Millisecond).Should(Succeed())
		waitForPolls(t, server)
	}
	g.Expect(logEntries(t, g, namespace)).To(HaveEach(1))
}
