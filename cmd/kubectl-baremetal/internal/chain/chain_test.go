package chain

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	bootstrapv1 "github.com/capbm-io/cluster-api-provider-baremetal/api/bootstrap/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

var now = time.Date(2026, 11, 29, 10, 30, 0, 0, time.UTC)

func metaOf(name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "prod", Name: name, Labels: labels, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour))}
}

func condition(kind string, status metav1.ConditionStatus, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-time.Minute))}
}

// machine is a Machine of the MachineDeployment workers with its BareMetalMachine.
func machine(name string, claimed metav1.Condition, host string) []client.Object {
	labels := map[string]string{clusterv1.ClusterNameLabel: "c", clusterv1.MachineDeploymentNameLabel: "workers"}
	m := &clusterv1.Machine{ObjectMeta: metaOf(name, labels), Spec: clusterv1.MachineSpec{
		ClusterName:       "c",
		InfrastructureRef: clusterv1.ContractVersionedObjectReference{Kind: why.KindBareMetalMachine, Name: name + "-i", APIGroup: v1alpha1.GroupVersion.Group},
		Bootstrap:         clusterv1.Bootstrap{ConfigRef: clusterv1.ContractVersionedObjectReference{Kind: why.KindConfig, Name: name + "-b", APIGroup: bootstrapv1.GroupVersion.Group}},
	}}
	m.Status.Conditions = []metav1.Condition{condition(clusterv1.MachineNodeHealthyCondition, metav1.ConditionTrue, "NodeHealthy")}
	infra := &v1alpha1.BareMetalMachine{ObjectMeta: metaOf(name+"-i", labels)}
	infra.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion.String(), Kind: why.KindMachine, Name: name, UID: "u"}}
	infra.Status.Conditions = []metav1.Condition{claimed, condition(v1alpha1.HostBootedCondition, metav1.ConditionTrue, v1alpha1.ReasonBooted)}
	if host != "" {
		infra.Status.HostRef = &v1alpha1.HostReference{Name: host}
	}
	return []client.Object{m, infra, &bootstrapv1.BareMetalConfig{ObjectMeta: metaOf(name+"-b", labels), Status: bootstrapv1.BareMetalConfigStatus{
		Conditions: []metav1.Condition{condition("Ready", metav1.ConditionTrue, bootstrapv1.ReasonDataSecretCreated)},
	}}}
}

// world is a cluster with a machine that runs and one that no host fits.
func world() []client.Object {
	cluster := &clusterv1.Cluster{ObjectMeta: metaOf("c", nil)}
	cluster.Spec.InfrastructureRef = clusterv1.ContractVersionedObjectReference{Kind: why.KindBareMetalCluster, Name: "c", APIGroup: v1alpha1.GroupVersion.Group}
	infra := &v1alpha1.BareMetalCluster{ObjectMeta: metaOf("c", nil)}
	infra.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionTrue, v1alpha1.ReasonEndpointSet)}
	host := &v1alpha1.BareMetalHost{ObjectMeta: metaOf("server-1", nil), Spec: v1alpha1.BareMetalHostSpec{ConsumerRef: &v1alpha1.ConsumerReference{Name: "runs-i"}}}
	host.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionTrue, "Ready"), condition(v1alpha1.BootedCondition, metav1.ConditionTrue, v1alpha1.ReasonBooted)}
	boot := &v1alpha1.BareMetalBoot{ObjectMeta: metaOf("server-1", nil)}
	profile := &v1alpha1.BareMetalProfile{ObjectMeta: metaOf("r750", nil)}
	profile.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, v1alpha1.ReasonProfilePaused)}
	settings := &v1alpha1.BareMetalSettings{ObjectMeta: metaOf("server-1", nil)}
	settings.Status.Conditions = []metav1.Condition{condition(v1alpha1.SettingsConformCondition, metav1.ConditionTrue, v1alpha1.ReasonSettingsConform)}
	objects := []client.Object{cluster, infra, host, boot, profile, settings, &clusterv1.MachineDeployment{ObjectMeta: metaOf("workers", nil), Spec: clusterv1.MachineDeploymentSpec{ClusterName: "c"}}}
	objects = append(objects, machine("runs", condition(v1alpha1.HostClaimedCondition, metav1.ConditionTrue, v1alpha1.ReasonHostClaimed), "server-1")...)
	return append(objects, machine("waits", condition(v1alpha1.HostClaimedCondition, metav1.ConditionFalse, v1alpha1.ReasonNoHostFits), "")...)
}

