package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/kubectl-baremetal/internal/access"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

var now = time.Date(2026, 11, 29, 10, 30, 0, 0, time.UTC)

// bench runs commands against a fake API server.
type bench struct {
	client    client.WithWatch
	forbidden []string // kinds that the user may not read or write
	answers   string   // what the user types; empty without a terminal
	kubectl   [][]string
	node      corev1.Node // of the workload cluster
	// used are the rights that the commands needed, as VERB RESOURCE.GROUP.
	mu   sync.Mutex
	used map[string]bool
}

// outcome is the result of a command.
type outcome struct {
	code     int
	out, err string
}

func newBench(objects ...client.Object) *bench {
	b := &bench{used: map[string]bool{}, node: corev1.Node{Spec: corev1.NodeSpec{ProviderID: machine().Spec.ProviderID}}}
	deny := func(c client.Client, o runtime.Object, verb string) error {
		gvk, err := c.GroupVersionKindFor(o)
		if err != nil {
			return err
		}
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
		mapping, err := access.NewMapper().RESTMapping(gvk.GroupKind(), gvk.Version)
		if err != nil {
			return err
		}
		b.mu.Lock()
		b.used[strings.TrimSuffix(verb+" "+mapping.Resource.Resource+"."+gvk.Group, ".")] = true
		b.mu.Unlock()
		for _, kind := range b.forbidden {
			if gvk.Kind == kind {
				return apierrors.NewForbidden(schema.GroupResource{Group: gvk.Group, Resource: kind}, "", errors.New("no"))
			}
		}
		return nil
	}
	index := func(o client.Object) []string { return []string{o.(*corev1.Event).InvolvedObject.Name} }
	b.client = fake.NewClientBuilder().WithScheme(access.Scheme()).WithObjects(objects...).WithIndex(&corev1.Event{}, "involvedObject.name", index).
		WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
				if err := deny(c, o, "get"); err != nil {
					return err
				}
				return c.Get(ctx, key, o, options...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if err := deny(c, list, "list"); err != nil {
					return err
				}
				return c.List(ctx, list, options...)
			},
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
				if err := deny(c, o, "create"); err != nil {
					return err
				}
				if review, ok := o.(*authenticationv1.SelfSubjectReview); ok {
					review.Status.UserInfo.Username = "anna"
					return nil
				}
				if event, ok := o.(*eventsv1.Event); ok { // the fake API server takes any
					if problems := validation.NameIsDNSSubdomain(event.GenerateName, true); len(problems) > 0 || len(event.Note) > 1024 {
						return apierrors.NewBadRequest(fmt.Sprintf("%q, %d bytes: %v", event.GenerateName, len(event.Note), problems))
					}
				}
				return c.Create(ctx, o, options...)
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
				if err := deny(c, o, "patch"); err != nil {
					return err
				}
				return c.Patch(ctx, o, patch, options...)
			},
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
				applied, ok := o.(runtime.Object)
				if !ok {
					return fmt.Errorf("%T is no object", o)
				}
				if err := errors.Join(deny(c, applied, "create"), deny(c, applied, "patch")); err != nil { // an object that does not exist is created
					return err
				}
				applyOptions := client.ApplyOptions{}
				if applyOptions.ApplyOptions(options); len(applyOptions.DryRun) > 0 {
					return nil // the fake API server would apply it
				}
				return c.Apply(ctx, o, options...)
			},
		}).Build()
	return b
}

func (b *bench) run(t *testing.T, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	code := b.tool(&out, &errs).run(t.Context(), args)
	return outcome{code, out.String(), errs.String()}
}

// tool returns the program, with the answers of the user.
func (b *bench) tool(out, errs io.Writer) *tool {
	tool := newTool(genericiooptions.IOStreams{In: strings.NewReader(b.answers), Out: out, ErrOut: errs})
	tool.now = func() time.Time { return now }
	tool.interactive = b.answers != ""
	tool.connect = func() (*access.Cluster, error) {
		return &access.Cluster{Client: b.client, Namespace: "prod", ContextUser: "admin"}, nil
	}
	tool.kubectl = func(_ context.Context, out io.Writer, args ...string) error {
		if slices.Contains(args, "get") {
			return json.NewEncoder(out).Encode(b.node)
		}
		b.kubectl = append(b.kubectl, args)
		return nil
	}
	return tool
}

