// Package rules shows the rules of Cluster API's provider contract, one test a rule, on one management plane with the real managers.
// docs/development/contract.md lists them with what implements them. audit_test.go compares what this provider asks of the API server on the way with
// its roles.
//
// One rule can be tested alone: go test ./hack/contract/rules -run 'TestContract/InfraMachine/pausing'.
package rules

import (
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/contract/contracttest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// stepTimeout is how long the managers may take for one step that waits for no server.
const stepTimeout = 30 * time.Second

// rule is a rule of the contract, or a statement about all rules.
type rule struct {
	name string
	show func(*suite, *testing.T)
}

// rules are tested in this order, which is that of a cluster's life. The rules of the first part need no server, and are tested while the servers
// of the cluster boot. needs has the rules that build upon the effects of others.
var rules = [][]rule{{
	{"All resources/scope", (*suite).scope},
	{"All resources/TypeMeta and ObjectMeta field", (*suite).standardFields},
	{"All resources/APIVersion field value/API group", (*suite).apiGroup},
	{"All resources/APIVersion field value/version", (*suite).apiVersion},
	{"InfraMachine/resource definition", (*suite).machineDefinition},
	{"InfraMachineTemplate/resource definition", (*suite).machineTemplateDefinition},
	{"InfraCluster/resource definition", (*suite).clusterDefinition},
	{"InfraClusterTemplate/resource definition", (*suite).clusterTemplateDefinition},
	{"InfraMachineTemplate/support for SSA dry run", (*suite).dryRun},
	{"Provider Repositories/local", (*suite).localRepository},
	{"Metadata YAML/Validation Rules", (*suite).metadata},
	{"Components YAML/Naming conventions", (*suite).componentsName},
	{"Components YAML/Target namespace", (*suite).componentsNamespace},
	{"Components YAML/Controllers and Watching namespace", (*suite).componentsManager},
	{"Components YAML/Variables", (*suite).componentsVariables},
	{"Components YAML/Labels", (*suite).componentsLabels},
	{"Components YAML/transformations", (*suite).componentsTransformed},
	{"Workload cluster templates/Naming conventions", (*suite).templateNames},
	{"Workload cluster templates/Target namespace", (*suite).templateNamespace},
	{"Workload cluster templates/Variables", (*suite).templateVariables},
	{"Workload cluster templates/Links to external objects", (*suite).templateLinks},
	{"ClusterClass definitions/Naming conventions", (*suite).classNames},
	{"ClusterClass definitions/Target namespace", (*suite).classNamespace},
	{"ClusterClass definitions/Variables", (*suite).classVariables},
	{"InfraCluster/reconciliation of a normal resource", (*suite).clusterWaits},
	{"InfraMachine/reconciliation of a normal resource", (*suite).machineWaits},
	{"InfraMachine/pausing", (*suite).machinePaused},
	{"InfraCluster/pausing", (*suite).clusterPaused},
	{"InfraCluster/Externally managed infrastructure", (*suite).externallyManaged},
	{"InfraCluster/Externally managed infrastructure by a label", (*suite).externallyLabelled},
	{"InfraMachine/reconciliation of a deleted resource that has no host", (*suite).machineDeletedEarly},
	{"InfraCluster/reconciliation of a deleted resource", (*suite).clusterDeleted},
	{"BootstrapConfig/Behavior", (*suite).bootstrapBehavior},
	{"BootstrapConfig/resource definition", (*suite).configDefinition},
	{"BootstrapConfig/API group", (*suite).configAPIGroup},
	{"BootstrapConfig/data secret", (*suite).dataSecret},
	{"BootstrapConfig/initialization completed", (*suite).dataSecretCreated},
	{"BootstrapConfig/conditions", (*suite).configConditions},
	{"BootstrapConfig/terminal failures", (*suite).configFailures},
	{"BootstrapConfigTemplate/resource definition", (*suite).configTemplateDefinition},
	{"BootstrapConfigTemplate/support for SSA dry run", (*suite).configDryRun},
	{"Sentinel file", (*suite).sentinelFile},
	{"Taint Nodes at creation", (*suite).uninitializedTaint},
	{"BootstrapConfig/support for in-place changes", (*suite).configInPlace},
	{"BootstrapConfig/pausing", (*suite).configPaused},
	{"Bootstrap provider/clusterctl support", (*suite).bootstrapClusterctl},
	{"Support for running multiple instances", (*suite).bootstrapInstances},
}, {
	{"InfraMachine/provider ID", (*suite).providerID},
	{"InfraMachine/failure domain", (*suite).failureDomain},
	{"InfraMachine/failure domain that no host has", (*suite).failureDomainStrict},
	{"InfraMachine/addresses", (*suite).addresses},
	{"InfraMachine/initialization completed", (*suite).machineInitialized},
	{"InfraMachine/conditions", (*suite).machineConditions},
	{"InfraMachineTemplate/cluster autoscaling from zero", (*suite).autoscaling},
	{"InfraCluster/control plane endpoint", (*suite).endpoint},
	{"InfraCluster/initialization completed", (*suite).clusterInitialized},
	{"InfraCluster/conditions", (*suite).clusterConditions},
	{"InfraCluster/failure domains", (*suite).failureDomains},
	{"InfraCluster/failure domains found on hosts", (*suite).failureDomainsFound},
	{"Move", (*suite).move},
	{"Upkeep/nothing is requested at rest", (*suite).atRest},
	{"Upkeep/removed metadata is restored", (*suite).restored},
	{"InfraMachine/support for in-place changes", (*suite).inPlaceChanges},
	{"InfraMachine/terminal failures", (*suite).terminalFailures},
	{"InfraMachine/reconciliation of a deleted resource", (*suite).machineDeleted},
	{"Multi tenancy", (*suite).multiTenancy},
	{"RBAC/an event that repeats", (*suite).repeatedEvents},
	{"RBAC/nothing was refused", (*suite).nothingRefused},
	{"RBAC/every rule was used", (*suite).rulesUsed},
	{"RBAC/Secrets", (*suite).secretsUsed},
}}

// needs are the rules that leave the objects in the state that a rule expects.
var needs = map[string][]string{
	"InfraCluster/pausing": {"InfraMachine/reconciliation of a normal resource"}, // which sets the endpoint
	"InfraMachine/reconciliation of a deleted resource that has no host": {"InfraMachine/reconciliation of a normal resource"},
	"InfraCluster/reconciliation of a deleted resource":                  {"InfraMachine/reconciliation of a deleted resource that has no host"},
	"BootstrapConfig/data secret":                                        {rendered},
	"BootstrapConfig/initialization completed":                           {rendered},
	"BootstrapConfig/conditions":                                         {rendered},
	"BootstrapConfig/terminal failures":                                  {rendered},
	"BootstrapConfigTemplate/resource definition":                        {rendered},
	"BootstrapConfigTemplate/support for SSA dry run":                    {rendered},
	"Sentinel file":                                {rendered},
	"Taint Nodes at creation":                      {rendered},
	"BootstrapConfig/support for in-place changes": {rendered},
	"BootstrapConfig/pausing":                      {rendered},
	"Support for running multiple instances":       {rendered},
	"RBAC/Secrets":                                 {"Multi tenancy"}, // which starts controllers that list before they watch
}

// rendered is the rule that creates the objects of the bootstrap rules.
const rendered = "BootstrapConfig/Behavior"

// usesEveryRight is the rule that needs all others: together they use every right.
const usesEveryRight = "RBAC/every rule was used"

// parts are the rules as parts of the suite.
func parts() []contracttest.Part[*suite] {
	var parts []contracttest.Part[*suite]
	var before []string
	for i, part := range rules {
		for _, r := range part {
			p := contracttest.Part[*suite]{Name: r.name, Run: r.show, Needs: needs[r.name]}
			if i == 1 {
				p.Run = func(s *suite, t *testing.T) {
					s.awaitMachines(t)
					r.show(s, t)
				}
			}
			if r.name == usesEveryRight {
				p.Needs = slices.Clone(before)
			}
			parts, before = append(parts, p), append(before, r.name)
		}
	}
	return parts
}

// suite is one management plane with one cluster: a control plane machine, a worker in any failure domain, and a worker in the failure domain
// room-b. One of the four servers stays free.
type suite struct {
	lab     *site.Lab
	plane   *plane.Plane
	manager string // this provider's manager
	audit   string // the API server's audit log
	metrics string // where the controllers serve their metrics
	boot    string // where the boot server serves its metrics
	render  string // where the bootstrap provider serves its metrics
	running bool   // the machines of the cluster ran once

	// startControllers and startBootstrap start a manager with further flags, which ends with the suite.
	startControllers, startBootstrap func(args ...string) error
}

// What the suite's second cluster is called, which has no servers, and where it is.
const (
	side    = "side"
	waiting = "waiting"
	workers = site.ClusterName + "-room-b"
)

func TestContract(t *testing.T) {
	ctx := contracttest.Context(t, 10*time.Minute)
	s := &suite{lab: contracttest.Lab(ctx, t)}
	s.start(ctx, t)
	s.register(ctx, t)
	s.createCluster(t)
	s.createSide(t)
	contracttest.RunParts(t, s, parts())
}

// awaitMachines waits once until the machines of the cluster run.
func (s *suite) awaitMachines(t *testing.T) {
	t.Helper()
	if s.running {
		return
	}
	ctx := contracttest.Context(t, 6*time.Minute)
	NewWithT(t).Expect(site.Until(ctx, 5*time.Minute, site.Running(s.plane, 3))).To(Succeed())
	NewWithT(t).Expect(site.Until(ctx, time.Minute, site.Available(s.plane))).To(Succeed())
	s.running = true
}

// register registers four servers, two in each room.
func (s *suite) register(ctx context.Context, t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.lab.Register(ctx, s.plane, "server-1", "server-2", "server-3", "server-4")).To(Succeed())
	for server, room := range map[string]string{"server-1": "room-a", "server-2": "room-a", "server-3": "room-b", "server-4": "room-b"} {
		host := &v1alpha1.BareMetalHost{ObjectMeta: meta(site.Namespace, server)}
		g.Expect(s.plane.Client.Patch(ctx, host, merge(`{"spec":{"failureDomain":%q}}`, room))).To(Succeed())
	}
	g.Expect(site.Until(ctx, time.Minute, site.HostsIn(s.plane, v1alpha1.PhaseAvailable, 4))).To(Succeed())
}

