package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"

	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/bootconfig"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/server"
)

const (
	// addressInterval is how often the addresses of the interfaces are compared with those of the networks. An address of keepalived moves in seconds.
	addressInterval = 5 * time.Second
	// addressEventInterval is how often the event of a missing address is recorded again. API servers keep events for an hour.
	addressEventInterval = 30 * time.Minute
)

// addressWatch observes whether the addresses of the boot server's networks are on interfaces of this machine. Without its address a boot server listens, and
// no server reaches it. The address may come later, with keepalived, so the boot server serves anyway.
type addressWatch struct {
	networks []bootconfig.Network
	local    func() ([]netip.Prefix, error)
	node     string      // empty outside of a cluster
	pod      *corev1.Pod // nil outside of a cluster
	recorder events.EventRecorder
	log      logr.Logger
}

// problem returns which addresses are on no interface, and the remedy. It is nil if the addresses of the interfaces cannot be read: nothing is known then.
func (w *addressWatch) problem() error {
	local, err := w.local()
	if err != nil {
		return nil //nolint:nilerr // Start logs it
	}
	missing := server.MissingAddresses(w.networks, local)
	if len(missing) == 0 {
		return nil
	}
	var names []string
	for _, address := range missing {
		names = append(names, address.String())
	}
	verb := " is"
	if len(names) > 1 {
		verb = " are"
	}
	what := strings.Join(names, ", ") + verb + " on no interface of "
	if w.node == "" {
		return errors.New(what + "this machine: run the boot server on the machine that has it, or set `address` of the network to an address of this machine")
	}
	return fmt.Errorf("%snode %s: set CAPBM_NODE_SELECTOR to the node that has it, or CAPBM_BOOT_ADDRESS (in a custom boot configuration: `address`) to an address of this node",
		what, w.node)
}

// Ready is a check of /readyz.
func (w *addressWatch) Ready(*http.Request) error { return w.problem() }

// NeedLeaderElection is false: every boot server has addresses of its own.
func (w *addressWatch) NeedLeaderElection() bool { return false }

// Start reports when addresses are missing, and when they are no longer missing.
func (w *addressWatch) Start(ctx context.Context) error {
	if _, err := w.local(); err != nil {
		w.log.Error(err, "Failed to read the addresses of the interfaces: whether the boot server's addresses are on them is not checked")
	}
	ticker := time.NewTicker(addressInterval)
	defer ticker.Stop()
	var last reportedAddresses
	for {
		last = w.report(last, time.Now())
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// reportedAddresses is what report last reported, and when it last recorded the event.
type reportedAddresses struct {
	problem string // empty if no address is missing
	eventAt time.Time
}

// report logs a change, and records an event while addresses are missing.
func (w *addressWatch) report(last reportedAddresses, now time.Time) reportedAddresses {
	problem := w.problem()
	switch {
	case problem == nil && last.problem != "":
		w.log.Info("The addresses of all networks are on interfaces of this machine again")
		return reportedAddresses{}
	case problem == nil:
		return last
	}
	if problem.Error() != last.problem {
		w.log.Error(problem, "The boot server is not ready. It serves its other networks")
	} else if now.Sub(last.eventAt) < addressEventInterval {
		return last
	}
	if w.pod != nil {
		controllers.RecordEvent(w.recorder, w.pod, nil, corev1.EventTypeWarning, controllers.EventBootAddressMissing, "Listen", "%s", problem)
	}
	return reportedAddresses{problem.Error(), now}
}
