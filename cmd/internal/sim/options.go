package sim

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc/bmctest"
)

// options are the flags and the values that are derived from them.
type options struct {
	redfish, ipmi               int
	listen, ipmiListen, control string
	advertise, prefix           string
	username, passwordFile      string
	tlsCA, hosts                string
	powerDelay, bootDelay       time.Duration
	on                          bool
	faultFlags                  []string

	redfishFirst, ipmiFirst netip.AddrPort
	password                string
	defaultPassword         bool
	faults                  map[bmctest.Fault]int
}

func (o *options) flags() *pflag.FlagSet {
	set := pflag.NewFlagSet("bmcsim", pflag.ContinueOnError)
	set.SortFlags = false
	set.Usage = func() {}
	set.IntVar(&o.redfish, "redfish", 0, "Number of servers with a Redfish BMC.")
	set.IntVar(&o.ipmi, "ipmi", 0, "Number of servers with an IPMI BMC.")
	set.StringVar(&o.listen, "listen", "127.0.0.1:8000", "IP `address` with the first TCP port of the Redfish servers. Port 0 uses any free ports.")
	set.StringVar(&o.ipmiListen, "ipmi-listen", "", "IP `address` with the first UDP port of the IPMI servers. Defaults to port 6230 at the address of --listen.")
	set.StringVar(&o.advertise, "advertise", "", "Host `name` or IP address in the URLs of the servers. Defaults to the address of --listen.")
	set.StringVar(&o.control, "control", "127.0.0.1:7999", "TCP `address` of the control server, which has no password. An empty value disables it.")
	set.StringVar(&o.username, "username", "", "User `name` of every BMC. Defaults to BMC_USERNAME in the environment, and then to admin.")
	set.StringVar(&o.passwordFile, "password-file", "", "The `file` with the password of every BMC. Defaults to BMC_PASSWORD in the environment, and then to password.")
	set.StringVar(&o.tlsCA, "tls-ca", "", "Serve Redfish with TLS. bmcsim creates a CA at each start, and writes its certificate to this `file`.")
	set.StringVar(&o.hosts, "hosts", "", "Write the BareMetalHosts and Secrets of all servers, with the password, to this `file`; - means standard output.")
	set.StringVar(&o.prefix, "prefix", "sim", "Prefix of the servers' names. It also determines their MAC addresses and UUIDs.")
	set.BoolVar(&o.on, "on", false, "Start with the servers powered on.")
	set.DurationVar(&o.powerDelay, "power-delay", 0, "Duration of each change of the power state.")
	set.DurationVar(&o.bootDelay, "boot-delay", 0, "Time after power-on until the operating system accepts a shutdown request.")
	set.StringSliceVar(&o.faultFlags, "fault", nil, "Comma-separated `faults` of every server whose protocol has them, from the start: NAME, or NAME=TIMES.")
	return set
}

// namePrefix matches valid prefixes of Kubernetes names.
var namePrefix = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)

// complete validates the flags. The error names the wrong one.
func (o *options) complete(getenv func(string) string) error {
	switch {
	case o.redfish < 0 || o.ipmi < 0:
		return errors.New("--redfish and --ipmi are numbers of servers: use 0 or more")
	case o.redfish+o.ipmi == 0:
		return errors.New("there is no server to simulate: use --redfish N, --ipmi N or both")
	case o.powerDelay < 0 || o.bootDelay < 0:
		return errors.New("--power-delay and --boot-delay cannot be negative")
	case !namePrefix.MatchString(o.prefix):
		return fmt.Errorf("--prefix: %q is not a valid prefix of the name of a Kubernetes object: use up to 40 of a-z, 0-9 and '-', a letter first", o.prefix)
	}
	return cmp.Or(o.completeAddresses(), o.completeCredentials(getenv), o.completeFaults())
}

