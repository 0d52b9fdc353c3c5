package node_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/node"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

const (
	hardware = "4c4c4544-0042-3510-8053-b4c04f4d3132"
	swapped  = "44454C4C-4200-1035-8053-B4C04F4D3132"
	address  = "192.0.2.9"
)

// start runs the controller with the machine controller, which sets the provider ID of the machine. It returns how often a cluster was not connected.
func start(t *testing.T) *atomic.Int32 {
	t.Helper()
	unconnected := &atomic.Int32{}
	log := funcr.New(func(_, args string) {
		if strings.Contains(args, "not connected") {
			unconnected.Add(1)
		}
	}, funcr.Options{Verbosity: 2})
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		// One worker: a later object shows that earlier ones were reconciled.
		options := controller.Options{MaxConcurrentReconciles: 1, LogConstructor: func(*reconcile.Request) logr.Logger { return log }}
		kubeconfigs, err := controllers.SetupKubeconfigs(ctx, mgr, controllerstest.Loopback)
		if err != nil {
			return err
		}
		clusters, err := node.NewClusterCache(ctx, mgr, kubeconfigs, "", controller.Options{MaxConcurrentReconciles: 4})
		if err != nil {
			return err
		}
		t.Cleanup(controllerstest.UseShortConnectRetry(t, clusters))
		if err := (&machine.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}).SetupWithManager(ctx, mgr, controller.Options{}); err != nil {
			return err
		}
		return (&node.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Clusters: clusters, Kubeconfigs: kubeconfigs, ConnectTimeout: time.Second, ChangeInterval: time.Millisecond}).SetupWithManager(ctx, mgr, options)
	})
	return unconnected
}

// pair is a machine with its host, and a Node that may belong to the host.
type pair struct {
	claim *controllerstest.Claim
	host  *v1alpha1.BareMetalHost
	boot  *v1alpha1.BareMetalBoot
	node  *corev1.Node
}

// newPair creates a machine whose host just fetched its bootstrap data, and the Node of that host, which matches by name and address. The changes are
// applied before anything is created.
func newPair(t *testing.T, changes ...func(*pair)) *pair {
	t.Helper()
	p := preparePair(t, changes...)
	env.Workload(t, p.host.Namespace, p.host.Spec.ConsumerRef.Name)
	p.create(t)
	return p
}

func preparePair(t *testing.T, changes ...func(*pair)) *pair {
	t.Helper()
	namespace := env.Namespace(t)
	name := "m-" + namespace
	then := metav1.NewTime(time.Now().Add(-time.Minute))
	p := &pair{
		host: &v1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"},
			Spec: v1alpha1.BareMetalHostSpec{
				BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"}, BootMACAddresses: []string{"52:54:00:00:02:01"},
				ConsumerRef: controllerstest.Claimed(name), ProviderState: v1alpha1.HostProviderState{Boots: 2},
			},
		},
		node: &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}}},
		},
	}
	p.boot = &v1alpha1.BareMetalBoot{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"},
		Spec: v1alpha1.BareMetalBootSpec{
			Number: 2, Attempt: 2, ClaimID: p.host.Spec.ConsumerRef.ClaimID, MachineName: name,
			StartTime: then, PoweredOffTime: &then, ScriptAddress: "192.0.2.8", DataAddress: address, DataServedTime: &then,
		},
	}
	p.node.Status.NodeInfo.KubeletVersion = "v1.36.3"
	for _, change := range changes {
		change(p)
	}
	return p
}

func (p *pair) create(t *testing.T) {
	t.Helper()
	createHost(t, p.host)
	env.Create(t, p.boot)
	p.claim = env.NewClaim(t, p.host.Namespace, p.host.Spec.ConsumerRef.Name)
	status := p.node.Status
	env.Create(t, p.node)
	p.node.Status = status
	NewWithT(t).Expect(env.Client.Status().Update(t.Context(), p.node)).To(Succeed())
	t.Cleanup(func() { _ = env.Client.Delete(context.Background(), p.node) })
}

