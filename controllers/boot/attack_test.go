package boot_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	"github.com/prometheus/common/expfmt"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// These are the attacks of docs/reference/threat-model.md, each against the whole provider over real HTTP.

// person is an attacker on the provisioning network, with an address of its own.
type person struct {
	t      *testing.T
	base   string
	client *http.Client
}

func (l *lab) person(address string) *person {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: netip.MustParseAddr(address).AsSlice()}, Timeout: 10 * time.Second}
	return &person{l.t, l.http, &http.Client{Timeout: time.Minute, Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}}
}

// ask returns an answer without its date. url is a path of the boot server, or a URL.
func (p *person) ask(method, url string, header http.Header) (status int, answer string) {
	p.t.Helper()
	g := NewWithT(p.t)
	if strings.HasPrefix(url, "/") {
		url = p.base + url
	}
	request, err := http.NewRequestWithContext(context.Background(), method, url, nil)
	g.Expect(err).NotTo(HaveOccurred())
	maps.Copy(request.Header, header)
	response, err := p.client.Do(request)
	g.Expect(err).NotTo(HaveOccurred())
	response.Header.Del("Date")
	var out bytes.Buffer
	g.Expect(response.Write(&out)).To(Succeed())
	g.Expect(response.Body.Close()).To(Succeed())
	return response.StatusCode, out.String()
}

func (p *person) get(url string) (status int, answer string) {
	p.t.Helper()
	return p.ask(http.MethodGet, url, nil)
}

// refused sends a request that must be refused, and returns the answer.
func (p *person) refused(url string) string {
	p.t.Helper()
	status, answer := p.get(url)
	NewWithT(p.t).Expect(status).To(Equal(http.StatusForbidden), "%s", url)
	return answer
}

// await receives from a channel, or notices that it was closed.
func await[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case got := <-from:
		return got
	case <-time.After(time.Minute):
		t.Fatal("nothing came in a minute")
		panic("not reached")
	}
}

// hold stops an emulated server until it may continue, or is powered off.
func hold(ctx context.Context, proceed <-chan struct{}) {
	select {
	case <-proceed:
	case <-ctx.Done():
	}
}

func scriptOf(s *controllerstest.Server) string {
	return "/ipxe/" + strings.ReplaceAll(s.Host.Spec.BootMACAddresses[0], ":", "-")
}

// tokenIn finds the token in a URL or path of a seed or report: /KIND/NAMESPACE/NAME/TOKEN/...
var tokenIn = regexp.MustCompile(`/(?:seed|report)/[^/\s]+/[^/\s]+/([A-Za-z0-9_-]{43})`)

func token(t *testing.T, text string) string {
	t.Helper()
	found := tokenIn.FindStringSubmatch(text)
	NewWithT(t).Expect(found).To(HaveLen(2), "no token in %q", text)
	return found[1]
}

// seized waits until the machine shows that a second client asked.
func seized(t *testing.T, claim *controllerstest.Claim) {
	t.Helper()
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.GetReason(m, v1alpha1.ReadyCondition)).To(Equal(v1alpha1.ReasonSecondRequester))
		g.Expect(m.Spec.ProviderID).To(BeEmpty())
	})
}

func provisioned(t *testing.T, claim *controllerstest.Claim) {
	t.Helper()
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(conditions.IsTrue(m, v1alpha1.ReadyCondition)).To(BeTrue())
	})
}

