package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
)

// soak runs everything, from servers at rest to servers at rest.
func (s *soak) soak(ctx context.Context) error {
	if err := s.await(ctx, "rest", 2*time.Minute, s.quiet); err != nil {
		return err
	}
	var err error
	if s.before, err = s.footprint(ctx); err != nil {
		return err
	}
	s.logf("at rest the manager has %s", s.before)
	if s.whole > 0 {
		if err := s.lab.CreateCluster(ctx, s.plane, site.Cluster{Workers: min(3, s.whole-1)}); err != nil {
			return err
		}
		if err := s.await(ctx, "the cluster", 6*time.Minute, site.Available(s.plane)); err != nil {
			return err
		}
		s.logf("the cluster under the whole of Cluster API is Available")
	}
	if err := s.attack(ctx); err != nil {
		return err
	}
	return s.finish(ctx)
}

// attack injects faults and operations for the duration of the run, and until each planned disturbance happened.
func (s *soak) attack(ctx context.Context) error {
	caring, rest := context.WithCancel(ctx)
	s.stopOperator = rest
	s.background.Go(func() { s.actAsOperator(caring) })
	s.background.Go(func() { s.listen(caring) })
	attacking, stop := context.WithCancel(ctx)
	for range s.direct / 2 {
		s.createOne(context.WithoutCancel(ctx))
		s.report.done("machine created")
	}
	s.logf("faults and operations for %s, seed %d", s.duration, s.seed)
	var attack sync.WaitGroup
	for _, f := range []func(context.Context){s.drive, s.breakBMCs, s.progress} {
		attack.Go(func() { f(attacking) })
	}
	enough := time.After(s.duration)
	err := s.disturbAll(ctx)
	if err == nil {
		<-enough
	}
	stop()
	attack.Wait()
	return err
}

// progress prints the state every 20 seconds.
func (s *soak) progress(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(20 * time.Second):
		}
		s.logf("%s; %d violations", s.phases(), len(s.checker.Violations()))
	}
}

