package bmc

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Warning is what a user should correct before a server gets work. Check is a word for what was checked, Message says what was found and what to do.
type Warning struct {
	Check   string `json:"check"`
	Message string `json:"message"`
}

func (w Warning) String() string { return w.Check + ": " + w.Message }

const (
	// maxClockDifference is how far the clock of a BMC may differ. The entries of its log then still fit to those of others.
	maxClockDifference = 5 * time.Minute
	// manySessions is how many open sessions are many: iDRAC accepts 8 at once, for all users and programs together. What other BMCs list may have expired.
	manySessions = 6
)

// CheckConnection returns what the user should correct about the connection to a BMC.
func CheckConnection(address *url.URL, insecureSkipVerify bool) []Warning {
	switch {
	case address != nil && strings.HasSuffix(address.Scheme, "+http"):
		return []Warning{{"TLS", "the connection is not encrypted: who is on the network of the BMC can read its password. Enable HTTPS in the BMC"}}
	case insecureSkipVerify:
		return []Warning{{"TLS", "the certificate of the BMC is not verified: who takes its address gets the password. Name the CA of the certificate"}}
	default:
		return nil
	}
}

// CheckMedia returns a warning if a BMC cannot boot its server from virtual media. Whether it refuses to insert a medium without a licence shows only when that is tried.
func CheckMedia(capabilities []Capability) []Warning {
	if slices.Contains(capabilities, CanVirtualMedia) && slices.Contains(capabilities, CanBootCD) {
		return nil
	}
	return []Warning{{"Virtual media", "the server cannot boot from virtual media: the BMC may need a licence for it, or the account a right"}}
}

// CheckDescription returns what the user should correct at a BMC: its open sessions and its clock.
func CheckDescription(d Description) []Warning {
	var all []Warning
	if strings.Contains(strings.ToLower(d.Vendor), "dell") && d.OpenSessions >= manySessions {
		all = append(all, Warning{"Sessions", fmt.Sprintf("at least %d sessions are open in the BMC, which accepts 8. End those of programs that do not log out", manySessions)})
	}
	if ahead := d.ClockAhead; ahead != nil && ahead.Abs() > maxClockDifference {
		word := "ahead"
		if *ahead < 0 {
			word = "behind"
		}
		all = append(all, Warning{"Clock", fmt.Sprintf("the clock of the BMC is %s %s: set the time servers of the BMC", coarse(ahead.Abs()), word)})
	}
	return all
}

// CheckNICs returns what the user should correct about the interfaces that boot from the network, by their MAC addresses in lower case. Without any, it checks all
// interfaces. nics must be all that the BMC has, as IsComplete says.
func CheckNICs(nics []NIC, macs ...string) []Warning {
	if len(macs) == 0 && len(nics) > 0 && !slices.ContainsFunc(nics, func(n NIC) bool { return !networkBootOff(n) }) {
		return []Warning{{"Network boot", "it is disabled for all interfaces: " + enableNetworkBoot}}
	}
	var all []Warning
	for _, mac := range macs {
		all = append(all, checkNIC(nics, mac)...)
	}
	return all
}

const enableNetworkBoot = "enable network boot (PXE or HTTP) in the settings of the firmware"

func networkBootOff(n NIC) bool { return n.NetworkBoot != nil && !*n.NetworkBoot }

func checkNIC(nics []NIC, mac string) []Warning {
	at := slices.IndexFunc(nics, func(n NIC) bool { return n.MACAddress == mac })
	switch {
	case len(nics) == 0:
		return nil
	case at < 0:
		return []Warning{{"Boot interface", fmt.Sprintf("the BMC lists no interface with the MAC address %s, but %s. Check it, unless this BMC leaves out interfaces", mac, macsOf(nics))}}
	case networkBootOff(nics[at]):
		return []Warning{{"Network boot", fmt.Sprintf("it is disabled for the interface %s (%s): %s", nics[at].Name, mac, enableNetworkBoot)}}
	default:
		return nil
	}
}

// IsComplete is true for a fact that is known from all its resources.
func IsComplete(f Fact) bool { return f.State == FactKnown && f.Message == "" }

// macsOf lists the first MAC addresses of interfaces.
func macsOf(nics []NIC) string {
	const most = 8
	var all []string
	for _, n := range nics[:min(len(nics), most)] {
		all = append(all, n.MACAddress)
	}
	if len(nics) > most {
		all = append(all, fmt.Sprintf("%d more", len(nics)-most))
	}
	return strings.Join(all, ", ")
}

// coarse is a duration that does not change with each reading.
func coarse(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days", int(d.Hours()/24))
	case d >= 2*time.Hour:
		return fmt.Sprintf("%d hours", int(d.Hours()))
	default:
		return fmt.Sprintf("%d minutes", int(d.Minutes()/5)*5)
	}
}
