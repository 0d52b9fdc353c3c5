package e2e_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory"
)

// server is a server of the inventory, from its registration to its release.
type server struct {
	host   *v1alpha1.BareMetalHost
	record *v1alpha1.BareMetalBoot // of the host's last boot
	secret *corev1.Secret
	site   *site
	// console returns what it wrote to its serial line.
	console func() string
	claim   *controllerstest.Claim
	// silent is true for one whose system does not say there whose boot it is.
	silent bool
	// static is the address that the network of its spec gives it. Without one, which is the default, DHCP does.
	static netip.Addr
	// start is when what is timed began, and seen are the stages that were logged.
	start time.Time
	seen  map[v1alpha1.BootStage]bool
	// lostAttempts is how many attempts of its boot the test made fail.
	lostAttempts int32
}

// emulated is a server whose BMC is an emulated one, which starts and ends QEMU.
type emulated struct {
	*server

	bmc     *bmctest.Machine
	chassis *chassis
	// mayGoOff is true for a server whose system may switch it off, as an agent does.
	mayGoOff bool
	// networkFirst, where true, makes it boot from the network whatever its BMC says: so are many servers set up.
	networkFirst atomic.Bool
}

// label is on each host, so that each machine gets its own.
const label = "e2e.example/server"

// nextMAC returns a MAC address for a server.
func nextMAC() string { return fmt.Sprintf("52:54:00:77:00:%02x", numbers.Add(1)) }

// enlist describes a server of the site, which is not registered yet.
func (s *site) enlist(name, mac string, mode v1alpha1.BootMode, endpoint bmc.Endpoint) *server {
	return &server{
		site: s, seen: map[v1alpha1.BootStage]bool{}, record: &v1alpha1.BareMetalBoot{},
		secret: &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name + "-bmc", Labels: map[string]string{v1alpha1.BMCSecretLabel: ""}},
			StringData: map[string]string{"username": endpoint.Username, "password": endpoint.Password},
		},
		host: &v1alpha1.BareMetalHost{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name, Labels: map[string]string{label: name}},
			Spec: v1alpha1.BareMetalHostSpec{
				BMC: v1alpha1.BMC{Address: endpoint.URL.String(), CredentialsSecretName: name + "-bmc"}, BootMACAddresses: []string{mac}, BootMode: mode,
			},
		},
	}
}

// emulate puts a server of a kind, with an emulated Redfish BMC, on the network.
func (s *site) emulate(t *testing.T, name string, m machine) *emulated {
	t.Helper()
	e := &emulated{chassis: m.build(t, s.hosts, nextMAC())}
	e.bmc = bmctest.NewMachine(bmctest.Options{
		Name: name, MAC: e.chassis.mac, MemoryGiB: 1, Username: controllerstest.Username, Password: controllerstest.Password,
		Run: func(ctx context.Context, boot bmc.BootTarget, _ func()) { e.run(ctx, t, boot) },
	})
	web := httptest.NewServer(e.bmc)
	t.Cleanup(func() {
		web.Close()
		e.bmc.Close()
	})
	address, err := url.Parse(strings.Replace(web.URL, "http://", "redfish+http://", 1))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	e.server = s.enlist(name, e.chassis.mac, m.mode(), bmc.Endpoint{URL: address, Username: controllerstest.Username, Password: controllerstest.Password})
	e.console = e.chassis.console
	return e
}

// run plays the server from power-on to power-off.
func (e *emulated) run(ctx context.Context, t *testing.T, boot bmc.BootTarget) {
	t.Helper()
	network := boot == bmc.BootPXE || boot == bmc.BootHTTP
	if uri := e.bmc.BootedURI(); boot == bmc.BootHTTP && uri != "" {
		e.chassis.setBootURI(t, uri)
	}
	for restarts := e.chassis.restarts(); ; restarts++ {
		gone, err := e.chassis.on(network || e.networkFirst.Load())
		if err != nil {
			t.Errorf("start QEMU: %v", err)
			return
		}
		t.Logf("%5.1f s  powered on, to boot from the network: %t", e.elapsed(), network)
		select {
		case <-ctx.Done():
			e.chassis.off()
			return
		case <-gone:
		}
		switch {
		case ctx.Err() != nil:
			return
		case e.mayGoOff && e.chassis.restarts() > restarts:
			network = false // the override was for one boot
			continue
		case !e.mayGoOff:
			t.Errorf("%5.1f s  the server switched itself off; its console:\n%s", e.elapsed(), e.console())
		}
		e.bmc.SetPower(false) //nolint:contextcheck // the server's own ends with it
		return
	}
}

func (r *server) elapsed() float64 { return time.Since(r.start).Seconds() }

// register creates the host and waits until it is offered.
func (r *server) register(t *testing.T) {
	t.Helper()
	r.start = time.Now()
	env.Create(t, r.secret, r.host)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the host:\n%s", r.yaml())
		}
	})
	limit := time.Minute
	if r.host.Spec.Inspection != "" {
		limit += 2 * bootTimeout // the agent boots first, and waits for LLDP
	}
	r.await(t, limit, "the host is Available", func() bool { return r.host.Status.Phase == v1alpha1.PhaseAvailable })
}

// yaml is the host and its boot, for people.
func (r *server) yaml() string {
	var b strings.Builder
	for _, o := range []client.Object{r.host.DeepCopy(), r.record.DeepCopy()} {
		if err := env.Client.Get(context.Background(), client.ObjectKeyFromObject(r.host), o); err != nil {
			return b.String() + err.Error()
		}
		o.SetManagedFields(nil)
		text, err := yaml.Marshal(o)
		fmt.Fprintln(&b, string(text), err)
	}
	return b.String()
}

