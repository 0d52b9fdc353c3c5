package clusterctl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// erase deletes every status of a running cluster. No server gets a power or boot command.
func (s *story) erase(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	s.rotateToken(t) // data that is rendered again would contain it
	records, data := s.records(t, s.source), s.rendered(t, s.source)
	eraseStatuses(s.ctx, t, s.source)
	s.until(t, 2*time.Minute, rest(s.source, 3, 4))
	g.Expect(s.records(t, s.source)).To(Equal(records), "a lost status changed the record of a boot")
	g.Expect(s.rendered(t, s.source)).To(Equal(data), "a lost status changed bootstrap data")
	g.Expect(s.commands()).To(Equal(s.given), "a lost status sent a command to a server")
}

// away are free hosts that are taken out of service before the move: the patch for it, and the resulting phase.
var away = map[v1alpha1.HostPhase]string{
	v1alpha1.PhaseQuarantined: `{"spec":{"quarantine":{"reason":"DiskFailed","message":"Disk 3 makes errors"}}}`,
	v1alpha1.PhaseMaintenance: `{"spec":{"maintenance":{"reason":"A new fan"}}}`,
}

// move moves a running cluster with hosts that are claimed, free, quarantined and in maintenance. The move waits while a host blocks it. It is interrupted,
// and refused since it left the Cluster paused. After the recovery in the docs it succeeds.
func (s *story) move(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	free := s.hosts(t, s.source, v1alpha1.PhaseAvailable)
	g.Expect(free).To(HaveLen(4))
	for phase, patch := range away {
		_, err := s.source.Kubectl(s.ctx, "-n", site.Namespace, "patch", "baremetalhost", free[0], "--type=merge", "-p", patch)
		g.Expect(err).NotTo(HaveOccurred())
		s.until(t, time.Minute, site.HostsIn(s.source, phase, 1))
		free = free[1:]
	}
	s.startTarget(t)
	proof, proofKeys := s.proof(t, free[0])
	before, records, data := secretsOf(s.ctx, t, s.source), s.records(t, s.source), s.rendered(t, s.source)
	g.Expect(records).To(HaveLen(7))

	s.breakOff(t)
	// A provider that ended just after the report of a server leaves this annotation, and so may a host in maintenance.
	blocked := s.hosts(t, s.source, v1alpha1.PhaseProvisioned)[0]
	s.source.StopProvider()
	s.requestErasure(t, free[0])
	_, err := s.source.Kubectl(s.ctx, "-n", site.Namespace, "annotate", "baremetalhost", blocked, v1alpha1.BlockMoveAnnotation+"=")
	g.Expect(err).NotTo(HaveOccurred())
	s.bootless(t) // its boot is created only after clusterctl has built its object graph
	ctx, interrupt := context.WithCancel(s.ctx)
	defer interrupt()
	ended := s.startMove(ctx)
	s.until(t, time.Minute, whileRuns(ended, s.paused(s.source)))
	interrupt()
	g.Expect(<-ended).To(HaveOccurred())
	g.Expect(s.hosts(t, s.source, "")).To(HaveLen(8), "hosts went although a boot was under way")
	g.Expect(s.records(t, s.source)).To(Equal(records), "boots went although one was under way")
	g.Expect(s.hosts(t, s.target, "")).To(BeEmpty(), "hosts came although a boot was under way")

	out, err := s.source.Clusterctl(s.ctx, "move", "--to-kubeconfig", s.target.Kubeconfig, "-n", site.Namespace)
	g.Expect(err).To(HaveOccurred())
	g.Expect(out).To(ContainSubstring("cannot start operation while the following Clusters are paused: default/" + site.ClusterName))
	s.unpause(t)

	ended = s.startMove(s.ctx)
	s.until(t, time.Minute, whileRuns(ended, s.paused(s.source)))
	g.Expect(s.source.StartProvider(s.ctx, s.lab.Manager())).To(Succeed()) // it removes the annotation from a host whose Cluster the move has paused
	g.Expect(<-ended).To(Succeed())
	s.booted(t, s.target)
	s.settle(t, s.target, 3)
	g.Expect(s.hosts(t, s.source, "")).To(BeEmpty(), "hosts are left behind")
	s.until(t, time.Minute, s.noBoots(s.source)) // the garbage collector deletes the boot that the provider has created since
	g.Expect(s.records(t, s.target)).To(Equal(records), "the move changed the records of boots")
	g.Expect(secretsOf(s.ctx, t, s.target)).To(ContainElements(before))
	s.moved(t, s.source, s.target, data)
	s.proofMoved(t, proof, proofKeys)
	s.requestStays(t)
	g.Expect(s.commands()).To(Equal(s.given), "the move sent a command to a server")
}

// lateHost is a host whose boot is created only after clusterctl has built its object graph. Its BMC does not answer.
const lateHost = "server-late"

