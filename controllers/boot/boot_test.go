package boot_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/machine"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/outbound"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

const kernel = "a kernel"

// lab is the whole provider: its controllers and its boot server.
type lab struct {
	t         *testing.T
	namespace string
	dhcp      netip.AddrPort
	tftp      uint16
	http      string // the URL of the boot server
	origin    *httptest.Server
}

// network127 is the network of the tests, with HTTP at a URL.
func network127(url string) bootconfig.Network {
	return bootconfig.Network{
		Name: "test", Mode: bootconfig.Authoritative, Address: address, URL: url, Subnet: netip.MustParsePrefix("127.0.81.0/24"), LeaseTime: time.Hour,
		Ranges: []pxe.Range{{First: netip.MustParseAddr("127.0.81.10"), Last: netip.MustParseAddr("127.0.81.250")}},
	}
}

var address = netip.MustParseAddr("127.0.81.1")

func start(t *testing.T) *lab {
	t.Helper()
	return startWith(t, logr.Discard(), bootconfig.Authoritative)
}

// startOff starts a lab in a network with another DHCP server: DHCP requests do not show which client is the server.
func startOff(t *testing.T) *lab {
	t.Helper()
	return startWith(t, logr.Discard(), bootconfig.Off)
}

// labKey signs the tokens of the lab.
const labKey = "the key of the lab's tokens: nobody may see it"

// startWith starts a lab that logs. mode is that of its network as the Booter knows it.
func startWith(t *testing.T, log logr.Logger, mode bootconfig.Mode) *lab {
	t.Helper()
	g := NewWithT(t)
	l := &lab{t: t, namespace: env.Namespace(t)}
	l.origin = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(kernel)) }))
	t.Cleanup(l.origin.Close)
	var ports [3]uint16
	for i := range ports {
		var err error
		ports[i], err = pxetest.FreePort(address)
		g.Expect(err).NotTo(HaveOccurred())
	}
	at := func(i int) string { return netip.AddrPortFrom(address, ports[i]).String() }
	l.http = "http://" + at(2)
	l.dhcp, l.tftp = netip.AddrPortFrom(address, ports[0]), ports[1]
	loaders := t.TempDir()
	g.Expect(pxetest.WriteLoaders(loaders, "undionly.kpxe")).To(Succeed())

	pool := bmc.NewPool(map[string]bmc.Driver{redfish.SchemeInsecure: (&redfish.Driver{Permit: bmctest.Loopback}).Driver()}, bmc.PoolOptions{})
	t.Cleanup(pool.Close)
	logging := *env
	logging.Log = log
	logging.StartManager(t, func(ctx context.Context, mgr ctrl.Manager) error {
		if err := boot.IndexLeases(ctx, mgr.GetFieldIndexer()); err != nil {
			return err
		}
		settings := controllerstest.Settings()
		settings.BootTimeout = time.Minute // no test waits for it, and a busy machine needs time
		settings.PowerSettle = time.Second // the servers take time to switch, and the tests count their commands
		network := network127(l.http)
		network.Mode = mode
		booter := boot.New(&boot.Booter{
			Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Settings: settings, Key: []byte(labKey), Namespace: l.namespace, Log: log,
			Networks: []bootconfig.Network{network}, Recorder: mgr.GetEventRecorder("capbm-boot"),
		})
		for _, add := range []error{
			mgr.Add(booter),
			mgr.Add(&server.Server{Booter: booter, Log: log, Config: server.Config{
				Networks:    []bootconfig.Network{network127(l.http)},
				DHCPAddress: at(0), TFTPAddress: at(1), HTTPAddress: at(2), LoaderDirs: []string{loaders},
				Artifacts: artifact.Options{Dir: t.TempDir(), Outbound: outbound.Policy{AllowNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, RetryAfter: time.Millisecond},
			}}),
			(&host.Reconciler{
				Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Pool: pool, Recorder: mgr.GetEventRecorder("capbm-host"), Settings: settings,
			}).SetupWithManager(ctx, mgr, controller.Options{}),
			(&machine.Reconciler{
				Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("capbm-machine"),
			}).SetupWithManager(ctx, mgr, controller.Options{}),
		} {
			if add != nil {
				return add
			}
		}
		return nil
	})
	g.Eventually(func() error {
		conn, err := net.Dial("tcp4", at(2)) //nolint:noctx // returns at once
		if err != nil {
			return err
		}
		return conn.Close()
	}, "30s").Should(Succeed())
	return l
}

