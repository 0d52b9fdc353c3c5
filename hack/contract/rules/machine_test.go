package rules

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	gomegatypes "github.com/onsi/gomega/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// because matches an object whose condition is not True for a reason.
func because(kind, reason string) gomegatypes.GomegaMatcher {
	return WithTransform(func(o conditions.Getter) string {
		if c := conditions.Get(o, kind); c != nil && c.Status != "True" {
			return c.Reason
		}
		return ""
	}, Equal(reason))
}

// mirrored is nil when Cluster API says of an object in its condition InfrastructureReady what we say of ours in Ready.
func mirrored(g Gomega, theirs, ours conditions.Getter) {
	want, got := conditions.Get(ours, v1alpha1.ReadyCondition), conditions.Get(theirs, clusterv1.InfrastructureReadyCondition)
	g.Expect(want).NotTo(BeNil())
	g.Expect(got).NotTo(BeNil())
	g.Expect(got.Status).To(Equal(want.Status))
	g.Expect(got.Reason).To(Equal(want.Reason))
	g.Expect(got.Message).To(Equal(want.Message))
}

// machineWaits follows a BareMetalMachine through what it waits for, in the order of the contract. Each time the Machine reports the same.
func (s *suite) machineWaits(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	machine, infra := &clusterv1.Machine{}, &v1alpha1.BareMetalMachine{}
	waitsFor := func(reason string) {
		t.Helper()
		eventually(t, func(g Gomega) {
			g.Expect(c.Get(ctx, types.NamespacedName{Namespace: side, Name: waiting}, infra)).To(Succeed())
			g.Expect(c.Get(ctx, types.NamespacedName{Namespace: side, Name: waiting}, machine)).To(Succeed())
			g.Expect(infra).To(because(v1alpha1.HostClaimedCondition, reason))
			g.Expect(infra).To(because(v1alpha1.ReadyCondition, reason))
			mirrored(g, machine, infra)
		})
	}
	waitsFor(v1alpha1.ReasonWaitingForCluster)
	g.Expect(infra.OwnerReferences).To(ContainElement(And(HaveField("Kind", "Machine"), HaveField("Name", waiting))))
	g.Expect(infra.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer), "before anything is done")
	ownerless := &v1alpha1.BareMetalMachine{}
	s.get(t, side, "ownerless", ownerless)
	g.Expect(ownerless.Finalizers).To(BeEmpty(), "without a Machine nothing is done")
	g.Expect(ownerless.Status.Conditions).To(BeEmpty())

	cluster := &clusterv1.Cluster{ObjectMeta: meta(side, waiting)}
	g.Expect(c.Patch(ctx, cluster, merge(`{"spec":{"controlPlaneEndpoint":{"host":"192.0.2.7","port":6443}}}`))).To(Succeed())
	waitsFor(v1alpha1.ReasonWaitingForBootstrapData)

	g.Expect(c.Create(ctx, &corev1.Secret{ObjectMeta: meta(side, "data"), Type: clusterv1.ClusterSecretType, StringData: map[string]string{"value": "#cloud-config"}})).To(Succeed())
	g.Expect(c.Patch(ctx, machine, merge(`{"spec":{"bootstrap":{"dataSecretName":"data"}}}`))).To(Succeed())
	waitsFor(v1alpha1.ReasonNoHostFits)
	g.Expect(infra.Spec.ProviderID).To(BeEmpty())
	g.Expect(infra.Status.Initialization.Provisioned).To(BeNil())
}

// machinePaused shows that nothing is done with a paused machine: what is taken from it while it is, comes back after.
func (s *suite) machinePaused(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	infra := &v1alpha1.BareMetalMachine{ObjectMeta: meta(side, waiting)}
	is := func(paused bool) {
		t.Helper()
		eventually(t, func(g Gomega) {
			g.Expect(c.Get(ctx, client.ObjectKeyFromObject(infra), infra)).To(Succeed())
			pausedCondition(g, infra, infra.Generation, paused)
		})
	}
	g.Expect(c.Patch(ctx, infra, merge(`{"metadata":{"annotations":{%q:""}}}`, clusterv1.PausedAnnotation))).To(Succeed())
	is(true)
	g.Expect(c.Patch(ctx, infra, merge(`{"metadata":{"finalizers":null},"spec":{"boot":{"commandLine":"quiet"}}}`))).To(Succeed())
	is(true) // the condition has the observed generation, so the change was observed
	g.Expect(infra.Finalizers).To(BeEmpty())
	g.Expect(c.Patch(ctx, infra, merge(`{"metadata":{"annotations":{%q:null}}}`, clusterv1.PausedAnnotation))).To(Succeed())
	is(false)
	eventually(t, func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(infra), infra)).To(Succeed())
		g.Expect(infra.Finalizers).To(ContainElement(v1alpha1.MachineFinalizer))
	})
}

