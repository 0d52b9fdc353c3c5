package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/provider"
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

// bootAddress is the address of the boot server. Firmware sends its requests through a relay at relayAddress.
var (
	bootAddress  = netip.MustParseAddr("127.0.82.1")
	relayAddress = netip.MustParseAddr("127.0.82.2")
)

// bootUser is the service account of the boot server.
const bootUser = "system:serviceaccount:capbm-system:capbm-boot"

// bootRole creates the service account of the boot server with the roles that config installs for it, and no others. It returns its kubeconfig and a
// client. The account can read the bootstrap data of no namespace yet.
func bootRole(t *testing.T) (kubeconfig string, c client.Client) {
	t.Helper()
	g := NewWithT(t)
	providerNamespace(t)
	var installed []string
	for _, o := range build(t, "rbac") {
		switch what := o.GetKind() + " " + o.GetName(); what {
		case "ClusterRole capbm-system-boot", "ClusterRole capbm-system-boot-data", "Role capbm-boot",
			"ServiceAccount capbm-boot", "ClusterRoleBinding capbm-system-boot", "RoleBinding capbm-boot",
			"ValidatingAdmissionPolicy capbm-system-boot", "ValidatingAdmissionPolicyBinding capbm-system-boot",
			"ValidatingAdmissionPolicy capbm-system-boot-inspections", "ValidatingAdmissionPolicyBinding capbm-system-boot-inspections",
			"ValidatingAdmissionPolicy capbm-system-boot-leases", "ValidatingAdmissionPolicyBinding capbm-system-boot-leases",
			"ValidatingAdmissionPolicy capbm-system-boot-secrets", "ValidatingAdmissionPolicyBinding capbm-system-boot-secrets":
			installed = append(installed, what)
			g.Expect(client.IgnoreAlreadyExists(env.Client.Create(t.Context(), &o))).To(Succeed())
		}
	}
	g.Expect(installed).To(HaveLen(14))
	config, content := env.User(t, bootUser)
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

// bootConfig writes the configuration of a boot server with its own ports. It returns the path, and firmware that the server will serve.
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
bmcs: {allowNetworks: [127.0.0.0/8]}
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

// TestBootRole: a boot server with only the role capbm-boot boots a server from its power-on to its report, once a RoleBinding lets it read the bootstrap
// data of the namespace. Until then the boot names the command that creates it. The boot server may do nothing else.
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
	server := controllerstest.NewServer(t, namespace, "h", bmctest.Options{
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
	mac, err := net.ParseMAC(server.Host.Spec.BootMACAddresses[0])
	g.Expect(err).NotTo(HaveOccurred())
	firmware.MAC = mac
	server.Host.Spec.BootAddresses = []string{"127.0.82.99"}
	env.Create(t, server.Secret, server.Host)
	claim := env.NewClaim(t, namespace, "m", func(c *controllerstest.Claim) {
		c.Machine.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{APIGroup: bootstrapv1.GroupVersion.Group, Kind: "BareMetalConfig", Name: "m"}
	})
	ownByConfig(t, claim)
	sum := sha256.Sum256([]byte("a kernel"))
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.Boot.Kernel = v1alpha1.Artifact{URL: kernel.URL, Checksum: "sha256:" + hex.EncodeToString(sum[:])}
	})
	letRead(t, c, server, claim)
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue())
	})
	g.Expect(<-addresses).To(Equal(netip.MustParseAddr("127.0.82.99")), "the one that is reserved")
	record := &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"}}
	controllerstest.Wait(t, env, record, func(g Gomega, b *v1alpha1.BareMetalBoot) {
		var stages []v1alpha1.BootStage
		for _, s := range b.Status.Stages {
			stages = append(stages, s.Stage)
		}
		g.Expect(stages).To(ConsistOf(v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageScript, v1alpha1.StageKernel,
			v1alpha1.StageData, v1alpha1.StageReportedIn))
		g.Expect([]string{b.Spec.ScriptAddress, b.Spec.DataAddress, b.Spec.ReportAddress}).To(HaveEach("127.0.82.99"))
		g.Expect(b.Spec.DHCPTime).NotTo(BeNil())
		g.Expect(b.Spec.Attempt).To(BeEquivalentTo(1))
	})
	g.Expect(c.Get(t.Context(), client.ObjectKey{Namespace: "capbm-system", Name: "dhcp-127-0-82-99"}, &coordinationv1.Lease{})).To(Succeed())
	// Two rights were not used here: no event of a host was recorded, and no one read the metrics.
	g.Expect(c.Create(t.Context(), &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h.1"}, Type: corev1.EventTypeWarning, Reason: v1alpha1.ReasonAddressConflict, Action: "Decline",
		EventTime: metav1.NowMicro(), ReportingController: "capbm-boot", ReportingInstance: "test",
		Regarding: corev1.ObjectReference{Kind: "BareMetalHost", Namespace: namespace, Name: "h"},
	})).To(Succeed())
	g.Expect(c.Create(t.Context(), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: "x"}})).To(Succeed())
	forbidden(t, c, namespace, server, claim)
	denied(t, c, record)
	deniedOnceWritten(t, c, record)
	deniedStages(t, c, record)
	deniedLeases(t, c)
	deniedSecrets(t, c)
	allowed(t, c, namespace)
}

