package hardware

import (
	"encoding/binary"
	"fmt"
)

// The sizes of the data structures, in bytes (NVM Express Base Specification 2.1).
const (
	nvmeIdentifySize = 4096
	nvmeSMARTSize    = 512
)

// The values of agent.Disk.Health.
const (
	healthOK       = "OK"
	healthWarning  = "Warning"
	healthCritical = "Critical"
)

// ParseNVMeIdentify returns the erase methods of an NVMe controller from its Identify Controller data structure (5.1.13.2.1, figure 312).
func ParseNVMeIdentify(data []byte) ([]string, error) {
	if len(data) < nvmeIdentifySize {
		return nil, fmt.Errorf("the Identify Controller data structure has %d bytes instead of %d", len(data), nvmeIdentifySize)
	}
	var out []string
	sanicap := binary.LittleEndian.Uint32(data[328:])
	for bit, method := range []string{"nvme-sanitize-crypto", "nvme-sanitize-block", "nvme-sanitize-overwrite"} {
		if sanicap&(1<<bit) != 0 {
			out = append(out, method)
		}
	}
	// Bit 1 of OACS: Format NVM is supported. Bit 2 of FNA: with cryptographic erase. User data erase is always possible with Format NVM.
	if binary.LittleEndian.Uint16(data[256:])&(1<<1) != 0 {
		if data[524]&(1<<2) != 0 {
			out = append(out, "nvme-format-crypto")
		}
		out = append(out, "nvme-format-user")
	}
	return out, nil
}

// ParseNVMeHealth returns the health of an NVMe controller from its log page SMART / Health Information (5.1.12.1.3, figure 206). Unreliable media, a drive that
// is read-only, and a failed backup of volatile memory are critical. Little spare capacity, temperature and wear are warnings.
func ParseNVMeHealth(data []byte) (string, error) {
	if len(data) < nvmeSMARTSize {
		return "", fmt.Errorf("the log page SMART / Health Information has %d bytes instead of %d", len(data), nvmeSMARTSize)
	}
	warning, used := data[0], data[5]
	switch {
	case warning&(1<<2|1<<3|1<<4) != 0:
		return healthCritical, nil
	case warning&(1<<0|1<<1|1<<5) != 0 || used >= 100:
		return healthWarning, nil
	default:
		return healthOK, nil
	}
}
