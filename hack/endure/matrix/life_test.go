package matrix

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/apifault"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/pxetest"
)

// stepTimeout bounds each wait: the machine that runs this is loaded.
const stepTimeout = 4 * time.Minute

// bootTimeout is the deadline of a boot attempt. No case waits for it: time passes by the clock.
const bootTimeout = 10 * time.Minute

// machine is the name of the machine that claims the host.
const machine = "m"

// life is a host's life in one case: its own namespace, provider and server.
type life struct {
	*testing.T
	*WithT

	site     *rig.Site
	server   *rig.Server
	claim    *controllerstest.Claim
	provider *rig.Provider
	api      *apifault.Faults
	clock    *apifault.Clock

	persistence v1alpha1.BootPersistence
	profiles    bool          // the provider applies BareMetalProfiles
	settle      time.Duration // its PowerSettle

	// halts is how often the provider was halted: one that crashes cannot log out at the BMC, which ends its session some time.
	halts int
	// extraOns is how often more than usual the server may be switched on.
	extraOns int
	// wiped is true after a person wiped the disks of a server whose erasure failed.
	wiped      bool
	unrecorded bool // the record of a boot that erased on request was removed by force
	// doubled is another server that has something in common with the first.
	doubled *rig.Server
	// stops are called when the fault ends.
	stops []func()

	unlinked       atomic.Bool  // the agent has no link
	failedRequests atomic.Int32 // of the agent, without a link
	commandsSent   atomic.Int32 // to the BMC, without an answer yet; those that are held back count

	mu      sync.Mutex
	ons     []string // number and attempt of the boot for which the server was switched on, each time
	hold    string   // the point of a boot, or the command to the BMC, that is held back
	arrived chan struct{}
	open    chan struct{}
	quiet   []window // when the server must get no command
}

// window is a time in which a server runs its machine and no power change was requested.
type window struct{ from, to time.Time }

func newLife(t *testing.T, persistence v1alpha1.BootPersistence, s step, f fault) *life {
	t.Helper()
	l := &life{T: t, persistence: persistence, WithT: NewWithT(t), site: rig.NewSite(t, env), api: &apifault.Faults{}, clock: &apifault.Clock{}, profiles: s.is(configuring), settle: cmp.Or(f.settle, time.Second)}
	l.server = l.site.Server(t, "h", rig.ServerOptions{
		Sessions: true, Disk: s.is(withAgent...), Point: l.passAgent, Emulated: func(o *bmctest.Options) { o.Vendor = cmp.Or(f.vendor, o.Vendor) },
		Boot: func(ctx context.Context, firmware *pxetest.Firmware) {
			firmware.Stage = func(stage string) { l.pass(ctx, stage) }
		},
		Run: func(ctx context.Context, life *rig.Life) {
			l.pass(ctx, "report")
			for ctx.Err() == nil && life.Report(ctx) != nil { // as cloud-init's phone_home does, ten times
				select {
				case <-time.After(500 * time.Millisecond):
				case <-ctx.Done():
				}
			}
		},
	})
	if s.is(beforeOff) {
		l.server.Host.Spec.Power = v1alpha1.PowerOn
	}
	if policy := policies[s.name]; policy != "" {
		l.server.Host.Spec.Inspection, l.server.Host.Spec.CleaningPolicy = v1alpha1.InspectionAgent, policy
		l.server.AddDisk(t, rig.SecondDisk)
		if policy == wire.PolicyPurge {
			l.server.SetPurges()
		}
	}
	l.start()
	return l
}

// settings are the lifecycle's: durations of minutes in a rack are moments here, except those that the fake clock covers.
func (l *life) settings() lifecycle.Settings {
	s := controllerstest.Settings()
	s.PollInterval, s.ActiveInterval, s.PowerSettle = 1500*time.Millisecond, 200*time.Millisecond, l.settle
	s.BootTimeout, s.BootAttempts, s.CleaningTimeout = bootTimeout, 3, bootTimeout
	return s
}

