package controllers_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// TestOwnerDeleting: the view shows that the Machine or the Cluster is being deleted, whether or not the other one exists.
func TestOwnerDeleting(t *testing.T) {
	going := metav1.ObjectMeta{DeletionTimestamp: new(metav1.Now())}
	for name, test := range map[string]struct {
		machine *clusterv1.Machine
		cluster *clusterv1.Cluster
		want    bool
	}{
		"none there":         {nil, nil, false},
		"both stay":          {&clusterv1.Machine{}, &clusterv1.Cluster{}, false},
		"the Machine goes":   {&clusterv1.Machine{ObjectMeta: going}, &clusterv1.Cluster{}, true},
		"the Cluster goes":   {&clusterv1.Machine{}, &clusterv1.Cluster{ObjectMeta: going}, true},
		"no Machine is left": {nil, &clusterv1.Cluster{ObjectMeta: going}, true},
	} {
		t.Run(name, func(t *testing.T) {
			consumer := &controllers.Consumer{BareMetalMachine: &v1alpha1.BareMetalMachine{}, Machine: test.machine, Cluster: test.cluster}
			view := controllers.View(&v1alpha1.BareMetalHost{}, nil, consumer, time.Now())
			NewWithT(t).Expect(view.Consumer.OwnerDeleting).To(Equal(test.want))
		})
	}
}

// TestViewImage: a host shows the state of the image of its current claim, and not that of a machine before.
func TestViewImage(t *testing.T) {
	g := NewWithT(t)
	host := &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{ConsumerRef: &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}}}
	boot := &v1alpha1.BareMetalBoot{Status: v1alpha1.BareMetalBootStatus{Image: &v1alpha1.ImageStatus{ClaimID: "c", Checksum: "sha256:1", Ready: true}}}
	consumer := &controllers.Consumer{BareMetalMachine: &v1alpha1.BareMetalMachine{Spec: v1alpha1.BareMetalMachineSpec{Image: &v1alpha1.Image{Checksum: "sha256:1"}}}}
	ready := func() bool { return controllers.View(host, boot, consumer, time.Now()).Observed.Image.Ready }
	g.Expect(ready()).To(BeTrue())
	boot.Status.Image.Checksum = "sha256:2"
	g.Expect(ready()).To(BeFalse(), "another image")
	boot.Status.Image.Checksum, boot.Status.Image.ClaimID = "sha256:1", "earlier"
	g.Expect(ready()).To(BeFalse(), "of another claim")
}

// TestViewNode: a host shows the Node of its current claim's boot, and not the Node of the previous machine.
func TestViewNode(t *testing.T) {
	g := NewWithT(t)
	host := &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{ConsumerRef: &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}, ProviderState: v1alpha1.HostProviderState{Boots: 2}}}
	boot := &v1alpha1.BareMetalBoot{
		Spec:   v1alpha1.BareMetalBootSpec{Number: 2, ClaimID: "c"},
		Status: v1alpha1.BareMetalBootStatus{Node: &v1alpha1.ObservedNode{Name: "n", Number: 2}},
	}
	view := func() *v1alpha1.ObservedNode {
		return controllers.View(host, boot, &controllers.Consumer{}, time.Now()).Observed.Node
	}
	g.Expect(view()).To(Equal(boot.Status.Node))
	boot.Status.Node.Number = 1
	g.Expect(view()).To(BeNil(), "it was observed in an earlier boot")
	boot.Status.Node.Number = 2
	boot.Spec.VoidedTime = new(metav1.Now())
	g.Expect(view()).To(BeNil(), "the claim ended")
	boot.Spec.VoidedTime, host.Spec.ConsumerRef = nil, nil
	g.Expect(view()).To(BeNil(), "the host has no consumer")
}
