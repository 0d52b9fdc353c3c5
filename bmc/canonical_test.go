package bmc

import (
	"net/netip"
	"net/url"
	"testing"

	"pgregory.net/rapid"

	_ "github.com/capbm-io/cluster-api-provider-baremetal/inventory/rapidtest" // the seed
)

func TestCanonicalHost(t *testing.T) {
	for given, want := range map[string]string{
		"redfish://10.0.0.1":                "10.0.0.1",
		"redfish://10.0.0.1:8443/x":         "10.0.0.1:8443",
		"redfish://[::ffff:10.0.0.1]":       "10.0.0.1",
		"redfish://[::FFFF:a00:1]:443":      "10.0.0.1:443",
		"ipmi://[2001:DB8:0:0::7]":          "[2001:db8::7]",
		"ipmi://[2001:db8:0:0:0:0:0:7]:623": "[2001:db8::7]:623",
		"redfish://[fe80::1%25eth0]":        "[fe80::1%eth0]",
		"redfish://BMC-7.example.com.":      "bmc-7.example.com",
		"redfish://bmc-7.example.com.:443":  "bmc-7.example.com:443",
	} {
		u, err := url.Parse(given)
		if err != nil {
			t.Fatal(err)
		}
		if got := CanonicalHost(u); got != want {
			t.Errorf("%s: %q, and not %q", given, got, want)
		}
	}
}

// TestPropertyCanonicalHost: all notations of an address have the same canonical one, which is its own.
func TestPropertyCanonicalHost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var bytes [16]byte
		copy(bytes[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "address"))
		if rapid.Bool().Draw(t, "mapped") {
			copy(bytes[:], []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff})
		}
		a := netip.AddrFrom16(bytes)
		want := CanonicalHostname(a.String())
		for _, notation := range []string{a.StringExpanded(), a.Unmap().String(), want} {
			if got := CanonicalHostname(notation); got != want {
				t.Fatalf("%s: %q, and not %q", notation, got, want)
			}
		}
	})
}
