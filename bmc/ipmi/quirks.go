package ipmi

import (
	"regexp"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// quirk is how a BMC is to be treated differently.
type quirk struct {
	// methods are the ways to set a boot override that are tried first.
	methods []bmc.BootMethod
}

// knownQuirk is an entry of the table of known deviations.
type knownQuirk struct {
	name string
	// vendor, model and firmware are what the entry is for: patterns for the manufacturer, the FRU's product name and the
	// BMC's firmware version. nil is any.
	vendor, model, firmware *regexp.Regexp
	quirk                   quirk
	// observation is the observation behind the entry, and where it stands.
	observation string
}

func matches(pattern *regexp.Regexp, text string) bool {
	return pattern == nil || pattern.MatchString(text)
}

// needsModel is true where an entry is for the vendor and the firmware, so that the model decides.
func needsModel(vendor, firmware string) bool {
	for _, known := range knownQuirks {
		if known.model != nil && matches(known.vendor, vendor) && matches(known.firmware, firmware) {
			return true
		}
	}
	return false
}

// quirksOf merges the entries that are for a BMC. Later entries win.
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
