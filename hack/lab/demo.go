package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/plane"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/rack"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// printer prints what happens, with the time since the start.
type printer struct {
	mu    sync.Mutex
	start time.Time
	muted bool
}

// mute ends the printing, before the servers are switched off for the end of the lab.
func (t *printer) mute() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.muted = true
}

func (t *printer) linef(who, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.muted {
		return
	}
	fmt.Printf("%6.1f s  %-10s %s\n", time.Since(t.start).Seconds(), who, fmt.Sprintf(format, args...))
}

// demo takes emulated servers to Running Machines, and back. The real agent writes an image to the disk of each, and erases it when its machine is deleted.
func demo(ctx context.Context, keep bool) (err error) {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	report := &printer{start: time.Now()}
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var over atomic.Bool // what a user does with a demo that is kept running may fail
	l, err := site.New(ctx, root, func(format string, args ...any) { report.linef("plane", format, args...) }, func(server, what string) {
		report.linef(server, "%s", cmp.Or(stages[what], what))
		if strings.HasPrefix(what, "failed") && !over.Load() {
			fail(fmt.Errorf("%s %s", server, what))
		}
	})
	defer func() { //nolint:contextcheck // the lab is closed even if ctx has ended
		failed := err != nil
		err = errors.Join(err, l.Close(failed))
		if failed {
			fmt.Println("\nLogs are in", l.Dir)
		}
	}()
	if err != nil {
		return err
	}
	l.Rack.ImageBytes, l.Rack.Rate, l.Rack.ShutdownTime = imageBytes, linkRate, shutdownTime
	p, err := l.StartPlane(ctx, "management", append(l.Rack.ManagerArgs(), "--profiles"))
	defer func() { err = errors.Join(err, p.Stop()) }()
	if err != nil {
		return err
	}
	defer l.Supply(ctx, p)()
	stop := watchAgents(ctx, report, p, fail)
	err = scenario(ctx, report, l, p)
	if shown := stop(); err == nil {
		err = shown
	}
	if err != nil {
		if errors.Is(context.Cause(ctx), context.Canceled) {
			fmt.Println("\nStopped.")
			return nil
		}
		show(context.WithoutCancel(ctx), p)
		return err
	}
	if keep {
		over.Store(true)
		// The guides call the programs by their names, and PATH may have kubectl of another version.
		fmt.Printf("\nEverything is left running. In another terminal:\n\n  export KUBECONFIG=%s\n  export PATH=%s:$PATH\n  kubectl get baremetalhosts\n\nand, after \"make plugin\":\n\n  kubectl baremetal status\n\nCtrl-C ends it.\n",
			p.Kubeconfig, filepath.Join(root, ".cache", "bin"))
		<-ctx.Done()
	}
	report.mute()
	return nil
}

const (
	// imageBytes is the size of the image that the agents write, and linkRate the bytes a second that they get: a person can watch that, and an agent reports every 5 s.
	imageBytes = 64 << 20
	linkRate   = 12_500_000
	// shutdownTime is the time from an agent's report to the power-off. In this time the provider reads that the server is on, and powers it off, which is
	// then confirmed at once. A server that was off before that reading is not released until 20 s after its power-on (lifecycle.Settings.PowerSettle): a BMC
	// may still report "off" from before. Only an emulated server erases a disk in less time.
	shutdownTime = 5 * time.Second
)

// stages has the names of stages that a server's events abbreviate.
var stages = map[string]string{"loader": "boot loader", "script": "boot script", "seed": "bootstrap data", "agent": "boots the agent"}

func scenario(ctx context.Context, report *printer, l *site.Lab, p *plane.Plane) error {
	if err := registerProfiled(ctx, l, p); err != nil {
		return err
	}
	if err := l.Register(ctx, p, "server-2", "server-3", "server-4"); err != nil {
		return err
	}
	if err := configure(ctx, report, p); err != nil {
		return err
	}
	if err := site.Until(ctx, time.Minute, site.HostsIn(p, v1alpha1.PhaseAvailable, 4)); err != nil {
		return err
	}
	report.linef("hosts", "4 servers are registered, verified and Available: 3 over Redfish, 1 over IPMI")
	if err := l.CreateCluster(ctx, p, site.Cluster{Workers: 1, Flavor: site.DemoFlavor}); err != nil {
		return err
	}
	report.linef("cluster", "clusterctl generate cluster %s | kubectl apply: 1 control plane and 2 worker Machines", site.ClusterName)
	if err := bootCluster(ctx, report, l, p); err != nil {
		return err
	}
	show(ctx, p)

	if _, err := p.Kubectl(ctx, "-n", site.Namespace, "scale", "machinedeployment", site.ClusterName+"-workers", "--replicas=0"); err != nil {
		return err
	}
	report.linef("cluster", "kubectl scale machinedeployment %s-workers --replicas=0", site.ClusterName)
	if err := site.Until(ctx, 3*time.Minute, site.HostsIn(p, v1alpha1.PhaseAvailable, 2)); err != nil {
		return err
	}
	if err := site.Until(ctx, time.Minute, site.Running(p, 2)); err != nil {
		return err
	}
	report.linef("machines", "2 of 2 Machines are Running; the released server is powered off, and Available again")
	out, err := get(ctx, p, "baremetalhosts")()
	fmt.Printf("\n%s\n", trim(out))
	report.linef("demo", "done")
	return err
}

