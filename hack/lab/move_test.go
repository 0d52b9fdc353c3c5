package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
)

// TestMove proves the ownership rules on a Running cluster with the real Cluster API: neither losing every status nor a
// `clusterctl move` to another management plane sends one power or boot command to a server.
func TestMove(t *testing.T) {
	ctrl.SetLogger(klog.Background())
	g := NewWithT(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	g.Expect(err).NotTo(HaveOccurred())
	l, err := newLab(ctx, root, t.Logf, func(server, what string) { t.Logf("%s: %s", server, what) })
	t.Cleanup(func() { NewWithT(t).Expect(l.close(t.Failed())).To(Succeed()) })
	g.Expect(err).NotTo(HaveOccurred())
	source := startTestPlane(ctx, t, l, "source", l.rack.ManagerArgs())
	servers := []string{"server-1", "server-2", "server-3"}
	g.Expect(l.register(ctx, source, servers...)).To(Succeed())
	g.Expect(until(ctx, time.Minute, hostsIn(source, v1alpha1.PhaseAvailable, 3))).To(Succeed())
	g.Expect(l.createCluster(ctx, source, 1)).To(Succeed())
	g.Expect(until(ctx, 5*time.Minute, running(source, 2))).To(Succeed())
	g.Expect(until(ctx, time.Minute, rest(source))).To(Succeed())
	commands := l.commands()

	t.Log("every status is erased in place")
	eraseStatuses(ctx, t, source)
	g.Expect(until(ctx, 2*time.Minute, rest(source))).To(Succeed())
	g.Expect(l.commands()).To(Equal(commands), "a lost status sent a command to a server")

	t.Log("clusterctl move")
	target := startTestPlane(ctx, t, l, "target", l.rack.OtherManagerArgs())
	before := secretsOf(ctx, t, source)
	_, err = source.Clusterctl(ctx, "move", "--to-kubeconfig", target.Kubeconfig, "-n", namespace)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(until(ctx, 2*time.Minute, running(target, 2))).To(Succeed())
	g.Expect(until(ctx, 2*time.Minute, rest(target))).To(Succeed())
	g.Expect(secretsOf(ctx, t, target)).To(ContainElements(before))
	var left v1alpha1.BareMetalHostList
	g.Expect(source.Client.List(ctx, &left)).To(Succeed())
	g.Expect(left.Items).To(BeEmpty(), "hosts are left behind")
	g.Expect(l.commands()).To(Equal(commands), "the move sent a command to a server")
}

func startTestPlane(ctx context.Context, t *testing.T, l *lab, name string, args []string) *plane.Plane {
	t.Helper()
	p, err := l.startPlane(ctx, name, args)
	t.Cleanup(func() { NewWithT(t).Expect(p.Stop()).To(Succeed()) })
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return p
}

// commands returns the commands that each server's BMC was given since it was put into the rack.
func (l *lab) commands() map[string]string {
	out := map[string]string{}
	for _, s := range l.rack.Servers() {
		out[s.Name] = strings.Join(s.CommandNames(), " ")
	}
	return out
}

// rest is nil when every status says what it said before it was lost: two hosts run their machines, one is free.
func rest(p *plane.Plane) func(context.Context) error {
	return func(ctx context.Context) error {
		for phase, want := range map[v1alpha1.HostPhase]int{v1alpha1.PhaseProvisioned: 2, v1alpha1.PhaseAvailable: 1} {
			if err := hostsIn(p, phase, want)(ctx); err != nil {
				return err
			}
		}
		var hosts v1alpha1.BareMetalHostList
		if err := p.Client.List(ctx, &hosts, client.InNamespace(namespace)); err != nil {
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

// rebuilt is nil when the statuses of the machines and of the cluster are.
func rebuilt(ctx context.Context, p *plane.Plane) error {
	var machines v1alpha1.BareMetalMachineList
	if err := p.Client.List(ctx, &machines, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, m := range machines.Items {
		if p := m.Status.Initialization.Provisioned; p == nil || !*p || m.Status.HostRef == nil || len(m.Status.Addresses) == 0 {
			return fmt.Errorf("machine %s is not rebuilt", m.Name)
		}
	}
	var cluster v1alpha1.BareMetalCluster
	if err := p.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: clusterName}, &cluster); err != nil {
		return err
	}
	if !cluster.Status.Ready {
		return errors.New("the BareMetalCluster is not rebuilt")
	}
	return nil
}

// eraseStatuses takes the status of every object of ours away.
func eraseStatuses(ctx context.Context, t *testing.T, p *plane.Plane) {
	t.Helper()
	g := NewWithT(t)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":null}`))
	for _, list := range []client.ObjectList{&v1alpha1.BareMetalHostList{}, &v1alpha1.BareMetalMachineList{}, &v1alpha1.BareMetalClusterList{}} {
		g.Expect(p.Client.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		var objects []client.Object
		switch l := list.(type) {
		case *v1alpha1.BareMetalHostList:
			for i := range l.Items {
				objects = append(objects, &l.Items[i])
			}
		case *v1alpha1.BareMetalMachineList:
			for i := range l.Items {
				objects = append(objects, &l.Items[i])
			}
		case *v1alpha1.BareMetalClusterList:
			for i := range l.Items {
				objects = append(objects, &l.Items[i])
			}
		}
		g.Expect(objects).NotTo(BeEmpty())
		for _, o := range objects {
			g.Expect(p.Client.Status().Patch(ctx, o, patch)).To(Succeed())
		}
	}
}

// secretsOf returns the names of the Secrets that belong to the hosts and to the cluster.
func secretsOf(ctx context.Context, t *testing.T, p *plane.Plane) []string {
	t.Helper()
	var secrets corev1.SecretList
	NewWithT(t).Expect(p.Client.List(ctx, &secrets, client.InNamespace(namespace))).To(Succeed())
	var names []string
	for _, s := range secrets.Items {
		names = append(names, s.Name)
	}
	NewWithT(t).Expect(names).To(ContainElements("server-1-bmc", "server-2-bmc", "server-3-bmc", clusterName+"-ca", clusterName+"-kubeconfig"))
	return names
}