// bootObject is a variable for the record of a host's last boot.
func bootObject(host *v1alpha1.BareMetalHost) *v1alpha1.BareMetalBoot {
	return &v1alpha1.BareMetalBoot{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}}
}

// stagesOf returns the observed stages of a boot.
func stagesOf(b *v1alpha1.BareMetalBoot) (stages []v1alpha1.BootStage) {
	for _, s := range b.Status.Stages {
		if s.Number == b.Spec.Number {
			stages = append(stages, s.Stage)
		}
	}
	return stages
}

func (l *lab) firmware(mac string) *pxetest.Firmware {
	hw, err := net.ParseMAC(mac)
	NewWithT(l.t).Expect(err).NotTo(HaveOccurred())
	return &pxetest.Firmware{MAC: hw, DHCPServer: l.dhcp, Relay: netip.MustParseAddr("127.0.81.2"), TFTPPort: l.tftp}
}

// server registers a server that boots over the network when it is powered on with that override. The channel returns what it booted.
func (l *lab) server(name string, then func(context.Context, *pxetest.System)) *controllerstest.Server {
	return l.machine(name, func(ctx context.Context, firmware *pxetest.Firmware, booted func()) {
		if system, err := firmware.Boot(ctx); err == nil {
			booted()
			then(ctx, system)
		}
	})
}

// machine registers a server that runs something when it is powered on to boot over the network.
func (l *lab) machine(name string, run func(context.Context, *pxetest.Firmware, func())) *controllerstest.Server {
	var mac string
	s := controllerstest.NewServer(l.t, l.namespace, name, bmctest.Options{
		PowerDelay: 20 * time.Millisecond,
		Run: func(ctx context.Context, device bmc.BootTarget, booted func()) {
			if device == bmc.BootPXE {
				run(ctx, l.firmware(mac), booted)
			}
			<-ctx.Done()
		},
	})
	mac = s.Host.Spec.BootMACAddresses[0] // the test may still write the host when the server is powered on
	env.Create(l.t, s.Secret, s.Host)
	return s
}

func (l *lab) claim(name, content string) *controllerstest.Claim {
	c := env.NewClaim(l.t, l.namespace, name)
	l.boots(c, content, func(*v1alpha1.BootSource) {})
	return c
}

// boots selects what a machine boots.
func (l *lab) boots(c *controllerstest.Claim, content string, change func(*v1alpha1.BootSource)) {
	sum := sha256.Sum256([]byte(content))
	controllerstest.Modify(l.t, env, c.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.Boot.Kernel = v1alpha1.Artifact{URL: l.origin.URL, Checksum: "sha256:" + hex.EncodeToString(sum[:])}
		m.Spec.Boot.CommandLine = "console=ttyS0"
		change(&m.Spec.Boot)
	})
}