// pausedCondition expects that a generation of an object was observed as paused, or as not paused.
func pausedCondition(g Gomega, o conditions.Getter, generation int64, paused bool) {
	c := conditions.Get(o, clusterv1.PausedCondition)
	g.Expect(c).NotTo(BeNil())
	g.Expect(conditions.IsTrue(o, clusterv1.PausedCondition)).To(Equal(paused), c.Message)
	g.Expect(c.ObservedGeneration).To(Equal(generation))
}

func (s *suite) machineDeletedEarly(t *testing.T) {
	g := NewWithT(t)
	machine := &clusterv1.Machine{ObjectMeta: meta(side, waiting)}
	g.Expect(s.plane.Client.Delete(t.Context(), machine)).To(Succeed())
	s.gone(t, side, waiting, &v1alpha1.BareMetalMachine{})
	s.gone(t, side, waiting, machine)
}

// gone waits until an object is not there.
func (s *suite) gone(t *testing.T, namespace, name string, o client.Object) {
	t.Helper()
	eventually(t, func(g Gomega) {
		err := s.plane.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, o)
		g.Expect(apierrors.IsNotFound(err)).To(BeTrue(), "%s: %v", name, err)
	})
}

func (s *suite) providerID(t *testing.T) {
	g := NewWithT(t)
	g.Expect(site.Running(s.plane, 3)(t.Context())).To(Succeed(), "each Node has the provider ID of its BareMetalMachine")
	for machine, infra := range s.pairs(t) {
		g.Expect(infra.Spec.ProviderID).To(Equal(inventory.ProviderID(infra.Namespace, infra.Status.HostRef.Name, infra.Name)))
		g.Expect(machine.Spec.ProviderID).To(Equal(infra.Spec.ProviderID))
		err := s.plane.Client.Patch(t.Context(), infra, merge(`{"spec":{"providerID":"baremetal://other"}}`))
		g.Expect(err).To(MatchError(ContainSubstring("providerID cannot be changed")))
	}
}

// failureDomain shows that a machine is in the failure domain of its Machine, and reports it.
func (s *suite) failureDomain(t *testing.T) {
	g := NewWithT(t)
	asked := 0
	for machine, infra := range s.pairs(t) {
		host := &v1alpha1.BareMetalHost{}
		s.get(t, infra.Namespace, infra.Status.HostRef.Name, host)
		g.Expect(infra.Status.FailureDomain).To(Equal(host.Spec.FailureDomain))
		g.Expect(machine.Status.FailureDomain).To(Equal(host.Spec.FailureDomain))
		if machine.Spec.FailureDomain != "" {
			g.Expect(host.Spec.FailureDomain).To(Equal(machine.Spec.FailureDomain))
			asked++
		}
	}
	g.Expect(asked).To(BeNumerically(">=", 1))
}

// failureDomainStrict: with a host free, but none in the failure domain that the Machine wants, the machine waits and says so.
func (s *suite) failureDomainStrict(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	g.Expect(site.HostsIn(s.plane, v1alpha1.PhaseAvailable, 1)(ctx)).To(Succeed(), "a host is free")
	var data string
	for machine := range s.pairs(t) {
		data = *machine.Spec.Bootstrap.DataSecretName
	}
	infra := &v1alpha1.BareMetalMachine{ObjectMeta: meta(site.Namespace, "stranger"), Spec: s.machineSpec(t)}
	machine := &clusterv1.Machine{ObjectMeta: meta(site.Namespace, "stranger"), Spec: clusterv1.MachineSpec{
		ClusterName: site.ClusterName, FailureDomain: "room-z", Bootstrap: clusterv1.Bootstrap{DataSecretName: &data},
		InfrastructureRef: infrastructure("BareMetalMachine", "stranger"),
	}}
	g.Expect(c.Create(ctx, infra)).To(Succeed())
	g.Expect(c.Create(ctx, machine)).To(Succeed())
	eventually(t, func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(infra), infra)).To(Succeed())
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
		g.Expect(infra).To(because(v1alpha1.HostClaimedCondition, v1alpha1.ReasonNoHostFits))
		g.Expect(conditions.Get(machine, clusterv1.InfrastructureReadyCondition)).To(HaveField("Message", ContainSubstring("failure domain")))
	})
	g.Expect(site.HostsIn(s.plane, v1alpha1.PhaseAvailable, 1)(ctx)).To(Succeed())
	g.Expect(c.Delete(ctx, machine)).To(Succeed())
	s.gone(t, site.Namespace, "stranger", machine)
	s.gone(t, site.Namespace, "stranger", infra)
}

