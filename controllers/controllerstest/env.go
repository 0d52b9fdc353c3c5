// Package controllerstest provides a real API server for tests of controllers, with the CRDs of the provider and of Cluster API.
package controllerstest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// Env is a running API server.
type Env struct {
	Config *rest.Config
	Scheme *k8sruntime.Scheme
	// Client reads from the API server.
	Client client.Client
	// Log receives the logs of managers. Without it they log nothing.
	Log logr.Logger

	plane *envtest.Environment
}

// longWait is the timeout for conditions that usually hold within a moment. A busy machine takes many times as long.
const longWait = 2 * time.Minute

// poll is the interval of looks at the API server: each costs it, and the test, milliseconds of processor time that other tests need.
const poll = 100 * time.Millisecond

// Scheme returns a scheme with every type that the controllers use.
func Scheme() *k8sruntime.Scheme {
	scheme := k8sruntime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(clusterv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	utilruntime.Must(bootstrapv1.AddToScheme(scheme))
	return scheme
}

// FakeScheme is Scheme without the kinds of Kubernetes that no controller knows. A fake client maps all kinds of its scheme at each write.
func FakeScheme() *k8sruntime.Scheme {
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, eventsv1.AddToScheme, clusterv1.AddToScheme, v1alpha1.AddToScheme, bootstrapv1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

// Root returns the project's folder.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}

// Main runs a package's tests with an API server: func TestMain(m *testing.M) { controllerstest.Main(m, &env) }.
func Main(m *testing.M, env **Env) {
	ctrl.SetLogger(logr.Discard())
	Need(m, "make lab-programs", filepath.Join(assets(), "etcd"), filepath.Join(assets(), "kube-apiserver"))
	if os.Getenv("GOMEGA_DEFAULT_EVENTUALLY_TIMEOUT") == "" {
		SetDefaultEventuallyTimeout(2 * time.Minute) // Gomega's second is too short on a busy machine
	}
	code, err := run(m, env)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, env **Env) (int, error) {
	started, err := Start()
	if err != nil {
		return 0, err
	}
	defer started.Stop()
	*env = started
	return m.Run(), nil
}

// capiKinds are the kinds of Cluster API that the controllers and their tests know. Its other CRDs are more than a third of what an API server of a test and its client would read at the start.
var capiKinds = []string{"clusters", "machines", "machinedeployments", "machinehealthchecks", "machinesets"}

// crds returns the paths of the CRDs of the provider and of Cluster API, whose module is in a folder.
func crds(capi string) []string {
	paths := []string{filepath.Join(Root(), "config", "crd", "bases"), filepath.Join(Root(), "config", "bootstrap", "crd", "bases")}
	for _, kind := range capiKinds {
		paths = append(paths, filepath.Join(capi, "core", "config", "crd", "bases", "cluster.x-k8s.io_"+kind+".yaml"))
	}
	return paths
}

// assets is the folder of kube-apiserver and etcd.
func assets() string {
	return cmp.Or(os.Getenv("KUBEBUILDER_ASSETS"), filepath.Join(Root(), ".cache", "bin"))
}

// Start starts an API server, for tests that need several. Stop it.
func Start() (*Env, error) {
	module := exec.CommandContext(context.Background(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	module.Dir = Root()
	capi, err := module.Output()
	if err != nil {
		return nil, fmt.Errorf("find the module of Cluster API: %w", err)
	}
	data, err := os.MkdirTemp("", "capbm-etcd-")
	if err != nil {
		return nil, err
	}
	plane := &envtest.Environment{
		ControlPlane:             envtest.ControlPlane{Etcd: &envtest.Etcd{DataDir: data}},
		ControlPlaneStartTimeout: longWait, ControlPlaneStopTimeout: longWait,
		CRDInstallOptions:     envtest.CRDInstallOptions{MaxTime: longWait},
		BinaryAssetsDirectory: assets(),
		CRDDirectoryPaths:     crds(strings.TrimSpace(string(capi))),
		ErrorIfCRDPathMissing: true,
	}
	// Without it the API server looks for a default route, which a network namespace need not have.
	plane.ControlPlane.GetAPIServer().Configure().Set("advertise-address", "127.0.0.1")
	cfg, err := plane.Start()
	if err != nil {
		return nil, fmt.Errorf("start the API server (make test builds it): %w", err)
	}
	e := &Env{Config: cfg, Scheme: Scheme(), plane: plane}
	if e.Client, err = client.New(cfg, client.Options{Scheme: e.Scheme}); err != nil {
		e.Stop()
		return nil, err
	}
	return e, nil
}

// Stop stops the API server.
func (e *Env) Stop() {
	if err := errors.Join(e.plane.Stop(), os.RemoveAll(e.plane.ControlPlane.Etcd.DataDir)); err != nil {
		fmt.Fprintln(os.Stderr, "stop the API server:", err)
	}
}

// RestartEtcd stops etcd, calls meanwhile, and starts etcd again with its data.
func (e *Env) RestartEtcd(meanwhile func()) error {
	etcd := e.plane.ControlPlane.Etcd
	if err := etcd.Stop(); err != nil {
		return fmt.Errorf("stop etcd: %w", err)
	}
	meanwhile()
	if err := etcd.Start(); err != nil {
		return fmt.Errorf("start etcd again: %w", err)
	}
	return nil
}

// User creates a user without permissions, and returns its credentials as a client configuration and as the content of a kubeconfig. Role bindings
// grant permissions.
func (e *Env) User(t *testing.T, name string) (*rest.Config, []byte) {
	t.Helper()
	g := NewWithT(t)
	user, err := e.plane.AddUser(envtest.User{Name: name}, nil)
	g.Expect(err).NotTo(HaveOccurred())
	kubeconfig, err := user.KubeConfig()
	g.Expect(err).NotTo(HaveOccurred())
	return user.Config(), kubeconfig
}

// StartManager starts a manager with the controllers that setup adds. The returned function stops it; the end of the test does so too.
func (e *Env) StartManager(t *testing.T, setup func(context.Context, ctrl.Manager) error) (stop func()) {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := ctrl.NewManager(e.Config, ctrl.Options{
		Scheme: e.Scheme, Logger: e.Log, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
		Client:         client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.ConfigMap{}}}},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return e.Client.RESTMapper(), nil }, // which knows the kinds already
	})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(controllers.AddIndexes(ctx, mgr)).To(Succeed())
	g.Expect(setup(ctx, mgr)).To(Succeed())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	var stopped bool
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			err := <-done
			if err != nil {
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) // shows what did not stop
			}
			NewWithT(t).Expect(err).To(Succeed())
		}
	}
	t.Cleanup(stop)
	return stop
}

