package main

import (
	"cmp"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// masked replaces confidential text.
const masked = "(masked)"

// masker masks confidential text.
type masker struct {
	scheme      string
	withSerials bool
	// secrets are masked everywhere, names only as whole words, because they are short.
	secrets *strings.Replacer
	names   []*regexp.Regexp
}

var (
	uuids = regexp.MustCompile(`(?i)\b[0-9a-f]{8}-?([0-9a-f]{4}-?){3}[0-9a-f]{12}\b`)
	macs  = regexp.MustCompile(`(?i)\b[0-9a-f]{2}([:-][0-9a-f]{2}){5}\b`)
	// serials matches serial numbers in the notes of the suite.
	serials = regexp.MustCompile(`(?i)\bserial "[^"]*"`)
	// peers matches addresses with a port, as in network errors.
	peers = regexp.MustCompile(`(\d{1,3}(\.\d{1,3}){3}|\[[0-9a-fA-F:.%\w]*\]):\d+`)
	// ipv4s matches addresses, and versions with four numbers. The first group is not empty for versions.
	ipv4s = regexp.MustCompile(`(?i)(\b(?:firmware|version):? "?)?\b\d{1,3}(?:\.\d+){3,}\b`)
	// ipv6s matches addresses, but also times and MAC addresses.
	ipv6s = regexp.MustCompile(`[0-9A-Za-z.]*:[0-9A-Za-z.]*:[0-9A-Za-z:.]*(?:%\w+)?`)
)

// versions are the fields that contain versions.
var versions = []string{"firmwareVersion", "bmcFirmwareVersion", "firmware", "protocol", "bmcctl"}

// identities are the fields that identify a server.
var identities = []string{"serialNumber", "serial", "systemUUID", "macAddress", "wwn"}

// newMasker returns a masker for the identity, address and credentials of this server.
func newMasker(t *target, q *qualification, mediaURL string, i *bmc.Inventory) *masker {
	m := &masker{scheme: t.URL.Scheme, withSerials: q.withSerials}
	words := []string{t.Password, t.URL.Host, t.URL.Hostname()}
	for _, text := range []string{q.image, mediaURL} {
		words = append(words, text)
		if image, err := url.Parse(text); err == nil {
			words = append(words, image.Host, image.Hostname())
		}
	}
	if len(t.Username) >= 4 {
		words = append(words, t.Username)
	} else if t.Username != "" { // it may be a part of other words
		m.names = append(m.names, regexp.MustCompile(`(^|\W)`+regexp.QuoteMeta(t.Username)+`($|\W)`))
	}
	if i != nil && !q.withSerials {
		words = append(words, identitiesOf(i)...)
	}
	// The longest first: one may be part of another.
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
	var pairs []string
	for _, w := range words {
		if len(w) >= 2 {
			pairs = append(pairs, w, masked)
		}
	}
	m.secrets = strings.NewReplacer(pairs...)
	return m
}

// identitiesOf lists the serial numbers and similar texts that are too long to be part of other words by chance.
func identitiesOf(i *bmc.Inventory) []string {
	var all []string
	plain(i, func(field, text string) string {
		if slices.Contains(identities, field) && len(text) >= 5 {
			all = append(all, text, strings.ToUpper(text))
		}
		return text
	})
	return all
}

// mask returns the text of a field without confidential parts.
func (m *masker) mask(field, text string) string {
	if field == "check" || field == "capability" || field == "verdict" || text == "" {
		return text // bmcctl's own words
	}
	if !m.withSerials {
		if slices.Contains(identities, field) {
			return masked
		}
		text = serials.ReplaceAllString(text, `serial "`+masked+`"`)
	}
	text = peers.ReplaceAllString(m.secrets.Replace(text), masked)
	for _, name := range m.names {
		for range 2 { // matches that share a separator are not found at once
			text = name.ReplaceAllString(text, "${1}"+masked+"${2}")
		}
	}
	if !slices.Contains(versions, field) {
		text = ipv6s.ReplaceAllStringFunc(ipv4s.ReplaceAllStringFunc(text, maskAddress), maskAddress)
	}
	if !m.withSerials {
		text = macs.ReplaceAllString(uuids.ReplaceAllString(text, masked), masked)
	}
	return text
}

// maskAddress masks an IP address.
func maskAddress(text string) string {
	bare := strings.TrimRight(text, ".:")
	address, err := netip.ParseAddr(bare)
	if strings.HasSuffix(text, "::") {
		address, err = netip.ParseAddr(text)
		bare = text
	}
	if err != nil || address == netip.IPv6Unspecified() {
		return text
	}
	return masked + strings.TrimPrefix(text, bare)
}