// TestAttackGuess: names, MAC addresses and tokens are guessed, from many addresses at once. Every answer is the same, whether the host
// exists, is free, or is booting at that moment; and the server that boots in the meantime is not disturbed.
func TestAttackGuess(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	on, proceed := make(chan struct{}), make(chan struct{})
	s := l.machine("h", func(ctx context.Context, firmware *pxetest.Firmware, _ func()) {
		close(on)
		hold(ctx, proceed)
		if system, err := firmware.Boot(ctx); err == nil {
			NewWithT(t).Expect(system.Report(ctx)).To(Succeed())
		}
	})
	claim := l.claim("m", kernel)
	await(t, on)
	idle := controllerstest.NewServer(t, l.namespace, "idle", bmctest.Options{PowerDelay: 20 * time.Millisecond})
	env.Create(t, idle.Secret, idle.Host)

	guess := strings.Repeat("A", 43)
	mallory := l.person("127.0.81.200")
	want := mallory.refused("/seed/" + l.namespace + "/nobody/" + guess + "/user-data")
	for _, path := range []string{
		"/seed/" + l.namespace + "/h/" + guess + "/user-data", "/seed/" + l.namespace + "/idle/" + guess + "/user-data", "/seed/" + l.namespace + "/h/a/b",
		"/seed/" + l.namespace + "/h/" + guess + "/", scriptOf(idle), "/ipxe/52-54-00-ff-ff-ff", "/ipxe/x", "/boot/52-54-00-ff-ff-ff/0", "/seed/x/y/z/w",
	} {
		g.Expect(mallory.refused(path)).To(Equal(want), path)
	}
	var gang sync.WaitGroup
	for i := range 20 {
		member := l.person(netip.AddrFrom4([4]byte{127, 0, 81, byte(201 + i)}).String())
		gang.Go(func() {
			for range 50 {
				status, _ := member.get("/seed/" + l.namespace + "/h/" + guess + "/user-data")
				g.Expect(status).To(Or(Equal(http.StatusForbidden), Equal(http.StatusServiceUnavailable)), "too many tokens of one host are not looked up")
			}
		})
	}
	close(proceed)
	gang.Wait()
	provisioned(t, claim)
	g.Expect(s.CommandNames()).To(Equal([]string{"Boot=PXE", "On"}))
}

// TestAttackAskSecond: a stranger asks for a server's script after the server, where another DHCP server gives the addresses. The stranger gets nothing, and
// the attempt ends before any client gets the bootstrap data.
func TestAttackAskSecond(t *testing.T) {
	g := NewWithT(t)
	l := startOff(t)
	failures := make(chan error, 1)
	var s *controllerstest.Server
	s = l.machine("h", func(ctx context.Context, firmware *pxetest.Firmware, _ func()) {
		firmware.Stage = func(stage string) { //nolint:contextcheck // the stranger is not the server
			if stage == "kernel" {
				l.person("127.0.81.200").refused(scriptOf(s))
			}
		}
		_, err := firmware.Boot(ctx)
		failures <- err
	})
	claim := l.claim("m", kernel)
	g.Eventually(failures, "1m").Should(Receive(MatchError(ContainSubstring("403"))))
	seized(t, claim)
	g.Expect(controllerstest.BootOf(t, env, s.Host).Spec.DataServedTime).To(BeNil())
}

// TestAttackAskFirst: a stranger asks for a server's script before the server does, and for the bootstrap data with it. Over plain HTTP, where another DHCP
// server gives the addresses, the stranger gets them. But the server asks too, which ends the attempt with an event.
func TestAttackAskFirst(t *testing.T) {
	for name, asksForData := range map[string]bool{"the script": false, "the script and the bootstrap data": true} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			l := startOff(t)
			on, proceed, failures := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			s := l.machine("h", func(ctx context.Context, firmware *pxetest.Firmware, _ func()) {
				close(on)
				hold(ctx, proceed)
				_, err := firmware.Boot(ctx)
				failures <- err
			})
			claim := l.claim("m", kernel)
			await(t, on)
			mallory := l.person("127.0.81.200")
			var script string
			g.Eventually(func() string {
				_, script = mallory.get(scriptOf(s))
				return script
			}, "30s").Should(ContainSubstring("/seed/"))
			seed := "/seed/" + l.namespace + "/h/" + token(t, script) + "/user-data"
			if asksForData {
				status, _ := mallory.get(seed)
				g.Expect(status).To(Equal(http.StatusOK), "this is what remains")
				// DHCP names no boot file any more: the server asks only if it knows the script's URL from an earlier answer.
				l.person("127.0.81.55").refused(scriptOf(s))
			}
			close(proceed)
			g.Eventually(failures, "1m").Should(Receive(HaveOccurred()))
			seized(t, claim)
			mallory.refused(seed)
			mallory.refused(scriptOf(s))
		})
	}
}