func (o *options) completeAddresses() (err error) {
	if o.redfishFirst, err = addressOf("--listen", o.listen, o.redfish); err != nil {
		return err
	}
	if o.ipmiListen == "" {
		o.ipmiListen = netip.AddrPortFrom(o.redfishFirst.Addr(), 6230).String()
	}
	if o.ipmiFirst, err = addressOf("--ipmi-listen", o.ipmiListen, o.ipmi); err != nil {
		return err
	}
	if (o.redfish > 0 && o.redfishFirst.Addr().IsUnspecified() || o.ipmi > 0 && o.ipmiFirst.Addr().IsUnspecified()) && o.advertise == "" {
		return errors.New("the servers listen on every address of this machine: set the address for their URLs with --advertise")
	}
	if strings.ContainsAny(o.advertise, "/@ []") || strings.Contains(o.advertise, ":") && net.ParseIP(o.advertise) == nil {
		return fmt.Errorf("--advertise: %q is neither a host name nor an IP address: omit scheme, port and brackets", o.advertise)
	}
	if o.control != "" {
		_, err = addressOf("--control", o.control, 1)
	}
	return err
}

// addressOf reads an address whose port is followed by enough ports for the servers.
func addressOf(flag, text string, servers int) (netip.AddrPort, error) {
	address, err := netip.ParseAddrPort(text)
	if err != nil {
		return address, fmt.Errorf("%s: %q is not an IP address with a port: write it like 127.0.0.1:8000 or [::1]:8000", flag, text)
	}
	if room := 1<<16 - int(address.Port()); address.Port() != 0 && servers > room {
		return address, fmt.Errorf("%s %s leaves ports for only %d of %d servers: use a lower port", flag, text, room, servers)
	}
	return address, nil
}

func (o *options) completeCredentials(getenv func(string) string) error {
	o.username = cmp.Or(o.username, getenv("BMC_USERNAME"), "admin")
	o.password = getenv("BMC_PASSWORD")
	if o.passwordFile != "" {
		content, err := os.ReadFile(o.passwordFile)
		if err != nil {
			return fmt.Errorf("--password-file: %w", err)
		}
		if o.password = strings.TrimRight(string(content), "\r\n"); o.password == "" {
			return fmt.Errorf("--password-file: %s is empty: write the password into it", o.passwordFile)
		}
	}
	if o.password == "" {
		o.password, o.defaultPassword = "password", true
	}
	if o.ipmi > 0 && (len(o.username) > 16 || len(o.password) > 20) {
		return errors.New("IPMI allows user names of up to 16 bytes and passwords of up to 20: use shorter ones")
	}
	return nil
}

func (o *options) completeFaults() error {
	o.faults = map[bmctest.Fault]int{}
	for _, text := range o.faultFlags {
		name, times, limited := strings.Cut(text, "=")
		fault := bmctest.Fault(name)
		if _, ok := bmctest.Faults[fault]; !ok {
			return fmt.Errorf("--fault: %s", noFault(name))
		}
		if info := bmctest.Faults[fault]; (!info.Redfish || o.redfish == 0) && (!info.IPMI || o.ipmi == 0) {
			return fmt.Errorf("--fault: only %s has the fault %s, and there is no such server: add --%s N",
				strings.Join(protocolsOf(info), " and "), name, strings.ToLower(protocolsOf(info)[0]))
		}
		o.faults[fault] = forEver
		if limited {
			n, err := strconv.Atoi(times)
			if err != nil || n < 1 {
				return fmt.Errorf("--fault %s: %q is not a number: write NAME, or NAME=N with N from 1", text, times)
			}
			o.faults[fault] = n
		}
	}
	return nil
}

// forEver as a number of times means no limit.
const forEver = -1

// noFault is the error text for an unknown fault.
func noFault(name string) string {
	return fmt.Sprintf("the fault %q is unknown: use one of %s", name, strings.Join(faultNames(), ", "))
}

func faultNames() []string {
	names := make([]string, 0, len(bmctest.Faults))
	for f := range bmctest.Faults {
		names = append(names, string(f))
	}
	slices.Sort(names)
	return names
}
