package boot_test

import (
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/image"
)

// reconcileImage reconciles the image of the host, and returns its state.
func (w *world) reconcileImage(g *WithT) v1alpha1.ImageStatus {
	_, err := w.ReconcileImage(ctx, types.NamespacedName{Namespace: "dc", Name: "h"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(w.boot().Status.Image).NotTo(BeNil())
	return *w.boot().Status.Image
}

// giveIgnition makes the bootstrap data an Ignition config.
func (w *world) giveIgnition(g *WithT) {
	secret := &corev1.Secret{}
	g.Expect(w.Client.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "data"}, secret)).To(Succeed())
	secret.Data = map[string][]byte{"format": []byte("ignition"), "value": []byte(`{"ignition":{"version":"3.4.0"}}`)}
	g.Expect(w.Client.Update(ctx, secret)).To(Succeed())
}

// TestBootstrapDataForImage: bootstrap data that the data source of an image cannot have is refused before the server is booted, with the field and the remedy. A
// script is not served for it either. Data that does not exist yet is waited for.
func TestBootstrapDataForImage(t *testing.T) {
	g := NewWithT(t)
	w, _ := newAgentWorld(t)
	g.Expect(w.reconcileImage(g).Ready).To(BeTrue())
	w.giveIgnition(g)
	status := w.reconcileImage(g)
	g.Expect(status.Ready).To(BeFalse())
	g.Expect(status.Reason).To(Equal(v1alpha1.ReasonBootstrapDataInvalid))
	g.Expect(status.Message).To(And(ContainSubstring("spec.image.dataSource of the BareMetalMachine is NoCloud"), ContainSubstring("Set dataSource to ConfigDrive")))
	_, err := w.Script(ctx, booting, honest)
	g.Expect(err).To(MatchError(ContainSubstring("Set dataSource to ConfigDrive")))
	w.updateMachine(g, func(m *v1alpha1.BareMetalMachine) { m.Spec.Image.DataSource = wire.DataSourceConfigDrive })
	g.Expect(w.reconcileImage(g).Ready).To(BeTrue())

	owner := &clusterv1.Machine{}
	g.Expect(w.Client.Get(ctx, client.ObjectKey{Namespace: "dc", Name: "m"}, owner)).To(Succeed())
	owner.Spec.Bootstrap.DataSecretName, owner.Spec.InfrastructureRef.Name = nil, "m"
	g.Expect(w.Client.Update(ctx, owner)).To(Succeed())
	g.Expect(w.reconcileImage(g).Reason).To(Equal(v1alpha1.ReasonWaitingForBootstrapData))
	g.Expect(w.HostOfImage(ctx, owner)).To(BeEmpty(), "its BareMetalMachine names no host")
	w.updateMachine(g, func(m *v1alpha1.BareMetalMachine) { m.Status.HostRef = &v1alpha1.HostReference{Name: "h"} })
	g.Expect(w.HostOfImage(ctx, owner)).To(ConsistOf(HaveField("NamespacedName.Name", "h")), "the wait ends with a change of the Machine")
}

// TestImageBudget: an agent that asks for an image which is being prepared cannot overload the API server, from which each preparation reads the pull Secret. An image
// that is ready has no budget.
func TestImageBudget(t *testing.T) {
	g := NewWithT(t)
	w, images := newAgentWorld(t)
	r := w.agentRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	images.prepared, images.err = 0, image.ErrNotYet
	for range 500 {
		_, err = w.Image(ctx, r)
		g.Expect(err).To(MatchError(pxe.ErrNotYet))
	}
	g.Expect(err).To(MatchError(ContainSubstring("asks too often for an image that is being prepared")))
	g.Expect(images.prepared).To(And(BeNumerically(">", 0), BeNumerically("<", 100)))
	images.err = nil
	opened, err := w.Image(ctx, r)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(opened.Data.Close()).To(Succeed())
}

// TestImageOfEarlierMachine: that a machine before had the same image does not make it ready. What another boot server has for the same claim does.
func TestImageOfEarlierMachine(t *testing.T) {
	g := NewWithT(t)
	w, images := newAgentWorld(t)
	ready := w.reconcileImage(g)
	g.Expect(ready.Ready).To(BeTrue())
	for _, err := range []error{&image.NotReady{Step: "downloading"}, &image.Error{Reason: v1alpha1.ReasonChecksumMismatch, Message: "m"}} {
		images.err = err
		g.Expect(w.reconcileImage(g)).To(Equal(ready), "of the same claim")
		earlier := ready
		earlier.ClaimID = "earlier"
		g.Expect(controllers.ApplyImage(ctx, w.Client, types.NamespacedName{Namespace: "dc", Name: "h"}, earlier)).To(Succeed())
		g.Expect(w.reconcileImage(g).Ready).To(BeFalse(), "%v", err)
		g.Expect(controllers.ApplyImage(ctx, w.Client, types.NamespacedName{Namespace: "dc", Name: "h"}, ready)).To(Succeed())
	}
}

// TestNetworkOfImage: the kernel command line, on which dracut needs the tag in the name of a VLAN, restricts the networks of network boots alone.
func TestNetworkOfImage(t *testing.T) {
	g := NewWithT(t)
	named := func(h *v1alpha1.BareMetalHost) {
		h.Spec.Network = &v1alpha1.HostNetwork{
			Interfaces: []v1alpha1.NetworkInterface{{Name: "eth0"}},
			VLANs:      []v1alpha1.NetworkVLAN{{Name: "storage", ID: 7, Link: "eth0", LinkSettings: v1alpha1.LinkSettings{DHCP4: true}}},
		}
	}
	w, _ := newAgentWorld(t)
	w.giveIgnition(g)
	w.updateHost(g, named)
	w.updateMachine(g, func(m *v1alpha1.BareMetalMachine) { m.Spec.Image.DataSource = wire.DataSourceConfigDrive })
	g.Expect(w.reconcileImage(g).Ready).To(BeTrue())
	r := w.agentRequest(g)
	_, err := w.Plan(ctx, r, hello)
	g.Expect(err).NotTo(HaveOccurred())
	partition, err := w.Data(ctx, r, sda, "http://boot")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(partition.Head)).To(ContainSubstring("CONFIG-2"))

	w = newWorld()
	w.giveIgnition(g)
	w.updateHost(g, named)
	_, err = w.Script(ctx, booting, honest)
	g.Expect(err).To(MatchError(ContainSubstring(`VLAN "storage"`)))
}
