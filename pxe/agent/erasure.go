package agent

import (
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
)

// Failed is the outcome of a disk that was not erased, or whose verification did not pass. A boot server records no erasure with such a disk, so the API does not have it.
const Failed wire.ErasureOutcome = "Failed"

// ErasedDisk is what became of a disk in a CleanPlan. Method, Class and Basis are empty for a disk that was left out.
type ErasedDisk struct {
	wire.DiskErasure

	// StartTime and EndTime are by the clock of the server.
	StartTime time.Time `json:"startTime,omitzero"`
	EndTime   time.Time `json:"endTime,omitzero"`
}
