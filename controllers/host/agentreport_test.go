package host_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
)

// inspectionTimeout is how long a test waits for the start of an inspection: two readings, PowerSettle apart, must show that the server is off.
const inspectionTimeout = time.Minute

// newInspectedServer returns a server that the agent inspects.
func newInspectedServer(t *testing.T, namespace, name string) *controllerstest.Server {
	t.Helper()
	server := controllerstest.NewServer(t, namespace, name, bmctest.Options{})
	server.Host.Spec.Inspection = v1alpha1.InspectionAgent
	return server
}

// waitForAgent waits until the server was powered on for its inspection.
func waitForAgent(t *testing.T, server *controllerstest.Server) {
	t.Helper()
	g := NewWithT(t)
	wait(t, server, phase(v1alpha1.PhaseInspecting))
	g.Eventually(server.On, inspectionTimeout).Should(BeTrue())
	g.Expect(server.CommandNames()).NotTo(ContainElement(ContainSubstring("Off")), "a server that is off is not powered off")
}

// reportHardware does what the boot server does with the report of an agent, and ends the agent's plan.
func reportHardware(t *testing.T, server *controllerstest.Server, threads int32) {
	t.Helper()
	g, h := NewWithT(t), server.Host
	boot := controllerstest.BootOf(t, env, h)
	g.Expect(boot.Spec.Purpose).To(Equal(v1alpha1.PurposeInspect))
	g.Expect(boot.Spec.MachineName).To(BeEmpty())
	report := &v1alpha1.BareMetalInspection{ObjectMeta: metav1.ObjectMeta{Namespace: h.Namespace, Name: h.Name}}
	spec := v1alpha1.BareMetalInspectionSpec{BootNumber: boot.Spec.Number, ReceivedTime: metav1.Now().Rfc3339Copy(), Inspection: wire.Inspection{
		CPU:   wire.InspectedCPU{Threads: threads},
		NICs:  []wire.InspectedNIC{{MACAddress: h.Spec.BootMACAddresses[0], LinkUp: true, SpeedMbps: 25000}},
		Disks: []wire.InspectedDisk{{SizeBytes: 480e9}},
	}}
	if err := env.Client.Get(t.Context(), keyOf(h), report); err == nil {
		controllerstest.Modify(t, env, report, func(r *v1alpha1.BareMetalInspection) { r.Spec = spec })
	} else {
		report.Spec = spec
		env.Create(t, report)
	}
	controllerstest.Modify(t, env, boot, func(b *v1alpha1.BareMetalBoot) { b.Spec.AgentDoneTime = new(metav1.Now()) })
}

// TestInspectionByAgent: a new host is inspected before it is available. The status has the summary of the report, and a condition the contradictions. A request
// repeats the inspection.
func TestInspectionByAgent(t *testing.T) {
	g := NewWithT(t)
	stop := start(t)
	server := newInspectedServer(t, env.Namespace(t), "h")
	register(t, server)
	waitForAgent(t, server)
	g.Expect(conditions.IsTrue(server.Host, v1alpha1.AvailableCondition)).To(BeFalse())
	g.Expect(server.Host.Annotations).NotTo(HaveKey(v1alpha1.BlockMoveAnnotation))
	threads := server.Host.Status.Hardware.CPU.Threads
	reportHardware(t, server, threads)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	g.Expect(server.On()).To(BeFalse())
	g.Expect(controllerstest.BootOf(t, env, server.Host).Spec.VoidedTime).NotTo(BeNil())
	summary := server.Host.Status.Inspection
	g.Expect(summary.CPU).To(Equal(threads))
	g.Expect(summary.NICs).To(Equal([]v1alpha1.NICGroup{{Count: 1, SpeedMbps: 25000}}))
	g.Expect(conditions.IsTrue(server.Host, v1alpha1.InspectionConsistentCondition)).To(BeTrue(), conditions.GetMessage(server.Host, v1alpha1.InspectionConsistentCondition))
	report := &v1alpha1.BareMetalInspection{}
	g.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), report)).To(Succeed())
		g.Expect(report.OwnerReferences).To(ConsistOf(HaveField("UID", server.Host.UID)), "a missing owner is restored")
	}).Should(Succeed())

	stop()
	commands := server.CommandNames()
	defer start(t)()
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Labels = map[string]string{"a": "b"} })
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseAvailable))
		g.Expect(h.Status.Inspection).To(Equal(summary), "the next manager knows the summary from the status")
	})
	g.Expect(server.CommandNames()).To(Equal(commands), "an inspection is not repeated because the provider restarts")

	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) {
		h.Annotations = map[string]string{v1alpha1.InspectAnnotation: "anna: new disks"}
	})
	wait(t, server, phase(v1alpha1.PhaseInspecting))
	g.Eventually(server.On, inspectionTimeout).Should(BeTrue())
	reportHardware(t, server, threads+1)
	wait(t, server, phase(v1alpha1.PhaseAvailable))
	wait(t, server, reason(v1alpha1.InspectionConsistentCondition, v1alpha1.ReasonInspectionContradicts))
	g.Expect(server.Host.Annotations).NotTo(HaveKey(v1alpha1.InspectAnnotation))
	g.Expect(server.Host.Status.Inspection.CPU).To(Equal(threads + 1))
	g.Expect(conditions.IsTrue(server.Host, v1alpha1.ReadyCondition)).To(BeTrue(), "a contradiction takes no host out of service")

	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.Inspection = "" })
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Inspection).To(BeNil())
		g.Expect(conditions.Has(h, v1alpha1.InspectionConsistentCondition)).To(BeFalse())
	})
}

// TestInspectionOfClaimedHost: a machine that claims a host during its inspection gets it. The server is powered off first.
func TestInspectionOfClaimedHost(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	server := newInspectedServer(t, env.Namespace(t), "h")
	register(t, server)
	waitForAgent(t, server)
	env.NewClaim(t, server.Host.Namespace, "m")
	controllerstest.Modify(t, env, server.Host, func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = controllerstest.Claimed("m") })
	g.Eventually(func() v1alpha1.BareMetalBootSpec { return controllerstest.BootOf(t, env, server.Host).Spec }, inspectionTimeout).Should(And(
		HaveField("Purpose", v1alpha1.PurposeProvision), HaveField("MachineName", "m"), HaveField("Number", BeEquivalentTo(2))))
	g.Expect(server.CommandNames()).To(ContainElement("ForceOff"))
}

// TestInspectionWaitsForMove: while a Cluster of the namespace is paused, the hosts may be moving, and no inspection starts.
func TestInspectionWaitsForMove(t *testing.T) {
	g := NewWithT(t)
	defer start(t)()
	namespace := env.Namespace(t)
	env.Create(t, &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "c"}, Spec: clusterv1.ClusterSpec{Paused: new(true)}})
	server := newInspectedServer(t, namespace, "h")
	register(t, server)
	wait(t, server, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseUnavailable))
		g.Expect(conditions.GetMessage(h, v1alpha1.AvailableCondition)).To(ContainSubstring(`Cluster "c" is no longer paused`))
	})
	g.Expect(server.CommandNames()).To(BeEmpty())
}
