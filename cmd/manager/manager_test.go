package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// asManager makes this test program the manager. So the tests run real processes of it, with the race detector.
const asManager = "CAPBM_TEST_AS_MANAGER"

// process is a running manager.
type process struct {
	cmd    *exec.Cmd
	health string
	done   chan struct{}
	err    error
	log    string
}

// launchManager starts a manager with further variables of its environment. It ends with the test.
func launchManager(t *testing.T, kubeconfig string, environment []string, args ...string) *process {
	t.Helper()
	g := NewWithT(t)
	p := &process{health: freeTCP(t), done: make(chan struct{}), log: filepath.Join(t.TempDir(), "log")}
	log, err := os.Create(p.log)
	g.Expect(err).NotTo(HaveOccurred())
	p.cmd = exec.CommandContext(context.Background(), os.Args[0], append([]string{
		"--kubeconfig=" + kubeconfig, "--health-addr=" + p.health, "--diagnostics-address=0", "--webhook-port=0", "--leader-elect=false",
	}, args...)...)
	p.cmd.Env = append(append(os.Environ(), asManager+"=1", "POD_NAMESPACE=capbm-system"), environment...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	g.Expect(p.cmd.Start()).To(Succeed())
	go func() {
		p.err = errors.Join(p.cmd.Wait(), log.Close())
		close(p.done)
	}()
	t.Cleanup(func() {
		p.stop(t)
		if content, err := os.ReadFile(p.log); t.Failed() && err == nil {
			t.Logf("%s:\n%s", strings.Join(args, " "), content)
		}
	})
	return p
}

// startManager starts a manager with the controllers, and waits until it is ready. It ends with the test.
func startManager(t *testing.T, kubeconfig string, args ...string) *process {
	t.Helper()
	g := NewWithT(t)
	p := launchManager(t, kubeconfig, nil, append([]string{"--components=controllers"}, args...)...)
	g.Eventually(func() error {
		select {
		case <-p.done:
			return StopTrying("it ended").Wrap(p.err)
		default:
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.health+"/readyz", nil)
		if err != nil {
			return err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = answer.Body.Close() }()
		if answer.StatusCode != http.StatusOK {
			return fmt.Errorf("readyz: %s", answer.Status)
		}
		return nil
	}, time.Minute, 50*time.Millisecond).Should(Succeed())
	return p
}

// stop ends the manager as Kubernetes does, and waits until it is gone.
func (p *process) stop(t *testing.T) {
	t.Helper()
	select {
	case <-p.done:
		return
	default:
	}
	g := NewWithT(t)
	g.Expect(p.cmd.Process.Signal(syscall.SIGTERM)).To(Succeed())
	g.Eventually(p.done, time.Minute).Should(BeClosed())
	g.Expect(p.err).NotTo(HaveOccurred())
}

// kill ends the manager as a power failure does.
func (p *process) kill(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(p.cmd.Process.Kill()).To(Succeed())
	g.Eventually(p.done, time.Minute).Should(BeClosed())
}

func freeTCP(t *testing.T) string {
	t.Helper()
	port, err := pxetest.FreePort(netip.MustParseAddr("127.0.0.1"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// providerNamespace creates the namespace of the provider, if it does not exist.
func providerNamespace(t *testing.T) {
	t.Helper()
	err := env.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "capbm-system"}})
	NewWithT(t).Expect(client.IgnoreAlreadyExists(err)).To(Succeed())
}

// admin returns the kubeconfig of a user with all rights.
func admin(t *testing.T) string {
	t.Helper()
	providerNamespace(t)
	return env.Kubeconfig(t, "admin", "system:masters")
}

// createInfra creates a Cluster with its BareMetalCluster. filter is the label of a watch filter; empty sets none.
func createInfra(t *testing.T, namespace, name, filter string) *v1alpha1.BareMetalCluster {
	t.Helper()
	owner := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: clusterv1.ClusterSpec{InfrastructureRef: clusterv1.ContractVersionedObjectReference{
			APIGroup: v1alpha1.GroupVersion.Group, Kind: "BareMetalCluster", Name: name,
		}},
	}
	env.Create(t, owner)
	infra := &v1alpha1.BareMetalCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: "Cluster", Name: name, UID: owner.UID}},
		},
		Spec: v1alpha1.BareMetalClusterSpec{ControlPlaneEndpoint: v1alpha1.APIEndpoint{Host: "192.0.2.1", Port: 6443}},
	}
	if filter != "" {
		infra.Labels = map[string]string{clusterv1.WatchLabel: filter}
	}
	env.Create(t, infra)
	return infra
}

// reconciled waits until a BareMetalCluster is ready.
func reconciled(t *testing.T, infra *v1alpha1.BareMetalCluster) {
	t.Helper()
	controllerstest.Wait(t, env, infra, func(g Gomega, c *v1alpha1.BareMetalCluster) {
		g.Expect(conditions.IsTrue(c, v1alpha1.ReadyCondition)).To(BeTrue(), c.Name)
	})
}

