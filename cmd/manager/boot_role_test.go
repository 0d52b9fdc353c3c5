package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

var env *controllerstest.Env

func TestMain(m *testing.M) {
	if os.Getenv(asManager) != "" {
		main()
		return
	}
	controllerstest.Main(m, &env)
}

// bootAddress is the boot server's, and firmware asks through a relay at relayAddress.
var (
	bootAddress  = netip.MustParseAddr("127.0.82.1")
	relayAddress = netip.MustParseAddr("127.0.82.2")
)

// apply creates the objects of a generated file.
func apply(t *testing.T, path string) {
	t.Helper()
	g := NewWithT(t)
	content, err := os.ReadFile(filepath.Join(controllerstest.Root(), path))
	g.Expect(err).NotTo(HaveOccurred())
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096)
	for {
		var o unstructured.Unstructured
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return
		}
		g.Expect(err).NotTo(HaveOccurred())
		env.Create(t, &o)
	}
}

// bootRole makes a user who has the role of the boot server and no other, and returns his kubeconfig and a client of his.
func bootRole(t *testing.T) (kubeconfig string, c client.Client) {
	t.Helper()
	g := NewWithT(t)
	const user = "boot-server"
	providerNamespace(t)
	apply(t, "config/rbac/boot_role.yaml")
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	env.Create(t,
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "capbm-boot"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capbm-boot"},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "capbm-system", Name: "capbm-boot"}, Subjects: subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "capbm-boot"},
		})
	config, content := env.User(t, user)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	g.Expect(os.WriteFile(kubeconfig, content, 0o600)).To(Succeed())
	c, err := client.New(config, client.Options{Scheme: env.Scheme})
	g.Expect(err).NotTo(HaveOccurred())
	return kubeconfig, c
}

func freePort(t *testing.T) uint16 {
	t.Helper()
	port, err := pxetest.FreePort(bootAddress)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return port
}

// bootConfig writes the configuration of a boot server with ports of its own, and returns its path and firmware that the server will serve.
func bootConfig(t *testing.T) (path string, firmware *pxetest.Firmware) {
	t.Helper()
	g := NewWithT(t)
	folder := t.TempDir()
	g.Expect(pxetest.WriteLoaders(folder, "undionly.kpxe")).To(Succeed())
	dhcpPort, tftpPort, httpPort := freePort(t), freePort(t), freePort(t)
	path = filepath.Join(folder, "boot.yaml")
	g.Expect(os.WriteFile(path, fmt.Appendf(nil, `
http: {port: %d}
tftp: {port: %d}
dhcp: {port: %d, proxyPort: 0}
loaders: [%q]
artifacts: {dir: %q, allowNetworks: [127.0.0.0/8]}
networks:
- {name: test, mode: authoritative, address: %s, subnet: 127.0.82.0/24, ranges: [127.0.82.10-127.0.82.20]}
`, httpPort, tftpPort, dhcpPort, folder, t.TempDir(), bootAddress), 0o600)).To(Succeed())
	return path, &pxetest.Firmware{DHCPServer: netip.AddrPortFrom(bootAddress, dhcpPort), Relay: relayAddress, TFTPPort: tftpPort}
}

// startBootServer runs this program with --components=boot, and returns firmware that it serves.
func startBootServer(t *testing.T, kubeconfig string) *pxetest.Firmware {
	t.Helper()
	g := NewWithT(t)
	config, firmware := bootConfig(t)
	health := freePort(t)
	ctx, cancel := context.WithCancel(context.Background())
	var ended error
	done := make(chan struct{})
	args := []string{
		"--components=boot", "--kubeconfig=" + kubeconfig, "--health-addr=" + netip.AddrPortFrom(bootAddress, health).String(), "--diagnostics-address=0",
		"--boot-config=" + config,
	}
	go func() {
		defer close(done)
		ended = run(ctx, args)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		NewWithT(t).Expect(ended).To(Succeed())
	})
	g.Eventually(func(g Gomega) {
		g.Expect(done).NotTo(BeClosed(), "it goes on")
		response, err := http.Get("http://" + netip.AddrPortFrom(bootAddress, health).String() + "/readyz") //nolint:noctx // returns at once
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	}, "30s").Should(Succeed())
	return firmware
}

