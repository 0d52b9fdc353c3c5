package redfish

import (
	"regexp"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// quirk changes how the driver treats a BMC.
type quirk struct {
	// methods are the boot methods that are tried first.
	methods []bmc.BootMethod
	// keepMode sends the current mode with an override that requests no mode.
	keepMode bool
	// disableOnly removes an override without a target.
	disableOnly bool
	// home is the boot target that means no override, for BMCs without the target None.
	home schemas.BootSource
	// settings means that the settings object is at SD below the system, although the system does not link to it.
	settings bool
	// cd is the name of the virtual drive as a boot target.
	cd schemas.BootSource
	// imageOnly sends only the image when media are inserted.
	imageOnly bool
	// serialInSKU uses the SKU as the serial number if the system reports no serial number.
	serialInSKU bool
	// drive matches the Id of a usable virtual drive; nil matches all.
	drive *regexp.Regexp
}

// merge returns the quirk with the settings of other, which wins.
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
	// vendor, model and firmware are patterns for the properties of the system and its manager. nil matches all.
	vendor, model, firmware *regexp.Regexp
	quirk                   quirk
	// observation is the reason for the entry, with its source.
	observation string
}

// quirksOf merges the entries that match a BMC. Later entries win.
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