// askAgain asks for a script while the answer is to ask again, until the test ends, and counts the requests.
func (p *person) askAgain(url string, asked *atomic.Int32) {
	p.t.Helper()
	for p.t.Context().Err() == nil {
		status, answer := p.get(url)
		NewWithT(p.t).Expect(answer).NotTo(ContainSubstring("/seed/"))
		if status != http.StatusOK {
			return
		}
		NewWithT(p.t).Expect(answer).To(ContainSubstring("asking again in"))
		asked.Add(1)
		time.Sleep(50 * time.Millisecond) // as the script says
	}
}

// TestAttackPoll: a stranger who is not on the server's network, but knows its MAC address, polls for its script, from before it is powered
// on. It is asked to retry until the server has its address, and refused from then on; the server boots. The server's token does not help the stranger.
func TestAttackPoll(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	on, proceed, finish := make(chan struct{}), make(chan struct{}), make(chan struct{})
	systems := make(chan *pxetest.System, 1)
	s := l.machine("h", func(ctx context.Context, firmware *pxetest.Firmware, _ func()) {
		close(on)
		hold(ctx, proceed)
		system, err := firmware.Boot(ctx)
		if err != nil {
			t.Error(err)
			return
		}
		systems <- system
		hold(ctx, finish)
		NewWithT(t).Expect(system.Report(ctx)).To(Succeed())
	})
	claim := l.claim("m", kernel)
	mallory, refused := l.person("127.0.0.1"), make(chan struct{})
	var asked atomic.Int32
	go func() {
		defer close(refused)
		// Before the boot starts the stranger is refused, as for a server that does not exist.
		NewWithT(t).Eventually(func() int { status, _ := mallory.get(scriptOf(s)); return status }, "1m", "1s").Should(Equal(http.StatusOK))
		mallory.askAgain(scriptOf(s), &asked)
	}()
	await(t, on)
	g.Eventually(asked.Load, "30s").Should(BeNumerically(">", 5), "while the server is in its power-on self-test")
	record := controllerstest.BootOf(t, env, s.Host).Spec
	g.Expect(record.PoweredOnTime).NotTo(BeNil())
	g.Expect(record.ScriptAddress).To(BeEmpty())
	close(proceed)
	system := await(t, systems)
	await(t, refused)
	url, err := system.SeedURL()
	g.Expect(err).NotTo(HaveOccurred())
	for _, stranger := range []string{"127.0.0.2", "127.0.81.200"} {
		l.person(stranger).refused(scriptOf(s))
		l.person(stranger).refused(url + "user-data")
	}
	close(finish)
	provisioned(t, claim)
	record = controllerstest.BootOf(t, env, s.Host).Spec
	g.Expect(record.Failure).To(BeNil())
	g.Expect([]string{record.ScriptAddress, record.DataAddress}).To(HaveEach(system.Address.String()))
	g.Expect(record.Attempt).To(BeEquivalentTo(1))
}

// TestAttackStolenToken: an attacker who read a server's token on the network asks for its bootstrap data from another address, and claims the server's address
// in every header that exists. The attacker gets nothing. The attempt ends if nothing shows which of the two is the server.
func TestAttackStolenToken(t *testing.T) {
	l := startOff(t)
	systems := make(chan *pxetest.System, 1)
	l.server("h", func(_ context.Context, system *pxetest.System) { systems <- system })
	claim := l.claim("m", kernel)
	system := await(t, systems)
	url, err := system.SeedURL()
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	forged := http.Header{"X-Forwarded-For": {system.Address.String()}, "X-Real-Ip": {system.Address.String()}, "Forwarded": {"for=" + system.Address.String()}}
	status, _ := l.person("127.0.81.200").ask(http.MethodGet, url+"user-data", forged)
	g.Expect(status).To(Equal(http.StatusForbidden))
	seized(t, claim)
}

