package rig_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/endure/rig"
)

var env *controllerstest.Env

func TestMain(m *testing.M) { controllerstest.Main(m, &env) }

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRig runs two sites side by side. On each a server is provisioned and released; on one of them the provider is halted twice on the way.
func TestRig(t *testing.T) {
	for _, name := range []string{"undisturbed", "halted"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := NewWithT(t)
			site := rig.NewSite(t, env)
			settings := controllerstest.Settings()
			settings.BootTimeout = 2 * time.Minute // long enough for one boot, even if the provider is halted during the boot
			var writes atomic.Int32
			halted := name == "halted"
			start := func(most int32) *rig.Provider {
				var p *rig.Provider
				writes.Store(0)
				p = site.Provider(t, rig.Options{Settings: settings, WrapTransport: func(next http.RoundTripper) http.RoundTripper {
					return roundTripper(func(r *http.Request) (*http.Response, error) {
						if r.Method != http.MethodGet && writes.Add(1) == most {
							p.Kill()
						}
						return next.RoundTrip(r)
					})
				}})
				return p.Start(t)
			}
			if halted {
				site.Server(t, "s", rig.ServerOptions{Node: true, Sessions: true})
			} else {
				site.Server(t, "s", rig.ServerOptions{Node: true})
			}
			s := site.Servers()[0].Register(t)
			claim := site.Claim(t, "m-"+site.Namespace)
			if halted {
				for _, most := range []int32{5, 20} {
					p := start(most)
					g.Eventually(p.Killed(), time.Minute).Should(BeClosed())
					p.Halt()
					before := writes.Load()
					g.Consistently(writes.Load, 300*time.Millisecond).Should(Equal(before), "a halted provider wrote")
				}
			}
			p := start(-1).Ready(t)
			controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
				g.Expect(m.Spec.ProviderID).To(Equal("baremetal://" + site.Namespace + "/s/" + m.Name))
			})
			node := &corev1.Node{}
			node.Name = claim.Machine.Name
			controllerstest.Wait(t, env, node, func(g Gomega, n *corev1.Node) {
				g.Expect(n.Spec.ProviderID).To(HaveSuffix("/s/" + n.Name))
			})
			// After a halt the provider does not know which boot device was set, and may set it again.
			g.Expect(slices.Compact(s.CommandNames())).To(Equal([]string{"Boot=PXE", "On"}))
			g.Expect(s.Lives()).To(HaveLen(1))
			g.Expect(s.Last().Reported()).To(BeTrue())
			g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
			env.Gone(t, claim.BareMetalMachine)
			g.Expect(s.On()).To(BeFalse())
			g.Expect(p.Stop()).To(Succeed())
			g.Expect(client.IgnoreNotFound(env.Client.Delete(t.Context(), node))).To(Succeed())
		})
	}
}