// TestBoot is the whole life of a server: it is registered, claimed, powered on, booted over the network, reports, is released, and
// boots for the next machine.
func TestBoot(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	systems := make(chan *pxetest.System, 1)
	s := l.server("h", func(ctx context.Context, system *pxetest.System) {
		NewWithT(t).Expect(system.Report(ctx)).To(Succeed())
		NewWithT(t).Expect(system.Report(ctx)).To(Succeed(), "a report whose answer was lost is made again")
		systems <- system
	})
	for _, name := range []string{"m-1", "m-2"} {
		claim := l.claim(name, kernel)
		controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
			g.Expect(m.Spec.ProviderID).To(Equal("baremetal://" + l.namespace + "/h/" + name))
			g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue())
		})
		system := <-systems
		g.Expect(system.MetaData).To(HaveKeyWithValue("provider-id", claim.BareMetalMachine.Spec.ProviderID))
		g.Expect(system.MetaData).To(HaveKeyWithValue("hostname", name))
		g.Expect(string(system.UserData)).To(Equal("#cloud-config\n"))
		controllerstest.Wait(t, env, s.Host, func(g Gomega, h *v1alpha1.BareMetalHost) {
			g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseProvisioned))
			record := controllerstest.BootOf(t, env, h)
			observed := slices.DeleteFunc(stagesOf(record), func(s v1alpha1.BootStage) bool { return s == v1alpha1.StageStarted })
			g.Expect(slices.Contains(stagesOf(record), v1alpha1.StageStarted)).To(Equal(name == "m-2"), "it replaces what the status shows of the boot before")
			g.Expect(observed).To(ConsistOf(v1alpha1.StageDHCP, v1alpha1.StageLoader, v1alpha1.StageScript, v1alpha1.StageKernel,
				v1alpha1.StageData, v1alpha1.StageReportedIn))
			g.Expect(record.Status.Stage).To(Equal(v1alpha1.StageReportedIn))
			g.Expect(record.Spec.DataAddress).To(Equal(system.Address.String()))
			g.Expect(record.Spec.ScriptAddress).To(Equal(system.Address.String()))
			g.Expect(record.Spec.DHCPTime).NotTo(BeNil())
			g.Expect(record.Spec.Number).To(Equal(h.Spec.ProviderState.Boots))
			g.Expect(record.Spec.ClaimID).To(Equal(h.Spec.ConsumerRef.ClaimID))
			g.Expect(record.Spec.MachineName).To(Equal(name))
			var lease coordinationv1.Lease
			key := client.ObjectKey{Namespace: l.namespace, Name: "dhcp-" + strings.ReplaceAll(system.Address.String(), ".", "-")}
			g.Expect(env.Client.Get(t.Context(), key, &lease)).To(Succeed())
			g.Expect(*lease.Spec.HolderIdentity).To(HavePrefix(l.namespace + "/h/" + h.Spec.BootMACAddresses[0] + "/"))
		})
		url, err := system.SeedURL()
		g.Expect(err).NotTo(HaveOccurred())
		response, err := http.Get(url + "user-data") //nolint:noctx // the lab's own
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusForbidden), "the token is void once the host reported in")

		g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
		env.Gone(t, claim.BareMetalMachine)
		g.Expect(s.On()).To(BeFalse())
		g.Expect(controllerstest.BootOf(t, env, s.Host).Spec.VoidedTime).NotTo(BeNil())
	}
	g.Expect(s.CommandNames()).To(Equal([]string{"Boot=PXE", "On", "GracefulShutdown", "Boot=None", "Boot=PXE", "On", "GracefulShutdown", "Boot=None"}))
}

// TestSecondRequester: if another address asks for the bootstrap data too, and nothing shows which is the server's, the attempt ends, and neither gets it
// any more.
func TestSecondRequester(t *testing.T) {
	g := NewWithT(t)
	l := startOff(t)
	urls := make(chan string, 1)
	s := l.server("h", func(_ context.Context, system *pxetest.System) {
		url, err := system.SeedURL()
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		urls <- url
	})
	claim := l.claim("m", kernel)
	url := <-urls
	response, err := http.Get(url + "user-data") //nolint:noctx // the lab's own; it comes from another address than the server's
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Body.Close()).To(Succeed())
	g.Expect(response.StatusCode).To(Equal(http.StatusForbidden))
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.GetReason(m, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonSecondRequester))
		g.Expect(m.Status.FailureReason).To(Equal(v1alpha1.ReasonSecondRequester))
		g.Expect(m.Spec.ProviderID).To(BeEmpty())
	})
	g.Expect(s.CommandNames()).To(Equal([]string{"Boot=PXE", "On"}), "a host whose bootstrap data was served is not started again")
}

// TestProblems: the host and the machine show why a boot cannot be served, and the boot continues automatically.
func TestProblems(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	reported := make(chan struct{}, 1)
	s := l.server("h", func(ctx context.Context, system *pxetest.System) {
		if system.Report(ctx) == nil {
			reported <- struct{}{}
		}
	})
	claim := l.claim("m", "another kernel")
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.GetReason(m, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonChecksumMismatch))
	})
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(s.Host), s.Host)).To(Succeed())
	g.Expect(conditions.GetReason(s.Host, v1alpha1.BootedCondition)).To(Equal(v1alpha1.ReasonChecksumMismatch))
	g.Expect(env.Client.Delete(t.Context(), claim.Bootstrap)).To(Succeed())
	sum := sha256.Sum256([]byte(kernel))
	controllerstest.Modify(t, env, claim.BareMetalMachine, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.Boot.Kernel.Checksum = "sha256:" + hex.EncodeToString(sum[:])
	})
	controllerstest.Wait(t, env, s.Host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetReason(h, v1alpha1.BootedCondition)).To(Equal(v1alpha1.ReasonBootstrapDataUnavailable))
		g.Expect(controllerstest.BootOf(t, env, h).Spec.DataServedTime).To(BeNil())
	})
	env.Create(t, &corev1.Secret{ObjectMeta: claimMeta(claim.Bootstrap), StringData: map[string]string{"value": "#cloud-config\n"}})
	g.Eventually(reported, "60s").Should(Receive(), "the next attempt gets it")
}

func claimMeta(s *corev1.Secret) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}
}
