package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// judge sets the verdict on a server that is about to be registered. mac is the address of its boot interface; empty if it is not known.
func (f *findings) judge(e bmc.Endpoint, mac string) {
	d := f.Description
	if d.ClockAhead == nil && f.ClockAheadSeconds != nil {
		d.ClockAhead = new(time.Duration(*f.ClockAheadSeconds * float64(time.Second)))
	}
	can := d.Capabilities
	media := bmc.CheckMedia(can)
	missing := bmc.MissingForNetworkBoot(can)
	if len(media) == 0 {
		missing = slices.DeleteFunc(missing, func(c bmc.Capability) bool { return c == bmc.CanBootPXE })
	}
	described := f.Errors["description"] == ""
	if !described {
		media, missing = nil, nil
	}
	if e.URL == nil || !strings.HasPrefix(e.URL.Scheme, "redfish") { // other protocols have no virtual media
		media = nil
	}
	f.Warnings = slices.Concat(f.checkNICs(mac), bmc.CheckConnection(e.URL, e.InsecureSkipVerify), media, bmc.CheckDescription(d))
	if i := f.Inventory; i != nil && i.Health != "" && i.Health != bmc.HealthOK {
		f.Warnings = append(f.Warnings, bmc.Warning{Check: "Health", Message: fmt.Sprintf("the BMC reports that the health of the server is %s: read its event log with --events 20", i.Health)})
	}
	f.Ready = len(missing) == 0 && len(f.Errors) == 0
	switch {
	case len(missing) > 0:
		f.Verdict = "NOT ready to register: the BMC lacks " + list(missing) + ". The account may lack a right, or the BMC a licence or newer firmware"
	case !f.Ready:
		f.Verdict = "unknown: the BMC could not be read completely"
	case len(f.Warnings) > 0:
		f.Verdict = "ready to register, after a look at the warnings"
	default:
		f.Verdict = "ready to register"
	}
}

// checkNICs checks the boot interface, and notes what the BMC does not say about it.
func (f *findings) checkNICs(mac string) []bmc.Warning {
	i := f.Inventory
	if i == nil || !bmc.IsComplete(i.Fact(bmc.FactNICs)) {
		f.NotChecked = append(f.NotChecked, "the boot interface: the BMC does not list all interfaces")
		return nil
	}
	reports := func(n bmc.NIC) bool { return n.NetworkBoot != nil && (mac == "" || n.MACAddress == mac) }
	if !slices.ContainsFunc(i.NICs, reports) {
		f.NotChecked = append(f.NotChecked, "whether network boot of the interface is enabled: the BMC does not report it")
	}
	if mac == "" {
		f.NotChecked = append(f.NotChecked, "the boot interface: name it by --boot-mac")
	}
	if mac == "" {
		return bmc.CheckNICs(i.NICs)
	}
	return bmc.CheckNICs(i.NICs, mac)
}

// printVerdict writes the verdict and the warnings.
func (f *findings) printVerdict(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\nVerdict: %s\n", f.Verdict)
	for _, warning := range f.Warnings {
		fmt.Fprintf(&text, "  %s\n", clean(warning.String()))
	}
	for _, what := range f.NotChecked {
		fmt.Fprintf(&text, "  Not checked: %s\n", what)
	}
	_, err := io.WriteString(w, text.String())
	return err
}
