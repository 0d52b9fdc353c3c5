package boot_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// TestTokensDie: tokens are void once the boot is over, for any reason, and a report has no effect then.
func TestTokensDie(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		change       func(*world) error
		seed, report bool // is the token still valid?
	}{
		"nothing happened": {onHost(func(*v1alpha1.BareMetalHost) {}), true, true},
		"the Cluster is paused: a boot in flight is finished": {func(w *world) error {
			return change(w, "c", &clusterv1.Cluster{}, func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) })
		}, true, true},
		"in maintenance; that the system is up is a fact still": {
			onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "disk"} }), false, true,
		},
		"the Cluster cannot be found":    {deleted("c", &clusterv1.Cluster{}), false, true},
		"reported in":                    {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ReportedTime = &now }), false, true},
		"provisioned":                    {onMachine(func(m *v1alpha1.BareMetalMachine) { m.Spec.ProviderID = "baremetal://dc/h/m" }), false, true},
		"something else runs the server": {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }), false, true},
		"the deadline has passed": {
			// The token is that of the earlier start, so that not only the token makes the difference.
			afterDeadline, false, false,
		},
		"the attempt has failed": {onBoot(func(b *v1alpha1.BareMetalBootSpec) {
			b.Failure = &v1alpha1.BootFailure{Reason: "Any", Message: "any"}
		}), false, false},
		"the next boot":                       {nextBoot, false, false},
		"the next boot, which is not counted": {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Number++ }), false, false},
		"the boot is older than the host":     {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots++ }), false, false},
		"no boot was recorded":                {onBoot(func(b *v1alpha1.BareMetalBootSpec) { *b = v1alpha1.BareMetalBootSpec{} }), false, false},
		"the record is gone":                  {deleted("h", &v1alpha1.BareMetalBoot{}), false, false},
		"the boot is void":                    {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime = &now }), false, false},
		"the boot is of another claim":        {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ClaimID = "other" }), false, false},
		"the claim has ended":                 {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }), false, false},
		"the machine has it by another claim": {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.ClaimID = "other" }), false, false},
		"another machine has it":              {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Name = "other" }), false, false},
		"another machine has it, by hand": {func(w *world) error {
			var other v1alpha1.BareMetalMachine
			if err := w.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "m"}, &other); err != nil {
				return err
			}
			other.Name, other.UID, other.ResourceVersion = "other", "other-uid", ""
			return errors.Join(w.Create(ctx, &other), w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Name = "other" }))
		}, false, false},
		"the machine goes":    {deleted("m", &v1alpha1.BareMetalMachine{}), false, false},
		"the machine is gone": {deletedAtOnce, false, false},
		"the host is gone": {func(w *world) error {
			return errors.Join(onHost(func(h *v1alpha1.BareMetalHost) { h.Finalizers = nil })(w), deleted("h", &v1alpha1.BareMetalHost{})(w))
		}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			token, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
			data, err := w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(test.change(w)).To(Succeed())

			for _, file := range []string{seed.UserData, seed.MetaData, seed.VendorData} {
				again, err := w.BootstrapData(ctx, "dc/h", token, file, honest)
				if test.seed {
					g.Expect(err).NotTo(HaveOccurred())
					g.Expect(again.InstanceID).To(Equal(data.InstanceID))
					g.Expect(again.UserData != nil).To(Equal(file == seed.UserData))
				} else {
					g.Expect(err).To(MatchError(pxe.ErrRefused), file)
					g.Expect(again).To(BeZero())
				}
			}
			for _, outcome := range []pxe.Outcome{pxe.Up, pxe.Succeeded, pxe.Failed, pxe.Up} {
				err := w.Report(ctx, "dc/h", reportToken(data), outcome, honest)
				if test.report {
					g.Expect(err).NotTo(HaveOccurred(), "%s", outcome)
				} else {
					g.Expect(err).To(MatchError(pxe.ErrRefused), "%s", outcome)
				}
			}
			g.Expect(w.boot().Spec.ReportedTime != nil).To(Equal(test.report))
		})
	}
}