// untouched checks that a BareMetalCluster was not written since it was created, or since forget.
func untouched(t *testing.T, infra *v1alpha1.BareMetalCluster) {
	t.Helper()
	g := NewWithT(t)
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra)).To(Succeed())
	g.Expect(infra.Status).To(BeZero(), infra.Name)
}

// forget erases the status of a BareMetalCluster, which enqueues it.
func forget(t *testing.T, infra *v1alpha1.BareMetalCluster) {
	t.Helper()
	g := NewWithT(t)
	g.Eventually(func() error {
		if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil {
			return err
		}
		infra.Status = v1alpha1.BareMetalClusterStatus{}
		return env.Client.Status().Update(t.Context(), infra)
	}, 10*time.Second).Should(Succeed())
}

// TestWatchFilters: two managers with different watch filters reconcile only their own objects, also when the other manager has ended. Leader election is
// on, since they must not wait for each other.
func TestWatchFilters(t *testing.T) {
	kubeconfig, namespace := admin(t), env.Namespace(t)
	start := func(filter string) *process {
		return startManager(t, kubeconfig, "--watch-filter="+filter, "--leader-elect")
	}
	ofB, ofNobody := createInfra(t, namespace, "b-1", "b"), createInfra(t, namespace, "nobody", "")
	first := start("a")
	ofA := createInfra(t, namespace, "a-1", "a")
	reconciled(t, ofA)
	untouched(t, ofB)
	second := start("b")
	reconciled(t, ofB)
	reconciled(t, createInfra(t, namespace, "a-2", "a"))
	reconciled(t, createInfra(t, namespace, "b-2", "b"))
	untouched(t, ofNobody)

	first.stop(t)
	forget(t, ofA)
	reconciled(t, createInfra(t, namespace, "b-3", "b")) // created after the other manager was observed
	second.stop(t)                                       // no reconcile runs any more
	untouched(t, ofA)
	untouched(t, ofNobody)

	// An object with a new label gets another manager.
	controllerstest.Modify(t, env, ofA, func(c *v1alpha1.BareMetalCluster) { c.Labels[clusterv1.WatchLabel] = "b" })
	start("b")
	reconciled(t, ofA)
	untouched(t, ofNobody)
}

// TestNamespace: a manager of one namespace needs rights only there and in the provider's namespace, and reconciles nothing elsewhere.
func TestNamespace(t *testing.T) {
	g := NewWithT(t)
	providerNamespace(t)
	namespace, elsewhere := env.Namespace(t), env.Namespace(t)
	for _, o := range build(t, "default") { // the roles with the names that they are installed with
		if slices.Contains([]string{"ClusterRole capbm-system-manager", "Role capbm-manager"}, o.GetKind()+" "+o.GetName()) {
			createRole(t, &o)
		}
	}
	const user = "manager-of-a-namespace"
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	env.Create(t,
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "capbm-manager"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capbm-system-manager"},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "capbm-system", Name: "capbm-manager-of-a-namespace"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "capbm-manager"},
		})
	config, content := env.User(t, user)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, content, 0o600)).To(Succeed())
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(apierrors.IsForbidden(c.List(t.Context(), &v1alpha1.BareMetalClusterList{}))).To(BeTrue(), "a manager that watched all namespaces would not become ready")
	review := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "of-somebody"}}
	g.Expect(apierrors.IsForbidden(c.Create(t.Context(), review))).To(BeTrue(), "docs/reference/manager.md says that this needs a ClusterRoleBinding")

	other := createInfra(t, elsewhere, "other", "")
	manager := startManager(t, kubeconfig, "--namespace="+namespace, "--leader-elect")
	reconciled(t, createInfra(t, namespace, "own", ""))
	manager.stop(t)
	untouched(t, other)
}

// createRole creates an object that several tests install, and deletes it at the end of the test.
func createRole(t *testing.T, o client.Object) {
	t.Helper()
	env.Create(t, o)
	t.Cleanup(func() { NewWithT(t).Expect(env.Client.Delete(context.Background(), o)).To(Succeed()) })
}

// holder returns the holder of the managers' lease.
func holder(t *testing.T, namespace string) string {
	t.Helper()
	o := &options{namespace: namespace}
	var lease coordinationv1.Lease
	err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: "capbm-system", Name: o.leaseName()}, &lease)
	NewWithT(t).Expect(client.IgnoreNotFound(err)).To(Succeed())
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// TestLeaderElection: one of two managers reconciles. When it ends, by a signal or a crash, the other one takes over.
func TestLeaderElection(t *testing.T) {
	kubeconfig, namespace := admin(t), env.Namespace(t)
	start := func() *process {
		return startManager(t, kubeconfig, "--namespace="+namespace, "--leader-elect",
			"--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms")
	}
	for name, end := range map[string]func(*process, *testing.T){"told to end": (*process).stop, "killed": (*process).kill} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			word := strings.Fields(name)[0]
			leads := start()
			reconciled(t, createInfra(t, namespace, word+"-1", ""))
			before := holder(t, namespace)
			g.Expect(before).NotTo(BeEmpty())
			waits := start() // a manager that waits is ready, too
			g.Expect(holder(t, namespace)).To(Equal(before))
			end(leads, t)
			g.Eventually(func() string { return holder(t, namespace) }, 30*time.Second, 50*time.Millisecond).ShouldNot(Or(BeEmpty(), Equal(before)))
			after := holder(t, namespace)
			reconciled(t, createInfra(t, namespace, word+"-2", ""))
			g.Expect(holder(t, namespace)).To(Equal(after), "one handed over, once")
			waits.stop(t)
		})
	}
}

