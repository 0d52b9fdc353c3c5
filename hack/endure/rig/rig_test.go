package rig_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
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

// TestImage: the real agent writes an image, the server boots it, and the release erases it. The points of the agent come in their order.
func TestImage(t *testing.T) {
	for _, source := range []wire.DataSource{wire.DataSourceNoCloud, wire.DataSourceConfigDrive} {
		t.Run(string(source), func(t *testing.T) {
			t.Parallel()
			testImage(t, source)
		})
	}
}

func testImage(t *testing.T, source wire.DataSource) {
	t.Helper()
	g := NewWithT(t)
	site := rig.NewSite(t, env)
	settings := controllerstest.Settings()
	settings.BootTimeout = 2 * time.Minute
	var mu sync.Mutex
	var points []string
	s := site.Server(t, "s", rig.ServerOptions{Node: true, Disk: true, Point: func(_ context.Context, point string) error {
		mu.Lock()
		defer mu.Unlock()
		points = append(points, point)
		return nil
	}}).Register(t)
	p := site.Provider(t, rig.Options{Settings: settings}).Start(t).Ready(t)
	claim := site.Claim(t, "m-"+site.Namespace, site.WithImage(t), func(c *controllerstest.Claim) { c.BareMetalMachine.Spec.Image.DataSource = source })
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Spec.ProviderID).To(Equal("baremetal://"+site.Namespace+"/s/"+m.Name), s.AgentLog())
	})
	g.Expect(s.Lives()).To(HaveLen(1))
	g.Expect(s.Last().FromDisk).To(BeTrue())
	g.Expect(s.Last().Machine).To(Equal(claim.Machine.Name))
	boots, data, err := s.Left()
	g.Expect([]any{boots, data, err}).To(Equal([]any{true, true, nil}))

	g.Expect(env.Client.Delete(t.Context(), claim.BareMetalMachine)).To(Succeed())
	env.Gone(t, claim.BareMetalMachine)
	boots, data, err = s.Left()
	g.Expect([]any{boots, data, err}).To(Equal([]any{false, false, nil}))
	g.Expect(s.On()).To(BeFalse())
	g.Expect(s.Torn()).To(BeEmpty())
	g.Expect(p.Stop()).To(Succeed())
	points = slices.DeleteFunc(points, func(point string) bool { return point == "agent progress" || point == "agent manifest" })
	g.Expect(points).To(Equal([]string{
		rig.PlanPoint, rig.ImagePoint(1), rig.ImagePoint(2), rig.ImagePoint(3), rig.ImagePoint(4), rig.DataPoint, rig.CommitPoint, rig.ResultPoint, rig.DiskPoint,
		rig.PlanPoint, rig.ResultPoint,
	}))
	node := &corev1.Node{}
	node.Name = claim.Machine.Name
	g.Expect(client.IgnoreNotFound(env.Client.Delete(t.Context(), node))).To(Succeed())
}

// TestSecondInterface: a server whose first interface has no link boots from the second one, and the boot shows it.
func TestSecondInterface(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	site := rig.NewSite(t, env)
	s := site.Server(t, "s", rig.ServerOptions{Node: true})
	s.Host.Spec.BootMACAddresses = []string{"52:54:00:fe:00:01", s.MAC}
	s.Register(t)
	p := site.Provider(t, rig.Options{Settings: controllerstest.Settings()}).Start(t).Ready(t)
	claim := site.Claim(t, "m-"+site.Namespace)
	controllerstest.Wait(t, env, claim.BareMetalMachine, func(g Gomega, m *v1alpha1.BareMetalMachine) {
		g.Expect(m.Spec.ProviderID).To(Equal("baremetal://" + site.Namespace + "/s/" + m.Name))
	})
	boot := &v1alpha1.BareMetalBoot{}
	g.Expect(env.Client.Get(t.Context(), client.ObjectKeyFromObject(s.Host), boot)).To(Succeed())
	g.Expect(boot.Spec.ScriptMACAddress).To(Equal(s.MAC))
	g.Expect(s.Lives()).To(HaveLen(1))
	g.Expect(p.Stop()).To(Succeed())
	node := &corev1.Node{}
	node.Name = claim.Machine.Name
	g.Expect(client.IgnoreNotFound(env.Client.Delete(t.Context(), node))).To(Succeed())
}

// TestSwappedRows: two rows of a rack file have each other's MAC addresses. The provider powers on the server of one row, and when the other server restarts it boots for
// that row. Its agent notices, its disk is not touched, and it is restarted: neither an image nor an erasure goes to the wrong server.
func TestSwappedRows(t *testing.T) {
	for name, erases := range map[string]bool{"imaging": false, "erasing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testSwappedRows(t, erases)
		})
	}
}

func testSwappedRows(t *testing.T, erases bool) {
	t.Helper()
	g := NewWithT(t)
	site := rig.NewSite(t, env)
	settings := controllerstest.Settings()
	settings.BootTimeout = 2 * time.Minute
	right, wrong := site.Server(t, "right", rig.ServerOptions{Disk: true}), site.Server(t, "wrong", rig.ServerOptions{Disk: true})
	before := plant(t, wrong)
	right.Host.Spec.BootMACAddresses = []string{wrong.MAC}
	right.Register(t)
	if erases {
		controllerstest.RequestErasure(t, env, right.Host, bmctest.SerialNumber("right"), wire.PolicyClear)
	}
	p := site.Provider(t, rig.Options{Settings: settings}).Start(t).Ready(t)
	if !erases {
		site.Claim(t, "m-"+site.Namespace, site.WithImage(t))
	}
	boot := &v1alpha1.BareMetalBoot{}
	boot.Namespace, boot.Name = site.Namespace, "right"
	controllerstest.Wait(t, env, boot, func(g Gomega, b *v1alpha1.BareMetalBoot) { g.Expect(b.Spec.PoweredOnTime).NotTo(BeNil()) })
	wrong.Restart()
	controllerstest.Wait(t, env, right.Host, func(g Gomega, h *v1alpha1.BareMetalHost) {
		text := fmt.Sprint(h.Status.Conditions)
		g.Expect(text).To(And(ContainSubstring("another server than the host's"), ContainSubstring(bmctest.SerialNumber("right")), ContainSubstring(bmctest.SerialNumber("wrong"))), wrong.AgentLog())
	})
	g.Eventually(wrong.AgentLog, time.Minute).Should(ContainSubstring("The server restarts"))
	g.Expect(wrong.On()).To(BeTrue(), "it has a system of its own")
	g.Expect(digest(t, wrong)).To(Equal(before), "the disk of the other server was touched")
	g.Expect(wrong.Lives()).To(BeEmpty())
	g.Expect(p.Stop()).To(Succeed())
}
