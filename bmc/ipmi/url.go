package ipmi

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/bougou/go-ipmi/pkg/types"
)

// defaultPort is RMCP's (IPMI 2.0, 13.1.2).
const defaultPort = "623"

// options are what a URL says.
type options struct {
	// address is host:port.
	address string
	// suites are the cipher suites to propose, the best first.
	suites []types.CipherSuiteID
	// privilege is the level that the session is opened with.
	privilege types.PrivilegeLevel
}

// cipherSuites are those that authenticate, check and encrypt (IPMI 2.0, table 22-20), with SHA-256 and SHA-1. The others leave
// something of that out, or use MD5 or RC4.
var cipherSuites = []types.CipherSuiteID{types.CipherSuiteID17, types.CipherSuiteID3}

// privileges are the levels by name. Operator is enough for what this driver does (IPMI 2.0, appendix G). Administrator is the
// default since it is what other tools ask for, and so what BMCs are tried with.
var privileges = map[string]types.PrivilegeLevel{
	"user": types.PrivilegeLevelUser, "operator": types.PrivilegeLevelOperator, "administrator": types.PrivilegeLevelAdministrator,
}

// parseURL reads a URL. Its errors hold nothing of the credentials that a URL might name.
func parseURL(u *url.URL) (options, error) {
	opts := options{suites: cipherSuites, privilege: types.PrivilegeLevelAdministrator}
	switch {
	case u == nil || u.Scheme != Scheme:
		return opts, fmt.Errorf("the scheme is not %s", Scheme)
	case u.User != nil:
		return opts, errors.New("the URL holds credentials: put them into the Secret")
	case u.Opaque != "" || u.Hostname() == "":
		return opts, errors.New("the URL names no host: write ipmi://host[:port]")
	case u.Path != "" && u.Path != "/":
		return opts, fmt.Errorf("IPMI has no paths: remove %q from the URL", u.Path)
	case u.Fragment != "":
		return opts, fmt.Errorf("IPMI has no fragments: remove %q from the URL", "#"+u.Fragment)
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return opts, fmt.Errorf("the port %q is none: it is a number from 1 to 65535", port)
	}
	opts.address = net.JoinHostPort(u.Hostname(), port)
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return opts, errors.New("the query of the URL cannot be read: write ?cipherSuite=17&privilege=operator, or leave it out")
	}
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if len(query[name]) != 1 {
			return opts, fmt.Errorf("the URL names %q more than once", name)
		}
		if err := opts.set(name, query[name][0]); err != nil {
			return opts, err
		}
	}
	return opts, nil
}

// set sets one parameter of the query.
func (o *options) set(name, value string) error {
	switch name {
	case "cipherSuite":
		n, err := strconv.ParseUint(value, 10, 8)
		if err != nil || !slices.Contains(cipherSuites, types.CipherSuiteID(n)) {
			return fmt.Errorf("the cipher suite %q is none that authenticates, checks and encrypts well: write cipherSuite=17 or cipherSuite=3", value)
		}
		o.suites = []types.CipherSuiteID{types.CipherSuiteID(n)}
	case "privilege":
		level, ok := privileges[value]
		if !ok {
			return fmt.Errorf("the privilege level %q is none of %s", value, strings.Join(slices.Sorted(maps.Keys(privileges)), ", "))
		}
		o.privilege = level
	default:
		return fmt.Errorf("the parameter %q is unknown: IPMI has cipherSuite and privilege", name)
	}
	return nil
}
