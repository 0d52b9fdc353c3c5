package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
)

// teller prints what happens, with the time since the start.
type teller struct {
	mu    sync.Mutex
	start time.Time
}

func (t *teller) linef(who, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Printf("%6.1f s  %-10s %s\n", time.Since(t.start).Seconds(), who, fmt.Sprintf(format, args...))
}

// demo takes emulated servers to Running Machines, and back.
func demo(ctx context.Context, keep bool) (err error) {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	tell := &teller{start: time.Now()}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	l, err := newLab(ctx, root, func(format string, args ...any) { tell.linef("plane", format, args...) }, func(server, what string) {
		tell.linef(server, "%s", what)
		if strings.HasPrefix(what, "failed") {
			fail(fmt.Errorf("%s %s", server, what))
		}
	})
	defer func() { //nolint:contextcheck // closing the lab must also work when ctx has ended
		failed := err != nil
		err = errors.Join(err, l.close(failed))
		if failed {
			fmt.Println("\nLogs are in", l.dir)
		}
	}()
	if err != nil {
		return err
	}
	p, err := l.startPlane(ctx, "management", l.rack.ManagerArgs())
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err != nil {
		return err
	}
	if err := scenario(ctx, tell, l, p); err != nil {
		if errors.Is(context.Cause(ctx), context.Canceled) {
			fmt.Println("\nStopped.")
			return nil
		}
		show(context.WithoutCancel(ctx), p)
		return err
	}
	if keep {
		fmt.Printf("\nEverything is left running. In another terminal:\n\n  export KUBECONFIG=%s\n  %s get baremetalhosts\n\nCtrl-C ends it.\n",
			p.Kubeconfig, filepath.Join(".cache", "bin", "kubectl"))
		<-ctx.Done()
	}
	return nil
}

func scenario(ctx context.Context, tell *teller, l *lab, p *plane.Plane) error {
	if err := l.register(ctx, p, "server-1", "server-2", "server-3", "server-4"); err != nil {
		return err
	}
	if err := until(ctx, time.Minute, hostsIn(p, v1alpha1.PhaseAvailable, 4)); err != nil {
		return err
	}
	tell.linef("hosts", "4 servers are registered, verified and Available: 3 over Redfish, 1 over IPMI")
	if err := l.createCluster(ctx, p, 2); err != nil {
		return err
	}
	tell.linef("cluster", "clusterctl generate cluster %s | kubectl apply: 1 control plane and 2 worker Machines", clusterName)
	if err := until(ctx, 5*time.Minute, running(p, 3)); err != nil {
		return err
	}
	if err := until(ctx, time.Minute, available(p)); err != nil {
		return err
	}
	tell.linef("machines", "3 of 3 Machines are Running, their Nodes have our provider IDs; 1 server is free")
	show(ctx, p)

	if _, err := p.Kubectl(ctx, "-n", namespace, "scale", "machinedeployment", clusterName+"-workers", "--replicas=1"); err != nil {
		return err
	}
	tell.linef("cluster", "kubectl scale machinedeployment %s-workers --replicas=1", clusterName)
	if err := until(ctx, 3*time.Minute, hostsIn(p, v1alpha1.PhaseAvailable, 2)); err != nil {
		return err
	}
	if err := until(ctx, time.Minute, running(p, 2)); err != nil {
		return err
	}
	tell.linef("machines", "2 of 2 Machines are Running; the released server is powered off, and Available again")
	fmt.Println()
	out, err := p.Kubectl(ctx, "-n", namespace, "get", "baremetalhosts,machines")
	fmt.Print(out)
	tell.linef("demo", "done")
	return err
}

// show prints what an operator would look at.
func show(ctx context.Context, p *plane.Plane) {
	for _, get := range []func() (string, error){
		func() (string, error) {
			return p.Kubectl(ctx, "-n", namespace, "get", "baremetalhosts,baremetalmachines,machines")
		},
		func() (string, error) { return p.Clusterctl(ctx, "describe", "cluster", clusterName, "-n", namespace) },
	} {
		out, err := get()
		fmt.Printf("\n%s", out)
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println()
}

// hostsIn is nil when so many hosts are in a phase and, if that is Available, powered off.
func hostsIn(p *plane.Plane, phase v1alpha1.HostPhase, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		var hosts v1alpha1.BareMetalHostList
		if err := p.Client.List(ctx, &hosts, client.InNamespace(namespace)); err != nil {
			return err
		}
		n := 0
		for _, h := range hosts.Items {
			if h.Status.Phase == phase && (phase != v1alpha1.PhaseAvailable || h.Status.Power == v1alpha1.PowerOff) {
				n++
			}
		}
		if n != want {
			return fmt.Errorf("%d of %d hosts are %s", n, want, phase)
		}
		return nil
	}
}

// available is nil when the Cluster is.
func available(p *plane.Plane) func(context.Context) error {
	return func(ctx context.Context) error {
		var cluster clusterv1.Cluster
		if err := p.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: clusterName}, &cluster); err != nil {
			return err
		}
		if !conditions.IsTrue(&cluster, clusterv1.ClusterAvailableCondition) {
			return fmt.Errorf("the Cluster is not available: %s", conditions.GetMessage(&cluster, clusterv1.ClusterAvailableCondition))
		}
		return nil
	}
}

// running is nil when there are so many Machines, all are Running, and each has a Node with the provider ID of its host.
func running(p *plane.Plane, want int) func(context.Context) error {
	return func(ctx context.Context) error {
		var machines clusterv1.MachineList
		if err := p.Client.List(ctx, &machines, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, m := range machines.Items {
			if m.Status.Phase != string(clusterv1.MachinePhaseRunning) {
				return fmt.Errorf("machine %s is %s", m.Name, m.Status.Phase)
			}
		}
		if len(machines.Items) != want {
			return fmt.Errorf("there are %d Machines and not %d", len(machines.Items), want)
		}
		nodes, err := nodeProviderIDs(ctx, p)
		if err != nil {
			return err
		}
		for _, m := range machines.Items {
			var infra v1alpha1.BareMetalMachine
			if err := p.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: m.Spec.InfrastructureRef.Name}, &infra); err != nil {
				return err
			}
			if id := nodes[m.Status.NodeRef.Name]; id == "" || id != infra.Spec.ProviderID {
				return fmt.Errorf("node %s has the provider ID %q and not %q", m.Status.NodeRef.Name, id, infra.Spec.ProviderID)
			}
		}
		return nil
	}
}

// nodeProviderIDs asks the workload cluster for the provider IDs of its Nodes, by their names.
func nodeProviderIDs(ctx context.Context, p *plane.Plane) (map[string]string, error) {
	var kubeconfig corev1.Secret
	if err := p.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: clusterName + "-kubeconfig"}, &kubeconfig); err != nil {
		return nil, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig.Data["value"])
	if err != nil {
		return nil, err
	}
	workload, err := client.New(config, client.Options{})
	if err != nil {
		return nil, err
	}
	var nodes corev1.NodeList
	if err := workload.List(ctx, &nodes); err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, n := range nodes.Items {
		ids[n.Name] = n.Spec.ProviderID
	}
	return ids, nil
}
