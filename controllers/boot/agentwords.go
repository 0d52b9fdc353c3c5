package boot

import (
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
	"github.com/capbm-io/cluster-api-provider-baremetal/pxe/agent"
)

// An agent may report anything, and the API has closed sets of words: what is not in them is unknown.

func firmwareModeOf(firmware agent.Firmware) v1alpha1.FirmwareMode {
	switch firmware {
	case agent.UEFI:
		return v1alpha1.FirmwareUEFI
	case agent.BIOS:
		return v1alpha1.FirmwareBIOS
	default:
		return ""
	}
}

func secureBootOf(state agent.SecureBoot) v1alpha1.SecureBoot {
	switch state {
	case agent.SecureBootEnabled:
		return v1alpha1.SecureBootEnabled
	case agent.SecureBootDisabled:
		return v1alpha1.SecureBootDisabled
	default:
		return ""
	}
}

func healthOf(health string) v1alpha1.Health {
	switch h := v1alpha1.Health(health); h {
	case v1alpha1.HealthOK, v1alpha1.HealthWarning, v1alpha1.HealthCritical:
		return h
	default:
		return ""
	}
}

// transports are the words of the agent for how a disk is connected.
var transports = map[string]v1alpha1.DiskTransport{
	"nvme": v1alpha1.TransportNVMe, "sata": v1alpha1.TransportSATA, "sas": v1alpha1.TransportSAS, "scsi": v1alpha1.TransportSCSI,
	"fc": v1alpha1.TransportFibreChannel, "iscsi": v1alpha1.TransportISCSI, "virtio": v1alpha1.TransportVirtio, "usb": v1alpha1.TransportUSB,
	"mmc": v1alpha1.TransportMMC, "": "",
}

func transportOf(transport string) v1alpha1.DiskTransport {
	word, known := transports[transport]
	switch {
	case known:
		return word
	case strings.HasPrefix(transport, "nvme-"):
		return v1alpha1.TransportNVMeOverFabrics
	default:
		return v1alpha1.TransportOther
	}
}
