// Package controllerstest gives controllers a real API server, with the CRDs of the provider and of Cluster API, to be tested
// against.
package controllerstest

import (
	"context"
	"fmt"
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
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// Env is a running API server.
type Env struct {
	Config *rest.Config
	Scheme *k8sruntime.Scheme
	// Client reads from the API server.
	Client client.Client
}

// Scheme returns a scheme with every type that the controllers use.
func Scheme() *k8sruntime.Scheme {
	scheme := k8sruntime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(clusterv1.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
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
	code, err := run(m, env)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M, env **Env) (int, error) {
	module := exec.CommandContext(context.Background(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	module.Dir = Root()
	capi, err := module.Output()
	if err != nil {
		return 0, fmt.Errorf("find the module of Cluster API: %w", err)
	}
	assets := os.Getenv("KUBEBUILDER_ASSETS")
	if assets == "" {
		assets = filepath.Join(Root(), ".cache", "bin")
	}
	plane := &envtest.Environment{
		BinaryAssetsDirectory: assets,
		CRDDirectoryPaths: []string{
			filepath.Join(Root(), "config", "crd", "bases"),
			filepath.Join(strings.TrimSpace(string(capi)), "core", "config", "crd", "bases"),
		},
		ErrorIfCRDPathMissing: true,
	}
	cfg, err := plane.Start()
	if err != nil {
		return 0, fmt.Errorf("start the API server (make test builds it): %w", err)
	}
	defer func() {
		if err := plane.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stop the API server:", err)
		}
	}()
	scheme := Scheme()
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return 0, err
	}
	*env = &Env{Config: cfg, Scheme: scheme, Client: c}
	return m.Run(), nil
}

// StartManager starts a manager with the controllers that setup adds, and stops it at the end of the test or by the function
// that it returns.
func (e *Env) StartManager(t *testing.T, setup func(context.Context, ctrl.Manager) error) (stop func()) {
	t.Helper()
	g := NewWithT(t)
	ctx, cancel := context.WithCancel(context.Background())
	mgr, err := ctrl.NewManager(e.Config, ctrl.Options{
		Scheme: e.Scheme, Metrics: server.Options{BindAddress: "0"}, Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
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
				_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1) // who does not end
			}
			NewWithT(t).Expect(err).To(Succeed())
		}
	}
	t.Cleanup(stop)
	return stop
}

// Namespace creates a namespace for a test.
func (e *Env) Namespace(t *testing.T) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	NewWithT(t).Expect(e.Client.Create(t.Context(), ns)).To(Succeed())
	return ns.Name
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
	}, 10*time.Second).Should(Succeed())
}

// Wait waits until an object is as it shall be.
func Wait[T client.Object](t *testing.T, e *Env, o T, until func(g Gomega, o T)) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		g.Expect(e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)).To(Succeed())
		until(g, o)
	}, 30*time.Second, 20*time.Millisecond).Should(Succeed())
}

// Gone waits until an object is gone.
func (e *Env) Gone(t *testing.T, o client.Object) {
	t.Helper()
	NewWithT(t).Eventually(func() bool {
		return apierrors.IsNotFound(e.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o))
	}, 30*time.Second, 20*time.Millisecond).Should(BeTrue())
}
