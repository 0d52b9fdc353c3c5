package host

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
)

// facts is what was learned of hosts through their BMCs since this process started. Nothing of it needs to survive.
type facts struct {
	mu    sync.Mutex
	hosts map[types.NamespacedName]*hostFacts
}

type hostFacts struct {
	bmc      lifecycle.BMC
	endpoint *bmc.Endpoint
	secrets  string // the versions of the Secrets that endpoint was read from
	failures int    // in a row
	hardware *v1alpha1.Hardware

	description *v1alpha1.BMCStatus          // without the override
	override    *v1alpha1.BootOverrideStatus // as it was set by this process
	operation   *v1alpha1.Operation
}

func newFacts() *facts { return &facts{hosts: map[types.NamespacedName]*hostFacts{}} }

// with calls do with the facts of a host, which it may change. do must not block.
func (f *facts) with(key types.NamespacedName, do func(*hostFacts)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hosts[key]
	if h == nil {
		h = &hostFacts{}
		f.hosts[key] = h
	}
	do(h)
}

// get returns a copy of the facts of a host.
func (f *facts) get(key types.NamespacedName) hostFacts {
	var got hostFacts
	f.with(key, func(h *hostFacts) { got = *h })
	return got
}

func (f *facts) forget(key types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.hosts, key)
}

// reach takes the endpoint that the BMC is reached at from now on. New credentials are tried at once; what was learned at
// another address is forgotten, for it may have been another server.
func (h *hostFacts) reach(endpoint *bmc.Endpoint, secrets string) {
	if h.endpoint != nil && h.endpoint.URL.String() != endpoint.URL.String() {
		*h = hostFacts{}
	}
	h.bmc.Problem, h.failures = nil, 0
	h.endpoint, h.secrets = endpoint, secrets
}

// sawPower notes a power state that was read.
func (h *hostFacts) sawPower(state bmc.PowerState, now time.Time) {
	power := v1alpha1.PowerState(state)
	if h.bmc.Power != power {
		h.bmc.Power, h.bmc.PowerSince = power, now
	}
	h.bmc.PowerAt = now
	if power == v1alpha1.PowerOff {
		h.bmc.FirstShutDownAt = time.Time{}
	}
}

// commanded notes a power command that the BMC accepted.
func (h *hostFacts) commanded(command lifecycle.Command, now time.Time) {
	h.bmc.LastPower, h.bmc.LastPowerAt = command, now
	switch command {
	case lifecycle.CommandPowerOn:
		h.bmc.FirstShutDownAt = time.Time{}
	case lifecycle.CommandShutDown:
		h.shutDownTried(now)
	case lifecycle.CommandForceOff:
	}
}

// shutDownTried notes when the operating system was first asked to shut down.
func (h *hostFacts) shutDownTried(now time.Time) {
	if h.bmc.FirstShutDownAt.IsZero() {
		h.bmc.FirstShutDownAt = now
	}
}

// ended notes how a job ended.
func (h *hostFacts) ended(err error, now time.Time) {
	if err == nil {
		h.bmc.Problem, h.failures = nil, 0
		return
	}
	h.failures++
	problem := controllers.BMCProblem(err, h.failures, now)
	h.bmc.Problem = &problem
}

// operated notes what was done to the server.
func (h *hostFacts) operated(name string, start, end time.Time, err error) {
	ended := metav1.NewTime(end)
	h.operation = &v1alpha1.Operation{Name: name, StartedAt: metav1.NewTime(start), EndedAt: &ended, Outcome: v1alpha1.OperationSucceeded}
	if err != nil {
		h.operation.Outcome, h.operation.Message = v1alpha1.OperationFailed, err.Error()
	}
}
