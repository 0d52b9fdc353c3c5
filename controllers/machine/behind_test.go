package machine

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/claim"
)

// TestHostBehindCache: a machine that names its host, or chose it, is found to have it by one read while the cache shows no host. Hosts are listed only if a machine that had a host does
// not have the one that it names, and nothing is read if the cache shows that the choice was lost.
func TestHostBehindCache(t *testing.T) {
	for name, test := range map[string]struct {
		named, chosen string // by the machine
		providerID    string
		has           string // according to the API server
		lost          bool   // the cache shows that the choice is closed
		shown         bool   // the cache shows the claim, and its index not yet
		gets, lists   int
	}{
		"new":                            {},
		"named":                          {named: "h-1", has: "h-1", gets: 1},
		"chosen, status not written":     {chosen: "h-1", has: "h-1", gets: 1},
		"chosen, not claimed":            {chosen: "h-1", gets: 1},
		"chosen, and the claim is shown": {chosen: "h-1", has: "h-1", shown: true, gets: 1},
		"chosen and lost":                {chosen: "h-1", lost: true},
		"restored without status":        {providerID: "baremetal://dc/h-1/m", has: "h-1", gets: 1},
		"restored, and lost its host":    {providerID: "baremetal://dc/h-1/m", gets: 1, lists: 1},
		"restored in another namespace":  {providerID: "baremetal://other/h-1/m", has: "h-1", lists: 1},
		"has another host than named":    {named: "h-1", has: "h-2", gets: 1, lists: 1},
		"named, and has no host":         {named: "h-1", gets: 1, lists: 1},
		"named one that is gone":         {named: "gone", has: "h-2", gets: 1, lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			machine := &v1alpha1.BareMetalMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "dc", Name: "m"}}
			r, cache := claimWorld(t, machine, "h-1", "h-2"), claimWorld(t, machine, "h-1", "h-2").Client.(client.WithWatch)
			gets, lists := 0, 0
			r.APIReader = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					gets++
					return c.Get(ctx, key, o, opts...)
				},
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					lists++
					return c.List(ctx, list, opts...)
				},
			})
			machine.Spec.ProviderID = test.providerID
			if test.named != "" {
				machine.Status.HostRef = &v1alpha1.HostReference{Name: test.named}
			}
			if test.chosen != "" {
				host := &v1alpha1.BareMetalHost{}
				g.Expect(cache.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: test.chosen}, host)).To(Succeed())
				claim.Choose(machine, host)
				if test.lost || test.shown {
					host.Labels = map[string]string{"changed": "yes"}
					if test.shown {
						host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m", ClaimID: "c"}
					}
					g.Expect(cache.Update(t.Context(), host)).To(Succeed())
				}
			}
			for _, name := range []string{"h-1", "h-2"} {
				host := &v1alpha1.BareMetalHost{}
				g.Expect(r.Client.Get(t.Context(), client.ObjectKey{Namespace: "dc", Name: name}, host)).To(Succeed())
				host.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "another", ClaimID: "c"}
				if name == test.has {
					host.Spec.ConsumerRef.Name = "m"
				}
				g.Expect(r.Client.Update(t.Context(), host)).To(Succeed())
			}
			r.Client = interceptor.NewClient(cache, interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil }, // by the index of the cache: no host
			})
			s := &scope{machine: machine}
			_, err := r.reconcileHost(t.Context(), s)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(ptr.Deref(s.machine.Status.HostRef, v1alpha1.HostReference{}).Name).To(Equal(test.has))
			g.Expect([]int{gets, lists}).To(Equal([]int{test.gets, test.lists}))
		})
	}
}
