package fleet

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// counted guards the numbers of lists, which are made at the same time.
var counted sync.Mutex

var now = time.Date(2026, 11, 29, 10, 30, 0, 0, time.UTC)

func condition(kind string, status metav1.ConditionStatus, reason string, since time.Duration) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-since))}
}

// host is one with a condition Ready that has this reason for some time.
func host(name, domain string, phase v1alpha1.HostPhase, ready metav1.ConditionStatus, reason string, since time.Duration) v1alpha1.BareMetalHost {
	return v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name}, Spec: v1alpha1.BareMetalHostSpec{FailureDomain: domain},
		Status: v1alpha1.BareMetalHostStatus{Phase: phase, Conditions: []metav1.Condition{condition(v1alpha1.ReadyCondition, ready, reason, since)}},
	}
}

func objects() *Objects {
	running := host("running", "r2", v1alpha1.PhaseProvisioned, metav1.ConditionTrue, "Ready", time.Hour)
	running.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
	running.Status.Hardware = &v1alpha1.Hardware{Health: wire.HealthWarning, Model: "R640"}
	lost := host("lost", "r2", v1alpha1.PhaseProvisioned, metav1.ConditionTrue, "Ready", time.Hour)
	lost.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "gone"}
	return &Objects{
		Hosts: []v1alpha1.BareMetalHost{
			host("free", "r1", v1alpha1.PhaseAvailable, metav1.ConditionTrue, "Ready", time.Hour),
			running, lost,
			host("registering", "r1", v1alpha1.PhaseRegistering, metav1.ConditionFalse, v1alpha1.ReasonInspecting, time.Second),
			host("refused", "r1", v1alpha1.PhaseRegistering, metav1.ConditionFalse, v1alpha1.ReasonCredentialsRefused, 2*time.Hour),
		},
		Machines: []v1alpha1.BareMetalMachine{
			{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}}, Status: v1alpha1.BareMetalMachineStatus{HostRef: &v1alpha1.HostReference{Name: "running"}}},
			{
				ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "pending", Labels: map[string]string{clusterv1.ClusterNameLabel: "c"}},
				Status: v1alpha1.BareMetalMachineStatus{
					Phase: v1alpha1.MachinePending, Conditions: []metav1.Condition{condition(v1alpha1.HostClaimedCondition, metav1.ConditionFalse, v1alpha1.ReasonNoHostFits, time.Hour)},
				},
			},
		},
	}
}

// TestRows: what needs attention comes first, and each row says what is known of its host.
func TestRows(t *testing.T) {
	g := NewWithT(t)
	rows := Rows(objects(), now)
	names := make([]string, 0, len(rows))
	byName := map[string]Row{}
	for _, r := range rows {
		names = append(names, r.Name)
		byName[r.Name] = r
	}
	g.Expect(names).To(ConsistOf("free", "running", "lost", "registering", "refused", "pending"))
	g.Expect(names[:2]).To(ConsistOf("refused", "pending"))            // the faults
	g.Expect(names[2:4]).To(Equal([]string{"registering", "running"})) // running has a warning
	g.Expect(byName["refused"].NeedsAction).To(BeTrue())
	g.Expect(byName["free"].State).To(Equal(why.Done))
	g.Expect(byName["running"]).To(And(HaveField("Cluster", "c"), HaveField("Health", "Warning"), HaveField("Model", "R640")))
	g.Expect(byName["lost"].Cluster).To(Equal(NotRead))
	g.Expect(byName["pending"]).To(And(HaveField("Kind", why.KindBareMetalMachine), HaveField("Phase", "Pending")))
}

// TestUnhealthyRows: a server with a failed part needs action, also while its machine runs.
func TestUnhealthyRows(t *testing.T) {
	g := NewWithT(t)
	o := objects()
	o.Hosts[1].Status.Conditions = append(o.Hosts[1].Status.Conditions, condition(v1alpha1.HardwareHealthyCondition, metav1.ConditionFalse, v1alpha1.ReasonDiskUnhealthy, 3*time.Hour))
	first := Rows(o, now)[0]
	g.Expect(first).To(And(HaveField("Name", "running"), HaveField("NeedsAction", true), HaveField("Reason", v1alpha1.ReasonDiskUnhealthy)))
}

// TestGroups: hosts are counted once, and machines without a host are not hosts.
func TestGroups(t *testing.T) {
	g := NewWithT(t)
	rows := Rows(objects(), now)
	groups, err := Groups(rows, "domain")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(groups).To(Equal([]Group{{Name: "r1", Hosts: 3, Available: 1, NeedAction: 1}, {Name: "r2", Hosts: 2, InUse: 2, Unhealthy: 1}}))
	g.Expect(Total(rows)).To(Equal(Group{Hosts: 5, InUse: 2, Available: 1, NeedAction: 1, Unhealthy: 1}))
	for _, key := range Keys() {
		groups, err := Groups(rows, key)
		g.Expect(err).NotTo(HaveOccurred())
		total := 0
		for _, group := range groups {
			total += group.Hosts
		}
		g.Expect(total).To(Equal(5), key)
	}
	_, err = Groups(rows, "color")
	g.Expect(err).To(MatchError(ContainSubstring("use one of [cluster domain health phase]")))
}