// start starts a provider.
func (l *life) start() {
	l.provider = l.site.Provider(l.T, rig.Options{
		WrapTransport: l.api.Wrap, WrapBMC: func(next http.RoundTripper) http.RoundTripper { return &gated{l, next} }, Clock: l.clock, Settings: l.settings(), Log: debugLog(), Profiles: l.profiles,
	}).Start(l.T).Ready(l.T)
}

// gated holds commands to the BMC back.
type gated struct {
	life *life
	next http.RoundTripper
}

func (g *gated) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet && request.Body != nil {
		content, err := io.ReadAll(request.Body)
		_ = request.Body.Close()
		if err != nil {
			return nil, err
		}
		request = request.Clone(request.Context())
		request.Body = io.NopCloser(bytes.NewReader(content))
		g.life.commandsSent.Add(1)
		defer g.life.commandsSent.Add(-1)
		command := commandOf(request, content)
		if command == "reset On" {
			g.life.noteBoot(request.Context()) //nolint:contextcheck // it is the request's
		}
		g.life.pass(request.Context(), command) //nolint:contextcheck // it is the request's
	}
	return g.next.RoundTrip(request)
}

// noteBoot notes for which boot the server is switched on. Its record may be gone when the case is judged.
func (l *life) noteBoot(ctx context.Context) {
	boot, what := &v1alpha1.BareMetalBoot{}, "without a record"
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(l.server.Host), boot); err == nil {
		what = fmt.Sprintf("boot %d (%s), attempt %d", boot.Spec.Number, boot.Spec.Purpose, boot.Spec.Attempt)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ons = append(l.ons, what)
}

// furtherAttempts returns for how many attempts after the first of a boot the server was switched on.
func (l *life) furtherAttempts() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	further := map[string]bool{}
	for _, on := range l.ons {
		if strings.HasPrefix(on, "boot ") && !strings.HasSuffix(on, "attempt 1") {
			further[on] = true
		}
	}
	return len(further)
}

// countCommands returns how many commands the server got. One that was held back until a moment ago may still be on its way: it counts.
func (l *life) countCommands() int {
	l.Helper()
	l.Eventually(l.commandsSent.Load, stepTimeout).Should(BeZero())
	return len(l.server.Commands())
}

// commandOf names a change at a BMC: "reset On", "override Pxe", "other".
func commandOf(request *http.Request, content []byte) string {
	var body struct {
		ResetType string `json:"ResetType"`
		Boot      struct {
			Target string `json:"BootSourceOverrideTarget"`
		} `json:"Boot"`
	}
	_ = json.Unmarshal(content, &body) // what is no JSON is something else
	switch {
	case body.ResetType != "":
		return "reset " + body.ResetType
	case body.Boot.Target != "":
		return "override " + body.Boot.Target
	default:
		return "other " + request.URL.Path
	}
}

// holdAt blocks the next caller that reaches a point, and all later ones.
func (l *life) holdAt(point string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hold, l.arrived, l.open = point, make(chan struct{}), make(chan struct{})
}

// pass waits where the life is held.
func (l *life) pass(ctx context.Context, point string) {
	l.mu.Lock()
	if point != l.hold {
		l.mu.Unlock()
		return
	}
	open := l.open
	select {
	case <-l.arrived:
	default:
		close(l.arrived)
	}
	l.mu.Unlock()
	select {
	case <-open:
	case <-ctx.Done():
	}
}

// held waits until a caller has reached the point.
func (l *life) held() {
	l.Helper()
	l.Eventually(l.arrived, stepTimeout).Should(BeClosed(), func() string { return fmt.Sprintf("nobody came to %q: %s", l.hold, l.story()) })
}

// letGo opens the point permanently.
func (l *life) letGo() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hold != "" {
		close(l.open)
		l.hold = ""
	}
}

// host reads the host from the API server.
func (l *life) host() *v1alpha1.BareMetalHost {
	l.Helper()
	h := l.server.Host.DeepCopy()
	l.Eventually(func() error {
		return client.IgnoreNotFound(env.Client.Get(context.Background(), client.ObjectKeyFromObject(h), h))
	}, stepTimeout).Should(Succeed())
	return h
}