// counting is a client that counts requests, and that may not read these kinds.
func counting(t *testing.T, objects []client.Object, forbidden ...string) (client.Client, *int) {
	t.Helper()
	requests := 0
	check := func(kind string) error {
		requests++
		for _, f := range forbidden {
			if kind == f || kind == f+"List" {
				return apierrors.NewForbidden(schema.GroupResource{Resource: f}, "", errors.New("no"))
			}
		}
		return nil
	}
	return fake.NewClientBuilder().WithScheme(access.Scheme()).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			gvk, err := c.GroupVersionKindFor(o)
			if err == nil {
				err = check(gvk.Kind)
			}
			if err != nil {
				return err
			}
			return c.Get(ctx, key, o, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			gvk, err := c.GroupVersionKindFor(list)
			if err == nil {
				err = check(gvk.Kind)
			}
			if err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	}).Build(), &requests
}

// TestExplain: the object that a user names is found, its chain is read with at most MaxRequests requests, and what may not be read is repeated.
func TestExplain(t *testing.T) {
	for name, test := range map[string]struct {
		args             []string
		forbidden        []string
		kind             string
		state            why.State
		at               string
		machines, waits  int
		unread, excluded int
	}{
		"a host":                        {args: []string{"server-1"}, kind: why.KindHost, state: why.Done, at: "server-1"},
		"a host by its kind":            {args: []string{"bmho/server-1"}, kind: why.KindHost, state: why.Done, at: "server-1"},
		"a boot":                        {args: []string{"boot", "server-1"}, kind: why.KindBoot, state: why.Done, at: "server-1"},
		"a profile":                     {args: []string{"profile/r750"}, kind: why.KindProfile, state: why.Waits, at: "r750"},
		"the settings of a host":        {args: []string{"bmst/server-1"}, kind: why.KindSettings, state: why.Done, at: "server-1"},
		"a machine that runs":           {args: []string{"runs"}, kind: why.KindMachine, state: why.Done, at: "runs"},
		"a machine without a host":      {args: []string{"machine/waits"}, kind: why.KindMachine, state: why.Fault, at: "waits-i", excluded: 1},
		"its infrastructure":            {args: []string{"baremetalmachines.infrastructure.cluster.x-k8s.io/waits-i"}, kind: why.KindBareMetalMachine, state: why.Fault, at: "waits-i", excluded: 1},
		"a cluster":                     {args: []string{"c"}, kind: why.KindCluster, state: why.Fault, at: "waits-i", machines: 2, waits: 1, excluded: 1},
		"a MachineDeployment":           {args: []string{"workers"}, kind: kindMachineDeployment, state: why.Fault, at: "waits-i", machines: 2, waits: 1, excluded: 1},
		"the hosts may not be read":     {args: []string{"machine/runs"}, forbidden: []string{why.KindHost, why.KindBoot}, kind: why.KindMachine, state: why.Done, at: "runs", unread: 2},
		"the machines may not be read":  {args: []string{"cluster/c"}, forbidden: []string{why.KindMachine}, kind: why.KindCluster, state: why.Unknown, at: "c", unread: 1},
		"its hosts may not be compared": {args: []string{"machine/waits"}, forbidden: []string{why.KindHost}, kind: why.KindMachine, state: why.Fault, at: "waits-i", unread: 1},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			c, requests := counting(t, world(), test.forbidden...)
			subject, err := ParseSubject(test.args)
			g.Expect(err).NotTo(HaveOccurred())
			answer, err := (&Reader{Client: c, Namespace: "prod", Now: now}).Explain(t.Context(), subject)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(answer.Subject.Kind).To(Equal(test.kind))
			g.Expect(answer.State).To(Equal(test.state), "%+v", answer.Explanation)
			g.Expect(answer.At.Name).To(Equal(test.at))
			g.Expect([]int{answer.Machines, answer.Unready}).To(Equal([]int{test.machines, test.waits}))
			g.Expect(answer.Unread).To(HaveLen(test.unread), "%+v", answer.Unread)
			if test.excluded > 0 {
				g.Expect(answer.NoHost).NotTo(BeNil())
				g.Expect(answer.NoHost.Total).To(Equal(test.excluded))
			}
			g.Expect(answer.Requests).To(Equal(*requests))
			g.Expect(*requests).To(BeNumerically("<=", MaxRequests))
		})
	}
}

