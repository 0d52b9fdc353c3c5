package invariant

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// Violation is a violation of a rule.
type Violation struct {
	At      time.Time
	Rule    string
	Object  string
	Message string
	History []string
}

// String returns the violation with the history of its object.
func (v Violation) String() string {
	return fmt.Sprintf("%s %s: %s: %s\n    %s", v.At.Format(clock), v.Rule, v.Object, v.Message, strings.Join(v.History, "\n    "))
}

const clock = "15:04:05.000"

// Times are the tolerances of the checker.
type Times struct {
	// Slack is the maximum time from a decision to its command at the BMC. The manager reads the host from the API server just before, but a job has
	// several requests.
	Slack time.Duration
	// Lag is how long events wait before they are judged, and how long a disturbance has effects. The checker measures separately how far the watch is
	// behind the API server.
	Lag time.Duration
	// Phase is the maximum time of a host in a transient phase while no fault is active. Boot is the maximum time of a boot attempt.
	Phase, Boot time.Duration
	// Alike is a namespace in which every machine fits every host.
	Alike string
}

// version is a state from a time on. written is how precisely that time is known.
type version[T comparable] struct {
	written  span
	revision string // of the API server; empty if unknown
	facts    T
}

type history[T comparable] struct {
	versions []version[T]
	phaseFor time.Duration // how long it was in its last phase without a fault
}

func (h *history[T]) last() T {
	var zero T
	if len(h.versions) == 0 {
		return zero
	}
	return h.versions[len(h.versions)-1].facts
}

const mostVersions = 400

func (h *history[T]) add(written span, revision string, facts T) bool {
	if len(h.versions) > 0 && h.last() == facts {
		return false
	}
	h.versions = append(h.versions, version[T]{written, revision, facts})
	if extra := len(h.versions) - mostVersions; extra > 0 {
		h.versions = slices.Delete(h.versions, 0, extra)
	}
	return true
}

// during returns all states that may have been true at some time between two times.
func (h *history[T]) during(from, to time.Time) []version[T] {
	var found []version[T]
	for i, v := range h.versions {
		if v.written.from.After(to) {
			break
		}
		if i+1 < len(h.versions) && h.versions[i+1].written.to.Before(from) {
			continue
		}
		found = append(found, v)
	}
	if len(found) == 0 || found[0].written.to.After(from) {
		var zero T
		found = append([]version[T]{{span{from, from}, "", zero}}, found...) // it did not exist before
	}
	return found
}

// before returns the state just before a revision was written, and whether that is known.
func (h *history[T]) before(revision string) (facts T, known bool) {
	for _, v := range slices.Backward(h.versions) {
		if v.revision == "" || older(v.revision, revision) {
			return v.facts, v.revision != ""
		}
	}
	return facts, len(h.versions) < mostVersions
}

// span is a period of time. An open period has an empty end.
type span struct{ from, to time.Time }

// event is an event of a server. It is judged once all earlier writes are known.
type event struct {
	at    time.Time
	judge func()
}

// Checker checks everything that it is shown against the rules. Its methods may be called concurrently.
type Checker struct {
	times Times

	mu             sync.Mutex
	hosts          map[string]*history[hostFacts] // by namespace/name
	boots          map[string]*history[bootFacts]
	machines       map[string]*history[machineFacts]
	latestHosts    map[string]*v1alpha1.BareMetalHost // nil if it is gone
	latestMachines map[string]*v1alpha1.BareMetalMachine
	holders        map[string]map[string]bool // the hosts of a machine; both by namespace/name
	notes          map[string][]note          // by host
	pending        []event
	watched        []*dates             // the kinds that Watch follows
	cameOn         map[string]time.Time // by host, the last time
	troubles       []span               // of the whole plane
	gaps           []span               // in which changes were missed
	faults         map[string]int
	faultEnded     map[string]time.Time
	servers        map[string]Server
	seeds          map[string]seed        // by the instance ID
	used           map[string]int32       // by host and claim, the number of the boot whose bootstrap data an operating system may use
	commits        map[string]int32       // by host and claim, the number of the last boot that was allowed to make a disk bootable
	erasures       map[string]bool        // by host and claim, the erasures that were recorded
	systems        map[string]system      // by claim, the operating system that ran from a disk that an agent wrote
	powerOns       map[string][]time.Time // by host and boot
	lost           map[string]time.Time
	violations     []Violation
	starved        bool // the provider is late, because the machine is overloaded

	// Judged counts the commands that were checked. Unjudged counts those that came while changes were missed.
	Judged, Unjudged int
}

// note is an entry in the history of a server.
type note struct {
	at   time.Time
	what string
}