// TestBootRole: a boot server that has the role capbm-boot and no other boots a server from its power-on to its report, and may do
// nothing else.
func TestBootRole(t *testing.T) {
	g := NewWithT(t)
	kubeconfig, c := bootRole(t)
	firmware := startBootServer(t, kubeconfig)
	namespace := env.Namespace(t)
	kernel := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("a kernel")) }))
	t.Cleanup(kernel.Close)
	pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: (&redfish.Driver{Permit: bmctest.Loopback}).Driver()}, bmc.PoolOptions{})
	t.Cleanup(pool.Close)
	env.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		settings := controllerstest.Settings()
		return errors.Join(
			(&host.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Pool: pool, Settings: settings}).SetupWithManager(ctx, mgr, controller.Options{}),
			(&machine.Reconciler{Client: mgr.GetClient(), APIReader: mgr.GetAPIReader()}).SetupWithManager(ctx, mgr, controller.Options{}),
		)
	})
	addresses := make(chan netip.Addr, 1)
	server := controllerstest.NewServer(t, namespace, "h", 1, bmctest.Options{
		PowerDelay: 20 * time.Millisecond,
		Run: func(ctx context.Context, device bmc.BootTarget, booted func()) {
			if device == bmc.BootPXE {
				system, err := firmware.Boot(ctx)
				if err == nil {
					booted()
					err = system.Report(ctx)
				}
				if err == nil {
					addresses <- system.Address
				}
			}
			<-ctx.Done()
		},
	})
	mac, err := net.ParseMAC(server.Host.Spec.BootMACAddress)
	g.Expect(err).NotTo(HaveOccurred())
	firmware.MAC = mac
	server.Host.Spec.BootAddresses = []string{"127.0.82.99"}
	env.Create(t, server.Secret, server.Host)
	claim := env.NewClaim(t, namespace, "m")
	sum := sha256.Sum256([]byte("a kernel"))
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.Boot.Kernel = v1alpha1.Artifact{URL: kernel.URL, Checksum: "sha256:" + hex.EncodeToString(sum[:])}
	})
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue())
	})
	g.Expect(<-addresses).To(Equal(netip.MustParseAddr("127.0.82.99")), "the one that is reserved")
	controllerstest.Wait(t, env, server.Host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(h.Status.Boot).NotTo(BeNil())
		g.Expect(h.Status.Boot.Sightings).To(HaveLen(6))
	})
	g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: "capbm-system", Name: "dhcp-127-0-82-99"}, &coordinationv1.Lease{})).To(Succeed())
	// What did not happen here: something to tell on a host, and somebody who reads the metrics.
	g.Expect(c.Create(t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h.1"}, Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonAddressConflict, Action: "Decline",
		EventTime: metav1.NowMicro(), ReportingController: "capbm-boot", ReportingInstance: "test",
		Regarding: corev1.ObjectReference{Kind: "BareMetalHost", Namespace: namespace, Name: "h"},
	})).To(Succeed())
	g.Expect(c.Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "x"}})).To(Succeed())
	forbidden(t, c, namespace, server, claim)
}

// forbidden checks what the role does not allow.
func forbidden(t *testing.T, c client.Client, namespace string, server *controllerstest.Server, claim *controllerstest.Claim) {
	t.Helper()
	ctx := t.Context()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "x"}
	elsewhere := client.InNamespace("kube-system")
	own := client.InNamespace("capbm-system")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"x":"y"}}}`))
	for what, err := range map[string]error{
		"list the Secrets of a namespace":     c.List(ctx, &corev1.SecretList{}, client.InNamespace(namespace)),
		"list all Secrets":                    c.List(ctx, &corev1.SecretList{}),
		"list the provider's Secrets":         c.List(ctx, &corev1.SecretList{}, own),
		"create a Secret elsewhere":           c.Create(ctx, &corev1.Secret{ObjectMeta: meta}),
		"change a BMC's Secret":               c.Patch(ctx, server.Secret, patch),
		"change a BareMetalMachine":           c.Patch(ctx, claim.BareMetalMachine, patch),
		"change a BareMetalMachine's status":  c.Status().Patch(ctx, claim.BareMetalMachine, patch),
		"create a BareMetalMachine":           c.Create(ctx, &v1alpha1.BareMetalMachine{ObjectMeta: meta, Spec: claim.BareMetalMachine.Spec}),
		"change a Machine":                    c.Patch(ctx, claim.Machine, patch),
		"change a Cluster":                    c.Patch(ctx, claim.Cluster, patch),
		"create a host":                       c.Create(ctx, &v1alpha1.BareMetalHost{ObjectMeta: meta, Spec: server.Host.Spec}),
		"delete a host":                       c.Delete(ctx, server.Host),
		"see the Leases of others":            c.List(ctx, &coordinationv1.LeaseList{}, elsewhere),
		"delete a Lease":                      c.Delete(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "capbm-system", Name: "dhcp-127-0-82-99"}}),
		"create a Lease elsewhere":            c.Create(ctx, &coordinationv1.Lease{ObjectMeta: meta}),
		"see BareMetalClusters":               c.List(ctx, &v1alpha1.BareMetalClusterList{}),
		"see Pods":                            c.List(ctx, &corev1.PodList{}),
		"give itself a role":                  c.Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}),
		"see ConfigMaps of its own namespace": c.List(ctx, &corev1.ConfigMapList{}, own),
	} {
		if !apierrors.IsForbidden(err) {
			t.Errorf("the role of the boot server allows to %s: %v", what, err)
		}
	}
}
