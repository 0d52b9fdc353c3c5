package boot_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
)

// mediaWorld is an agent world whose boot uses virtual media. Its BMC has an address that no network has.
func mediaWorld(t *testing.T, networks ...bootconfig.Network) *world {
	t.Helper()
	w, _ := newAgentWorld(t, networks...)
	NewWithT(t).Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = v1alpha1.MethodVirtualMedia })).To(Succeed())
	return w
}

// mediaRequest is the request of a BMC that got the URL of the current boot.
func (w *world) mediaRequest() pxe.MediaRequest {
	return pxe.MediaRequest{Host: "dc/h", Token: boot.MediaToken([]byte("key"), w.boot()), From: stranger, Client: "curl/8"}
}

// TestMedia: the medium of an attempt has the token of the agent, and the agent gets its plan with it.
func TestMedia(t *testing.T) {
	g := NewWithT(t)
	w := mediaWorld(t)
	w.updateHost(g, func(h *v1alpha1.BareMetalHost) {
		h.Spec.Network = &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{Name: "lan0", LinkSettings: v1alpha1.LinkSettings{Addresses: []v1alpha1.IPPrefix{"192.0.2.9/24"}}}}}
	})
	medium, err := w.Media(ctx, w.mediaRequest())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(medium.Agent).To(BeTrue())
	g.Expect(medium.Architecture).To(Equal("amd64"))
	g.Expect(medium.MAC).To(Equal(booting))
	g.Expect(medium.Time.Equal(w.boot().Spec.StartTime.Time)).To(BeTrue())
	g.Expect(medium.Addresses).To(ConsistOf(honest))
	script, err := w.MediaScript(ctx, w.mediaRequest())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(script.Title).To(Equal("dc/h for m, boot attempt 1"))
	g.Expect(script.Agent.Network.Interfaces).To(HaveLen(1))
	g.Expect(w.boot().Spec.ScriptAddress).To(BeEmpty(), "the BMC's address binds nothing")
	plan, err := w.Plan(ctx, pxe.AgentRequest{Version: agent.Version, Host: script.Agent.Host, Token: script.Agent.Token, From: honest, Key: ownKey, TLS: true}, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(plan.Provision).NotTo(BeNil())
}

// TestMediaOfBootSource: a machine with spec.boot gets its own kernel, and the token of the seed.
func TestMediaOfBootSource(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = v1alpha1.MethodUefiHTTP })).To(Succeed())
	w.updateMachine(g, func(m *v1alpha1.BareMetalMachine) {
		m.Spec.Boot.Kernel = v1alpha1.Artifact{URL: "http://k", Checksum: "sha256:k"}
		m.Spec.Boot.CommandLine = "quiet"
	})
	medium, err := w.Media(ctx, w.mediaRequest())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(medium.Agent).To(BeFalse())
	g.Expect(medium.Files).To(HaveLen(1))
	script, err := w.MediaScript(ctx, w.mediaRequest())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(script.Agent).To(BeNil())
	g.Expect(script.CommandLine).To(Equal("quiet"))
	data, err := w.BootstrapData(ctx, "dc/h", script.SeedPath[len("/seed/dc/h/"):], "user-data", honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data.UserData)).To(Equal("the bootstrap data"))
	_, err = w.Media(ctx, w.mediaRequest())
	g.Expect(err).To(MatchError(pxe.ErrRefused), "the system has its bootstrap data")

	g.Expect(nextBoot(w)).To(Succeed())
	g.Expect(deleted("data", &corev1.Secret{})(w)).To(Succeed())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = v1alpha1.MethodUefiHTTP })).To(Succeed())
	_, err = w.Media(ctx, w.mediaRequest())
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.MediaScript(ctx, w.mediaRequest())
	g.Expect(err).To(And(HaveOccurred(), Not(MatchError(pxe.ErrRefused))), "a boot that cannot be finished is not started")
}

// deletedHost deletes the host and its finalizer.
func deletedHost(w *world) error {
	return errors.Join(w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Finalizers = nil }), deleted("h", &v1alpha1.BareMetalHost{})(w))
}