func (b *bench) host(t *testing.T, name string) *v1alpha1.BareMetalHost {
	t.Helper()
	h := &v1alpha1.BareMetalHost{}
	NewWithT(t).Expect(b.client.Get(t.Context(), client.ObjectKey{Namespace: "prod", Name: name}, h)).To(Succeed())
	return h
}

// requests are the events of this program, as REASON: NOTE.
func (b *bench) requests(t *testing.T) []string {
	t.Helper()
	var list eventsv1.EventList
	NewWithT(t).Expect(b.client.List(t.Context(), &list)).To(Succeed())
	var all []string
	for _, e := range list.Items {
		all = append(all, e.Reason+": "+e.Note)
	}
	return all
}

func condition(kind string, status metav1.ConditionStatus, reason string, since time.Duration) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(now.Add(-since))}
}

func freeHost(name string) *v1alpha1.BareMetalHost {
	return &v1alpha1.BareMetalHost{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: name, UID: "uid-1", Labels: map[string]string{"rack": "r1"}}, Spec: v1alpha1.BareMetalHostSpec{FailureDomain: "r1"},
		Status: v1alpha1.BareMetalHostStatus{
			Phase: v1alpha1.PhaseAvailable, Power: v1alpha1.PowerOff, Conditions: []metav1.Condition{condition("Ready", metav1.ConditionTrue, "Ready", time.Hour)},
			Hardware: &v1alpha1.Hardware{SerialNumber: "SN-1", Health: "OK"},
		},
	}
}

func runningHost(name string) *v1alpha1.BareMetalHost {
	h := freeHost(name)
	h.Spec.ConsumerRef = &v1alpha1.ConsumerReference{Name: "m"}
	h.Status.Phase, h.Status.Power = v1alpha1.PhaseProvisioned, v1alpha1.PowerOn
	h.Status.Conditions = append(h.Status.Conditions, condition(v1alpha1.BootedCondition, metav1.ConditionTrue, v1alpha1.ReasonBooted, time.Hour))
	return h
}

func refusedHost(name string) *v1alpha1.BareMetalHost {
	h := freeHost(name)
	h.Spec.FailureDomain, h.Status.Phase = "r2", v1alpha1.PhaseRegistering
	h.Status.Conditions = []metav1.Condition{condition("Ready", metav1.ConditionFalse, v1alpha1.ReasonCredentialsRefused, 2*time.Hour)}
	return h
}

func machine() *v1alpha1.BareMetalMachine {
	return &v1alpha1.BareMetalMachine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "m", Labels: map[string]string{"cluster.x-k8s.io/cluster-name": "c"}},
		Spec:       v1alpha1.BareMetalMachineSpec{ProviderID: "baremetal://prod/server-1/m", Boot: v1alpha1.BootSource{Persistence: v1alpha1.PersistenceInstalled}},
		Status:     v1alpha1.BareMetalMachineStatus{HostRef: &v1alpha1.HostReference{Name: "server-1"}, NodeName: "node-1"},
	}
}

// workloadSecret has the kubeconfig of the cluster of machine.
func workloadSecret() *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "c-kubeconfig"}, Data: map[string][]byte{"value": []byte("kind: Config")}}
}

