package host_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/controllerstest"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers/host"
)

// fleet registers four servers that the profile selects.
func fleet(t *testing.T, namespace string, prepare func(*controllerstest.Server)) []*controllerstest.Server {
	t.Helper()
	servers := make([]*controllerstest.Server, 4)
	for i := range servers {
		servers[i] = controllerstest.NewServer(t, namespace, fmt.Sprintf("h%d", i), bmctest.Options{})
		servers[i].Host.Labels = map[string]string{"profile": "p"}
		prepare(servers[i])
		register(t, servers[i])
	}
	return servers
}

// restarted waits until the server of a host is on for its run, and returns it and the others. Meanwhile no second run is open.
func restarted(t *testing.T, servers []*controllerstest.Server) (one *controllerstest.Server, others []*controllerstest.Server) {
	t.Helper()
	NewWithT(t).Eventually(func(g Gomega) {
		one, others = nil, nil
		for _, server := range servers {
			h := &v1alpha1.BareMetalHost{}
			g.Expect(env.Client.Get(t.Context(), keyOf(server.Host), h)).To(Succeed())
			open := h.Spec.ProviderState.SettingsRuns > h.Spec.ProviderState.SettingsRunsEnded
			if open && one != nil {
				StopTrying(fmt.Sprintf("hosts %s and %s are changed at once", one.Host.Name, h.Name)).Now()
			}
			if open {
				one = server
			} else {
				others = append(others, server)
			}
		}
		g.Expect(one).NotTo(BeNil())
		g.Expect(one.On()).To(BeTrue())
	}, inspectionTimeout, 100*time.Millisecond).Should(Succeed())
	return one, others
}

// runsOf returns how many runs of a host were counted.
func runsOf(t *testing.T, server *controllerstest.Server) int32 {
	t.Helper()
	h := &v1alpha1.BareMetalHost{}
	NewWithT(t).Expect(env.Client.Get(t.Context(), keyOf(server.Host), h)).To(Succeed())
	return h.Spec.ProviderState.SettingsRuns
}

// TestRolloutMaxUnavailable: as many hosts are changed at once as the profile permits, in all and in a failure domain, and all in the end.
func TestRolloutMaxUnavailable(t *testing.T) {
	for name, limit := range map[string]func(*v1alpha1.ProfileRollout){
		"in all":              func(r *v1alpha1.ProfileRollout) { r.MaxUnavailable = 1 },
		"in a failure domain": func(r *v1alpha1.ProfileRollout) { r.MaxUnavailable, r.MaxUnavailablePerFailureDomain = 4, 1 },
	} {
		t.Run(name, func(t *testing.T) {
			defer startProfiles(t, &shiftedClock{})()
			namespace := env.Namespace(t)
			profileOf(t, namespace, "WorkloadProfile", "LowLatency", func(s *v1alpha1.BareMetalProfileSpec) { limit(&s.Rollout) })
			rollOut(t, fleet(t, namespace, func(s *controllerstest.Server) { s.Host.Spec.FailureDomain = "rack-1" }))
		})
	}
}

// rollOut changes servers one after the other. Meanwhile the others are queued.
func rollOut(t *testing.T, servers []*controllerstest.Server) {
	t.Helper()
	g := NewWithT(t)
	for range servers {
		one, others := restarted(t, servers)
		for _, other := range others {
			wait(t, other, func(g Gomega, h *v1alpha1.BareMetalHost) {
				queued := conditions.GetReason(h, v1alpha1.AvailableCondition) == v1alpha1.ReasonSettingsQueued
				g.Expect(queued || h.Spec.ProviderState.SettingsRuns == 1).To(BeTrue(), conditions.GetMessage(h, v1alpha1.AvailableCondition))
			})
		}
		endRestart(t, one)
		wait(t, one, phase(v1alpha1.PhaseAvailable))
	}
	for _, server := range servers {
		g.Expect(server.BIOS()).To(HaveKeyWithValue("WorkloadProfile", "LowLatency"))
		g.Expect(runsOf(t, server)).To(Equal(int32(1)))
	}
}

