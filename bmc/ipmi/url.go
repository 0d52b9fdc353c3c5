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

// options are the settings in a URL.
type options struct {
	// address is host:port.
	address string
	// suites are the cipher suites to propose, in order of preference.
	suites []types.CipherSuiteID
	// privilege is the privilege level of the session.
	privilege types.PrivilegeLevel
}

// cipherSuites are those with authentication, integrity and encryption (IPMI 2.0, table 22-20), with SHA-256 and SHA-1. The other suites
// lack one of these, or use MD5 or RC4.
var cipherSuites = []types.CipherSuiteID{types.CipherSuiteID17, types.CipherSuiteID3}

// privileges are the levels by name. Operator is enough for this driver (IPMI 2.0, appendix G). Administrator is the default, because
// other tools use it, and BMCs are tested with it.
var privileges = map[string]types.PrivilegeLevel{
	"user": types.PrivilegeLevelUser, "operator": types.PrivilegeLevelOperator, "administrator": types.PrivilegeLevelAdministrator,
}

// parseURL reads a URL. Its errors do not quote credentials of the URL.
func parseURL(u *url.URL) (options, error) {
	opts := options{suites: cipherSuites, privilege: types.PrivilegeLevelAdministrator}
	switch {
	case u == nil || u.Scheme != Scheme:
		return opts, fmt.Errorf("the scheme is not %s", Scheme)
	case u.User != nil:
		return opts, errors.New("the URL contains credentials: put them into the Secret")
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
		return opts, fmt.Errorf("the port %q is invalid: use a number from 1 to 65535", port)
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
			return fmt.Errorf("the cipher suite %q is unknown or insecure: write cipherSuite=17 or cipherSuite=3", value)
		}
		o.suites = []types.CipherSuiteID{types.CipherSuiteID(n)}
	case "privilege":
		level, ok := privileges[value]
		if !ok {
			return fmt.Errorf("the privilege level %q is unknown: use one of %s", value, strings.Join(slices.Sorted(maps.Keys(privileges)), ", "))
		}
		o.privilege = level
	default:
		return fmt.Errorf("the parameter %q is unknown: IPMI has cipherSuite and privilege", name)
	}
	return nil
}
