package main

import (
	"context"
	"io"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestAwait: all hosts are waited for at the same time, and each is judged by what was read of it at the end.
func TestAwait(t *testing.T) {
	g := NewWithT(t)
	b := newBench(freeHost("server-1"), freeHost("server-2"), freeHost("server-3"))
	b.client = interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, o, options...)
			if h, ok := o.(*v1alpha1.BareMetalHost); ok && h.Name != "server-2" && h.Spec.Power == v1alpha1.PowerOn {
				h.Status.Power = v1alpha1.PowerOn // the provider has done it meanwhile
			}
			return err
		},
	})
	got := b.run(t, "power", "on", "server-1", "server-2", "server-3", "--reason", "fan", "--yes", "--wait=1ms")
	g.Expect(got.code).To(Equal(1))
	g.Expect(got.err).To(And(ContainSubstring("\nserver-1: phase Available, power On\n"), ContainSubstring("\nserver-3: phase Available, power On\n"),
		ContainSubstring("server-2: not done after 1ms"), HaveSuffix("kubectl baremetal: 1 of 3 hosts failed\n")))
}

// TestFailedInspection: a login that the BMC refuses fails the command, and a power command that waits for the BMC is announced.
func TestFailedInspection(t *testing.T) {
	g := NewWithT(t)
	b := newBench(freeHost("server-1"))
	b.client = interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			err := c.Get(ctx, key, o, options...)
			if h, ok := o.(*v1alpha1.BareMetalHost); ok {
				h.Status.Conditions = append(h.Status.Conditions, condition(v1alpha1.BMCReadyCondition, metav1.ConditionFalse, v1alpha1.ReasonCredentialsRefused, 0))
				if _, asked := h.Annotations[v1alpha1.RetryBMCAnnotation]; asked { // the provider has done it meanwhile
					h.Annotations = nil
					h.Status.LastOperation = &v1alpha1.Operation{
						Name: "Inspect", StartTime: metav1.NewTime(now), EndTime: new(metav1.NewTime(now)), Outcome: v1alpha1.OperationFailed, Message: "the login was refused",
					}
				}
			}
			return err
		},
	})
	got := b.run(t, "inspect", "server-1", "--bmc", "--reason", "new password", "--yes", "--wait=1ms")
	g.Expect(got.code).To(Equal(1))
	g.Expect(got.err).To(And(ContainSubstring("power Off, BMC not ready: CredentialsRefused\nkubectl baremetal: server-1: Inspect failed: the login was refused\n"), Not(ContainSubstring("the power command waits"))))
	got = b.run(t, "power", "on", "server-1", "--reason", "fan", "--dry-run")
	g.Expect(got.err).To(ContainSubstring("  - The BMC is not ready (CredentialsRefused), and the power command waits for it.\n"))
}

// TestInterrupt: an interrupt leaves a question without an answer, and fails a change.
func TestInterrupt(t *testing.T) {
	g := NewWithT(t)
	b := newBench(freeHost("server-1"))
	var cancel context.CancelFunc
	b.client = interceptor.NewClient(b.client, interceptor.Funcs{
		Get: func(ctx context.Context, _ client.WithWatch, _ client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			cancel()
			return ctx.Err()
		},
	})
	run := func(args ...string) int {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		cancel = stop
		return b.tool(io.Discard, io.Discard).run(ctx, args)
	}
	for _, args := range [][]string{{"why", "server-1"}, {"status", "server-1"}, {"events", "server-1"}, {"power", "status", "server-1"}} {
		g.Expect(run(args...)).To(Equal(exitUnanswered), "%v", args)
	}

	b = newBench(freeHost("server-1"))
	b.client = interceptor.NewClient(b.client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			defer cancel()
			return c.Patch(ctx, o, patch, options...)
		},
	})
	g.Expect(run("power", "on", "server-1", "--reason", "fan", "--yes")).To(Equal(exitFault)) // during the wait
	g.Expect(b.host(t, "server-1").Spec.Power).To(Equal(v1alpha1.PowerOn))
}
