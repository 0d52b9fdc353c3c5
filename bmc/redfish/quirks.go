package redfish

import (
	"regexp"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// quirk is how a BMC is to be treated differently.
type quirk struct {
	// methods are the ways to set a boot override that are tried first.
	methods []bmc.BootMethod
	// keepMode sends the mode with every override, also where nobody asked for one.
	keepMode bool
	// disableOnly takes an override back without naming a target.
	disableOnly bool
	// home is the boot target that stands for no override, for BMCs that know none.
	home schemas.BootSource
	// settings says that the settings object is at SD below the system, although the system does not link to it.
	settings bool
	// cd is the name of the virtual drive as a boot target.
	cd schemas.BootSource
	// imageOnly inserts media with nothing but the image.
	imageOnly bool
	// serialInSKU says that the number by which the maker knows the server, where it has no serial number, is the SKU.
	serialInSKU bool
	// drive is what the Id of a usable virtual drive looks like; nil is any.
	drive *regexp.Regexp
}

// merge lets what the other says win.
func (q quirk) merge(other quirk) quirk {
	if other.methods != nil {
		q.methods = other.methods
	}
	if other.cd != "" {
		q.cd = other.cd
	}
	if other.home != "" {
		q.home = other.home
	}
	if other.drive != nil {
		q.drive = other.drive
	}
	q.keepMode = q.keepMode || other.keepMode
	q.disableOnly = q.disableOnly || other.disableOnly
	q.settings = q.settings || other.settings
	q.imageOnly = q.imageOnly || other.imageOnly
	q.serialInSKU = q.serialInSKU || other.serialInSKU
	return q
}

// knownQuirk is an entry of the table of known deviations.
type knownQuirk struct {
	name string
	// vendor, model and firmware are what the entry is for: patterns for what the system and its manager say. nil is any.
	vendor, model, firmware *regexp.Regexp
	quirk                   quirk
	// observation is the observation behind the entry, and where it can be read.
	observation string
}

// quirksOf merges the entries that are for a BMC. Later entries win.
func quirksOf(vendor, model, firmware string) (quirk, []string) {
	var (
		merged quirk
		names  []string
	)
	matches := func(pattern *regexp.Regexp, text string) bool { return pattern == nil || pattern.MatchString(text) }
	for _, known := range knownQuirks {
		if matches(known.vendor, vendor) && matches(known.model, model) && matches(known.firmware, firmware) {
			names, merged = append(names, known.name), merged.merge(known.quirk)
		}
	}
	return merged, names
}
