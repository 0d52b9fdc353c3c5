package settings

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/slots"
)

// Rollout limits how many hosts of a profile are changed at once, in all and in each failure domain, and queues the others. A host needs a slot of its failure domain and
// one of its profile. It takes that of the failure domain first, and keeps it while it is queued for the other one. All methods are safe for concurrent use.
type Rollout[K comparable] struct {
	profiles, domains *slots.Slots[K]

	mu     sync.Mutex
	limits map[string]RolloutLimits
}

// RolloutLimits are how many hosts of a profile are changed at once.
type RolloutLimits struct {
	// Hosts is the number in all.
	Hosts int
	// PerDomain is the number in each failure domain; 0 for any number.
	PerDomain int
}

// RolloutHost is a host of a profile.
type RolloutHost[K comparable] struct {
	Profile string
	// Domain is its failure domain. Without one it is empty, and only the limit in all counts.
	Domain string
	Key    K
}

// RolloutPosition is where a host is queued.
type RolloutPosition struct {
	slots.Position

	// InDomain is true for the queue of its failure domain.
	InDomain bool
}

// NewRollout returns a Rollout without hosts. The options are those of both queues; their Limit is not used.
func NewRollout[K comparable](options slots.Options[K]) *Rollout[K] {
	r := &Rollout[K]{limits: map[string]RolloutLimits{}}
	options.Limit = func(profile string) int { return max(r.limitsOf(profile).Hosts, 1) }
	r.profiles = slots.New(options)
	options.Limit = func(domain string) int { return r.limitsOf(domain[:strings.LastIndexByte(domain, '/')]).PerDomain }
	r.domains = slots.New(options)
	return r
}

func domainOf[K comparable](h RolloutHost[K]) string { return h.Profile + "/" + h.Domain }

// SetLimits sets the limits of a profile. A profile without them has one host in all.
func (r *Rollout[K]) SetLimits(profile string, limits RolloutLimits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limits[profile] = limits
}

func (r *Rollout[K]) limitsOf(profile string) RolloutLimits {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.limits[profile]
}

// Acquire returns true if a host may be changed, and has its slots until a time at most. It returns where the host is queued otherwise. A queue is ordered by the time since.
func (r *Rollout[K]) Acquire(h RolloutHost[K], since, until, now time.Time) (RolloutPosition, bool) {
	limits := r.limitsOf(h.Profile)
	giveBack(r.profiles, h.Profile, h.Key, max(limits.Hosts, 1), now)
	if h.Domain == "" || limits.PerDomain == 0 {
		r.domains.Release(h.Key, now)
	} else {
		giveBack(r.domains, domainOf(h), h.Key, limits.PerDomain, now)
		if position, ok := r.domains.Acquire(domainOf(h), h.Key, since, until, now); !ok {
			r.profiles.Release(h.Key, now)
			return RolloutPosition{Position: position, InDomain: true}, false
		}
	}
	position, ok := r.profiles.Acquire(h.Profile, h.Key, since, until, now)
	return RolloutPosition{Position: position}, ok
}

// giveBack takes the slot of a host that has not begun if more hosts have slots than the limit, which was lowered.
func giveBack[K comparable](s *slots.Slots[K], group string, key K, limit int, now time.Time) {
	if holding, _ := s.Members(group, now); len(holding) > limit && slices.Contains(holding, key) {
		s.Leave(key, now)
	}
}

// Hold gives a host its slots until a time, also beyond the limits: it is being changed.
func (r *Rollout[K]) Hold(h RolloutHost[K], until, now time.Time) {
	r.profiles.Hold(h.Profile, h.Key, until, now)
	if h.Domain == "" {
		r.domains.Release(h.Key, now)
		return
	}
	r.domains.Hold(domainOf(h), h.Key, until, now)
}

// Release removes a host from the queues, or takes its slots.
func (r *Rollout[K]) Release(key K, now time.Time) {
	r.profiles.Release(key, now)
	r.domains.Release(key, now)
}

// Leave removes a host from the queues, or takes its slots if they are not from Hold.
func (r *Rollout[K]) Leave(key K, now time.Time) {
	r.profiles.Leave(key, now)
	r.domains.Leave(key, now)
}

// Holding returns the hosts of a profile that have their slots.
func (r *Rollout[K]) Holding(profile string, now time.Time) []K {
	holding, _ := r.profiles.Members(profile, now)
	return holding
}