// profiled is the server that gets other firmware settings before machines can have it.
const profiled = "server-1"

// profile is what settings it gets. It changes no host that is Available.
const profile = `apiVersion: infrastructure.cluster.x-k8s.io/v1alpha1
kind: BareMetalProfile
metadata: {name: latency, namespace: ` + site.Namespace + `}
spec:
  hosts: {selector: {matchLabels: {workload: latency}}}
  biosSettings: [{name: WorkloadProfile, value: LowLatency}]
  rollout: {state: Active, scope: ReleasedHosts}
`

// registerProfiled creates the profile, and registers the server that it selects.
func registerProfiled(ctx context.Context, l *site.Lab, p *plane.Plane) error {
	server, err := l.Rack.Add(ctx, profiled, rack.Labels(map[string]string{"workload": "latency"}))
	if err != nil {
		return err
	}
	return p.Apply(ctx, profile+server.HostYAML(site.Namespace))
}

// configure prints the plan of the profile, and waits until the server has its settings.
func configure(ctx context.Context, report *printer, p *plane.Plane) error {
	var settings v1alpha1.BareMetalSettings
	if err := site.Until(ctx, 2*time.Minute, planned(p, &settings)); err != nil {
		return err
	}
	for _, c := range settings.Spec.Changes {
		report.linef(profiled, "BareMetalProfile %s: %s is %s and is to be %s, with one restart", settings.Spec.Profile.Name, c.Name, c.Before, c.Value)
	}
	if err := site.Until(ctx, 2*time.Minute, configured(p)); err != nil {
		return err
	}
	report.linef(profiled, "has the settings of its BareMetalProfile, as its BMC says after the restart. Now machines can claim it")
	return nil
}

// planned is nil once the provider has recorded what it changes on the server, which is then read.
func planned(p *plane.Plane, settings *v1alpha1.BareMetalSettings) func(context.Context) error {
	return func(ctx context.Context) error {
		err := p.Client.Get(ctx, client.ObjectKey{Namespace: site.Namespace, Name: profiled}, settings)
		if err == nil && (settings.Spec.Profile == nil || len(settings.Spec.Changes) == 0) {
			err = fmt.Errorf("BareMetalSettings %s has no changes", profiled)
		}
		return err
	}
}

// configured is nil once the server has its settings.
func configured(p *plane.Plane) func(context.Context) error {
	return func(ctx context.Context) error {
		var host v1alpha1.BareMetalHost
		if err := p.Client.Get(ctx, client.ObjectKey{Namespace: site.Namespace, Name: profiled}, &host); err != nil {
			return err
		}
		if state := host.Spec.ProviderState; state.SettingsRunsEnded == 0 || host.Status.SettingsProfile == "" {
			return fmt.Errorf("host %s has %d settings runs, of which %d have ended", profiled, state.SettingsRuns, state.SettingsRunsEnded)
		}
		return nil
	}
}

// bootCluster waits until the cluster is available. One worker joins with the data of its BareMetalConfig, which waits for the join token.
func bootCluster(ctx context.Context, report *printer, l *site.Lab, p *plane.Plane) error {
	if _, err := l.WriteJoinSecret(ctx, p); err != nil {
		return err
	}
	if err := site.Until(ctx, 5*time.Minute, site.Running(p, 3)); err != nil {
		return err
	}
	if err := site.Until(ctx, time.Minute, site.Ready(p, 3)); err != nil {
		return err
	}
	if err := site.Until(ctx, time.Minute, site.Available(p)); err != nil {
		return err
	}
	report.linef("machines", "3 of 3 Machines are Running, their Nodes have our provider IDs; 1 server is free")
	configs, err := site.Configs(ctx, p)
	if err == nil && len(configs) != 1 {
		err = fmt.Errorf("there are %d BareMetalConfigs and not 1", len(configs))
	}
	if err != nil {
		return err
	}
	report.linef("bootstrap", "1 worker joined by the commands of BareMetalConfig %s, with the token in Secret %s", configs[0].Name, site.JoinSecret)
	return nil
}

// show prints what an operator would read.
func show(ctx context.Context, p *plane.Plane) {
	for _, get := range []func() (string, error){
		get(ctx, p, "baremetalhosts"),
		get(ctx, p, "machines"),
		func() (string, error) {
			return p.Clusterctl(ctx, "describe", "cluster", site.ClusterName, "-n", site.Namespace)
		},
	} {
		out, err := get()
		fmt.Printf("\n%s", trim(out))
		if err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println()
}

// get returns a kubectl get. One kind at a time: the names of several have the kind in front.
func get(ctx context.Context, p *plane.Plane, kind string) func() (string, error) {
	return func() (string, error) { return p.Kubectl(ctx, "-n", site.Namespace, "get", kind) }
}

// trim removes the spaces at the ends of lines.
func trim(table string) string {
	var out strings.Builder
	for line := range strings.Lines(table) {
		out.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
	return out.String()
}
