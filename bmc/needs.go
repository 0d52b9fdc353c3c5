package bmc

import "slices"

// MissingForNetworkBoot lists what a boot over the network needs and is not among the capabilities. Either kind of network boot will
// do: where there is neither, BootPXE stands for both.
func MissingForNetworkBoot(can []Capability) []Capability {
	var missing []Capability
	for _, needed := range []Capability{CanPowerOn, CanForceOff, CanBootPXE} {
		if !slices.Contains(can, needed) && (needed != CanBootPXE || !slices.Contains(can, CanBootHTTP)) {
			missing = append(missing, needed)
		}
	}
	return missing
}