func createHost(t *testing.T, host *v1alpha1.BareMetalHost) {
	t.Helper()
	status := host.Status
	env.Create(t, host)
	host.Status = status
	NewWithT(t).Expect(env.Client.Status().Update(t.Context(), host)).To(Succeed())
}

func (p *pair) providerID() string {
	return "baremetal://" + p.host.Namespace + "/" + p.host.Name + "/" + p.claim.BareMetalMachine.Name
}

// adopted waits until the Node has the provider ID, the boot is reported, and the machine shows it.
func (p *pair) adopted(t *testing.T) {
	t.Helper()
	controllerstest.Wait(t, env, p.node, func(g Gomega, n *corev1.Node) { g.Expect(n.Spec.ProviderID).To(Equal(p.providerID())) })
	controllerstest.Wait(t, env, p.boot, func(g Gomega, b *v1alpha1.BareMetalBoot) {
		g.Expect(b.Spec.ReportedTime).NotTo(BeNil())
		seen := controllers.ObservedStage(b, v1alpha1.StageNode)
		g.Expect(seen).NotTo(BeNil())
		g.Expect(seen.Number).To(Equal(b.Spec.Number))
		g.Expect(seen.Client).To(Equal("kubelet v1.36.3"))
	})
	controllerstest.Wait(t, env, p.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Spec.ProviderID).To(Equal(p.providerID()))
		g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue())
		g.Expect(m.Status.NodeName).To(Equal(p.node.Name))
		g.Expect(conditions.IsTrue(m, v1alpha1.NodeMatchedCondition)).To(BeTrue())
	})
}

// untouched expects that nothing was done. Another pair, which is created later, shows that it was reconciled.
func (p *pair) untouched(t *testing.T, nodeProviderID string) {
	t.Helper()
	g := NewWithT(t)
	newPair(t).adopted(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.node), p.node)).To(Succeed())
	g.Expect(p.node.Spec.ProviderID).To(Equal(nodeProviderID))
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.boot), p.boot)).To(Succeed())
	g.Expect(p.boot.Spec.ReportedTime).To(BeNil())
	g.Expect(controllers.ObservedStage(p.boot, v1alpha1.StageNode)).To(BeNil())
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.claim.BareMetalMachine), p.claim.BareMetalMachine)).To(Succeed())
	g.Expect(p.claim.BareMetalMachine.Spec.ProviderID).To(BeEmpty())
}

func withHardware(id string) func(*pair) {
	return func(p *pair) { p.host.Status.Hardware = &v1alpha1.Hardware{SystemUUID: id} }
}

func onHardware(id string) func(*pair) {
	return func(p *pair) { p.node.Status.NodeInfo.SystemUUID = id }
}

// withUnknownNode gives the Node a name and an address that match nothing.
func withUnknownNode(p *pair) {
	p.node.Name += "-strange"
	p.node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "198.51.100.1"}}
}

func nodeWithID(id string) func(*pair) { return func(p *pair) { p.node.Spec.ProviderID = id } }

