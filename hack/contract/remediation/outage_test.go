package remediation

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// outageTimeout is how long the Node of a Machine may be lost before the MachineHealthCheck replaces the Machine. A lost Node is noticed after 40 to 55 seconds, and the
// loss of power is reported two minutes later.
const outageTimeout = 4 * time.Minute

// noLimit is a MachineHealthCheck without a limit: it replaces all machines of a rack.
const noLimit = `apiVersion: cluster.x-k8s.io/v1beta2
kind: MachineHealthCheck
metadata: {name: workers, namespace: default}
spec:
  clusterName: demo
  selector:
    matchLabels: {cluster.x-k8s.io/deployment-name: demo-workers}
  checks:
    nodeStartupTimeoutSeconds: 2400
    unhealthyNodeConditions:
    - {type: Ready, status: Unknown, timeoutSeconds: %d}
`

// outage is a rack of workers that run from their disks.
type outage struct {
	lab     *site.Lab
	plane   *plane.Plane
	workers []worker
}

// holdFor returns how long the power hold lasts: HOLD, or two minutes longer than the time limit. The Node is lost a minute after its server.
func holdFor(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("HOLD")
	if text == "" {
		return outageTimeout + 2*time.Minute
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < outageTimeout+2*time.Minute {
		t.Fatalf("HOLD=%s is not a duration of at least %s", text, outageTimeout+2*time.Minute)
	}
	return d
}

// TestOutage: what host, Machine and a MachineHealthCheck without a limit do when servers lose their power. OUTAGE is the number of workers, 40 by default, and
// HOLD=40m how long the power hold lasts.
func TestOutage(t *testing.T) {
	count := 40
	if text := os.Getenv("OUTAGE"); text != "" {
		var err error
		if count, err = strconv.Atoi(text); err != nil || count < 3 {
			t.Fatalf("OUTAGE=%s is not a number of at least 3", text)
		}
	}
	g := NewWithT(t)
	ctx := contracttest.Context(t, 55*time.Minute+holdFor(t)) // the parts before the hold, and after it
	l := contracttest.Lab(ctx, t)
	p := contracttest.Plane(ctx, t, l, "plane", append(l.Rack.ManagerArgs(), "--shutdown-timeout=10s"))
	var names []string
	for i := range count + 1 {
		names = append(names, fmt.Sprintf("server-%02d", i+1))
	}
	g.Expect(l.Register(ctx, p, names...)).To(Succeed())
	g.Expect(site.Until(ctx, 3*time.Minute, site.HostsIn(p, v1alpha1.PhaseAvailable, count+1))).To(Succeed())
	g.Expect(l.CreateCluster(ctx, p, site.Cluster{Workers: count, Variables: []string{
		"BOOT_PERSISTENCE=Installed", "KERNEL_COMMAND_LINE=console=ttyS0 " + node.Install,
	}})).To(Succeed())
	g.Expect(site.Until(ctx, 15*time.Minute, site.Running(p, count+1))).To(Succeed())
	workers, err := workersOf(ctx, l, p)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(workers).To(HaveLen(count))
	o := &outage{lab: l, plane: p, workers: workers}

	// One at a time: a test of one worker would otherwise be one of the rack, too.
	contracttest.RunParts(t, o, []contracttest.Part[*outage]{
		{Name: "the provider powers a failure domain on", Run: (*outage).powerOn},
		{Name: "a MachineHealthCheck without a limit is added", Run: (*outage).addHealthCheck},
		{Name: "a BMC reads off for a minute while its server runs", Run: (*outage).misread},
		{Name: "an operating system powers itself off", Run: (*outage).powerOff},
		{Name: "a power hold is longer than the time limit", Run: (*outage).hold},
		{Name: "the rack is back within the time limit", Run: (*outage).short},
		{Name: "the rack is back after the time limit", Run: (*outage).long},
	})
}

// powerOn: the servers of a failure domain that lost their power together are powered on by the provider, each once. One that is off alone is not.
func (o *outage) powerOn(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	rack := o.workers[:3]
	for _, w := range rack {
		o.modify(t, w, func(h *v1alpha1.BareMetalHost) {
			h.Spec.FailureDomain, h.Spec.WhenPoweredOff = "rack-1", v1alpha1.WhenPoweredOffPowerOn
		})
	}
	rack[0].server.SetPower(false)
	o.until(t, 8*time.Minute, "is off alone", rack[0], func(h *v1alpha1.BareMetalHost, m *clusterv1.Machine) bool {
		message := conditions.GetMessage(m, clusterv1.InfrastructureReadyCondition)
		return isOff(h, m) && strings.Contains(message, `2 other servers of failure domain "rack-1" did not lose their power`)
	})
	o.same(t, rack[0])
	lost := time.Now()
	for _, w := range rack[1:] {
		w.server.SetPower(false)
	}
	for _, w := range rack {
		o.until(t, 15*time.Minute, "is powered on", w, func(h *v1alpha1.BareMetalHost, m *clusterv1.Machine) bool {
			return isBack(h, m) && h.Status.PowerRestore != nil && h.Status.PowerRestore.EndTime != nil
		})
		o.same(t, w, "On")
	}
	t.Logf("powered on and Ready after %s", time.Since(lost).Round(time.Second))
	for _, w := range rack {
		o.modify(t, w, func(h *v1alpha1.BareMetalHost) { h.Spec.WhenPoweredOff = "" })
	}
	workers, err := workersOf(t.Context(), o.lab, o.plane) // with the commands until now
	g.Expect(err).NotTo(HaveOccurred())
	o.workers = workers
}

func (o *outage) addHealthCheck(t *testing.T) {
	t.Helper()
	NewWithT(t).Expect(o.plane.Apply(t.Context(), fmt.Sprintf(noLimit, int(outageTimeout.Seconds())))).To(Succeed())
}

// misread: a BMC that contradicts a Ready Node for a minute changes nothing about its machine.
func (o *outage) misread(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	w := o.workers[0]
	w.server.ReadOff(70 * time.Second)
	o.readPower(t, w)
	o.until(t, time.Minute, "reads as off", w, func(h *v1alpha1.BareMetalHost, _ *clusterv1.Machine) bool { return h.Status.Power == v1alpha1.PowerOff })
	end := time.Now().Add(90 * time.Second)
	o.until(t, 2*time.Minute, "reads as on again", w, func(h *v1alpha1.BareMetalHost, m *clusterv1.Machine) bool {
		g.Expect(conditions.IsTrue(h, v1alpha1.ReadyCondition)).To(BeTrue(), conditions.GetMessage(h, v1alpha1.ReadyCondition))
		g.Expect(conditions.IsTrue(m, clusterv1.InfrastructureReadyCondition)).To(BeTrue())
		return h.Status.Power == v1alpha1.PowerOn && time.Now().After(end)
	})
	o.same(t, w)
}

// powerOff: a server that its operating system powers off is reported on host and Machine. An annotation powers it on.
func (o *outage) powerOff(t *testing.T) {
	t.Helper()
	w := o.workers[1]
	w.server.SetPower(false)
	start := time.Now()
	o.until(t, 4*time.Minute, "is reported as powered off", w, isOff)
	t.Logf("reported after %s", time.Since(start).Round(time.Second))
	o.modify(t, w, func(h *v1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.PowerOnPrefix+"anna", "done")
	})
	o.until(t, 3*time.Minute, "is back", w, isBack)
	o.same(t, w, "On")
}