// TestMediaDies: the URL of an attempt is valid from the record of the attempt until its end, and for no other attempt.
func TestMediaDies(t *testing.T) {
	now := new(metav1.Now())
	for name, c := range map[string]struct {
		change func(*world) error
		served bool
	}{
		"recorded, the server is not off": {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOffTime, b.PoweredOnTime = nil, nil }), true},
		"not powered on yet":              {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOnTime = nil }), true},
		"voided":                          {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime = now }), false},
		"failed":                          {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Failure = &v1alpha1.BootFailure{Reason: "X", Message: "x"} }), false},
		"committed, the agent may look":   {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.DataServedTime, b.CommitAllowedTime = now, now }), true},
		"agent done": {onBoot(func(b *v1alpha1.BareMetalBootSpec) {
			b.DataServedTime, b.CommitAllowedTime, b.AgentDoneTime = now, now, now
		}), false},
		"reported": {onBoot(func(b *v1alpha1.BareMetalBootSpec) {
			b.DataServedTime, b.CommitAllowedTime, b.ReportedTime = now, now, now
		}), false},
		"agent refused": {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.AgentRefusedTime = now }), false},
		"deadline": {onBoot(func(b *v1alpha1.BareMetalBootSpec) {
			past := metav1.NewTime(time.Now().Add(-24 * time.Hour))
			b.StartTime, b.PoweredOffTime, b.PoweredOnTime = past, &past, &past
		}), false},
		"PXE":          {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = v1alpha1.MethodPXE }), false},
		"no method":    {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = "" }), false},
		"UEFI HTTP":    {onBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = v1alpha1.MethodUefiHTTP }), true},
		"released":     {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }), false},
		"maintenance":  {onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{} }), false},
		"next attempt": {nextBoot, false},
		"no host":      {deletedHost, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := mediaWorld(t)
			r := w.mediaRequest()
			_, err := w.Media(ctx, r)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(c.change(w)).To(Succeed())
			_, err = w.Media(ctx, r)
			_, scriptErr := w.MediaScript(ctx, r)
			if c.served {
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(scriptErr).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(pxe.ErrRefused))
			g.Expect(scriptErr).To(MatchError(pxe.ErrRefused))
		})
	}
}

// TestMediaTokens: no other token opens the medium, and the token of the medium opens nothing else.
func TestMediaTokens(t *testing.T) {
	g := NewWithT(t)
	w := mediaWorld(t)
	r := w.mediaRequest()
	script, err := w.MediaScript(ctx, r)
	g.Expect(err).NotTo(HaveOccurred())
	for _, token := range []string{"", script.Agent.Token, boot.MediaToken([]byte("another key"), w.boot()), boot.MediaToken(nil, w.boot())} {
		_, err := w.Media(ctx, pxe.MediaRequest{Host: "dc/h", Token: token, From: stranger})
		g.Expect(err).To(MatchError(pxe.ErrRefused))
	}
	for _, host := range []string{"dc/other", "other/h", "", "dc"} {
		_, err := w.Media(ctx, pxe.MediaRequest{Host: host, Token: r.Token, From: stranger})
		g.Expect(err).To(MatchError(pxe.ErrRefused), host)
	}
	_, err = w.Plan(ctx, pxe.AgentRequest{Version: agent.Version, Host: "dc/h", Token: r.Token, From: honest}, hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	_, err = w.BootstrapData(ctx, "dc/h", r.Token, "user-data", honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
}

// TestMediaFromMemory: 500 requests for ranges read nothing from the API server, and wrong tokens read little.
func TestMediaFromMemory(t *testing.T) {
	g := NewWithT(t)
	w := mediaWorld(t)
	r := w.mediaRequest()
	before := w.reads.Load()
	for range 500 {
		_, err := w.Media(ctx, r)
		g.Expect(err).NotTo(HaveOccurred())
	}
	g.Expect(w.reads.Load()).To(Equal(before))
	r.Token = "guess"
	start := time.Now()
	for range 500 {
		_, err := w.Media(ctx, r)
		g.Expect(err).To(Or(MatchError(pxe.ErrRefused), MatchError(pxe.ErrNotYet)))
	}
	// Forty at once and one for each second, however long this machine takes.
	g.Expect(w.reads.Load() - before).To(BeNumerically("<=", 40+1*(time.Since(start).Seconds()+1)))
}

// TestMediaFault: an API server that does not answer is no refusal.
func TestMediaFault(t *testing.T) {
	g := NewWithT(t)
	w := mediaWorld(t)
	r := w.mediaRequest()
	g.Expect(deleted("data", &corev1.Secret{})(w)).To(Succeed())
	_, err := w.MediaScript(ctx, r)
	g.Expect(err).To(HaveOccurred())
	g.Expect(errors.Is(err, pxe.ErrRefused)).To(BeFalse())
}

// TestMediaStages: the parts that were fetched become stages. Before the power-on a BMC may read ahead, which says nothing about the server.
func TestMediaStages(t *testing.T) {
	for name, c := range map[string]struct {
		before bool // the power-on
		parts  []pxe.MediaPart
		want   []string
	}{
		"headers":         {false, []pxe.MediaPart{pxe.MediaSize, pxe.MediaHeaders, pxe.MediaHeaders}, []string{"Media (192.0.2.66, curl/8)"}},
		"booted":          {false, []pxe.MediaPart{pxe.MediaHeaders, pxe.MediaLoader, pxe.MediaKernel, pxe.MediaKernel}, []string{"Media (192.0.2.66, curl/8)", "Loader (192.0.2.66, curl/8)", "Kernel (192.0.2.66, curl/8)"}},
		"read ahead":      {true, []pxe.MediaPart{pxe.MediaLoader, pxe.MediaKernel}, []string{"Media (192.0.2.66, curl/8)"}},
		"copied in parts": {false, []pxe.MediaPart{pxe.MediaHeaders, pxe.MediaKernel, pxe.MediaHeaders, pxe.MediaLoader}, []string{"Media (192.0.2.66, curl/8)", "Loader (192.0.2.66, curl/8)"}},
		"copied":          {false, []pxe.MediaPart{pxe.MediaWhole, pxe.MediaWhole}, []string{"Media (192.0.2.66, curl/8, the whole medium)"}},
		"size and copied": {false, []pxe.MediaPart{pxe.MediaSize, pxe.MediaWhole, pxe.MediaSize}, []string{"Media (192.0.2.66, curl/8, the whole medium)"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := mediaWorld(t)
			if c.before {
				g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOnTime = nil })).To(Succeed())
			}
			medium, err := w.Media(ctx, w.mediaRequest())
			g.Expect(err).NotTo(HaveOccurred())
			for _, part := range c.parts {
				medium.Observe(part)
			}
			g.Expect(w.PendingStages(client.ObjectKeyFromObject(w.boot()))).To(Equal(c.want))
			g.Expect(w.events).To(BeEmpty(), "stages are no events")
		})
	}
}

