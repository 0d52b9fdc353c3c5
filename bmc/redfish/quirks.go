package redfish

import (
	"regexp"
	"slices"

	"github.com/stmcginnis/gofish/schemas"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// quirk changes how the driver treats a BMC.
type quirk struct {
	// methods are the boot methods that are tried first.
	methods []bmc.BootMethod
	// keepMode sends the current mode with an override that requests no mode.
	keepMode bool
	// omitMode leaves a mode out that the BMC has already.
	omitMode bool
	// disableOnly removes an override without a target.
	disableOnly bool
	// home is the boot target that means no override, for BMCs without the target None.
	home schemas.BootSource
	// settings means that the settings object of the system, and that of the Bios resource, is at SD below it, although it does not link to it.
	settings bool
	// cd is the name of the virtual drive as a boot target.
	cd schemas.BootSource
	// imageOnly sends only the image when media are inserted.
	imageOnly bool
	// serialInSKU uses the SKU as the serial number if the system reports no serial number.
	serialInSKU bool
	// mebibytes means that the sizes of drives are in MiB, if they would be less than a drive has.
	mebibytes bool
	// drive matches the Id of a usable virtual drive; nil matches all.
	drive *regexp.Regexp
	// biosJob means that staged BIOS attributes are applied only by a job of the BMC.
	biosJob bool
	// secureBootAttribute is the BIOS attribute, with the values Enabled and Disabled, that changes Secure Boot together with other attributes; empty for none.
	secureBootAttribute string
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
	if other.secureBootAttribute != "" {
		q.secureBootAttribute = other.secureBootAttribute
	}
	q.keepMode = q.keepMode || other.keepMode
	q.omitMode = q.omitMode || other.omitMode
	q.disableOnly = q.disableOnly || other.disableOnly
	q.settings = q.settings || other.settings
	q.imageOnly = q.imageOnly || other.imageOnly
	q.serialInSKU = q.serialInSKU || other.serialInSKU
	q.mebibytes = q.mebibytes || other.mebibytes
	q.biosJob = q.biosJob || other.biosJob
	return q
}

// knownQuirk is an entry of the table of known deviations.
type knownQuirk struct {
	name string
	// vendor, model and firmware are patterns for the properties of the system, of the service and of the manager. nil matches all.
	vendor, model, firmware *regexp.Regexp
	// not is a pattern for models that the entry does not concern; nil for none.
	not   *regexp.Regexp
	quirk quirk
	// observation is the reason for the entry, with its source.
	observation string
}

// quirksOf merges the entries that match a BMC. Later entries win. vendors are the manufacturer of the system and the vendor of the service, which often differ.
func quirksOf(vendors []string, model, firmware string) (quirk, []string) {
	var (
		merged quirk
		names  []string
	)
	matches := func(pattern *regexp.Regexp, text string) bool { return pattern == nil || pattern.MatchString(text) }
	for _, known := range knownQuirks {
		isVendor := slices.ContainsFunc(vendors, func(vendor string) bool { return matches(known.vendor, vendor) })
		excluded := known.not != nil && known.not.MatchString(model)
		if isVendor && !excluded && matches(known.model, model) && matches(known.firmware, firmware) {
			names, merged = append(names, known.name), merged.merge(known.quirk)
		}
	}
	return merged, names
}