// TestNodeProvesBoot: a Node of the host gets its provider ID and ends the boot, without a report.
func TestNodeProvesBoot(t *testing.T) {
	start(t)
	for name, changes := range map[string][]func(*pair){
		"by hardware":                       {withHardware(hardware), onHardware(strings.ToUpper(hardware)), withUnknownNode},
		"by hardware in another byte order": {withHardware(hardware), onHardware(swapped), withUnknownNode},
		"by name and address":               {},
		"by name and address, hardware new": {withHardware("30303030-3030-3030-3030-303030303031"), onHardware("30303030-3030-3030-3030-303030303032")},
		"by name and the loader's address":  {func(p *pair) { p.node.Status.Addresses[1].Address = "192.0.2.8" }},
		"by name and address, IPv6": {func(p *pair) {
			p.boot.Spec.DataAddress, p.node.Status.Addresses[1].Address = "2001:db8::9", "2001:0db8:0::0009"
		}},
		"that has the provider ID": {withUnknownNode, func(p *pair) {
			p.node.Spec.ProviderID = "baremetal://" + p.host.Namespace + "/h/" + p.host.Spec.ConsumerRef.Name
		}},
		"of a host that reported in already": {func(p *pair) { p.boot.Spec.ReportedTime = new(metav1.Now()) }},
		"of a host in its cluster's network": {func(p *pair) {
			p.host.Status.Addresses = clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "203.0.113.4"}}
		},
			func(p *pair) { p.node.Status.Addresses[1].Address = "203.0.113.4" }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, changes...)
			p.adopted(t)
			NewWithT(t).Expect(env.Client.Delete(t.Context(), p.host)).To(Succeed()) // the next host has the same hardware
		})
	}
}

// TestForeignNodes: a Node that does not certainly belong to the host is not changed, and proves nothing.
func TestForeignNodes(t *testing.T) {
	start(t)
	for name, changes := range map[string][]func(*pair){
		"of a former machine": {withHardware(hardware), onHardware(hardware), func(p *pair) {
			p.boot.Spec.StartTime = metav1.NewTime(time.Now().Add(time.Hour))
		}},
		"of a former machine, with the same provider ID": {func(p *pair) {
			p.node.Spec.ProviderID = "baremetal://" + p.host.Namespace + "/h/" + p.host.Spec.ConsumerRef.Name
			p.boot.Spec.StartTime = metav1.NewTime(time.Now().Add(time.Hour))
		}},
		"of what ran before the server was off": {withHardware(hardware), onHardware(hardware), func(p *pair) {
			p.boot.Spec.PoweredOffTime = &metav1.Time{Time: time.Now().Add(time.Hour)}
		}},
		"of another provider":          {nodeWithID("aws:///eu-1/i-1")},
		"of another machine here":      {nodeWithID("baremetal://dc/h/other")},
		"without the address":          {func(p *pair) { p.node.Status.Addresses[1].Address = "192.0.2.99" }},
		"without the name":             {func(p *pair) { p.node.Name += "-other" }},
		"before the bootstrap data":    {func(p *pair) { p.boot.Spec.DataServedTime = nil }},
		"after the attempt ended":      {func(p *pair) { p.boot.Spec.Failure = &v1alpha1.BootFailure{Reason: "R", Message: "m"} }},
		"of a host in maintenance":     {func(p *pair) { p.host.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "new fan"} }},
		"with hardware of no one":      {withHardware("00000000-0000-0000-0000-000000000000"), onHardware("00000000-0000-0000-0000-000000000000"), withUnknownNode},
		"of a host without its number": {func(p *pair) { p.boot.Spec.ScriptAddress, p.boot.Spec.DataAddress = "", "" }},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPair(t, changes...)
			p.untouched(t, p.node.Spec.ProviderID)
			NewWithT(t).Expect(env.Client.Delete(t.Context(), p.host)).To(Succeed())
		})
	}
}

// TestSameHardware: a UUID that two hosts report proves nothing. A UUID of another host shows that the Node is foreign.
func TestSameHardware(t *testing.T) {
	g := NewWithT(t)
	start(t)
	other := &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "other"},
		Spec: v1alpha1.BareMetalHostSpec{
			BMC: v1alpha1.BMC{Address: "redfish://192.0.2.1", CredentialsSecretName: "s"}, BootMACAddresses: []string{"52:54:00:00:02:02"},
		},
		Status: v1alpha1.BareMetalHostStatus{Hardware: &v1alpha1.Hardware{SystemUUID: swapped}},
	}
	createHost(t, other)
	p := newPair(t, onHardware(hardware))
	p.untouched(t, "")
	twins := newPair(t, withHardware(hardware), onHardware(hardware), func(p *pair) { p.node.Name += "-strange" })
	twins.untouched(t, "")
	// Two hosts have the UUID now, so name and address decide.
	controllerstest.Modify(t, env, p.node, func(n *corev1.Node) { n.Labels = map[string]string{"any": "change"} })
	controllerstest.Modify(t, env, p.claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Labels["any"] = "change" })
	p.adopted(t)
	g.Expect(env.Client.Delete(t.Context(), other)).To(Succeed())
	controllerstest.Modify(t, env, twins.claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) { m.Labels["any"] = "change" })
	twins.adopted(t)
}

