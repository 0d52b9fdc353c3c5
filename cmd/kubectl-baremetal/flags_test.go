package main

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// TestFlags: the flags are those of kubectl, the usage says how kubectl runs the program, and without a terminal there are no colours and no cursor moves.
func TestFlags(t *testing.T) {
	g := NewWithT(t)
	b := newBench(refusedHost("server-1"), freeHost("server-2"))
	flags := b.run(t, "options").out
	for _, flag := range []string{"--kubeconfig", "--context", "--namespace", "--as ", "--as-group", "--cluster", "--user", "--request-timeout", "--server", "--token"} {
		g.Expect(flags).To(ContainSubstring(flag))
	}
	g.Expect(b.run(t, "status", "--help").out).To(ContainSubstring("  kubectl baremetal status [HOST...]"))
	for _, args := range [][]string{{"status"}, {"status", "--hosts"}, {"why", "server-1"}, {"events", "server-1"}, {"power", "status"}} {
		got := b.run(t, args...)
		g.Expect(got.out+got.err).NotTo(ContainSubstring("\x1b"), "%v", args)
	}
}

// TestCompletion: kubectl completes names of hosts by the program kubectl_complete-baremetal, which is this one.
func TestCompletion(t *testing.T) {
	g := NewWithT(t)
	g.Expect(arguments([]string{"/usr/bin/kubectl_complete-baremetal", "why", "ser"})).To(Equal([]string{"__complete", "why", "ser"}))
	g.Expect(arguments([]string{"kubectl_complete-baremetal.exe"})).To(Equal([]string{"__complete"}))
	g.Expect(arguments([]string{"kubectl-baremetal", "status"})).To(Equal([]string{"status"}))
	g.Expect(arguments(nil)).To(BeEmpty())
	b := newBench(freeHost("server-1"), freeHost("server-2"))
	g.Expect(b.run(t, "__complete", "power", "off", "ser").out).To(And(ContainSubstring("server-1\n"), ContainSubstring("server-2\n")))
	next := map[string]string{"": "2", "2": ""} // the fake API server has no pages
	b.client = interceptor.NewClient(b.client, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			var asked client.ListOptions
			asked.ApplyOptions(options)
			if err := c.List(ctx, list, append(options, client.Continue(""))...); err != nil {
				return err
			}
			metadata, ok := list.(*metav1.PartialObjectMetadataList)
			g.Expect(ok).To(BeTrue())
			metadata.Items[0].Name = "page-" + asked.Continue
			metadata.Continue = next[asked.Continue]
			return nil
		},
	})
	g.Expect(b.run(t, "__complete", "power", "off", "page").out).To(HavePrefix("page-\npage-2\n"))
	b = newBench()
	g.Expect(b.run(t, "__complete", "events", "server-1", "--source", "b").out).To(ContainSubstring("bmc\n"))
}

// TestStatusWatch: without a terminal, status --watch prints a line for each host at first, and for each that changes later. It ends with the context.
func TestStatusWatch(t *testing.T) {
	g := NewWithT(t)
	b := newBench(freeHost("server-1"), freeHost("server-2"))
	out, errs := gbytes.NewBuffer(), gbytes.NewBuffer()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	go func() { ended <- b.tool(out, errs).run(ctx, []string{"status", "--watch"}) }()
	g.Eventually(out).Should(gbytes.Say("server-1 .*\n.*server-2 "))
	try := 0
	g.Eventually(func() (bool, error) { // a change before the watch begins is shown after the next read only
		h := b.host(t, "server-2") //nolint:contextcheck // that of the test
		metav1.SetMetaDataAnnotation(&h.ObjectMeta, "try", string(rune('a'+try%26)))
		h.Status.Phase = v1alpha1.PhaseMaintenance
		try++
		g.Expect(b.client.Update(ctx, h)).To(Succeed())
		return gbytes.Say("server-2 .*Maintenance").Match(out)
	}).WithTimeout(20*time.Second).WithPolling(20*time.Millisecond).Should(BeTrue(), func() string { return string(errs.Contents()) })
	cancel()
	g.Eventually(ended).Should(Receive(Equal(exitOK)))
	g.Expect(string(out.Contents())).NotTo(ContainSubstring("\x1b"))
}