// bootless registers a host while the provider is away.
func (s *story) bootless(t *testing.T) {
	t.Helper()
	host := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: lateHost}, Spec: v1alpha1.BareMetalHostSpec{
		BMC: v1alpha1.BMC{Address: "redfish://192.0.2.77", CredentialsSecretName: "none"}, BootMACAddresses: []string{"52:54:00:99:99:99"},
	}}
	NewWithT(t).Expect(s.source.Client.Create(s.ctx, host)).To(Succeed())
}

// booted waits until that host has its boot on the other side, and deletes the host.
func (s *story) booted(t *testing.T, p *plane.Plane) {
	t.Helper()
	s.until(t, time.Minute, func(ctx context.Context) error {
		boot := &v1alpha1.BareMetalBoot{}
		if err := p.Client.Get(ctx, types.NamespacedName{Namespace: site.Namespace, Name: lateHost}, boot); err != nil {
			return err
		}
		if len(boot.Finalizers) == 0 || len(boot.OwnerReferences) == 0 {
			return fmt.Errorf("the boot has the finalizers %v and the owners %v", boot.Finalizers, boot.OwnerReferences)
		}
		return nil
	})
	_, err := p.Kubectl(s.ctx, "-n", site.Namespace, "delete", "baremetalhost", lateHost, "--timeout=60s")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	s.until(t, time.Minute, func(ctx context.Context) error { // by the garbage collector
		err := p.Client.Get(ctx, types.NamespacedName{Namespace: site.Namespace, Name: lateHost}, &v1alpha1.BareMetalBoot{})
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("the boot of a host that is gone is there: %w", err)
		}
		return nil
	})
}

// records are the records of boots, by host.
func (s *story) records(t *testing.T, p *plane.Plane) map[string]v1alpha1.BareMetalBootSpec {
	t.Helper()
	var boots v1alpha1.BareMetalBootList
	NewWithT(t).Expect(p.Client.List(s.ctx, &boots, client.InNamespace(site.Namespace))).To(Succeed())
	all := map[string]v1alpha1.BareMetalBootSpec{}
	for _, b := range boots.Items {
		if b.Name != lateHost {
			all[b.Name] = b.Spec
		}
	}
	return all
}

// noBoots is nil if no boot is left.
func (s *story) noBoots(p *plane.Plane) func(context.Context) error {
	return func(ctx context.Context) error {
		var boots v1alpha1.BareMetalBootList
		if err := p.Client.List(ctx, &boots, client.InNamespace(site.Namespace)); err != nil {
			return err
		}
		if len(boots.Items) > 0 {
			return fmt.Errorf("%d boots are left, such as %s with the finalizers %v", len(boots.Items), boots.Items[0].Name, boots.Items[0].Finalizers)
		}
		return nil
	}
}

// unpause is the recovery of a move that was interrupted.
func (s *story) unpause(t *testing.T) {
	t.Helper()
	_, err := s.source.Kubectl(s.ctx, "-n", site.Namespace, "patch", "cluster", site.ClusterName, "--type=merge", "-p", `{"spec":{"paused":null}}`)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
}

// noMachines denies the creation of BareMetalMachines on a management plane.
const noMachines = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: no-machines}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [infrastructure.cluster.x-k8s.io], apiVersions: ["*"], operations: [CREATE], resources: [baremetalmachines]}
  validations:
  - expression: "false"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: no-machines}