// TestAttackReportURL: the URL of the report is in files and logs of the booted system. Its token gives no access to bootstrap data, even
// from the server's own address, and the token of the bootstrap data is not valid for reports.
func TestAttackReportURL(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	systems := make(chan *pxetest.System, 1)
	s := l.server("h", func(_ context.Context, system *pxetest.System) { systems <- system })
	l.claim("m", kernel)
	system := await(t, systems)
	url, err := system.SeedURL()
	g.Expect(err).NotTo(HaveOccurred())
	report := token(t, string(system.VendorData))
	g.Expect(report).NotTo(Equal(token(t, url)))
	server := l.person(system.Address.String())
	server.refused("/seed/" + l.namespace + "/h/" + report + "/user-data")
	status, _ := server.ask(http.MethodPost, "/report/"+l.namespace+"/h/"+token(t, url)+"/up", nil)
	g.Expect(status).To(Equal(http.StatusForbidden))
	record := controllerstest.BootOf(t, env, s.Host).Spec
	g.Expect(record.ReportedTime).To(BeNil())
	g.Expect(record.Failure).To(BeNil())
}

// TestAttackReplay: tokens of a boot are void after it: once the system reported, and in the boot of the next
// machine of the same name on the same server.
func TestAttackReplay(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	systems, proceed := make(chan *pxetest.System, 4), make(chan struct{})
	l.server("h", func(ctx context.Context, system *pxetest.System) {
		systems <- system
		hold(ctx, proceed)
		NewWithT(t).Expect(system.Report(ctx)).To(Succeed())
		systems <- system
	})
	claim := l.claim("m", kernel)
	system := await(t, systems)
	url, err := system.SeedURL()
	g.Expect(err).NotTo(HaveOccurred())
	server := l.person(system.Address.String())
	status, _ := server.get(url + "user-data")
	g.Expect(status).To(Equal(http.StatusOK), "until it reported")
	proceed <- struct{}{}
	await(t, systems)
	server.refused(url + "user-data")

	provisioned(t, claim)
	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	env.Gone(t, claim.BareMetalMachine)
	server.refused(url + "user-data")
	again := claim.BareMetalMachine.DeepCopy()
	again.UID, again.ResourceVersion, again.Finalizers, again.Spec.ProviderID = "", "", nil, ""
	env.Create(t, again)
	system = await(t, systems)
	server.refused(url + "user-data")
	another, err := system.SeedURL()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(another).NotTo(Equal(url))
	status, _ = server.get(another + "user-data")
	g.Expect(status).To(Equal(http.StatusOK))
	close(proceed)
	await(t, systems)
}

// TestAttackOtherHost: a tenant's own server, with a token of its own, asks for the bootstrap data of another server while both boot.
func TestAttackOtherHost(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	systems, proceed := make(chan *pxetest.System, 2), make(chan struct{})
	boot := func(ctx context.Context, system *pxetest.System) {
		systems <- system
		hold(ctx, proceed)
		NewWithT(t).Expect(system.Report(ctx)).To(Succeed())
	}
	l.server("a", boot)
	l.server("b", boot)
	claims := []*controllerstest.Claim{l.claim("m-1", kernel), l.claim("m-2", kernel)}
	mine, yours := await(t, systems), await(t, systems)
	url, err := mine.SeedURL()
	g.Expect(err).NotTo(HaveOccurred())
	other, err := yours.SeedURL()
	g.Expect(err).NotTo(HaveOccurred())
	server := l.person(mine.Address.String())
	server.refused(strings.Replace(other, token(t, other), token(t, url), 1) + "user-data")
	g.Expect(mine.CommandLine + string(mine.VendorData) + string(mine.UserData)).NotTo(Or(ContainSubstring(token(t, other)), ContainSubstring(token(t, string(yours.VendorData)))))
	close(proceed)
	for _, claim := range claims {
		provisioned(t, claim)
	}
}

// TestAttackIdle: the script of a server that does not boot is refused in the same way as that of a server that does not exist. An installed server
// is sent to its disk, in a text that contains its MAC address alone.
func TestAttackIdle(t *testing.T) {
	g := NewWithT(t)
	l := start(t)
	s := l.server("h", func(ctx context.Context, system *pxetest.System) {
		NewWithT(t).Expect(system.Report(ctx)).To(Succeed())
	})
	mallory := l.person("127.0.81.200")
	g.Expect(mallory.refused(scriptOf(s))).To(Equal(mallory.refused("/ipxe/52-54-00-ff-ff-ff")))
	claim := l.claim("m", kernel)
	provisioned(t, claim)
	var script string
	g.Eventually(func() string {
		_, script = mallory.get(scriptOf(s))
		return script
	}, "30s").Should(ContainSubstring("booting from disk"))
	g.Expect(script).NotTo(Or(ContainSubstring("/seed/"), ContainSubstring(l.namespace), ContainSubstring("http://"), ContainSubstring("m\n")))
	mallory.refused("/boot/" + strings.TrimPrefix(scriptOf(s), "/ipxe/") + "/0")
}

