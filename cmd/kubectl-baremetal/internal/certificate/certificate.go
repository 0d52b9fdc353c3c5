// Package certificate prints certificates of sanitization for people.
package certificate

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/cmd/internal/terminal"
	"github.com/capbm-io/cluster-api-provider-baremetal/inventory/erasure"
)

// Print prints a certificate for people, and the form that they complete and sign. What agents and BMCs reported is printed without control characters.
func Print(w io.Writer, entry *erasure.Entry) {
	c := &entry.Certificate
	title, policy := terminal.Line(c.Title), "Policy"
	if c.Standard != "" {
		title, policy = title+" ("+terminal.Line(c.Standard)+")", "Sanitization method"
	}
	writef(w, "%s\n%s\n\n", title, strings.Repeat("=", len(title)))
	fields := func(prefix string, pairs ...string) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i+1] != "" {
				writef(w, "%s%-*s %s\n", prefix, 26-len(prefix), pairs[i]+":", terminal.Line(pairs[i+1]))
			}
		}
	}
	fields("", "Host", c.Host, "Manufacturer", c.Server.Manufacturer, "Model", c.Server.Model, "Serial number", cmp.Or(c.Server.SerialNumber, "unknown"),
		"System UUID", c.Server.SystemUUID, "MAC addresses", strings.Join(c.Server.BootMACAddresses, ", "), "Released by machine", c.Machine, "Provider ID", c.ProviderID,
		"Claim, boot", fmt.Sprintf("%s, %d", c.ClaimID, c.BootNumber))
	fields("", policy, string(c.Policy), "Tool used", c.Tool, "Started", c.StartTime.UTC().Format(timeFormat),
		"Ended", c.EndTime.UTC().Format(timeFormat), "Recorded", c.RecordedTime.UTC().Format(timeFormat), "Booted by", cmp.Or(string(c.Transport.BootMethod), "unknown"),
		"Firmware", cmp.Or(string(c.Transport.FirmwareMode), "unknown"), "Reported over", reportedOver(c.Transport.TLS), "Secure Boot", c.Transport.SecureBoot)
	if len(c.Media) == 0 {
		writef(w, "\nThe agent reported no disks.\n")
	}
	for i := range c.Media {
		m := &c.Media[i]
		writef(w, "\nMedium %d of %d: %s\n", i+1, len(c.Media), outcomeText(m))
		size := ""
		if m.SizeBytes > 0 {
			size = fmt.Sprintf("%d bytes", m.SizeBytes)
		}
		fields("  ", "Media type", m.MediaType, "Manufacturer", m.Manufacturer, "Model", m.Model, "Firmware", m.FirmwareVersion,
			"Serial number", cmp.Or(m.SerialNumber, "unknown"), "WWN", m.WWN, "Path", m.Path, "Size", size, "Method", string(m.Class), "Technique", m.Technique,
			"Basis", m.Basis, "Verification method", m.Verification, "Duration", m.Duration, "Reason", m.Reason)
		for _, warning := range m.Warnings {
			fields("  ", "Warning", warning)
		}
	}
	writef(w, "\n%s\n\n", terminal.Line(c.Basis))
	fields("", "Record", c.Record, "Signature", string(entry.Signature.Algorithm)+" "+entry.Signature.Value, "Key", entry.Signature.KeyID)
	writef(w, "This text is not signed. To check the signature, export with -o export, and run bmcctl erasures verify.\n")
	if c.Standard != "" {
		printForm(w, len(c.Media))
	}
}

// The fields of a certificate in NIST SP 800-88 Rev. 2 (section 4.6, and the sample in appendix C) that only people know. The standard asks for those of persons
// twice: for the sanitization and for its validation.
var (
	mediaFields  = []string{"Media source", "Confidentiality before", "Confidentiality after", "Media destination"}
	personFields = []string{"Name", "Title", "Organization", "Date", "Location", "Phone", "Signature"}
)

// printForm prints empty lines for what only people know. Each medium has its own property number. A record of an erasure of metadata has no form: it is not a
// sanitization that somebody could certify.
func printForm(w io.Writer, media int) {
	blanks := func(prefix string, names ...string) {
		for _, name := range names {
			writef(w, "%s%-*s %s\n", prefix, 26-len(prefix), name+":", strings.Repeat("_", 40))
		}
	}
	writef(w, "\nTo be completed by hand\n")
	for i := range media {
		blanks("  ", fmt.Sprintf("Property no., medium %d", i+1))
	}
	blanks("  ", mediaFields...)
	for _, role := range []string{"Sanitization performed by", "Validated by"} {
		writef(w, "%s\n", role)
		blanks("  ", personFields...)
	}
}

// timeFormat is that of certificates: RFC 3339 without the T.
const timeFormat = "2006-01-02 15:04:05 MST"

func reportedOver(tls bool) string {
	if tls {
		return "HTTPS with a pinned certificate"
	}
	return "HTTP: a client on the network of the server could have changed the report"
}

func outcomeText(m *erasure.Medium) string {
	switch m.Outcome {
	case "Erased":
		return "erased"
	case "LeftOut":
		return "LEFT OUT, its data was not erased"
	default:
		return terminal.Line(string(m.Outcome))
	}
}

// writef writes to the user. It ignores errors, because they cannot be reported.
func writef(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, format, args...)
}