// TestScriptDies: the client that got the script gets it again until the bootstrap data was served, and only while the host boots.
func TestScriptDies(t *testing.T) {
	now := metav1.Now()
	for name, test := range map[string]struct {
		change func(*world) error
		want   error
	}{
		"nothing happened":        {onHost(func(*v1alpha1.BareMetalHost) {}), nil},
		"another MAC address":     {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.BootMACAddresses = []string{"52:54:00:00:00:0a"} }), pxe.ErrRefused},
		"the data was served":     {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.DataServedTime = &now }), pxe.ErrRefused},
		"not powered on yet":      {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOnTime = nil }), pxe.ErrNotYet},
		"not counted yet":         {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Number++ }), pxe.ErrRefused},
		"older than the host":     {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots++ }), pxe.ErrRefused},
		"void":                    {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime = &now }), pxe.ErrRefused},
		"of another claim":        {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ClaimID = "other" }), pxe.ErrRefused},
		"another machine has it":  {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.Name = "other" }), pxe.ErrRefused},
		"the deadline has passed": {afterDeadline, pxe.ErrRefused},
		"the machine goes":        {deleted("m", &v1alpha1.BareMetalMachine{}), pxe.ErrRefused},
		"the claim has ended":     {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }), pxe.ErrRefused},
		"in maintenance":          {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "disk"} }), pxe.ErrRefused},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			token, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(test.change(w)).To(Succeed())
			again, err := w.script(honest)
			if test.want == nil {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(again).To(Equal(token))
			} else {
				g.Expect(err).To(MatchError(test.want))
				g.Expect(again).To(BeEmpty())
			}
			g.Expect(w.boot().Spec.Failure).To(BeNil(), "to ask again is no attack")
		})
	}
}

// TestReportFromElsewhere: a system that configured a static address reports from it, and the host shows that address.
func TestReportFromElsewhere(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	data, err := w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	static := netip.MustParseAddr("2001:db8::9")
	g.Expect(w.Report(ctx, "dc/h", reportToken(data), pxe.Up, static)).To(Succeed())
	g.Expect(w.Report(ctx, "dc/h", reportToken(data), pxe.Up, stranger)).To(Succeed(), "the first report counts")
	g.Expect(w.boot().Spec.ReportAddress).To(Equal("2001:db8::9"))
	g.Expect(w.boot().Spec.DataAddress).To(Equal("192.0.2.9"))
}

// TestReportAfterNode: the Node of a server may appear before its system reports. The address is that of the report nevertheless, and the result
// of the bootstrap is accepted after the deadline of the boot as well.
func TestReportAfterNode(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	data, err := w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	appeared := metav1.Now()
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ReportedTime = &appeared })).To(Succeed())
	g.Expect(w.Report(ctx, "dc/h", reportToken(data), pxe.Up, netip.MustParseAddr("2001:db8::9"))).To(Succeed())
	g.Expect(w.boot().Spec.ReportAddress).To(Equal("2001:db8::9"))

	g.Expect(afterDeadline(w)).To(Succeed())
	g.Expect(w.Report(ctx, "dc/h", reportToken(data), pxe.Failed, honest)).To(Succeed(), "a bootstrap may end long after the system is up")
}

// TestReportBeforeSeed: no client can have a report's token before the seed was served.
func TestReportBeforeSeed(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	data, err := w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.DataServedTime = nil })).To(Succeed())
	g.Expect(w.Report(ctx, "dc/h", reportToken(data), pxe.Up, honest)).To(MatchError(pxe.ErrRefused))
}

// TestGuessesCostLittle: wrong tokens cause a limited number of reads from the API server per second, for all clients together. Existing hosts cost no
// more reads than others, and the client with the token still gets the seed.
func TestGuessesCostLittle(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	cost := func(host, token string) int64 {
		before := w.reads.Load()
		_, err := w.BootstrapData(ctx, host, token, seed.UserData, stranger)
		g.Expect(err).To(Or(MatchError(pxe.ErrRefused), MatchError(pxe.ErrNotYet)))
		return w.reads.Load() - before
	}
	start := time.Now()
	g.Expect(cost("dc/h", "guess")).To(Equal(cost("dc/unknown", "guess")))
	for i := range 2000 {
		cost(fmt.Sprintf("dc/h%d", i), "guess")
	}
	// Each of 200 at once, and of 100 for each second, reads the boot; the script before read some objects.
	g.Expect(w.reads.Load()).To(BeNumerically("<", 250+100*(time.Since(start).Seconds()+1)))
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
}