// hold: a machine whose server is kept off is not replaced, also not while it starts after that.
func (o *outage) hold(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	w := o.workers[2]
	o.modify(t, w, func(h *v1alpha1.BareMetalHost) {
		h.Spec.PowerHolds = []v1alpha1.PowerHold{{Holder: "anna", Reason: "new disk"}}
	})
	o.until(t, 3*time.Minute, "is kept off", w, func(h *v1alpha1.BareMetalHost, m *clusterv1.Machine) bool {
		return h.Spec.ProviderState.PowerHoldOffTime != nil && conditions.GetReason(m, clusterv1.InfrastructureReadyCondition) == v1alpha1.ReasonPowerHold
	})
	end := time.Now().Add(holdFor(t))
	o.until(t, holdFor(t)+time.Minute, "stays", w, func(_ *v1alpha1.BareMetalHost, m *clusterv1.Machine) bool {
		g.Expect(m.Annotations).To(HaveKeyWithValue(clusterv1.MachineSkipRemediationAnnotation, v1alpha1.SkipRemediationValuePrefix+w.server.Name))
		return time.Now().After(end)
	})
	o.modify(t, w, func(h *v1alpha1.BareMetalHost) { h.Spec.PowerHolds = nil })
	o.until(t, 3*time.Minute, "is back", w, func(h *v1alpha1.BareMetalHost, m *clusterv1.Machine) bool {
		_, skips := m.Annotations[clusterv1.MachineSkipRemediationAnnotation]
		return isBack(h, m) && !skips
	})
	o.same(t, w, "GracefulShutdown", "On")
}

// short: the rack is off for less than the time limit. Every host and Machine reports that, and no machine is replaced.
func (o *outage) short(t *testing.T) {
	t.Helper()
	o.loseRack(t)
	for _, w := range o.workers {
		w.server.SetPower(true)
	}
	for _, w := range o.workers {
		o.until(t, 5*time.Minute, "is back", w, isBack)
		o.same(t, w)
	}
}

