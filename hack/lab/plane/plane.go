// Package plane runs a management plane without containers: kube-apiserver, etcd and kube-controller-manager; Cluster API's core, bootstrap and control
// plane managers; and the managers of this project's infrastructure provider and bootstrap provider. clusterctl installs all of them. Their webhooks are on,
// and they run under their own RBAC.
package plane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	kubeadmv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

var loopback = netip.MustParseAddr("127.0.0.1")

// Options say what to run.
type Options struct {
	// Dir is the folder for logs, kubeconfigs and certificates.
	Dir string
	// Bin is the folder with the programs.
	Bin string
	// Manager is the path of this provider's manager.
	Manager string
	// Repository is a folder that clusterctl installs from; NewRepository makes it.
	Repository *Repository
	// ManagerArgs are the flags of this provider's manager, in addition to those of every manager.
	ManagerArgs []string
	// ManagerEnv is the environment of this provider's manager, in addition to the lab's.
	ManagerEnv []string
	// APIServerArgs are further flags of kube-apiserver, as name=value.
	APIServerArgs []string
	// FeatureGates are further feature gates of Cluster API's managers, as name=true.
	FeatureGates []string
	// Alone runs this provider's manager with only kube-apiserver and etcd: without Cluster API's managers, the bootstrap provider and their webhooks, and
	// without kube-controller-manager.
	Alone bool
	// Log takes messages about the progress.
	Log func(format string, args ...any)
}

// Plane is a running management plane.
type Plane struct {
	// Kubeconfig is a file with the administrator's credentials.
	Kubeconfig string
	// Client is the administrator's client.
	Client client.Client

	opts      Options
	env       *envtest.Environment
	config    *rest.Config // of the administrator
	processes []*proc.Process
	provider  *proc.Process
	bootstrap *proc.Process            // nil if the plane is Alone
	health    string                   // the URL of the provider's health check
	store     map[string]*storeProcess // kube-apiserver and etcd
	serving   map[string]serving       // by program
}

// Scheme has every type that the lab reads and writes.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, kubeadmv1.AddToScheme, controlplanev1.AddToScheme, v1alpha1.AddToScheme,
		bootstrapv1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// Start starts a plane. Stop it, also after an error.
func Start(ctx context.Context, opts Options) (*Plane, error) {
	p := &Plane{opts: opts, serving: map[string]serving{}, env: &envtest.Environment{
		BinaryAssetsDirectory: opts.Bin, ControlPlaneStartTimeout: 2 * time.Minute, ControlPlaneStopTimeout: 2 * time.Minute,
	}}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return p, err
	}
	for _, arg := range opts.APIServerArgs {
		name, value, _ := strings.Cut(arg, "=")
		p.env.ControlPlane.GetAPIServer().Configure().Append(name, value)
	}
	before := children()
	config, err := p.env.Start()
	if err != nil {
		return p, fmt.Errorf("start kube-apiserver and etcd: %w", err)
	}
	p.findStore(before)
	p.config = config
	config.QPS, config.Burst = 200, 400
	if p.Client, err = client.New(config, client.Options{Scheme: Scheme()}); err != nil {
		return p, err
	}
	if p.Kubeconfig, err = p.user(config, "admin", "system:masters"); err != nil {
		return p, err
	}
	opts.Log("kube-apiserver and etcd are up")
	if opts.Alone {
		return p, p.startAlone(ctx)
	}
	if err := p.startControllerManager(ctx, config); err != nil {
		return p, err
	}
	if err := p.install(ctx); err != nil {
		return p, err
	}
	opts.Log("clusterctl installed Cluster API and this provider")
	for _, m := range managers {
		if _, err := p.startManager(ctx, m, "", "--feature-gates="+strings.Join(slices.Concat(featureGates, opts.FeatureGates), ",")); err != nil {
			return p, err
		}
	}
	if err := p.StartProvider(ctx, opts.Manager); err != nil {
		return p, err
	}
	if err := p.StartBootstrap(ctx, opts.Manager); err != nil {
		return p, err
	}
	opts.Log("the managers are up: %s", "Cluster API core, kubeadm bootstrap, kubeadm control plane, bare metal, bare metal bootstrap")
	return p, nil
}