// TestStatus: the summary, a line for each host, and what may not be read.
func TestStatus(t *testing.T) {
	b := newBench(runningHost("server-1"), freeHost("server-2"), refusedHost("server-3"), machine())
	for name, test := range map[string]struct {
		args      []string
		forbidden []string
		code      int
		out, err  string
	}{
		"the summary": {args: []string{"status"}, out: `3 hosts in the namespace prod: 1 in use, 1 available, 0 unhealthy, 1 need action

FAILURE DOMAIN   HOSTS   IN USE   AVAILABLE   UNHEALTHY   NEED ACTION
r2               1       0        0           0           1
r1               2       1        1           0           0

NAME       STATE          PHASE         POWER   DOMAIN   CLUSTER   HEALTH   SINCE   REASON
server-3   needs action   Registering   Off     r2       -         OK       120m    CredentialsRefused

kubectl baremetal why NAME explains one of them
`},
		"one host": {args: []string{"status", "server-1"}, out: `NAME       STATE   PHASE         POWER   DOMAIN   CLUSTER   HEALTH   SINCE   REASON
server-1   ok      Provisioned   On      r1       c         OK       -       -
`},
		"machines may not be read": {args: []string{"status", "--hosts", "-l", "rack=r1"}, forbidden: []string{why.KindBareMetalMachine}, out: `NAME       STATE          PHASE         POWER   DOMAIN   CLUSTER         HEALTH   SINCE   REASON
server-3   needs action   Registering   Off     r2       -               OK       120m    CredentialsRefused
server-1   ok             Provisioned   On      r1       not permitted   OK       -       -
server-2   ok             Available     Off     r1       -               OK       -       -
BareMetalMachine: not permitted
`},
		"names":                 {args: []string{"status", "-o", "name"}, out: "baremetalhost.infrastructure.cluster.x-k8s.io/server-3\nbaremetalhost.infrastructure.cluster.x-k8s.io/server-1\nbaremetalhost.infrastructure.cluster.x-k8s.io/server-2\n"},
		"hosts may not be read": {args: []string{"status"}, forbidden: []string{why.KindHost}, code: 2, err: "is not permitted"},
		"no such host":          {args: []string{"status", "server-9"}, code: 2, err: `there is no BareMetalHost "server-9"`},
		"a wrong key":           {args: []string{"status", "--by", "color"}, code: 2, err: "use one of [cluster domain health phase]"},
		"a wrong format":        {args: []string{"status", "-o", "xml"}, code: 2, err: `--output: "xml" is unknown`},
		"a name and -A":         {args: []string{"status", "server-1", "-A"}, code: 2, err: "cannot be mixed"},
		"a wrong flag":          {args: []string{"status", "--colour"}, code: 2, err: "kubectl baremetal status --help lists the flags"},
		"no such command":       {args: []string{"stats"}, code: 2, err: `unknown command "stats" for "kubectl baremetal"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			b.forbidden = test.forbidden
			got := b.run(t, test.args...)
			g.Expect(got.code).To(Equal(test.code), got.err)
			g.Expect(got.err).To(ContainSubstring(test.err))
			g.Expect(got.out).To(Equal(test.out))
		})
	}
	b.forbidden = nil
	g := NewWithT(t)
	h := runningHost("server-1")
	h.Status.Hardware.Health = wire.HealthWarning // no part explains it
	g.Expect(newBench(h, machine()).run(t, "status").out).To(ContainSubstring("\nserver-1   ok      Provisioned   On      r1       c         Warning   -       -\n"))
	got := b.run(t, "status", "-o", "json")
	var document struct {
		Total struct {
			Hosts int `json:"hosts"`
		} `json:"total"`
		Rows []struct {
			Name string `json:"name"`
		} `json:"rows"`
	}
	g.Expect(json.Unmarshal([]byte(got.out), &document)).To(Succeed())
	g.Expect(document.Total.Hosts).To(Equal(3))
	g.Expect(document.Rows[0].Name).To(Equal("server-3"))
}

// TestWhy: the exit code answers the question as well as the text.
func TestWhy(t *testing.T) {
	b := newBench(runningHost("server-1"), freeHost("server-2"), refusedHost("server-3"), machine())
	for _, test := range []struct {
		args []string
		code int
		out  string
		err  string
	}{
		{[]string{"why", "server-2"}, 0, "BareMetalHost prod/server-2 is as wanted: A machine can claim BareMetalHost server-2\n", ""},
		{[]string{"why", "host/server-3"}, 1, "BareMetalHost prod/server-3 needs action\n", ""},
		{[]string{"why", "server-3", "-o", "name"}, 1, "baremetalhost.infrastructure.cluster.x-k8s.io/server-3\n", ""},
		{[]string{"why", "server-3", "-o", "yaml"}, 1, "needsAction: true\n", ""},
		{[]string{"why", "server-9"}, 2, "", "there is no host, machine, cluster"},
		{[]string{"why", "pod/x"}, 2, "", "has no explanations"},
		{[]string{"why"}, 2, "", "write NAME or KIND/NAME"},
	} {
		g := NewWithT(t)
		got := b.run(t, test.args...)
		g.Expect(got.code).To(Equal(test.code), "%v: %s", test.args, got.err)
		g.Expect(got.out).To(ContainSubstring(test.out))
		g.Expect(got.err).To(ContainSubstring(test.err))
	}
}
