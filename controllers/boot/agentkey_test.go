package boot_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/boot"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

var (
	ownKey     = strings.Repeat("o", 43)
	foreignKey = strings.Repeat("f", 43)
)

// with is a request with another key.
func with(r pxe.AgentRequest, key string) pxe.AgentRequest {
	r.Key = key
	return r
}

// mediumRequest is the request of the agent of a boot from a medium.
func (w *world) mediumRequest(g *WithT) pxe.AgentRequest {
	r := with(w.agentRequest(g), ownKey)
	r.TLS = true
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method, b.ScriptAddress = v1alpha1.MethodVirtualMedia, "" })).To(Succeed())
	return r
}

// agentEndpoints are the requests of an agent that writes an image.
var agentEndpoints = []string{agent.EndpointPlan, agent.EndpointImage, agent.EndpointData, agent.EndpointCommit, agent.EndpointProgress, agent.EndpointResult}

// askAs makes one of these requests.
func (w *world) askAs(r pxe.AgentRequest, endpoint string) (err error) {
	switch endpoint {
	case agent.EndpointPlan:
		_, err = w.Plan(ctx, r, hello)
	case agent.EndpointImage:
		var opened *pxe.OpenedImage
		if opened, err = w.Image(ctx, r); err == nil {
			opened.Sent(int64(len("the image")))
			err = opened.Data.Close()
		}
	case agent.EndpointData:
		_, err = w.Data(ctx, r, sda, "http://boot")
	case agent.EndpointCommit:
		err = w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})
	case agent.EndpointProgress:
		err = w.Progress(ctx, r, agent.Progress{Step: wire.StepWriting})
	default:
		_, err = w.Result(ctx, r, agent.Result{})
	}
	return err
}

// askAllAs makes all of them, and returns the errors.
func (w *world) askAllAs(r pxe.AgentRequest) (all []error) {
	for _, endpoint := range agentEndpoints {
		all = append(all, w.askAs(r, endpoint))
	}
	return all
}

// TestAgentKey: the first plan enrols the key of the agent, and then the key is the agent, whatever its address. A boot whose agent has no key goes by the
// address.
func TestAgentKey(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	r := with(w.agentRequest(g), ownKey)
	_, err := w.Image(ctx, r)
	g.Expect(err).To(MatchError(pxe.ErrNotYet), "before the plan")
	other := r
	other.Version++
	_, err = w.Plan(ctx, other, hello)
	g.Expect(err).To(MatchError(pxe.ErrVersion))
	g.Expect(w.boot().Spec.AgentKey).To(BeEmpty(), "only an accepted request enrols a key")
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	record := w.boot().Spec
	g.Expect([]string{record.AgentKey, record.DataAddress}).To(Equal([]string{ownKey, honest.String()}))

	moved := at(r, stranger)
	before := w.reads.Load()
	opened, err := w.Image(ctx, moved)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(opened.Data.Close()).To(Succeed())
	g.Expect(w.Progress(ctx, moved, agent.Progress{Step: wire.StepWriting})).To(Succeed())
	g.Expect(w.reads.Load()).To(Equal(before), "these are answered from the cache")
	_, err = w.Data(ctx, moved, sda, "http://boot")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(Succeed())
	_, err = w.Result(ctx, moved, agent.Result{})
	g.Expect(err).NotTo(HaveOccurred())
	record = w.boot().Spec
	g.Expect([]string{record.AgentKey, record.DataAddress}).To(Equal([]string{ownKey, honest.String()}))
	g.Expect(record.AgentRefusedTime).To(BeNil())
	g.Expect(record.Failure).To(BeNil())

	w, _ = newAgentWorld(t)
	r = w.agentRequest(g)
	_, err = w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.Plan(ctx, with(r, foreignKey), hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.boot().Spec.AgentKey).To(BeEmpty(), "a key that comes later proves nothing about the client that was first")
}

// TestSecondKey: a second key, or none, that presents the token before the bootstrap data was served ends the attempt, also from the address of the agent, and
// also if only the server can have that address. Neither agent is served any more.
func TestSecondKey(t *testing.T) {
	for name, second := range map[string]func(pxe.AgentRequest) pxe.AgentRequest{
		"another key from another address": func(r pxe.AgentRequest) pxe.AgentRequest { return at(with(r, foreignKey), stranger) },
		"another key":                      func(r pxe.AgentRequest) pxe.AgentRequest { return with(r, foreignKey) },
		"no key":                           func(r pxe.AgentRequest) pxe.AgentRequest { return with(r, "") },
	} {
		for _, endpoint := range agentEndpoints {
			t.Run(name+" at "+endpoint, func(t *testing.T) {
				g := NewWithT(t)
				w, _ := newAgentWorld(t)
				r := w.mediumRequest(g)
				_, err := w.Plan(ctx, r, hello)
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(w.askAs(second(r), endpoint)).To(MatchError(pxe.ErrRefused))
				record := w.boot().Spec
				g.Expect(record.AgentRefusedTime).NotTo(BeNil())
				g.Expect(record.Failure).To(BeNil())
				g.Expect(record.AgentKey).To(Equal(ownKey))
				for _, client := range []pxe.AgentRequest{r, second(r)} {
					g.Expect(w.askAllAs(client)).To(HaveEach(MatchError(pxe.ErrRefused)))
				}
				g.Expect(w.boot().Spec.DataServedTime).To(BeNil())
			})
		}
	}
}

