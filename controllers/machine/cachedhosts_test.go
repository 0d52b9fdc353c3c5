package machine

import (
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestCachedHosts: a host is in its namespace from when the cache shows it until it is deleted, and free until it is claimed.
func TestCachedHosts(t *testing.T) {
	g := NewWithT(t)
	host := func(namespace, name, machine string) *v1alpha1.BareMetalHost {
		h := &v1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		if machine != "" {
			h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: machine}
		}
		return h
	}
	var f cachedHosts
	names := func(namespace string) []string {
		all := []string{}
		for h := range f.freeInNamespace(namespace) {
			all = append(all, h.Name)
		}
		slices.Sort(all)
		return all
	}
	g.Expect(names("dc")).To(BeEmpty())
	f.remove(host("dc", "a", ""))
	f.update(host("dc", "a", "m"))
	g.Expect(names("dc")).To(BeEmpty())
	for _, h := range []*v1alpha1.BareMetalHost{host("dc", "a", ""), host("dc", "b", ""), host("other", "c", ""), host("dc", "a", "")} {
		f.update(h)
	}
	g.Expect(names("dc")).To(Equal([]string{"a", "b"}))
	g.Expect(names("other")).To(Equal([]string{"c"}))
	f.update(host("dc", "a", "m"))
	f.remove(host("other", "c", ""))
	g.Expect(names("dc")).To(Equal([]string{"b"}))
	g.Expect(names("other")).To(BeEmpty())
	g.Expect(f.inNamespace("dc")).To(HaveLen(2))
	g.Expect(f.inNamespace("other")).To(BeEmpty())
	g.Expect(f.free).NotTo(HaveKey("other"), "nothing is kept of a namespace without hosts")
	g.Expect(f.all).NotTo(HaveKey("other"))
	for range f.freeInNamespace("dc") { // an iteration may stop early
		break
	}
}
