package boot

import (
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/v1alpha1"
)

// transports are the words of the agent for how a disk is connected. An agent may report anything: another word is TransportOther.
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
