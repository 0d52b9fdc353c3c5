// Package class tests the ClusterClass of config/templates/clusterclasses with the real topology controller of Cluster API: three control plane servers
// behind a balancer, a rotated template, and an upgrade, without a spare server. The servers get disk images. Cluster API's own specs scale Clusters of the
// class, and change them in place (hack/capispecs).
package class

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/retry"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// upgraded is the version that the cluster is upgraded to. It is only a stamp: the lab has the programs of one version, and the image of this one makes the
// kubelet report it. A kubelet may differ from the programs only behind the patch version.
const upgraded = site.KubernetesVersion + "+2"

const (
	controlPlanes = 3
	workers       = 2
)

// suite is a Cluster of the ClusterClass on a rack that has no server to spare.
type suite struct {
	*testing.T
	*plane.Plane
	lab *site.Lab
}

func TestClass(t *testing.T) {
	ctx := contracttest.Context(t, 15*time.Minute)
	l := contracttest.Lab(ctx, t)
	g := NewWithT(t)
	s := &suite{T: t, Plane: contracttest.Plane(ctx, t, l, "management", l.Rack.ManagerArgs()), lab: l}
	var servers []string
	for i := range controlPlanes + workers {
		servers = append(servers, fmt.Sprintf("server-%d", i+1))
	}
	g.Expect(l.Register(ctx, s.Plane, servers...)).To(Succeed())
	g.Expect(site.Until(ctx, time.Minute, site.HostsIn(s.Plane, v1alpha1.PhaseAvailable, len(servers)))).To(Succeed())
	step := func(run func(*suite, context.Context)) func(*suite, *testing.T) {
		return func(s *suite, t *testing.T) { //nolint:thelper // the order of a method expression
			t.Helper()
			run(&suite{T: t, Plane: s.Plane, lab: l}, ctx)
		}
	}
	contracttest.RunParts(t, s, []contracttest.Part[*suite]{
		{Name: "create", Run: step((*suite).create)},
		{Name: "rotate a template without a spare host", Run: step((*suite).rotate), Needs: []string{"create"}},
		{Name: "upgrade without a spare host", Run: step((*suite).upgrade), Needs: []string{"create"}},
		{Name: "variables", Run: step((*suite).variables)},
	})
	if t.Failed() {
		s.logState(ctx)
	}
}

// create creates the Cluster with the flavour "topology", which includes the ClusterClass.
func (s *suite) create(ctx context.Context) {
	g := NewWithT(s.T)
	g.Expect(s.lab.CreateCluster(ctx, s.Plane, site.Cluster{Flavor: "topology", ControlPlanes: controlPlanes, Workers: workers})).To(Succeed())
	// The control plane provider reads the certificate of each API server through a port of its Pod, which is only a name here. With the annotation it does
	// not; without it, it retries with a growing backoff.
	s.change(ctx, func(topology *clusterv1.Topology) {
		topology.ControlPlane.Metadata.Annotations = map[string]string{
			clusterv1.MachineCertificatesExpiryDateAnnotation: time.Now().AddDate(1, 0, 0).Format(time.RFC3339),
		}
	})
	g.Expect(site.Until(ctx, 5*time.Minute, s.settled(site.KubernetesVersion))).To(Succeed())
	g.Expect(site.Until(ctx, time.Minute, site.Available(s.Plane))).To(Succeed())
	g.Expect(site.HostsIn(s.Plane, v1alpha1.PhaseAvailable, 0)(ctx)).To(Succeed(), "no host is to spare from here on")
}

// rotate lets the workers boot over the network instead of from an image. The topology controller creates a new BareMetalMachineTemplate. Each worker is
// deleted before its successor is created on the same server, whose disk is erased in between.
func (s *suite) rotate(ctx context.Context) {
	g := NewWithT(s.T)
	before, old := s.hosts(ctx, workersOnly), s.templates(ctx)
	stop := s.watchHosts(ctx)
	s.change(ctx, func(topology *clusterv1.Topology) {
		topology.Workers.MachineDeployments[0].Variables.Overrides = []clusterv1.ClusterVariable{
			{Name: "images", Value: raw(map[string]any{site.KubernetesVersion: networkBootOf(s.lab.Rack.Image(""))})},
			{Name: "commandLine", Value: raw("console=ttyS1")}, {Name: "persistence", Value: raw("Ephemeral")},
		}
	})
	g.Expect(site.Until(ctx, 3*time.Minute, func(ctx context.Context) error { return s.replaced(ctx, before, workersOnly) })).To(Succeed())
	g.Expect(site.Until(ctx, 2*time.Minute, s.settled(site.KubernetesVersion))).To(Succeed())
	phases := stop()
	after := s.hosts(ctx, workersOnly)
	for host := range before {
		g.Expect(after).To(HaveKey(host), "the workers stand on the servers that they stood on")
		g.Expect(phases[host]).To(ContainElement(BeElementOf(v1alpha1.PhaseReleasing, v1alpha1.PhaseCleaning)), "host %s was taken over without being released", host)
		g.Expect(phases[host]).To(ContainElement(v1alpha1.PhaseAvailable), "host %s was taken over without being free", host)
	}
	var machines v1alpha1.BareMetalMachineList
	g.Expect(s.Client.List(ctx, &machines, client.InNamespace(site.Namespace))).To(Succeed())
	image, err := s.lab.Rack.DiskImage("")
	g.Expect(err).NotTo(HaveOccurred())
	for _, m := range machines.Items {
		if workersOnly(&m) {
			g.Expect(m.Spec.Boot.CommandLine).To(Equal("console=ttyS1"), m.Name)
			g.Expect(m.Spec.Image).To(BeNil(), m.Name)
			continue
		}
		g.Expect(m.Spec.Image.URL).To(Equal(image.URL), m.Name)
	}
	// The control plane keeps its template. The workers' old template is deleted with its MachineSet.
	g.Expect(site.Until(ctx, time.Minute, func(ctx context.Context) error {
		now := s.templates(ctx)
		if len(now) != 2 || len(old) != 2 || (now[0] == old[0]) == (now[1] == old[1]) {
			return fmt.Errorf("the templates are %v, and were %v", now, old)
		}
		return nil
	})).To(Succeed())
}

