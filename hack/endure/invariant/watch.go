package invariant

import (
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Watch follows the hosts, their boots, their erasures and the machines until ctx ends. It sees every version of them. If the API server cannot deliver all of them, it
// records the gap.
func (c *Checker) Watch(ctx context.Context, from client.WithWatch) {
	hosts := &follower{client: from, list: func() client.ObjectList { return &v1alpha1.BareMetalHostList{} }, gap: c.gap, seen: map[string]bool{}}
	hosts.observe = func(name string, object runtime.Object, written span, every bool) {
		host, _ := object.(*v1alpha1.BareMetalHost)
		c.observeHost(name, host, written, every)
	}
	machines := &follower{client: from, list: func() client.ObjectList { return &v1alpha1.BareMetalMachineList{} }, gap: c.gap, seen: map[string]bool{}}
	machines.observe = func(name string, object runtime.Object, written span, _ bool) {
		machine, _ := object.(*v1alpha1.BareMetalMachine)
		c.observeMachine(name, machine, written)
	}
	boots := &follower{client: from, list: func() client.ObjectList { return &v1alpha1.BareMetalBootList{} }, gap: c.gap, observe: c.watchedBoot, seen: map[string]bool{}}
	erasures := &follower{client: from, list: func() client.ObjectList { return &v1alpha1.BareMetalErasureList{} }, gap: c.gap, seen: map[string]bool{}}
	erasures.observe = func(_ string, object runtime.Object, _ span, _ bool) {
		if e, ok := object.(*v1alpha1.BareMetalErasure); ok {
			c.ObserveErasure(e.Namespace+"/"+e.Spec.HostName, e)
		}
	}
	c.mu.Lock()
	c.watched = []*dates{&hosts.dates, &boots.dates, &machines.dates, &erasures.dates}
	c.mu.Unlock()
	var all sync.WaitGroup
	all.Go(func() { hosts.dates.poll(ctx, from, "BareMetalHost") })
	all.Go(func() { machines.dates.poll(ctx, from, "BareMetalMachine") })
	all.Go(func() { boots.dates.poll(ctx, from, "BareMetalBoot") })
	all.Go(func() { erasures.dates.poll(ctx, from, "BareMetalErasure") })
	all.Go(func() { machines.follow(ctx) })
	all.Go(func() { erasures.follow(ctx) })
	all.Go(func() { boots.follow(ctx) })
	hosts.follow(ctx)
	all.Wait()
}

func (c *Checker) gap(from, to time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gaps = append(c.gaps, span{from, to})
}

// follower follows the objects of a kind.
type follower struct {
	client client.WithWatch
	list   func() client.ObjectList
	// observe is called with each version of an object, nil if the object is gone; when it was written; and whether all versions before it were delivered.
	observe func(name string, object runtime.Object, written span, every bool)
	// gap is called with a period in which versions were missed.
	gap func(from, to time.Time)

	version string          // everything up to this version was delivered; empty if unknown
	seen    map[string]bool // the objects that exist
	at      time.Time       // when it was last known that nothing was missed
	dates   dates
}

func (f *follower) follow(ctx context.Context) {
	for ctx.Err() == nil {
		if f.version == "" {
			f.relist(ctx)
		}
		if f.version != "" {
			f.stream(ctx)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (f *follower) relist(ctx context.Context) {
	list := f.list()
	if err := f.client.List(ctx, list); err != nil {
		return
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return
	}
	there := map[string]bool{}
	for _, item := range items {
		name := nameOf(item)
		there[name] = true
		f.observe(name, item, f.dates.of(versionOf(item)), false)
	}
	for name := range f.seen {
		if !there[name] {
			f.observe(name, nil, f.dates.of(list.GetResourceVersion()), false)
		}
	}
	now := time.Now()
	if !f.at.IsZero() {
		f.gap(earlier(f.at, f.dates.complete()), now)
	}
	f.seen, f.version, f.at = there, list.GetResourceVersion(), now
	f.dates.delivered(f.version, len(f.seen))
}

func (f *follower) stream(ctx context.Context) {
	w, err := f.client.Watch(ctx, f.list(), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: f.version, AllowWatchBookmarks: true}})
	if err != nil {
		f.failed(err)
		return
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if e.Type == watch.Error {
			f.failed(apierrors.FromObject(e.Object))
			return
		}
		accessor, err := meta.Accessor(e.Object)
		if err != nil {
			return
		}
		f.version, f.at = accessor.GetResourceVersion(), time.Now()
		switch name := nameOf(e.Object); e.Type {
		case watch.Deleted:
			delete(f.seen, name)
			f.observe(name, nil, f.dates.of(f.version), true)
		case watch.Added, watch.Modified:
			f.seen[name] = true
			f.observe(name, e.Object, f.dates.of(f.version), true)
		case watch.Bookmark, watch.Error:
		}
		f.dates.delivered(f.version, len(f.seen))
	}
	f.at = time.Now()
}

// failed makes follow list again if the API server no longer has the versions since.
func (f *follower) failed(err error) {
	if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) || apierrors.IsInvalid(err) {
		f.version = ""
	}
}

func versionOf(object runtime.Object) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetResourceVersion()
}

func nameOf(object runtime.Object) string {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return ""
	}
	return accessor.GetNamespace() + "/" + accessor.GetName()
}