// Kubeconfig writes a kubeconfig file for a program that runs with its own RBAC permissions, and returns its path.
func (e *Env) Kubeconfig(t *testing.T, name string, groups ...string) string {
	t.Helper()
	g := NewWithT(t)
	user, err := e.plane.AddUser(envtest.User{Name: name, Groups: groups}, e.Config)
	g.Expect(err).NotTo(HaveOccurred())
	content, err := user.KubeConfig()
	g.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
	return path
}

// Namespace creates a namespace for a test. At the end of the test its hosts, machines and boots are deleted: managers of later tests watch all
// namespaces, and would work on them.
func (e *Env) Namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	NewWithT(t).Expect(e.Client.Create(t.Context(), ns)).To(Succeed())
	t.Cleanup(func() { e.empty(t, ns.Name) })
	return ns.Name
}

var withoutFinalizers = client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))

// empty deletes what controllers work on in a namespace, without its finalizers. The API server of tests has no controller that deletes namespaces.
func (e *Env) empty(t *testing.T, namespace string) {
	t.Helper()
	g := NewWithT(t)
	for _, list := range []client.ObjectList{
		&v1alpha1.BareMetalMachineList{}, &clusterv1.MachineList{}, &clusterv1.ClusterList{}, &v1alpha1.BareMetalHostList{}, &v1alpha1.BareMetalBootList{},
	} {
		g.Expect(e.Client.List(context.Background(), list, client.InNamespace(namespace))).To(Succeed())
		g.Expect(meta.EachListItem(list, func(item k8sruntime.Object) error {
			o := item.(client.Object)                                          //nolint:forcetypeassert // the items of these lists are objects
			ctx, cancel := context.WithTimeout(context.Background(), longWait) // each object, because a test may have thousands
			defer cancel()
			if err := e.Client.Patch(ctx, o, withoutFinalizers); err != nil {
				return client.IgnoreNotFound(err)
			}
			return client.IgnoreNotFound(e.Client.Delete(ctx, o))
		})).To(Succeed())
	}
}

// Create creates objects.
func (e *Env) Create(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, o := range objects {
		NewWithT(t).Expect(e.Client.Create(t.Context(), o)).To(Succeed(), "%T %s", o, o.GetName())
	}
}

// Modify changes an object in the API server.
func Modify[T client.Object](t *testing.T, e *Env, o T, change func(T)) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func() error {
		if err := e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change(o)
		return e.Client.Update(t.Context(), o)
	}).Should(Succeed())
}

// Wait waits until the conditions on an object hold.
func Wait[T client.Object](t *testing.T, e *Env, o T, until func(g Gomega, o T)) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
		until(g, o)
	}, longWait, poll).Should(Succeed())
}

// Gone waits until an object is gone.
func (e *Env) Gone(t *testing.T, o client.Object) {
	t.Helper()
	NewWithT(t).Eventually(func() bool {
		return apierrors.IsNotFound(e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	}, longWait, poll).Should(BeTrue())
}
