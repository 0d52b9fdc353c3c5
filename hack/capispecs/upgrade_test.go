package capispecs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/emulated"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// This spec is the project's own. make upgrade lets agents and boot servers of two releases meet; here managers of two releases continue what the other one began.
//
// A worker is deleted. Its server is erased, and another server boots for the machine that replaces it. Both servers are held while another manager starts: first that of
// this tree, and then that of the release before again.
var _ = ginkgo.Describe("The upgrade of the provider", ginkgo.Label("provider-upgrade", nightly), func() {
	ginkgo.It("continues a boot and an erasure, and so does the way back", func() {
		before, now := previousRelease(), release{manager: shared.lab.Manager(), agent: filepath.Join(shared.lab.Dir, "agent")}
		cluster := startCluster("provider-upgrade")
		ginkgo.DeferCleanup(func() { endCluster(cluster) })
		ginkgo.DeferCleanup(now.start) // the other specs are about this tree
		before.start()
		replaceWorker(cluster, now.start)
		replaceWorker(cluster, before.start)
	})
})

// release is a manager, and the agent that its boot server serves.
type release struct{ manager, agent string }

// start starts the manager of a release in place of the other one. Servers boot its agent from now on. The CRDs and roles stay those of this tree.
func (r release) start() {
	shared.plane.StopProvider()
	for _, server := range shared.lab.Rack.Servers() {
		server.Program = r.agent
	}
	Expect(shared.plane.StartProvider(ctx, r.manager)).To(Succeed())
}

// previousRelease builds the manager and the agent of the commit that make upgrade compares with.
func previousRelease() release {
	name, err := os.ReadFile(filepath.Join(root(), "hack", "endure", "upgrade", "PREVIOUS"))
	Expect(err).NotTo(HaveOccurred())
	tree := ginkgo.GinkgoT().TempDir()
	archive := filepath.Join(tree, "commit.tar")
	_, err = proc.Run(ctx, nil, "git", "-C", root(), "archive", "--output", archive, strings.TrimSpace(string(name)))
	Expect(err).NotTo(HaveOccurred(), "a clone without its history does not have the commit: git fetch --unshallow")
	_, err = proc.Run(ctx, nil, "tar", "-x", "-C", tree, "-f", archive)
	Expect(err).NotTo(HaveOccurred())
	r := release{manager: filepath.Join(tree, "manager"), agent: filepath.Join(tree, "agent")}
	_, err = proc.Run(ctx, []string{"CGO_ENABLED=0"}, "go", "-C", tree, "build", "-trimpath", "-o", r.manager, "./cmd/manager")
	Expect(err).NotTo(HaveOccurred())
	Expect(emulated.Build(ctx, tree, r.agent)).To(Succeed())
	return r
}

// startCluster creates a cluster with a control plane machine and a worker, on three servers, and waits until it is Available.
func startCluster(name string) *clusterv1.Cluster {
	namespace, stop := framework.SetupSpecNamespace(ctx, name, shared.proxy, artifacts, withHosts(3))
	ginkgo.DeferCleanup(stop)
	result := &clusterctl.ApplyClusterTemplateAndWaitResult{}
	clusterctl.ApplyClusterTemplateAndWait(ctx, clusterctl.ApplyClusterTemplateAndWaitInput{
		ClusterProxy: shared.proxy,
		ConfigCluster: clusterctl.ConfigClusterInput{
			LogFolder: filepath.Join(artifacts, "clusters", shared.proxy.GetName()), ClusterctlConfigPath: shared.lab.Repository.Config,
			KubeconfigPath: shared.proxy.GetKubeconfigPath(), InfrastructureProvider: clusterctl.DefaultInfrastructureProvider,
			Flavor: flavorImage, Namespace: namespace.Name, ClusterName: name, KubernetesVersion: shared.config.MustGetVariable("KUBERNETES_VERSION"),
			ControlPlaneMachineCount: new(int64(1)), WorkerMachineCount: new(int64(1)),
		},
		WaitForClusterIntervals:      shared.config.GetIntervals(name, "wait-cluster"),
		WaitForControlPlaneIntervals: shared.config.GetIntervals(name, "wait-control-plane"),
		WaitForMachineDeployments:    shared.config.GetIntervals(name, "wait-worker-nodes"),
	}, result)
	return result.Cluster
}

// endCluster does what a spec of the framework does at its end.
func endCluster(cluster *clusterv1.Cluster) {
	namespace := &corev1.Namespace{}
	namespace.Name = cluster.Namespace
	framework.DumpSpecResourcesAndCleanup(ctx, cluster.Name, shared.proxy, shared.lab.Repository.Config, artifacts, namespace, func() {}, cluster, shared.config.GetIntervals, false)
}