// TestRolloutMaxFailures: after as many hosts as the profile permits did not get the settings, no further host is changed, also by a profile that is created again.
func TestRolloutMaxFailures(t *testing.T) {
	g := NewWithT(t)
	clock := &shiftedClock{}
	defer startProfiles(t, clock)()
	namespace := env.Namespace(t)
	limits := func(s *v1alpha1.BareMetalProfileSpec) { // with the default scope, a host that is offered with its old settings waits for nothing
		s.Rollout.Scope, s.Rollout.MaxUnavailable, s.Rollout.MaxFailures = v1alpha1.ScopeAvailableHosts, 1, 1
	}
	p := profileOf(t, namespace, "WorkloadProfile", "LowLatency", limits)
	servers := fleet(t, namespace, func(s *controllerstest.Server) { misbehave(t, s, bmctest.BIOSNeverApplied, -1) })
	one, others := restarted(t, servers)
	endRestart(t, one)
	g.Eventually(one.On, time.Minute).Should(BeFalse())
	clock.forward(11 * time.Minute)
	controllerstest.Modify(t, env, one.Host, func(h *v1alpha1.BareMetalHost) { h.Annotations = map[string]string{"wake": "up"} })
	wait(t, one, phase(v1alpha1.PhaseQuarantined))
	stops := func(uid string) {
		t.Helper()
		for _, other := range others {
			wait(t, other, func(g Gomega, h *v1alpha1.BareMetalHost) {
				g.Expect(conditions.GetMessage(h, v1alpha1.SettingsConformCondition)).To(ContainSubstring("stopped after 1 hosts"))
				read := &v1alpha1.BareMetalSettings{}
				g.Expect(env.Client.Get(t.Context(), keyOf(other.Host), read)).To(Succeed())
				g.Expect(read.Status.Profile).To(HaveValue(HaveField("UID", uid)))
			})
			g.Expect(runsOf(t, other)).To(BeZero())
			g.Expect(staged(other)).To(BeZero())
		}
	}
	stops(string(p.UID))
	g.Expect(env.Client.Delete(t.Context(), p)).To(Succeed())
	stops(string(profileOf(t, namespace, "WorkloadProfile", "LowLatency", limits).UID))
}

// TestRolloutMinAvailable: hosts that are Available are changed only as long as enough others are left.
func TestRolloutMinAvailable(t *testing.T) {
	g := NewWithT(t)
	defer startProfiles(t, &shiftedClock{})()
	namespace := env.Namespace(t)
	servers := fleet(t, namespace, func(*controllerstest.Server) {})
	for _, server := range servers {
		wait(t, server, phase(v1alpha1.PhaseAvailable))
	}
	profileOf(t, namespace, "WorkloadProfile", "LowLatency", func(s *v1alpha1.BareMetalProfileSpec) {
		s.Rollout.Scope, s.Rollout.MaxUnavailable, s.Rollout.MinAvailable = v1alpha1.ScopeAvailableHosts, 4, new(int32(3))
	})
	for range servers {
		one, others := restarted(t, servers)
		for _, other := range others {
			g.Expect(env.Client.Get(t.Context(), keyOf(other.Host), other.Host)).To(Succeed())
			g.Expect(other.Host.Status.Phase).To(Equal(v1alpha1.PhaseAvailable))
		}
		endRestart(t, one)
		wait(t, one, phase(v1alpha1.PhaseAvailable))
	}
	for _, server := range servers {
		g.Expect(runsOf(t, server)).To(Equal(int32(1)))
	}
}

// refusingClient refuses to count the runs of a host.
type refusingClient struct {
	client.Client

	host    client.ObjectKey
	refused atomic.Int32
}

func (c *refusingClient) Patch(ctx context.Context, o client.Object, patch client.Patch, options ...client.PatchOption) error {
	if h, ok := o.(*v1alpha1.BareMetalHost); ok && client.ObjectKeyFromObject(h) == c.host && h.Spec.ProviderState.SettingsRuns > 0 {
		c.refused.Add(1)
		return apierrors.NewForbidden(v1alpha1.GroupVersion.WithResource("baremetalhosts").GroupResource(), h.Name, errors.New("not this one"))
	}
	return c.Client.Patch(ctx, o, patch, options...)
}

// TestRolloutWithoutStart: a host whose run cannot be started gets a slot again and again, and keeps no other host from one.
func TestRolloutWithoutStart(t *testing.T) {
	namespace := env.Namespace(t)
	refusing := &refusingClient{host: client.ObjectKey{Namespace: namespace, Name: "h0"}}
	defer startReconcilerOn(t, &host.Reconciler{Settings: controllerstest.Settings(), Profiles: true}, func(c client.Client) client.Client {
		refusing.Client = c
		return refusing
	})()
	profileOf(t, namespace, "WorkloadProfile", "LowLatency", func(s *v1alpha1.BareMetalProfileSpec) { s.Rollout.MaxUnavailable = 1 })
	first := profiledServer(t, namespace, "h0")
	NewWithT(t).Eventually(refusing.refused.Load, inspectionTimeout).Should(BeNumerically(">", 0))
	second := profiledServer(t, namespace, "h1")
	endRestart(t, second)
	wait(t, second, phase(v1alpha1.PhaseAvailable))
	NewWithT(t).Expect(runsOf(t, first)).To(BeZero())
}
