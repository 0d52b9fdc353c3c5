package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/provider"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// Secrets that must not leak. They are planted at their usual places.
const (
	plantedPassword  = "planted-BMC-password-nobody-has"
	plantedBootstrap = "planted-password-of-the-bootstrap-data"
	plantedQuery     = "planted-token-of-the-kernels-URL"
)

// life is a manager process that manages the life of a host with failures, and its outputs.
type life struct {
	t         *testing.T
	process   *process
	metrics   string // their URL
	namespace string
	server    *controllerstest.Server
	claim     *controllerstest.Claim
	secrets   map[string]string // what must not leak, by what it is
}

// startLife starts a manager with all its components as a process with a verbose log.
func startLife(t *testing.T) (l *life, firmware *pxetest.Firmware) {
	t.Helper()
	g := NewWithT(t)
	l = &life{t: t, metrics: freeTCP(t), secrets: map[string]string{
		"the wrong password of the BMC": plantedPassword, "the bootstrap data": plantedBootstrap, "the query of the kernel's URL": plantedQuery,
		"the login of the BMC":       base64.StdEncoding.EncodeToString([]byte(controllerstest.Username + ":" + controllerstest.Password)),
		"the wrong login of the BMC": base64.StdEncoding.EncodeToString([]byte(controllerstest.Username + ":" + plantedPassword)),
	}}
	kubeconfig := admin(t)
	l.namespace = env.Namespace(t)
	installed := env.InstallWebhooks(t, controllerstest.InfrastructureWebhooks())
	config, firmware := bootConfig(t)
	l.process = startManager(t, kubeconfig, "--components=controllers,boot", "--namespace="+l.namespace, "--boot-config="+config,
		"--diagnostics-address="+l.metrics, "--insecure-diagnostics", "--logging-format=json", "-v=5", "--boot-timeout=2m",
		"--power-active-interval=100ms", "--power-poll-interval=500ms", "--shutdown-timeout=1s",
		fmt.Sprintf("--webhook-port=%d", installed.LocalServingPort), "--webhook-host=127.0.0.1", "--webhook-cert-dir="+installed.LocalServingCertDir)

	var boot corev1.Secret
	g.Expect(env.Client.Get(t.Context(), client.ObjectKey{Namespace: "capbm-system", Name: provider.BootKeySecret}, &boot)).To(Succeed())
	key := boot.Data["key"]
	l.secrets["the key of the tokens"] = string(key)
	l.secrets["the key of the tokens, base64"] = base64.StdEncoding.EncodeToString(key)
	l.secrets["the key of the tokens, hexadecimal"] = hex.EncodeToString(key)
	tls, err := os.ReadFile(filepath.Join(installed.LocalServingCertDir, "tls.key"))
	g.Expect(err).NotTo(HaveOccurred())
	l.secrets["the key of the webhooks' certificate"] = strings.Split(string(tls), "\n")[1]
	content, err := os.ReadFile(kubeconfig)
	g.Expect(err).NotTo(HaveOccurred())
	l.secrets["the key of the kubeconfig"] = regexp.MustCompile(`client-key-data: (\S{60})`).FindStringSubmatch(string(content))[1]
	return l, firmware
}