// replaceWorker replaces the worker of a cluster. It starts another manager while the server of the old machine is held in its erasure, and that of the new machine in its
// boot. Then both continue, and the boot is not repeated. The MachineDeployment has a second replica meanwhile: a MachineSet creates no machine for one that is still being
// deleted.
func replaceWorker(cluster *clusterv1.Cluster, startOther func()) {
	c := shared.proxy.GetClient()
	machine, old := worker(Default, cluster)
	candidates := free(Default, cluster.Namespace)
	Expect(candidates).To(HaveLen(1))
	erased, booting := newHold(old, runsAgent), newHold(candidates[0], bootsDisk)
	ginkgo.By(fmt.Sprintf("Deleting the worker on %s, and holding %s in its boot", old, candidates[0]))
	scaleWorkers(cluster, 2)
	Eventually(booting.reached).Should(BeClosed())
	Expect(c.Delete(ctx, machine)).To(Succeed())
	Eventually(erased.reached).Should(BeClosed())
	scaleWorkers(cluster, 1)
	attempt := boot(Default, cluster.Namespace, candidates[0]).Spec.Attempt

	ginkgo.By("Starting the other manager")
	startOther()
	erased.release()
	booting.release()
	// An agent that speaks another version of the protocol than the boot server is refused, and its boot is repeated at the deadline.
	Eventually(func(g Gomega) {
		next, host := worker(g, cluster)
		g.Expect(next.UID).NotTo(Equal(machine.UID))
		g.Expect(host).To(Equal(candidates[0]))
		g.Expect(next.Status.Phase).To(Equal(string(clusterv1.MachinePhaseRunning)))
		g.Expect(free(g, cluster.Namespace)).To(ConsistOf(old))
	}).WithTimeout(12 * time.Minute).Should(Succeed())
	Expect(boot(Default, cluster.Namespace, candidates[0]).Spec.Attempt).To(Equal(attempt), "the boot was repeated")
	expectProof(cluster.Namespace, old, machine.Spec.InfrastructureRef.Name)
	framework.VerifyClusterAvailable(ctx, framework.VerifyClusterAvailableInput{Getter: c, Name: cluster.Name, Namespace: cluster.Namespace})
}

// scaleWorkers sets the number of the workers of a cluster.
func scaleWorkers(cluster *clusterv1.Cluster, replicas int32) {
	c := shared.proxy.GetClient()
	var deployments clusterv1.MachineDeploymentList
	Expect(c.List(ctx, &deployments, client.InNamespace(cluster.Namespace))).To(Succeed())
	Expect(deployments.Items).To(HaveLen(1))
	d := &deployments.Items[0]
	before := d.DeepCopy()
	d.Spec.Replicas = &replicas
	Expect(c.Patch(ctx, d, client.MergeFrom(before))).To(Succeed())
}

// worker returns the worker of a cluster, and the name of its host.
func worker(g Gomega, cluster *clusterv1.Cluster) (machine *clusterv1.Machine, host string) {
	var machines clusterv1.MachineList
	g.Expect(shared.proxy.GetClient().List(ctx, &machines, client.InNamespace(cluster.Namespace), client.HasLabels{clusterv1.MachineDeploymentNameLabel})).To(Succeed())
	g.Expect(machines.Items).To(HaveLen(1))
	infra := &v1alpha1.BareMetalMachine{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: machines.Items[0].Spec.InfrastructureRef.Name}
	g.Expect(shared.proxy.GetClient().Get(ctx, key, infra)).To(Succeed())
	g.Expect(infra.Status.HostRef).NotTo(BeNil())
	return &machines.Items[0], infra.Status.HostRef.Name
}

func boot(g Gomega, namespace, host string) *v1alpha1.BareMetalBoot {
	boot := &v1alpha1.BareMetalBoot{}
	g.Expect(shared.proxy.GetClient().Get(ctx, client.ObjectKey{Namespace: namespace, Name: host}, boot)).To(Succeed())
	return boot
}

// expectProof expects a record of the erasure after a machine.
func expectProof(namespace, host, machine string) {
	var records v1alpha1.BareMetalErasureList
	Expect(shared.proxy.GetClient().List(ctx, &records, client.InNamespace(namespace))).To(Succeed())
	Expect(records.Items).To(ContainElement(And(HaveField("Spec.HostName", host), HaveField("Spec.MachineName", machine))))
}

// hold is a server that waits at a point of its boot.
type hold struct {
	reached chan struct{}
	release func()
}

// newHold holds a server when it comes to a point the next time, until release is called or it is switched off. It lets the server pass at the end of the spec.
func newHold(server string, at point) *hold {
	opened, open := context.WithCancel(ctx)
	h := &hold{reached: make(chan struct{}), release: open}
	var once bool
	shared.gates.set(server, at, func(ctx context.Context) error {
		if once {
			return nil
		}
		once = true
		close(h.reached)
		select {
		case <-opened.Done():
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	ginkgo.DeferCleanup(func() {
		open()
		shared.gates.set(server, at, nil)
	})
	return h
}
