package crash

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/config/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// target is the API server that clusters move to. kubeconfigs are clusterctl's kubeconfigs of both.
var (
	target      *controllerstest.Env
	kubeconfigs struct{ source, target string }
)

// startTarget starts the other API server, and makes both acceptable to clusterctl as management clusters.
func startTarget(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	var err error
	target, err = controllerstest.Start()
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(target.Stop)
	for _, e := range []*controllerstest.Env{env, target} {
		label(t, e)
	}
	kubeconfigs.source = env.Kubeconfig(t, "mover", "system:masters")
	kubeconfigs.target = target.Kubeconfig(t, "mover", "system:masters")
}

// label gives CRDs the labels that clusterctl gives them when it installs their provider.
func label(t *testing.T, e *controllerstest.Env) {
	t.Helper()
	g := NewWithT(t)
	scheme := controllerstest.Scheme()
	g.Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
	c, err := client.New(e.Config, client.Options{Scheme: scheme})
	g.Expect(err).NotTo(HaveOccurred())
	var crds apiextensionsv1.CustomResourceDefinitionList
	g.Expect(c.List(t.Context(), &crds)).To(Succeed())
	g.Expect(crds.Items).NotTo(BeEmpty())
	for i := range crds.Items {
		crd := &crds.Items[i]
		before := crd.DeepCopy()
		if crd.Labels == nil {
			crd.Labels = map[string]string{}
		}
		crd.Labels["clusterctl.cluster.x-k8s.io"] = ""
		crd.Labels["clusterctl.cluster.x-k8s.io/core"] = ""
		crd.Labels[clusterv1.ProviderNameLabel] = "cluster-api"
		if crd.Spec.Group == v1alpha1.GroupVersion.Group {
			crd.Labels[clusterv1.ProviderNameLabel] = provider.Infrastructure
		}
		if slices.Contains([]string{"BareMetalHost", "BareMetalBoot", "BareMetalInspection", "BareMetalErasure", "BareMetalProfile", "BareMetalSettings"}, crd.Spec.Names.Kind) {
			crd.Labels["clusterctl.cluster.x-k8s.io/move"] = "" // as config/crd has it
		}
		g.Expect(c.Patch(t.Context(), crd, client.MergeFrom(before))).To(Succeed())
	}
}

// own gives the objects of a claim what Cluster API gives them: the owners that clusterctl follows, and a cluster that is available.
func own(t *testing.T, c *controllerstest.Claim) {
	t.Helper()
	owner := func(kind, name string, o client.Object) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, UID: o.GetUID()}}
	}
	controllerstest.Modify(t, env, c.Machine, func(m *clusterv1.Machine) { m.OwnerReferences = owner("Cluster", c.Cluster.Name, c.Cluster) })
	// The provider labels a Secret without an owner.
	controllerstest.Modify(t, env, c.Bootstrap, func(s *corev1.Secret) { s.OwnerReferences = owner("Machine", c.Machine.Name, c.Machine) })
	raise(t, env, c.Cluster, c.Machine)
}

// raise sets the statuses of a cluster that is available, and of a machine that has its Node, as Cluster API does.
func raise(t *testing.T, e *controllerstest.Env, cluster *clusterv1.Cluster, machine *clusterv1.Machine) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func() error {
		if err := errors.Join(e.Client.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster), e.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine)); err != nil {
			return err
		}
		cluster.Status.Initialization.InfrastructureProvisioned = new(true)
		conditions.Set(cluster, metav1.Condition{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Test"})
		machine.Status.NodeRef = clusterv1.MachineNodeReference{Name: machine.Name}
		return errors.Join(e.Client.Status().Update(t.Context(), cluster), e.Client.Status().Update(t.Context(), machine))
	}, "30s").Should(Succeed())
}

// moveSource halts the provider on the side that the objects leave.
func moveSource(t *testing.T, f *fuse) {
	t.Helper()
	move(t, f, &fuse{})
}

