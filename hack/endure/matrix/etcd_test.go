package matrix

import (
	"context"
	"flag"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/shard"
)

// TestEtcdRestarted: etcd is stopped while there are hosts at every step, and restarted with its data. The hosts continue as far as possible in between.
func TestEtcdRestarted(t *testing.T) {
	if shard.Unset() {
		// go test ./... must not take hours: the targets of make set SHARD, and CI runs them.
		t.Skip("SHARD selects a part of the suite, or all: make test-system, or make matrix-full") // minutes of processes: go test ./... stays quick
	}
	at, err := strconv.Atoi(flag.Lookup("test.parallel").Value.String()) // as many as there are run at once
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	columns := steps
	if !full {
		columns = slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return !s.is(registering, off, seeded, running, releasing, writing) })
	}
	etcd := faults()[slices.IndexFunc(faults(), func(f fault) bool { return f.alone })]
	for batch := range slices.Chunk(columns, max(1, at)) {
		t.Run("restart", func(t *testing.T) {
			var there, over sync.WaitGroup
			there.Add(len(batch))
			over.Add(1)
			var restarted error
			go func() {
				defer over.Done()
				there.Wait()
				restarted = env.RestartEtcd(func() { time.Sleep(moment) }) // so long it is away
			}()
			for _, s := range batch {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					t.Cleanup(func() { covered.end(t, pair{etcd, s}) })
					arrive := sync.OnceFunc(there.Done)
					defer arrive()
					l := newLife(t, v1alpha1.PersistenceInstalled, s, fault{})
					t.Cleanup(l.letGo)
					s.bring(l)
					arrive()
					there.Wait()
					l.letGo()
					over.Wait()
					l.Expect(restarted).NotTo(HaveOccurred())
					l.Eventually(func() error {
						return env.Client.Create(context.Background(), l.secretNamed("probe"), client.DryRunAll)
					}, stepTimeout).Should(Succeed(), "the API server does not come back")
					s.proceed(l)
					l.reach(s.end)
					l.atRest()
					l.check(s)
					l.finish()
				})
			}
		})
	}
}