// addresses shows that the addresses are those of the Node.
func (s *suite) addresses(t *testing.T) {
	g := NewWithT(t)
	for machine, infra := range s.pairs(t) {
		g.Expect(infra.Status.Addresses).NotTo(BeEmpty())
		g.Expect(machine.Status.Addresses).To(Equal(infra.Status.Addresses))
		boot := &v1alpha1.BareMetalBoot{}
		s.get(t, infra.Namespace, infra.Status.HostRef.Name, boot)
		g.Expect(infra.Status.Addresses).To(ContainElements(
			clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: machine.Status.NodeRef.Name},
			clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: boot.Spec.ReportAddress},
		))
	}
}

func (s *suite) machineInitialized(t *testing.T) {
	g := NewWithT(t)
	for machine, infra := range s.pairs(t) {
		g.Expect(infra.Status.Initialization.Provisioned).To(HaveValue(BeTrue()))
		g.Expect(machine.Status.Initialization.InfrastructureProvisioned).To(HaveValue(BeTrue()))
		g.Expect(s.old(t, "machines", machine.Namespace, machine.Name, "{.status.infrastructureReady}")).To(Equal("true"))
	}
}

// old reads a field of an object of Cluster API in its API v1beta1.
func (s *suite) old(t *testing.T, resource, namespace, name, field string) string {
	t.Helper()
	out, err := s.plane.Kubectl(t.Context(), "-n", namespace, "get", resource+".v1beta1.cluster.x-k8s.io", name, "-o", "jsonpath="+field)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	lines := strings.Split(strings.TrimSpace(out), "\n") // the API server warns of the old version first
	return lines[len(lines)-1]
}

func (s *suite) machineConditions(t *testing.T) {
	g := NewWithT(t)
	for machine, infra := range s.pairs(t) {
		mirrored(g, machine, infra)
		g.Expect(conditions.IsTrue(infra, v1alpha1.ReadyCondition)).To(BeTrue())
		for _, c := range infra.Status.Conditions {
			g.Expect(c.Reason).NotTo(BeEmpty())
			g.Expect(c.ObservedGeneration).To(BeNumerically(">", 0))
			g.Expect(c.LastTransitionTime.IsZero()).To(BeFalse())
		}
		old := machine.Status.Deprecated.V1Beta1.Conditions //nolint:staticcheck // what readers of v1beta1 see
		g.Expect(old).To(ContainElement(And(HaveField("Type", BeEquivalentTo("InfrastructureReady")), HaveField("Status", corev1.ConditionTrue))))
	}
}

// worker returns the Machine in room-b that has its failure domain from its MachineDeployment, and its BareMetalMachine.
func (s *suite) worker(t *testing.T) (*clusterv1.Machine, *v1alpha1.BareMetalMachine) {
	t.Helper()
	for machine, infra := range s.pairs(t) {
		if machine.Labels[clusterv1.MachineDeploymentNameLabel] == workers {
			return machine, infra
		}
	}
	t.Fatal("no Machine is of " + workers)
	return nil, nil
}