// live takes a host through its life: registered with a wrong password, corrected, claimed, booted from a kernel that cannot be fetched at first,
// provisioned and released. During the boot a stranger asks for the bootstrap data.
func live(t *testing.T) *life {
	t.Helper()
	g := NewWithT(t)
	l, firmware := startLife(t)
	var broken atomic.Bool
	broken.Store(true)
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if broken.Load() {
			http.Error(w, "not now", http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte("a kernel"))
	}))
	t.Cleanup(origin.Close)
	systems := make(chan *pxetest.System, 8)
	l.server = controllerstest.NewServer(t, l.namespace, "h", bmctest.Options{
		PowerDelay: 20 * time.Millisecond,
		Run: func(ctx context.Context, _ bmc.BootTarget, booted func()) {
			if system := bootUntil(ctx, firmware); system != nil {
				booted()
				systems <- system
			}
			<-ctx.Done()
		},
	})
	mac, err := net.ParseMAC(l.server.Host.Spec.BootMACAddresses[0])
	g.Expect(err).NotTo(HaveOccurred())
	firmware.MAC = mac
	l.server.Secret.StringData["password"] = plantedPassword
	env.Create(t, l.server.Secret, l.server.Host)
	controllerstest.Wait(t, env, l.server.Host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetReason(h, v1alpha1.BMCReadyCondition)).To(Equal(v1alpha1.ReasonCredentialsRefused))
	})
	controllerstest.Modify(t, env, l.server.Secret, func(s *corev1.Secret) { s.StringData = map[string]string{"password": controllerstest.Password} })
	controllerstest.Wait(t, env, l.server.Host, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseAvailable)) })

	sum := sha256.Sum256([]byte("a kernel"))
	l.claim = env.NewClaim(t, l.namespace, "m", func(c *controllerstest.Claim) {
		c.Bootstrap.StringData["value"] = "#cloud-config\npassword: " + plantedBootstrap + "\n"
		c.BareMetalMachine.Spec.Boot.Kernel = v1alpha1.Artifact{URL: origin.URL + "/kernel?token=" + plantedQuery, Checksum: "sha256:" + hex.EncodeToString(sum[:])}
	})
	controllerstest.Wait(t, env, l.server.Host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		g.Expect(conditions.GetReason(h, v1alpha1.BootProgressCondition)).To(Equal(v1alpha1.ReasonArtifactUnavailable))
	})
	broken.Store(false)
	var system *pxetest.System
	g.Eventually(systems, 90*time.Second).Should(Receive(&system))
	url, err := system.SeedURL()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(system.UserData)).To(ContainSubstring(plantedBootstrap), "it is given to the server")
	l.steal(url)
	g.Expect(system.Report(t.Context())).To(Succeed())
	controllerstest.Wait(t, env, l.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue())
	})
	l.ask(url + "user-data") // with a token that was valid
	tokens := regexp.MustCompile(`/(?:seed|report)/[^/\s]+/[^/\s]+/([A-Za-z0-9_-]{43})`)
	l.secrets["the token of the bootstrap data"] = tokens.FindStringSubmatch(url)[1]
	l.secrets["the token of the report"] = tokens.FindStringSubmatch(string(system.VendorData))[1]
	g.Expect(env.Client.Delete(t.Context(), l.claim.BareMetalMachine)).To(Succeed())
	env.Gone(t, l.claim.BareMetalMachine)
	controllerstest.Wait(t, env, l.server.Host, func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Phase).To(Equal(v1alpha1.PhaseAvailable)) })
	return l
}

// bootUntil retries firmware until it boots, as a server does whose boot fails. It returns nil when the power is cut.
func bootUntil(ctx context.Context, firmware *pxetest.Firmware) *pxetest.System {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	for {
		if system, err := firmware.Boot(ctx); err == nil {
			return system
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// steal sends requests with wrong tokens.
func (l *life) steal(url string) {
	base := regexp.MustCompile(`^http://[^/]+`).FindString(url)
	for _, token := range []string{strings.Repeat("A", 43), "short"} {
		l.ask(base + "/seed/" + l.namespace + "/h/" + token + "/user-data")
	}
}

// ask sends a request as a stranger, which must be refused.
func (l *life) ask(url string) {
	l.t.Helper()
	g := NewWithT(l.t)
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: netip.MustParseAddr("127.0.82.200").AsSlice()}, Timeout: 10 * time.Second}
	asker := &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	response, err := asker.Get(url) //nolint:noctx // it has a timeout
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(response.Body.Close()).To(Succeed())
	g.Expect(response.StatusCode).To(Equal(http.StatusForbidden))
}

// scrape returns the metrics as Prometheus scrapes them.
func (l *life) scrape() string {
	l.t.Helper()
	g := NewWithT(l.t)
	response, err := http.Get("http://" + l.metrics + "/metrics") //nolint:noctx // returns at once
	g.Expect(err).NotTo(HaveOccurred())
	defer func() { _ = response.Body.Close() }()
	g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	var out bytes.Buffer
	_, err = io.Copy(&out, response.Body)
	g.Expect(err).NotTo(HaveOccurred())
	return out.String()
}

// log returns what the process has logged so far.
func (l *life) log() string {
	l.t.Helper()
	content, err := os.ReadFile(l.process.log)
	NewWithT(l.t).Expect(err).NotTo(HaveOccurred())
	return string(content)
}

// recorded returns all events of the life, and the objects that users read, as JSON.
func (l *life) recorded() (events, objects string) {
	l.t.Helper()
	g := NewWithT(l.t)
	text := func(list client.ObjectList) string {
		g.Expect(env.Client.List(l.t.Context(), list, client.InNamespace(l.namespace))).To(Succeed())
		out, err := json.Marshal(list)
		g.Expect(err).NotTo(HaveOccurred())
		return string(out)
	}
	return text(&eventsv1.EventList{}), text(&v1alpha1.BareMetalHostList{}) + text(&v1alpha1.BareMetalBootList{})
}