// forbid is a client that may not list these kinds.
func forbid(t *testing.T, lists map[string]int, kinds ...string) client.WithWatch {
	t.Helper()
	o := objects()
	builder := fake.NewClientBuilder().WithScheme(access.Scheme())
	for i := range o.Hosts {
		builder = builder.WithObjects(&o.Hosts[i])
	}
	for i := range o.Machines {
		builder = builder.WithObjects(&o.Machines[i])
	}
	resource := map[string]schema.GroupResource{}
	for _, kind := range kinds {
		resource[kind+"List"] = schema.GroupResource{Group: v1alpha1.GroupVersion.Group, Resource: kind}
	}
	return builder.WithInterceptorFuncs(interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
		gvk, err := c.GroupVersionKindFor(list)
		if err != nil {
			return err
		}
		counted.Lock()
		lists[gvk.Kind]++
		counted.Unlock()
		if of, ok := resource[gvk.Kind]; ok {
			return apierrors.NewForbidden(of, "", errors.New("no"))
		}
		return c.List(ctx, list, options...)
	}}).Build()
}

// TestRead: each kind is listed once. A kind that may not be read does not fail the rest, except hosts.
func TestRead(t *testing.T) {
	g := NewWithT(t)
	lists := map[string]int{}
	o, _, err := Read(t.Context(), forbid(t, lists), "prod")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Hosts).To(HaveLen(5))
	g.Expect(o.Unread).To(BeEmpty())
	g.Expect(lists).To(Equal(map[string]int{"BareMetalHostList": 1, "BareMetalBootList": 1, "BareMetalMachineList": 1}))

	o, _, err = Read(t.Context(), forbid(t, lists, why.KindBareMetalMachine), "prod")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Unread).To(Equal([]why.Unread{{Kind: why.KindBareMetalMachine, Cause: why.NotPermitted}}))
	for _, r := range Rows(o, now) {
		g.Expect(r.Machine == "" || r.Cluster == NotRead).To(BeTrue(), r.Name)
	}

	_, _, err = Read(t.Context(), forbid(t, lists, why.KindHost), "")
	g.Expect(err).To(MatchError(ContainSubstring("in all namespaces is not permitted: use -n NAMESPACE")))
}

// TestFollowUnwatched: a kind that may be listed and not watched is polled, and the snapshots say so. The other kinds are watched meanwhile.
func TestFollowUnwatched(t *testing.T) {
	for name, test := range map[string]struct {
		kind    string
		poll    time.Duration
		refused time.Duration // what the API server takes to refuse the watch
		again   bool          // all is read again before the change is shown
	}{
		"boots":                          {why.KindBoot, time.Hour, 0, false},
		"hosts":                          {why.KindHost, time.Minute, 0, true},
		"hosts, refused after two polls": {why.KindHost, time.Minute, 150 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := NewWithT(t)
				lists := map[string]int{}
				c := interceptor.NewClient(forbid(t, lists), interceptor.Funcs{
					Watch: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) (watch.Interface, error) {
						gvk, err := c.GroupVersionKindFor(list)
						if err == nil && gvk.Kind == test.kind+"List" {
							<-time.After(test.refused)
							err = apierrors.NewForbidden(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, "", errors.New("no"))
						}
						if err != nil {
							return nil, err
						}
						return c.Watch(ctx, list, options...)
					},
				})
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
				defer cancel()
				f := &Follower{Client: c, Namespace: "prod", RetryDelay: time.Millisecond, PollInterval: test.poll}
				changed := false
				err := f.Run(ctx, func(s Snapshot) time.Duration {
					if len(s.Unwatched) == 0 || ctx.Err() != nil {
						return 0
					}
					g.Expect(s.Unwatched).To(Equal([]string{test.kind}))
					for i := range s.Objects.Hosts {
						if s.Objects.Hosts[i].Name == "free" && s.Objects.Hosts[i].Labels["try"] != "" {
							changed = true
							cancel()
							return time.Hour // the end does not wait for it
						}
					}
					h := &v1alpha1.BareMetalHost{}
					g.Expect(c.Get(ctx, client.ObjectKey{Namespace: "prod", Name: "free"}, h)).To(Succeed())
					h.Labels = map[string]string{"try": h.Labels["try"] + "x"} // again, if the watch began only after the change
					g.Expect(c.Update(ctx, h)).To(Succeed())
					return 0
				})
				g.Expect(err).NotTo(HaveOccurred())
				g.Expect(changed).To(BeTrue())
				if test.again {
					g.Expect(lists["BareMetalHostList"]).To(BeNumerically(">", 1))
				} else {
					g.Expect(lists["BareMetalHostList"]).To(BeNumerically("<=", 1))
				}
			})
		})
	}
}

// TestReadNamed: a name that does not exist is an error, and a machine that does not exist is not.
func TestReadNamed(t *testing.T) {
	g := NewWithT(t)
	c := forbid(t, map[string]int{})
	o, err := ReadNamed(t.Context(), c, "prod", []string{"running", "lost"})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(o.Hosts).To(HaveLen(2))
	g.Expect(o.Machines).To(HaveLen(1))
	g.Expect(o.Unread).To(BeEmpty())
	_, err = ReadNamed(t.Context(), c, "prod", []string{"none"})
	g.Expect(err).To(MatchError(ContainSubstring(`there is no BareMetalHost "none" in the namespace "prod"`)))
}
