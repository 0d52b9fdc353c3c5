package lifecycle

import (
	"hash/fnv"
	"time"
)

// HealthPoll is what is known of the readings of the health over time. What they found is a report, on which no decision depends.
type HealthPoll struct {
	// Since is when this process began to observe the host.
	Since time.Time
	// TriedAt is when the health was last read, or could not be read; zero before.
	TriedAt time.Time
	// Failures is how often in a row it could not be read.
	Failures int
	// Unsupported is true if the BMC does not offer it. The next inventory resets it.
	Unsupported bool
	// Soon is true if something indicates that the health has changed.
	Soon bool
}

const (
	// DefaultHealthInterval is the default of the flag of Settings.HealthInterval.
	DefaultHealthInterval = time.Minute
	// healthReadsPerSecond limits the load of all hosts together: from 300 hosts on, the interval of each is longer than a minute, and with 10,000 it is 33 minutes.
	healthReadsPerSecond = 5
	// minHealthInterval is the least time between two readings, whatever indicates a change.
	minHealthInterval = 5 * time.Second
	// maxHealthBackoff is the longest interval while the health cannot be read.
	maxHealthBackoff = time.Hour
)

// HealthInterval is the interval between two readings of the health of a host.
func HealthInterval(v View, s Settings) time.Duration {
	return max(s.HealthInterval, time.Duration(v.Provider.Hosts)*time.Second/healthReadsPerSecond)
}

// nextHealth is when the health of an idle host is to be read again. A hash of its name spreads the first readings of a process over the interval, and makes the interval of each host
// up to a tenth shorter or longer, so that hosts that were registered together are not read together.
func nextHealth(v View, s Settings) time.Time {
	poll, interval, place := v.BMC.Health, HealthInterval(v, s), v.Host.spread()
	switch {
	case poll.TriedAt.IsZero():
		return poll.Since.Add(interval / spreadParts * time.Duration(place))
	case poll.Failures > 0:
		return poll.TriedAt.Add(max(min(interval<<min(poll.Failures, 6), maxHealthBackoff), interval))
	case poll.Soon:
		return poll.TriedAt.Add(minHealthInterval)
	default:
		return poll.TriedAt.Add(interval - interval/10 + interval/5/spreadParts*time.Duration(place))
	}
}

// spreadParts is the number of parts of an interval over which hosts are spread.
const spreadParts = 1024

// spread returns the part of an interval of a host, from 0 to spreadParts-1.
func (h Host) spread() uint32 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(h.Namespace + "/" + h.Name)) // never fails
	return sum.Sum32() % spreadParts
}

// readsHealth is true for a host whose health is read over time. A view without the facts of a foreign server has no inventory, so that the health of such a server is not read.
func (v View) readsHealth(s Settings) bool {
	return s.HealthInterval > 0 && v.BMC.Inspected && !v.BMC.Health.Unsupported && !v.Identity.hasConflict()
}

func healthDue(v View, s Settings) bool { return v.readsHealth(s) && !v.Now.Before(nextHealth(v, s)) }

// withHealth returns the step of an idle host with the reading of its health, or with the time of the next one.
func withHealth(v View, s Settings, step Step) Step {
	switch {
	case step.Action != "" || !v.readsHealth(s):
		return step
	case healthDue(v, s):
		step.Action = ReadHealth
		return step
	default:
		return step.lookAgainAt(nextHealth(v, s))
	}
}