// TestUnanswered: the error says why there is no answer.
func TestUnanswered(t *testing.T) {
	for says, test := range map[string]struct {
		args      []string
		forbidden []string
	}{
		`there is no host, machine, cluster, MachineDeployment or control plane "x"`: {args: []string{"x"}},
		`there is no BareMetalHost "x" in the namespace "prod"`:                      {args: []string{"host/x"}},
		"BareMetalHost \"x\" in the namespace \"prod\": not permitted":               {args: []string{"host/x"}, forbidden: []string{why.KindHost}},
		"Machine \"x\" in the namespace \"prod\": not permitted":                     {args: []string{"x"}, forbidden: []string{why.KindMachine}},
	} {
		g := NewWithT(t)
		c, _ := counting(t, world(), test.forbidden...)
		subject, err := ParseSubject(test.args)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = (&Reader{Client: c, Namespace: "prod", Now: now}).Explain(t.Context(), subject)
		g.Expect(err).To(MatchError(ContainSubstring(says)))
	}
}

// TestParseSubject: names of kinds are those of kubectl.
func TestParseSubject(t *testing.T) {
	for _, test := range []struct {
		args []string
		want Subject
		says string
	}{
		{[]string{"server-1"}, Subject{"", "server-1"}, ""},
		{[]string{"hosts/server-1"}, Subject{why.KindHost, "server-1"}, ""},
		{[]string{"BareMetalHost", "server-1"}, Subject{why.KindHost, "server-1"}, ""},
		{[]string{"md/workers"}, Subject{kindMachineDeployment, "workers"}, ""},
		{[]string{"profile/r750"}, Subject{why.KindProfile, "r750"}, ""},
		{[]string{"baremetalsettings", "server-1"}, Subject{why.KindSettings, "server-1"}, ""},
		{[]string{"kcp", "cp"}, Subject{kindKubeadmControlPlane, "cp"}, ""},
		{[]string{"machines.cluster.x-k8s.io/m"}, Subject{why.KindMachine, "m"}, ""},
		{[]string{"pod/x"}, Subject{}, `the kind "pod" has no explanations`},
		{[]string{"host/"}, Subject{}, "names no object"},
		{[]string{"/x"}, Subject{}, `the kind "" has no explanations`},
		{[]string{"host/a/b"}, Subject{}, "names no object"},
		{nil, Subject{}, "it takes one object, but got 0"},
		{[]string{"a", "b", "c"}, Subject{}, "it takes one object, but got 3"},
	} {
		g := NewWithT(t)
		got, err := ParseSubject(test.args)
		if test.says != "" {
			g.Expect(err).To(MatchError(ContainSubstring(test.says)))
			continue
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got).To(Equal(test.want))
	}
}

// TestAnyOwner: an owner of a kind that this program does not know cannot break it, whatever its status is.
func TestAnyOwner(t *testing.T) {
	g := NewWithT(t)
	for _, status := range []any{
		nil, "x", []any{1}, map[string]any{}, map[string]any{"conditions": "x"}, map[string]any{"conditions": []any{"x"}}, map[string]any{"conditions": []any{map[string]any{"type": 3}}},
	} {
		g.Expect(anyOwner{&unstructured.Unstructured{Object: map[string]any{"status": status}}}.GetConditions()).To(BeEmpty())
	}
	good := map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": "False", "reason": "NotAvailable", "message": "m", "lastTransitionTime": "2026-11-29T10:00:00Z"}}}
	g.Expect(anyOwner{&unstructured.Unstructured{Object: map[string]any{"status": good}}}.GetConditions()).To(HaveExactElements(HaveField("Reason", "NotAvailable")))
}