// TestLookupsOfAHost: guesses with the name of one host use up nothing of another one, whose token the cache does not know yet. Above the rate a token is not refused
// for ever: it may be the right one.
func TestLookupsOfAHost(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	guess := func(host string) error {
		return w.CheckToken(ctx, pxe.AgentRequest{Version: agent.Version, Host: host, Token: "guess", From: stranger})
	}
	refused := 0
	for range 100 {
		err := guess("dc/other")
		if !errors.Is(err, pxe.ErrNotYet) {
			g.Expect(err).To(MatchError(pxe.ErrRefused))
			refused++
		}
	}
	g.Expect(refused).To(BeNumerically("~", 42, 3), "forty at once, and one a second")
	g.Expect(guess("dc/h")).To(MatchError(pxe.ErrRefused), "it was looked for")
}

// TestTokenBudget: a client with the token of a host cannot overload the API server, and other hosts are still answered. Requests above the budget get an
// error after which the operating system asks again, and are not refused.
func TestTokenBudget(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	before := w.reads.Load()
	for range 2000 {
		if _, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest); err != nil {
			break
		}
	}
	g.Expect(err).To(And(MatchError(ContainSubstring("asks too often")), Not(MatchError(pxe.ErrRefused))))
	g.Expect(w.reads.Load() - before).To(BeNumerically("<", 200))
	g.Expect(w.boot().Spec.Failure).To(BeNil())
	_, err = w.BootstrapData(ctx, "dc/other", token, seed.UserData, honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused), "it was looked for")
}

// TestScriptBudget: a client that has the script, such as the kernel of a tenant, cannot overload the API server by it. A stranger uses up nothing of its budget.
func TestScriptBudget(t *testing.T) {
	g := NewWithT(t)
	w := newWorld(leasing)
	w.lease(t, leasing, honest)
	w.dhcp(honest)
	for range 100 {
		_, _ = w.script(stranger)
	}
	_, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	before := w.reads.Load()
	for range 2000 {
		if _, err = w.script(honest); err != nil {
			break
		}
	}
	g.Expect(err).To(And(MatchError(ContainSubstring("was requested too often")), MatchError(pxe.ErrNotYet)))
	g.Expect(w.reads.Load() - before).To(BeNumerically("<", 200))
	g.Expect(w.boot().Spec.Failure).To(BeNil())
}

// TestDataComesLater: while there is no bootstrap data nothing is bound, and a client with the token is asked to retry.
func TestDataComesLater(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(deleted("data", &corev1.Secret{})(w)).To(Succeed())
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).To(And(HaveOccurred(), Not(MatchError(pxe.ErrRefused))))
	g.Expect(w.boot().Spec.DataAddress).To(BeEmpty())
}

// TestEvents: there is one event with the client that got the bootstrap data, and one with the first refusal; never a token.
func TestEvents(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	for range 3 {
		_, err = w.BootstrapData(ctx, "dc/h", "guess", seed.UserData, stranger)
		g.Expect(err).To(HaveOccurred())
		_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
		g.Expect(err).NotTo(HaveOccurred())
	}
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, stranger)
	g.Expect(err).To(HaveOccurred())
	events := func() (events []string) {
		for len(w.events) > 0 {
			if event := <-w.events; strings.Contains(event, " BootRequestRefused ") || strings.Contains(event, " BootstrapDataServed ") {
				events = append(events, event)
			}
		}
		return events
	}
	g.Expect(events()).To(Equal([]string{
		"Warning BootRequestRefused Refused a request from 192.0.2.66 in boot attempt 1: refused: the token is not that of the current boot of dc/h",
		"Normal BootstrapDataServed Served the bootstrap data of boot attempt 1 to 192.0.2.9",
	}))

	g.Expect(nextBoot(w)).To(Succeed())
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).To(HaveOccurred())
	g.Expect(events()).To(ConsistOf(ContainSubstring("boot attempt 2")), "each attempt has its first")

	g.Expect(nextBoot(w)).To(Succeed())
	_, err = w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.script(stranger)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(events()).To(ConsistOf(ContainSubstring("Refused a request from 192.0.2.66 in boot attempt 3")), "and so does a second client that asks for the script")
}