// inPlaceChanges: what changes in the spec of a machine that runs, changes nothing at its server. There is no update extension: Cluster API
// replaces the Machine where its template changes.
func (s *suite) inPlaceChanges(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	machine, infra := s.worker(t)
	given, had := s.commands(), infra.Status.HostRef.Name
	g.Expect(c.Patch(ctx, infra, merge(`{"spec":{"boot":{"commandLine":"quiet"},"hostSelector":{"matchLabels":{"rack":"none"}}}}`))).To(Succeed())
	eventually(t, func(g Gomega) {
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(infra), infra)).To(Succeed())
		seen := conditions.Get(infra, v1alpha1.ReadyCondition)
		g.Expect(seen.ObservedGeneration).To(Equal(infra.Generation), "the change was seen")
		g.Expect(seen.Status).To(BeEquivalentTo("True"))
	})
	g.Expect(infra.Status.HostRef.Name).To(Equal(had))
	g.Expect(s.commands()).To(Equal(given))
	s.get(t, machine.Namespace, machine.Name, machine)
	g.Expect(machine.Status.Phase).To(Equal(string(clusterv1.MachinePhaseRunning)))
}

// terminalFailures: a machine that runs from memory is lost with its power. A condition with a reason that is documented says so, the
// Machine shows it, readers of the old contract find it too, and Cluster API takes no action.
func (s *suite) terminalFailures(t *testing.T) {
	g := NewWithT(t)
	ctx, c := t.Context(), s.plane.Client
	machine, infra := s.worker(t)
	for _, server := range s.lab.Rack.Servers() {
		if server.Name == infra.Status.HostRef.Name {
			server.SetPower(false)
		}
	}
	g.Eventually(func(g Gomega) { // a server that was off for half a minute is
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(infra), infra)).To(Succeed())
		g.Expect(c.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
		g.Expect(infra).To(because(v1alpha1.ReadyCondition, v1alpha1.ReasonStateLost))
		g.Expect(infra.Status.FailureReason).To(Equal(v1alpha1.ReasonStateLost))
		mirrored(g, machine, infra)
		g.Expect(machine.Status.Deprecated).NotTo(BeNil())
		old := machine.Status.Deprecated.V1Beta1                                                  //nolint:staticcheck // what readers of v1beta1 see
		g.Expect(old.FailureReason).To(HaveValue(BeEquivalentTo(v1alpha1.ReasonStateLost)))       //nolint:staticcheck // as above
		g.Expect(old.FailureMessage).To(HaveValue(ContainSubstring(infra.Status.FailureMessage))) //nolint:staticcheck // as above
	}, time.Minute+stepTimeout, 100*time.Millisecond).Should(Succeed())
	g.Expect(infra.Status.FailureMessage).NotTo(BeEmpty())
	g.Expect(infra.Status.Initialization.Provisioned).To(HaveValue(BeTrue()), "what was initialized stays so")
	g.Expect(machine.DeletionTimestamp).To(BeNil())
}

// machineDeleted: the host of a machine that is deleted is powered off, and free again.
func (s *suite) machineDeleted(t *testing.T) {
	g := NewWithT(t)
	ctx := contracttest.Context(t, 2*time.Minute)
	_, lost := s.worker(t)
	var other *clusterv1.Machine
	for machine := range s.pairs(t) {
		if machine.Labels[clusterv1.MachineDeploymentNameLabel] == site.ClusterName+"-workers" {
			other = machine
		}
	}
	for _, md := range []string{workers, site.ClusterName + "-workers"} {
		g.Expect(s.plane.Client.Patch(ctx, &clusterv1.MachineDeployment{ObjectMeta: meta(site.Namespace, md)}, merge(`{"spec":{"replicas":0}}`))).To(Succeed())
	}
	g.Expect(site.Until(ctx, time.Minute, machinesLeft(s.plane, 1))).To(Succeed())
	for _, name := range []string{lost.Name, other.Spec.InfrastructureRef.Name} {
		s.gone(t, site.Namespace, name, &v1alpha1.BareMetalMachine{})
	}
	g.Expect(site.Until(ctx, time.Minute, site.HostsIn(s.plane, v1alpha1.PhaseAvailable, 3))).To(Succeed())
	on := 0
	for _, server := range s.lab.Rack.Servers() {
		if server.On() {
			on++
		}
	}
	g.Expect(on).To(Equal(1), "the control plane server alone runs")
}

// machinesLeft is nil when there are so many Machines.
func machinesLeft(p *plane.Plane, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		var machines clusterv1.MachineList
		if err := p.Client.List(ctx, &machines, client.InNamespace(site.Namespace)); err != nil {
			return err
		}
		if len(machines.Items) != want {
			return fmt.Errorf("there are %d Machines and not %d", len(machines.Items), want)
		}
		return nil
	}
}
