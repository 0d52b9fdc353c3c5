// Package remediation tests the provider's remediation with Cluster API's real MachineHealthCheck and MachineDeployment.
package remediation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/rack"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// healthCheck is the example of docs/guides/remediation.md with shorter times.
const healthCheck = `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: workers, namespace: default}
spec:
  clusterName: demo
  selector:
    matchLabels: {cluster.x-k8s.io/deployment-name: demo-workers}
  checks:
    nodeStartupTimeoutSeconds: 2400
    unhealthyNodeConditions:
    - {type: Ready, status: Unknown, timeoutSeconds: 1}
  remediation:
    templateRef: {apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1, kind: BareMetalRemediationTemplate, name: workers}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: BareMetalRemediationTemplate
metadata: {name: workers, namespace: default}
spec:
  template:
    spec: {retries: 1, timeoutSeconds: 120}
`

// worker is a Machine of the MachineDeployment with its server.
type worker struct {
	machine clusterv1.Machine
	server  *rack.Server
	before  []string // the commands of its BMC before it became unhealthy
}

// TestMachineHealthCheck: two installed workers die. One recovers after its power cycle. The other has lost its disk: a machine on another server replaces
// it, and its host is quarantined.
func TestMachineHealthCheck(t *testing.T) {
	g := NewWithT(t)
	ctx := contracttest.Context(t, 11*time.Minute)
	l := contracttest.Lab(ctx, t)
	// A server without a system does not react to a graceful shutdown.
	p := contracttest.Plane(ctx, t, l, "plane", append(l.Rack.ManagerArgs(), "--shutdown-timeout=10s"))
	g.Expect(l.Register(ctx, p, "server-1", "server-2", "server-3", "server-4")).To(Succeed())
	g.Expect(site.Until(ctx, time.Minute, site.HostsIn(p, v1alpha1.PhaseAvailable, 4))).To(Succeed())
	g.Expect(l.CreateCluster(ctx, p, site.Cluster{Workers: 2, Variables: []string{
		"BOOT_PERSISTENCE=Installed", "KERNEL_COMMAND_LINE=console=ttyS0 " + node.Install,
	}})).To(Succeed())
	g.Expect(site.Until(ctx, 5*time.Minute, site.Running(p, 3))).To(Succeed())
	g.Expect(p.Apply(ctx, healthCheck)).To(Succeed())

	workers, err := workersOf(ctx, l, p)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(workers).To(HaveLen(2))
	well, broken := workers[0], workers[1]
	t.Logf("%s and %s crash; the disk of %s is lost", well.server.Name, broken.server.Name, broken.server.Name)
	g.Expect(broken.server.BreakDisk()).To(Succeed())
	for _, w := range workers {
		w.server.Crash()
	}

	g.Expect(site.Until(ctx, 4*time.Minute, func(ctx context.Context) error { return recovered(ctx, p, well) })).To(Succeed())
	t.Logf("%s is back", well.server.Name)
	g.Expect(well.server.CommandNames()).To(Equal(append(well.before, "ForceOff", "On")), "more than one power cycle")

	g.Expect(site.Until(ctx, 4*time.Minute, site.HostsIn(p, v1alpha1.PhaseQuarantined, 1))).To(Succeed())
	g.Expect(site.Until(ctx, 4*time.Minute, site.Running(p, 3))).To(Succeed())
	t.Logf("%s is replaced", broken.machine.Name)
	var host v1alpha1.BareMetalHost
	g.Expect(p.Client.Get(ctx, client.ObjectKey{Namespace: site.Namespace, Name: broken.server.Name}, &host)).To(Succeed())
	g.Expect(host.Spec.Quarantine.Reason).To(Equal(v1alpha1.ReasonRemediationFailed))
	g.Expect(host.Spec.Quarantine.Message).To(ContainSubstring("power-cycled 1 times"))
	g.Expect(host.Spec.ConsumerRef).To(BeNil())
	g.Expect(host.Spec.PowerHolds).To(BeEmpty())
	g.Expect(broken.server.On()).To(BeFalse())

	now, err := workersOf(ctx, l, p)
	g.Expect(err).NotTo(HaveOccurred())
	var uids []string
	for _, w := range now {
		uids = append(uids, string(w.machine.UID))
		g.Expect(w.server.Name).NotTo(Equal(broken.server.Name))
	}
	g.Expect(uids).To(ContainElement(string(well.machine.UID)), "a machine that came back was replaced")
	g.Expect(uids).NotTo(ContainElement(string(broken.machine.UID)))
	g.Expect(site.Until(ctx, time.Minute, func(ctx context.Context) error { return nothingLeft(ctx, p) })).To(Succeed())
	// Events are written asynchronously.
	told := func(w worker) func() []string { return func() []string { return reasonsOf(ctx, t, p, w.machine.Name) } }
	g.Eventually(told(well), "30s", "1s").Should(Equal([]string{"RemediationStarted", "NodeFenced", "RemediationRecovered"}))
	g.Eventually(told(broken), "30s", "1s").Should(Equal([]string{"RemediationStarted", "NodeFenced", "RemediationHandedOver", "HostQuarantined"}))
}

