package ipmi

import (
	"regexp"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// knownQuirks is the table of known deviations. Each entry needs an observation with its source, model and firmware.
var knownQuirks = []knownQuirk{
	{
		name:   "EFIFlagBootsDisk",
		vendor: regexp.MustCompile(`^Supermicro$`), model: regexp.MustCompile(`^X11DSC`), firmware: regexp.MustCompile(`^1\.68$`),
		quirk: quirk{methods: []bmc.BootMethod{methodNoMode, methodFlags}},
		observation: "Supermicro X11DSC+, BIOS 3.1, firmware 1.68: PXE with the EFI flag boots the disk where that has a system, PXE without it " +
			"boots the network (github.com/bmc-toolbox/bmclib/pull/209). A comment there doubts this for UEFI: if no boot request arrives, " +
			"the caller tries the next method.",
	},
}