// record reads the host's boot from the API server; it is nil where there is none.
func (l *life) record() *v1alpha1.BareMetalBoot {
	l.Helper()
	return controllerstest.BootOf(l.T, env, l.server.Host)
}

// wait waits until the host is as it shall be.
func (l *life) wait(until func(g Gomega, h *v1alpha1.BareMetalHost)) {
	l.Helper()
	h := l.server.Host.DeepCopy()
	l.Eventually(func(g Gomega) {
		g.Expect(env.Client.Get(l.Context(), client.ObjectKeyFromObject(h), h)).To(Succeed())
		until(g, h)
	}, stepTimeout, 200*time.Millisecond).Should(Succeed(), func() string { return l.story() })
}

// story describes the history of the host, for a failed test.
func (l *life) story() string {
	var b strings.Builder
	h := l.server.Host.DeepCopy()
	if err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(h), h); err != nil {
		return err.Error()
	}
	fmt.Fprintf(&b, "%s, consumer %+v, boots %d, quarantine %+v, finalizers %v, deleted %v\n",
		h.Status.Phase, h.Spec.ConsumerRef, h.Spec.ProviderState.Boots, h.Spec.Quarantine, h.Finalizers, h.DeletionTimestamp)
	boot := &v1alpha1.BareMetalBoot{}
	if err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(h), boot); err != nil {
		fmt.Fprintln(&b, err)
	} else {
		fmt.Fprintf(&b, "boot %+v, status %+v, finalizers %v, deleted %v\n", boot.Spec, boot.Status, boot.Finalizers, boot.DeletionTimestamp)
	}
	for _, c := range h.Status.Conditions {
		fmt.Fprintf(&b, "%s=%s %s: %s\n", c.Type, c.Status, c.Reason, c.Message)
	}
	fmt.Fprintf(&b, "log of the agent:\n%s\n", l.server.AgentLog())
	fmt.Fprintf(&b, "last operation %+v\ncommands %v\nerrors of boots %v\nAPI %v", h.Status.LastOperation, l.server.Commands(), l.server.Errors(), l.api.Disturbed())
	return b.String()
}

func (l *life) modify(change func(h *v1alpha1.BareMetalHost)) {
	l.Helper()
	controllerstest.Modify(l.T, env, l.server.Host.DeepCopy(), change)
}

// modifyIfThere changes a host that a fault may have deleted.
func (l *life) modifyIfThere(change func(h *v1alpha1.BareMetalHost)) {
	l.Helper()
	h := l.server.Host.DeepCopy()
	l.Eventually(func() error {
		if err := env.Client.Get(l.Context(), client.ObjectKeyFromObject(h), h); err != nil {
			return client.IgnoreNotFound(err)
		}
		change(h)
		return client.IgnoreNotFound(env.Client.Update(l.Context(), h))
	}, stepTimeout).Should(Succeed())
}

func phase(p v1alpha1.HostPhase) func(Gomega, *v1alpha1.BareMetalHost) {
	return func(g Gomega, h *v1alpha1.BareMetalHost) { g.Expect(h.Status.Phase).To(Equal(p)) }
}

func (l *life) register() {
	l.Helper()
	l.server.Register(l.T)
}

func (l *life) makeAvailable() {
	l.Helper()
	l.register()
	l.wait(phase(v1alpha1.PhaseAvailable))
}

// claimIt makes the machine that claims the host, with the finalizers that Cluster API gives its objects. Its bootstrap data is there or not.
func (l *life) claimIt(persistence v1alpha1.BootPersistence, bootstrap bool) {
	l.Helper()
	l.claimWith(func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec.Boot.Kernel, c.BareMetalMachine.Spec.Boot.Persistence = l.site.Kernel(), persistence
		if !bootstrap {
			c.Machine.Spec.Bootstrap = clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{
				APIGroup: "bootstrap.cluster.x-k8s.io", Kind: "KubeadmConfig", Name: machine,
			}}
		}
	})
}

// claimImage is claimIt for a machine whose image an agent writes.
func (l *life) claimImage() {
	l.Helper()
	l.claimWith(l.site.WithImage(l.T))
}

