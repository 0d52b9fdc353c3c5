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

// options are the flags, and what follows from them.
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
	set.IntVar(&o.redfish, "redfish", 0, "How many servers have a Redfish BMC.")
	set.IntVar(&o.ipmi, "ipmi", 0, "How many servers have an IPMI BMC.")
	set.StringVar(&o.listen, "listen", "127.0.0.1:8000", "Address and first TCP port of the Redfish servers. Port 0 takes any free ports.")
	set.StringVar(&o.ipmiListen, "ipmi-listen", "", "Address and first UDP port of the IPMI servers. Defaults to port 6230 at the address of --listen.")
	set.StringVar(&o.advertise, "advertise", "", "Name or address that the servers' URLs hold instead of the one listened on.")
	set.StringVar(&o.control, "control", "127.0.0.1:7999", `Address of the control server, which has no password; "" for none.`)
	set.StringVar(&o.username, "username", "", `User name of every BMC. Defaults to BMC_USERNAME in the environment, and then to "admin".`)
	set.StringVar(&o.passwordFile, "password-file", "", `File with the password of every BMC. Defaults to BMC_PASSWORD in the environment, and then to "password".`)
	set.StringVar(&o.tlsCA, "tls-ca", "", "Serve Redfish with TLS; this file gets the certificate of a CA that is made for it.")
	set.StringVar(&o.hosts, "hosts", "", `File that gets the BareMetalHosts and Secrets that register every server, "-" for standard output. It holds the password.`)
	set.StringVar(&o.prefix, "prefix", "sim", "How the servers' names begin. It decides their MAC addresses and UUIDs too.")
	set.BoolVar(&o.on, "on", false, "Start with the servers switched on.")
	set.DurationVar(&o.powerDelay, "power-delay", 0, "How long a server takes to switch on or off.")
	set.DurationVar(&o.bootDelay, "boot-delay", 0, "How long a server is on before its operating system hears a request to shut down.")
	set.StringSliceVar(&o.faultFlags, "fault", nil, "Fault that every server whose protocol has it begins with, NAME or NAME=TIMES; may be repeated.")
	return set
}

// namePrefix is what a Kubernetes name may begin with.
var namePrefix = regexp.MustCompile(`^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$`)

// complete checks the flags, and names the one that is wrong.
func (o *options) complete(getenv func(string) string) error {
	switch {
	case o.redfish < 0 || o.ipmi < 0:
		return errors.New("--redfish and --ipmi are numbers of servers: give 0 or more")
	case o.redfish+o.ipmi == 0:
		return errors.New("there is no server to simulate: give --redfish N, --ipmi N or both")
	case o.powerDelay < 0 || o.bootDelay < 0:
		return errors.New("--power-delay and --boot-delay cannot be negative")
	case !namePrefix.MatchString(o.prefix):
		return fmt.Errorf("--prefix: %q cannot begin the name of a Kubernetes object: use up to 40 of a-z, 0-9 and '-', a letter first", o.prefix)
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
		return errors.New("the servers listen on every address of this machine: say with --advertise which one their URLs shall hold")
	}
	if strings.ContainsAny(o.advertise, "/@ []") || strings.Contains(o.advertise, ":") && net.ParseIP(o.advertise) == nil {
		return fmt.Errorf("--advertise: %q is neither a host name nor an IP address: leave out scheme, port and brackets", o.advertise)
	}
	if o.control != "" {
		_, err = addressOf("--control", o.control, 1)
	}
	return err
}

// addressOf reads an address that has room for so many ports from its own on.
func addressOf(flag, text string, servers int) (netip.AddrPort, error) {
	address, err := netip.ParseAddrPort(text)
	if err != nil {
		return address, fmt.Errorf("%s: %q is no IP address with a port: write it like 127.0.0.1:8000 or [::1]:8000", flag, text)
	}
	if room := 1<<16 - int(address.Port()); address.Port() != 0 && servers > room {
		return address, fmt.Errorf("%s %s leaves ports for %d servers, and %d are asked for: begin at a lower port", flag, text, room, servers)
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
		return errors.New("IPMI knows user names of up to 16 bytes and passwords of up to 20: give shorter ones")
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
			return fmt.Errorf("--fault: %s is a fault of %s alone, and there is no such server: add --%s N", name,
				strings.Join(protocolsOf(info), " and "), strings.ToLower(protocolsOf(info)[0]))
		}
		o.faults[fault] = forEver
		if limited {
			n, err := strconv.Atoi(times)
			if err != nil || n < 1 {
				return fmt.Errorf("--fault %s: %q is no number of times: write NAME, or NAME=N with N from 1", text, times)
			}
			o.faults[fault] = n
		}
	}
	return nil
}

// forEver as a number of times leaves a fault switched on.
const forEver = -1

// noFault says that a fault is not known.
func noFault(name string) string {
	return fmt.Sprintf("there is no fault %q: take one of %s", name, strings.Join(faultNames(), ", "))
}

func faultNames() []string {
	names := make([]string, 0, len(bmctest.Faults))
	for f := range bmctest.Faults {
		names = append(names, string(f))
	}
	slices.Sort(names)
	return names
}
