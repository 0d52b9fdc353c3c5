package host_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// logEntries returns the notes of the events that are entries of the log of a BMC, with how often each is there.
func logEntries(t *testing.T, g Gomega, namespace string) map[string]int {
	t.Helper()
	var all eventsv1.EventList
	g.Expect(env.Client.List(t.Context(), &all, client.InNamespace(namespace))).To(Succeed())
	notes := map[string]int{}
	for i := range all.Items {
		if e := &all.Items[i]; e.Reason == controllers.EventBMCLogEntry {
			notes[e.Note+" "+e.EventTime.String()]++
			g.Expect(e.Regarding.Name).To(Equal("h"))
		}
	}
	return notes
}

// TestBMCLog: on request the entries of the log of a BMC are events of the host, each once. Without a request the log is not read.
func TestBMCLog(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	namespace := env.Namespace(t)
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{})
	register(t, server)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(logEntries(t, g, namespace)).To(BeEmpty())
	for range 2 {
		controllerstest.Modify(t, env, server.Host, annotate(v1alpha1.RetryBMCAnnotation))
		wait(t, server, withoutAnnotation)
		g.Eventually(func(g Gomega) {
			g.Expect(logEntries(t, g, namespace)).To(And(Not(BeEmpty()), HaveEach(1)))
		}, 30*time.Second, 100*time.Millisecond).Should(Succeed())
		waitForPolls(t, server)
	}
	g.Expect(logEntries(t, g, namespace)).To(HaveEach(1))
}