// startAlone installs what clusterctl installs, and starts only this provider's manager.
func (p *Plane) startAlone(ctx context.Context) error {
	if err := p.install(ctx); err != nil {
		return err
	}
	for _, m := range append(slices.Clone(managers), bootstrapProvider) {
		if err := p.dropWebhooks(ctx, m.namespace); err != nil {
			return fmt.Errorf("take the webhooks of %s away: %w", m.program, err)
		}
	}
	return p.StartProvider(ctx, p.opts.Manager)
}

// Stop ends everything in the reverse order.
func (p *Plane) Stop() error {
	for _, process := range slices.Backward(p.processes) {
		process.Stop()
	}
	for _, process := range p.store {
		process.stop()
	}
	return p.env.Stop()
}

// user makes a kubeconfig for a user of the API server.
func (p *Plane) user(config *rest.Config, name string, groups ...string) (string, error) {
	user, err := p.env.AddUser(envtest.User{Name: name, Groups: groups}, config)
	if err != nil {
		return "", err
	}
	kubeconfig, err := user.KubeConfig()
	if err != nil {
		return "", err
	}
	path := filepath.Join(p.opts.Dir, filepath.Base(name)+".kubeconfig")
	return path, os.WriteFile(path, kubeconfig, 0o600)
}

// start runs a program under a name, which its log has.
func (p *Plane) start(ctx context.Context, name, program string, env []string, healthy string, args ...string) (*proc.Process, error) {
	process, err := proc.Start(ctx, p.opts.Dir, name, env, program, args...)
	if err != nil {
		return nil, err
	}
	p.processes = append(p.processes, process)
	return process, process.Wait(ctx, 2*time.Minute, proc.Healthy(healthy))
}

func (p *Plane) startControllerManager(ctx context.Context, config *rest.Config) error {
	kubeconfig, err := p.user(config, "kube-controller-manager", "system:masters")
	if err != nil {
		return err
	}
	port, err := pxetest.FreePort(loopback)
	if err != nil {
		return err
	}
	const name = "kube-controller-manager"
	_, err = p.start(ctx, name, filepath.Join(p.opts.Bin, name), nil, fmt.Sprintf("https://127.0.0.1:%d/healthz", port),
		"--kubeconfig="+kubeconfig, "--authentication-kubeconfig="+kubeconfig, "--authorization-kubeconfig="+kubeconfig,
		"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", port), "--leader-elect=false",
		// Aggregated roles, objects whose owner is gone, and namespaces that are deleted.
		"--controllers=clusterrole-aggregation-controller,garbage-collector-controller,namespace-controller",
	)
	return err
}

// manager is a manager of the plane. program is its name, and that of its program if it is one of the lab's own.
type manager struct {
	program, namespace, serviceAccount string
	webhooks                           bool
}

// featureGates enable ClusterClasses and bootstrap data in Ignition format.
var featureGates = []string{"ClusterTopology=true", "KubeadmBootstrapFormatIgnition=true"}

// managers are Cluster API's managers.
var managers = []manager{
	{"capi-core", "capi-system", "capi-manager", true},
	{"capi-kubeadm-bootstrap", "capi-kubeadm-bootstrap-system", "capi-kubeadm-bootstrap-manager", true},
	{"capi-kubeadm-control-plane", "capi-kubeadm-control-plane-system", "capi-kubeadm-control-plane-manager", true},
}

// infrastructureProvider is this project's manager, and bootstrapProvider the same program with another role.
var (
	infrastructureProvider = manager{"manager", "capbm-system", "capbm-manager", true}
	bootstrapProvider      = manager{"bootstrap", "capbm-bootstrap-system", "capbm-bootstrap-manager", true}
)

// StartProvider starts this provider's manager with the plane's flags and further ones, which replace the plane's. program is its path. A plane runs one such manager at a time.
func (p *Plane) StartProvider(ctx context.Context, program string, args ...string) error {
	var err error
	own := p.opts.ManagerArgs
	if slices.ContainsFunc(args, isBootConfig) { // of several files the manager reads the first
		own = slices.DeleteFunc(slices.Clone(own), isBootConfig)
	}
	p.provider, err = p.startManager(ctx, infrastructureProvider, program, slices.Concat([]string{"--webhook-host=127.0.0.1"}, own, args)...)
	return err
}