func (l *life) claimWith(change func(*controllerstest.Claim)) {
	l.Helper()
	l.claim = env.NewClaim(l.T, l.site.Namespace, machine, func(c *controllerstest.Claim) {
		c.Machine.Finalizers, c.Cluster.Finalizers = []string{clusterv1.MachineFinalizer}, []string{clusterv1.ClusterFinalizer}
		change(c)
	})
}

func (l *life) giveBootstrapData() {
	l.Helper()
	if !l.exists(l.claim.Machine) {
		return // that is the fault
	}
	controllerstest.Modify(l.T, env, l.claim.Machine.DeepCopy(), func(m *clusterv1.Machine) { m.Spec.Bootstrap.DataSecretName = new(machine) })
}

// provisioned notes that the server runs its machine from now on.
func (l *life) provisioned() {
	l.Helper()
	l.wait(func(g Gomega, h *v1alpha1.BareMetalHost) {
		phase(v1alpha1.PhaseProvisioned)(g, h)
		g.Expect(conditions.IsTrue(h, v1alpha1.BootedCondition)).To(BeTrue())
	})
	l.quiet = append(l.quiet, window{from: time.Now()})
}

// powerWanted notes that the server may get commands from now on.
func (l *life) powerWanted() {
	if n := len(l.quiet); n > 0 && l.quiet[n-1].to.IsZero() {
		l.quiet[n-1].to = time.Now()
	}
}

// deleteMachine deletes the machine as Cluster API does: the Machine first, and what it owns when that is marked.
func (l *life) deleteMachine() {
	l.Helper()
	l.powerWanted()
	for _, o := range []client.Object{l.claim.Machine, l.claim.BareMetalMachine} {
		l.Expect(client.IgnoreNotFound(env.Client.Delete(l.Context(), o.DeepCopyObject().(client.Object)))).To(Succeed())
	}
}

// machineGone does what Cluster API does when the BareMetalMachine is gone.
func (l *life) machineGone() {
	l.Helper()
	if l.claim == nil {
		return
	}
	l.Eventually(func() error {
		m := l.claim.BareMetalMachine.DeepCopy()
		err := env.Client.Get(l.Context(), client.ObjectKeyFromObject(m), m)
		if err == nil {
			return fmt.Errorf("the BareMetalMachine is there: %v", conditions.GetMessage(m, v1alpha1.DeletingCondition))
		}
		return client.IgnoreNotFound(err)
	}, stepTimeout, 200*time.Millisecond).Should(Succeed(), func() string { return l.story() })
	for _, o := range []client.Object{l.claim.Machine, l.claim.Cluster} {
		o := o.DeepCopyObject().(client.Object)
		l.Expect(client.IgnoreNotFound(env.Client.Delete(l.Context(), o))).To(Succeed())
		l.dropFinalizers(o)
	}
}

// dropFinalizers removes Cluster API's finalizers. Only the provider removes its own.
func (l *life) dropFinalizers(o client.Object) {
	l.Helper()
	l.Eventually(func() error {
		if err := env.Client.Get(l.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return client.IgnoreNotFound(err)
		}
		o.SetFinalizers(nil)
		return client.IgnoreNotFound(env.Client.Update(l.Context(), o))
	}, stepTimeout).Should(Succeed())
}

// secretNamed is a Secret that says nothing.
func (l *life) secretNamed(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: l.site.Namespace, Name: name}}
}

// secret is the Secret of the BMC as it shall be.
func (l *life) secret() *corev1.Secret {
	s := l.server.Secret.DeepCopy()
	s.ResourceVersion, s.UID = "", ""
	s.StringData = map[string]string{"username": controllerstest.Username, "password": controllerstest.Password}
	s.Data = nil
	return s
}

// debugLog is what the provider logs to: nothing, unless MATRIX_LOG is set.
func debugLog() logr.Logger {
	if os.Getenv("MATRIX_LOG") == "" {
		return logr.Discard()
	}
	return funcr.New(func(prefix, args string) { fmt.Fprintln(os.Stderr, time.Now().Format(time.StampMilli), prefix, args) }, funcr.Options{Verbosity: 4})
}