// recorder keeps what is written to it.
type recorder struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (r *recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.Write(p)
}

func (r *recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text.String()
}

// TestNothingSecretAnywhere: while a server boots and a stranger asks too, neither the bootstrap data nor a token nor the key appears
// in a log, an event, a metric, an object other than the bootstrap Secret, a file, or an answer to the stranger.
func TestNothingSecretAnywhere(t *testing.T) {
	g := NewWithT(t)
	files := t.TempDir()
	t.Setenv("TMPDIR", files)
	logs := &recorder{}
	klog.LogToStderr(false)
	klog.SetOutput(logs)
	t.Cleanup(func() {
		klog.LogToStderr(true)
		klog.SetOutput(os.Stderr)
	})
	// 7 is the most that the manager accepts: from 8 on the Kubernetes client logs everything that it reads.
	l := startWith(t, funcr.New(func(prefix, args string) { _, _ = logs.Write([]byte(prefix + " " + args + "\n")) }, funcr.Options{Verbosity: 7}), bootconfig.Authoritative)

	const marker = "the marked password of the bootstrap data"
	claim := l.claim("m", kernel)
	controllerstest.Modify(t, env, claim.Bootstrap, func(s *corev1.Secret) { s.Data["value"] = []byte("#cloud-config\npassword: " + marker + "\n") })
	var s *controllerstest.Server
	systems, proceed := make(chan *pxetest.System, 4), make(chan struct{})
	answers := &recorder{}
	mallory := l.person("127.0.81.200")
	s = l.server("h", func(ctx context.Context, system *pxetest.System) {
		systems <- system
		hold(ctx, proceed)
		NewWithT(t).Expect(system.Report(ctx)).To(Succeed())
	})
	system := await(t, systems)
	url, err := system.SeedURL()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(system.UserData)).To(ContainSubstring(marker))
	guess := strings.Repeat("A", 43)
	for _, path := range []string{"/", "/seed/" + l.namespace + "/h/" + guess + "/user-data", "/boot/52-54-00-00-00-1a/0", "/report/" + l.namespace + "/h/" + guess + "/up"} {
		_, answer := mallory.get(path)
		_, _ = answers.Write([]byte(answer))
	}
	close(proceed)
	provisioned(t, claim)
	server := l.person(system.Address.String())
	server.refused(url + "user-data") // with a formerly valid token, so that its refusal is logged
	_, answer := mallory.get(scriptOf(s))
	_, _ = answers.Write([]byte(answer))

	var recorded eventsv1.EventList
	g.Eventually(func(g Gomega) {
		g.Expect(env.Client.List(t.Context(), &recorded, client.InNamespace(l.namespace))).To(Succeed())
		g.Expect(reasons(recorded)).To(ContainElements("BootstrapDataServed", "BootRequestRefused"))
	}, "30s").Should(Succeed())
	places := map[string]string{
		"logs": logs.String(), "events": dump(t, recorded), "metrics": exposition(t), "objects": objects(t, l.namespace), "files": content(t, filepath.Dir(files)), // the cache of boot files among them

		"answers to a stranger": answers.String(),
	}
	for place, has := range map[string]string{
		"logs": "Refused", "metrics": `capbm_http_requests_total{result="served",what="seed"}`, "objects": "dataAddress", "files": kernel, "answers to a stranger": "refused",
	} {
		g.Expect(places[place]).To(ContainSubstring(has), "%s are looked at", place)
	}
	for place, text := range places {
		for name, secret := range map[string]string{
			"the bootstrap data": marker, "the token of the seed": token(t, url), "the token of the report": token(t, string(system.VendorData)), "the key": labKey,
		} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s in %s: %q", name, place, text[max(0, at-300):at])
			}
		}
	}
}

