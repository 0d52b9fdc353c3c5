package cluster

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

func numbered(n int) []string {
	var names []string
	for i := range n {
		names = append(names, fmt.Sprintf("rack-%03d", i))
	}
	return names
}

// TestTooManyFailureDomains: the failure domains of the spec come first, and a message lists those that exceed the limit of Cluster API.
func TestTooManyFailureDomains(t *testing.T) {
	g := NewWithT(t)
	found := numbered(113)
	declared := []clusterv1.FailureDomain{{Name: "rack-112", ControlPlane: new(true)}, {Name: "z"}}
	domains, left := merge(declared, found)
	g.Expect(domains).To(HaveLen(100))
	g.Expect(slices.IsSortedFunc(domains, func(a, b clusterv1.FailureDomain) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})).To(BeTrue())
	g.Expect(domains[98]).To(Equal(clusterv1.FailureDomain{Name: "rack-112", ControlPlane: new(true)}))
	g.Expect(domains[99]).To(Equal(clusterv1.FailureDomain{Name: "z", ControlPlane: new(false)}))
	g.Expect(left).To(Equal(found[98:112]))

	c := failureDomainsCondition(declared[:1], found, left)
	g.Expect(c.Status).To(Equal(metav1.ConditionFalse))
	g.Expect(c.Reason).To(Equal(v1alpha1.ReasonTooManyFailureDomains))
	g.Expect(c.Message).To(Equal("Cluster API accepts 100 failure domains, so these are left out: rack-098, rack-099, rack-100, rack-101, rack-102, rack-103, rack-104, " +
		"rack-105, rack-106, rack-107 and 4 more. List the relevant ones in spec.failureDomains, or use fewer and larger failure domains"))
	c = failureDomainsCondition(declared, found, left)
	g.Expect(c.Reason).To(Equal(v1alpha1.ReasonFailureDomainWithoutHosts))
	g.Expect(c.Message).To(And(ContainSubstring("no host of the namespace is in z (the hosts are in rack-000, "), ContainSubstring("; Cluster API accepts 100")))

	domains, left = merge(nil, numbered(100))
	g.Expect(domains).To(HaveLen(100))
	g.Expect(left).To(BeEmpty())
}

func TestJudge(t *testing.T) {
	g := NewWithT(t)
	g.Expect(failureDomainsCondition(nil, nil, nil)).To(Equal(metav1.Condition{
		Type: v1alpha1.FailureDomainsReadyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonNoFailureDomains,
	}))
	g.Expect(failureDomainsCondition([]clusterv1.FailureDomain{{Name: "a"}}, nil, nil).Message).To(ContainSubstring("is in a (no host has a spec.failureDomain). Machines"))
}

// TestDomainsChanged: only changes of hosts that affect their failure domains enqueue the clusters.
func TestDomainsChanged(t *testing.T) {
	g := NewWithT(t)
	p := domainsChanged()
	in := func(domain string) *v1alpha1.BareMetalHost {
		return &v1alpha1.BareMetalHost{Spec: v1alpha1.BareMetalHostSpec{FailureDomain: domain}}
	}
	leaving := in("a")
	leaving.DeletionTimestamp = new(metav1.Now())
	powered := in("a")
	powered.Status.Power = v1alpha1.PowerOn
	g.Expect(p.Create(event.CreateEvent{Object: in("a")})).To(BeTrue())
	g.Expect(p.Create(event.CreateEvent{Object: in("")})).To(BeFalse())
	g.Expect(p.Update(event.UpdateEvent{ObjectOld: in("a"), ObjectNew: in("b")})).To(BeTrue())
	g.Expect(p.Update(event.UpdateEvent{ObjectOld: in("a"), ObjectNew: powered})).To(BeFalse())
	g.Expect(p.Update(event.UpdateEvent{ObjectOld: in("a"), ObjectNew: leaving})).To(BeTrue())
	g.Expect(p.Update(event.UpdateEvent{ObjectOld: leaving, ObjectNew: leaving})).To(BeFalse())
	g.Expect(p.Delete(event.DeleteEvent{Object: in("a")})).To(BeTrue())
	g.Expect(p.Delete(event.DeleteEvent{Object: leaving})).To(BeFalse())
	g.Expect(p.Generic(event.GenericEvent{Object: in("a")})).To(BeFalse())
}

func TestIsHost(t *testing.T) {
	g := NewWithT(t)
	for _, host := range []string{"192.0.2.1", "2001:db8::1", "api.example.com", "api"} {
		g.Expect(isHost(host)).To(BeTrue(), host)
	}
	for _, host := range []string{"https://api", "api:6443", "-api", "fe80::1%eth0", "::ffff:192.0.2.1", "[2001:db8::1]"} {
		g.Expect(isHost(host)).To(BeFalse(), host)
	}
}
