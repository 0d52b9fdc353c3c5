package boot

import (
	"errors"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/lifecycle"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/artifact"
)

// Prefetcher has the kernels and initrds that servers boot. server.Server implements it.
type Prefetcher interface {
	// Prefetch begins to fetch a file for a namespace, and does not wait: until the file is here, the error is artifact.ErrNotYet.
	Prefetch(namespace string, file artifact.Artifact) error
}

// prefetches is true for a host whose machine boots a kernel of spec.boot and has not booted it yet.
func prefetches(a attempt) bool {
	if a.consumer == nil || a.consumer.BareMetalMachine == nil || len(files(a.consumer.BareMetalMachine.Spec.Boot)) == 0 {
		return false
	}
	state := lifecycle.StateOf(a.view)
	return state == lifecycle.StateClaimed || state == lifecycle.StateBooting
}

// prefetch fetches the kernel and the initrds of a machine before its server requests them. A BMC that requests a medium whose files are not here yet is refused, and
// may not request it again. It returns when to look again: files that are here are kept only if they are used. An error is recorded when the server boots, whose request
// starts another fetch, and the cache logs it.
func (r *imageReconciler) prefetch(a attempt) time.Duration {
	if r.Prefetcher == nil {
		return 0
	}
	again := imageKeepInterval
	for _, file := range files(a.consumer.BareMetalMachine.Spec.Boot) {
		if err := r.Prefetcher.Prefetch(a.host.Namespace, file); errors.Is(err, artifact.ErrNotYet) {
			again = imagePollInterval
		}
	}
	return again
}
