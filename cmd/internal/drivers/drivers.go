// Package drivers selects the BMC drivers for all programs.
package drivers

import (
	"maps"
	"slices"
	"strings"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmclib"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/ipmi"
	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/redfish"
)

// All returns the drivers by URL scheme, for bmc.NewPool. permit defines the addresses that BMCs may have.
func All(permit bmc.AllowList) map[string]bmc.Driver {
	all := (&bmclib.Driver{Permit: permit}).Drivers()
	overRedfish := (&redfish.Driver{Permit: permit}).Driver()
	all[redfish.Scheme], all[redfish.SchemeInsecure] = overRedfish, overRedfish
	all[ipmi.Scheme] = (&ipmi.Driver{Permit: permit}).Driver()
	return all
}

// NeedUsername is true for a URL scheme whose driver needs a user name. A webhook needs only the password.
func NeedUsername(scheme string) bool {
	return scheme != bmclib.SchemeRPC && scheme != bmclib.SchemeRPCInsecure
}

// Schemes lists the URL schemes of drivers for messages: "ipmi://, redfish://".
func Schemes(all map[string]bmc.Driver) string {
	return strings.Join(slices.Sorted(maps.Keys(all)), "://, ") + "://"
}
