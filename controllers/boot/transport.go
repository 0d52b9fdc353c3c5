package boot

import (
	"cmp"

	"github.com/capbm-io/cluster-api-provider-baremetal/api/wire"
	"github.com/capbm-io/cluster-api-provider-baremetal/controllers"
)

// transportOf returns the word of an agent for how a disk is connected. An agent may report anything: another word is TransportOther.
func transportOf(transport wire.DiskTransport) wire.DiskTransport {
	if transport == "" {
		return ""
	}
	return cmp.Or(controllers.OneOf(transport, wire.TransportNVMe, wire.TransportNVMeOverFabrics, wire.TransportSATA, wire.TransportSAS, wire.TransportSCSI,
		wire.TransportFibreChannel, wire.TransportISCSI, wire.TransportVirtio, wire.TransportUSB, wire.TransportMMC), wire.TransportOther)
}