// upgrade changes the version of the Cluster. Without an image for the version no machine is replaced, and the Cluster says why.
func (s *suite) upgrade(ctx context.Context) {
	g := NewWithT(s.T)
	before := s.hosts(ctx, everything)
	s.change(ctx, func(topology *clusterv1.Topology) {
		topology.Version = upgraded
		variable(topology, "controlPlaneMaxSurge").Value = raw(0)
	})
	g.Expect(site.Until(ctx, time.Minute, func(ctx context.Context) error {
		c := conditions.Get(s.cluster(ctx), clusterv1.ClusterTopologyReconciledCondition)
		if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "images has no image for Kubernetes "+upgraded) {
			return fmt.Errorf("the Cluster does not say that it has no image of the version: %v", c)
		}
		return nil
	})).To(Succeed())
	g.Expect(s.hosts(ctx, everything)).To(Equal(before))

	image, err := s.lab.Rack.DiskImage(upgraded)
	g.Expect(err).NotTo(HaveOccurred())
	s.change(ctx, func(topology *clusterv1.Topology) {
		addImage(g, variable(topology, "images"), map[string]any{"image": map[string]string{"url": image.URL, "checksum": image.Checksum}})
		if overrides := topology.Workers.MachineDeployments[0].Variables.Overrides; len(overrides) > 0 { // rotate set them
			addImage(g, &overrides[0], networkBootOf(s.lab.Rack.Image(upgraded)))
		}
	})
	g.Expect(site.Until(ctx, 6*time.Minute, s.settled(upgraded))).To(Succeed())
	g.Expect(site.Until(ctx, time.Minute, site.Available(s.Plane))).To(Succeed())
	g.Expect(s.replaced(ctx, before, everything)).To(Succeed())
	for host := range before {
		g.Expect(s.hosts(ctx, everything)).To(HaveKey(host))
	}
}

// variable returns a variable of the topology, which has those with a default, too.
func variable(topology *clusterv1.Topology, name string) *clusterv1.ClusterVariable {
	return &topology.Variables[slices.IndexFunc(topology.Variables, func(v clusterv1.ClusterVariable) bool { return v.Name == name })]
}

func raw(value any) apiextensionsv1.JSON {
	content, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return apiextensionsv1.JSON{Raw: content}
}

// networkBootOf returns an image for a network boot in the form of the variable "images".
func networkBootOf(boot v1alpha1.BootSource) map[string]any { return map[string]any{"boot": boot} }

// addImage adds the image of the version of the upgrade to a variable "images".
func addImage(g Gomega, v *clusterv1.ClusterVariable, image map[string]any) {
	images := map[string]any{}
	g.Expect(json.Unmarshal(v.Value.Raw, &images)).To(Succeed())
	images[upgraded] = image
	v.Value = raw(images)
}

func (s *suite) cluster(ctx context.Context) *clusterv1.Cluster {
	s.Helper()
	var cluster clusterv1.Cluster
	NewWithT(s.T).Expect(s.Client.Get(ctx, types.NamespacedName{Namespace: site.Namespace, Name: site.ClusterName}, &cluster)).To(Succeed())
	return &cluster
}

// change changes the topology of the Cluster.
func (s *suite) change(ctx context.Context, change func(*clusterv1.Topology)) {
	s.Helper()
	NewWithT(s.T).Expect(retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		cluster := s.cluster(ctx)
		base := client.MergeFromWithOptions(cluster.DeepCopy(), client.MergeFromWithOptimisticLock{})
		change(&cluster.Spec.Topology)
		return s.Client.Patch(ctx, cluster, base)
	})).To(Succeed())
}

