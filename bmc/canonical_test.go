package bmc

import (
	"net/url"
	"testing"
)

func TestCanonicalHost(t *testing.T) {
	for given, want := range map[string]string{
		"redfish://10.0.0.1":                                  "10.0.0.1",
		"redfish://10.0.0.1:8443/x":                           "10.0.0.1:8443",
		"redfish://[::ffff:10.0.0.1]":                         "10.0.0.1",
		"redfish://[::FFFF:a00:1]:443":                        "10.0.0.1:443",
		"ipmi://[2001:DB8:0:0::7]":                            "[2001:db8::7]",
		"ipmi://[2001:db8:0:0:0:0:0:7]:623":                   "[2001:db8::7]:623",
		"redfish://[0:0:0:0:0:FFFF:10.0.0.1]":                 "10.0.0.1",
		"redfish://[2001:0db8:0000:0000:0000:0000:0000:0007]": "[2001:db8::7]",
		"redfish://[fe80::1%25eth0]":                          "[fe80::1%eth0]",
		"redfish://BMC-7.example.com.":                        "bmc-7.example.com",
		"redfish://bmc-7.example.com.:443":                    "bmc-7.example.com:443",
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