// moveTarget halts the provider on the side that the objects move to.
func moveTarget(t *testing.T, f *fuse) {
	t.Helper()
	move(t, &fuse{}, f)
}

// lent adds a server for only one machine, and returns both. Its boot stops in its firmware until the server loses its power or letBoot is closed.
func (r *run) lent(name, machine string, letBoot <-chan struct{}) (*rig.Server, *controllerstest.Claim) {
	r.t.Helper()
	server := r.site.Server(r.t, name, rig.ServerOptions{Boot: func(ctx context.Context, _ *pxetest.Firmware) {
		select {
		case <-letBoot:
		case <-ctx.Done():
		}
	}})
	server.Host.Labels = map[string]string{"for": name}
	server.Register(r.t)
	claim := r.site.Claim(r.t, machine, func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.HostSelector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"for": v1alpha1.LabelValue(name)}}
	})
	own(r.t, claim)
	r.until("server "+name+" boots", func() error {
		if ons, _ := server.Switched(); ons == 0 {
			return errors.New("it is off")
		}
		return nil
	})
	return server, claim
}

// reserved adds two hosts: one without a boot, which is paused, and one that is not registered yet.
func (r *run) reserved() (bootless, late *rig.Server) {
	r.t.Helper()
	bootless, late = r.site.Server(r.t, "e", rig.ServerOptions{}), r.site.Server(r.t, "f", rig.ServerOptions{})
	bootless.Host.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
	bootless.Host.Finalizers = []string{v1alpha1.HostFinalizer}
	bootless.Register(r.t)
	return bootless, late
}

// records returns the records of the named hosts' boots, by host.
func (r *run) records(hosts ...string) map[string]v1alpha1.BareMetalBootSpec {
	all := map[string]v1alpha1.BareMetalBootSpec{}
	for _, b := range r.boots() {
		if slices.Contains(hosts, b.Name) {
			all[b.Name] = b.Spec
		}
	}
	return all
}

// emptied expects that nothing is left here except a host that was registered during the move.
func (r *run) emptied(late string) {
	r.t.Helper()
	g := NewWithT(r.t)
	for _, h := range r.hosts() {
		g.Expect(h.Name).To(Equal(late), "it is left behind")
	}
	r.collected("nothing is left of the boots here", late)
	for _, left := range []client.ObjectList{&v1alpha1.BareMetalMachineList{}, &v1alpha1.BareMetalClusterList{}, &clusterv1.MachineList{}, &clusterv1.ClusterList{}} {
		g.Expect(env.Client.List(r.t.Context(), left, client.InNamespace(r.site.Namespace))).To(Succeed())
		g.Expect(meta.LenList(left)).To(BeZero(), "%T: objects are left behind", left)
	}
	g.Expect(r.boot(&v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: late}})).NotTo(BeNil())
}

