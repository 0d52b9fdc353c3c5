package ipmi

import (
	"regexp"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// quirk changes how the driver treats a BMC.
type quirk struct {
	// methods are the boot methods that are tried first.
	methods []bmc.BootMethod
}

// knownQuirk is an entry of the table of known deviations.
type knownQuirk struct {
	name string
	// vendor, model and firmware are patterns for the manufacturer, the FRU's product name and the BMC's firmware version. nil matches
	// all.
	vendor, model, firmware *regexp.Regexp
	quirk                   quirk
	// observation is the reason for the entry, with its source.
	observation string
}

func matches(pattern *regexp.Regexp, text string) bool {
	return pattern == nil || pattern.MatchString(text)
}

// needsModel is true if the model decides whether an entry applies.
func needsModel(vendor, firmware string) bool {
	for _, known := range knownQuirks {
		if known.model != nil && matches(known.vendor, vendor) && matches(known.firmware, firmware) {
			return true
		}
	}
	return false
}

// quirksOf merges the entries that match a BMC. Later entries win.
func quirksOf(vendor, model, firmware string) (quirk, []string) {
	var (
		merged quirk
		names  []string
	)
	for _, known := range knownQuirks {
		if !matches(known.vendor, vendor) || !matches(known.model, model) || !matches(known.firmware, firmware) {
			continue
		}
		names = append(names, known.name)
		if known.quirk.methods != nil {
			merged.methods = known.quirk.methods
		}
	}
	return merged, names
}
