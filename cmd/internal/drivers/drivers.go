// Package drivers is where the drivers for BMCs are chosen, for all programs alike.
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

// All returns the drivers by URL scheme, for bmc.NewPool. permit is which addresses BMCs may have.
func All(permit bmc.AllowList) map[string]bmc.Driver {
	all := (&bmclib.Driver{Permit: permit}).Drivers()
	overRedfish := (&redfish.Driver{Permit: permit}).Driver()
	all[redfish.Scheme], all[redfish.SchemeInsecure] = overRedfish, overRedfish
	all[ipmi.Scheme] = (&ipmi.Driver{Permit: permit}).Driver()
	return all
}

// NeedUsername is true for a URL scheme whose driver logs in with a user name. A webhook is shown to know the password, and no more.
func NeedUsername(scheme string) bool {
	return scheme != bmclib.SchemeRPC && scheme != bmclib.SchemeRPCInsecure
}

// Schemes lists the URL schemes of drivers as a person reads them: "ipmi://, redfish://".
func Schemes(all map[string]bmc.Driver) string {
	return strings.Join(slices.Sorted(maps.Keys(all)), "://, ") + "://"
}
