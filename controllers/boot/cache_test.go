package boot_test

import (
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/seed"
)

// TestSeedReads: once the bootstrap data was served, files without it are answered from the cache, only to the client that got the data.
// The Secret is read for the files that contain it, each time as it is then.
func TestSeedReads(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	before := w.reads.Load()
	first, err := w.BootstrapData(ctx, "dc/h", token, seed.MetaData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(first.UserData).To(BeEmpty(), "the script checked that the boot can be finished")
	g.Expect(w.reads.Load()-before).To(BeEquivalentTo(4), "host, BareMetalMachine, Machine, Cluster; the patch proves that the boot has not changed")

	before = w.reads.Load()
	for _, file := range []string{seed.MetaData, seed.VendorData, seed.NetworkConfig} {
		data, err := w.BootstrapData(ctx, "dc/h", token, file, honest)
		g.Expect(err).NotTo(HaveOccurred())
		content, _, err := seed.File(data, file, "http://192.0.2.1")
		g.Expect(err).NotTo(HaveOccurred())
		expected, _, err := seed.File(first, file, "http://192.0.2.1")
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(content)).To(Equal(string(expected)), file)
	}
	g.Expect(w.reads.Load() - before).To(BeZero())
	w.cache.Client = split{w.Client, w.frozen(g)}
	for i, file := range []string{seed.UserData, seed.IgnitionFile} {
		value := "the bootstrap data, " + file
		g.Expect(change(w, "data", &corev1.Secret{}, func(s *corev1.Secret) { s.Data = map[string][]byte{"value": []byte(value)} })).To(Succeed())
		data, err := w.BootstrapData(ctx, "dc/h", token, file, honest)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(string(data.UserData)).To(Equal(value), "it changed after the script")
		g.Expect(w.reads.Load()-before).To(BeEquivalentTo(2+2*i), "the boot and the Secret")
	}
	w.cache.Client = w.Client
	before = w.reads.Load()
	_, err = w.BootstrapData(ctx, "dc/h", "guess", seed.MetaData, honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.reads.Load()-before).To(BeEquivalentTo(1), "the cache may not know the boot of that token")
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.MetaData, stranger)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
	g.Expect(w.boot().Spec.Failure).NotTo(BeNil(), "the second requester is noticed")
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.MetaData, honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
}

// TestCacheBehind: a server gets its seed even if the cache does not show its boot yet, and a cache that still shows a finished boot gives access to nothing.
func TestCacheBehind(t *testing.T) {
	g := NewWithT(t)
	old := newAPI(interceptor.Funcs{})
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())

	cache := &world{Client: old}
	g.Expect(cache.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef, h.Spec.ProviderState.Boots = nil, 2 })).To(Succeed())
	g.Expect(cache.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { *b = v1alpha1.BareMetalBootSpec{} })).To(Succeed())
	w.cache.Client = split{w.Client, old}
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred(), "again")

	served := w.boot().Spec
	g.Expect(cache.changeHost(func(h *v1alpha1.BareMetalHost) {
		h.Spec.ConsumerRef, h.Spec.ProviderState.Boots = w.host().Spec.ConsumerRef, 3
	})).To(Succeed())
	g.Expect(cache.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { *b = served })).To(Succeed())
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ReportedTime = new(metav1.Now()) })).To(Succeed())
	_, err = w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).To(MatchError(pxe.ErrRefused))
}

// ownerChanges are the changes of a host and its machine after which no client gets what is for the machine.
func ownerChanges() map[string]func(*world) error {
	released := func(w *world) error {
		return errors.Join(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime = new(metav1.Now()) }),
			w.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }))
	}
	return map[string]func(*world) error{
		"the BareMetalMachine is being deleted":        deleted("m", &v1alpha1.BareMetalMachine{}),
		"the BareMetalMachine is gone":                 deletedAtOnce,
		"the BareMetalMachine was replaced":            replaced,
		"the Machine is gone":                          deleted("m", &clusterv1.Machine{}),
		"the Cluster is gone":                          deleted("c", &clusterv1.Cluster{}),
		"the machine is provisioned":                   onMachine(func(m *v1alpha1.BareMetalMachine) { m.Spec.ProviderID = "baremetal://dc/h/m" }),
		"the host was released":                        released,
		"the host was released without its boot":       onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef = nil }),
		"the host was claimed again":                   onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ConsumerRef.ClaimID = "next" }),
		"the host is in maintenance":                   onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "disk"} }),
		"the host counts a boot that was not recorded": onHost(func(h *v1alpha1.BareMetalHost) { h.Spec.ProviderState.Boots++ }),
	}
}

// TestCacheBehindFirst: before the bootstrap data is first served, the API server decides who owns it. A stale cache gives it to no client that must
// not have it any more.
func TestCacheBehindFirst(t *testing.T) {
	for name, change := range ownerChanges() {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			token, err := w.script(honest)
			g.Expect(err).NotTo(HaveOccurred())
			cache := newAPI(interceptor.Funcs{})
			g.Expect((&world{Client: cache}).changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.ScriptAddress = honest.String() })).To(Succeed())
			w.cache.Client = split{w.Client, cache}
			g.Expect(change(w)).To(Succeed())
			for _, file := range []string{seed.UserData, seed.MetaData} {
				data, err := w.BootstrapData(ctx, "dc/h", token, file, honest)
				g.Expect(err).To(HaveOccurred())
				g.Expect(data).To(BeZero())
			}
			g.Expect(w.boot().Spec.DataServedTime).To(BeNil())
			g.Expect(w.boot().Spec.DataAddress).To(BeEmpty())
		})
	}
}