// ownByConfig makes the bootstrap data that of a bootstrap config, which the Machine owns.
func ownByConfig(t *testing.T, claim *controllerstest.Claim) {
	t.Helper()
	config := &bootstrapv1.BareMetalConfig{ObjectMeta: metav1.ObjectMeta{Namespace: claim.Machine.Namespace, Name: "m", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: "m", UID: claim.Machine.UID, Controller: new(true),
	}}}, Spec: bootstrapv1.BareMetalConfigSpec{UserData: "#cloud-config", Commands: []string{"true"}}}
	env.Create(t, config)
	controllerstest.Modify(t, env, claim.Bootstrap, func(s *corev1.Secret) {
		s.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: bootstrapv1.GroupVersion.String(), Kind: "BareMetalConfig", Name: "m", UID: config.UID, Controller: new(true),
		}}
	})
}

// letRead waits until the boot says that its bootstrap data must not be read, and runs the command that it names.
func letRead(t *testing.T, c client.Client, server *controllerstest.Server, claim *controllerstest.Claim) {
	t.Helper()
	g := NewWithT(t)
	key := client.ObjectKeyFromObject(server.Host)
	var command []string
	controllerstest.Wait(t, env, &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}, func(g Gomega, b *v1alpha1.BareMetalBoot) {
		g.Expect(b.Status.Problem).NotTo(BeNil())
		g.Expect(b.Status.Problem.Reason).To(Equal(v1alpha1.ReasonBootstrapDataUnavailable))
		_, text, found := strings.Cut(b.Status.Problem.Message, "kubectl ")
		g.Expect(found).To(BeTrue(), b.Status.Problem.Message)
		g.Expect([]string{b.Spec.ScriptAddress, b.Spec.DataAddress}).To(HaveEach(""), "nothing is bound")
		command = strings.Fields(text)
	})
	bootstrap := client.ObjectKeyFromObject(claim.Bootstrap)
	g.Expect(apierrors.IsForbidden(c.Get(t.Context(), bootstrap, &corev1.Secret{}))).To(BeTrue())
	kubectl := exec.CommandContext(t.Context(), filepath.Join(controllerstest.Root(), ".cache", "bin", "kubectl"), append([]string{"--kubeconfig=" + admin(t)}, command...)...)
	out, err := kubectl.CombinedOutput()
	g.Expect(err).NotTo(HaveOccurred(), string(out))
	g.Eventually(func() error { return c.Get(t.Context(), bootstrap, &corev1.Secret{}) }).Should(Succeed())
}

// forbidden checks what the role does not allow.
func forbidden(t *testing.T, c client.Client, namespace string, server *controllerstest.Server, claim *controllerstest.Claim) {
	t.Helper()
	ctx := t.Context()
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "x"}
	elsewhere := client.InNamespace("kube-system")
	own := client.InNamespace("capbm-system")
	foreign := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "m"}}
	another := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "capbm-system", Name: "the-managers"}}
	env.Create(t, foreign, another)
	NewWithT(t).Expect(c.Get(ctx, client.ObjectKey{Namespace: "capbm-system", Name: provider.BootKeySecret}, &corev1.Secret{})).To(Succeed())
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`))
	for what, err := range map[string]error{
		"read bootstrap data elsewhere":       c.Get(ctx, client.ObjectKeyFromObject(foreign), &corev1.Secret{}),
		"read another Secret of its own":      c.Get(ctx, client.ObjectKeyFromObject(another), &corev1.Secret{}),
		"change the key of the tokens":        c.Patch(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "capbm-system", Name: provider.BootKeySecret}}, patch),
		"change a host":                       c.Patch(ctx, server.Host, patch),
		"change a host's spec":                c.Patch(ctx, server.Host, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"consumerRef":null}}`))),
		"change a host's status":              c.Status().Patch(ctx, server.Host, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Available"}}`))),
		"update a host":                       c.Update(ctx, server.Host),
		"create a boot":                       c.Create(ctx, &v1alpha1.BareMetalBoot{ObjectMeta: meta}),
		"update a boot":                       c.Update(ctx, &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"}}),
		"delete a boot":                       c.Delete(ctx, &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "h"}}),
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