spec: {policyName: no-machines, validationActions: [Deny]}
`

// breakOff interrupts a move between the hosts and their machines. The hosts on the other side get no command, and the hosts here do not change.
func (s *story) breakOff(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(s.target.Apply(s.ctx, noMachines)).To(Succeed())
	s.until(t, time.Minute, func(ctx context.Context) error { // the API server enforces it after a moment
		probe := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: site.Namespace, Name: "probe"}}
		probe.Spec.Boot = v1alpha1.BootSource{
			Kernel: v1alpha1.Artifact{URL: values["KERNEL_URL"], Checksum: values["KERNEL_CHECKSUM"]}, Persistence: v1alpha1.PersistenceInstalled,
		}
		if err := s.target.Client.Create(ctx, probe, client.DryRunAll); err == nil || !strings.Contains(err.Error(), "no-machines") {
			return fmt.Errorf("the policy is not in force: %w", err)
		}
		return nil
	})
	ctx, interrupt := context.WithCancel(s.ctx)
	defer interrupt()
	ended := s.startMove(ctx)
	s.until(t, time.Minute, whileRuns(ended, site.HostsIn(s.target, v1alpha1.PhaseOrphaned, 3)))
	interrupt()
	g.Expect(<-ended).To(HaveOccurred())
	_, err := s.target.Kubectl(s.ctx, "delete", "validatingadmissionpolicybinding,validatingadmissionpolicy", "no-machines")
	g.Expect(err).NotTo(HaveOccurred())
	s.unpause(t)
	s.settle(t, s.source, 3)
	// The next move would update them. This is how hosts are deleted that live on elsewhere.
	_, err = s.target.Kubectl(s.ctx, "-n", site.Namespace, "annotate", "baremetalhosts", "--all", v1alpha1.DeleteForMoveAnnotation+"=")
	g.Expect(err).NotTo(HaveOccurred())
	_, err = s.target.Kubectl(s.ctx, "-n", site.Namespace, "delete", "baremetalhosts", "--all", "--timeout=60s")
	g.Expect(err).NotTo(HaveOccurred())
	s.until(t, time.Minute, s.noBoots(s.target))
	g.Expect(s.commands()).To(Equal(s.given), "a host that is not its own got a command")
}

// startMove starts a move from the source to the target, and returns its result.
func (s *story) startMove(ctx context.Context) chan error {
	ended := make(chan error, 1)
	go func() {
		_, err := s.source.Clusterctl(ctx, "move", "--to-kubeconfig", s.target.Kubeconfig, "-n", site.Namespace)
		ended <- err
	}()
	return ended
}

// whileRuns is nil if check is nil. It is an error if the move has ended.
func whileRuns(ended chan error, check func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case err := <-ended:
			ended <- err
			return fmt.Errorf("the move ended: %w", err)
		default:
			return check(ctx)
		}
	}
}

// settle waits until this number of machines runs, the other hosts are free, and the hosts that were taken out of service still are.
func (s *story) settle(t *testing.T, p *plane.Plane, machines int) {
	t.Helper()
	s.until(t, 2*time.Minute, site.Running(p, machines))
	s.until(t, 2*time.Minute, rest(p, machines, 5-machines))
	for phase := range away {
		s.until(t, time.Minute, site.HostsIn(p, phase, 1))
	}
	NewWithT(t).Expect(s.spec(t, p, v1alpha1.PhaseQuarantined).Quarantine).To(HaveField("Message", "Disk 3 makes errors"))
	NewWithT(t).Expect(s.spec(t, p, v1alpha1.PhaseMaintenance).Maintenance).To(HaveField("Reason", "A new fan"))
}

// scale adds a worker to each MachineDeployment on the other side, after the boot server there has replaced the one that the servers use.
func (s *story) scale(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	s.source.StopProvider()
	s.target.StopProvider()
	g.Expect(s.target.StartProvider(s.ctx, s.lab.Manager(), s.lab.Rack.ManagerArgs()...)).To(Succeed())
	g.Expect(s.source.StartProvider(s.ctx, s.lab.Manager(), s.lab.Rack.OtherManagerArgs()...)).To(Succeed()) // a move back needs its webhooks
	before := s.rendered(t, s.target)
	_, err := s.target.Kubectl(s.ctx, "-n", site.Namespace, "scale", "machinedeployment", site.ClusterName+"-workers", site.ConfigWorkers, "--replicas=2")
	g.Expect(err).NotTo(HaveOccurred())
	s.until(t, 3*time.Minute, site.Running(s.target, 5))
	s.settle(t, s.target, 5)
	s.renderedAnew(t, before)
	s.given = s.commands()
}

// moveBack moves the cluster with its new machines to where it came from.
func (s *story) moveBack(t *testing.T) { //nolint:thelper // a step: a failure is to name its line
	g := NewWithT(t)
	records, data := s.records(t, s.target), s.rendered(t, s.target)
	_, err := s.target.Clusterctl(s.ctx, "move", "--to-kubeconfig", s.source.Kubeconfig, "-n", site.Namespace)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.hosts(t, s.target, "")).To(BeEmpty(), "hosts are left behind")
	s.until(t, time.Minute, s.noBoots(s.target))
	s.target.StopProvider()
	s.source.StopProvider()
	g.Expect(s.source.StartProvider(s.ctx, s.lab.Manager())).To(Succeed())
	s.settle(t, s.source, 5)
	g.Expect(s.records(t, s.source)).To(Equal(records), "the move changed the records of boots")
	s.moved(t, s.target, s.source, data)
	s.until(t, time.Minute, s.outcome(s.source, s.requested, v1alpha1.ReasonHostRecreated)) // it has waited here, and its host has returned with another UID
	g.Expect(s.commands()).To(Equal(s.given), "the move sent a command to a server")
	g.Expect(s.target.Stop()).To(Succeed())
	s.target = nil
}

// hosts are the names of the hosts in a phase, or of all.
func (s *story) hosts(t *testing.T, p *plane.Plane, phase v1alpha1.HostPhase) []string {
	t.Helper()
	var hosts v1alpha1.BareMetalHostList
	NewWithT(t).Expect(p.Client.List(s.ctx, &hosts, client.InNamespace(site.Namespace))).To(Succeed())
	names := []string{}
	for _, h := range hosts.Items {
		if phase == "" || h.Status.Phase == phase {
			names = append(names, h.Name)
		}
	}
	return names
}

// spec returns the spec of the only host in a phase.
func (s *story) spec(t *testing.T, p *plane.Plane, phase v1alpha1.HostPhase) v1alpha1.BareMetalHostSpec {
	t.Helper()
	names := s.hosts(t, p, phase)
	NewWithT(t).Expect(names).To(HaveLen(1))
	var host v1alpha1.BareMetalHost
	NewWithT(t).Expect(p.Client.Get(s.ctx, types.NamespacedName{Namespace: site.Namespace, Name: names[0]}, &host)).To(Succeed())
	return host.Spec
}

// paused is nil while the Cluster is paused.
func (s *story) paused(p *plane.Plane) func(context.Context) error {
	return func(ctx context.Context) error {
		var cluster clusterv1.Cluster
		if err := p.Client.Get(ctx, types.NamespacedName{Namespace: site.Namespace, Name: site.ClusterName}, &cluster); err != nil {
			return err
		}
		if !ptr.Deref(cluster.Spec.Paused, false) {
			return errors.New("the Cluster is not paused")
		}
		return nil
	}
}

// rest is nil if every status is as it was before it was lost: this number of hosts run their machines, and this number are free.
func rest(p *plane.Plane, machines, free int) func(context.Context) error {
	return func(ctx context.Context) error {
		for phase, want := range map[v1alpha1.HostPhase]int{v1alpha1.PhaseProvisioned: machines, v1alpha1.PhaseAvailable: free} {
			if err := site.HostsIn(p, phase, want)(ctx); err != nil {
				return err
			}
		}
		var hosts v1alpha1.BareMetalHostList
		if err := p.Client.List(ctx, &hosts, client.InNamespace(site.Namespace)); err != nil {
			return err
		}
		for _, h := range hosts.Items {
			if h.Status.Hardware == nil || h.Status.Power == "" {
				return fmt.Errorf("host %s has no hardware or power in its status", h.Name)
			}
		}
		return rebuilt(ctx, p)
	}
}

// rebuilt is nil if the statuses of the machines and of the cluster are restored.
func rebuilt(ctx context.Context, p *plane.Plane) error {
	var machines v1alpha1.BareMetalMachineList
	if err := p.Client.List(ctx, &machines, client.InNamespace(site.Namespace)); err != nil {
		return err
	}
	for _, m := range machines.Items {
		if p := m.Status.Initialization.Provisioned; p == nil || !*p || m.Status.HostRef == nil || len(m.Status.Addresses) == 0 {
			return fmt.Errorf("machine %s is not rebuilt", m.Name)
		}
	}
	var cluster v1alpha1.BareMetalCluster
	if err := p.Client.Get(ctx, types.NamespacedName{Namespace: site.Namespace, Name: site.ClusterName}, &cluster); err != nil {
		return err
	}
	if p := cluster.Status.Initialization.Provisioned; p == nil || !*p {
		return errors.New("the BareMetalCluster is not rebuilt")
	}
	_, err := site.Configs(ctx, p)
	return err
}

// eraseStatuses deletes the status of every object of these providers.
func eraseStatuses(ctx context.Context, t *testing.T, p *plane.Plane) {
	t.Helper()
	g := NewWithT(t)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))
	for _, list := range []client.ObjectList{
		&v1alpha1.BareMetalHostList{}, &v1alpha1.BareMetalBootList{}, &v1alpha1.BareMetalMachineList{}, &v1alpha1.BareMetalClusterList{}, &bootstrapv1.BareMetalConfigList{},
	} {
		g.Expect(p.Client.List(ctx, list, client.InNamespace(site.Namespace))).To(Succeed())
		g.Expect(meta.LenList(list)).NotTo(BeZero())
		g.Expect(meta.EachListItem(list, func(o runtime.Object) error {
			return p.Client.Status().Patch(ctx, o.(client.Object), patch)
		})).To(Succeed())
	}
}

// secretsOf returns the names of the Secrets of the hosts and of the cluster.
func secretsOf(ctx context.Context, t *testing.T, p *plane.Plane) []string {
	t.Helper()
	var secrets corev1.SecretList
	NewWithT(t).Expect(p.Client.List(ctx, &secrets, client.InNamespace(site.Namespace))).To(Succeed())
	var names []string
	for _, s := range secrets.Items {
		names = append(names, s.Name)
	}
	NewWithT(t).Expect(names).To(ContainElements("server-1-bmc", "server-2-bmc", "server-3-bmc", site.ClusterName+"-ca", site.ClusterName+"-kubeconfig"))
	return names
}