// frozen returns a cache that shows host, boot and machine as they are now, whatever happens to them.
func (w *world) frozen(g *WithT) client.Client {
	api := newAPI(interceptor.Funcs{})
	old, machine := &world{Client: api}, &v1alpha1.BareMetalMachine{}
	g.Expect(w.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "m"}, machine)).To(Succeed())
	g.Expect(change(old, "m", &v1alpha1.BareMetalMachine{}, func(m *v1alpha1.BareMetalMachine) { m.Spec = machine.Spec })).To(Succeed())
	g.Expect(old.changeHost(func(h *v1alpha1.BareMetalHost) { h.Spec = w.host().Spec })).To(Succeed())
	g.Expect(old.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { *b = w.boot().Spec })).To(Succeed())
	return api
}

// TestAgentCacheBehind: before an agent gets a plan that writes, bootstrap data, or the permission to make a disk bootable, the API server decides who has the host. That holds
// for a repeated request, too.
func TestAgentCacheBehind(t *testing.T) {
	for request, ask := range map[string]func(w *world, r pxe.AgentRequest) error{
		"plan": func(w *world, r pxe.AgentRequest) error {
			_, err := w.Plan(ctx, r, hello)
			return err
		},
		"data": func(w *world, r pxe.AgentRequest) error {
			_, err := w.Data(ctx, r, sda, "http://boot")
			return err
		},
		"data again": func(w *world, r pxe.AgentRequest) error {
			_, err := w.Data(ctx, r, sda, "http://boot")
			return err
		},
		"commit": func(w *world, r pxe.AgentRequest) error { return w.Commit(ctx, r, agent.CommitRequest{Disk: sda.Disk}) },
	} {
		for name, to := range ownerChanges() {
			t.Run(request+", "+name, func(t *testing.T) {
				g := NewWithT(t)
				w, _ := newAgentWorld(t)
				r := w.agentRequest(g)
				if request != "plan" {
					_, err := w.Plan(ctx, r, hello)
					g.Expect(err).NotTo(HaveOccurred())
				}
				if request == "data again" || request == "commit" {
					_, err := w.Data(ctx, r, sda, "http://boot")
					g.Expect(err).NotTo(HaveOccurred())
				}
				w.cache.Client = split{w.Client, w.frozen(g)}
				g.Expect(to(w)).To(Succeed())
				before := w.boot().Spec
				g.Expect(ask(w, r)).NotTo(Succeed())
				g.Expect(w.boot().Spec).To(Equal(before), "nothing is recorded")
			})
		}
	}
}

// TestRefusalIsLive: what the cache refuses is decided by the API server. A refusal ends the boot of a client, and its cache shows the attempt before.
func TestRefusalIsLive(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) {
		b.Failure = &v1alpha1.BootFailure{Reason: "R", Message: "the last one failed"}
	})).To(Succeed())
	w.cache.Client = split{w.Client, w.frozen(g)}
	g.Expect(nextBoot(w)).To(Succeed())
	_, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.boot().Spec.ScriptAddress).To(Equal(honest.String()))
	g.Expect(w.events).To(BeEmpty(), "no refusal is recorded either")
}

// TestReplacedMachine: the claim determines the owner of a boot, not the name or UID of a machine. A machine that was recreated under its name gets
// its own bootstrap data, never that of the previous machine.
func TestReplacedMachine(t *testing.T) {
	g := NewWithT(t)
	w := newWorld()
	token, err := w.script(honest)
	g.Expect(err).NotTo(HaveOccurred())
	w.cache.Client = split{w.Client, newAPI(interceptor.Funcs{})}
	g.Expect(replaced(w)).To(Succeed())
	meta := metav1.ObjectMeta{Namespace: "dc", Name: "m-2"}
	g.Expect(w.Create(ctx, &clusterv1.Machine{ObjectMeta: meta, Spec: clusterv1.MachineSpec{ClusterName: "c", Bootstrap: clusterv1.Bootstrap{DataSecretName: new("m-2")}}})).To(Succeed())
	g.Expect(w.Create(ctx, &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"value": []byte("its own")}})).To(Succeed())
	data, err := w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(data.UserData)).To(Equal("its own"))
}

// TestReleaseWins: a release that voids the boot between the read of the boot and its write wins: nothing is served, nothing is bound.
func TestReleaseWins(t *testing.T) {
	for name, ask := range map[string]func(w *world, token string) error{
		"bootstrap data": func(w *world, token string) error {
			data, err := w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
			if data.UserData != nil {
				return errors.New("served")
			}
			return err
		},
		"report": func(w *world, token string) error { return w.Report(ctx, "dc/h", token, pxe.Up, honest) },
		"script": func(w *world, _ string) error {
			_, err := w.script(honest)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			w := newWorld()
			var token string
			var err error
			if name != "script" {
				token, err = w.script(honest)
				g.Expect(err).NotTo(HaveOccurred())
			}
			if name == "report" {
				data, err := w.BootstrapData(ctx, "dc/h", token, seed.UserData, honest)
				g.Expect(err).NotTo(HaveOccurred())
				token = reportToken(data)
			}
			before := w.boot().Spec
			w.before = func() {
				w.before = nil
				g.Expect(w.changeBoot(func(b *v1alpha1.BareMetalBootSpec) { b.VoidedTime = new(metav1.Now()) })).To(Succeed())
			}
			g.Expect(ask(w, token)).To(MatchError(pxe.ErrRefused))
			after := w.boot().Spec
			g.Expect(after.VoidedTime).NotTo(BeNil())
			after.VoidedTime = nil
			g.Expect(after).To(Equal(before))
		})
	}
}
