package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/bench/report"
)

// claimed is the number of machines that are created to measure claims.
const claimed = 100

// phases runs all phases. The figures are kept if a phase fails.
func (f *fleet) phases(ctx context.Context) error {
	defer func() { f.result.Reactions = f.watch.reactions() }()
	for _, phase := range []func(context.Context) error{
		f.registerAll, f.claimSome, f.bootRest, f.adoptRest, f.rest, f.reuse, f.restart, f.releaseAll, f.deleteAll,
	} {
		if err := phase(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) registerAll(ctx context.Context) error {
	before, err := f.snapshot(ctx)
	if err != nil {
		return err
	}
	err = f.phase(ctx, "register", f.hosts, func(ctx context.Context) error {
		if err := each(f.hosts, func(i int) error { return f.register(ctx, i) }); err != nil {
			return err
		}
		f.logf("all are created")
		return f.watch.until(ctx, "all hosts are Available", f.watch.inPhase(v1alpha1.PhaseAvailable, f.hosts))
	})
	if err != nil {
		return err
	}
	after, err := f.snapshot(ctx)
	if err != nil {
		return err
	}
	for what, n := range after.stored {
		if what == "watches" {
			f.result.Facts["watches at the API server"] = n
		} else {
			f.result.Facts[what+" per registered host"] = (n - before.stored[what]) / float64(f.hosts)
		}
	}
	return nil
}

func machineName(i int) string { return fmt.Sprintf("m-%05d", i) }

// claimSome measures the time until some machines have one of all the hosts.
func (f *fleet) claimSome(ctx context.Context) error {
	n := min(claimed, f.boots)
	if n == 0 {
		return nil
	}
	owners := make([]*clusterv1.Machine, n)
	if err := each(n, func(i int) (err error) {
		owners[i], err = f.createOwner(ctx, machineName(i), i)
		return err
	}); err != nil {
		return err
	}
	f.before = nil // the reactions of other controllers to a machine are not part of its claim
	began, err := f.snapshot(ctx)
	if err != nil {
		return err
	}
	// The boots that follow the claims continue in the next phase. Its figures include everything from the claim to the running machine.
	defer func() { f.before = began }()
	return f.phase(ctx, "claim", n, func(ctx context.Context) error {
		if err := each(n, func(i int) error { return f.createBareMetalMachine(ctx, owners[i], i, nil) }); err != nil {
			return err
		}
		return f.watch.until(ctx, "all machines have a host", func() (string, bool) {
			have := 0
			for _, h := range f.watch.hosts {
				if h.Spec.ConsumerRef != nil {
					have++
				}
			}
			return strconv.Itoa(have), have >= n
		})
	})
}

// bootRest boots the other servers that are to boot, all at once.
func (f *fleet) bootRest(ctx context.Context) error {
	if f.boots == 0 {
		return nil
	}
	first := min(claimed, f.boots)
	return f.phase(ctx, "boot", f.boots, func(ctx context.Context) error {
		if err := each(f.boots-first, func(i int) error { return f.createMachine(ctx, machineName(first+i), first+i, nil) }); err != nil {
			return err
		}
		f.logf("all Machines are created")
		if err := f.watch.until(ctx, "all booted hosts are Provisioned", f.watch.inPhase(v1alpha1.PhaseProvisioned, f.boots)); err != nil {
			return err
		}
		f.logf("all booted hosts are Provisioned")
		return f.quiet(ctx) // statuses of the boots may be written later
	})
}

// adoptRest makes the remaining hosts run machines that existed before.
func (f *fleet) adoptRest(ctx context.Context) error {
	if f.boots == f.hosts {
		return nil
	}
	return f.phase(ctx, "adopt", f.hosts-f.boots, func(ctx context.Context) error {
		free := f.watch.free()
		if err := each(len(free), func(i int) error {
			return f.createMachine(ctx, machineName(f.boots+i), free[i], f.servers[free[i]])
		}); err != nil {
			return err
		}
		return f.watch.until(ctx, "all hosts are Provisioned", f.watch.inPhase(v1alpha1.PhaseProvisioned, f.hosts))
	})
}

// rest measures hosts at rest.
func (f *fleet) rest(ctx context.Context) error {
	if err := f.settled(ctx, min(statusDelay, f.idle)); err != nil {
		return err
	}
	if err := f.phase(ctx, "idle", f.hosts, func(ctx context.Context) error {
		select {
		case <-time.After(f.idle):
		case <-ctx.Done():
		}
		return ctx.Err()
	}); err != nil {
		return err
	}
	idle := &f.result.Phases[len(f.result.Phases)-1]
	minutes := idle.Seconds / 60
	f.result.Facts["idle: API writes a host and minute"] = idle.Requested(report.Writes) / minutes
	f.result.Facts["idle: BMC requests a host and minute"] = idle.BMCRequests / minutes
	f.result.Facts["idle: manager CPU, percent of a core"] = idle.CPU["manager"] * float64(f.hosts) / 10 / idle.Seconds
	return nil
}

// statusDelay is the maximum delay of a throttled status, and a second more.
const statusDelay = 31 * time.Second

// settled waits until the manager is at rest, and then for a time. What is written meanwhile is a fact about the last phase: its other figures end before.
func (f *fleet) settled(ctx context.Context, wait time.Duration) error {
	if err := f.quiet(ctx); err != nil {
		return err
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := f.snapshot(ctx)
	if err != nil || f.before == nil {
		return err
	}
	last := f.result.Phases[len(f.result.Phases)-1]
	late := costs(last.Name, last.Objects, wait, f.before, after)
	f.result.Facts["after "+last.Name+": API writes an object"] = late.Requested(report.Writes)
	f.before = nil
	return nil
}

// quiet waits until the manager is at rest: it uses less than a tenth of a core for five seconds.
func (f *fleet) quiet(ctx context.Context) error {
	const look = 5 * time.Second
	deadline := time.Now().Add(10 * time.Minute)
	for last := time.Duration(-1); ; {
		cpu, err := f.cpu()
		if err != nil {
			return err
		}
		if last >= 0 && cpu["manager"]-last < look/10 {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the manager does not come to rest: it used %s in %s", cpu["manager"]-last, look)
		}
		last = cpu["manager"]
		select {
		case <-time.After(look):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reuse makes machines wait until hosts become free.
func (f *fleet) reuse(ctx context.Context) error {
	n := min(20, f.boots)
	if n == 0 {
		return nil
	}
	f.watch.mu.Lock()
	for i := range n {
		f.watch.waiting[waitingName(i)] = true
	}
	f.watch.mu.Unlock()
	return f.phase(ctx, "reuse", n, func(ctx context.Context) error {
		if err := each(n, func(i int) error { return f.createMachine(ctx, waitingName(i), i, nil) }); err != nil {
			return err
		}
		if err := f.watch.until(ctx, "the machines wait", f.watch.waiters(n, func(m *v1alpha1.BareMetalMachine) bool {
			return len(m.Status.Conditions) > 0
		})); err != nil {
			return err
		}
		f.watch.forget("Machine created")
		if err := each(n, func(i int) error { return f.deleteMachine(ctx, machineName(i)) }); err != nil {
			return err
		}
		return f.watch.until(ctx, "the waiting machines run", f.watch.waiters(n, func(m *v1alpha1.BareMetalMachine) bool { return m.Spec.ProviderID != "" }))
	})
}

func waitingName(i int) string { return fmt.Sprintf("w-%05d", i) }

// restart restarts the manager while everything runs, and measures until it serves boots and until it is at rest.
func (f *fleet) restart(ctx context.Context) error {
	if f.options.managers > 1 {
		return nil // there are several processes to measure
	}
	if err := f.settled(ctx, statusDelay); err != nil { // the next manager would write the remaining statuses
		return err
	}
	return f.phase(ctx, "restart", f.hosts, func(ctx context.Context) error {
		start, old := time.Now(), f.plane.ManagerPid()
		ready := make(chan error, 1)
		go func() { ready <- f.plane.Crash(ctx) }()
		for syscall.Kill(old, 0) == nil { // until the process is gone
			if time.Sleep(time.Millisecond); time.Since(start) > 10*time.Second { // polling interval
				return errors.New("the manager was killed and is still there")
			}
		}
		if err := f.answersDHCP(ctx); err != nil {
			return err
		}
		f.result.Facts["restart: seconds until boots are served"] = time.Since(start).Seconds()
		if err := <-ready; err != nil {
			return err
		}
		f.result.Facts["restart: seconds until ready"] = time.Since(start).Seconds()
		if err := f.quiet(ctx); err != nil {
			return err
		}
		f.result.Facts["restart: seconds until at rest (looks every 5 s)"] = time.Since(start).Seconds()
		return nil
	})
}

// releaseAll deletes the machines that booted, until their hosts are Available again.
func (f *fleet) releaseAll(ctx context.Context) error {
	if f.boots == 0 {
		return nil
	}
	names := f.watch.booted()
	if len(names) == 0 {
		return errors.New("no machine that was booted is there any more")
	}
	return f.phase(ctx, "release", len(names), func(ctx context.Context) error {
		if err := each(len(names), func(i int) error { return f.deleteMachine(ctx, names[i]) }); err != nil {
			return err
		}
		if err := f.watch.until(ctx, "the released hosts are Available", f.watch.inPhase(v1alpha1.PhaseAvailable, len(names))); err != nil {
			return err
		}
		return f.watch.until(ctx, "their machines are gone", func() (string, bool) {
			left := 0
			for _, name := range names {
				if f.watch.machines[name] != nil {
					left++
				}
			}
			return strconv.Itoa(left), left == 0
		})
	})
}

// deleteAll deletes the free hosts, which are what is left.
func (f *fleet) deleteAll(ctx context.Context) error {
	free := f.watch.free()
	if len(free) == 0 {
		return nil
	}
	if err := f.settled(ctx, 0); err != nil { // the end of the release is not part of the deletion
		return err
	}
	object := func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: f.servers[free[i]].Name}
	}
	if err := f.phase(ctx, "delete", len(free), func(ctx context.Context) error {
		if err := each(len(free), func(i int) error {
			return f.client.Delete(ctx, &v1alpha1.BareMetalHost{ObjectMeta: object(i)})
		}); err != nil {
			return err
		}
		if err := f.watch.until(ctx, "the hosts are gone", func() (string, bool) {
			return strconv.Itoa(len(f.watch.hosts)), len(f.watch.hosts) <= f.hosts-len(free)
		}); err != nil {
			return err
		}
		if err := each(len(free), func(i int) error { // as the garbage collector does
			return f.client.Delete(ctx, &v1alpha1.BareMetalBoot{ObjectMeta: object(i)})
		}); err != nil {
			return err
		}
		return f.watch.until(ctx, "their boots are gone", func() (string, bool) {
			return strconv.Itoa(len(f.watch.boots)), len(f.watch.boots) <= f.hosts-len(free)
		})
	}); err != nil {
		return err
	}
	// Secrets are deleted last. If the manager sees the deletion of a Secret before that of its host, it reports that the host has no credentials.
	return each(len(free), func(i int) error {
		return client.IgnoreNotFound(f.client.Delete(ctx, &corev1.Secret{ObjectMeta: object(i)}))
	})
}
