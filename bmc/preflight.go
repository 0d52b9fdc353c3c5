package bmc

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Warning is what a user should correct before a server gets work. Check is a word for what was checked, Message says what was found and what to do.
type Warning struct {
	Check   string `json:"check"`
	Message string `json:"message"`
}

// CheckCapabilities is the check that the BMC can do what a boot needs.
const CheckCapabilities = "Capabilities"

func (w Warning) String() string { return w.Check + ": " + w.Message }

const (
	// maxClockDifference is how far the clock of a BMC may differ. The entries of its log then still fit to those of others.
	maxClockDifference = 5 * time.Minute
	// manySessions is how many open sessions are many: iDRAC accepts 8 at once, for all users and programs together.
	manySessions = 6
)

// CheckBMC returns what the user should correct at a BMC before its server gets work, the most important first. needsMedia is true for a server that shall boot from virtual media
// alone.
func CheckBMC(e Endpoint, d Description, needsMedia bool) []Warning {
	var all []Warning
	warn := func(check, message string, args ...any) {
		all = append(all, Warning{check, fmt.Sprintf(message, args...)})
	}
	for _, missing := range MissingForNetworkBoot(d.Capabilities) {
		if !needsMedia || missing != CanBootPXE {
			warn(CheckCapabilities, "the BMC lacks %s: the account may lack a right, or the BMC a licence or newer firmware", missing)
		}
	}
	if needsMedia && !slices.Contains(d.Capabilities, CanVirtualMedia) {
		warn("Virtual media", "the BMC offers no virtual drive: it may need a licence, or the account a right")
	}
	switch {
	case e.URL != nil && strings.HasSuffix(e.URL.Scheme, "+http"):
		warn("TLS", "the connection is not encrypted: who is on the network of the BMC can read its password. Enable HTTPS in the BMC")
	case e.InsecureSkipVerify:
		warn("TLS", "the certificate of the BMC is not verified: who takes its address gets the password. Name the CA of the certificate")
	}
	if d.OpenSessions >= manySessions {
		warn("Sessions", "%d sessions are open in the BMC: some models accept 8. End those of programs that do not log out", d.OpenSessions)
	}
	if ahead := d.ClockAhead; ahead != nil && ahead.Abs() > maxClockDifference {
		word := "ahead"
		if *ahead < 0 {
			word = "behind"
		}
		warn("Clock", "the clock of the BMC is %s %s: set the time servers of the BMC", coarse(ahead.Abs()), word)
	}
	return all
}

// CheckNICs returns what the user should correct about the interface that boots from the network, by its MAC address in lower case. Without one, it checks all interfaces.
func CheckNICs(nics []NIC, mac string) []Warning {
	isOff := func(n NIC) bool { return n.NetworkBoot != nil && !*n.NetworkBoot }
	const check, enable = "Network boot", "enable network boot (PXE or HTTP) in the settings of the firmware"
	at := slices.IndexFunc(nics, func(n NIC) bool { return n.MACAddress == mac })
	switch {
	case mac == "" && len(nics) > 0 && !slices.ContainsFunc(nics, func(n NIC) bool { return !isOff(n) }):
		return []Warning{{check, "it is disabled for all interfaces: " + enable}}
	case mac == "" || len(nics) == 0:
		return nil
	case at < 0:
		return []Warning{{"Boot interface", fmt.Sprintf("the BMC lists no interface with the MAC address %s, but %s: check it", mac, macsOf(nics))}}
	case isOff(nics[at]):
		return []Warning{{check, fmt.Sprintf("it is disabled for the interface %s (%s): %s", nics[at].Name, mac, enable)}}
	default:
		return nil
	}
}

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