// TestWebhooks: the manager serves the webhooks with the address, the certificate and the TLS options of its flags.
func TestWebhooks(t *testing.T) {
	g := NewWithT(t)
	kubeconfig, namespace := admin(t), env.Namespace(t)
	installed := env.InstallWebhooks(t, controllerstest.InfrastructureWebhooks())
	folder := t.TempDir()
	for from, to := range map[string]string{"tls.crt": "webhook.pem", "tls.key": "webhook.key"} {
		content, err := os.ReadFile(filepath.Join(installed.LocalServingCertDir, from))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(os.WriteFile(filepath.Join(folder, to), content, 0o600)).To(Succeed())
	}
	startManager(t, kubeconfig, "--namespace="+namespace, fmt.Sprintf("--webhook-port=%d", installed.LocalServingPort), "--webhook-host=127.0.0.1",
		"--webhook-cert-dir="+folder, "--webhook-cert-name=webhook.pem", "--webhook-key-name=webhook.key", "--tls-min-version=VersionTLS13")
	claim := env.NewClaim(t, namespace, "m") // the webhooks allow it
	bad := claim.BareMetalMachine.DeepCopy()
	bad.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "bad"}
	bad.Spec.Boot.IPXETemplate = "#!ipxe\n{{ .Krenel }}"
	g.Expect(env.Client.Create(t.Context(), bad)).To(MatchError(ContainSubstring("spec.boot.ipxeTemplate: Invalid value")))

	at := func(host string, version uint16) error {
		dialer := tls.Dialer{Config: &tls.Config{InsecureSkipVerify: true, MaxVersion: version}}
		conn, err := dialer.DialContext(t.Context(), "tcp", net.JoinHostPort(host, strconv.Itoa(installed.LocalServingPort)))
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	g.Expect(at("127.0.0.1", tls.VersionTLS13)).To(Succeed())
	g.Expect(at("127.0.0.1", tls.VersionTLS12)).To(MatchError(ContainSubstring("protocol version not supported")))
	g.Expect(at("127.0.0.2", tls.VersionTLS13)).To(MatchError(syscall.ECONNREFUSED), "it listens at one address")
}

// TestDiagnostics: metrics are served with TLS by the options of the flags, to users with the permission. The profiler needs no permission.
func TestDiagnostics(t *testing.T) {
	g := NewWithT(t)
	kubeconfig, namespace := admin(t), env.Namespace(t)
	metrics, profiler := freeTCP(t), freeTCP(t)
	// In brackets, as the Deployments write it for addresses of both families.
	bracketed := "[" + strings.Replace(metrics, ":", "]:", 1)
	startManager(t, kubeconfig, "--namespace="+namespace, "--diagnostics-address="+bracketed, "--profiler-address="+profiler, "--logging-format=json",
		"--tls-cipher-suites=TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "--tls-min-version=VersionTLS12")
	get := func(url string, config *tls.Config) (int, error) {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		g.Expect(err).NotTo(HaveOccurred())
		transport := &http.Transport{TLSClientConfig: config}
		defer transport.CloseIdleConnections()
		answer, err := (&http.Client{Transport: transport}).Do(request)
		if err != nil {
			return 0, err
		}
		return answer.StatusCode, answer.Body.Close()
	}
	insecure := func(suite uint16) *tls.Config {
		return &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite}}
	}
	answers := func(code int, url string, config *tls.Config) {
		t.Helper()
		g.Eventually(func() (int, error) { return get(url, config) }, 30*time.Second, 50*time.Millisecond).Should(Equal(code), url)
	}
	answers(http.StatusUnauthorized, "https://"+metrics+"/metrics", insecure(tls.TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384))
	_, err := get("https://"+metrics+"/metrics", insecure(tls.TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256))
	g.Expect(err).To(MatchError(ContainSubstring("handshake failure")))
	answers(http.StatusOK, "http://"+profiler+"/debug/pprof/cmdline", nil)

	open := freeTCP(t)
	insecureManager := startManager(t, kubeconfig, "--namespace="+namespace, "--diagnostics-address="+open, "--insecure-diagnostics")
	answers(http.StatusOK, "http://"+open+"/metrics", nil)
	answers(http.StatusNotFound, "http://"+open+"/debug/pprof/cmdline", nil)
	insecureManager.stop(t)
}