// phases counts the hosts by phase.
func (s *soak) phases() string {
	counts := map[v1alpha1.HostPhase]int{}
	for _, h := range s.all() {
		if seen := s.checker.Host(h.id()); seen != nil {
			counts[seen.Status.Phase]++
		}
	}
	var words []string
	for phase, n := range counts {
		words = append(words, fmt.Sprintf("%s %d", phase, n))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// await waits until a check is nil.
func (s *soak) await(ctx context.Context, what string, timeout time.Duration, check func(context.Context) error) error {
	start := time.Now()
	if err := site.Until(ctx, timeout, check); err != nil {
		return fmt.Errorf("wait for %s: %w", what, err)
	}
	s.logf("%s: after %.1f s", what, time.Since(start).Seconds())
	return nil
}

// quiet is nil if each BMC has at most one session, by which the manager reads its server from time to time.
func (s *soak) quiet(context.Context) error {
	for _, h := range s.all() {
		s.mu.Lock()
		orphans := s.sessions[h.Name]
		s.mu.Unlock()
		if n := h.Sessions(); n > orphans+1 {
			return fmt.Errorf("the BMC of %s has %d sessions, of which killed managers left %d", h.Name, n, orphans)
		}
	}
	return nil
}

// finish brings everything to rest, deletes every machine, and checks what is left.
func (s *soak) finish(ctx context.Context) error {
	s.logf("no more faults: everything comes to rest")
	if err := s.await(ctx, "what the driver began", 10*time.Minute, s.provisionedOrGone); err != nil {
		return s.conclude(ctx, err)
	}
	if s.whole > 0 {
		if err := s.await(ctx, "the cluster's machines", 8*time.Minute, s.workersRun); err != nil {
			return s.conclude(ctx, err)
		}
	}
	s.logf("%s: all machines run; now they are deleted", s.phases())
	if s.whole > 0 {
		if _, err := s.plane.Kubectl(ctx, "-n", whole, "delete", "cluster", site.ClusterName, "--wait=false"); err != nil {
			return err
		}
	}
	s.mu.Lock()
	var all []*machine
	for _, m := range s.machines {
		all = append(all, m)
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b *machine) int { return cmp.Compare(a.name, b.name) })
	for _, m := range all {
		s.deleteMachine(ctx, m)
	}
	if err := s.await(ctx, "the deletions", 10*time.Minute, s.allAvailable); err != nil {
		return s.conclude(ctx, err)
	}
	s.stopOperator()
	s.tasks.Wait()
	return s.conclude(ctx, s.await(ctx, "what is left", 3*time.Minute, s.nothingLeft))
}

// provisionedOrGone is nil if each machine that the driver created runs or is gone.
func (s *soak) provisionedOrGone(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.hosts {
		if h.busy != "" || h.faulty {
			return fmt.Errorf("something is done with %s: %s", h.Name, h.busy)
		}
	}
	for _, m := range s.machines {
		seen := s.checker.Machine(direct + "/" + m.name)
		if m.deleting || seen == nil || seen.Spec.ProviderID == "" || seen.Status.HostRef == nil {
			return fmt.Errorf("machine %s is not there yet, or not gone", m.name)
		}
		if h := s.checker.Host(direct + "/" + seen.Status.HostRef.Name); h == nil || h.Status.Phase != v1alpha1.PhaseProvisioned {
			return fmt.Errorf("the host of machine %s is not Provisioned", m.name)
		}
	}
	return nil
}

// workersRun is nil if the MachineDeployment has its replicas, and each runs.
func (s *soak) workersRun(ctx context.Context) error {
	var md clusterv1.MachineDeployment
	if err := s.client.Get(ctx, client.ObjectKey{Namespace: whole, Name: deployment}, &md); err != nil {
		return err
	}
	return site.Running(s.plane, int(*md.Spec.Replicas)+1)(ctx)
}

// nothingLeft is nil if the manager and the BMCs hold no more than before, and all events are judged.
func (s *soak) nothingLeft(ctx context.Context) error {
	if err := s.quiet(ctx); err != nil {
		return err
	}
	if n := s.checker.Pending(); n > 0 {
		return fmt.Errorf("%d commands and boots are not judged yet", n)
	}
	now, err := s.footprint(ctx)
	if err != nil {
		return err
	}
	// A host that is registered again is a new host to the boot server, which gives the address of the old one away last.
	registered := len(s.all()) + s.report.count(reregistered)
	more := 25 + len(s.all())/5 // the number of connections to BMCs varies
	switch {
	case now.goroutines > s.before.goroutines+more, now.files > s.before.files+more, now.temporary > s.before.temporary, now.leases > registered:
		return fmt.Errorf("the manager has %s, and had %s", now, s.before)
	}
	s.logf("at rest the manager has %s; it had %s", now, s.before)
	return nil
}

// conclude prints the report, and returns what went wrong.
func (s *soak) conclude(ctx context.Context, err error) error {
	if err != nil {
		s.logf("%v\n%s", err, s.phases())
		if profile, profileErr := s.goroutines(ctx); profileErr == nil && strings.Contains(err.Error(), "goroutines") {
			fmt.Println(profile)
		}
	} else {
		s.checker.Rest()
	}
	s.report.print()
	s.usage.print(len(s.all()))
	fmt.Printf("\n%d of %d commands to BMCs were held to the rules; during the others changes went unseen\n", s.checker.Judged, s.checker.Judged+s.checker.Unjudged)
	violations := s.checker.Violations()
	fmt.Printf("violations: %d\n", len(violations))
	if len(violations) > 0 {
		err = errors.Join(err, fmt.Errorf("%d violations: see above", len(violations)))
	}
	if len(s.report.failures) > 0 {
		err = errors.Join(err, fmt.Errorf("%d operations failed: see above", len(s.report.failures)))
	}
	return err
}