// TestSecondKeyAfterData: once the bootstrap data was served, a second key fails the boot. After the permission it is only refused, and the agent goes on.
func TestSecondKeyAfterData(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	r := w.mediumRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.askAs(r, agent.EndpointImage)).To(Succeed())
	_, err = w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).NotTo(HaveOccurred())
	before := w.boot().Spec
	_, err = w.Plan(ctx, with(r, foreignKey), hello)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.Failure.Reason).To(Equal(v1alpha1.ReasonSecondRequester))
	g.Expect(w.boot().Spec.Failure.Message).To(And(ContainSubstring(foreignKey[:9]), ContainSubstring(ownKey[:9]), ContainSubstring(honest.String())))
	g.Expect(w.boot().Spec.AgentRefusedTime).To(BeNil())

	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { *b = *before.DeepCopy() })).To(Succeed())
	g.Expect(w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk})).To(Succeed())
	for _, key := range []string{foreignKey, ""} {
		g.Expect(w.askAllAs(at(with(r, key), stranger))).To(HaveEach(MatchError(pxe.ErrRefused)))
	}
	_, err = w.Result(ctx, r, agent.Result{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.askAllAs(with(r, foreignKey))).To(HaveEach(MatchError(pxe.ErrRefused)))
	record := w.boot().Spec
	g.Expect(record.Failure).To(BeNil())
	g.Expect(record.AgentRefusedTime).To(BeNil())
	g.Expect(record.AgentDoneTime).NotTo(BeNil())
}

// TestDataAfterImage: an agent of a boot medium gets the bootstrap data once it was sent the whole image, or a time after the power-on, for an image that another boot server
// sent. A boot by PXE has no such wait.
func TestDataAfterImage(t *testing.T) {
	start := func(g *WithT) (*world, pxe.AgentRequest) {
		w, _ := newAgentWorld(t)
		r := w.mediumRequest(g)
		_, err := w.Plan(ctx, r, hello)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(w.askAs(r, agent.EndpointData)).To(MatchError(pxe.ErrNotYet))
		g.Expect(w.boot().Spec.DataServedTime).To(BeNil())
		return w, r
	}
	send := func(g *WithT, w *world, r pxe.AgentRequest, n int64) {
		opened, err := w.Image(ctx, r)
		g.Expect(err).NotTo(HaveOccurred())
		opened.Sent(n)
		g.Expect(opened.Data.Close()).To(Succeed())
	}
	g := NewWithT(t)
	w, r := start(g)
	half := int64(len("the image") / 2)
	send(g, w, r, half)
	g.Expect(w.askAs(r, agent.EndpointData)).To(MatchError(pxe.ErrNotYet))
	send(g, w, r, int64(len("the image"))-half)
	g.Expect(w.askAs(r, agent.EndpointData)).To(Succeed())

	// The cluster is restored from a backup, and uses the number of the attempt again: what was sent before does not count, and the token is another one.
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
		b.StartTime = metav1.NewTime(b.StartTime.Add(-time.Minute))
		b.Method, b.DataAddress, b.AgentKey, b.DataServedTime = "", "", "", nil
	})).To(Succeed())
	g.Expect(w.askAs(r, agent.EndpointData)).To(MatchError(pxe.ErrRefused))
	r = w.mediumRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.askAs(r, agent.EndpointData)).To(MatchError(pxe.ErrNotYet))

	w, r = start(g)
	on := metav1.NewTime(w.Clock.Now().Add(-15 * time.Minute))
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.PoweredOnTime = &on })).To(Succeed())
	g.Expect(w.askAs(r, agent.EndpointData)).To(Succeed())

	w, r = start(g)
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = v1alpha1.MethodPXE })).To(Succeed())
	g.Expect(w.askAs(r, agent.EndpointData)).To(Succeed())
}

