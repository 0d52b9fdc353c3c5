package boot

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// stageQueue queues observed stages, which are written in the background: no packet waits for the API server. All stages of a host that arrive before it is
// written go into one write. A slow API server thus gets fewer writes, and updates of a host's boot meet fewer conflicts.
type stageQueue struct {
	hosts workqueue.TypedDelayingInterface[types.NamespacedName] // those with pending writes

	mu        sync.Mutex
	pending   map[types.NamespacedName]*pendingStatus
	written   map[writeKey]lastWrite // what the cache may not show yet
	lastSweep time.Time              // when old entries of written were last deleted
}

// pendingStatus is what has to be written to the status of a host's boot.
type pendingStatus struct {
	stages  []stage
	problem *v1alpha1.BootProblem
	agent   *v1alpha1.AgentProgress
	// otherServer is the problem that another DHCP server answered. It is written after otherServerAfter, unless the server boots in the meantime.
	otherServer *v1alpha1.BootProblem
}

// stage is an observed stage, and how long after the start of its attempt it was observed.
type stage struct {
	v1alpha1.ObservedStage

	took time.Duration
	way  string // as enqueueSeen has it
}

type writeKey struct {
	host types.NamespacedName
	what string // the stage, or the problem
}

// lastWrite is when a stage was last recorded, and the number of its boot.
type lastWrite struct {
	boot int32
	at   time.Time
}

func newStageQueue() *stageQueue {
	return &stageQueue{
		hosts: workqueue.NewTypedDelayingQueue[types.NamespacedName](), pending: map[types.NamespacedName]*pendingStatus{}, written: map[writeKey]lastWrite{},
	}
}

// add adds to the pending status of a host. It returns false if too many hosts are pending already.
func (s *stageQueue) add(host types.NamespacedName, change func(*pendingStatus)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.pending[host]
	if n == nil {
		if len(s.pending) >= maxPendingHosts {
			return false
		}
		n = &pendingStatus{}
		s.pending[host] = n
	}
	change(n)
	delay := batchDelay
	if n.agent != nil {
		delay = progressDelay
	}
	s.hosts.AddAfter(host, delay)
	return true
}

// pendingHosts returns the hosts with pending writes.
func (s *stageQueue) pendingHosts() []types.NamespacedName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.pending))
}

// takePending removes and returns the pending status of a host, except for what must wait longer.
func (s *stageQueue) takePending(host types.NamespacedName, now time.Time) *pendingStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.pending[host]
	delete(s.pending, host)
	if n == nil || n.otherServer == nil {
		return n
	}
	if wait := n.otherServer.Time.Add(otherServerAfter).Sub(now); wait > 0 {
		s.pending[host] = &pendingStatus{otherServer: n.otherServer}
		s.hosts.AddAfter(host, wait)
		n.otherServer = nil
	}
	return n
}

// addStage adds a stage. It replaces the same stage of an earlier attempt.
func (n *pendingStatus) addStage(s stage) {
	if at := slices.IndexFunc(n.stages, func(o stage) bool { return o.Stage == s.Stage }); at >= 0 {
		n.stages[at] = s
		return
	}
	n.stages = append(n.stages, s)
}

// startWrite is true for a stage that was not written recently for an attempt, and records that it is written now. It deletes entries that the cache no longer
// needs, so that memory holds only the stages of about two minutes, and not every host that ever booted.
func (s *stageQueue) startWrite(key writeKey, boot int32, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.lastSweep) >= cacheSyncDelay {
		s.lastSweep = now
		for k, w := range s.written {
			if now.Sub(w.at) >= cacheSyncDelay {
				delete(s.written, k)
			}
		}
	}
	if w, ok := s.written[key]; ok && w.boot == boot && now.Sub(w.at) < cacheSyncDelay {
		return false
	}
	s.written[key] = lastWrite{boot, now}
	return true
}

func (s *stageQueue) forget(key writeKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.written, key)
}