// Pending returns how many events are not judged yet.
func (c *Checker) Pending() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending)
}

// Server is what the checker reads of an emulated server.
type Server interface {
	On() bool
	Image() string
	// Disks returns what agents left on the disks of the server.
	Disks() []Disk
}

type seed struct {
	server  string
	address string
	life    int
}

// New returns a checker.
func New(times Times) *Checker {
	return &Checker{
		times: times, hosts: map[string]*history[hostFacts]{}, boots: map[string]*history[bootFacts]{}, machines: map[string]*history[machineFacts]{}, holders: map[string]map[string]bool{},
		latestHosts: map[string]*v1alpha1.BareMetalHost{}, latestMachines: map[string]*v1alpha1.BareMetalMachine{}, notes: map[string][]note{}, faults: map[string]int{}, faultEnded: map[string]time.Time{}, servers: map[string]Server{},
		seeds: map[string]seed{}, used: map[string]int32{}, commits: map[string]int32{}, systems: map[string]system{}, erasures: map[string]bool{}, powerOns: map[string][]time.Time{}, lost: map[string]time.Time{}, cameOn: map[string]time.Time{},
	}
}

// Violations returns what was violated.
func (c *Checker) Violations() []Violation {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// Host returns the last version of a host, or nil if it does not exist. The caller must not change it.
func (c *Checker) Host(name string) *v1alpha1.BareMetalHost {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latestHosts[name]
}

// Machine returns the last version of a machine, or nil if it does not exist. The caller must not change it.
func (c *Checker) Machine(name string) *v1alpha1.BareMetalMachine {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latestMachines[name]
}

// Know registers the server of a host.
func (c *Checker) Know(host string, server Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.servers[host] = server
}

// Note adds a line to the history of a host.
func (c *Checker) Note(host, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.note(host, what)
}

func (c *Checker) note(host, what string) {
	const most = 300
	c.notes[host] = append(c.notes[host], note{time.Now(), what})
	c.notes[host] = c.notes[host][max(0, len(c.notes[host])-most):]
}

// Starved reports whether the provider is so late that durations prove nothing.
func (c *Checker) Starved(starved bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starved = starved
}

// Trouble reports a disturbance of the API server or the manager. It lasts until the returned function is called.
func (c *Checker) Trouble() (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := len(c.troubles)
	c.troubles = append(c.troubles, span{from: time.Now()})
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.troubles[i].to = time.Now()
	}
}

// Fault reports a fault of a host's BMC. It lasts until the returned function is called.
func (c *Checker) Fault(host, what string) (over func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[host]++
	c.note(host, "fault "+what)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.faults[host]--
		c.faultEnded[host] = time.Now()
		c.note(host, "fault over: "+what)
	}
}

// PowerLost records that a server was switched off or on without a command.
func (c *Checker) PowerLost(host, how string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost[host] = time.Now()
	c.note(host, how)
}

// troubled is true during a disturbance and shortly after. The caller holds c.mu.
func (c *Checker) troubled(now time.Time) bool {
	for _, s := range c.troubles {
		if s.to.IsZero() || now.Sub(s.to) < c.times.Lag {
			return true
		}
	}
	return false
}

// historyOf returns the history of a host and of its machines as text. The caller holds c.mu.
func (c *Checker) historyOf(host string) []string {
	notes := slices.Clone(c.notes[host])
	namespace, _, _ := strings.Cut(host, "/")
	machines := map[string]bool{}
	if h := c.hosts[host]; h != nil {
		for _, v := range h.versions {
			notes = append(notes, note{v.written.to, "host " + v.facts.String()})
			if v.facts.consumer != "" {
				machines[namespace+"/"+v.facts.consumer] = true
			}
		}
	}
	for _, v := range c.bootHistory(host).versions {
		notes = append(notes, note{v.written.to, "boot " + v.facts.String()})
	}
	for name := range machines {
		if m := c.machines[name]; m != nil {
			for _, v := range m.versions {
				notes = append(notes, note{v.written.to, "machine " + name + " " + v.facts.String()})
			}
		}
	}
	slices.SortStableFunc(notes, func(a, b note) int { return a.at.Compare(b.at) })
	const most = 60
	var lines []string
	for _, n := range notes[max(0, len(notes)-most):] {
		lines = append(lines, n.at.Format(clock)+" "+n.what)
	}
	return lines
}

// violatef records a violation. The caller holds c.mu.
func (c *Checker) violatef(rule, object, format string, args ...any) {
	c.violations = append(c.violations, Violation{time.Now(), rule, object, fmt.Sprintf(format, args...), c.historyOf(object)})
}
