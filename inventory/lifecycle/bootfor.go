package lifecycle

import "github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"

// Boot is what a host must boot now.
type Boot string

const (
	// BootNothing boots nothing: the boot server does not answer.
	BootNothing Boot = "Nothing"
	// BootDisk boots what is installed on the disk.
	BootDisk Boot = "Disk"
	// BootAfterPowerOn boots the machine's boot source once the server is powered on. An earlier request is answered with "try again".
	BootAfterPowerOn Boot = "AfterPowerOn"
	// BootNetwork boots the machine's boot source with its bootstrap data.
	BootNetwork Boot = "Network"
	// BootAgent boots the agent.
	BootAgent Boot = "Agent"
)

// BootFor returns what the host must boot now. The boot server serves that. Once the operating system may have its bootstrap data, the host is never booted from
// the network again for the same machine.
func BootFor(v View, s Settings) Boot {
	switch StateOf(v) {
	case StateFree:
		if !inspects(v, s) && !v.erasesOnRequest(s) {
			return BootNothing
		}
		return networkBoot(v, BootAgent)
	case StateClaimed:
		if !v.erasesOnRequest(s) { // the machine waits for the end of the erasure
			return BootNothing
		}
		return networkBoot(v, BootAgent)
	case StateCleaning:
		if !v.Host.erasing() || !v.Host.bootCounted() || !v.Now.Before(v.Deadline(s)) {
			return BootNothing
		}
		return networkBoot(v, BootAgent)
	case StateBooting:
		switch {
		case !v.InFlight() || !v.Now.Before(v.Deadline(s)):
			return BootNothing
		case mayRepeat(*v.Host.Boot) && v.Host.Boot.Agent:
			return networkBoot(v, BootAgent)
		case mayRepeat(*v.Host.Boot):
			return networkBoot(v, BootNetwork)
		}
	case StateReportedIn, StateProvisioned, StatePowerHold:
	default:
		return BootNothing
	}
	if v.Consumer.Persistence == v1alpha1.PersistenceInstalled {
		return BootDisk
	}
	return BootNothing
}

// networkBoot returns what a server boots from the network, once it is powered on.
func networkBoot(v View, what Boot) Boot {
	if v.Host.Boot.PoweredOnTime == nil {
		return BootAfterPowerOn
	}
	return what
}
