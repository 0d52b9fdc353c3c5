package boot

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// optionsOfGet is a client that keeps the options of its last Get.
type optionsOfGet struct {
	client.Client

	last []client.GetOption
}

func (c *optionsOfGet) Get(_ context.Context, _ client.ObjectKey, _ client.Object, opts ...client.GetOption) error {
	c.last = opts
	return nil
}

// TestSharedReads: the objects behind a range of a boot medium are not copied out of the cache. All others are: their callers change them.
func TestSharedReads(t *testing.T) {
	g := NewWithT(t)
	c, host := &optionsOfGet{}, types.NamespacedName{Namespace: "dc", Name: "h"}
	checker := &tokenChecker{records: &bootRecords{client: c}}
	for p, shared := range map[purpose]bool{forMedia: true, forSeed: false, forAgent: false, forReport: false} {
		_, err := checker.cachedBoot(t.Context(), presentedToken{host: "dc/h", purpose: p})
		g.Expect(err).NotTo(HaveOccurred())
		if shared {
			g.Expect(c.last).To(ContainElement(client.UnsafeDisableDeepCopy), string(p))
		} else {
			g.Expect(c.last).To(BeEmpty(), string(p))
		}
	}
	l := &lookup{client: c}
	g.Expect(l.sharing().client.Get(t.Context(), host, &v1alpha1.BareMetalHost{})).To(Succeed())
	g.Expect(c.last).To(ContainElement(client.UnsafeDisableDeepCopy))
	g.Expect(l.client.Get(t.Context(), host, &v1alpha1.BareMetalHost{})).To(Succeed())
	g.Expect(c.last).To(BeEmpty(), "the other lookup still copies")
}
