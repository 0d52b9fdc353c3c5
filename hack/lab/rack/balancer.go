package rack

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/node"
	"github.com/capbm-io/cluster-api-provider-baremetal/hack/lab/proc"
)

// Balance starts a balancer, Debian's haproxy, at the endpoint of the control plane, so that there can be several control plane servers.
// Without a balancer the only control plane server has the endpoint itself. Call Balance before the first server is switched on.
//
// Like an operator's balancer it does not know the machines: its backends are all addresses that servers can have. It connects to those whose
// API server is ready.
func (r *Rack) Balance(ctx context.Context) error {
	program := filepath.Join(r.Bin, "..", "haproxy", "haproxy")
	if _, err := os.Stat(program); err != nil {
		return fmt.Errorf("haproxy is missing: run hack/balancer.sh: %w", err)
	}
	host, port := r.Endpoint()
	var config strings.Builder
	fmt.Fprintf(&config, `global
    maxconn 4096
defaults
    mode tcp
    timeout connect 2s
    timeout client 1h
    timeout server 1h
    timeout check 2s
    # The connection of a client whose server just went away goes to another one.
    retries 3
    option redispatch 1
listen api
    bind %s:%d
    balance roundrobin
    option httpchk GET /readyz
    http-check expect status 200
    # What is still open to a server that is gone would wait for an answer for ever.
    default-server check check-ssl verify none inter 1s fall 2 rise 1 on-marked-down shutdown-sessions
`, host, port)
	for i := firstLease; i <= lastLease; i++ {
		fmt.Fprintf(&config, "    server s%d %s\n", i, netip.AddrPortFrom(r.Address(1, byte(i)), node.APIPort))
	}
	path := filepath.Join(r.Dir, "haproxy.cfg")
	if err := os.WriteFile(path, []byte(config.String()), 0o600); err != nil {
		return err
	}
	var err error
	if r.balancer, err = proc.Start(ctx, r.Dir, "haproxy", nil, program, "-db", "-f", path); err != nil {
		return err
	}
	return r.balancer.Wait(ctx, time.Minute, listens(host, port))
}

// listens returns a check that a program listens.
func listens(host string, port uint16) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("%s:%d", host, port))
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// Addresses of servers end with these numbers.
const firstLease, lastLease = 1, 250
