package fleet

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/why"
)

// Follower reads all hosts and keeps them up to date by watches. When a watch ends, all is read again, so that no change is missed. If a kind may not be watched, all is read again
// after the time between two polls.
type Follower struct {
	Client    client.WithWatch
	Namespace string
	// Options restrict the hosts by their labels.
	Options []client.ListOption
	// RetryDelay is the time between two attempts to connect.
	RetryDelay time.Duration
	// PollInterval is the time after which all is read again if a kind may not be watched.
	PollInterval time.Duration

	unwatched []string // kinds that may not be watched
}

// Snapshot is the state of all hosts at one time.
type Snapshot struct {
	Objects *Objects
	// Lost is the error since which the objects are not up to date; nil while they are.
	Lost error
	// Unwatched are the kinds that may be listed and not watched, so they are as old as the last poll.
	Unwatched []string
}

// Run calls show with a snapshot at first and after changes, until ctx ends. show returns how long it wants no other one: changes that happen meanwhile come as one snapshot. The
// error is that of the first read; later errors are in snapshots.
func (f *Follower) Run(ctx context.Context, show func(Snapshot) time.Duration) error {
	var last *Objects
	for {
		objects, versions, err := Read(ctx, f.Client, f.Namespace, f.Options...)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the user ended it
		case err != nil && last == nil:
			return err
		case err != nil:
			show(Snapshot{Objects: last, Lost: err, Unwatched: f.unwatched})
		default:
			last = f.watch(ctx, objects, versions, show)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(f.RetryDelay):
		}
	}
}

// refreshInterval is the time after which a snapshot is shown without a change, since waits become overdue by time alone.
const refreshInterval = 10 * time.Second

// watch shows the objects and their changes until a watch ends. It returns the last objects.
func (f *Follower) watch(ctx context.Context, objects *Objects, versions Versions, show func(Snapshot) time.Duration) *Objects {
	ctx, cancel := context.WithCancel(ctx)
	s, changed, ended := newStore(objects), make(chan struct{}, 1), make(chan ending, 3)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel() // before the wait
	start := func(kind, version string, list client.ObjectList, options ...client.ListOption) {
		if slices.Contains(f.unwatched, kind) || slices.ContainsFunc(objects.Unread, func(u why.Unread) bool { return u.Kind == kind }) {
			return
		}
		wg.Go(func() { ended <- ending{kind, f.one(ctx, s, version, list, changed, options)} })
	}
	start(why.KindHost, versions.Hosts, &v1alpha1.BareMetalHostList{}, f.Options...)
	start(why.KindBoot, versions.Boots, &v1alpha1.BareMetalBootList{})
	start(why.KindBareMetalMachine, versions.Machines, &v1alpha1.BareMetalMachineList{})
	refresh, poll := time.NewTicker(refreshInterval), time.NewTicker(f.PollInterval) // a refusal may come after the first poll
	defer refresh.Stop()
	defer poll.Stop()
	for {
		rest := time.After(show(Snapshot{Objects: s.objects(), Unwatched: f.unwatched}))
		select {
		case <-ctx.Done():
			return s.objects()
		case <-rest:
		}
		select {
		case <-ctx.Done():
			return s.objects()
		case one := <-ended:
			if !apierrors.IsForbidden(one.err) {
				return s.objects() // the API server ends watches from time to time
			}
			f.unwatched = append(f.unwatched, one.kind)
		case <-poll.C:
			if len(f.unwatched) > 0 {
				return s.objects()
			}
		case <-changed:
		case <-refresh.C:
		}
	}
}

// ending is the end of the watch of a kind.
type ending struct {
	kind string
	err  error
}

// one follows one kind until its watch ends.
func (f *Follower) one(ctx context.Context, s *store, version string, list client.ObjectList, changed chan<- struct{}, options []client.ListOption) error {
	options = append(slices.Clone(options), client.InNamespace(f.Namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}})
	w, err := f.Client.Watch(ctx, list, options...)
	if err != nil {
		return err
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case event, ok := <-w.ResultChan():
			if !ok {
				return errors.New("the watch ended")
			}
			if err := s.apply(event); err != nil {
				return err
			}
		}
		select {
		case changed <- struct{}{}:
		default: // a change is pending already
		}
	}
}

// store has the objects by their names.
type store struct {
	mu       sync.Mutex
	hosts    map[client.ObjectKey]*v1alpha1.BareMetalHost
	boots    map[client.ObjectKey]*v1alpha1.BareMetalBoot
	machines map[client.ObjectKey]*v1alpha1.BareMetalMachine
	unread   []why.Unread
}

func newStore(o *Objects) *store {
	s := &store{
		hosts: map[client.ObjectKey]*v1alpha1.BareMetalHost{}, boots: map[client.ObjectKey]*v1alpha1.BareMetalBoot{},
		machines: map[client.ObjectKey]*v1alpha1.BareMetalMachine{}, unread: o.Unread,
	}
	for i := range o.Hosts {
		s.hosts[client.ObjectKeyFromObject(&o.Hosts[i])] = &o.Hosts[i]
	}
	for i := range o.Boots {
		s.boots[client.ObjectKeyFromObject(&o.Boots[i])] = &o.Boots[i]
	}
	for i := range o.Machines {
		s.machines[client.ObjectKeyFromObject(&o.Machines[i])] = &o.Machines[i]
	}
	return s
}

// apply applies an event of a watch.
func (s *store) apply(event watch.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if event.Type == watch.Error {
		return apierrors.FromObject(event.Object)
	}
	switch object := event.Object.(type) {
	case *v1alpha1.BareMetalHost:
		keep(s.hosts, object, event.Type)
	case *v1alpha1.BareMetalBoot:
		keep(s.boots, object, event.Type)
	case *v1alpha1.BareMetalMachine:
		keep(s.machines, object, event.Type)
	}
	return nil
}

func keep[T client.Object](objects map[client.ObjectKey]T, object T, kind watch.EventType) {
	switch kind {
	case watch.Added, watch.Modified:
		objects[client.ObjectKeyFromObject(object)] = object
	case watch.Deleted:
		delete(objects, client.ObjectKeyFromObject(object))
	default: // a bookmark
	}
}

// objects returns what is known now.
func (s *store) objects() *Objects {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := &Objects{Unread: s.unread}
	for _, h := range s.hosts {
		o.Hosts = append(o.Hosts, *h)
	}
	for _, b := range s.boots {
		o.Boots = append(o.Boots, *b)
	}
	for _, m := range s.machines {
		o.Machines = append(o.Machines, *m)
	}
	return o
}