func (s *suite) createCluster(t *testing.T) {
	t.Helper()
	g, ctx := NewWithT(t), t.Context()
	g.Expect(s.lab.CreateCluster(ctx, s.plane, site.Cluster{Workers: 1})).To(Succeed())
	var md clusterv1.MachineDeployment
	s.get(t, site.Namespace, site.ClusterName+"-workers", &md)
	inRoom := &clusterv1.MachineDeployment{ObjectMeta: meta(site.Namespace, workers), Spec: *md.Spec.DeepCopy()}
	inRoom.Spec.Selector = metav1.LabelSelector{MatchLabels: map[string]string{"room": "b"}}
	inRoom.Spec.Template.Labels = map[string]string{"room": "b"}
	inRoom.Spec.Template.Spec.FailureDomain = "room-b"
	g.Expect(s.plane.Client.Create(ctx, inRoom)).To(Succeed())
}

// createSide creates a Cluster without servers and without a control plane endpoint, with a Machine, and two objects without owners.
func (s *suite) createSide(t *testing.T) {
	t.Helper()
	g, ctx, c := NewWithT(t), t.Context(), s.plane.Client
	g.Expect(c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: side}})).To(Succeed())
	g.Expect(c.Create(ctx, &v1alpha1.BareMetalMachine{ObjectMeta: meta(side, "ownerless"), Spec: s.machineSpec(t)})).To(Succeed())
	g.Expect(c.Create(ctx, &v1alpha1.BareMetalCluster{ObjectMeta: meta(side, "ownerless")})).To(Succeed())
	s.createBareCluster(ctx, t, side, waiting, &v1alpha1.BareMetalCluster{Spec: v1alpha1.BareMetalClusterSpec{
		FailureDomains: []clusterv1.FailureDomain{{Name: "hall-1", ControlPlane: new(true), Attributes: map[string]string{"row": "7"}}},
	}})
	config := `
apiVersion: bootstrap.cluster.x-k8s.io/v1beta2
kind: KubeadmConfig
metadata: {namespace: side, name: waiting}
spec: {joinConfiguration: {nodeRegistration: {name: waiting}}}
`
	g.Expect(s.plane.Apply(ctx, config)).To(Succeed())
	g.Expect(c.Create(ctx, &v1alpha1.BareMetalMachine{ObjectMeta: meta(side, waiting), Spec: s.machineSpec(t)})).To(Succeed())
	g.Expect(c.Create(ctx, &clusterv1.Machine{ObjectMeta: meta(side, waiting), Spec: clusterv1.MachineSpec{
		ClusterName: waiting, FailureDomain: "room-z",
		Bootstrap: clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: waiting,
		}},
		InfrastructureRef: infrastructure("BareMetalMachine", waiting),
	}})).To(Succeed())
}

