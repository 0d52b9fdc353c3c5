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
	media := slices.Contains(can, bmc.CanVirtualMedia)
	missing := bmc.MissingForNetworkBoot(can)
	if media {
		missing = slices.DeleteFunc(missing, func(c bmc.Capability) bool { return c == bmc.CanBootPXE })
	}
	f.Warnings = slices.DeleteFunc(bmc.CheckBMC(e, d, media && slices.Contains(bmc.MissingForNetworkBoot(can), bmc.CanBootPXE)), func(w bmc.Warning) bool {
		return w.Check == bmc.CheckCapabilities // the verdict names them
	})
	if i := f.Inventory; i != nil && i.Fact(bmc.FactNICs).State == bmc.FactKnown {
		f.Warnings = append(bmc.CheckNICs(i.NICs, mac), f.Warnings...)
	}
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

// printVerdict writes the verdict and the warnings.
func (f *findings) printVerdict(w io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "\nVerdict: %s\n", f.Verdict)
	for _, warning := range f.Warnings {
		fmt.Fprintf(&text, "  %s\n", clean(warning.String()))
	}
	_, err := io.WriteString(w, text.String())
	return err
}