func isBootConfig(arg string) bool { return strings.HasPrefix(arg, "--boot-config=") }

// StartAnother starts an additional manager of this provider, with the same service account, without webhooks, and with only these flags.
func (p *Plane) StartAnother(ctx context.Context, args ...string) (*proc.Process, error) {
	another := infrastructureProvider
	another.webhooks = false
	return p.startManager(ctx, another, p.opts.Manager, append([]string{"--webhook-port=0"}, args...)...)
}

// StopProvider ends this provider's manager.
func (p *Plane) StopProvider() { p.provider.Stop() }

// StartBootstrap starts the manager of the bootstrap provider with further flags. program is its path. The plane's flags are not for it.
func (p *Plane) StartBootstrap(ctx context.Context, program string, args ...string) error {
	var err error
	p.bootstrap, err = p.startManager(ctx, bootstrapProvider, program, append([]string{"--webhook-host=127.0.0.1", "--components=bootstrap"}, args...)...)
	return err
}

// StopBootstrap ends the manager of the bootstrap provider.
func (p *Plane) StopBootstrap() { p.bootstrap.Stop() }

// startManager runs a manager with its service account, so that a missing rule in its RBAC shows. program is its path; empty for one of the lab's own
// programs.
func (p *Plane) startManager(ctx context.Context, m manager, program string, args ...string) (*proc.Process, error) {
	kubeconfig, err := p.user(p.config, "system:serviceaccount:"+m.namespace+":"+m.serviceAccount,
		"system:serviceaccounts", "system:serviceaccounts:"+m.namespace, "system:authenticated")
	if err != nil {
		return nil, err
	}
	health, err := pxetest.FreePort(loopback)
	if err != nil {
		return nil, err
	}
	args = append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", fmt.Sprintf("--health-addr=127.0.0.1:%d", health),
		"--diagnostics-address=0", "--insecure-diagnostics",
	}, args...)
	if m.webhooks {
		s, err := p.serveWebhooks(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("set up the webhooks of %s: %w", m.program, err)
		}
		args = append(args, fmt.Sprintf("--webhook-port=%d", s.port), "--webhook-cert-dir="+s.dir)
	}
	env := []string{"POD_NAMESPACE=" + m.namespace, "POD_NAME=" + m.program, "POD_UID=lab"}
	if m.program == infrastructureProvider.program {
		env = append(env, "GOGC=40") // as in the Deployments, since benchmarks measure the memory
	}
	ready := fmt.Sprintf("http://127.0.0.1:%d/readyz", health)
	if m == infrastructureProvider {
		env, p.health = append(env, p.opts.ManagerEnv...), ready
	}
	return p.start(ctx, m.program, cmp.Or(program, filepath.Join(p.opts.Bin, m.program)), env, ready, args...)
}

// Clusterctl runs clusterctl against the plane, and returns what it printed.
func (p *Plane) Clusterctl(ctx context.Context, args ...string) (string, error) {
	return proc.Run(ctx, clusterctlEnv, filepath.Join(p.opts.Bin, "clusterctl"),
		append(args, "--kubeconfig", p.Kubeconfig, "--config", p.opts.Repository.Config)...)
}

// Kubectl runs kubectl against the plane, and returns what it printed.
func (p *Plane) Kubectl(ctx context.Context, args ...string) (string, error) {
	return proc.Run(ctx, nil, filepath.Join(p.opts.Bin, "kubectl"), append(args, "--kubeconfig", p.Kubeconfig)...)
}

// Apply applies YAML.
func (p *Plane) Apply(ctx context.Context, yaml string) error {
	file, err := os.CreateTemp(p.opts.Dir, "apply-*.yaml")
	if err != nil {
		return err
	}
	_, err = file.WriteString(yaml)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	_, err = p.Kubectl(ctx, "apply", "-f", file.Name())
	return errors.Join(err, os.Remove(file.Name()))
}