// TestNodeBeforeBootstrapData: a Node whose creation time is before the bootstrap data was served counts once it was served.
func TestNodeBeforeBootstrapData(t *testing.T) {
	start(t)
	p := newPair(t, func(p *pair) { p.boot.Spec.DataServedTime = nil })
	p.untouched(t, "")
	controllerstest.Modify(t, env, p.boot, func(b *v1alpha1.BareMetalBoot) { b.Spec.DataServedTime = new(metav1.Now()) })
	p.adopted(t)
}

// TestPaused: a running boot is completed, since a move waits for it; everything else waits until the pause ends.
func TestPaused(t *testing.T) {
	start(t)
	p := newPair(t, func(p *pair) { p.boot.Spec.DataServedTime = nil })
	controllerstest.Modify(t, env, p.claim.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
	controllerstest.Modify(t, env, p.boot, func(b *v1alpha1.BareMetalBoot) { b.Spec.DataServedTime = new(metav1.Now()) })
	controllerstest.Wait(t, env, p.boot, func(g Gomega, b *v1alpha1.BareMetalBoot) { g.Expect(b.Spec.ReportedTime).NotTo(BeNil()) })
	newPair(t).adopted(t)
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.node), p.node)).To(Succeed())
	g.Expect(p.node.Spec.ProviderID).To(BeEmpty())
	controllerstest.Modify(t, env, p.claim.Cluster, func(c *clusterv1.Cluster) { c.Spec.Paused = new(false) })
	p.adopted(t)
}

// TestDeletedMachine: the Node of a machine that is being deleted is not changed.
func TestDeletedMachine(t *testing.T) {
	start(t)
	p := newPair(t, func(p *pair) { p.boot.Spec.DataServedTime = nil })
	controllerstest.Wait(t, env, p.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) { g.Expect(m.Finalizers).NotTo(BeEmpty()) })
	NewWithT(t).Expect(env.Client.Delete(t.Context(), p.claim.BareMetalMachine)).To(Succeed())
	controllerstest.Wait(t, env, p.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.DeletionTimestamp).NotTo(BeNil())
		g.Expect(conditions.GetReason(m, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonWaitingForRelease))
	})
	controllerstest.Modify(t, env, p.boot, func(b *v1alpha1.BareMetalBoot) { b.Spec.DataServedTime = new(metav1.Now()) })
	p.untouched(t, "")
}

// TestUnreachable: the Nodes of an unreachable cluster are not read, which is logged once; a new connection enqueues the machine.
func TestUnreachable(t *testing.T) {
	g := NewWithT(t)
	unconnected := start(t)
	newPair(t).adopted(t) // shows that the controller works
	before := unconnected.Load()
	p := preparePair(t)
	p.create(t)
	g.Eventually(unconnected.Load).Should(BeNumerically(">", before))
	p.untouched(t, "")
	// Each change of the machine by another controller may log it once; a loop would log it many times.
	g.Expect(unconnected.Load() - before).To(BeNumerically("<", 30))
	env.Workload(t, p.host.Namespace, p.host.Spec.ConsumerRef.Name)
	p.adopted(t)
}

