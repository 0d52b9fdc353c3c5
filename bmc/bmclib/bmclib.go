// Package bmclib speaks to BMCs through the providers of github.com/bmc-toolbox/bmclib: Intel AMT, webhooks, and the ipmitool
// program. What the providers leave out is done here: certificates are verified, requests are paced and bounded, errors have a
// kind, and an answer that could not be read is never taken for "off".
package bmclib

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/bmc"
)

// The URL schemes of this driver.
const (
	// SchemeAMT is Intel AMT with TLS, SchemeAMTInsecure without.
	SchemeAMT         = "amt"
	SchemeAMTInsecure = "amt+http"
	// SchemeRPC is a webhook with TLS, SchemeRPCInsecure without.
	SchemeRPC         = "rpc+https"
	SchemeRPCInsecure = "rpc+http"
	// SchemeIpmitool is IPMI 2.0 spoken by the ipmitool program.
	SchemeIpmitool = "ipmitool"
)

// Driver opens connections through bmclib's providers. The zero value is ready.
type Driver struct {
	// Permit is which addresses BMCs may have.
	Permit bmc.AllowList
	// CallTimeout bounds one call of a client, with all its requests. Defaults to 30 s.
	CallTimeout time.Duration
	// Ipmitool is the path of the ipmitool program. Defaults to the one that is found in PATH.
	Ipmitool string
}

// maxIpmitool is how many BMCs may be spoken to by ipmitool at once. Each has a process of some MiB.
const maxIpmitool = 32

// Drivers returns the drivers by URL scheme, for bmc.NewPool.
func (d *Driver) Drivers() map[string]bmc.Driver {
	return map[string]bmc.Driver{
		SchemeAMT:         {Open: d.OpenAMT},
		SchemeAMTInsecure: {Open: d.OpenAMT},
		SchemeRPC:         {Open: d.OpenRPC, Peer: rpcPeer},
		SchemeRPCInsecure: {Open: d.OpenRPC, Peer: rpcPeer},
		SchemeIpmitool:    {Open: d.OpenIpmitool, Limit: maxIpmitool},
	}
}

// rpcPeer: behind one webhook are many BMCs, told apart by path and query.
func rpcPeer(e bmc.Endpoint) string { return e.URL.Host + e.URL.RequestURI() }

func (d *Driver) callTimeout() time.Duration { return cmp.Or(d.CallTimeout, 30*time.Second) }

// address reads the host and the port of a BMC's URL. The port defaults to the one given.
func address(u *url.URL, port int) (host string, _ int, err error) {
	if u.Hostname() == "" {
		return "", 0, &bmc.Error{Kind: bmc.NotFound, Op: "Read the address", Err: errors.New("it names no host")}
	}
	if text := u.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return "", 0, &bmc.Error{Kind: bmc.NotFound, Op: "Read the address", Err: fmt.Errorf("%q is no port", text)}
		}
	}
	return u.Hostname(), port, nil
}

// onlyParameters refuses a URL with other parameters than those named, and with a path: who misspells one must learn it.
func onlyParameters(u *url.URL, names ...string) error {
	if u.Path != "" && u.Path != "/" {
		return &bmc.Error{Kind: bmc.Unsupported, Op: "Read the address", Err: fmt.Errorf("the path %q means nothing here", u.Path)}
	}
	for name := range u.Query() {
		if !slices.Contains(names, name) {
			return &bmc.Error{Kind: bmc.Unsupported, Op: "Read the address", Err: fmt.Errorf("the parameter %q is not known", name)}
		}
	}
	return nil
}