func reasons(recorded eventsv1.EventList) []string {
	var out []string
	for i := range recorded.Items {
		out = append(out, recorded.Items[i].Reason)
	}
	return out
}

func dump(t *testing.T, object any) string {
	t.Helper()
	text, err := json.Marshal(object)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return string(text)
}

// objects returns all objects that take part in a boot, except Secrets.
func objects(t *testing.T, namespace string) string {
	t.Helper()
	var out strings.Builder
	for _, list := range []client.ObjectList{
		&v1alpha1.BareMetalHostList{}, &v1alpha1.BareMetalBootList{}, &v1alpha1.BareMetalMachineList{}, &v1alpha1.BareMetalClusterList{}, &clusterv1.MachineList{}, &clusterv1.ClusterList{}, &corev1.ConfigMapList{},
	} {
		NewWithT(t).Expect(env.Client.List(t.Context(), list, client.InNamespace(namespace))).To(Succeed())
		out.WriteString(dump(t, list))
	}
	return out.String()
}

// exposition returns the content of the manager's metrics endpoint.
func exposition(t *testing.T) string {
	t.Helper()
	g := NewWithT(t)
	families, err := metrics.Registry.Gather()
	g.Expect(err).NotTo(HaveOccurred())
	var out strings.Builder
	for _, family := range families {
		_, err := expfmt.MetricFamilyToText(&out, family)
		g.Expect(err).NotTo(HaveOccurred())
	}
	return out.String()
}

// content returns the names and the content of all files below a folder.
func content(t *testing.T, folder string) string {
	t.Helper()
	var out strings.Builder
	NewWithT(t).Expect(filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		out.WriteString(name + "\n")
		text, err := os.ReadFile(name)
		out.Write(text)
		return err
	})).To(Succeed())
	return out.String()
}

// attackRows returns the rows of the table of attacks of a page, and the attacks themselves, which are the first cells.
func attackRows(t *testing.T, file string) (rows, attacks []string) {
	t.Helper()
	g := NewWithT(t)
	page, err := os.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	_, table, found := strings.Cut(string(page), "| attack |")
	g.Expect(found).To(BeTrue())
	table, _, _ = strings.Cut(strings.TrimSpace(table), "\n\n")
	rows = strings.Split(table, "\n")[2:]
	for _, row := range rows {
		attack, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " | ")
		attacks = append(attacks, attack)
	}
	return rows, attacks
}

// TestThreatModel: every attack of the threat model has its tests, and every attack here is in the table.
func TestThreatModel(t *testing.T) {
	g := NewWithT(t)
	_, model := attackRows(t, "../../docs/reference/threat-model.md")
	rows, attacks := attackRows(t, "../../docs/development/attacks.md")
	g.Expect(attacks).To(Equal(model), "both pages list the same attacks")
	tests := content(t, ".") + content(t, "../host") + content(t, "../bootstrap") + content(t, "..") + content(t, "../../bmc") + content(t, "../../pxe") + content(t, "../../cmd/manager") +
		content(t, "../../cmd/agent/internal/bootclient") + content(t, "../../cmd/agent/internal/erase") + content(t, "../../inventory/outbound") + content(t, "../gateway") + content(t, "../node") + content(t, "../../inventory/usertemplate")
	g.Expect(len(rows)).To(BeNumerically(">", 5))
	named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	for _, row := range rows {
		names := named.FindAllStringSubmatch(row, -1)
		g.Expect(names).NotTo(BeEmpty(), "which test shows it? %s", row)
		for _, name := range names {
			g.Expect(tests).To(ContainSubstring("func "+name[1]+"(t *testing.T)"), "there is no such test")
		}
	}
	own, err := os.ReadFile("attack_test.go")
	g.Expect(err).NotTo(HaveOccurred())
	for _, attack := range regexp.MustCompile(`func (TestAttack[A-Za-z]+)`).FindAllStringSubmatch(string(own), -1) {
		g.Expect(strings.Join(rows, "\n")).To(ContainSubstring("`"+attack[1]+"`"), "it is in no row")
	}
}