// TestRestart: after firmware requested a network boot for a machine that runs from memory, its Node shows whether the server restarted.
func TestRestart(t *testing.T) {
	start(t)
	g := NewWithT(t)
	p := newPair(t, func(p *pair) {
		p.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	})
	p.adopted(t)
	g.Expect(controllers.ApplyStages(t.Context(), env.Client, p.boot, controllers.NewStage(p.boot, v1alpha1.StageRestarted))).To(Succeed())
	newPair(t).adopted(t)
	controllerstest.Wait(t, env, p.boot, func(g Gomega, b *v1alpha1.BareMetalBoot) {
		g.Expect(controllers.ObservedStage(b, v1alpha1.StageRestarted)).NotTo(BeNil())
		g.Expect(controllers.ObservedStage(b, v1alpha1.StageNodeLost)).To(BeNil(), "its Node is Ready")
	})
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.node), p.node)).To(Succeed())
	p.node.Status.Conditions[0].Status = corev1.ConditionUnknown
	p.node.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-2 * time.Minute))
	g.Expect(env.Client.Status().Update(t.Context(), p.node)).To(Succeed())
	controllerstest.Wait(t, env, p.boot, func(g Gomega, b *v1alpha1.BareMetalBoot) {
		g.Expect(controllers.ObservedStage(b, v1alpha1.StageNodeLost)).NotTo(BeNil())
		g.Expect(b.Spec.Failure).To(BeNil(), "what it means the lifecycle decides")
	})
}

// TestAddresses: the status of the host and the machine follow the addresses of the Node, with one write per change and none for other changes. They
// stay when the Node is deleted.
func TestAddresses(t *testing.T) {
	g := NewWithT(t)
	start(t)
	p := newPair(t)
	p.adopted(t)
	name := p.claim.BareMetalMachine.Name
	seen := func(until func(Gomega, *v1alpha1.ObservedStage)) {
		t.Helper()
		controllerstest.Wait(t, env, p.boot, func(g Gomega, b *v1alpha1.BareMetalBoot) { until(g, controllers.ObservedStage(b, v1alpha1.StageNode)) })
	}
	at := func(kind clusterv1.MachineAddressType, a string) clusterv1.MachineAddress {
		return clusterv1.MachineAddress{Type: kind, Address: a}
	}
	hostname, four, six := at("Hostname", name), at("InternalIP", address), at("InternalIP", "2001:db8::9")
	seen(func(g Gomega, s *v1alpha1.ObservedStage) {
		g.Expect(s.Addresses).To(BeEquivalentTo([]clusterv1.MachineAddress{hostname, four}))
	})
	first := controllers.ObservedStage(p.boot, v1alpha1.StageNode).Time

	say := func(change func(*corev1.NodeStatus)) {
		t.Helper()
		g.Eventually(func() error {
			if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.node), p.node); err != nil {
				return err
			}
			change(&p.node.Status)
			return env.Client.Status().Update(t.Context(), p.node)
		}, 30*time.Second).Should(Succeed())
	}
	say(func(s *corev1.NodeStatus) {
		s.Addresses = append(s.Addresses, corev1.NodeAddress{Type: "Carrier", Address: "pigeon"}, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: "2001:db8::9"})
	})
	seen(func(g Gomega, s *v1alpha1.ObservedStage) {
		g.Expect(s.Addresses).To(BeEquivalentTo([]clusterv1.MachineAddress{hostname, four, six}))
		g.Expect(s.Address).To(Equal(address))
		g.Expect(s.Time).To(Equal(first), "it is when the Node was first seen")
	})
	controllerstest.Wait(t, env, p.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Status.Addresses).To(BeEquivalentTo([]clusterv1.MachineAddress{hostname, four, six}))
	})
	version := p.boot.ResourceVersion
	say(func(s *corev1.NodeStatus) { s.NodeInfo.KernelVersion = "7.0" })
	g.Expect(env.Client.Delete(t.Context(), p.node)).To(Succeed())
	newPair(t).adopted(t) // created later, and there is one worker
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(p.boot), p.boot)).To(Succeed())
	g.Expect(p.boot.ResourceVersion).To(Equal(version))
}