// boot creates a machine for the server, with the Machine, the Cluster and the bootstrap data that Cluster API would make.
func (r *server) boot(t *testing.T, change ...func(*controllerstest.Claim)) {
	t.Helper()
	r.start = time.Now()
	name := r.host.Name
	if r.claim != nil {
		name += "-again"
	}
	r.claim = env.NewClaim(t, r.site.namespace, name, append([]func(*controllerstest.Claim){func(c *controllerstest.Claim) {
		c.BareMetalMachine.Spec = v1alpha1.BareMetalMachineSpec{
			HostSelector: &v1alpha1.HostSelector{MatchLabels: map[string]v1alpha1.LabelValue{label: v1alpha1.LabelValue(r.host.Name)}},
			Boot:         r.site.image.source(),
		}
	}}, change...)...)
}

// await waits until the host is as it shall be. It logs each stage of the boot when it is first seen.
func (r *server) await(t *testing.T, timeout time.Duration, what string, done func() bool) {
	t.Helper()
	g := NewWithT(t)
	end := time.Now().Add(timeout)
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for {
		g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(r.host), r.host)).To(Succeed())
		g.Expect(client.IgnoreNotFound(env.Client.Get(t.Context(), client.ObjectKeyFromObject(r.host), r.record))).To(Succeed())
		r.logStages(t)
		if done() {
			t.Logf("%5.1f s  %s", r.elapsed(), what)
			return
		}
		failed := r.record.Spec.Failure != nil && r.record.Spec.VoidedTime == nil
		if failed || time.Now().After(end) {
			t.Fatalf("not seen in %.0f s: %s", r.elapsed(), what)
		}
		<-ticker.C
	}
}

func (r *server) logStages(t *testing.T) {
	t.Helper()
	for _, s := range r.record.Status.Stages {
		if !r.seen[s.Stage] {
			r.seen[s.Stage] = true
			t.Logf("%5.1f s  %s %s %s", r.elapsed(), s.Stage, s.Address, s.Client)
		}
	}
}

// awaitProvisioned waits until the machine runs, and checks what the host and the machine say then. client is how the firmware identified itself by DHCP; empty if it
// did not use DHCP.
func (r *server) awaitProvisioned(t *testing.T, timeout time.Duration, client string, stages ...v1alpha1.BootStage) {
	t.Helper()
	g := NewWithT(t)
	// Observed stages are written in the background, and may appear a moment after the report.
	r.await(t, timeout, "the host is Provisioned", func() bool {
		return r.host.Status.Phase == v1alpha1.PhaseProvisioned && r.observed(v1alpha1.StageReportedIn) != nil
	})
	for _, stage := range stages {
		g.Expect(r.observed(stage)).NotTo(BeNil(), "the stage %s was not seen", stage)
	}
	if client != "" {
		g.Expect(r.observed(v1alpha1.StageDHCP).Client).To(Equal(client))
	}
	g.Expect(r.record.Spec.Attempt).To(Equal(1 + r.lostAttempts))
	address := r.observed(v1alpha1.StageReportedIn).Address
	g.Expect(r.record.Spec.DataAddress).To(Equal(address))
	g.Expect(r.record.Spec.ReportAddress).To(Equal(address))
	if given := netip.MustParseAddr(address); r.static.IsValid() {
		g.Expect(given).To(Equal(r.static))
	} else {
		g.Expect(r.site.gives(given)).To(BeTrue(), "%s is not from %s to %s", given, r.site.first, r.site.last)
	}

	controllerstest.Wait(t, env, r.claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Spec.ProviderID).To(Equal(inventory.ProviderID(m.Namespace, r.host.Name, m.Name)))
		g.Expect(m.Status.Addresses).To(ConsistOf(
			clusterv1.MachineAddress{Type: clusterv1.MachineHostName, Address: m.Name}, clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: address}))
		g.Expect(apimeta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ReadyCondition)).To(BeTrue(), "Ready of the machine")
	})
	controllerstest.Wait(t, env, r.host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		for _, condition := range []string{
			v1alpha1.ReadyCondition, v1alpha1.BMCReadyCondition, v1alpha1.VerifiedCondition, v1alpha1.BootedCondition, v1alpha1.BootProgressCondition,
		} {
			g.Expect(apimeta.IsStatusConditionTrue(h.Status.Conditions, condition)).To(BeTrue(), "%s of the host", condition)
		}
		g.Expect(h.Status.Addresses).To(ConsistOf(clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: address}))
		g.Expect(h.Status.Power).To(Equal(v1alpha1.PowerOn))
	})
	if !r.silent {
		g.Eventually(r.console, "30s").Should(ContainSubstring(fmt.Sprintf("e2e: I am %s-%d", r.record.Spec.ClaimID, r.record.Spec.Number)))
	}
}

// observed returns what was observed of a stage, nil for nothing.
func (r *server) observed(stage v1alpha1.BootStage) *v1alpha1.ObservedStage {
	return controllers.ObservedStage(r.record, stage)
}

// release deletes the machine, and waits until the host is powered off and offered again.
func (r *server) release(t *testing.T) {
	t.Helper()
	g := NewWithT(t)
	r.start = time.Now()
	g.Expect(env.Client.Delete(t.Context(), r.claim.BareMetalMachine, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
	r.await(t, time.Minute, "the host is off, and Available again", func() bool {
		return r.host.Spec.ConsumerRef == nil && r.host.Status.Phase == v1alpha1.PhaseAvailable && r.host.Status.Power == v1alpha1.PowerOff
	})
}