// move moves a running cluster, one whose server boots, one whose boot failed, and free hosts with the real clusterctl, while both providers run. One of
// the free hosts gets its boot only after clusterctl has built its object graph. A host that is registered then stays.
func move(t *testing.T, source, destination *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := rack(t)
	moving := make(chan struct{})
	letBoot := sync.OnceFunc(func() { close(moving) })
	t.Cleanup(letBoot)
	r.start(env, source)
	own(t, r.claim)
	r.provisioned()
	c, booting := r.lent("c", r.machine()+"-2", moving)
	d, failed := r.lent("d", r.machine()+"-3", nil)
	controllerstest.ModifyBoot(t, env, d.Host, func(b *v1alpha1.BareMetalBootSpec) {
		b.Failure = &v1alpha1.BootFailure{Reason: "Test", Message: "a test"}
	})
	bootless, late := r.reserved()
	r.until("the boot of the other has failed", func() error {
		return r.phases(v1alpha1.PhaseProvisioned, v1alpha1.PhaseAvailable, v1alpha1.PhaseBooting, v1alpha1.PhaseBootFailed, "")
	})
	r.watchClaims(target)
	r.start(target, destination, func(o *rig.Options) { o.NoBoot = true })
	servers := []*rig.Server{r.site.Servers()[0], r.site.Servers()[1], d, bootless, late}
	given, records := commandsOf(servers), r.records("a", "b", "d")
	source.arm()
	destination.arm()

	ended := make(chan error, 1)
	go func() { ended <- clusterctlMove(t.Context(), r.site.Namespace) }()
	r.until("the move paused the cluster that boots", func() error {
		select {
		case err := <-ended:
			t.Fatal("the move ended while a server boots: ", err)
		default:
		}
		if err := r.get(booting.Cluster); err != nil {
			return err
		}
		if !ptr.Deref(booting.Cluster.Spec.Paused, false) {
			return errors.New("it is not paused")
		}
		return nil
	})
	controllerstest.Modify(t, env, bootless.Host, func(h *v1alpha1.BareMetalHost) { h.Annotations = nil })
	late.Register(t)
	r.until("the hosts have their boots", func() error {
		if has := len(r.boots()); has != 6 {
			return fmt.Errorf("there are %d boots", has)
		}
		return nil
	})
	letBoot()
	r.until("clusterctl moved everything", func() error {
		select {
		case err := <-ended:
			g.Expect(err).NotTo(HaveOccurred(), r.scene())
			return nil
		default:
			return errors.New("it moves")
		}
	})
	r.emptied(late.Name)
	r.home = target
	for _, claim := range []*controllerstest.Claim{r.claim, booting, failed} {
		raise(t, target, claim.Cluster, claim.Machine) // a move loses every status
	}
	r.settled(func() { r.arrived(booting) })
	g.Expect(r.records("a", "b", "d")).To(Equal(records), "the move changed the record of a boot")
	r.until("the tokens of the boot are void", func() error { return void(t.Context(), c.Last(), true) })
	g.Expect(commandsOf(servers)).To(Equal(given), "the move sent a command to a server that it did not find booting")
	r.ended(powers{switched: [][2]int{{1, 0}, {1, 0}, {1, 0}, {0, 0}, {0, 0}, {0, 0}}, boots: 2}, booting.Machine.Name, failed.Machine.Name)
}

// commandsOf returns the commands that servers got.
func commandsOf(servers []*rig.Server) map[string][]string {
	all := map[string][]string{}
	for _, s := range servers {
		all[s.Name] = s.CommandNames()
	}
	return all
}

// arrived waits until everything on the other side is as it was.
func (r *run) arrived(booting *controllerstest.Claim) {
	r.t.Helper()
	r.until("both machines run on the other side", func() error {
		if err := r.phases(v1alpha1.PhaseProvisioned, v1alpha1.PhaseProvisioned, v1alpha1.PhaseAvailable, v1alpha1.PhaseAvailable, v1alpha1.PhaseBootFailed); err != nil {
			return err
		}
		for _, m := range []*v1alpha1.BareMetalMachine{r.claim.BareMetalMachine, booting.BareMetalMachine} {
			if err := r.get(m); err != nil {
				return err
			}
			if m.Spec.ProviderID == "" || m.Status.HostRef == nil || !strings.HasSuffix(m.Spec.ProviderID, "/"+m.Status.HostRef.Name+"/"+m.Name) || !conditions.IsTrue(m, v1alpha1.ReadyCondition) {
				return fmt.Errorf("machine %s: provider ID %q, status %+v", m.Name, m.Spec.ProviderID, m.Status)
			}
		}
		return nil
	})
}

func clusterctlMove(ctx context.Context, namespace string) error {
	program := filepath.Join(controllerstest.Root(), ".cache", "bin", "clusterctl")
	command := exec.CommandContext(ctx, program, "move", "--kubeconfig", kubeconfigs.source, "--to-kubeconfig", kubeconfigs.target, "-n", namespace, "-v", "2")
	command.Env = append(command.Environ(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true")
	out, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("clusterctl move: %w\n%s", err, out)
	}
	return nil
}