// workersOf returns the workers and their servers.
func workersOf(ctx context.Context, l *site.Lab, p *plane.Plane) ([]worker, error) {
	var machines clusterv1.MachineList
	err := p.Client.List(ctx, &machines, client.InNamespace(site.Namespace), client.HasLabels{clusterv1.MachineDeploymentNameLabel})
	if err != nil {
		return nil, err
	}
	var hosts v1alpha1.BareMetalHostList
	if err := p.Client.List(ctx, &hosts, client.InNamespace(site.Namespace)); err != nil {
		return nil, err
	}
	var workers []worker
	for _, m := range machines.Items {
		for _, h := range hosts.Items {
			for _, s := range l.Rack.Servers() {
				if h.Spec.ConsumerRef != nil && h.Spec.ConsumerRef.Name == m.Spec.InfrastructureRef.Name && s.Name == h.Name {
					workers = append(workers, worker{m, s, s.CommandNames()})
				}
			}
		}
	}
	slices.SortFunc(workers, func(a, b worker) int { return cmp.Compare(a.server.Name, b.server.Name) })
	return workers, nil
}

// recovered is nil if a worker was power-cycled, its Node is Ready and schedulable, and the MachineHealthCheck has deleted its remediation.
func recovered(ctx context.Context, p *plane.Plane, w worker) error {
	if len(w.server.CommandNames()) < len(w.before)+2 {
		return errors.New("the server was not power-cycled")
	}
	var remediation v1alpha1.BareMetalRemediation
	switch err := p.Client.Get(ctx, client.ObjectKeyFromObject(&w.machine), &remediation); {
	case err == nil:
		return fmt.Errorf("the remediation is there, in %s", remediation.Status.Phase)
	case client.IgnoreNotFound(err) != nil:
		return err
	}
	n, err := nodeOf(ctx, p, w.machine.Status.NodeRef.Name)
	if err != nil {
		return err
	}
	if len(n.Spec.Taints) > 0 {
		return fmt.Errorf("the Node has taints: %v", n.Spec.Taints)
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
			return nil
		}
	}
	return errors.New("the Node is not Ready")
}

// nodeOf reads a Node of the workload cluster.
func nodeOf(ctx context.Context, p *plane.Plane, name string) (*corev1.Node, error) {
	workload, err := site.Workload(ctx, p)
	if err != nil {
		return nil, err
	}
	n := &corev1.Node{}
	return n, workload.Get(ctx, client.ObjectKey{Name: name}, n)
}

// nothingLeft is nil if there is no remediation.
func nothingLeft(ctx context.Context, p *plane.Plane) error {
	var all v1alpha1.BareMetalRemediationList
	if err := p.Client.List(ctx, &all); err != nil {
		return err
	}
	if len(all.Items) > 0 {
		return fmt.Errorf("%d remediations are left, the first in %s", len(all.Items), all.Items[0].Status.Phase)
	}
	return nil
}

// reasonsOf returns the reasons of the remediation's events of a Machine, oldest first.
func reasonsOf(ctx context.Context, t *testing.T, p *plane.Plane, machine string) []string {
	t.Helper()
	var list eventsv1.EventList
	NewWithT(t).Expect(p.Client.List(ctx, &list, client.InNamespace(site.Namespace))).To(Succeed())
	slices.SortStableFunc(list.Items, func(a, b eventsv1.Event) int { return a.EventTime.Compare(b.EventTime.Time) })
	var reasons []string
	for _, e := range list.Items {
		if e.Regarding.Kind == "Machine" && e.Regarding.Name == machine && strings.HasPrefix(e.ReportingController, "capbm") {
			t.Logf("%s: %s: %s", machine, e.Reason, e.Note)
			reasons = append(reasons, e.Reason)
		}
	}
	return reasons
}