// TestMediaRefusal: a refused client with the token is recorded once in an attempt, whatever its addresses are, until the medium is served. A client without the
// token is not recorded: it gets no medium that could record it.
func TestMediaRefusal(t *testing.T) {
	g := NewWithT(t)
	w := mediaWorld(t)
	refuse := func(from netip.Addr) {
		r := w.mediaRequest()
		r.From = from
		medium, err := w.Media(ctx, r)
		g.Expect(err).NotTo(HaveOccurred())
		medium.ObserveRefusal(errors.New("the client is in none of media.allowedClients"))
	}
	refuse(stranger)
	for range 100 {
		refuse(anywhere)
	}
	g.Expect(w.events).To(HaveLen(1))
	g.Expect(<-w.events).To(ContainSubstring("BootNotServed Boot attempt 1: MediaRefused: 192.0.2.66 (curl/8) requested the boot medium, and the boot server refused it: " +
		"the client is in none of media.allowedClients"))

	g.Expect(nextBoot(w)).To(Succeed())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = v1alpha1.MethodVirtualMedia })).To(Succeed())
	refuse(stranger)
	g.Expect(w.events).To(HaveLen(1), "the next attempt")
	<-w.events

	g.Expect(nextBoot(w)).To(Succeed())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = v1alpha1.MethodVirtualMedia })).To(Succeed())
	current := w.boot()
	current.Status.Stages = []v1alpha1.ObservedStage{controllers.NewStage(current, v1alpha1.StageMedia)}
	g.Expect(w.Client.Status().Update(ctx, current)).To(Succeed())
	refuse(anywhere)
	g.Expect(w.events).To(BeEmpty(), "the BMC got the medium")
}

// TestMediaAdmission: the agent of a medium needs no DHCP request of its firmware. Where this provider gives addresses, it needs one of the server's. A loader
// needs the request, whatever the method of the boot is.
func TestMediaAdmission(t *testing.T) {
	for name, c := range map[string]struct {
		networks []bootconfig.Network
		lease    bool
		static   bool
		from     netip.Addr
		want     error
	}{
		"authoritative, leased":             {[]bootconfig.Network{leasing}, true, false, honest, nil},
		"authoritative, no lease yet":       {[]bootconfig.Network{leasing}, false, false, honest, pxe.ErrNotYet},
		"authoritative, another address":    {[]bootconfig.Network{leasing}, true, false, stranger, pxe.ErrRefused},
		"authoritative, static":             {[]bootconfig.Network{leasing}, false, true, honest, nil},
		"authoritative, static and another": {[]bootconfig.Network{leasing}, true, true, stranger, pxe.ErrRefused},
		"proxy":                             {[]bootconfig.Network{proxied}, false, false, inProxied, nil},
		"off":                               {[]bootconfig.Network{others}, false, false, inOthers, nil},
		"no network":                        {nil, false, false, anywhere, nil},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := mediaWorld(t, c.networks...)
			if c.static {
				w.updateHost(g, func(h *v1alpha1.BareMetalHost) {
					h.Spec.Network = &v1alpha1.HostNetwork{Interfaces: []v1alpha1.NetworkInterface{{Name: "lan0", LinkSettings: v1alpha1.LinkSettings{Addresses: []v1alpha1.IPPrefix{"192.0.2.9/24"}}}}}
				})
			}
			if c.lease {
				w.lease(t, leasing, honest)
			}
			script, err := w.MediaScript(ctx, w.mediaRequest())
			g.Expect(err).NotTo(HaveOccurred())
			_, err = w.Plan(ctx, pxe.AgentRequest{Version: agent.Version, Host: "dc/h", Token: script.Agent.Token, From: c.from, Key: ownKey, TLS: true}, hello)
			if c.want != nil {
				g.Expect(err).To(MatchError(c.want))
			} else {
				g.Expect(err).NotTo(HaveOccurred())
			}
		})
	}
	g := NewWithT(t)
	w := mediaWorld(t, leasing)
	w.lease(t, leasing, honest)
	_, err := w.Script(ctx, booting, honest)
	g.Expect(err).To(MatchError(pxe.ErrNotYet))
}