// long: the rack stays off. All its machines are replaced, with the same servers: nothing limits the MachineHealthCheck.
func (o *outage) long(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	uids := map[string]bool{}
	for _, w := range o.workers {
		uids[string(w.machine.UID)] = true
	}
	o.loseRack(t)
	g.Expect(site.Until(t.Context(), outageTimeout+15*time.Minute, func(ctx context.Context) error {
		if err := site.Running(o.plane, len(o.workers)+1)(ctx); err != nil {
			return err
		}
		now, err := workersOf(ctx, o.lab, o.plane)
		for _, w := range now {
			if uids[string(w.machine.UID)] {
				return fmt.Errorf("machine %s was not replaced", w.machine.Name)
			}
		}
		return err
	})).To(Succeed())
	t.Logf("%d machines were replaced", len(o.workers))
}

// loseRack switches all workers off, and waits until all are reported, before the MachineHealthCheck acts.
func (o *outage) loseRack(t *testing.T) {
	t.Helper()
	start := time.Now()
	for i := range o.workers {
		o.workers[i].before = o.workers[i].server.CommandNames()
		o.workers[i].server.SetPower(false)
	}
	for _, w := range o.workers {
		o.until(t, 4*time.Minute, "is reported as powered off", w, isOff)
		o.same(t, w)
	}
	t.Logf("%d hosts and Machines were reported after %s", len(o.workers), time.Since(start).Round(time.Second))
}

// isOff is true if host and Machine report that the server is off.
func isOff(h *v1alpha1.BareMetalHost, m *clusterv1.Machine) bool {
	return conditions.GetReason(h, v1alpha1.ReadyCondition) == v1alpha1.ReasonPoweredOff && h.Status.PoweredOffTime != nil &&
		conditions.GetReason(m, clusterv1.InfrastructureReadyCondition) == v1alpha1.ReasonPoweredOff
}

// isBack is true if host, Machine and Node are Ready.
func isBack(h *v1alpha1.BareMetalHost, m *clusterv1.Machine) bool {
	return conditions.IsTrue(h, v1alpha1.ReadyCondition) && h.Status.Power == v1alpha1.PowerOn && h.Status.PoweredOffTime == nil &&
		conditions.IsTrue(m, clusterv1.InfrastructureReadyCondition) && conditions.IsTrue(m, clusterv1.MachineNodeReadyCondition)
}

// until waits until host and Machine of a worker are as described.
func (o *outage) until(t *testing.T, timeout time.Duration, what string, w worker, check func(*v1alpha1.BareMetalHost, *clusterv1.Machine) bool) {
	t.Helper()
	NewWithT(t).Expect(site.Until(t.Context(), timeout, func(ctx context.Context) error {
		var host v1alpha1.BareMetalHost
		var machine clusterv1.Machine
		if err := o.plane.Client.Get(ctx, client.ObjectKey{Namespace: site.Namespace, Name: w.server.Name}, &host); err != nil {
			return err
		}
		if err := o.plane.Client.Get(ctx, client.ObjectKeyFromObject(&w.machine), &machine); err != nil {
			return err
		}
		if check(&host, &machine) {
			return nil
		}
		return fmt.Errorf("%s: not yet: %s; power %s, host %+v, Machine %+v", w.server.Name, what, host.Status.Power,
			conditions.Get(&host, v1alpha1.ReadyCondition), conditions.Get(&machine, clusterv1.InfrastructureReadyCondition))
	})).To(Succeed())
}

// same demands that a worker is the same machine, whose server got only these commands.
func (o *outage) same(t *testing.T, w worker, commands ...string) {
	t.Helper()
	g := NewWithT(t)
	var machine clusterv1.Machine
	g.Expect(o.plane.Client.Get(t.Context(), client.ObjectKeyFromObject(&w.machine), &machine)).To(Succeed())
	g.Expect(machine.UID).To(Equal(w.machine.UID))
	g.Expect(machine.DeletionTimestamp).To(BeNil())
	g.Expect(w.server.CommandNames()[len(w.before):]).To(Equal(append([]string{}, commands...)))
}

// modify changes the host of a worker.
func (o *outage) modify(t *testing.T, w worker, change func(*v1alpha1.BareMetalHost)) {
	t.Helper()
	g := NewWithT(t)
	var host v1alpha1.BareMetalHost
	g.Expect(o.plane.Client.Get(t.Context(), client.ObjectKey{Namespace: site.Namespace, Name: w.server.Name}, &host)).To(Succeed())
	before := host.DeepCopy()
	change(&host)
	g.Expect(o.plane.Client.Patch(t.Context(), &host, client.MergeFrom(before))).To(Succeed())
}

// readPower has the power of a worker's server read now.
func (o *outage) readPower(t *testing.T, w worker) {
	t.Helper()
	o.modify(t, w, func(h *v1alpha1.BareMetalHost) {
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, v1alpha1.RetryBMCAnnotation, "anna")
	})
}
