// Package bmclib controls BMCs with the providers of github.com/bmc-toolbox/bmclib v2.3.5: Intel AMT, webhooks, and the ipmitool
// program. This package adds what the providers do not do: it verifies certificates, throttles and limits requests, returns errors
// with a kind, and never reports "off" after a response that it cannot read. Each workaround names its condition for deletion.
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

// Driver opens connections with bmclib's providers. The zero value is ready.
type Driver struct {
	// Permit defines the addresses that BMCs may have.
	Permit bmc.AllowList
	// CallTimeout limits one call of a client, with all its requests. Defaults to 30 s.
	CallTimeout time.Duration
	// Ipmitool is the path of the ipmitool program. Defaults to ipmitool in PATH.
	Ipmitool string
}

// maxIpmitool is the maximum number of concurrent ipmitool processes. Each needs some MiB.
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

// rpcPeer names the BMC by path and query too, because one webhook serves many BMCs.
func rpcPeer(e bmc.Endpoint) string { return e.URL.Host + e.URL.RequestURI() }

func (d *Driver) callTimeout() time.Duration { return cmp.Or(d.CallTimeout, 30*time.Second) }

// address returns the host and the port of a BMC's URL. port is the default.
func address(u *url.URL, port int) (host string, _ int, err error) {
	if u.Hostname() == "" {
		return "", 0, &bmc.Error{Kind: bmc.NotFound, Op: "Read the address", Err: errors.New("it names no host")}
	}
	if text := u.Port(); text != "" {
		if port, err = strconv.Atoi(text); err != nil || port < 1 || port > 65535 {
			return "", 0, &bmc.Error{Kind: bmc.NotFound, Op: "Read the address", Err: fmt.Errorf("the port %q is invalid", text)}
		}
	}
	return u.Hostname(), port, nil
}

// onlyParameters refuses a URL with other parameters than those named, or with a path, so that users notice misspelled ones.
func onlyParameters(u *url.URL, names ...string) error {
	if u.Path != "" && u.Path != "/" {
		return &bmc.Error{Kind: bmc.Unsupported, Op: "Read the address", Err: fmt.Errorf("the path %q is not supported: remove it", u.Path)}
	}
	for name := range u.Query() {
		if !slices.Contains(names, name) {
			return &bmc.Error{Kind: bmc.Unsupported, Op: "Read the address", Err: fmt.Errorf("the parameter %q is unknown", name)}
		}
	}
	return nil
}