// TestSecondKeyOfOwnAddress: in an authoritative network a client without the server's address ends nothing. One that has taken the address, and not the key,
// does.
func TestSecondKeyOfOwnAddress(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t, leasing)
	w.lease(t, leasing, honest)
	w.dhcp(honest)
	r := with(w.agentRequest(g), ownKey)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.askAllAs(at(with(r, foreignKey), stranger))).To(HaveEach(MatchError(pxe.ErrRefused)))
	g.Expect(w.boot().Spec.AgentRefusedTime).To(BeNil())
	_, err = w.Image(ctx, with(r, foreignKey))
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.AgentRefusedTime).NotTo(BeNil())
}

// TestMediumNeedsKey: the token of a boot from a medium is of no use over plain HTTP, and the host shows why. A boot by PXE needs no key.
func TestMediumNeedsKey(t *testing.T) {
	for method, needs := range map[v1alpha1.BootMethod]bool{
		v1alpha1.MethodVirtualMedia: true, v1alpha1.MethodUefiHTTP: true, v1alpha1.MethodPXE: false, "": false,
	} {
		g := NewWithT(t)
		w, _ := newAgentWorld(t)
		r := with(w.mediumRequest(g), "")
		g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = method })).To(Succeed())
		_, err := w.Plan(ctx, r, hello)
		if !needs {
			g.Expect(err).NotTo(HaveOccurred(), string(method))
			continue
		}
		g.Expect(err).To(And(MatchError(pxe.ErrRefused), MatchError(ContainSubstring("http.tls"))))
		_, err = w.Data(ctx, r, sda, "http://boot")
		g.Expect(err).To(MatchError(pxe.ErrRefused))
		record := w.boot().Spec
		g.Expect(record.DataAddress).To(BeEmpty())
		g.Expect(record.DataServedTime).To(BeNil())
		g.Expect(record.AgentRefusedTime).To(BeNil(), "the agent may ask over HTTPS")
		_, err = w.Plan(ctx, with(r, ownKey), hello)
		g.Expect(err).NotTo(HaveOccurred())
	}
}

// TestNetworkOfAgentAndSystem: a server without DHCP gets its network twice, from the same spec: the agent at its start, and the operating system with the
// bootstrap data. A boot from a medium uses it at once.
func TestNetworkOfAgentAndSystem(t *testing.T) {
	for _, method := range []v1alpha1.BootMethod{v1alpha1.MethodPXE, v1alpha1.MethodVirtualMedia} {
		g := NewWithT(t)
		w, _ := newAgentWorld(t)
		w.updateHost(g, func(h *v1alpha1.BareMetalHost) {
			h.Spec.Network = &v1alpha1.HostNetwork{
				Interfaces: []v1alpha1.NetworkInterface{{Name: "lan0", MACAddress: booting.String()}, {Name: "lan1", MACAddress: "52:54:00:00:00:0a"}},
				Bonds:      []v1alpha1.NetworkBond{{Name: "bond0", Interfaces: []v1alpha1.LinkName{"lan0", "lan1"}, Parameters: v1alpha1.BondParameters{Mode: "active-backup"}}},
				VLANs: []v1alpha1.NetworkVLAN{{Name: "bond0.7", ID: 7, Link: "bond0", LinkSettings: v1alpha1.LinkSettings{
					Addresses: []v1alpha1.IPPrefix{"198.51.100.80/24"}, Nameservers: &v1alpha1.Nameservers{Addresses: []v1alpha1.IPAddress{"198.51.100.53"}},
					Routes: []v1alpha1.NetworkRoute{{To: "0.0.0.0/0", Via: "198.51.100.1"}},
				}}},
			}
		})
		g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.Method = method })).To(Succeed())
		var script pxe.Script
		var err error
		if method == v1alpha1.MethodPXE {
			script, err = w.Script(ctx, booting, honest)
		} else {
			script, err = w.MediaScript(ctx, w.mediaRequest())
		}
		g.Expect(err).NotTo(HaveOccurred())
		want, err := boot.Network(w.host().Spec.Network)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(script.Agent.Network).To(Equal(want))
		g.Expect(script.Agent.StaticFirst).To(Equal(method == v1alpha1.MethodVirtualMedia))
		r := pxe.AgentRequest{Version: agent.Version, Host: script.Agent.Host, Token: script.Agent.Token, From: honest, Key: ownKey, TLS: true}
		_, err = w.Plan(ctx, r, hello)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(w.askAs(r, agent.EndpointImage)).To(Succeed())
		partition, err := w.Data(ctx, r, sda, "http://boot")
		g.Expect(err).NotTo(HaveOccurred())
		for _, part := range []string{"198.51.100.80/24", "198.51.100.53", "via: 198.51.100.1", "bond0.7", "active-backup", booting.String()} {
			g.Expect(string(partition.Head)).To(ContainSubstring(part))
		}
	}
}
