package crash

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// target is the API server that clusters move to, and kubeconfigs are those of both for clusterctl.
var (
	target      *controllerstest.Env
	kubeconfigs struct{ source, target string }
)

// startTarget starts the other API server, and makes both such that clusterctl takes them for management clusters.
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
			crd.Labels[clusterv1.ProviderNameLabel] = "infrastructure-baremetal"
		}
		if crd.Spec.Names.Kind == "BareMetalHost" {
			crd.Labels["clusterctl.cluster.x-k8s.io/move"] = "" // as config/crd has it
		}
		g.Expect(c.Patch(t.Context(), crd, client.MergeFrom(before))).To(Succeed())
	}
}

// own makes the objects of a claim what Cluster API would have made of them: the owners that clusterctl follows, and a cluster that is up.
func own(t *testing.T, c *controllerstest.Claim) {
	t.Helper()
	owner := func(kind, name string, o client.Object) []metav1.OwnerReference {
		return []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: kind, Name: name, UID: o.GetUID()}}
	}
	controllerstest.Modify(t, env, c.Machine, func(m *clusterv1.Machine) { m.OwnerReferences = owner("Cluster", c.Cluster.Name, c.Cluster) })
	c.Bootstrap.OwnerReferences = owner("Machine", c.Machine.Name, c.Machine)
	NewWithT(t).Expect(env.Client.Update(t.Context(), c.Bootstrap)).To(Succeed())
	raise(t, env, c.Cluster, c.Machine)
}

// raise says of a cluster that it is up, and of a machine that it has its Node, as Cluster API finds it.
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

// moveSource halts the provider that the objects leave.
func moveSource(t *testing.T, f *fuse) {
	t.Helper()
	move(t, f, &fuse{})
}

// moveTarget halts the provider that they come to.
func moveTarget(t *testing.T, f *fuse) {
	t.Helper()
	move(t, &fuse{}, f)
}

// move moves, by the real clusterctl, a cluster that runs, one whose server is booting, and a free host, while both providers work.
func move(t *testing.T, source, destination *fuse) { //nolint:thelper // a failure is to name its line
	g := NewWithT(t)
	r := rack(t)
	other := r.machine() + "-2"
	moving := make(chan struct{})
	r.site.Server(t, "c", rig.ServerOptions{Boot: func(ctx context.Context, _ *pxetest.Firmware) {
		select {
		case <-moving:
		case <-ctx.Done():
		}
	}})
	letBoot := sync.OnceFunc(func() { close(moving) })
	t.Cleanup(letBoot)
	r.start(env, source)
	own(t, r.claim)
	r.provisioned()
	c := r.site.Servers()[2]
	c.Host.Labels = map[string]string{"for": "other"}
	c.Register(t)
	booting := r.site.Claim(t, other, func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.HostSelector = &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{"for": "other"}}
	})
	own(t, booting)
	r.until("the other server boots", func() error {
		if ons, _ := c.Switched(); ons == 0 {
			return errors.New("it is off")
		}
		return nil
	})
	r.watchClaims(target)
	r.start(target, destination, func(o *rig.Options) { o.NoBoot = true })
	running, free := r.site.Servers()[0], r.site.Servers()[1]
	given := [][]string{running.CommandNames(), free.CommandNames()}
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
	for _, h := range r.hosts() {
		t.Errorf("host %s is left behind", h.Name)
	}
	for _, left := range []client.ObjectList{&v1alpha1.BareMetalMachineList{}, &v1alpha1.BareMetalClusterList{}, &clusterv1.MachineList{}, &clusterv1.ClusterList{}} {
		g.Expect(env.Client.List(t.Context(), left, client.InNamespace(r.site.Namespace))).To(Succeed())
		g.Expect(meta.LenList(left)).To(BeZero(), "%T: objects are left behind", left)
	}
	r.home = target
	for _, claim := range []*controllerstest.Claim{r.claim, booting} {
		raise(t, target, claim.Cluster, claim.Machine) // a move loses every status
	}
	r.settled(func() { r.arrived(booting) })
	r.until("the tokens of the boot are void", func() error { return void(t.Context(), c.Last(), true) })
	g.Expect([][]string{running.CommandNames(), free.CommandNames()}).To(Equal(given), "the move sent a command to a server that it did not find booting")
	r.ended(powers{switched: [][2]int{{1, 0}, {1, 0}, {0, 0}}, boots: 2}, other)
}

// arrived waits until everything is on the other side what it was.
func (r *run) arrived(booting *controllerstest.Claim) {
	r.t.Helper()
	r.until("both machines run on the other side", func() error {
		if err := r.phases(v1alpha1.PhaseProvisioned, v1alpha1.PhaseProvisioned, v1alpha1.PhaseAvailable); err != nil {
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