// createBareCluster creates a Cluster without a control plane, and its BareMetalCluster with the same name.
func (s *suite) createBareCluster(ctx context.Context, t *testing.T, namespace, name string, infra *v1alpha1.BareMetalCluster) {
	t.Helper()
	g := NewWithT(t)
	infra.Namespace, infra.Name = namespace, name
	g.Expect(s.plane.Client.Create(ctx, infra)).To(Succeed())
	g.Expect(s.plane.Client.Create(ctx, &clusterv1.Cluster{
		ObjectMeta: meta(namespace, name), Spec: clusterv1.ClusterSpec{InfrastructureRef: infrastructure("BareMetalCluster", name)},
	})).To(Succeed())
}

// machineSpec is that of the workers' template.
func (s *suite) machineSpec(t *testing.T) v1alpha1.BareMetalMachineSpec {
	t.Helper()
	var template v1alpha1.BareMetalMachineTemplate
	s.get(t, site.Namespace, site.ClusterName+"-workers", &template)
	return template.Spec.Template.Spec
}

func infrastructure(kind, name string) clusterv1.ContractVersionedObjectReference {
	return clusterv1.ContractVersionedObjectReference{APIGroup: v1alpha1.GroupVersion.Group, Kind: kind, Name: name}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// get reads an object.
func (s *suite) get(t *testing.T, namespace, name string, o client.Object) {
	t.Helper()
	NewWithT(t).Expect(s.plane.Client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, o)).To(Succeed())
}

// eventually waits until check holds.
func eventually(t *testing.T, check func(g Gomega)) {
	t.Helper()
	NewWithT(t).Eventually(check, stepTimeout, 100*time.Millisecond).Should(Succeed())
}

// pairs returns the Machines of the cluster, each with its BareMetalMachine.
func (s *suite) pairs(t *testing.T) map[*clusterv1.Machine]*v1alpha1.BareMetalMachine {
	t.Helper()
	var machines clusterv1.MachineList
	NewWithT(t).Expect(s.plane.Client.List(t.Context(), &machines, client.InNamespace(site.Namespace))).To(Succeed())
	out := map[*clusterv1.Machine]*v1alpha1.BareMetalMachine{}
	for i := range machines.Items {
		infra := &v1alpha1.BareMetalMachine{}
		s.get(t, site.Namespace, machines.Items[i].Spec.InfrastructureRef.Name, infra)
		out[&machines.Items[i]] = infra
	}
	NewWithT(t).Expect(out).NotTo(BeEmpty())
	return out
}