// settled is nil if the topology controller has nothing left to do, and all Machines are Running and up to date, of one version.
func (s *suite) settled(version string) func(context.Context) error {
	return func(ctx context.Context) error {
		var cluster clusterv1.Cluster
		if err := s.Client.Get(ctx, types.NamespacedName{Namespace: site.Namespace, Name: site.ClusterName}, &cluster); err != nil {
			return err
		}
		c := conditions.Get(&cluster, clusterv1.ClusterTopologyReconciledCondition)
		if c == nil || c.Status != metav1.ConditionTrue || c.ObservedGeneration != cluster.Generation {
			return fmt.Errorf("the topology is not reconciled: %v", c)
		}
		var kcps controlplanev1.KubeadmControlPlaneList
		if err := s.Client.List(ctx, &kcps, client.InNamespace(site.Namespace)); err != nil {
			return err
		}
		for _, kcp := range kcps.Items {
			if n := kcp.Status.AvailableReplicas; n == nil || *n != controlPlanes || !conditions.IsTrue(&kcp, controlplanev1.KubeadmControlPlaneAvailableCondition) {
				return fmt.Errorf("the control plane is not available with %d machines", controlPlanes)
			}
		}
		var machines clusterv1.MachineList
		if err := s.Client.List(ctx, &machines, client.InNamespace(site.Namespace)); err != nil {
			return err
		}
		for _, m := range machines.Items {
			if err := upToDate(&m, version); err != nil {
				return err
			}
		}
		return site.Running(s.Plane, controlPlanes+workers)(ctx)
	}
}

// upToDate is nil if a Machine is up to date, and its kubelet reports the version.
func upToDate(m *clusterv1.Machine, version string) error {
	if m.Spec.Version != version || m.Status.NodeInfo == nil || m.Status.NodeInfo.KubeletVersion != version {
		return fmt.Errorf("machine %s or its kubelet is not of version %s", m.Name, version)
	}
	for _, condition := range []string{clusterv1.MachineUpToDateCondition, clusterv1.MachineAvailableCondition} {
		if !conditions.IsTrue(m, condition) {
			return fmt.Errorf("machine %s is not %s: %s", m.Name, condition, conditions.GetMessage(m, condition))
		}
	}
	return nil
}

func everything(*v1alpha1.BareMetalMachine) bool { return true }

func workersOnly(m *v1alpha1.BareMetalMachine) bool {
	_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
	return !controlPlane
}

// hosts returns the names of machines by the names of their hosts.
func (s *suite) hosts(ctx context.Context, which func(*v1alpha1.BareMetalMachine) bool) map[string]string {
	s.Helper()
	var machines v1alpha1.BareMetalMachineList
	NewWithT(s.T).Expect(s.Client.List(ctx, &machines, client.InNamespace(site.Namespace))).To(Succeed())
	out := map[string]string{}
	for _, m := range machines.Items {
		if which(&m) && m.Status.HostRef != nil {
			out[m.Status.HostRef.Name] = m.Name
		}
	}
	return out
}

// replaced is nil if none of the machines is left.
func (s *suite) replaced(ctx context.Context, before map[string]string, which func(*v1alpha1.BareMetalMachine) bool) error {
	for host, machine := range s.hosts(ctx, which) {
		if before[host] == machine {
			return fmt.Errorf("machine %s is still there", machine)
		}
	}
	return nil
}

// templates returns the names of the Cluster's BareMetalMachineTemplates, sorted.
func (s *suite) templates(ctx context.Context) []string {
	s.Helper()
	var templates v1alpha1.BareMetalMachineTemplateList
	NewWithT(s.T).Expect(s.Client.List(ctx, &templates, client.InNamespace(site.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: site.ClusterName})).To(Succeed())
	var names []string
	for _, t := range templates.Items {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names
}

// watchHosts records the phases of hosts until the returned function is called, which returns them by the name of the host.
func (s *suite) watchHosts(ctx context.Context) func() map[string][]v1alpha1.HostPhase {
	s.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	NewWithT(s.T).Expect(err).NotTo(HaveOccurred())
	watcher, err := client.NewWithWatch(config, client.Options{Scheme: plane.Scheme()})
	NewWithT(s.T).Expect(err).NotTo(HaveOccurred())
	events, err := watcher.Watch(ctx, &v1alpha1.BareMetalHostList{}, client.InNamespace(site.Namespace))
	NewWithT(s.T).Expect(err).NotTo(HaveOccurred())
	phases := map[string][]v1alpha1.HostPhase{}
	var done sync.WaitGroup
	done.Go(func() {
		for event := range events.ResultChan() {
			if host, ok := event.Object.(*v1alpha1.BareMetalHost); ok && !slices.Contains(phases[host.Name], host.Status.Phase) {
				phases[host.Name] = append(phases[host.Name], host.Status.Phase)
			}
		}
	})
	return func() map[string][]v1alpha1.HostPhase {
		events.Stop()
		done.Wait()
		return phases
	}
}

// logState logs what an operator would read.
func (s *suite) logState(ctx context.Context) {
	for _, args := range [][]string{
		{"get", "baremetalhosts,baremetalboots,baremetalmachines,machines,kubeadmcontrolplanes,machinedeployments", "-o", "wide"},
		{"get", "cluster", site.ClusterName, "-o", "yaml"},
	} {
		out, err := s.Kubectl(context.WithoutCancel(ctx), append(args, "-n", site.Namespace)...)
		s.Logf("%s %v", out, err)
	}
}
