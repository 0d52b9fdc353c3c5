package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/site"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// operation is something that operators or their tools do.
type operation struct {
	name   string
	weight int
	// do starts the operation. It returns false if no object is suitable.
	do func(s *soak, ctx context.Context) bool
}

const reregistered = "host deleted and registered again"

var operations = []operation{
	{"machine created", 34, (*soak).createOne},
	{"machine deleted", 22, (*soak).deleteOne},
	{"maintenance set and removed", 8, (*soak).maintainOne},
	{"server kept off by a power hold", 6, (*soak).holdOne},
	{"server power-cycled by annotation", 4, (*soak).cycleOne},
	{"power lost", 4, (*soak).losePower},
	{"host detached and taken back", 3, (*soak).detachOne},
	{"host externally provisioned and not", 2, (*soak).lendOne},
	{reregistered, 3, (*soak).reregister},
	{"free host erased once", 2, (*soak).eraseOne},
	{"firmware settings of a free host changed", 2, (*soak).configureOne},
	{"host force-released without fencing", 2, (*soak).forceRelease},
	{"MachineDeployment scaled", 4, (*soak).scale},
	{"Machine of Cluster API deleted", 3, (*soak).deleteWorker},
}

// drive runs operations until ctx ends.
func (s *soak) drive(ctx context.Context) {
	total := 0
	for _, o := range operations {
		total += o.weight
	}
	pause := min(time.Second, 90*time.Second/time.Duration(s.direct+s.whole)) // one operation for each host in a minute and a half
	for ctx.Err() == nil {
		n := s.operate.IntN(total)
		for _, o := range operations {
			if n -= o.weight; n < 0 {
				if o.do(s, context.WithoutCancel(ctx)) {
					s.report.done(o.name)
				}
				break
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// seconds draws a duration.
func (s *soak) seconds(from, to int) time.Duration {
	return time.Duration(from+s.operate.IntN(to-from+1)) * time.Second
}

// pick draws one of the idle hosts, and marks it as busy.
func (s *soak) pick(what string, fits func(*host, *v1alpha1.BareMetalHost) bool) *host {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fit []*host
	for _, h := range s.hosts {
		if seen := s.checker.Host(h.id()); h.busy == "" && seen != nil && fits(h, seen) {
			fit = append(fit, h)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	h := fit[s.operate.IntN(len(fit))]
	h.busy = what
	s.checker.Note(h.id(), "driver: "+what)
	return h
}

func (s *soak) free(h *host) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.busy = ""
	s.checker.Note(h.id(), "driver: done")
}

// task runs an action in the background, and records its error.
func (s *soak) task(what string, do func() error) {
	s.tasks.Go(func() {
		if err := do(); err != nil {
			s.report.failed(fmt.Sprintf("%s: %v", what, err))
		}
	})
}

// forAWhile changes a host, and changes it back after a time.
func (s *soak) forAWhile(ctx context.Context, h *host, after time.Duration, there, back func(*v1alpha1.BareMetalHost)) {
	s.task(h.busy+" "+h.Name, func() error {
		defer s.free(h)
		if err := s.patch(ctx, h, there); err != nil {
			return err
		}
		time.Sleep(after) // the duration of the change
		return s.patch(ctx, h, back)
	})
}

func inDirect(h *host, _ *v1alpha1.BareMetalHost) bool { return h.namespace == direct }

// runs is true for a host that runs a machine from its disk: it can be switched off and on.
func (s *soak) runs(h *host, seen *v1alpha1.BareMetalHost) bool {
	if h.namespace != direct || seen.Status.Phase != v1alpha1.PhaseProvisioned || seen.Spec.ConsumerRef == nil {
		return false
	}
	m := s.machines[seen.Spec.ConsumerRef.Name]
	return m != nil && m.installed && !m.deleting
}

func isFree(h *host, seen *v1alpha1.BareMetalHost) bool {
	return h.namespace == direct && isUnclaimed(seen)
}

func isUnclaimed(seen *v1alpha1.BareMetalHost) bool {
	return seen.Spec.ConsumerRef == nil && seen.Status.Phase == v1alpha1.PhaseAvailable
}

func (s *soak) createOne(ctx context.Context) bool {
	s.mu.Lock()
	if len(s.machines) >= s.direct*9/10 {
		s.mu.Unlock()
		return false
	}
	s.created++
	kind := s.operate.IntN(4) // two in four from memory, one that installs itself, and one from an image
	m := &machine{name: fmt.Sprintf("m-%04d", s.created), installed: kind < 2, image: kind == 0}
	switch s.created % 16 {
	case 0, 8:
		m.cleaning = wire.PolicyClear
	case 4:
		m.cleaning = wire.PolicyMetadata
	}
	s.machines[m.name] = m
	s.mu.Unlock()
	s.task("create "+m.name, func() error { return s.create(ctx, m) })
	return true
}

func (s *soak) deleteOne(ctx context.Context) bool {
	s.mu.Lock()
	var alive []*machine
	for _, m := range s.machines {
		if !m.deleting && s.checker.Machine(direct+"/"+m.name) != nil {
			alive = append(alive, m)
		}
	}
	s.mu.Unlock()
	if len(alive) < s.direct/3 {
		return false
	}
	slices.SortFunc(alive, func(a, b *machine) int { return cmp.Compare(a.name, b.name) })
	s.deleteMachine(ctx, alive[s.operate.IntN(len(alive))])
	return true
}

// deleteMachine deletes a machine in the background, once.
func (s *soak) deleteMachine(ctx context.Context, m *machine) {
	s.mu.Lock()
	again := m.deleting
	m.deleting = true
	s.mu.Unlock()
	if again {
		return
	}
	s.task("delete "+m.name, func() error {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
		defer cancel()
		return s.remove(ctx, m)
	})
}

func (s *soak) maintainOne(ctx context.Context) bool {
	h, after := s.pick("maintenance", inDirect), s.seconds(3, 20)
	if h != nil {
		s.forAWhile(ctx, h, after, func(h *v1alpha1.BareMetalHost) {
			h.Spec.Maintenance = &v1alpha1.Maintenance{Reason: "anna looks at it"}
		},
			func(h *v1alpha1.BareMetalHost) { h.Spec.Maintenance = nil })
	}
	return h != nil
}

func annotate(name, value string) func(*v1alpha1.BareMetalHost) {
	return func(h *v1alpha1.BareMetalHost) {
		if h.Annotations == nil {
			h.Annotations = map[string]string{}
		}
		h.Annotations[name] = value
		if value == "" {
			delete(h.Annotations, name)
		}
	}
}

func (s *soak) detachOne(ctx context.Context) bool {
	h, after := s.pick("detached", inDirect), s.seconds(3, 15)
	if h != nil {
		s.forAWhile(ctx, h, after, annotate(v1alpha1.DetachedAnnotation, "anna moves it"), annotate(v1alpha1.DetachedAnnotation, ""))
	}
	return h != nil
}

func (s *soak) lendOne(ctx context.Context) bool {
	h, after := s.pick("external", isFree), s.seconds(3, 15)
	if h == nil {
		return false
	}
	s.task("lend "+h.Name, func() error {
		defer s.free(h)
		// A host that a machine claims at the same moment is not lent: it would be the server of another.
		if lent, err := s.changeFree(ctx, h, func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = true }); err != nil || !lent {
			return err
		}
		time.Sleep(after) // the duration of the change
		return s.patch(ctx, h, func(h *v1alpha1.BareMetalHost) { h.Spec.ExternallyProvisioned = false })
	})
	return true
}

// eraseOne requests the erasure of a free host, whose releases erase the metadata of all disks from then on. The host is not busy meanwhile: other operations may meet
// its erasure, and the operator helps if it cannot begin or fails. The provider refuses it in the namespace of the Cluster that is driven by hand: its annotation says
// that it is paused, so its hosts may be moving.
func (s *soak) eraseOne(ctx context.Context) bool {
	h := s.pick("erased once", func(h *host, seen *v1alpha1.BareMetalHost) bool {
		return h.namespace == whole && isUnclaimed(seen) && seen.Status.Hardware != nil
	})
	if h == nil {
		return false
	}
	serial := s.checker.Host(h.id()).Status.Hardware.SerialNumber
	s.task("erase "+h.Name, func() error {
		defer s.free(h)
		changed, err := s.changeFree(ctx, h, func(h *v1alpha1.BareMetalHost) { h.Spec.CleaningPolicy = wire.PolicyMetadata })
		if err != nil || !changed {
			return err
		}
		return retry(ctx, "request the erasure of "+h.Name, func(ctx context.Context) error {
			var live v1alpha1.BareMetalHost
			if err := s.client.Get(ctx, h.key(), &live); err != nil {
				return client.IgnoreNotFound(err)
			}
			return s.client.Create(ctx, erasure.NewRequest(&live, serial, wire.PolicyMetadata, time.Now().Add(time.Hour)))
		})
	})
	return true
}

// changeFree changes a host if no machine has it, and returns whether it did.
func (s *soak) changeFree(ctx context.Context, h *host, change func(*v1alpha1.BareMetalHost)) (bool, error) {
	changed := false
	err := retry(ctx, "change "+h.Name, func(ctx context.Context) error {
		var live v1alpha1.BareMetalHost
		if err := s.client.Get(ctx, h.key(), &live); err != nil || live.Spec.ConsumerRef != nil {
			return client.IgnoreNotFound(err)
		}
		before := live.DeepCopy()
		change(&live)
		err := s.client.Patch(ctx, &live, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		changed = changed || err == nil
		return err
	})
	return changed, err
}

// reregister deletes a free host, and creates it again.
func (s *soak) reregister(ctx context.Context) bool {
	h := s.pick("registered again", isFree)
	if h == nil {
		return false
	}
	s.task("register again "+h.Name, func() error {
		defer s.free(h)
		// A host that a machine claims at the same moment stays. A host that is being deleted is not booted, and its machine would wait for ever.
		if deleted, err := s.deleteFree(ctx, h); err != nil || !deleted {
			return err
		}
		deadline := time.Now().Add(10 * time.Minute)
		for !apierrors.IsNotFound(s.client.Get(ctx, h.key(), &v1alpha1.BareMetalHost{})) {
			if time.Sleep(500 * time.Millisecond); time.Now().After(deadline) { // polling interval
				return fmt.Errorf("host %s is not gone", h.Name)
			}
		}
		_, again := h.Objects(h.namespace)
		return retry(ctx, "create host", func(ctx context.Context) error {
			again.ResourceVersion = ""
			return client.IgnoreAlreadyExists(s.client.Create(ctx, again))
		})
	})
	return true
}

// deleteFree deletes a free host, if it is as it was read, and returns whether it did.
func (s *soak) deleteFree(ctx context.Context, h *host) (bool, error) {
	deleted := false
	err := retry(ctx, "delete host", func(ctx context.Context) error {
		var live v1alpha1.BareMetalHost
		err := s.client.Get(ctx, h.key(), &live)
		if err == nil && live.Spec.ConsumerRef == nil {
			err = s.client.Delete(ctx, &live, client.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion})
			deleted = deleted || err == nil
		}
		deleted = deleted || apierrors.IsNotFound(err) // the answer to the first attempt may be lost
		return client.IgnoreNotFound(err)
	})
	return deleted, err
}

// forceRelease takes the BMC of a host down, deletes its machine, and releases the host without fencing.
func (s *soak) forceRelease(ctx context.Context) bool {
	h := s.pick("force-released", func(h *host, seen *v1alpha1.BareMetalHost) bool { return s.runs(h, seen) && !h.faulty })
	if h == nil {
		return false
	}
	s.mu.Lock()
	m := s.machines[s.checker.Host(h.id()).Spec.ConsumerRef.Name]
	s.mu.Unlock()
	if m == nil {
		s.free(h)
		return false
	}
	over := s.fault(h, "Down")
	s.deleteMachine(ctx, m)
	s.task("unfence "+h.Name, func() error {
		defer s.free(h)
		defer over()
		// Only the host shows the annotation that forces the release.
		if err := site.Until(ctx, 4*time.Minute, s.seen(h, "it shows the annotation that forces the release", func(seen *v1alpha1.BareMetalHost) bool {
			return slices.ContainsFunc(seen.Status.Conditions, func(c metav1.Condition) bool { return strings.Contains(c.Message, v1alpha1.ReleaseUnfencedAnnotation) })
		})); err != nil {
			return err
		}
		if err := s.patch(ctx, h, annotate(v1alpha1.ReleaseUnfencedAnnotation, "anna pulled its plug")); err != nil {
			return err
		}
		return site.Until(ctx, 4*time.Minute, s.seen(h, "it is released", func(seen *v1alpha1.BareMetalHost) bool { return seen.Spec.ConsumerRef == nil }))
	})
	return true
}

// seen returns a check that is nil when a host is in the expected state.
func (s *soak) seen(h *host, what string, is func(*v1alpha1.BareMetalHost) bool) func(context.Context) error {
	return func(context.Context) error {
		if seen := s.checker.Host(h.id()); seen == nil || !is(seen) {
			return fmt.Errorf("host %s was not observed: %s", h.Name, what)
		}
		return nil
	}
}
