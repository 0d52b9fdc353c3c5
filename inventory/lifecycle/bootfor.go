package lifecycle

import "github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"

// Boot is what a host must boot now.
type Boot string

// The answers of BootFor.
const (
	// BootNothing leaves the server to itself: the boot server does not answer it.
	BootNothing Boot = "Nothing"
	// BootDisk boots what is installed on the disk.
	BootDisk Boot = "Disk"
	// BootSoon boots the machine's boot source once the server is powered on: a request that comes before is told to ask again.
	BootSoon Boot = "Soon"
	// BootNetwork boots the machine's boot source with its bootstrap data.
	BootNetwork Boot = "Network"
)

// BootFor returns what the host must boot now. The boot server asks it for what to serve. A host whose bootstrap data was
// given out is never network-booted again for the same machine.
func BootFor(v View, s Settings) Boot {
	switch StateOf(v) {
	case StateBooting:
		switch {
		case !v.InFlight() || !v.Now.Before(v.Deadline(s)):
			return BootNothing
		case v.Boot.DataServedAt == nil && v.Boot.PoweredOnAt == nil:
			return BootSoon
		case v.Boot.DataServedAt == nil:
			return BootNetwork
		}
	case StateReported, StateProvisioned, StatePowerHold:
	default:
		return BootNothing
	}
	if v.Consumer.Persistence == v1alpha1.PersistenceInstalled {
		return BootDisk
	}
	return BootNothing
}
